"""Random scripts of changes, replacements, drops, crashes and vacuums, beside a model of plain sets."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.publish.test_published import FORMATS
from tidelog.publish import Pending, Publication, Published, table_files

SCHEMAS = {
    "wide": pa.schema([pa.field("x", pa.int64(), False), ("y", pa.string()), ("z", pa.decimal128(12, 2))]),
    "narrow": pa.schema([("x", pa.int64()), ("y", pa.string())]),
    "timed": pa.schema([("x", pa.int64()), ("y", pa.timestamp("us"))]),
    "text": pa.schema([("x", pa.string()), ("y", pa.string())]),
}
TABLES = ("reach", "http://ex.org/p", "_versions")
Row = tuple[Any, ...]


class Crash(BaseException):
    """The process ends, but for the test."""


@dataclass
class Model:
    """What every version should have: by table, its schema and its rows."""

    versions: dict[int, dict[str, tuple[str, frozenset[Row]]]] = field(default_factory=dict)
    first: int = 1

    @property
    def last(self) -> int:
        return max(self.versions, default=0)

    def changes(self, table: str, after: int, upto: int) -> set[Row] | None:
        """The rows that changed, with kind and version; None where columns have changed."""
        found: set[Row] = set()
        seen = {
            self.versions[number][table][0] for number in range(after, upto + 1) if self.has(table, number)
        }
        if len(seen) != 1:
            return None
        for number in range(after + 1, upto + 1):
            old = self.versions.get(number - 1, {}).get(table, ("", frozenset()))[1]
            new = self.versions[number].get(table, ("", frozenset()))[1]
            found |= {(*row, "delete", number) for row in old - new}
            found |= {(*row, "insert", number) for row in new - old}
        return found

    def has(self, table: str, number: int) -> bool:
        return number in self.versions and table in self.versions[number]


def to_arrow(rows: Any, schema: pa.Schema) -> pa.Table:
    """Rows as a table."""
    columns = zip(*sorted(rows, key=repr), strict=True) if rows else [[] for _ in schema]
    return pa.Table.from_arrays(
        [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)], schema=schema
    )


def to_rows(table: pa.Table) -> list[Row]:
    """A table as rows."""
    return [tuple(row.values()) for row in table.to_pylist()]


class Script:
    """Random steps against one folder."""

    def __init__(self, path: Path, format: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.path, self.format = path, format
        self.model = Model()
        self.state = 0  # of the job: the last version that its hook has seen
        self.published = Published(path, format)

    def row(self, schema: str) -> Row:
        number = self.random.randrange(30)
        text = self.random.choice(["a", "b", "ü" * 70, None, ""])
        if schema == "timed":
            return (number, self.random.choice([None, dt.datetime(2020, 1, 1, 0, 0, 0, number)]))
        if schema == "text":
            return (str(number), text)
        if schema == "narrow":
            return (self.random.choice([number, None]), text)
        return (number, text, self.random.choice([Decimal("1.75"), Decimal("-7.00"), None]))

    def step(self) -> None:
        """Publish one version, or try to."""
        wanted = dict(self.model.versions.get(self.model.last, {}))
        steps_left = self.random.choice([None, None, self.random.randrange(14)])
        has_hook = self.random.random() < 0.5
        number = self.model.last + 1

        def on_step(_: str) -> None:
            nonlocal steps_left
            if steps_left is not None:
                steps_left -= 1
                if steps_left < 0:
                    raise Crash

        def hook(version: Any) -> None:
            self.state = version.number

        try:
            with self.published.writing(self.decide, on_step) as publication:
                assert publication.number == number
                for table in self.random.sample(TABLES, self.random.randint(1, len(TABLES))):
                    self.change(publication, table, wanted)
                publication.commit({"n": number}, before_switch=hook if has_hook else None)
            self.model.versions[number] = wanted
        except Crash:
            self.published = Published(self.path)
            if self.published.numbers()[-1:] == (number,):
                self.model.versions[number] = wanted
            self.check()
            self.recover(number, wanted)
        if self.random.random() < 0.15 and self.model.versions:
            keep = self.random.randint(1, 4)
            self.published.vacuum(keep, self.decide)
            self.model.first = max(self.model.first, self.model.last - keep + 1)

    def decide(self, pending: Pending) -> bool:
        return self.state >= pending.number

    def recover(self, number: int, wanted: dict[str, tuple[str, frozenset[Row]]]) -> None:
        """Open for writing after a crash, perhaps with crashes; the version is there, or never was."""
        for left in (self.random.randrange(3), 10**9):
            counter = iter(range(left))

            def on_step(_: str, counter: Any = counter) -> None:
                if next(counter, None) is None:
                    raise Crash

            try:
                with self.published.writing(self.decide, on_step):
                    pass
            except Crash:
                self.published = Published(self.path)
        if self.published.numbers()[-1:] == (number,):
            self.model.versions[number] = wanted
        assert self.state <= self.model.last

    def change(self, publication: Publication, table: str, wanted: dict[str, Any]) -> None:
        """Change a table in one of the ways that there are."""
        name, rows = wanted.get(table, (self.random.choice(list(SCHEMAS)), frozenset()))
        is_there = table in wanted
        way = self.random.choice(["change", "change", "replace", "exact", "drop"])
        if way == "drop":
            if is_there:
                publication.drop(table)
                del wanted[table]
            return
        if way == "replace":
            name = self.random.choice([name, self.random.choice(list(SCHEMAS))])
            is_there = is_there and wanted[table][0] == name
            rows = rows if is_there else frozenset()
        schema = SCHEMAS[name]
        deleted = frozenset(self.random.sample(sorted(rows, key=repr), self.random.randint(0, len(rows))))
        inserted = frozenset(self.row(name) for _ in range(self.random.randrange(8))) - rows
        new = (rows - deleted) | inserted
        if way == "change":
            publication.change(table, to_arrow(inserted, schema), to_arrow(deleted, schema))
        else:
            paths = []
            for part in (0, 1):
                path = publication.new_file(table)
                some = [row for row in new if hash(row) % 2 == part]
                pq.write_table(to_arrow(some, schema), path)
                paths.append(path)
            changes = None
            if way == "exact" and (is_there or not rows):
                kinds = [(*row, "insert") for row in inserted] + [(*row, "delete") for row in deleted]
                with_kinds = pa.schema([*schema, ("_change_type", pa.string())])
                changes = [f"{publication.changes_folder_of(table)}/{Path(paths[0]).name}"]
                pq.write_table(to_arrow(kinds, with_kinds), changes[0])
            publication.replace(table, schema, paths, changes)
        wanted[table] = (name, new)

    def check(self) -> None:
        """Compare all versions, and all changes between two of them."""
        model, published = self.model, self.published
        numbers = tuple(range(model.first, model.last + 1))
        assert published.numbers() == numbers
        for number in numbers:
            version = published.version(number)
            assert set(version.tables) == set(model.versions[number])
            assert version.details == {"n": number}
            for table, (name, rows) in model.versions[number].items():
                found = published.read(table, version)
                assert found.schema.equals(SCHEMAS[name]), (table, number)
                assert sorted(to_rows(found), key=repr) == sorted(rows, key=repr)
                assert version.tables[table].rows == len(rows)
        for after in numbers[-4:]:
            for table in TABLES:
                expected = model.changes(table, after, model.last)
                if expected is not None:
                    self.check_changes(table, after, expected)

    def check_changes(self, table: str, after: int, expected: set[Row]) -> None:
        """What changed is told exactly, but for replacements that do not say what they change."""
        found = to_rows(self.published.changes(table, after))
        net: dict[Row, int] = {}
        for row in found:
            key = (*row[:-2], row[-1])
            net[key] = net.get(key, 0) + (1 if row[-2] == "insert" else -1)
        rows = {
            (*key[:-1], "insert" if count > 0 else "delete", key[-1]) for key, count in net.items() if count
        }
        assert rows == expected


@pytest.mark.parametrize(
    ("format", "seed"),
    [
        pytest.param(format, seed, marks=[pytest.mark.slow] if seed or format == "iceberg" else [])
        for format in FORMATS
        for seed in range(8)
    ],
)
def test_random_scripts(tmp_path: Path, format: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small files, so that there are several of them, and that they are merged.
    for name, value in (("ROWS", 8), ("SMALL", 3), ("MANY", 4)):
        monkeypatch.setattr(table_files, name, value)
    script = Script(tmp_path / "published", format, seed)
    for _ in range(12):
        script.step()
        script.check()
