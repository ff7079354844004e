"""Why a fact does not hold, as data, and as people and programs read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from html import escape

from tidelog.errors import counted
from tidelog.logic.program import Atom, Literal, Rule, literal_variables
from tidelog.plan.rule_text import Writing
from tidelog.proof.words import named_rule


class State(Enum):
    """What is known of a literal."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"  # it cannot be decided: nothing that holds binds its variables
    GIVEN = "given"  # it follows, but differs from what was asked for


MARKS = {State.HOLDS: "✓", State.FAILS: "✗", State.OPEN: "?", State.GIVEN: "≠"}


@dataclass(frozen=True, slots=True)
class Part:
    """A literal of an instance that comes near."""

    literal: Literal
    state: State


@dataclass(frozen=True, slots=True)
class Failure:
    """The instance of a rule that comes nearest to giving a fact."""

    rule: Rule
    number: int
    parts: tuple[Part, ...]
    repairs: tuple[Atom, ...] = ()  # facts that complete the rule, each by itself
    more: int = 0  # repairs that are not among them


@dataclass(frozen=True)
class WhyNot:
    """Why a fact does not hold.

    A repair is a fact that would complete a rule, were it stated; variables in it stand for anything.
    """

    fact: Atom
    failures: tuple[Failure, ...]
    rules: int  # that derive the predicate; those whose heads do not fit are not among the failures
    writing: Writing
    derived: frozenset[str]  # the predicates that rules derive

    @property
    def repairs(self) -> tuple[Atom, ...]:
        """All repairs, each once: first what no rule derives, then what completes a shorter rule."""
        found = [
            (atom.predicate in self.derived, len(failure.rule.body), self.writing.atom(atom), atom)
            for failure in self.failures
            for atom in failure.repairs
        ]
        return tuple(dict.fromkeys(atom for *_, atom in sorted(found, key=lambda item: item[:3])))

    def to_text(self) -> str:
        """One paragraph for each rule, and the repairs."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"{self.writing.atom(self.fact)} does not hold"
        if not self.rules:
            yield "  it is not stated, and no rule derives the predicate"
        elif not self.failures:
            rules = counted(self.rules, "rule")
            yield f"  it is not stated, and of {rules} of the predicate none has a head that fits it"
        for failure in self.failures:
            yield f"{named_rule(failure.rule, failure.number)}: {self.writing.rule(failure.rule)}"
            for part in failure.parts:
                yield f"  {MARKS[part.state]} {self._literal(part.literal)}"
        if self.repairs:
            yield "any of these would complete a rule:"
            yield from (f"  + {self.writing.atom(atom)} ." for atom in self.repairs)
            more = sum(failure.more for failure in self.failures)
            if more:
                yield f"  … and {more:,} more"

    def _literal(self, literal: Literal) -> str:
        """A literal, with `_` for what the program does not name."""
        unnamed = (item for item in literal_variables(literal) if item.name.startswith("_"))
        return self.writing.literal(literal, dict.fromkeys(unnamed, "_"))

    def to_json(self) -> dict[str, object]:
        """The same as plain JSON values."""
        writing = self.writing
        return {
            "fact": writing.atom(self.fact),
            "rules": [
                {
                    "rule": failure.number + 1,
                    "name": failure.rule.name,
                    "text": writing.rule(failure.rule),
                    "body": [
                        {"literal": self._literal(part.literal), "state": part.state.value}
                        for part in failure.parts
                    ],
                }
                for failure in self.failures
            ],
            "repairs": [writing.atom(atom) for atom in self.repairs],
            "more": sum(failure.more for failure in self.failures),
        }

    def __str__(self) -> str:
        return self.to_text().rstrip("\n")

    def __repr__(self) -> str:
        return (
            f"<WhyNot: {counted(len(self.failures), 'rule')}, {counted(len(self.repairs), 'repair')}>\n{self}"
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"
