"""Equality by axioms: programs with equality are seen with its axioms as rules. Mutates itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from tidelog.equality import conflicts
from tidelog.equality.listing import Listing
from tidelog.equality.representatives import Classes
from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.equality import has_equality
from tidelog.logic.program import BOTTOM, EQUAL, Program, Query, Rule
from tidelog.maintenance.maintainer import Maintainer, Update
from tidelog.maintenance.row_sets import Rows, without
from tidelog.query.strategy import Answers
from tidelog.rewrite.axiomatise import axiomatise

SWITCHED_OFF = "E606"
OVER_TIME = "E609"


class Derive(Protocol):
    """How everything is derived, or what some rules give; anew, or beside what was derived before."""

    def __call__(self, is_anew: bool, rules: Sequence[Rule] | None = None) -> None:
        """Derive."""


class Axiomatised:
    """What programs mean with the axioms of equality as rules; those without equality mean themselves."""

    name = "axiomatise"

    def __init__(self, unique_names: bool = False) -> None:
        self.unique_names = unique_names
        self._known: list[tuple[Program, Program]] = []  # the last programs, and what they mean

    def meaning(self, program: Program) -> Program:
        """The program with all rules that its facts follow by, the same object for the same program."""
        return self.by_axioms(program)

    def by_axioms(self, program: Program) -> Program:
        """The program with the axioms of equality as rules, the same object for the same program."""
        if not has_equality(program.predicates):
            return program
        for said, meant in self._known:
            if said is program:
                return meant
        meant = self._sharing_rules(program, axiomatise(program, unique_names=self.unique_names))
        self._known = [*self._known[-1:], (program, meant)]  # before and after a transaction
        return meant

    def _sharing_rules(self, program: Program, meant: Program) -> Program:
        """What a program means, with the very rules of an earlier one if they are the same."""
        for said, earlier in self._known:
            if said.rules is program.rules and earlier.rules == meant.rules:
                return replace(meant, rules=earlier.rules)
        return meant

    def check(self, program: Program) -> None:
        """Nothing, if equality can be treated in a program as a whole; else raises ProgramError."""
        if program.timed and has_equality(program.predicates):
            message = "equality does not go with facts that hold at times"
            raise ProgramError(Diagnostic(OVER_TIME, message, help="leave one of the two out"))

    def attach(self, runtime: Any, maintainer: Maintainer) -> Maintainer:
        """The maintainer that keeps facts right: the given one. Called once, before all others."""
        self._engine = runtime.engine
        return maintainer

    def complete(self, program: Program, derive: Derive) -> None:
        """Derive everything that a program means; `derive(True)` begins with forgetting what was derived."""
        derive(False)

    def resume(self) -> None:
        """Let equality be as it is in an engine that holds all facts, and that derived none of them."""

    def lose_late(self) -> None:
        """Drop deltas that are not computed yet: what they are computed from is gone."""

    def rows(self, program: Program, predicate: str, shown: str) -> Rows:
        """All facts of a predicate: members are all that there is to be shown."""
        return Rows(*self._engine.rows(predicate))

    def look_up(self, program: Program, shown: str) -> Callable[[Query], Answers] | None:
        """How answers are looked up, if not in the predicates' own relations."""
        return None

    def listing(self, program: Program, shown: str) -> Listing | None:
        """How facts are listed, if not as the predicates' own relations hold them."""
        return None

    def restored(
        self, program: Program, explicit: Mapping[str, Rows], facts: Mapping[str, Rows]
    ) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """What an engine holds that was given explicit facts and has derived the others, by relation."""
        others = {name: without(rows, explicit[name]) for name, rows in facts.items() if name in explicit}
        found = {**facts, **others}
        return dict(explicit), {name: rows for name, rows in found.items() if rows.count}

    def resume_restored(self, program: Program, derive: Derive) -> None:
        """Go on with an engine that holds what `restored` has told, and nothing else."""

    def relation(self, predicate: str) -> str:
        """The relation that holds all facts of a predicate."""
        return predicate

    def known_classes(self) -> Classes:
        """The classes of equal constants, as they are now."""
        classes = Classes()
        (left, right), count = self._engine.rows(EQUAL)
        if count:
            classes.merge(left, right)
        return classes

    def violation(self, program: Program) -> Diagnostic | None:
        """Two constants that are equal and must not be, if there are such."""
        meant = self.meaning(program)
        is_open = BOTTOM in meant.predicates and self._engine.size(BOTTOM)
        return conflicts.violation(meant, self._engine) if is_open and meant is not program else None

    def update(self, update: Update, before: Program, after: Program) -> Update:
        """A transaction between two programs as one between what they mean."""
        first, last = self.meaning(before), self.meaning(after)
        if (first is before and last is after) or first.rules is last.rules:
            return update
        old, new = frozenset(first.rules), frozenset(last.rules)
        return replace(
            update,
            rules_removed=tuple(rule for rule in first.rules if rule not in new),
            rules_added=tuple(rule for rule in last.rules if rule not in old),
        )


class SwitchedOff(Axiomatised):
    """Programs with equality are refused."""

    name = "off"

    def meaning(self, program: Program) -> Program:
        """The program itself; raises ProgramError if it has equality."""
        if has_equality(program.predicates):
            rules = (rule for rule in program.rules if has_equality([rule.head.predicate]))
            span = next((rule.span for rule in rules), None)
            help = "use `--equality rewrite` or `--equality axiomatise`"
            raise ProgramError(Diagnostic(SWITCHED_OFF, "equality is switched off", span, help))
        return program
