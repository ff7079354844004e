"""A server of Spark Connect in a process of its own, whose workers have no tidelog: it is sent to them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

import tidelog as tl
from tidelog import spark as ts
from tidelog.errors import Diagnostic
from tidelog.spark.session import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

PATIENCE = 300.0
SITE = Path(pyspark.__file__).parents[1]
WORKERS = "spark.sql.execution.pyspark.python"  # the Python of a session's workers
OURS = re.compile(r".*tidelog.*|.*\.pth|__pycache__")

PROGRAM = """
@declare edge(x: string, y: string) .
reach(?x, ?y) :- edge(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
hops(?x, #count(?y)) :- reach(?x, ?y) .
"""
EDGES = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("x", "y")]


def python_without(folder: Path, *missing: str) -> Path:
    """Return a Python with the packages of this one, but for tidelog and some others."""
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    for path in SITE.iterdir():
        if not OURS.fullmatch(path.name) and path.name not in missing:
            (packages / path.name).symlink_to(path)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pythons of workers, by what they lack besides tidelog; one has another version of it."""
    folder = tmp_path_factory.mktemp("pythons")
    found = {name: python_without(folder / name, name) for name in ("nothing", "numpy", "pyarrow", "old")}
    (old,) = (folder / "old").glob("lib/python3*/site-packages")
    (old / "tidelog").mkdir()
    (old / "tidelog" / "__init__.py").write_text("__version__ = '0.0.1'\n")
    told = subprocess.run(
        [found["nothing"], "-c", "import tidelog"], capture_output=True, env={}, check=False
    )
    assert b"No module named 'tidelog'" in told.stderr
    return found


@contextmanager
def served(python: Path, folder: Path) -> Iterator[str]:
    """In the block, a server runs; gives its address."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    home = Path(pyspark.__file__).parent
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK_"))}
    environment = kept | {
        "JAVA_HOME": str(find_java(folder)),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.ui.enabled": "false",
    }
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", *settings, "--class", main]
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for(port, process, folder / "log.txt")
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


@pytest.fixture(scope="module")
def address(pythons: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(pythons["nothing"], tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture
def remote(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session of its own on the server."""
    from pyspark.sql.connect.session import SparkSession as Client

    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.delenv("SPARK_LOCAL_REMOTE", raising=False)
    session: Any = Client.builder.remote(address).create()
    yield session
    session.client.close()


def rows_of(frame: Any) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in frame.collect()}


def embedded(program: str = PROGRAM) -> tl.Reasoner:
    reasoner = tl.Reasoner(program)
    reasoner.insert("edge", EDGES)
    return reasoner


def test_frames_are_derived_by_workers_that_had_no_tidelog(remote: SparkSession) -> None:
    edges = remote.createDataFrame(EDGES, "x string, y string")
    checked = ts.check(PROGRAM, {"edge": edges})
    assert checked.strategy == "task" and set(checked) == {"reach", "hops"}
    expected = embedded()
    for how in ({}, {"partitions": 2}):
        with ts.derive(PROGRAM, {"edge": edges}, **how).persist() as derived:
            for name in ("reach", "hops"):
                assert rows_of(derived[name]) == set(expected[name])
    asked = 'reach("a", ?to)'
    assert rows_of(ts.query(PROGRAM, asked, {"edge": edges})) == set(expected.query(asked))
    fact = 'reach("b", "d")'
    assert str(ts.explain(PROGRAM, fact, {"edge": edges})) == str(expected.explain(fact))


def test_errors_of_data_come_back_as_they_are(remote: SparkSession) -> None:
    edges = remote.createDataFrame([("a", "x")], "x string, n string")
    program = "@declare edge(x: string, n: int) . p(?x) :- edge(?x, _) ."
    with pytest.raises(Exception, match=r"DataError: error\[E504\]: 'x' is not an integer"):
        ts.derive(program, {"edge": edges})["p"].collect()


def failing(session: SparkSession) -> Diagnostic:
    """Return what is said where a program cannot run."""
    edges = session.createDataFrame(EDGES, "x string, y string")
    with pytest.raises(tl.ProgramError) as told:
        ts.explain(PROGRAM, 'reach("a", "b")', {"edge": edges})
    (fault,) = told.value.diagnostics
    assert fault.code == "E868"
    return fault


@pytest.mark.parametrize("missing", ["numpy", "pyarrow"])
def test_what_workers_lack_is_said(remote: SparkSession, pythons: dict[str, Path], missing: str) -> None:
    remote.conf.set(WORKERS, str(pythons[missing]))
    fault = failing(remote)
    assert fault.message == f"a worker of Spark has no {missing}"
    assert fault.place == f"{pythons[missing]}, Python 3.{sys.version_info.minor}"
    assert (fault.help or "").startswith("install it there")


def test_tidelog_that_is_not_sent_is_missing(remote: SparkSession) -> None:
    remote.conf.set("spark.tidelog.ship", "false")
    fault = failing(remote)
    assert fault.message == "a worker of Spark has no tidelog" and "spark.tidelog.ship=true" in str(
        fault.help
    )


def test_what_is_sent_goes_before_another_version_on_workers(
    remote: SparkSession, pythons: dict[str, Path]
) -> None:
    remote.conf.set(WORKERS, str(pythons["old"]))
    edges = remote.createDataFrame(EDGES, "x string, y string")
    assert ts.derive(PROGRAM, {"edge": edges})["hops"].count() == 4


def test_another_version_on_workers_is_an_error(remote: SparkSession, pythons: dict[str, Path]) -> None:
    remote.conf.set(WORKERS, str(pythons["old"]))
    remote.conf.set("spark.tidelog.ship", "false")
    assert failing(remote).message == f"a worker of Spark has tidelog 0.0.1, the driver {tl.__version__}"


def batches(session: SparkSession, folder: Path) -> Any:
    """Return a stream of the files of a folder: rows that come and go."""
    (folder / "one.csv").write_text("".join(f"{x},{y},+\n" for x, y in EDGES))
    reader = session.readStream.schema("x string, y string, op string").option("maxFilesPerTrigger", "1")
    return reader.csv(str(folder))


def test_batches_of_a_stream_are_applied_where_the_server_runs_them(
    remote: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    maintained = ts.maintain(PROGRAM, tmp_path / "store", predicate="edge")
    stream = batches(remote, tmp_path / "in")
    checkpoint = str(tmp_path / "checkpoint")

    def run() -> set[tuple[Any, ...]]:
        writer = stream.writeStream.foreachBatch(maintained).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        assert query.exception() is None
        return set(tl.open(tmp_path / "store", read_only=True)["reach"])

    reasoner = embedded()
    assert run() == set(reasoner["reach"])
    (tmp_path / "in" / "two.csv").write_text("c,a,-\n")
    with reasoner.change() as change:
        change.delete("edge", [("c", "a")])
    assert run() == set(reasoner["reach"])


def test_tables_are_maintained_in_the_process_of_the_client(remote: SparkSession, tmp_path: Path) -> None:
    reasoner = embedded()
    with ts.maintain(PROGRAM, tmp_path / "store", app_id="client") as maintained:
        maintained.apply({"edge": remote.createDataFrame(EDGES, "x string, y string")}, batch_id=0)
        current = remote.createDataFrame([row for row in EDGES if row != ("c", "a")], "x string, y string")
        changed = maintained.replace({"edge": current}, batch_id=1)
        with reasoner.change() as change:
            change.delete("edge", [("c", "a")])
        assert rows_of(changed["edge"]) == {("c", "a", "delete")}
        assert set(maintained.reasoner["reach"]) == set(reasoner["reach"])
