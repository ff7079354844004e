"""Treatments of equality: what all of them share, equality by axioms, and the cache of effective programs.

A treatment turns a program into its effective program, whose rules derive all facts. `Axiomatised` adds the
axioms of equality as rules; `SwitchedOff` refuses equality; `rewriting.Rewriting` derives facts over
representatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Rows, without
from tidelog.engine.events import Listener
from tidelog.engine.interrupts import Limits
from tidelog.equality import conflicts
from tidelog.equality.classes import Classes
from tidelog.equality.listing import Listing
from tidelog.errors import Diagnostic, ProgramError
from tidelog.errors.codes import EQUALITY_OFF, EQUALITY_OVER_TIME
from tidelog.logic.equality_axioms import axiomatise, has_equality
from tidelog.logic.program import BOTTOM, EQUAL, Constant, Program, Query, Rule, rule_changes
from tidelog.logic.values import Value
from tidelog.maintenance.maintainer import Maintainer, Update
from tidelog.plan.inconsistency import Conflict, describe_conflict
from tidelog.query.strategy import Answers
from tidelog.records import dataclass
from tidelog.rewrite.representatives import over_representatives

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

# ---- effective programs, cached
#
# Invariant: as long as the representatives of its constants are the same, a program has the same effective
# program, one object; two effective programs with equal rules share them, as one object.

CACHED = 8  # programs


@dataclass(frozen=True, slots=True)
class CachedProgram:
    """A program, the representatives of its constants, and its effective program with these."""

    source: Program
    constants: dict[Value, Value]
    effective: Program


@dataclass(frozen=True, slots=True)
class LastProgram:
    """The last requested program, the version of the classes at that time, and its effective program."""

    source: Program
    classes: Classes
    version: int
    effective: Program

    def is_for(self, program: Program, classes: Classes) -> bool:
        """Whether this is the entry of a program with these classes."""
        return self.source is program and self.classes is classes and self.version == classes.version


class EffectiveProgramCache:
    """The last requested programs with their effective programs."""

    def __init__(self) -> None:
        self._dictionary: Dictionary
        self._programs: list[CachedProgram] = []
        self._last: LastProgram | None = None
        self._constants: tuple[tuple[Rule, ...], list[Value]] | None = None  # of the last rules

    def attach(self, dictionary: Dictionary) -> None:
        """Set the dictionary that has the constants of classes."""
        self._dictionary = dictionary

    def of(self, program: Program, classes: Classes) -> Program:
        """Return the effective program, over representatives."""
        if self._last is None or not self._last.is_for(program, classes):
            self._last = LastProgram(program, classes, classes.version, self._find(program, classes))
        return self._last.effective

    def source(self, effective: Program) -> Program | None:
        """Return the program of an effective program, None if it is no longer cached."""
        return next(
            (entry.source for entry in reversed(self._programs) if entry.effective is effective), None
        )

    def _find(self, program: Program, classes: Classes) -> Program:
        if not has_equality(program.predicates):
            return program
        constants = self.constants(program, classes)
        for entry in self._programs:
            if entry.source is program and entry.constants == constants:
                return entry.effective
        effective = self._sharing(over_representatives(program, constants))
        self._programs = [*self._programs[1 - CACHED :], CachedProgram(program, constants, effective)]
        return effective

    def _sharing(self, effective: Program) -> Program:
        """The effective program, with the tuple of rules of an earlier one if that is equal."""
        for entry in self._programs:
            if entry.effective.rules == effective.rules:
                return replace(effective, rules=entry.effective.rules)
        return effective

    # ---- constants in rules

    def constants(self, program: Program, classes: Classes) -> dict[Value, Value]:
        """Return the representatives of constants in rules, those apart that represent themselves."""
        if not classes:
            return {}
        if self._constants is None or self._constants[0] is not program.rules:
            self._constants = program.rules, list(dict.fromkeys(constants_of(program.rules)))
        return self.renamed(self._constants[1], classes)

    def renamed(self, constants: Iterable[Value], classes: Classes) -> dict[Value, Value]:
        """Return the representatives of constants that do not represent themselves."""
        values = list(dict.fromkeys(constants))
        if not values:
            return {}
        dictionary = self._dictionary
        ids = dictionary.encode_values(values)
        representatives = classes.representatives(ids)
        return {
            value: dictionary.decode(int(representative))
            for value, identity, representative in zip(values, ids, representatives, strict=True)
            if identity != representative
        }


def constants_of(rules: Iterable[Rule]) -> list[Value]:
    """Return the constants in atoms of rules."""
    return [
        term.value
        for rule in rules
        for atom in (rule.head, *rule.body_atoms)
        for term in atom.terms
        if isinstance(term, Constant)
    ]


# ---- equality by axioms


class Derive(Protocol):
    """Runs all rules, or the given ones; `restart` first deletes all derived facts."""

    def __call__(self, restart: bool, /, rules: Sequence[Rule] | None = None) -> None:
        """Derive all facts, or those of the given rules."""


class MaintenanceRuntime(Protocol):
    """The parts of a reasoner's runtime that treatments of equality use."""

    @property
    def engine(self) -> ColumnarEngine:
        """The engine."""

    @property
    def tell(self) -> Listener:
        """The listener that is called with each event."""

    def check(self) -> None:
        """Raise an error if one of the current limits is reached."""

    def no_limits(self) -> Limits:
        """Return unlimited limits, for work that must not be interrupted."""


class Axiomatised:
    """Equality by axioms: they are rules of the effective program. A program without equality is its own."""

    name = "axiomatise"

    def __init__(self, unique_names: bool = False) -> None:
        self.unique_names = unique_names
        self._programs: list[tuple[Program, Program]] = []  # the last programs with their effective ones

    def meaning(self, program: Program) -> Program:
        """Return the effective program, the same object for the same program."""
        return self.by_axioms(program)

    def by_axioms(self, program: Program) -> Program:
        """Return the program with the axioms of equality as rules, the same object for the same program."""
        if not has_equality(program.predicates):
            return program
        for source, effective in self._programs:
            if source is program:
                return effective
        effective = self._sharing_rules(program, axiomatise(program, unique_names=self.unique_names))
        self._programs = [*self._programs[-1:], (program, effective)]  # before and after a transaction
        return effective

    def _sharing_rules(self, program: Program, effective: Program) -> Program:
        """The effective program, with the tuple of rules of an earlier one if that is equal."""
        for source, earlier in self._programs:
            if source.rules is program.rules and earlier.rules == effective.rules:
                return replace(effective, rules=earlier.rules)
        return effective

    def check(self, program: Program) -> None:
        """Raise ProgramError if a program has both equality and facts that hold at times."""
        if program.timed and has_equality(program.predicates):
            message = "equality cannot be combined with temporal facts"
            raise ProgramError(Diagnostic(EQUALITY_OVER_TIME, message, help="remove one of the two"))

    def attach(self, runtime: MaintenanceRuntime, maintainer: Maintainer) -> None:
        """Set the engine, and the maintainer of facts, here the given one. Called once, first."""
        self._engine = runtime.engine
        self.maintainer = maintainer

    def complete(self, program: Program, derive: Derive) -> None:
        """Derive all facts of a program; `derive(True)` first deletes all derived facts."""
        derive(False)

    def resume(self) -> None:
        """Restore equality from an engine whose facts were loaded, not derived."""

    def lose_late(self) -> None:
        """Drop deltas that are not computed yet: their sources no longer exist."""

    def rows(self, program: Program, predicate: str, shown: str) -> Rows:
        """Return all facts of a predicate; with axioms these always name every member."""
        return Rows(*self._engine.storage.rows(predicate))

    def look_up(self, program: Program, shown: str) -> Callable[[Query], Answers] | None:
        """Return a function that looks up answers, None if they are in the predicates' own relations."""
        return None

    def listing(self, program: Program, shown: str) -> Listing | None:
        """Return the listing of facts, None if they are listed as the predicates' relations hold them."""
        return None

    def restored(
        self, program: Program, explicit: Mapping[str, Rows], facts: Mapping[str, Rows]
    ) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """Return the explicit and the derived facts of an engine with these facts, by relation."""
        derived = {name: without(rows, explicit[name]) for name, rows in facts.items() if name in explicit}
        all_facts = {**facts, **derived}
        return dict(explicit), {name: rows for name, rows in all_facts.items() if rows.count}

    def resume_restored(self, program: Program, derive: Derive) -> None:
        """Continue with an engine that holds exactly the facts that `restored` returned."""

    def relation(self, predicate: str) -> str:
        """Return the relation that holds all facts of a predicate."""
        return predicate

    def known_classes(self) -> Classes:
        """Return the current classes of equal constants."""
        classes = Classes()
        (left, right), count = self._engine.storage.rows(EQUAL)
        if count:
            classes.merge(left, right)
        return classes

    def violation(self, program: Program) -> Diagnostic | None:
        """Describe two constants that are equal although they must not be, if there are any."""
        conflict = self.conflict(program)
        return None if conflict is None else describe_conflict(conflict, program)

    def conflict(self, program: Program) -> Conflict | None:
        """Find two constants that are equal and must not be."""
        effective = self.meaning(program)
        if (
            effective is program
            or BOTTOM not in effective.predicates
            or not self._engine.storage.size(BOTTOM)
        ):
            return None
        return conflicts.find_by_axioms(effective, self._engine)

    def update(self, update: Update, before: Program, after: Program) -> Update:
        """Return an update between two programs as one between their effective programs."""
        first, last = self.meaning(before), self.meaning(after)
        if (first is before and last is after) or first.rules is last.rules:
            return update
        removed, added = rule_changes(first.rules, last.rules)
        return replace(update, rules_removed=removed, rules_added=added)


class SwitchedOff(Axiomatised):
    """Programs with equality are refused."""

    name = "off"

    def meaning(self, program: Program) -> Program:
        """Return the program itself; raise ProgramError if it has equality."""
        if has_equality(program.predicates):
            rules = (rule for rule in program.rules if has_equality([rule.head.predicate]))
            span = next((rule.span for rule in rules), None)
            help = "use `--equality rewrite` or `--equality axiomatise`"
            raise ProgramError(Diagnostic(EQUALITY_OFF, "equality is switched off", span, help))
        return program
