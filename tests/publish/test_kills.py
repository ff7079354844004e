"""A writer that is killed anywhere leaves the old version or the new one, and the next one goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.publish.test_published import rows_of
from tidelog.errors import DataError
from tidelog.publish import Pending, Publication, Published, PublishedVersion

SOURCES = Path(__file__).parents[2]
BEFORE = {"changed": {1, 2, 3}, "replaced": {1, 2, 3}, "dropped": {1, 2, 3}, "same": {9}}
AFTER = {"changed": {1, 3, 10, 11}, "replaced": {1, 2, 7}, "created": {5}, "same": {9}}


def rows(*numbers: int) -> pa.Table:
    """A table with some numbers."""
    texts = pa.array([f"row {number}" for number in numbers], pa.string())
    return pa.table({"x": pa.array(numbers, pa.int64()), "y": texts})


def prepared(path: Path, format: str) -> None:
    """Publish two versions."""
    published = Published(path, format)
    with published.writing() as publication:
        for name in ("changed", "replaced", "dropped"):
            publication.change(name, rows(1, 2, 3))
        publication.commit({"n": 1})
    with published.writing() as publication:
        publication.change("same", rows(9))
        publication.commit({"n": 2})


def third(publication: Publication) -> None:
    """Change one table, replace another, create one, drop one, and leave one alone."""
    publication.change("changed", rows(10, 11), rows(2))
    path = publication.new_file("replaced")
    pq.write_table(rows(1, 2, 7), path)
    changes = [f"{publication.changes_folder_of('replaced')}/cdc-{publication.run}-x.parquet"]
    exact = pa.concat_tables([rows(7), rows(3)]).append_column("_change_type", [["insert", "delete"]])
    pq.write_table(exact, changes[0])
    publication.replace("replaced", rows().schema, [path], changes)
    publication.change("created", rows(5))
    publication.drop("dropped")


def hook(folder: Path) -> Callable[[PublishedVersion], None]:
    """Commit the state of a job: a file beside the folder, whole or not at all."""

    def commit(version: PublishedVersion) -> None:
        state = folder.with_suffix(".state")
        state.with_suffix(".tmp").write_text(str(version.number))
        state.with_suffix(".tmp").replace(state)

    return commit


def decide(folder: Path) -> Callable[[Pending], bool]:
    """Say whether the state of the job has a version."""
    return lambda pending: state_of(folder) >= pending.number


def state_of(folder: Path) -> int:
    """The last version that the state of the job has."""
    state = folder.with_suffix(".state")
    return int(state.read_text()) if state.exists() else 0


def content(published: Published) -> dict[str, set[int]]:
    """The tables of the last version; each row is there once."""
    version = published.current()
    found = {name: published.read(name, version).column("x").to_pylist() for name in version.tables}
    assert all(len(set(numbers)) == len(numbers) for numbers in found.values())
    return {name: set(numbers) for name, numbers in found.items()}


def check_recovered(folder: Path, has_hook: bool) -> None:
    """Look at a folder that a killed writer has left: as a reader, and as the next writer."""
    published = Published(folder)
    seen = published.numbers()
    assert seen in ((1, 2), (1, 2, 3))
    assert content(published) == (BEFORE if seen == (1, 2) else AFTER)
    has_state = state_of(folder) == 3
    if has_hook and seen == (1, 2) and has_state:
        with pytest.raises(DataError, match="E905"):
            published.writing()
    with published.writing(decide(folder)) as publication:
        number = publication.number
        is_there = published.numbers() == (1, 2, 3)
        assert number == (4 if is_there else 3)
        assert seen == (1, 2) or is_there
        assert not has_hook or has_state == is_there
        assert content(published) == (AFTER if is_there else BEFORE)
        if is_there:
            publication.change("changed", rows(12))
        else:
            third(publication)
        publication.commit({"n": number})
    assert content(published) == (AFTER if not is_there else {**AFTER, "changed": {1, 3, 10, 11, 12}})
    expected = [(10, "row 10", "insert", 3), (11, "row 11", "insert", 3), (2, "row 2", "delete", 3)]
    assert rows_of(published.changes("changed", 2, 3)) == expected
    exact = [(3, "row 3", "delete", 3), (7, "row 7", "insert", 3)]
    assert rows_of(published.changes("replaced", 2, 3)) == exact
    assert len(rows_of(published.changes("dropped", 2, 3))) == 3
    published.vacuum(1)
    assert published.numbers() == (number,) and content(published).keys() == AFTER.keys()


@pytest.mark.parametrize(
    ("format", "how", "stride"),
    [
        ("delta", "hook", 13),
        *(
            pytest.param(format, how, 1, marks=pytest.mark.slow)
            for format in ("delta", "iceberg", "parquet")
            for how in ("plain", "hook")
        ),
    ],
)
def test_a_writer_that_is_killed(tmp_path: Path, format: str, how: str, stride: int) -> None:
    paths = os.pathsep.join([str(SOURCES), str(SOURCES / "src")])
    arguments = [str(tmp_path / "folder"), format, how, str(stride)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.publish.killed", *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30 / stride
