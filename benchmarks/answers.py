"""The files of results that engines write, and whether two engines have written the same.

Doubles may differ by as much as sums in another order do; all else must be equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.record import Counts

TYPES = {
    "int": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
    "decimal": pa.decimal128(38, 9),
    "double": pa.float64(),
    "dateTime": pa.string(),
}
CLOSE = 1e-9  # relative
Columns = tuple[str, ...]
_W9: Mapping[str, Columns] = {
    "revenue": ("string", "int", "decimal"),
    "dearest": ("string", "decimal"),
    "ordered": ("string", "int"),
    "silent": ("string",),
    "domain": ("string", "string"),
}
RESULTS: Mapping[str, Mapping[str, Columns]] = {
    "W9": _W9,
    "W9-doubles": {**_W9, "revenue": ("string", "int", "double"), "dearest": ("string", "double")},
    "W10": {
        "users": ("date", "int", "int"),
        "took": ("date", "int", "double", "double"),
        "best": ("string", "int"),
        "kinds": ("string", "int"),
        "visits": ("string", "dateTime", "dateTime"),
        "failures": ("string", "int"),
        "slow": ("int", "double"),
        "unread": ("int",),
    },
    "W11-interest": {"total": ("string", "int", "double"), "final": ("int", "double")},
    "W11-parts": {"needed": ("int", "double"), "weight": ("int", "double")},
    "W12": {"amicable": ("int", "int"), "abundant": ("int",)},
    "W13": {"ends": ("int", "int")},
}
"""The columns of the results of each workload; those that are no doubles tell rows apart."""


class AnswersDifferError(Exception):
    """Two engines have written different results."""


def read_answers(workload: str, folder: Path) -> dict[str, pa.Table]:
    """The results in a folder, in an order that does not depend on who wrote them."""
    return {
        name: in_order(read_result(folder / f"{name}.csv", types), types)
        for name, types in RESULTS[workload].items()
    }


def read_result(path: Path, types: Columns) -> pa.Table:
    names = [f"c{place}" for place in range(len(types))]
    table = pyarrow.csv.read_csv(
        path,
        pyarrow.csv.ReadOptions(column_names=names, skip_rows=1),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict(zip(names, map(TYPES.__getitem__, types), strict=True)),
            null_values=[],
            strings_can_be_null=False,
        ),
    )
    columns = [
        moments(column) if kind == "dateTime" else column
        for column, kind in zip(table.columns, types, strict=True)
    ]
    return pa.table(columns, names=names)


def moments(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times, written with `T` or a space, with `Z` or without."""
    return pc.utf8_rtrim(texts, "Z").cast(pa.timestamp("us"))


def exact_columns(types: Columns) -> list[str]:
    return [f"c{place}" for place, kind in enumerate(types) if kind != "double"]


def in_order(table: pa.Table, types: Columns) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in exact_columns(types)])


def summary_of(workload: str, answers: Mapping[str, pa.Table]) -> Counts:
    """A digest of all columns that are no doubles, and the number of rows of each result."""
    found = hashlib.sha256()
    for name, types in RESULTS[workload].items():
        for column in exact_columns(types):
            found.update(repr(answers[name][column].to_pylist()).encode())
    return {"digest": found.hexdigest()[:16]} | {name: table.num_rows for name, table in answers.items()}


def check_equal(
    workload: str, answers: Mapping[str, pa.Table], others: Mapping[str, pa.Table], other: str
) -> None:
    """Raise AnswersDifferError unless all results are equal, doubles nearly."""
    for name, types in RESULTS[workload].items():
        own, that = answers[name], others[name]
        if own.num_rows != that.num_rows:
            message = f"{own.num_rows:,} rows, and {that.num_rows:,} of {other}"
            raise AnswersDifferError(f"{workload}, {name}: {message}")
        for place, kind in enumerate(types):
            places = differing(own.column(place), that.column(place), is_double=kind == "double")
            if len(places):
                first = [tuple(table.slice(places[0], 1).to_pylist()[0].values()) for table in (own, that)]
                message = f"{len(places):,} rows differ from those of {other}: {first[0]}, {first[1]}, …"
                raise AnswersDifferError(f"{workload}, {name}: {message}")


def differing(own: pa.ChunkedArray, that: pa.ChunkedArray, *, is_double: bool) -> Sequence[int]:
    """The places of values that are not equal."""
    if is_double:
        differ = ~np.isclose(own.to_numpy(), that.to_numpy(), rtol=CLOSE, atol=0.0)
        return np.flatnonzero(differ).tolist()
    places: list[int] = pc.indices_nonzero(pc.not_equal(own, that)).to_pylist()
    return places
