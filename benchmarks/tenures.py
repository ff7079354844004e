"""Temporal LUBM of any size: facts about universities, each with an interval at which it holds.

Wang, Wałęga, Cuenca Grau: Seminaïve Materialisation in DatalogMTL, RuleML+RR 2022, section 6: nine datasets
D1 to D9 with equally many facts about more and more constants, so that a fact has fewer and fewer intervals.

Facts are drawn, with repetition, from so many copies of one university as there must be for that. The rules,
and the two smallest datasets, are those of ../shared/data.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.facts import SHARED
from benchmarks.university import Facts, university_facts

HERE = SHARED / "temporal"
PUBLISHED = (2_000, 20_000)  # facts of the datasets that others have made
FACT = re.compile(r"(\w+)\(([^)]*)\)@([\[(])(\d+), (\d+)([\])])")
BOUNDS = ("start", "end", "start_open", "end_open")

CONSTANTS = (0.08, 0.10, 0.12, 0.13, 0.21, 0.25, 0.52, 1.01, 1.58)  # of D1 to D9, for each fact
POPULATIONS = (
    0.224,
    0.291,
    0.358,
    0.384,
    0.689,
    0.87,
    2.52,
    9.66,
    94.5,
)  # facts to draw from, which give these
USUAL = 5  # the dataset that the paper looks at closely
UNIVERSITY = 400_000  # facts of the one that is copied
LAST = 50  # the last point of time of a given fact
SEED = 11

Numbers = NDArray[np.int64]


def is_there() -> bool:
    """Whether the rules are there."""
    return (HERE / "lubm.rls").exists()


def program() -> str:
    """The rules of the paper."""
    return (HERE / "lubm.rls").read_text(encoding="utf-8")


def tables(size: int) -> dict[str, pa.Table]:
    """So many facts: the published ones where there are some, else drawn."""
    return published(size) if size in PUBLISHED else temporal_facts(size)


def published(size: int) -> dict[str, pa.Table]:
    """The facts of a dataset that others have made, a table per predicate."""
    rows: dict[str, list[tuple[object, ...]]] = {}
    with gzip.open(HERE / f"lubm_{size}.facts.rls.gz", "rt", encoding="utf-8") as lines:
        for name, values, left, start, end, right in FACT.findall(lines.read()):
            times = int(start), int(end), left == "(", right == ")"
            rows.setdefault(name, []).append((*values.split(", "), *times))
    return {name: table_of(some) for name, some in rows.items()}


def table_of(rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Rows of arguments, bounds, and whether these are left out, as a table."""
    columns = list(zip(*rows, strict=True))
    names = [f"c{place}" for place in range(len(columns) - len(BOUNDS))]
    return pa.table([pa.array(column) for column in columns], names=[*names, *BOUNDS])


@dataclass(frozen=True)
class Population:
    """Facts to draw from: constants are numbered, those of each copy beside those of the first."""

    facts: dict[str, Numbers]  # a row per argument
    constants: int
    copies: int


def temporal_facts(size: int, dataset: int = USUAL) -> dict[str, pa.Table]:
    """So many facts with intervals, a table per predicate.

    >>> sum(table.num_rows for table in temporal_facts(2_000).values())
    2000
    """
    random = np.random.default_rng(SEED)
    everything = population(max(1, round(size * POPULATIONS[dataset - 1])))
    sizes = np.array([columns.shape[1] for columns in everything.facts.values()])
    drawn = random.multinomial(size, sizes / sizes.sum())
    return {
        name: timed(columns, int(count), everything, random)
        for (name, columns), count in zip(everything.facts.items(), drawn, strict=True)
        if count
    }


def population(size: int) -> Population:
    """About so many facts: one university that is large enough, or copies of one."""
    copies = -(-size // UNIVERSITY)
    facts = university_facts(-(-size // copies))
    constants = pa.chunked_array([part for table in facts.values() for part in arguments_of(table)])
    numbers = constants.combine_chunks().dictionary_encode()
    codes = numbers.indices.to_numpy().astype(np.int64)
    return Population(dict(coded(facts, codes)), len(numbers.dictionary), copies)


def arguments_of(table: pa.Table) -> list[pa.Array]:
    """The columns of a table of university facts that are part of the facts."""
    names = [name for name in ("subject", "object") if name in table.column_names]
    return [table.column(name).combine_chunks() for name in names]


def coded(facts: Facts, codes: Numbers) -> list[tuple[str, Numbers]]:
    """The facts with numbers for constants, which stand one column after the other in `codes`."""
    found, place = [], 0
    for name, table in facts.items():
        count, arity = table.num_rows, len(arguments_of(table))
        found.append((name, codes[place : place + arity * count].reshape(arity, count)))
        place += arity * count
    return found


def timed(columns: Numbers, count: int, everything: Population, random: np.random.Generator) -> pa.Table:
    """So many facts of a predicate, drawn with their intervals."""
    places = random.integers(0, columns.shape[1], count)
    copies = random.integers(0, everything.copies, count) * everything.constants
    one, other = random.integers(0, LAST + 1, count), random.integers(0, LAST, count)
    ends = np.sort(np.array([one, other + (other >= one)]), axis=0)  # never the same
    are_open = random.random((2, count)) < 0.5
    arguments = {f"c{place}": column[places] + copies for place, column in enumerate(columns)}
    return pa.table({**arguments, **dict(zip(BOUNDS, (*ends, *are_open), strict=True))})
