"""Object stores: all formats on a server that speaks S3, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.object_store import object_store
from tests.publish.test_published import FORMATS, rows_of
from tidelog.errors import DataError
from tidelog.publish import Published


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with object_store() as settings:
        yield settings


def rows(*numbers: int) -> pa.Table:
    """A table with some numbers."""
    return pa.table({"x": pa.array(numbers, pa.int64())})


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_publishing_to_an_object_store(tmp_path: Path, storage: dict[str, str], format: str) -> None:
    address = f"s3a://bucket/{format}/published"
    settings = {**storage, "catalog": f"sqlite:///{tmp_path}/catalog.sqlite"}
    if format == "iceberg":
        with pytest.raises(DataError, match=r"E911[\s\S]*catalog"):
            Published(address, format, storage)
    published = Published(address, format, settings)
    with published.writing() as publication:
        publication.change("p", rows(1, 2, 3))
        path = publication.new_file("q")
        pq.write_table(rows(7), path.removeprefix("s3://"), filesystem=published.folder.filesystem)
        publication.replace("q", rows().schema, [path])
        publication.commit({"n": 1})
    with published.writing() as publication:
        publication.change("p", rows(4), rows(2))
        publication.commit({"n": 2})

    def crash(step: str) -> None:
        if step == "table p":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), published.writing(on_step=crash) as publication:
        publication.change("p", rows(5), rows(3))
        publication.commit({"n": 3})
    again = Published(address, storage=settings)
    assert again.format == format and again.numbers() == (1, 2)
    assert rows_of(again.read("p")) == [(1,), (3,), (4,)]
    with again.writing() as publication:
        recovered = publication.recovered
        assert recovered is not None and recovered.number == 3 and not recovered.is_published
        publication.change("p", rows(6), rows(1))
        publication.replace("q", pa.schema([("y", pa.string())]), [])
        publication.commit({"n": 3})
    assert rows_of(again.read("p", 1)) == [(1,), (2,), (3,)] and rows_of(again.read("p")) == [
        (3,),
        (4,),
        (6,),
    ]
    changes = [(1, "delete", 3), (2, "delete", 2), (4, "insert", 2), (6, "insert", 3)]
    assert rows_of(again.changes("p", 1)) == changes
    assert again.read("q").schema.names == ["y"]
    if format == "delta":
        check_change_table(address.replace("s3a", "s3"), storage, changes)
    assert again.vacuum(1)[0] > 0
    assert rows_of(again.read("p")) == [(3,), (4,), (6,)] and again.numbers() == (3,)


def check_change_table(address: str, storage: dict[str, str], changes: list[tuple[Any, ...]]) -> None:
    """Others read the changes as a Delta table of their own."""
    from deltalake import DeltaTable

    from tidelog.publish.object_storage import delta_options

    table = DeltaTable(f"{address}/_changes/p", storage_options=delta_options(storage))
    assert rows_of(table.to_pyarrow_table()) == changes


def test_storage_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"E911[\s\S]*`acces-key`[\s\S]*did you mean `access-key`"):
        Published(tmp_path, storage={"acces-key": "a"})
    with pytest.raises(DataError, match="E911"):
        Published("ftp://somewhere/else")
    with pytest.raises(DataError, match="E911"):
        Published(tmp_path / "100%")
    with pytest.raises(DataError, match=r"E911[\s\S]*cannot be read"):
        Published("s3://bucket/p", storage={"region": "us-east-1", "endpoint": "http://127.0.0.1:1"})
