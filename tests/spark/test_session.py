"""Sessions: shared, quiet, as the user wants them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidelog.errors import TidelogError
from tidelog.spark import session as sessions
from tidelog.spark.session import SessionSettings, scratch_folder


def test_a_given_session_is_used(spark: SparkSession) -> None:
    assert SessionSettings(spark, master="spark://elsewhere:7077").start() is spark


def test_a_running_session_is_shared(spark: SparkSession) -> None:
    assert SessionSettings().start() is spark
    memory = spark.sparkContext.getConf().get("spark.driver.memory", "")
    assert SessionSettings(master="local[2]", conf={"spark.driver.memory": memory}).start() is spark


def test_a_running_session_takes_what_it_can(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.adaptive.enabled", None)
    SessionSettings(conf={"spark.sql.adaptive.enabled": "false"}).start()
    assert spark.conf.get("spark.sql.adaptive.enabled", None) == "false"
    spark.conf.set("spark.sql.adaptive.enabled", before or "true")


def test_a_running_session_on_another_master(spark: SparkSession) -> None:
    with pytest.raises(
        TidelogError, match=r"E626.*on local\[2\] is already running, so none can start on local"
    ):
        SessionSettings(master="local[1]").start()


def test_a_running_session_with_other_settings(spark: SparkSession) -> None:
    with pytest.raises(TidelogError, match=r"E626.*spark.driver.memory=77m"):
        SessionSettings(conf={"spark.driver.memory": "77m"}).start()


def test_defaults(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.bindAddress", None) == "127.0.0.1"
    assert spark.conf.get("spark.driver.host", None) == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.session.timeZone", None) == "UTC"
    assert str(scratch_folder()) in (spark.conf.get("spark.sql.warehouse.dir", None) or "")


def test_workers_run_this_python(spark: SparkSession) -> None:
    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        import tidelog

        for _ in batches:
            yield pa.record_batch({"python": [sys.executable], "package": [tidelog.__file__]})

    told = spark.range(1, numPartitions=1).mapInArrow(tell, "python string, package string").toArrow()
    import tidelog

    assert told.to_pylist() == [{"python": sys.executable, "package": tidelog.__file__}]


def test_user_defaults_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.master   spark://10.1.2.3:7077\n\nspark.ui.enabled = true\n"
    )
    settings = sessions._defaults({})
    assert settings["spark.master"] == "spark://10.1.2.3:7077"
    assert not {"spark.ui.enabled", "spark.driver.host", "spark.driver.bindAddress"} & settings.keys()
    assert sessions._defaults({"spark.master": "local[1]"})["spark.driver.host"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["local", "local[*]", "spark://127.0.0.1:7077", "spark://localhost:1"])
def test_masters_on_this_machine(master: str) -> None:
    assert sessions._defaults({"spark.master": master})["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["yarn", "spark://10.0.0.1:7077", "k8s://https://127.0.0.1:443"])
def test_masters_elsewhere(master: str) -> None:
    assert "spark.driver.bindAddress" not in sessions._defaults({"spark.master": master})


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(TidelogError, match=r"E624(.|\n)*help: pip install 'tidelog\[spark\]'"):
        SessionSettings().start()


SCRIPT = """
from tidelog.spark.session import SessionSettings
try:
    session = SessionSettings(conf={conf}).start()
except Exception as error:
    print(error)
else:
    print(session.range(3).count())
    session.createDataFrame([(1,)], "x int").write.saveAsTable("numbers")
"""


def run_alone(folder: Path, conf: dict[str, str], **environment: str) -> tuple[str, str]:
    """What a process of its own says."""
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(conf=conf)],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(temporary)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


@pytest.mark.slow
def test_the_command_line_says_where_the_spark_ui_is(tmp_path: Path) -> None:
    (tmp_path / "p.rls").write_text("p(a, b) . q(?x, ?y) :- p(?x, ?y) . q(?x, ?z) :- q(?x, ?y), p(?y, ?z) .")
    settings = ("spark.ui.enabled=true", "spark.driver.memory=1g")
    conf = [word for setting in settings for word in ("--conf", setting)]
    done = subprocess.run(
        [sys.executable, "-m", "tidelog", "run", "p.rls", "--engine", "spark", *conf],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "the Spark UI is at http://127.0.0.1:40" in done.stderr


@pytest.mark.slow
def test_nothing_is_said_and_nothing_stays(tmp_path: Path) -> None:
    assert run_alone(tmp_path, {"spark.driver.memory": "1g"}) == ("3\n", "")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_a_session_that_cannot_start(tmp_path: Path) -> None:
    output, _ = run_alone(tmp_path, {"spark.driver.memory": "a lot"})
    assert "error[E627]: Spark does not start: " in output
