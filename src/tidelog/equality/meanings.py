"""What programs mean over representatives, kept as long as the same programs are asked for. Mutates itself.

Invariant: a program has the very same meaning, one object, while the representatives of its constants are
the same; and where two have the same rules, these are the same object.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tidelog.equality.representatives import Classes
from tidelog.logic.equality import has_equality
from tidelog.logic.program import Constant, Program, Rule
from tidelog.logic.values import Value
from tidelog.rewrite.over_representatives import over_representatives

KEPT = 8  # programs


@dataclass(frozen=True, slots=True)
class Known:
    """A program, the representatives of its constants, and what it means with them."""

    said: Program
    constants: dict[Value, Value]
    meant: Program


@dataclass(frozen=True, slots=True)
class Asked:
    """The program whose meaning was asked for last, the classes as they were then, and what it means."""

    said: Program
    classes: Classes
    version: int
    meant: Program

    def is_about(self, program: Program, classes: Classes) -> bool:
        """Whether it is the meaning of a program with these classes."""
        return self.said is program and self.classes is classes and self.version == classes.version


class Meanings:
    """The programs that were asked for last, and what they mean."""

    def __init__(self) -> None:
        self._engine: Any = None
        self._programs: list[Known] = []
        self._asked: Asked | None = None
        self._constants: tuple[tuple[Rule, ...], list[Value]] | None = None  # of the last rules

    def attach(self, engine: Any) -> None:
        """Let the engine be known whose dictionary classes are of."""
        self._engine = engine

    def of(self, program: Program, classes: Classes) -> Program:
        """The program over representatives."""
        if self._asked is None or not self._asked.is_about(program, classes):
            self._asked = Asked(program, classes, classes.version, self._find(program, classes))
        return self._asked.meant

    def said(self, meant: Program) -> Program | None:
        """The program that has this meaning, if it was asked for not long ago."""
        return next((known.said for known in reversed(self._programs) if known.meant is meant), None)

    def _find(self, program: Program, classes: Classes) -> Program:
        if not has_equality(program.predicates):
            return program
        constants = self.constants(program, classes)
        for known in self._programs:
            if known.said is program and known.constants == constants:
                return known.meant
        meant = self._sharing(over_representatives(program, constants))
        self._programs = [*self._programs[1 - KEPT :], Known(program, constants, meant)]
        return meant

    def _sharing(self, meant: Program) -> Program:
        """What a program means, with the very rules of an earlier one if they are the same."""
        for known in self._programs:
            if known.meant.rules == meant.rules:
                return replace(meant, rules=known.meant.rules)
        return meant

    # ---- constants in rules

    def constants(self, program: Program, classes: Classes) -> dict[Value, Value]:
        """The representatives of the constants in rules, of those that do not stand for themselves."""
        if not classes:
            return {}
        if self._constants is None or self._constants[0] is not program.rules:
            self._constants = program.rules, list(dict.fromkeys(constants_of(program.rules)))
        return self.renamed(self._constants[1], classes)

    def renamed(self, constants: Iterable[Value], classes: Classes) -> dict[Value, Value]:
        """The representatives of constants that do not stand for themselves."""
        values = list(dict.fromkeys(constants))
        if not values:
            return {}
        dictionary = self._engine.dictionary
        ids = dictionary.encode_values(values)
        own = classes.representatives(ids)
        return {
            value: dictionary.decode(int(representative))
            for value, identity, representative in zip(values, ids, own, strict=True)
            if identity != representative
        }


def constants_of(rules: Iterable[Rule]) -> list[Value]:
    """The constants in atoms of rules."""
    return [
        term.value
        for rule in rules
        for atom in (rule.head, *rule.positive, *rule.negated)
        for term in atom.terms
        if isinstance(term, Constant)
    ]
