"""Jobs whose tables and sources are in an object store: a server that speaks S3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from tests.object_store import object_store
from tests.pipeline.conftest import RULES, Write
from tests.pipeline.test_kills import kill
from tidelog.__main__ import main
from tidelog.errors import DataError
from tidelog.pipeline import Engine, Job, Source, Step, read
from tidelog.pipeline.guards import GuardFailed, GuardLimits, Guards
from tidelog.publish.object_storage import StorageFolder, delta_options, s3a_options

SECRET = "not-to-be-seen"
JOB = """\
program = "reach.rls"
publish = "s3://bucket/{name}"
engine = {{ name = "columnar", state = "state" }}

[storage]
access-key = "key"
secret-key = {{ env = "OUR_SECRET" }}
region = "us-east-1"
endpoint = "{endpoint}"

[[source]]
predicate = "edge"
path = "{path}"
header = true
"""


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with object_store() as settings:
        yield settings


@pytest.fixture
def storage(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("OUR_SECRET", SECRET)
    return server


def put(storage: dict[str, str], name: str, text: str) -> None:
    """Write an object."""
    host = storage["endpoint"].partition("://")[2]
    keys = {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}
    with pafs.S3FileSystem(**keys, endpoint_override=host, scheme="http").open_output_stream(name) as stream:
        stream.write(text.encode())


def run(*words: str) -> int:
    return main(list(words))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_job_at_an_address(
    write: Write, storage: dict[str, str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("reach.rls", RULES)
    put(storage, "bucket/data/1.csv", "from,to\na,b\nb,c\nonly\n")
    put(storage, "bucket/data/deep/2.csv", "from,to\nc,d\n")
    put(storage, "bucket/data/_hidden.csv", "from,to\nx,y\n")
    path = str(write("job.toml", JOB.format(name="out", path="s3://bucket/data", **storage)))
    assert run("pipeline", path, "--validate") == 0
    assert run("pipeline", path) == 0
    first = capfd.readouterr().err
    assert "published version 1" in first and "1 rejected" in first
    assert run("pipeline", path) == 0 and "nothing has changed" in capfd.readouterr().err
    put(storage, "bucket/data/deep/2.csv", "from,to\nc,e\n")
    assert run("pipeline", path) == 0
    assert "restored" in (told := capfd.readouterr().err) and "+" in told and "version 2" in told
    assert Path("state/_state").is_dir() and Path("state/_rejects/1").is_dir()
    # What others see, by the address alone: the environment has the keys, as for other programs.
    for name, value in (("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", SECRET), ("REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", storage["endpoint"])
    address = "s3://bucket/out"
    assert run("versions", address, "-f", "json") == 0
    assert [each["version"] for each in json.loads(capfd.readouterr().out)] == [1, 2]
    assert run("diff", address, "1", "2", "--predicate", "edge") == 0
    assert capfd.readouterr().out.splitlines() == ['- edge("c", "d") .', '+ edge("c", "e") .']
    version = read(address)
    assert set(version["edge"]) == {("a", "b"), ("b", "c"), ("c", "e")}
    assert set(version.changes("edge").added) == {("c", "e")}
    assert set(read(address, 1, storage)["edge"]) == {("a", "b"), ("b", "c"), ("c", "d")}
    table = deltalake.DeltaTable(f"{address}/edge", storage_options=delta_options(storage))
    assert table.to_pyarrow_table().num_rows == 3
    assert run("rollback", address, "1") == 0
    capfd.readouterr()
    assert run("pipeline", path) == 0
    assert set(read(address)["edge"]) == {("a", "b"), ("b", "c"), ("c", "e")}
    assert run("vacuum", address, "--keep", "1") == 0 and read(address).number == 4
    for file in Path("state").rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
    whole = pafs.S3FileSystem(endpoint_override=storage["endpoint"].partition("://")[2], scheme="http")
    for info in whole.get_file_info(pafs.FileSelector("bucket/out", recursive=True)):
        if info.type == pafs.FileType.File:
            assert SECRET.encode() not in whole.open_input_file(info.path).read()
    assert SECRET not in repr(Job.load(path).settings)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_tables_of_others_at_an_address(folder: Path, storage: dict[str, str], spark: Any) -> None:
    address, options = "s3://bucket/theirs", delta_options(storage)
    rows = pa.table({"from": ["a", "b"], "to": ["b", "c"]})
    feed = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(address, rows, storage_options=options, configuration=feed)
    told: list[str] = []
    job = Job(
        "reach.rls",
        publish="s3://bucket/derived",
        sources=[Source("edge", address, "delta")],
        engine=Engine("columnar", state="state"),
        storage=storage,
        listeners=[lambda step: told.append(f"{step.name} {step.detail}")],
    )
    Path("reach.rls").write_text(RULES)
    job.run()
    deltalake.write_deltalake(
        address, rows.slice(0, 1).set_column(0, "from", [["z"]]), mode="append", storage_options=options
    )
    assert job.run().version.feed["edge"].added == 1
    assert f"read {address}: +1 −0 to version 1" in told
    # Spark says what it needs to read from an object store.
    on_spark = Job(
        "reach.rls", publish="out", sources=[Source("edge", address, "delta")], storage=storage, session=spark
    )
    with pytest.raises(DataError, match=r"E812[\s\S]*s3a[\s\S]*hadoop-aws[\s\S]*columnar"):
        on_spark.run()
    assert spark.conf.get("fs.s3a.endpoint") == storage["endpoint"]
    for key in s3a_options({**storage, "session-token": "t"}):
        spark.conf.unset(key)
    frame = spark.read.format("tidelog").options(**{f"storage.{key}": each for key, each in storage.items()})
    found = frame.option("predicate", "edge").load("s3://bucket/derived")
    assert {tuple(row) for row in found.collect()} == {("a", "b"), ("b", "c"), ("z", "b")}
    changes = frame.option("predicate", "edge").option("readChangeFeed", "true").option("startingVersion", 2)
    assert [tuple(row) for row in changes.load("s3://bucket/derived").collect()] == [("z", "b", "insert", 2)]


@pytest.mark.slow
def test_storage_that_is_wrong(
    write: Write, capsys: pytest.CaptureFixture[str], storage: dict[str, str]
) -> None:
    write("reach.rls", RULES)
    write("edge.csv", "from,to\na,b\n")
    good = JOB.format(name="wrong", path="edge.csv", **storage)
    for one, other, told in (
        (', state = "state"', "", "`state`"),
        ("OUR_SECRET", "NOT_SET", "`NOT_SET`, which is not set"),
        ('access-key = "key"\n', "", "access-key"),
        ("region =", "regoin =", "did you mean `region`"),
        (storage["endpoint"], "http://127.0.0.1:1", "E911"),
        ("s3://bucket/", "s3://nothing/", "no such bucket: `nothing`"),
        ('path = "edge.csv"', 'path = "s3://nothing/x.csv"', "no such bucket: `nothing`"),
        ('path = "edge.csv"', 'path = "s3://bucket/none/*.csv"', "E806"),
        ('path = "edge.csv"', 'path = "ftp://bucket/x.csv"', "E806"),
    ):
        assert one in good
        path = write("job.toml", good.replace(one, other))
        assert main(["pipeline", str(path)]) == 1
        found = capsys.readouterr().err
        assert told in found and "job.toml:" in found and SECRET not in found, found
    assert not Path("state/_state").exists()


@pytest.mark.slow
def test_keys_that_are_not_let_in(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_SECRET", SECRET)
    write("reach.rls", RULES)
    with object_store(requests=2) as storage:  # enough to make the bucket
        path = write("job.toml", JOB.format(name="out", path="edge.csv", **storage))
        assert main(["pipeline", str(path)]) == 1
    found = capsys.readouterr().err
    assert "E911" in found and "ACCESS_DENIED" in found and SECRET not in found


# ---- tasks of Spark


LOG = "@declare log(at: datetime, n: decimal(12, 2), text: string) .\n"  # which no rule reads
FILES = (
    ("from,to\na,b\nb,c\n", "at,n,text\n2024-01-01T00:00:00Z,1.5,x\n1960-01-01T00:00:00.5Z,2,ÿ\n"),
    ("from,to\na,b\nb,d\nd,e\n", "at,n,text\n2024-01-01T00:00:00Z,1.5,x\n"),
    ("from,to\na,b\n", "at,n,text\n2024-01-01T00:00:00Z,1.5,x\n2024-01-01T00:00:00Z,1.5,y\n"),
)


@pytest.fixture
def there(write: Write, storage: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Storage settings, in a folder with the first input; Spark compares what has changed, however little."""
    monkeypatch.setattr("tidelog.pipeline.spark_run.MOST_ROWS", 1)
    write("reach.rls", RULES + LOG)
    given(write, 0)
    return {**storage, "secret-key": SECRET, "catalog": f"sqlite:///{Path('catalog.sqlite').absolute()}"}


def given(write: Write, place: int) -> None:
    for name, text in zip(("edge.csv", "log.csv"), FILES[place], strict=True):
        write(name, text)


def on_spark(storage: dict[str, str], session: Any, name: str, partitions: int | None = None) -> Job:
    engine = Engine(state="state", partitions=partitions)
    sources = [Source("edge", "edge.csv", header=True), Source("log", "log.csv", header=True)]
    made = {"sources": sources, "engine": engine, "session": session, "storage": storage}
    return Job("reach.rls", publish=f"s3://bucket/{name}", **made)


def alike(job: Job, full: bool = False) -> str:
    """Run a job, and one in this process that publishes here: the same tables; return why it published."""
    job.run(full)
    settings = replace(job.settings, publish="here", engine=Engine("columnar"), storage={})
    Job.of(settings).run(full)
    one, other = read(job.settings.publish, storage=job.settings.storage), read("here")
    assert set(one) == set(other)
    for name in one:
        assert one.to_arrow(name).schema.equals(other.to_arrow(name).schema), name
        assert one[name] == other[name], name
        assert set(one.changes(name)) == set(other.changes(name)), name
    return one.manifest.reason


def stored(storage: dict[str, str], name: str) -> dict[str, bytes]:
    """Return the files below an address, by their paths."""
    folder = StorageFolder.at(f"s3://bucket/{name}", storage)
    return {each.path: folder.read(each.path) or b"" for each in folder.listed()}


def data_files(storage: dict[str, str], name: str) -> set[str]:
    """Return the data files of tables, named or not."""
    return {path for path in stored(storage, name) if "/part-" in path and not path.startswith("_")}


def named(storage: dict[str, str], name: str, versions: int) -> set[str]:
    """Return the data files that versions name."""
    address = f"s3://bucket/{name}"
    found = (read(address, each, storage) for each in range(1, versions + 1))
    return {
        file.removeprefix(f"{address}/") for each in found for table in each for file in each.files(table)
    }


def test_spark_publishes_at_an_address(
    write: Write, there: dict[str, str], spark: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    job = on_spark(there, spark, "spark")
    assert alike(job) == "full"
    table = deltalake.DeltaTable("s3://bucket/spark/reach", storage_options=delta_options(there))
    assert table.to_pyarrow_table().num_rows == 3
    given(write, 1)
    assert alike(on_spark(there, spark, "spark")) == "incremental"
    table.update_incremental()
    assert set(zip(*table.to_pyarrow_table().to_pydict().values(), strict=True)) == {
        *[("a", "b"), ("a", "d"), ("a", "e"), ("b", "d"), ("b", "e"), ("d", "e")]
    }
    assert Path("state/_state").is_dir() and sorted(path.name for path in Path("state").iterdir()) == [
        "_state"
    ]
    assert data_files(there, "spark") == named(there, "spark", 2)
    files = stored(there, "spark") | {str(path): path.read_bytes() for path in Path("state").rglob("*.*")}
    assert not [path for path, content in files.items() if SECRET.encode() in content]
    assert SECRET not in "".join(capfd.readouterr())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "kind", "partitions"),
    [("delta", "connect", 2), ("iceberg", "connect", None), ("parquet", "spark", 2)],
)
def test_spark_publishes_any_format(
    write: Write,
    there: dict[str, str],
    request: pytest.FixtureRequest,
    form: str,
    kind: str,
    partitions: int | None,
) -> None:
    session = request.getfixturevalue(kind)
    job = on_spark(there, session, f"any-{form}", partitions)
    job = Job.of(replace(job.settings, format=form), session=session)
    for place, full in enumerate((False, False, True)):
        given(write, place)
        assert alike(job, full) == ("incremental" if place == 1 and partitions is None else "full")
    assert job.store.published.format == form


@pytest.mark.slow
@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
def test_spark_sets_aside_at_an_address(write: Write, there: dict[str, str], spark: Any, full: bool) -> None:
    job = on_spark(there, spark, f"aside-{full}")
    job.settings = replace(job.settings, guards=Guards(predicates={"reach": GuardLimits(min_rows=3)}))
    address = job.settings.publish
    job.run()
    given(write, 2)
    with pytest.raises(GuardFailed, match="`reach` has 1 row"):
        job.run(full)
    assert set(read(address, "failed", there)["reach"]) == {("a", "b")}
    assert len(read(address, storage=there)["reach"]) == 3
    given(write, 1)
    assert job.run(full).version.version == 2
    assert len(read(address, storage=there)["reach"]) == 6
    assert data_files(there, f"aside-{full}") == named(there, f"aside-{full}", 2)


@pytest.mark.slow
def test_files_of_a_run_that_fails_on_spark(write: Write, there: dict[str, str], spark: Any) -> None:
    def leave(step: Step) -> None:
        """Leave a file as an attempt of a task does whose result is lost."""
        if step.name == "derived":
            (path,) = [path for path in data_files(there, "fails") if path.startswith("reach/")]
            StorageFolder.at("s3://bucket/fails", there).write(f"{path}.again", b"half of a file")

    job = on_spark(there, spark, "fails")
    job.listeners.append(leave)
    job.settings = replace(job.settings, guards=Guards(predicates={"reach": GuardLimits(min_rows=9)}))
    with pytest.raises(GuardFailed):
        job.run()
    assert any(path.endswith(".again") for path in data_files(there, "fails"))
    write("edge.csv", "from,to\na,b\nonly\n")
    job.settings = replace(job.settings, guards=Guards(), max_rejects=0)
    job.listeners.clear()
    with pytest.raises(DataError, match="1 row"):
        job.run()  # which has removed what was set aside, and then its own files
    assert job.store.number is None and not data_files(there, "fails")
    assert list(Path("state/_rejects/1").rglob("*.csv"))


@pytest.mark.slow
@pytest.mark.parametrize("step", ["derived", "table reach", "ready"])
def test_spark_is_killed_while_it_publishes(
    write: Write, there: dict[str, str], spark: Any, step: str
) -> None:
    name = f"killed-{step.replace(' ', '-')}"
    storage = "\n".join(f'{key} = "{value}"' for key, value in there.items() if key != "secret-key")
    sources = "".join(
        f'[[source]]\npredicate = "{each}"\npath = "{each}.csv"\nheader = true\n' for each in ("edge", "log")
    )
    engine = 'engine = { state = "state", master = "local[2]" }'
    secret = 'secret-key = { env = "OUR_SECRET" }'
    top = f'program = "reach.rls"\npublish = "s3://bucket/{name}"\n{engine}\n'
    write("job.toml", f"{top}[storage]\n{secret}\n{storage}\n{sources}")
    alike(Job.load("job.toml", session=spark))
    given(write, 1)
    kill(step, "run", "--full")
    assert read(f"s3://bucket/{name}", storage=there).number == 1
    alike(Job.load("job.toml", session=spark))
    assert read(f"s3://bucket/{name}", storage=there).number == 2
    run("vacuum", "job.toml", "--keep", "2")
    assert data_files(there, name) == named(there, name, 2)


@pytest.mark.slow
def test_an_object_store_that_lets_tasks_in_no_longer(
    write: Write, there: dict[str, str], spark: Any
) -> None:
    with (
        object_store(requests=24) as storage,
        pytest.raises(DataError, match="INVALID_ACCESS_KEY_ID") as found,
    ):
        on_spark({**storage, "secret-key": SECRET}, spark, "out", 2).run()
    assert SECRET not in str(found.value)
