"""Published folders: versions, changes, files and faults, in all formats."""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.errors import DataError
from tidelog.publish import Published, object_storage

FORMATS = ["delta", "iceberg", "parquet"]
ROWS = pa.table({"x": pa.array([1, 2, 3], pa.int64()), "y": ["a", "b", None]})


@pytest.fixture(params=FORMATS)
def published(request: pytest.FixtureRequest, tmp_path: Path) -> Published:
    return Published(tmp_path / "published", request.param)


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    """The rows of a table, in order."""
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def publish(published: Published, **changes: Any) -> int:
    """Publish a version that inserts into tables (a table), or inserts and deletes (two)."""
    with published.writing() as publication:
        for name, change in changes.items():
            inserted, deleted = change if isinstance(change, tuple) else (change, None)
            publication.change(name, inserted, deleted)
        return publication.commit().number


def test_versions_follow_one_another(published: Published) -> None:
    assert published.is_empty and published.numbers() == ()
    details = {"inputs": [{"path": "edges.csv", "rows": 3}], "digest": "é", "none": None}
    with published.writing() as publication:
        assert publication.number == 1 and publication.recovered is None
        publication.change("reach", ROWS)
        publication.change("http://ex.org/a b", ROWS.slice(0, 1))
        first = publication.commit(details, reason="first")
    assert publish(published, reach=(ROWS.slice(0, 0), ROWS.slice(1, 1))) == 2
    reopened = Published(published.folder.address)
    assert reopened.format == published.format and reopened.numbers() == (1, 2)
    assert reopened.version(1) == first and reopened.version(1).details == details
    second = reopened.current()
    assert second.parent == 1 and second.time >= first.time
    counts = {name: (each.rows, each.inserted, each.deleted) for name, each in second.tables.items()}
    assert counts == {"reach": (2, 0, 1), "http://ex.org/a b": (1, 0, 0)}
    assert second.tables["http://ex.org/a b"].changed_in == 1
    assert rows_of(reopened.read("reach")) == [(1, "a"), (3, None)]
    assert rows_of(reopened.read("reach", 1)) == rows_of(ROWS)
    assert reopened.read("reach", columns=["y"]).column_names == ["y"]
    assert rows_of(reopened.changes("reach", 1)) == [(2, "b", "delete", 2)]
    assert len(rows_of(reopened.changes("reach", 0, 1))) == 3


def commented(name: str, type_: pa.DataType, nullable: bool = True) -> pa.Field:
    return pa.field(name, type_, nullable, metadata={b"comment": f"about {name}".encode()})


VALUES = pa.schema(
    [
        commented("id", pa.int64(), nullable=False),
        commented("price", pa.decimal128(12, 2)),
        commented("big", pa.decimal128(38, 0)),
        commented("at", pa.timestamp("us", "UTC")),
        commented("local", pa.timestamp("us")),
        commented("day", pa.date32()),
        commented("share", pa.float64()),
        commented("is_new", pa.bool_()),
        commented("small", pa.int16()),
        commented("raw", pa.binary()),
        commented("tags", pa.list_(pa.field("element", pa.string()))),
        commented("either", pa.struct([("int", pa.int64()), ("string", pa.string())])),
    ],
    metadata={b"comment": b"values of all types"},
)
TIME = dt.datetime(2020, 2, 29, 23, 59, 59, 999_999)
RECORDS = [
    {
        "id": 1,
        "price": Decimal("1.75"),
        "big": Decimal(10**37 + 1),
        "at": TIME.replace(tzinfo=dt.UTC),
        "local": TIME,
        "day": TIME.date(),
        "share": float("nan"),
        "is_new": True,
        "small": -7,
        "raw": b"\x00\xff",
        "tags": ["a", None],
        "either": {"int": 1, "string": None},
    },
    {"id": 2, "price": Decimal("7.00")},
]


def test_values_are_read_by_others(published: Published) -> None:
    table = pa.Table.from_pylist(RECORDS, schema=VALUES)
    with published.writing() as publication:
        publication.change("values", table)
        publication.change("none", VALUES.empty_table())
        version = publication.commit()
    assert version.tables["values"].schema.equals(VALUES, check_metadata=True)
    for name, rows in (("values", table), ("none", VALUES.empty_table())):
        found = published.read(name)
        assert found.schema.equals(VALUES, check_metadata=True)
        assert repr(found.to_pylist()) == repr(rows.to_pylist())
    paths = published.files("values")
    assert all("INT96" not in str(pq.read_metadata(path).schema) for path in paths)
    assert str(pq.read_schema(paths[0]).field("price").type) == "decimal128(12, 2)"
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    prices = [Decimal("1.75"), Decimal("7.00")]
    dataset = published.dataset("values")
    assert duckdb.from_arrow(dataset).order("id").project("price, big").fetchall() == [
        (prices[0], 10**37 + 1),
        (prices[1], None),
    ]
    assert duckdb.read_parquet(list(paths)).aggregate("sum(price)").fetchall() == [(Decimal("8.75"),)]
    assert polars.scan_pyarrow_dataset(dataset).collect().get_column("price").to_list() == prices
    if published.format == "delta":
        check_delta(published, table)
    if published.format == "iceberg":
        check_iceberg(published, table)
    # Rows are found again by all of their values, NaN and missing ones among them.
    assert publish(published, values=(None, table.slice(0, 1))) == 2
    assert published.read("values").column("id").to_pylist() == [2]
    assert publish(published, values=(None, table.slice(1))) == 3
    assert published.read("values").num_rows == 0


def check_delta(published: Published, table: pa.Table) -> None:
    """What readers of Delta see."""
    from deltalake import DeltaTable

    polars = pytest.importorskip("polars")
    found = DeltaTable(f"{published.folder.address}/values")
    assert found.metadata().description == "values of all types"
    assert found.schema().fields[1].metadata == {"comment": "about price"}
    assert [field.nullable for field in found.schema().fields][:2] == [False, True]
    assert found.transaction_version("tidelog") == 1
    (action,) = pa.table(found.get_add_actions(flatten=True)).to_pylist()
    assert (action["min.id"], action["max.id"], action["null_count.at"]) == (1, 2, 1)
    assert (action["min.price"], action["max.price"]) == (Decimal("1.75"), Decimal("7.00"))
    assert action["min.at"] <= TIME.replace(tzinfo=dt.UTC) <= action["max.at"]
    read = found.to_pyarrow_table()
    assert read.column("price").to_pylist() == table.column("price").to_pylist()
    assert read.column("local").to_pylist() == table.column("local").to_pylist()
    assert read.schema.field("price").type == pa.decimal128(12, 2)
    frame = polars.scan_delta(f"{published.folder.address}/values").collect()
    assert frame.get_column("big").to_list() == table.column("big").to_pylist()
    empty = DeltaTable(f"{published.folder.address}/none")
    assert empty.to_pyarrow_table().num_rows == 0 and len(empty.schema().fields) == len(VALUES)
    versions = polars.read_delta(f"{published.folder.address}/_versions")
    assert versions.get_column("number").to_list() == [1]


def check_iceberg(published: Published, table: pa.Table) -> None:
    """What readers of Iceberg see."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder = published.folder.address
    catalog = SqlCatalog("tidelog", uri=f"sqlite:///{folder}/_catalog.sqlite", warehouse=folder)
    found = catalog.load_table(("published", "values"))
    assert found.schema().find_field("price").doc == "about price"
    assert found.schema().find_field("id").required
    read = found.scan().to_arrow()
    for name in ("price", "big", "at", "local", "day", "tags", "either"):
        assert read.column(name).to_pylist() == table.column(name).to_pylist()
    assert catalog.load_table(("published", "none")).scan().to_arrow().num_rows == 0
    assert catalog.load_table(("published", "_versions")).scan().to_arrow().column("number").to_pylist() == [
        1
    ]
    catalog.close()


def test_fifty_rows_of_many(published: Published) -> None:
    rows = pa.table({"x": pa.array(range(100_000), pa.int64()), "y": ["a", "b"] * 50_000})
    publish(published, p=rows)
    publish(published, p=(None, rows.slice(40_000, 50)))
    changes = published.changes("p", 1)
    assert changes.num_rows == 50 and set(changes.column("_change_type").to_pylist()) == {"delete"}
    with published.writing() as publication:
        path = publication.new_file("p")
        pq.write_table(rows.slice(50), path)
        exact = f"{publication.changes_folder_of('p')}/cdc-{publication.run}-0.parquet"
        gone = rows.slice(0, 50).append_column("_change_type", [["delete"] * 50])
        back = rows.slice(40_000, 50).append_column("_change_type", [["insert"] * 50])
        pq.write_table(pa.concat_tables([gone, back]), exact)
        publication.replace("p", rows.schema, [path], [exact])
        version = publication.commit()
    assert (version.tables["p"].inserted, version.tables["p"].deleted) == (50, 50)
    assert published.changes("p", 2).num_rows == 100 and published.changes("p", 1).num_rows == 150
    if published.format == "delta":
        from deltalake import DeltaTable

        feed = DeltaTable(f"{published.folder.address}/p").load_cdf(starting_version=1)
        assert pa.table(feed.read_all()).num_rows == 150


def test_only_files_with_deleted_rows_are_written_anew(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.publish.table_files.ROWS", 1000)
    rows = pa.table({"x": pa.array(range(10_000), pa.int64())})
    publish(published, p=rows)
    before = set(published.files("p"))
    read = count_reads(monkeypatch)
    publish(published, p=(None, rows.slice(4_500, 2)))
    after = set(published.files("p"))
    assert len(before) == len(after) == 10 and len(after - before) == 1 and len(read) == 1


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that are read from here on."""
    from tidelog.publish import table_files

    read: list[str] = []
    original = table_files.read_file

    def counted(folder: Any, path: str, schema: Any) -> Any:
        if path.startswith("part-"):
            read.append(path)
        return original(folder, path, schema)

    monkeypatch.setattr(table_files, "read_file", counted)
    return read


def test_small_files_are_merged(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.publish.table_files.MANY", 4)
    for number in range(9):
        publish(published, p=pa.table({"x": pa.array([number], pa.int64())}))
    assert len(published.files("p")) < 5
    assert sorted(published.read("p").column("x").to_pylist()) == list(range(9))
    assert rows_of(published.changes("p", 0)) == [(number, "insert", number + 1) for number in range(9)]


def code(call: Any) -> str:
    """The code and the message of the fault that a call raises."""
    with pytest.raises(DataError) as caught:
        call()
    (diagnostic,) = caught.value.diagnostics
    return f"{diagnostic.code} {diagnostic.message}"


def test_faults(published: Published, tmp_path: Path) -> None:
    assert code(published.current).startswith("E901") and code(lambda: published.version(3)).startswith(
        "E901"
    )
    publish(published, p=ROWS)
    assert code(lambda: published.read("q")).startswith("E902 version 1 has no table `q`")
    other = "parquet" if published.format == "delta" else "delta"
    assert code(lambda: Published(published.folder.address, other)).startswith("E903")
    assert code(lambda: Published(tmp_path, "orc")).startswith("E903")
    with published.writing() as publication:
        assert code(published.writing).startswith("E904") and "process" in code(published.writing)
        folder = publication.folder_of("p")
        assert code(lambda: publication.change("p", ROWS.select(["x"]))).startswith("E907")
    check_wrong_files(published, folder)
    assert code(lambda: publish(published, p=(None, pa.table({"x": [9], "y": ["z"]})))) == (
        "E908 `p` does not have a row that is to be deleted: x: 9, y: z"
    )
    assert code(lambda: publish(published, q=pa.table({"x": pa.array([1], pa.uint64())}))).startswith("E906")
    assert code(lambda: publish(published, q=pa.table({"_version": [1]}))).startswith("E906")
    with published.writing() as publication:
        publication.change("p", None, ROWS.slice(0, 1))
        assert code(lambda: publication.drop("p")).startswith("E909")
        assert code(lambda: publication.drop("q")).startswith("E902")
        publication.commit()
        assert code(publication.commit).startswith("E909")
    assert code(lambda: published.changes("p", 7)).startswith("E913")
    with published.writing() as publication:
        publication.replace("p", pa.schema([("z", pa.string())]), [])
        publication.commit()
    assert code(lambda: published.changes("p", 1)).startswith("E913 `p` has other columns since version 3")
    for path in published.files("p", 1):
        Path(path).unlink()
    assert code(lambda: publish(published, p=pa.table({"z": ["a"]})) and published.read("p", 1)).startswith(
        "E910"
    )


def check_wrong_files(published: Published, folder: str) -> None:
    """Files that do not fit their table are refused, and nothing is published."""
    wrong = {
        "types": (pa.table({"x": ["1"], "y": ["a"]}), {}),
        "columns": (ROWS.select(["x"]), {}),
        "int96": (
            pa.table({"x": pa.array([0], pa.timestamp("us")), "y": ["a"]}),
            {"use_deprecated_int96_timestamps": True},
        ),
        "nulls": (ROWS, {}),
    }
    for name, (rows, options) in wrong.items():
        path = f"{folder}/{name}.parquet"
        pq.write_table(rows, path, **options)
        schema = pa.schema([("x", pa.int64()), pa.field("y", pa.string(), name != "nulls")])
        with published.writing() as publication:
            told = code(lambda p=publication, s=schema, f=path: p.replace("p", s, [f]))
        assert told.startswith("E907") and (name != "int96" or "INT96" in told)
    with published.writing() as publication:
        assert code(lambda: publication.replace("p", ROWS.schema, ["/elsewhere.parquet"])).startswith("E907")
        assert code(lambda: publication.replace("p", ROWS.schema, ["missing.parquet"])).startswith("E907")
    assert published.numbers() == (1,)


def test_files_that_others_have_written(published: Published) -> None:
    """As Spark does: all columns may be null, in a folder below, with names that need escapes."""
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False), ("y", pa.string())])
    with published.writing() as publication:
        folder = Path(publication.folder_of("p"), "day=2020-01-01")
        folder.mkdir()
        pq.write_table(ROWS, folder / "part 1%.parquet")
        publication.replace("p", schema, [str(folder / "part 1%.parquet")])
        publication.commit()
    assert published.read("p").schema.equals(schema) and rows_of(published.read("p")) == rows_of(ROWS)
    if published.format == "delta":
        from deltalake import DeltaTable

        assert rows_of(DeltaTable(f"{published.folder.address}/p").to_pyarrow_table()) == rows_of(ROWS)
    publish(published, p=(None, ROWS.slice(2, 1)))
    assert rows_of(published.read("p")) == [(1, "a"), (2, "b")]
    # Files of an earlier version are published again as they are.
    with published.writing() as publication:
        publication.replace("p", schema, published.files("p", 1))
        version = publication.commit(reason="back to version 1")
    assert version.tables["p"].rows == 3 and rows_of(published.read("p")) == rows_of(ROWS)


def test_a_folder_that_is_copied(published: Published, tmp_path: Path) -> None:
    publish(published, p=ROWS)
    shutil.copytree(published.folder.address, tmp_path / "copy")
    if published.format == "iceberg":
        assert "cannot be moved or copied" in code(Published(tmp_path / "copy").current)
        return
    publish(Published(tmp_path / "copy"), p=(None, ROWS.slice(0, 1)))
    assert Published(tmp_path / "copy").read("p").num_rows == 2 and published.read("p").num_rows == 3


def test_a_version_that_is_given_up_leaves_nothing(published: Published) -> None:
    publish(published, p=ROWS)
    before = sorted(stored.path for stored in published.folder.listed())
    with published.writing() as publication:
        publication.change("p", None, ROWS.slice(0, 1))
        publication.change("q", ROWS)
    assert sorted(stored.path for stored in published.folder.listed()) == before
    assert published.numbers() == (1,)


def test_vacuum_deletes_what_failed_writers_left(published: Published) -> None:
    publish(published, p=ROWS)
    folder = Path(published.files("p")[0]).parent
    pq.write_table(ROWS, folder / "part-left-behind.parquet")
    publish(published, p=(None, ROWS.slice(0, 1)))
    count, size = published.vacuum(2)
    assert (
        count >= 1
        and size > 0
        and not (folder / "part-left-behind.parquet").exists()
        and published.numbers() == (1, 2)
    )
    assert rows_of(published.changes("p", 1)) == [(1, "a", "delete", 2)]
    assert published.read("p", 1).num_rows == 3
    assert published.vacuum(1)[0] > 0 and published.numbers() == (2,)
    assert code(lambda: published.vacuum(0)).startswith("E901")


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_a_second_process_that_ignores_the_lock(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = Published(tmp_path / "published", format)
    publish(published, p=ROWS)
    original = object_storage.link

    def intrude(path: Path, name: Path) -> None:
        if name.parent.parent.name == "_versions" or name.parent.name == "_versions":
            name.write_text("{}")
        original(path, name)

    monkeypatch.setattr(object_storage, "link", intrude)
    with published.writing() as publication:
        publication.change("p", None, ROWS.slice(0, 1))
        assert code(publication.commit).startswith("E915")


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_package_that_is_not_installed(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in [*sys.modules]:
        if name.startswith(("deltalake", "pyiceberg")):
            monkeypatch.setitem(sys.modules, name, None)
    assert code(lambda: Published(tmp_path / "p", format)).startswith("E914")
    assert Published(tmp_path / "p", "parquet").is_empty


def test_every_code_has_a_test() -> None:
    from tidelog.errors import codes

    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [each for each in sorted(codes.PUBLISH_MEANINGS) if each not in tests] == []
