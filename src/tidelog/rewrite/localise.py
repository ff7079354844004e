"""Localisation: from a program to the one that each of P tasks runs on its part of the facts.

Ganguly, Silberschatz, Tsur: A Framework for the Parallel Processing of Datalog Queries, SIGMOD 1990, for
rules whose instances are divided by the hash of a term. Loo et al.: Declarative Networking: Language,
Execution and Optimization, SIGMOD 2006, for the rewriting of rules until all that one reads lies in one
place.

`path @0` is the copy of `path` whose facts lie at the task that owns their first argument (the hash of the
value says which), `path @all` lies at every task. All facts that a local rule reads lie at the owner of one
term of the rule, or at every task. One copy of a derived predicate is its *home*, the set of record: what is
derived at other tasks is put into an *outbox*, `path >`, and sent there, and new facts of the home are sent
on to the other copies.

    path(?x, ?z) :- path(?x, ?y), path(?y, ?z) .

becomes, run at the owner of `?y`,

    path >(?x, ?z) :- path @1(?x, ?y), path @0(?y, ?z) .

with the routes `path >` to `path @0`, by its first argument, and `path @0` to `path @1`, by its second.

The tasks run in rounds: each derives all it can, then all exchange what is new. A rule that negates or
aggregates also reads a *gate*, a fact that every task inserts once a round has delivered nothing: what it
reads is then complete.

Invariant: once all gates are open and nothing is delivered, the union of a predicate's home over all tasks
has the facts of the original program, and each copy has exactly those of them that belong to its task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from tidelog.errors import counted
from tidelog.logic.equality_axioms import TRANSITIVITY, has_equality
from tidelog.logic.program import (
    DIFFERENT,
    EQUAL,
    Atom,
    Literal,
    Negation,
    Predicate,
    Program,
    Rule,
    Term,
    Variable,
)
from tidelog.logic.strata import Stratum, strata
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass
from tidelog.rewrite.localise_homes import (
    EVERYWHERE,
    FIRST,
    Arrangement,
    Chosen,
    Fixed,
    Place,
    arrange,
    is_aligned,
)
from tidelog.rewrite.localise_plans import Estimates, JoinStep, Sizes, estimate, target
from tidelog.rewrite.localise_rules import NUMBER, TASK, Column, Partial, select, split_heavy

__all__ = [
    "EVERYWHERE",
    "FIRST",
    "NUMBER",
    "Copy",
    "Localised",
    "NotLocalisable",
    "Place",
    "Reason",
    "Route",
    "Sizes",
    "localise",
    "named",
    "where",
]

ORDINALS: Final = ("first", "second", "third", "fourth")
SUFFIXES: Final = {EVERYWHERE: "all", FIRST: "first"}


class NotLocalisable(ValueError):  # noqa: N818 - what the program is, not what went wrong
    """The program cannot be divided among tasks; `rule` is the one that forbids it, if it is one."""

    def __init__(self, message: str, rule: Rule | None = None) -> None:
        super().__init__(message)
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Copy:
    """A local relation that holds facts of a predicate, where they lie, and how many they may be in all."""

    relation: str
    place: Place
    rows: float


@dataclass(frozen=True, slots=True)
class Route:
    """The copy to which new facts of a local relation are sent.

    A `replicated` relation is the same at every task: each keeps what belongs to it, and nothing is sent.
    """

    target: str
    place: Place
    replicated: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """The local rules that replace a rule, and why."""

    rule: Rule
    local: tuple[Rule, ...]
    text: str


@dataclass(frozen=True)
class Localised:
    """The program of a task, and how its relations are fed.

    Given facts, those in the program included, are in all copies of their predicate before the first
    round; only what is derived follows the routes. So are the frequent values of the columns of `heavy`: any
    values are right, and few are of use. No rule reads an outbox: what is derived there is sent, and need not
    be kept.
    """

    program: Program
    copies: Mapping[str, tuple[Copy, ...]]  # of each predicate of the original program, its home first
    auxiliaries: Mapping[str, tuple[Copy, ...]]  # relations that the original program does not have
    heavy: Mapping[Column, tuple[Copy, ...]]  # relations for the most frequent values of a predicate's column
    routes: Mapping[str, tuple[Route, ...]]
    gates: tuple[str, ...]  # to be inserted one after the other
    outboxes: frozenset[str]
    is_numbered: bool  # whether each task has its number in the relation `NUMBER`
    reasons: tuple[Reason, ...]
    cost: float  # estimated rows that are sent, or stored in addition to the homes

    def describe(self) -> str:
        """Describe where relations lie and how rules are run, one line each."""
        relations = {**self.copies, **self.auxiliaries}
        lines = [f"{name}: {', '.join(map(_described, copies))}." for name, copies in relations.items()]
        rules = [f"{named(reason.rule)}: {reason.text}" for reason in self.reasons]
        return "\n".join((*lines, *rules))


def localise(program: Program, sizes: Sizes, tasks: int) -> Localised:
    """Return the program that each of `tasks` tasks runs, planned for these sizes of the given relations."""
    if tasks < 1:
        raise ValueError(f"a program is run by one task at least, not by {tasks}")
    check_localisable(program)
    plan = _Candidate.of(program, select(program, constants=False), sizes, tasks)
    selected = select(program, constants=True)
    if selected.rules != plan.program.rules:
        with_constants = _Candidate.of(program, selected, sizes, tasks)
        undivided = select(program, constants=True, without=with_constants.divided_selections())
        plan = _cheapest(plan, with_constants, _Candidate.of(program, undivided, sizes, tasks))
    split = split_heavy(plan.program, sizes)
    if split.heavy:
        plan = _cheapest(plan, _Candidate.of(program, split.program, split.sizes, tasks, split.heavy))
    return _Emission(program, plan).localised()


@dataclass(frozen=True)
class _Candidate:
    """A way to run the program, perhaps with more predicates, and the best arrangement found for it."""

    program: Program
    parts: tuple[Stratum, ...]
    added: frozenset[str]
    heavy: Mapping[str, Column]
    estimates: Estimates
    arrangement: Arrangement

    @staticmethod
    def of(
        original: Program,
        program: Program,
        sizes: Sizes,
        tasks: int,
        heavy: Mapping[str, Column] | None = None,
    ) -> _Candidate:
        added = frozenset(program.predicates.keys() - original.predicates.keys())
        parts = strata(program.rules, program.predicates)
        estimates = estimate(program, parts, sizes)
        arrangement = arrange(program, parts, estimates, tasks, added)
        return _Candidate(program, parts, added, heavy or {}, estimates, arrangement)

    def divided_selections(self) -> frozenset[str]:
        """Return the selections that lie at no place where the whole relation could not."""
        copies = self.arrangement.copies
        return frozenset(name for name in self.added if EVERYWHERE not in copies[name])


def _cheapest(*candidates: _Candidate) -> _Candidate:
    return min(candidates, key=lambda candidate: candidate.arrangement.cost)


def check_localisable(program: Program) -> None:
    """Refuse rules over time, and equality unless its axioms are among the rules: no task owns a class.

    What holds always is localised; `temporal.partitioning` divides what holds at times.
    """
    for rule in program.rules:
        if rule.is_metric or rule.head.predicate in program.timed:
            raise NotLocalisable(f"{named(rule)} derives temporal facts", rule)
    if program.timed:
        raise NotLocalisable("the program has explicit temporal facts")
    if TRANSITIVITY in program.rules:
        return
    for rule in program.rules:
        if rule.head.predicate in (EQUAL, DIFFERENT):
            raise NotLocalisable(f"{named(rule)} derives equality, whose classes no task could own", rule)
    if has_equality(program.predicates):
        raise NotLocalisable("the program has explicit equality, whose classes no task could own")


# ---- gates


def levels(parts: Iterable[Stratum], merged: Collection[Rule] = ()) -> dict[str, int]:
    """Return for each derived predicate how many gates must be open before it is complete.

    The aggregates of `merged` rules are computed in parts.
    """
    gates_of: dict[str, int] = {}
    for stratum in parts:
        read_gates = (gates_of.get(atom.predicate, 0) for rule in stratum.rules for atom in rule.positive)
        rule_gates = (gate_of(rule, gates_of) + (rule in merged) for rule in stratum.rules)
        gates_of.update(dict.fromkeys(stratum.predicates, max((*read_gates, *rule_gates))))
    return gates_of


def gate_of(rule: Rule, levels: Mapping[str, int]) -> int:
    """Return the number of the gate that a rule waits for, 0 if it waits for none.

    Rows that are aggregated are sent first, so that an aggregate waits for one gate more than they do.
    """
    negated = negation_gate(rule, levels)
    if rule.aggregations:
        return 1 + max((negated, *(levels.get(atom.predicate, 0) for atom in rule.positive)))
    return negated


def negation_gate(rule: Rule, levels: Mapping[str, int]) -> int:
    """Return the number of the gate behind which all that a rule negates is complete.

    Predicates without rules are complete from the beginning.
    """
    return max((1 + levels[atom.predicate] for atom in rule.negated if atom.predicate in levels), default=0)


# ---- local rules


@dataclass
class _Emission:
    """The local program. Mutable: it gathers relations and routes from rule to rule."""

    original: Program
    candidate: _Candidate
    copies: dict[str, tuple[Copy, ...]] = field(default_factory=dict)
    auxiliaries: dict[str, tuple[Copy, ...]] = field(default_factory=dict)
    predicates: dict[str, Predicate] = field(default_factory=dict)
    routes: dict[str, dict[Route, None]] = field(default_factory=dict)
    outboxes: set[str] = field(default_factory=set)
    gates: dict[int, Atom] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)

    def localised(self) -> Localised:
        """Return the localised program."""
        chosen = zip(self.candidate.program.rules, self.candidate.arrangement.chosen, strict=True)
        self.levels = levels(
            self.candidate.parts, {rule for rule, choice in chosen if choice.merged is not None}
        )
        for name in self.candidate.program.predicates:
            self.copies[name] = self._copies(name)
        reasons = tuple(map(self._reason, self.candidate.program.rules, self.candidate.arrangement.chosen))
        rules = tuple(dict.fromkeys(rule for reason in reasons for rule in reason.local))
        empty = replace(self.original, facts=(), imports=(), exports=(), outputs=(), queries=(), warnings=())
        added = {name: self.copies[name] for name in sorted(self.candidate.added)}
        return Localised(
            replace(empty, predicates=self.predicates, rules=rules),
            {name: self.copies[name] for name in self.original.predicates},
            {**added, **self.auxiliaries},
            {column: self.copies[name] for name, column in self.candidate.heavy.items()},
            {name: tuple(routes) for name, routes in self.routes.items()},
            tuple(self.gates[level].predicate for level in sorted(self.gates)),
            frozenset(self.outboxes),
            NUMBER in self.predicates,
            reasons,
            self.candidate.arrangement.cost,
        )

    # ---- relations

    def _copies(self, name: str) -> tuple[Copy, ...]:
        """Define the copies of a predicate, and the routes from its home to the others."""
        rows = self.candidate.estimates.rows(name)
        copies = tuple(
            Copy(_local(name, place), place, rows) for place in self.candidate.arrangement.copies[name]
        )
        original = self.candidate.program.predicates[name]
        types = self.candidate.program.types_of(original)
        for copy in copies:
            self.predicates[copy.relation] = replace(
                original, name=copy.relation, written=copy.relation, types=types
            )
        if name in self.candidate.arrangement.homes:
            for copy in copies[1:]:
                self._route(copies[0].relation, copy, replicated=copies[0].place is EVERYWHERE)
        return copies

    def _route(self, source: str, copy: Copy, *, replicated: bool) -> None:
        self.routes.setdefault(source, {})[Route(copy.relation, copy.place, replicated)] = None

    def _define(self, relation: str, arity: int) -> None:
        types = (ColumnType.ANY,) * arity
        self.predicates.setdefault(relation, Predicate(relation, arity, (None,) * arity, types, relation))

    def _auxiliary(self, kind: str, terms: Sequence[Term], place: Place, rows: float) -> Copy:
        """Define a relation of matches that are sent to where they are needed next."""
        name = f"{kind} {len(self.auxiliaries) + 1}"
        copy = Copy(_local(name, place), place, rows)
        self._define(copy.relation, len(terms))
        self.auxiliaries[name] = (copy,)
        return copy

    def _outbox(self, name: str, copy: Copy, terms: tuple[Term, ...], *, replicated: bool) -> Atom:
        """Return an atom of the outbox from which facts are sent to a copy."""
        outbox = f"{name} {'=' if replicated else '>'}"
        self._define(outbox, len(terms))
        self._route(outbox, copy, replicated=replicated)
        self.outboxes.add(outbox)
        return Atom(outbox, terms)

    # ---- one rule

    def _reason(self, rule: Rule, chosen: Chosen) -> Reason:
        """Return the local rules of a rule, with a description."""
        rules: list[Rule] = []
        sentences: list[str] = []
        carried: tuple[Atom, ...] = ()
        *steps, last = chosen.plan.steps
        for step, following, places in zip(steps, chosen.plan.steps[1:], chosen.places, strict=False):
            body = (*carried, *_body(step, places))
            place = step.kept.index(following.key) if following.key in step.kept else EVERYWHERE
            auxiliary = self._auxiliary("join", step.kept, place, step.rows)
            head = self._outbox(auxiliary.relation, auxiliary, step.kept, replicated=False)
            rules.append(Rule(head, self._gated(rule, body)))
            sentences.append(f"{_run(step.key, body)}; {_count(step.rows)} go to {where(place)}")
            carried = (Atom(auxiliary.relation, step.kept),)
        body = (*carried, *_body(last, chosen.places[-1]))
        derived, text = self._last(rule, chosen, body)
        return Reason(rule, (*rules, *derived), "; ".join((*sentences, f"{_run(last.key, body)}; {text}.")))

    def _last(self, rule: Rule, chosen: Chosen, body: tuple[Literal, ...]) -> tuple[tuple[Rule, ...], str]:
        """Return the rules that derive the head from the last step, with a description."""
        key, rows = chosen.plan.last.key, chosen.plan.last.rows
        if chosen.gathered is None and chosen.merged is None:
            head, text = self._head(rule, key, rows, replicated=key is None)
            return (replace(rule, head=head, body=self._gated(rule, body, bool(rule.aggregations))),), text
        rules: list[Rule] = []
        sentences: list[str] = []
        if chosen.gathered is not None:
            terms = target(rule)
            gathered = self._auxiliary("rows", terms, chosen.gathered, rows)
            outbox = self._outbox(gathered.relation, gathered, terms, replicated=key is None)
            rules.append(Rule(outbox, self._gated(rule, body)))
            sentences.append(f"{_count(rows)} are gathered at {where(chosen.gathered)}")
            body = (Atom(gathered.relation, terms),)
        aggregate, later, place = rule, 0, chosen.gathered
        if chosen.merged is not None:
            part = Partial.of(rule)
            heads = min(rows, self.candidate.estimates.rows(rule.head.predicate))
            parts = self._auxiliary("part", part.terms, chosen.merged, heads)
            self._define(NUMBER, 1)
            outbox = self._outbox(parts.relation, parts, part.terms, replicated=False)
            numbered = (Atom(NUMBER, (TASK,)), *body)
            rules.append(
                Rule(
                    outbox,
                    self._gated(rule, numbered, True),
                    group=part.group,
                    aggregations=part.aggregations,
                )
            )
            sentences.append(
                f"each task's part of a group becomes one row, which goes to {where(chosen.merged)}"
            )
            body = (Atom(parts.relation, part.terms),)
            aggregate, later, place = replace(rule, aggregations=part.merging), 1, chosen.merged
        owner = rule.group[place] if isinstance(place, int) else FIRST
        head, text = self._head(
            rule, owner, self.candidate.estimates.rows(rule.head.predicate), replicated=False
        )
        grouped = replace(aggregate, head=head, body=self._gated(rule, body, True, later))
        return (*rules, grouped), "; ".join((*sentences, text))

    def _head(
        self, rule: Rule, key: Term | Fixed | None, rows: float, *, replicated: bool
    ) -> tuple[Atom, str]:
        """Return the head over the home, or over an outbox, with a description of where it is sent."""
        name, terms = rule.head.predicate, rule.head.terms
        home = self.copies[name][0]
        if not isinstance(key, Fixed) and is_aligned(terms, home.place, key):
            return Atom(home.relation, terms), "nothing is sent"
        text = (
            "each task keeps what is its own" if replicated else f"{_count(rows)} go to {where(home.place)}"
        )
        return self._outbox(name, home, terms, replicated=replicated), text

    def _gated(
        self, rule: Rule, body: tuple[Literal, ...], is_strict: bool = False, later: int = 0
    ) -> tuple[Literal, ...]:
        """Return the body behind the gate of its rule, if it negates or is strict for another reason.

        It may be some gates `later`.
        """
        if not is_strict and not any(isinstance(literal, Negation) for literal in body):
            return body
        level = (gate_of if is_strict else negation_gate)(rule, self.levels) + later
        if not level:
            return body
        gate = self.gates.setdefault(level, Atom(f"gate {level}", ()))
        self._define(gate.predicate, 0)
        return (gate, *body)


def _body(step: JoinStep, places: Sequence[Place | None]) -> tuple[Literal, ...]:
    """Return the literals of a step over local relations."""
    return tuple(_read(read.literal, place) for read, place in zip(step.reads, places, strict=True))


def _read(literal: Literal, place: Place | None) -> Literal:
    match literal:
        case Atom(name, terms) if place is not None:
            return Atom(_local(name, place), terms)
        case Negation(Atom(name, terms)) if place is not None:
            return Negation(Atom(_local(name, place), terms))
        case _:
            return literal


# ---- names and words


def _local(predicate: str, place: Place) -> str:
    """Return the name of a copy; with a space, which no predicate's name has."""
    return f"{predicate} @{place if isinstance(place, int) else SUFFIXES[place]}"


def named(rule: Rule) -> str:
    """Return how a rule is called in messages."""
    if rule.name is not None:
        return f"the rule {rule.name!r}"
    if rule.span is not None:
        return f"the rule `{' '.join(rule.span.text.split())}`"
    return f"the rule of {rule.head.predicate}"


def _described(copy: Copy) -> str:
    return f"{_count(copy.rows)} at {where(copy.place)}"


def where(place: Place) -> str:
    """Return a place in words."""
    if not isinstance(place, int):
        return place.value
    return (
        f"the owner of the {ORDINALS[place]} argument"
        if place < len(ORDINALS)
        else f"the owner of argument {place + 1}"
    )


def _count(rows: float) -> str:
    return f"about {counted(round(rows), 'row')}"


def _run(key: Term | None, body: Sequence[Literal]) -> str:
    """Return in words where a step runs, and what it reads."""
    atoms = [literal.atom if isinstance(literal, Negation) else literal for literal in body]
    read = (
        ", ".join(dict.fromkeys(literal.predicate for literal in atoms if isinstance(literal, Atom)))
        or "nothing"
    )
    if isinstance(key, Variable):
        return f"runs at the owner of ?{key.name}, on {read}"
    return f"runs at {'every task' if key is None else 'the owner of a constant'}, on {read}"
