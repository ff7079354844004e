"""What publishing costs, in each format: CPU seconds of this process.

    python -m benchmarks.publishing [FORMAT …]

A million rows in one table, 50 of them deleted, the change read; 48 small tables, created and changed; and a
table with many versions, opened.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.publish import Published

ROWS = 1_000_000
TABLES = 48
VERSIONS = 200


def cpu(work: Callable[[], Any]) -> float:
    """The CPU seconds that some work takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def orders(count: int) -> pa.Table:
    """Order lines: a number, a customer, a day and a price."""
    random = np.random.default_rng(0)
    customers = pa.array([f"C{number:06d}" for number in random.integers(0, 50_000, count)])
    days = pa.array(random.integers(20_000, 20_300, count).astype("int32")).cast(pa.date32())
    prices = pa.array(random.integers(100, 99_999, count)).cast(pa.decimal128(19, 0))
    prices = prices.cast(pa.decimal128(21, 2)).cast(pa.decimal128(14, 2))
    return pa.table({"id": np.arange(count), "customer": customers, "day": days, "price": prices})


def change(published: Published, changes: dict[str, tuple[Any, Any]]) -> tuple[float, float]:
    """Publish changes; return the CPU seconds of writing files, and of committing them."""
    with published.writing() as publication:

        def write() -> None:
            for name, (inserted, deleted) in changes.items():
                publication.change(name, inserted, deleted)

        return cpu(write), cpu(publication.commit)


def measured(format: str, folder: Path) -> dict[str, float]:
    """The CPU seconds of all steps."""
    found: dict[str, float] = {}
    published = Published(folder / "large", format)
    rows = orders(ROWS)
    found["a million rows: write"], found["a million rows: commit"] = change(published, {"o": (rows, None)})
    gone = rows.slice(400_000, 50)
    found["delete 50: write"], found["delete 50: commit"] = change(published, {"o": (None, gone)})
    found["read the 50 changes"] = cpu(lambda: published.changes("o", 1))
    found["read a million rows"] = cpu(lambda: published.read("o"))
    small = Published(folder / "small", format)
    some = rows.slice(0, 1000)
    first = {f"t{number}": (some, None) for number in range(TABLES)}
    found["48 tables: write"], found["48 tables: commit"] = change(small, first)
    second = {name: (None, some.slice(0, 5)) for name in first}
    found["48 tables, delete 5: write"], found["48 tables, delete 5: commit"] = change(small, second)
    many = Published(folder / "many", format)
    commits = [sum(change(many, {"t": (rows.slice(number, 1), None)})) for number in range(VERSIONS)]
    found["one row, first 20 versions"] = sum(commits[:20]) / 20
    found[f"one row, last 20 of {VERSIONS}"] = sum(commits[-20:]) / 20
    found[f"open and read after {VERSIONS} versions"] = cpu(lambda: Published(folder / "many").read("t"))
    found["vacuum, keep 10"] = cpu(lambda: many.vacuum(10))
    found["open and read then"] = cpu(lambda: Published(folder / "many").read("t"))
    return found


def main(formats: list[str]) -> None:
    """Print a table of all formats."""
    with tempfile.TemporaryDirectory() as folder:
        columns = [measured(format, Path(folder, format)) for format in formats]
    print(f"{'CPU ms':40}" + "".join(f"{format:>10}" for format in formats))
    for name in columns[0]:
        print(f"{name:40}" + "".join(f"{column[name] * 1000:10.0f}" for column in columns))


if __name__ == "__main__":
    main(sys.argv[1:] or ["delta", "iceberg", "parquet"])
