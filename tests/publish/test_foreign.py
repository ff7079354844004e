"""Tables of others: read with their changes, or refused by the name of the feature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.publish.test_published import rows_of
from tidelog.errors import DataError
from tidelog.publish import delta_changes, delta_table, iceberg_changes, iceberg_table

deltalake = pytest.importorskip("deltalake")
FEED = {"delta.enableChangeDataFeed": "true"}


def rows(*numbers: int) -> pa.Table:
    """A table with some numbers."""
    parts = pa.array([str(number % 2) for number in numbers], pa.string())
    return pa.table({"x": pa.array(numbers, pa.int64()), "part": parts})


def test_a_delta_table_and_its_changes(tmp_path: Path) -> None:
    path = tmp_path / "source"
    deltalake.write_deltalake(path, rows(1, 2, 3, 4), partition_by=["part"], configuration=FEED)
    deltalake.DeltaTable(path).delete("x = 2")
    deltalake.DeltaTable(path).update({"x": "10"}, predicate="x = 3")
    table = delta_table(path)
    assert (table.version, table.partition_columns, len(table.files)) == (2, ("part",), 2)
    assert {file.partition["part"] for file in table.files} == {"0", "1"}
    assert rows_of(table.read()) == [(1, "1"), (10, "1"), (4, "0")]
    assert rows_of(delta_table(path, 0).read(["x"])) == [(1,), (2,), (3,), (4,)]
    expected = [(10, "1", "insert", 2), (2, "0", "delete", 1), (3, "1", "delete", 2)]
    assert rows_of(delta_changes(path, 0)) == expected
    assert delta_changes(path, 0, 1).num_rows == 1 and delta_changes(path, 2).num_rows == 0
    with pytest.raises(DataError, match=r"E913[\s\S]*no version 3"):
        delta_changes(path, 3)


def test_delta_tables_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"E916[\s\S]*not a Delta table"):
        delta_table(tmp_path)
    path = tmp_path / "source"
    deltalake.write_deltalake(path, rows(1))
    deltalake.write_deltalake(path, rows(2), mode="append")
    with pytest.raises(DataError, match=r"E913[\s\S]*enableChangeDataFeed"):
        delta_changes(path, 0)
    log = path / "_delta_log" / f"{2:020d}.json"
    for features in (["deletionVectors"], ["columnMapping"], ["timestampNtz", "typeWidening"], ["fromMars"]):
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        lists = {"readerFeatures": features, "writerFeatures": features}
        log.write_text(json.dumps({"protocol": {**protocol, **lists}}) + "\n")
        with pytest.raises(DataError, match=rf"E91[26][\s\S]*{features[-1]}"):
            delta_table(path)


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    found = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.sqlite", warehouse=str(tmp_path))
    found.create_namespace("n")
    yield found
    found.close()


def test_an_iceberg_table_and_its_changes(tmp_path: Path, catalog: Any) -> None:
    table = catalog.create_table("n.source", rows().schema, location=str(tmp_path / "source"))
    table.append(rows(1, 2, 3))
    first = table.current_snapshot().snapshot_id
    table.append(rows(4))
    table.delete("x = 2")
    path = tmp_path / "source"
    found = iceberg_table(path)
    assert rows_of(found.read()) == [(1, "1"), (3, "1"), (4, "0")] and len(found.files) == 2
    assert rows_of(iceberg_table(path, first).read(["x"])) == [(1,), (2,), (3,)]
    changes, last = iceberg_changes(path, first)
    assert last == found.version == table.current_snapshot().snapshot_id
    assert [row[:3] for row in rows_of(changes)] == [(2, "0", "delete"), (4, "0", "insert")]
    assert iceberg_changes(path, 0)[0].num_rows == 5 and iceberg_changes(path, last)[0].num_rows == 0
    with pytest.raises(DataError, match=r"E913"):
        iceberg_changes(path, 12345)
    with table.update_schema() as update:
        update.rename_column("x", "y")
    with pytest.raises(DataError, match=r"E913[\s\S]*columns"):
        iceberg_changes(path, first)


def test_iceberg_tables_that_are_refused(tmp_path: Path, catalog: Any, monkeypatch: Any) -> None:
    with pytest.raises(DataError, match=r"E916[\s\S]*no metadata"):
        iceberg_table(tmp_path)
    table = catalog.create_table("n.source", rows().schema, location=str(tmp_path / "source"))
    table.append(rows(1, 2, 3))
    manifest = pytest.importorskip("pyiceberg.manifest")
    monkeypatch.setattr(manifest.ManifestFile, "content", manifest.ManifestContent.DELETES)
    with pytest.raises(DataError, match=r"E912[\s\S]*delete files"):
        iceberg_table(tmp_path / "source")
