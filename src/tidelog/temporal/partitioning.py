"""Partitioning of temporal rules among tasks: by which argument facts are divided, and which are sent.

All facts that an instance of a rule reads must lie at one task. Each rule therefore runs at the owner of one
of its terms, its *key*: atoms that have the key as an argument are read from a copy of their relation that is
divided by that argument, all others from a copy that every task has. A rule without a key runs at every task,
on such copies only.

Every relation has a *home*, the argument by which its facts are divided, or every task. Facts are sent to
their home when they are given, and from an outbox when a rule derives them at another task. Rules run in
phases; before each, the copies are made that its rules read next to homes.

Predicates that depend on each other are derived in one phase, in which tasks send no facts. They are read and
derived at their homes only, so that the rules of a recursion need keys that agree. If rounds are counted, the
same holds for all predicates of a level of negation.

Invariant: between phases, each fact of a home divided by an argument lies at the owner of that argument, and
nowhere else; those of other homes lie at all tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import inf
from typing import Final

from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import (
    TOP,
    Atom,
    Literal,
    Metric,
    MetricNegation,
    Negation,
    Program,
    Rule,
    Term,
    Throughout,
)
from tidelog.logic.strata import components, dependency_graph
from tidelog.records import dataclass
from tidelog.rewrite.localise import EVERYWHERE, NotLocalisable, Place, named, where
from tidelog.temporal.metric_rules import levels, time_cycle
from tidelog.temporal.temporal import USUAL, TimeSettings, leads_on

SOLUTIONS: Final = 32  # ways to divide a recursion that are compared
Homes = Mapping[str, Place]
Source = tuple[str, Place]  # a predicate, and where its facts are read


@dataclass(frozen=True, slots=True)
class LocalRule:
    """A rule over the relations of one task, and the rule of the program that it comes from."""

    rule: Rule
    original: Rule
    number: int  # in the program
    is_replicated: bool  # every task derives the same


@dataclass(frozen=True, slots=True)
class DivisionPhase:
    """Rules that run together, the copies that are made before, and the outboxes that are sent afterwards."""

    rules: tuple[LocalRule, ...]
    copies: tuple[Source, ...]
    sent: tuple[str, ...]  # predicates with an outbox
    kept: tuple[str, ...]  # predicates that every task derives completely and of which it keeps its part
    dropped: tuple[str, ...]  # copies that no later phase reads


@dataclass(frozen=True, slots=True)
class Division:
    """The homes of all relations that rules over time read or derive, and the phases in order."""

    homes: Homes
    phases: tuple[DivisionPhase, ...]

    @property
    def copied(self) -> tuple[Source, ...]:
        """The copies next to homes, which take memory."""
        return tuple(dict.fromkeys(source for phase in self.phases for source in phase.copies))

    def describe(self) -> str:
        """Describe where relations lie and what is sent, one line each."""
        lines = [f"{name}: at {where(place)}." for name, place in self.homes.items()]
        for phase in self.phases:
            lines += [f"{name}: copied to {where(place)}." for name, place in phase.copies]
            lines += [f"{name}: derived facts are sent." for name in phase.sent]
        return "\n".join(lines)


def check_divisible(program: Program, settings: TimeSettings = USUAL) -> None:
    """Raise NotLocalisable if rules over time cannot be divided; all other programs can be."""
    if program.timed:
        divide(program, settings, {}, 2)


def divide(program: Program, settings: TimeSettings, sizes: Mapping[str, int], tasks: int) -> Division:
    """Return how rules over time are divided among tasks, for these sizes of explicit relations.

    Raise NotLocalisable with the rule that forbids it. That does not depend on the sizes.
    """
    _check_end(program, settings)
    if has_equality(program.predicates):
        raise NotLocalisable("the program has both equality and temporal facts")
    groups = _groups(program, settings)
    search = _Search(program, groups, _estimated(program, sizes), tasks)
    return _division(groups, search)


def _check_end(program: Program, settings: TimeSettings) -> None:
    if leads_on(program, settings):
        rule = time_cycle(program.timed_rules)[0].rule
        raise NotLocalisable(
            f"{named(rule)} may derive facts for ever, and repetition is detected in one task only; "
            "set a horizon or a number of rounds",
            rule,
        )


@dataclass(frozen=True, slots=True)
class _Timed:
    """A rule over time: all its atoms, and the terms of those that hold in every instance."""

    rule: Rule
    number: int
    atoms: tuple[Atom, ...]
    certain: tuple[Atom, ...]

    @property
    def keys(self) -> tuple[Term, ...]:
        """The terms that may be its key."""
        return tuple(dict.fromkeys(term for atom in self.certain for term in atom.terms))

    @property
    def head(self) -> str:
        return self.rule.head.predicate


@dataclass(frozen=True, slots=True)
class _Group:
    """Rules that run together, and the predicates that are read and derived at home only.

    These are the predicates that the rules both derive and read. If rounds are counted, they are all
    predicates that the rules derive: facts derived for another task may be known there, so that no task could
    determine whether a round has derived new facts.
    """

    rules: tuple[_Timed, ...]
    inner: frozenset[str]

    @staticmethod
    def of(rules: Iterable[_Timed], *, is_counted: bool = False) -> _Group:
        rules = tuple(rules)
        read = {atom.predicate for rule in rules for atom in rule.atoms}
        return _Group(rules, frozenset(rule.head for rule in rules if is_counted or rule.head in read))


def _groups(program: Program, settings: TimeSettings) -> list[_Group]:
    """Return the rules in parts, each after those that it depends on."""
    timed = [
        _Timed(rule, number, tuple(_atoms(rule)), tuple(_certain(rule)))
        for number, rule in enumerate(program.rules)
        if rule.head.predicate in program.timed
    ]
    if settings.rounds is not None:
        by_rule = {id(each.rule): each for each in timed}
        return [
            _Group.of((by_rule[id(rule)] for rule in level), is_counted=True)
            for level in levels(program.timed_rules)
        ]
    groups: list[_Group] = []
    for names in components(dependency_graph(program.timed_rules)):
        rules = [each for each in timed if each.head in names]
        # Rules that do not depend on the recursion run before it, with separate keys.
        first = [each for each in rules if not any(atom.predicate in names for atom in each.atoms)]
        parts = first, [each for each in rules if each not in first]
        groups += [_Group.of(part) for part in parts if part]
    return groups


def _atoms(rule: Rule) -> Iterator[Atom]:
    return (atom for atom in rule.body_atoms if atom.predicate != TOP)


def _certain(rule: Rule) -> Iterator[Atom]:
    """Yield the atoms that have a fact in every instance: the left operand of `since` need not have one."""
    for literal in rule.body:
        while isinstance(literal, Metric):
            literal = literal.operands[-1]
        if isinstance(literal, Atom) and literal.predicate != TOP:
            yield literal


def _estimated(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return estimated sizes of all relations: derived ones are as large as the largest one read.

    A relation without arguments has one fact.
    """
    sizes_of = {name: 1 + sizes.get(name, 0) for name in program.predicates}
    sizes_of.update((name, 1) for name, each in program.predicates.items() if not each.arity)
    is_settled = False
    while not is_settled:
        is_settled = True
        for rule in program.rules:
            largest = max((sizes_of.get(atom.predicate, 1) for atom in rule.positive), default=1)
            if rule.head.terms and largest > sizes_of[rule.head.predicate]:
                sizes_of[rule.head.predicate] = largest
                is_settled = False
    return sizes_of


@dataclass(frozen=True, slots=True)
class _Reads:
    """Where a rule reads its atoms for one key, and the cost."""

    key: Term | None
    places: tuple[Place, ...]  # of its atoms
    is_sent: bool  # the head
    cost: float


class _Search:
    """A search for homes with which few rows are sent; `homes` are the best that were found."""

    def __init__(
        self, program: Program, groups: Sequence[_Group], sizes: Mapping[str, int], tasks: int
    ) -> None:
        self.sizes = sizes
        self.tasks = tasks
        arities = {name: predicate.arity for name, predicate in program.predicates.items()}
        read = (atom.predicate for group in groups for rule in group.rules for atom in rule.atoms)
        names = sorted({*program.timed, *read} & arities.keys())
        bound = {name for group in groups for name in group.inner}
        options: list[list[Homes]] = [
            [{name: place} for place in (*range(arities[name]), EVERYWHERE)]
            for name in names
            if name not in bound
        ]
        for group in groups:
            for rules in _connected(group):
                options.append(_solutions(rules, group.inner, arities))
        self._rules = [(rule, group.inner) for group in groups for rule in group.rules]
        candidates = [self._descended(options, start) for start in (0, 1)]
        self.homes = min(candidates, key=self._cost)

    def _descended(self, options: Sequence[Sequence[Homes]], start: int) -> dict[str, Place]:
        """Return homes that no change of a single option improves."""
        homes: dict[str, Place] = {}
        for choices in options:
            last_choice = max(
                len(choices) - 2, 0
            )  # not every task: a rule needs a key that divides a relation
            homes.update(choices[min(start, last_choice)])
        touching = [
            [each for each in self._rules if not choices[0].keys().isdisjoint(_named_in(each[0]))]
            for choices in options
        ]
        is_settled = False
        while not is_settled:
            is_settled = True
            for choices, rules in zip(options, touching, strict=True):
                costs = [self._cost({**homes, **choice}, rules, choice) for choice in choices]
                cheapest = costs.index(min(costs))
                current_cost = self._cost(homes, rules, choices[0])
                if costs[cheapest] < current_cost:
                    homes.update(choices[cheapest])
                    is_settled = False
        return homes

    def _cost(
        self,
        homes: Homes,
        rules: Sequence[tuple[_Timed, frozenset[str]]] | None = None,
        dealt: Iterable[str] | None = None,
    ) -> float:
        """Estimate the number of rows sent for some rules and to the homes of some relations."""
        rows = sum(
            self.sizes[name] * (self.tasks if homes[name] is EVERYWHERE else 1)
            for name in (homes if dealt is None else dealt)
        )
        chosen = self._rules if rules is None else rules
        return rows + sum(self.reads(rule, inner, homes).cost for rule, inner in chosen)

    def reads(self, rule: _Timed, inner: frozenset[str], homes: Homes | None = None) -> _Reads:
        """Return the cheapest way in which a rule reads its atoms."""
        homes = self.homes if homes is None else homes
        options = [self._reads(rule, inner, homes, key) for key in (*rule.keys, None)]
        return min(options, key=lambda each: each.cost)

    def _reads(self, rule: _Timed, inner: frozenset[str], homes: Homes, key: Term | None) -> _Reads:
        places: list[Place] = []
        cost = 0.0
        is_anchored = key is None
        for atom in rule.atoms:
            place = _place(atom, key, homes[atom.predicate])
            if place != homes[atom.predicate]:
                copies = self.tasks if place is EVERYWHERE else 1
                cost += inf if atom.predicate in inner else self.sizes[atom.predicate] * copies
            # Only a relation that is divided by the key limits a task to the keys that it owns.
            is_anchored |= place is not EVERYWHERE and atom in rule.certain
            places.append(place)
        home = homes[rule.head]
        is_here = key is None if home is EVERYWHERE else _has(rule.rule.head, home, key)
        is_sent = not is_here and (key is not None or home is EVERYWHERE)
        if is_sent:
            cost += self.sizes[rule.head] * (self.tasks if home is EVERYWHERE else 1)
        if not is_anchored or (rule.head in inner and not is_here):
            cost = inf
        return _Reads(key, tuple(places), is_sent, cost)


def _place(atom: Atom, key: Term | None, home: Place) -> Place:
    """Return where an atom is read by a rule with a key."""
    if home is EVERYWHERE or _has(atom, home, key):
        return home
    if key is None or key not in atom.terms:
        return EVERYWHERE
    return atom.terms.index(key)


def _has(atom: Atom, place: Place, key: Term | None) -> bool:
    return isinstance(place, int) and key is not None and atom.terms[place] == key


def _named_in(rule: _Timed) -> set[str]:
    return {rule.head, *(atom.predicate for atom in rule.atoms)}


def _connected(group: _Group) -> Iterator[list[_Timed]]:
    """Yield the rules that inner predicates connect, each after one that shares a predicate with it."""
    waiting = [rule for rule in group.rules if _named_in(rule) & group.inner]
    while waiting:
        connected = [waiting.pop(0)]
        names = _named_in(connected[0]) & group.inner
        while following := next((rule for rule in waiting if _named_in(rule) & names), None):
            waiting.remove(following)
            connected.append(following)
            names |= _named_in(following) & group.inner
        yield connected


def _solutions(rules: Sequence[_Timed], inner: frozenset[str], arities: Mapping[str, int]) -> list[Homes]:
    """Return some of the homes of inner predicates with which rules send no facts to each other.

    Raise NotLocalisable with the first rule whose key cannot agree with those of earlier rules.
    """
    reached = 0

    def extended(number: int, homes: dict[str, Place]) -> Iterator[dict[str, Place]]:
        nonlocal reached
        reached = max(reached, number)
        if number == len(rules):
            yield homes
            return
        for choice in _agreeing(rules[number], inner, arities, homes):
            yield from extended(number + 1, {**homes, **choice})

    solutions = list(islice(extended(0, {}), SOLUTIONS))
    if not solutions:
        rule = rules[reached].rule
        raise NotLocalisable(
            f"{named(rule)} is run over time with rules that depend on each other, or whose "
            "rounds are counted together, and their heads and atoms share no argument",
            rule,
        )
    return list({tuple(sorted(each.items())): each for each in solutions}.values())


def _agreeing(
    rule: _Timed, inner: frozenset[str], arities: Mapping[str, int], known: Homes
) -> Iterator[dict[str, Place]]:
    """Yield the homes of a rule's inner predicates with which it has a key, in addition to `known`."""
    atoms = [atom for atom in (rule.rule.head, *rule.atoms) if atom.predicate in inner]
    for key in (*rule.keys, None):

        def chosen(
            number: int, homes: dict[str, Place], key: Term | None = key
        ) -> Iterator[dict[str, Place]]:
            if number == len(atoms):
                yield homes
                return
            atom = atoms[number]
            name = atom.predicate
            fixed = homes.get(name, known.get(name))
            is_head = atom is rule.rule.head
            for place in _options(atom, key, arities[name], is_head):
                if fixed is None or fixed == place:
                    yield from chosen(number + 1, {**homes, name: place})

        yield from chosen(0, {})


def _options(atom: Atom, key: Term | None, arity: int, is_head: bool) -> list[Place]:
    """Return the homes with which an atom lies where a rule with this key runs."""
    if not arity:
        return [EVERYWHERE] if key is None or not is_head else []
    return [position for position, term in enumerate(atom.terms) if key is not None and term == key]


def _division(groups: Sequence[_Group], search: _Search) -> Division:
    """Return the phases; each copy is made before the first one that reads it."""
    homes = search.homes
    last_reader: dict[Source, int] = {}  # the last phase that reads each copy
    parts: list[tuple[list[LocalRule], list[Source], list[str], list[str]]] = []
    for number, group in enumerate(groups):
        rules: list[LocalRule] = []
        copies: list[Source] = []
        sent: list[str] = []
        kept: list[str] = []
        for timed in group.rules:
            reads = search.reads(timed, group.inner)
            assert reads.cost < inf, "there are keys with which a rule reads what it needs"
            sources = [(atom.predicate, place) for atom, place in zip(timed.atoms, reads.places, strict=True)]
            for source in sources:
                if source[1] != homes[source[0]]:
                    if source not in last_reader:
                        copies.append(source)
                    last_reader[source] = number
            is_replicated = reads.key is None
            head = timed.head
            if reads.is_sent:
                sent.append(head)
                head = outbox(head)
            elif is_replicated and homes[head] is not EVERYWHERE:
                kept.append(head)
                head = own_outbox(head)
            rules.append(
                LocalRule(_local(timed.rule, head, sources, homes), timed.rule, timed.number, is_replicated)
            )
        parts.append((rules, copies, list(dict.fromkeys(sent)), list(dict.fromkeys(kept))))
    phases = []
    for number, (rules, copies, sent, kept) in enumerate(parts):
        dropped = tuple(copy_name(source, homes) for source, last in last_reader.items() if last == number)
        phases.append(DivisionPhase(tuple(rules), tuple(copies), tuple(sent), tuple(kept), dropped))
    return Division(homes, tuple(phases))


def copy_name(source: Source, homes: Homes) -> str:
    """Return the name of a relation at a task; that of a copy has a space, which no predicate's name has."""
    name, place = source
    if place == homes[name]:
        return name
    return f"{name} @{place if isinstance(place, int) else 'all'}"


def outbox(predicate: str) -> str:
    """Return the name of the relation of facts that are to be sent home."""
    return f"{predicate} >"


def own_outbox(predicate: str) -> str:
    """Return the name of the relation of facts of which each task keeps those that are its own."""
    return f"{predicate} ="


def _local(rule: Rule, head: str, sources: Sequence[Source], homes: Homes) -> Rule:
    """Return the rule over relations of a task; `sources` are those of its atoms, positive ones first."""
    count = sum(atom.predicate != TOP for atom in rule.positive)
    positive = iter([copy_name(source, homes) for source in sources[:count]])
    negated = iter([copy_name(source, homes) for source in sources[count:]])

    def over(metric: Atom | Metric, names: Iterator[str]) -> Atom | Metric:
        if isinstance(metric, Metric):
            return replace(metric, operands=tuple(over(operand, names) for operand in metric.operands))
        return metric if metric.predicate == TOP else Atom(next(names), metric.terms)

    def literal_over(literal: Literal) -> Literal:
        match literal:
            case Atom() | Metric():
                return over(literal, positive)
            case Negation(atom):
                renamed = over(atom, negated)
                assert isinstance(renamed, Atom)
                return Negation(renamed)
            case MetricNegation(metric):
                renamed = over(metric, negated)
                assert isinstance(renamed, Metric)
                return MetricNegation(renamed)
            case Throughout():
                raise AssertionError("only queries have times")
        return literal

    body = tuple(map(literal_over, rule.body))
    return replace(rule, head=Atom(head, rule.head.terms), body=body)
