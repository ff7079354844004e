"""Representatives that have turned out equal and are not merged yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidelog.equality.representatives import Ids
from tidelog.logic.program import EQUAL, Atom, Program, Rule, Variable
from tidelog.maintenance.maintainer import Rows
from tidelog.maintenance.row_sets import codes_of, distinct
from tidelog.rewrite.over_representatives import groups_of, stored

Pairs = tuple[Ids, Ids]
KEYS = "= keys"
ANSWER = "?- groups"


def unmerged(engine: Any, program: Program, came: Mapping[str, Rows], is_all: bool = False) -> Pairs | None:
    """Pairs of different representatives that are equal by facts that came, None if there are none.

    `is_all` says that the facts that came are all there are.
    """
    parts = []
    if stored(EQUAL) in came:
        parts.append(came[stored(EQUAL)].columns)
    for name in groups_of(program):
        if name in came and came[name].count:
            rows = came[name] if is_all else _whole_groups(engine, name, came[name])
            parts.append(neighbours(rows))
    found = [(left[left != right], right[left != right]) for left, right in parts]
    if not any(len(left) for left, _ in found):
        return None
    return np.concatenate([left for left, _ in found]), np.concatenate([right for _, right in found])


def _whole_groups(engine: Any, name: str, came: Rows) -> Rows:
    """The groups that have new constants, with those that they had: of these, all are merged."""
    keys = came.columns[:-1]
    if not keys:
        return Rows(*engine.rows(name))
    terms = tuple(Variable(f"k{place}") for place in range(len(keys)))
    row = (*terms, Variable("x"))
    some = distinct([Rows(keys, came.count)])
    engine.define(KEYS, len(keys))
    try:
        engine.add(KEYS, some.columns, some.count)
        engine.begin([KEYS])
        return Rows(*engine.answer(Rule(Atom(ANSWER, row), (Atom(KEYS, terms), Atom(name, row)))))
    finally:
        engine.drop(KEYS)


def neighbours(rows: Rows) -> Pairs:
    """Pairs by which all constants with one key hang together."""
    keys, constants = rows.columns[:-1], rows.columns[-1]
    codes = codes_of(Rows(keys, rows.count))
    order = np.argsort(codes, kind="stable")
    together = codes[order][1:] == codes[order][:-1]
    ordered = constants[order]
    return ordered[:-1][together], ordered[1:][together]
