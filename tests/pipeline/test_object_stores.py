"""Jobs whose tables and sources are in an object store: a server that speaks S3, in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from tests.object_store import object_store
from tests.pipeline.conftest import RULES, Write
from tidelog.__main__ import main
from tidelog.errors import DataError
from tidelog.pipeline import Engine, Job, Source, read
from tidelog.publish.storage import delta_options, s3a_options

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
    # Spark publishes to file systems only, and says what it needs to read from an object store.
    on_spark = Job(
        "reach.rls", publish="out", sources=[Source("edge", address, "delta")], storage=storage, session=spark
    )
    with pytest.raises(DataError, match=r"E812[\s\S]*s3a[\s\S]*hadoop-aws[\s\S]*columnar"):
        on_spark.run()
    assert spark.conf.get("fs.s3a.endpoint") == storage["endpoint"]
    for key in s3a_options({**storage, "session-token": "t"}):
        spark.conf.unset(key)
    elsewhere = Job("reach.rls", publish="s3://bucket/x", engine=Engine(state="s"), storage=storage)
    with pytest.raises(DataError, match=r"E812[\s\S]*columnar"):
        elsewhere.run()
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
        ("s3://bucket/", "s3://nothing/", "no bucket `nothing`"),
        ('path = "edge.csv"', 'path = "s3://nothing/x.csv"', "no bucket `nothing`"),
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
