"""Equality by axioms: programs with equality are seen with its axioms as rules. Mutates itself."""

from __future__ import annotations

from dataclasses import replace

from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.equality import has_equality
from tidelog.logic.program import Program
from tidelog.maintenance.maintainer import Update
from tidelog.rewrite.axiomatise import axiomatise

SWITCHED_OFF = "E606"


class Axiomatised:
    """What programs mean with the axioms of equality as rules; those without equality mean themselves."""

    name = "axiomatise"

    def __init__(self, unique_names: bool = False) -> None:
        self.unique_names = unique_names
        self._known: list[tuple[Program, Program]] = []  # the last programs, and what they mean

    def meaning(self, program: Program) -> Program:
        """The program with all rules that its facts follow by, the same object for the same program."""
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
