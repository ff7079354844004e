"""Why a fact does not hold: for each rule that could derive it, the instance that comes nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from html import escape
from itertools import combinations, islice

import numpy as np

from tidelog.errors import Diagnostic, ProgramError, counted
from tidelog.errors.codes import NOT_WHY_NOT
from tidelog.logic.program import (
    Assignment,
    Atom,
    Constant,
    Literal,
    Program,
    Query,
    Rule,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.plan.algebra import UNEXPLAINED_FACT
from tidelog.plan.join_order import negated_only_variables
from tidelog.plan.rule_text import Writing
from tidelog.proof.explanation import ground_atom, grounded, named_rule
from tidelog.proof.proof_search import InstanceFinder, RuleInstances, heads_of
from tidelog.proof.prover import the_atom
from tidelog.records import dataclass

# ---- reports of why a fact does not hold


class LiteralState(Enum):
    """The state of a literal."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"  # undecided: no literal that holds binds its variables
    GIVEN = "given"  # it follows, but differs from the fact in question


MARKS = {LiteralState.HOLDS: "✓", LiteralState.FAILS: "✗", LiteralState.OPEN: "?", LiteralState.GIVEN: "≠"}


@dataclass(frozen=True, slots=True)
class JudgedLiteral:
    """A literal of a nearest instance, with its state."""

    literal: Literal
    state: LiteralState


@dataclass(frozen=True, slots=True)
class Failure:
    """The instance of a rule that comes nearest to deriving a fact."""

    rule: Rule
    number: int
    parts: tuple[JudgedLiteral, ...]
    repairs: tuple[Atom, ...] = ()  # facts that complete the rule, each by itself
    more: int = 0  # the number of further repairs


@dataclass(frozen=True)
class WhyNot:
    """Why a fact does not hold.

    A repair is a fact that would complete a rule if it were added; variables in it match anything.
    """

    fact: Atom
    failures: tuple[Failure, ...]
    rules: int  # that derive the predicate; those whose heads do not fit are not among the failures
    writing: Writing
    derived: frozenset[str]  # the predicates that rules derive

    @property
    def repairs(self) -> tuple[Atom, ...]:
        """All repairs, each once: facts without rules first, then those that complete shorter rules."""
        ranked = [
            (atom.predicate in self.derived, len(failure.rule.body), self.writing.atom(atom), atom)
            for failure in self.failures
            for atom in failure.repairs
        ]
        return tuple(dict.fromkeys(atom for *_, atom in sorted(ranked, key=lambda item: item[:3])))

    def to_text(self) -> str:
        """One paragraph for each rule, and the repairs."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"{self.writing.atom(self.fact)} does not hold"
        if not self.rules:
            yield "  it is not an explicit fact, and no rule derives the predicate"
        elif not self.failures:
            rules = counted(self.rules, "rule")
            yield f"  it is not an explicit fact, and no head of {rules} of the predicate matches it"
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
        """A literal, with `_` for variables that the program does not name."""
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


# ---- the search for the nearest instance of each rule
#
# Literals are omitted from the body, as few as possible, until the others hold for the fact in
# question. A literal that cannot be decided, because only omitted ones bind its variables, stays
# open. If a single atom was omitted and no literal is open, the atom is a repair: added,
# it completes the rule.

MOST_TRIED = 100  # combinations of literals that are left out, before one literal after the other is


@dataclass(frozen=True, slots=True)
class Attempt:
    """A body without some literals, and the instances of the remaining ones."""

    omitted: frozenset[int]
    open: frozenset[int]
    instances: RuleInstances


class WhyNotSearch:
    """Finds out why facts do not hold."""

    def __init__(self, instances: InstanceFinder, program: Program, check: Callable[[], None]) -> None:
        self._instances = instances
        self._engine = instances.engine
        self._program = program
        self._check = check

    def explain(self, query: Query, limit: int) -> WhyNot:
        """Why a fact does not hold, with at most `limit` repairs for each rule and literal."""
        atom = self._goal(query)
        values = [term.value for term in atom.terms if isinstance(term, Constant)]
        relation = f"{UNEXPLAINED_FACT} {len(values)}"
        self._engine.storage.define_temporary(relation, len(values))
        try:
            columns = [
                np.array([self._engine.storage.dictionary.encode(value)], np.int32) for value in values
            ]
            self._engine.storage.add(relation, columns, 1)
            rules = self._instances.rules_of(atom.predicate)
            failures = [
                each for rule, number in rules for each in self._failures(rule, number, relation, limit)
            ]
        finally:
            self._engine.storage.clear(relation)
        return WhyNot(atom, tuple(failures), len(rules), Writing.of(self._program), self._program.derived)

    def _goal(self, query: Query) -> Atom:
        """Return the fact in question; raise ProgramError if the query is not a single fact, or holds."""
        text = query.text.strip()
        atom = the_atom(query.rule)
        if atom is None or query.variables:
            message, help = f"`{text}` is not a single fact", "ask about one fact, without variables"
            raise ProgramError(Diagnostic(NOT_WHY_NOT, message, help=help))
        ids = [
            self._engine.storage.dictionary.encode(term.value)
            for term in atom.terms
            if isinstance(term, Constant)
        ]
        columns = [np.array([identity], np.int32) for identity in ids]
        if self._engine.storage.row_flags(atom.predicate, columns, 1)[0]:
            message, help = f"`{text}` holds", "ask why it does: `tidelog explain`, `reasoner.explain(…)`"
            raise ProgramError(Diagnostic(NOT_WHY_NOT, message, help=help))
        return atom

    def _failures(self, rule: Rule, number: int, relation: str, limit: int) -> Iterator[Failure]:
        """Yield how a rule fails, if its head matches the fact."""
        derivation = replace(rule, head=Atom(relation, rule.head.terms), aggregations=(), after=(), group=())
        if not self._attempt(derivation, frozenset(range(len(rule.body)))).instances.count:
            return
        whole = self._attempt(derivation, frozenset())
        if whole.instances.count:
            yield self._other_value(rule, number, whole.instances)
            return
        attempts = self._nearest(derivation)
        nearest = min(attempts, key=lambda attempt: len(attempt.open))
        repairs = [] if rule.aggregations else [self._repairs(rule, attempt, limit) for attempt in attempts]
        facts = tuple(fact for some, _ in repairs for fact in some)
        yield Failure(rule, number, self._parts(rule, nearest), facts, sum(more for _, more in repairs))

    # ---- leaving literals out

    def _nearest(self, rule: Rule) -> list[Attempt]:
        """All ways to leave out as few literals as possible so that the rest holds."""
        positions = range(len(rule.body))
        tried = 0
        for size in range(1, len(positions) + 1):
            succeeded = []
            for omitted in islice(combinations(positions, size), MOST_TRIED - tried):
                tried += 1
                attempt = self._attempt(rule, frozenset(omitted))
                if attempt.instances.count:
                    succeeded.append(attempt)
            if succeeded:
                return succeeded
            if tried >= MOST_TRIED:
                break
        return [self._greedy(rule)]

    def _greedy(self, rule: Rule) -> Attempt:
        """Keep literals one after the other, as long as those kept hold together."""
        omitted = frozenset(range(len(rule.body)))
        for position in range(len(rule.body)):
            if self._attempt(rule, omitted - {position}).instances.count:
                omitted -= {position}
        return self._attempt(rule, omitted)

    def _attempt(self, rule: Rule, omitted: frozenset[int]) -> Attempt:
        self._check()
        open_places = undecided(rule, omitted)
        kept = [item for position, item in enumerate(rule.body) if position not in omitted | open_places]
        instances = self._instances.find(replace(rule, body=tuple(kept)), -1, np.zeros(1, np.int64))
        return Attempt(omitted, open_places, instances)

    # ---- results

    def _parts(self, rule: Rule, attempt: Attempt) -> tuple[JudgedLiteral, ...]:
        """The literals of the nearest instance, with their states."""
        binding = attempt.instances.binding(0, self._engine.storage.dictionary)
        states = {
            **dict.fromkeys(attempt.open, LiteralState.OPEN),
            **dict.fromkeys(attempt.omitted, LiteralState.FAILS),
        }
        return tuple(
            JudgedLiteral(grounded(literal, binding), states.get(position, LiteralState.HOLDS))
            for position, literal in enumerate(rule.body)
        )

    def _repairs(self, rule: Rule, attempt: Attempt, limit: int) -> tuple[list[Atom], int]:
        """The facts each of which completes the rule, at most `limit`, and how many more there are."""
        if len(attempt.omitted) > 1 or attempt.open:
            return [], 0
        literal = rule.body[next(iter(attempt.omitted))]
        if not isinstance(literal, Atom):
            return [], 0
        columns = attempt.instances.columns
        bound = [term for term in literal.terms if isinstance(term, Variable) and term in columns]
        rows = dict.fromkeys(zip(*(columns[term].tolist() for term in bound), strict=True))
        decode = self._engine.storage.dictionary.decode
        bindings = (dict(zip(bound, map(decode, row), strict=True)) for row in (rows or {(): None}))
        facts = [ground_atom(literal, binding) for binding in islice(bindings, limit)]
        return facts, max(0, len(rows) - limit)

    def _other_value(self, rule: Rule, number: int, instances: RuleInstances) -> Failure:
        """The body of an aggregate rule holds, but the group has other values."""
        heads = (
            tuple(map(Constant, row)) for row in heads_of(rule, instances, self._engine.storage.dictionary)
        )
        parts = tuple(JudgedLiteral(Atom(rule.head.predicate, terms), LiteralState.GIVEN) for terms in heads)
        return Failure(rule, number, parts)


def undecided(rule: Rule, omitted: frozenset[int]) -> frozenset[int]:
    """Return the positions of literals that lack a variable's value once others are left out."""
    wild = negated_only_variables(rule.body)
    bound = {term for term in rule.head.terms if isinstance(term, Variable)} | wild
    for position, literal in enumerate(rule.body):
        if isinstance(literal, Atom) and position not in omitted:
            bound.update(literal_variables(literal))
    open_places: set[int] = set()
    for position, literal in enumerate(rule.body):  # each variable is bound before it is used
        if position in omitted or isinstance(literal, Atom):
            continue
        needed = set(literal_variables(literal))
        if isinstance(literal, Assignment):
            needed = set(variables_of(literal.expression))
        if not bound.issuperset(needed):
            open_places.add(position)
        elif isinstance(literal, Assignment):
            bound.add(literal.variable)
    return frozenset(open_places)
