"""Published folders: versions, changes, files and faults, in all formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidelog.publish import Published

FORMATS = ["delta"]
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
