"""Facts with equality, after UOBM: people with several identifiers, and one class of very many.

Everything is random and the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ids = npt.NDArray[np.int64]
Tables = dict[str, pa.Table]
PER_PERSON = 5.4  # facts, about
TOWN = 4  # people who are said to come from one town
COLUMNS: Mapping[str, tuple[str, str]] = {
    "hasEmail": ("x", "e"),
    "headOf": ("d", "x"),
    "sameAs": ("x", "y"),
    "worksFor": ("x", "d"),
    "partOf": ("d", "u"),
    "friend": ("x", "y"),
    "takes": ("x", "c"),
    "teaches": ("x", "c"),
    "sameTown": ("x", "y"),
}


@dataclass(frozen=True)
class Shape:
    """How many of the people have other identifiers, and how many identifiers those have."""

    share: float
    identifiers: int
    largest: int = 0  # members of one class apart


SHAPES: Mapping[str, Shape] = {
    "uobm": Shape(0.9, 6),
    "lubm": Shape(0.02, 2),
    "cliques": Shape(0.02, 2, largest=4_000),
}


def people(shape: Shape, size: int) -> Tables:
    """About `size` facts."""
    random = np.random.default_rng(1)
    names = int(size / PER_PERSON)  # identifiers
    several = int(names * shape.share) // shape.identifiers
    owner = np.arange(names)
    owner[: several * shape.identifiers] = np.repeat(
        np.arange(several) * shape.identifiers, shape.identifiers
    )
    departments, courses = max(names // 50, 2), max(names // 10, 2)

    def some(count: int, below: int) -> Ids:
        return random.integers(0, below, count)

    linked = np.arange(several * shape.identifiers)
    by_mail = linked[linked % 3 != 0]
    first = linked[linked % 3 == 0]
    facts = {
        "hasEmail": (("p", np.r_[by_mail, owner[by_mail]]), ("mail", np.r_[owner[by_mail], owner[by_mail]])),
        "sameAs": (("p", first), ("p", owner[first])),
        "headOf": (("d", np.arange(departments)), ("p", some(departments, names))),
        "worksFor": (("p", some(names, names)), ("d", some(names, departments))),
        "partOf": (("d", np.arange(departments)), ("u", np.arange(departments) // 20)),
        "friend": (("p", some(names, names)), ("p", some(names, names))),
        "takes": (("p", some(2 * names, names)), ("c", some(2 * names, courses))),
        "teaches": (("p", np.arange(courses)), ("c", np.arange(courses))),
        "sameTown": _towns(names, owner),
    }
    tables = {name: _table(name, *columns) for name, columns in facts.items()}
    return _with_a_large_class(tables, names, shape.largest, random) if shape.largest else tables


def _towns(names: int, owner: Ids) -> tuple[tuple[str, Ids], tuple[str, Ids]]:
    """Chains of a few people each."""
    persons = np.unique(owner)[: names // 4]
    before, after = persons[:-1], persons[1:]
    kept = np.arange(len(before)) % TOWN != TOWN - 1
    return ("p", before[kept]), ("p", after[kept])


def _with_a_large_class(tables: Tables, names: int, largest: int, random: np.random.Generator) -> Tables:
    """One department with very many heads, each of whom also works and teaches."""
    heads = names + np.arange(largest)
    other = {
        "headOf": (("d", np.zeros(largest, np.int64)), ("p", heads)),
        "worksFor": (("p", heads), ("d", random.integers(1, 40, largest))),
        "friend": (("p", heads), ("p", random.integers(0, names, largest))),
    }
    made = {name: _table(name, *columns) for name, columns in other.items()}
    return {
        name: pa.concat_tables([table, made[name]]) if name in made else table
        for name, table in tables.items()
    }


def _table(name: str, left: tuple[str, Ids], right: tuple[str, Ids]) -> pa.Table:
    columns = {
        column: pc.binary_join_element_wise(pa.scalar(prefix), pa.array(ids).cast(pa.string()), "")
        for column, (prefix, ids) in zip(COLUMNS[name], (left, right), strict=True)
    }
    return pa.table(columns).group_by(list(columns), use_threads=False).aggregate([])
