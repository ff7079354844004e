"""Representatives that have turned out equal and are not merged yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tidelog.equality.representatives import Ids
from tidelog.equality.scratch import GIVEN, Scratch, Sought
from tidelog.equality.together import Together
from tidelog.logic.program import EQUAL, Atom, Program, Variable
from tidelog.maintenance.row_sets import Rows, codes_of
from tidelog.rewrite.over_representatives import groups_of, stored

Pairs = tuple[Ids, Ids]


def all_unmerged(engine: Any, program: Program) -> Pairs | None:
    """Pairs of different representatives that are equal by what is stored, None if there are none."""
    stated = Rows(*engine.rows(stored(EQUAL)))
    groups = [neighbours(Rows(*engine.rows(name))) for name in groups_of(program)]
    return _different([(stated.columns[0], stated.columns[1]), *groups])


class Unmerged:
    """Representatives that facts which came make equal, by the rules of a program over representatives."""

    def __init__(self, program: Program, engine: Any) -> None:
        self._groups = groups_of(program)
        keys = {name: program.predicates[name].arity - 1 for name in self._groups}
        self._scratch = Scratch("to merge", engine, keys)
        self._whole = {name: self._sought(name, arity) for name, arity in keys.items()}
        rules = [sought.rule for sought in self._whole.values()]
        given = [self._scratch.relation(GIVEN, name) for name in keys]
        self._together = Together(rules, given, engine)

    def pairs(self, came: Mapping[str, Rows]) -> Pairs | None:
        """Pairs of different representatives that are equal, None if there are none."""
        found = [came[stored(EQUAL)].columns] if stored(EQUAL) in came else []
        touched = [name for name in self._groups if name in came]
        groups = self._neighbours({name: came[name] for name in touched}) if touched else []
        return _different([*((left, right) for left, right in found), *groups])

    def drop(self) -> None:
        """Forget what is kept from one update to the next."""
        self._scratch.drop()

    def _sought(self, name: str, arity: int) -> Sought:
        """The groups that have given keys, with all their constants."""
        keys = tuple(Variable(f"k{place}") for place in range(arity))
        row = (*keys, Variable("x"))
        given = self._scratch.atom(GIVEN, Atom(name, keys))
        return Sought(row, (given, Atom(name, row)), self._scratch, f" of {name}")

    def _neighbours(self, came: Mapping[str, Rows]) -> list[Pairs]:
        """Pairs by which the groups with new constants hang together, with those that they had."""
        keys = {
            self._scratch.relation(GIVEN, name): Rows(rows.columns[:-1], rows.count)
            for name, rows in came.items()
        }
        try:
            self._scratch.fill(keys)
            self._together.run()
            return [neighbours(self._whole[name].found()) for name in came]
        finally:
            self._scratch.empty()


def _different(parts: Sequence[Pairs]) -> Pairs | None:
    """The pairs of two different constants."""
    found = [(left[left != right], right[left != right]) for left, right in parts]
    if not any(len(left) for left, _ in found):
        return None
    return np.concatenate([left for left, _ in found]), np.concatenate([right for _, right in found])


def neighbours(rows: Rows) -> Pairs:
    """Pairs by which all constants with one key hang together."""
    keys, constants = rows.columns[:-1], rows.columns[-1]
    codes = codes_of(Rows(keys, rows.count))
    order = np.argsort(codes, kind="stable")
    together = codes[order][1:] == codes[order][:-1]
    ordered = constants[order]
    return ordered[:-1][together], ordered[1:][together]
