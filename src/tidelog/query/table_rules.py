"""The rules of tables: what a subgoal asks for, what answers it, each driven by what is new of one of its
atoms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tidelog.engine.protocol import Engine, Runnable
from tidelog.logic.program import Atom, Constant, Literal, Negation, Rule, Term, Variable, literal_variables
from tidelog.logic.strata import components, dependency_graph
from tidelog.logic.values import Value
from tidelog.plan.compile import collected_variables, delta_pivots, delta_plan, full_plan
from tidelog.plan.join_order import Statistics
from tidelog.rewrite.auxiliary_relations import SEPARATOR, Cost, Passing, split_rules, unknown_sizes
from tidelog.rewrite.factoring import Binding, Guarded, factor, linearise, relaxed
from tidelog.rewrite.magic_sets import STATED, substituted

# ---- The rules of tables: what a subgoal asks for, and what answers it.
#
# Kasesalu: Revisiting Query Magic, Tartu 2025, sections 2.6.4 and 3.1.2. Tekle, Liu: More Efficient Datalog
# Queries: Subsumptive Tabling Beats Magic Sets, SIGMOD 2011.
#
# A *pattern* is a predicate with its arguments bound or free: `tc bf` is asked for whatever stands in its
# bound arguments. Of each pattern there is a relation of what is *asked*, and one of what is *called*, which
# is evaluated; of each predicate one relation of answers, which all its patterns share: a fact is a fact,
# whoever asked for it.
#
# The rules of a pattern begin with its calls. Two literals let a call rest: `~call` of a more general
# pattern, which answers it, and `~answer` of a subgoal without variables, which is true. Neither loses
# anything: the facts that the rule would find are there, or are found by others.
#
# Invariant: whatever is asked of predicates below is asked by `demands`, from the same literals that precede
# it in the `steps`: once that is complete, steps read it as if it were stated.

FEWEST_JOINED = 2  # atoms whose join is worth a relation of its own, rather than to be made twice


@dataclass(frozen=True, slots=True)
class Pattern:
    """A predicate, and for each argument `b` if it is bound, `f` if it is free."""

    predicate: str
    adornment: str

    @property
    def asked(self) -> str:
        """The relation of the bound arguments that are asked for."""
        return f"ask {_plain(self.predicate)} {self.adornment}"

    @property
    def called(self) -> str:
        """The relation of those among them that are evaluated."""
        return f"call {_plain(self.predicate)} {self.adornment}"

    @property
    def context(self) -> str:
        """The relation of what is asked on behalf of what."""
        return f"within {_plain(self.predicate)} {self.adornment}"

    @property
    def binding(self) -> Binding:
        """The places that are bound, and those that are free."""
        return Binding.of(self.adornment)

    @property
    def is_ground(self) -> bool:
        """Whether nothing is free: such a subgoal is true or not."""
        return "f" not in self.adornment

    def subsumes(self, other: Pattern) -> bool:
        """Whether the pattern is more general: it binds some of the other's bound arguments, and no others.

        >>> Pattern("tc", "bf").subsumes(Pattern("tc", "bb"))
        True
        >>> Pattern("tc", "bf").subsumes(Pattern("tc", "fb"))
        False
        """
        if self.predicate != other.predicate or self == other:
            return False
        marks = zip(self.adornment, other.adornment, strict=True)
        return all(mine == "f" or mark == "b" for mine, mark in marks)

    def among(self, other: Pattern, terms: Sequence[Term]) -> tuple[Term, ...]:
        """Of the bound terms of a more special pattern, those that this one binds too."""
        at = dict(zip(other.binding.bound, terms, strict=True))
        return tuple(at[place] for place in self.binding.bound)


def answers_of(predicate: str) -> str:
    """The relation of a predicate's answers."""
    return f"answer {_plain(predicate)}"


def _plain(predicate: str) -> str:
    return predicate.replace(SEPARATOR, " ~")  # those that maintenance makes are not to be mistaken for it


@dataclass(frozen=True, slots=True)
class Grouping:
    """What a rule aggregates is collected first, then grouped."""

    collected: str
    rule: Rule


@dataclass(frozen=True, slots=True)
class Variant:
    """The rules of one pattern."""

    demands: tuple[Rule, ...]
    steps: tuple[Rule, ...]
    asked: tuple[Pattern, ...]  # by demands and steps
    groupings: tuple[Grouping, ...]


@dataclass(frozen=True)
class Definitions:
    """A program as it is tabled: closures linear, aggregates apart, explicit facts read by rules."""

    rules_of: Mapping[str, tuple[Rule, ...]]
    components: tuple[tuple[str, ...], ...]  # each after those that it depends on
    component_of: Mapping[str, int]
    bindable: Mapping[str, frozenset[int]]  # the arguments of a predicate that no rule aggregates

    @staticmethod
    def of(rules: Iterable[Rule], stated: Collection[str]) -> Definitions:
        """The definitions that rules give; of the derived predicates, those `stated` have facts too."""
        rules = tuple(rules)
        arities = {rule.head.predicate: len(rule.head.terms) for rule in rules}
        given = (_stating(name, arities[name]) for name in sorted(arities.keys() & stated))
        whole = linearise(split_rules(map(substituted, (*rules, *given))))
        rules_of: dict[str, tuple[Rule, ...]] = {}
        for rule in whole:
            rules_of[rule.head.predicate] = (*rules_of.get(rule.head.predicate, ()), rule)
        found = tuple(components(dependency_graph(whole)))
        return Definitions(
            rules_of,
            found,
            {name: number for number, names in enumerate(found) for name in names},
            {name: _bindable(some) for name, some in rules_of.items()},
        )

    def read_by(self, component: int) -> set[str]:
        """The predicates that a component's rules read, stated ones by their own names."""
        rules = (rule for name in self.components[component] for rule in self.rules_of[name])
        return {
            atom.predicate.removesuffix(STATED) for rule in rules for atom in (*rule.positive, *rule.negated)
        }

    def adornment(self, atom: Atom, ages: Mapping[Variable, int]) -> str:
        """The pattern in which an atom asks for its predicate; `ages` tell when each variable was bound."""
        predicate = atom.predicate
        bindable = self.bindable[predicate]
        marks = (
            "b" if place in bindable and (isinstance(term, Constant) or term in ages) else "f"
            for place, term in enumerate(atom.terms)
        )
        adornment = "".join(marks)
        if self.is_alone(predicate):
            known = [ages[term] if isinstance(term, Variable) and term in ages else 0 for term in atom.terms]
            return relaxed(predicate, self.rules_of[predicate], adornment, known)
        return adornment

    def is_alone(self, predicate: str) -> bool:
        """Whether a predicate takes part in no recursion but its own."""
        return len(self.components[self.component_of[predicate]]) == 1


def variant(
    pattern: Pattern,
    definitions: Definitions,
    cost: Cost = unknown_sizes,
    rules: Sequence[Rule] | None = None,
    own: Collection[str] | None = None,
) -> Variant:
    """The rules that answer the calls of a pattern.

    By default those of the predicate in the definitions, together with the others of its component; else
    the `rules` given, which are evaluated together with the predicates `own`.
    """
    if own is None:
        own = definitions.components[definitions.component_of[pattern.predicate]]
    writer = _Writer(pattern, definitions, cost, own)
    for number, made in enumerate(_guarded(pattern, definitions, rules)):
        writer.write(made, number)
    return Variant(tuple(writer.demands), tuple(writer.steps), tuple(writer.asked), tuple(writer.groupings))


def _guarded(pattern: Pattern, definitions: Definitions, rules: Sequence[Rule] | None) -> Sequence[Guarded]:
    """The rules of a pattern, each with the guard that lets calls in; linear recursion is factored."""
    answers = answers_of(pattern.predicate)
    if rules is None:
        rules = definitions.rules_of[pattern.predicate]
        if definitions.is_alone(pattern.predicate):
            factored = factor(
                pattern.predicate, rules, pattern.adornment, answers, pattern.called, pattern.context
            )
            if factored is not None:
                return factored
    return [
        Guarded(
            Atom(answers, rule.head.terms),
            Atom(pattern.called, pattern.binding.bound_terms(rule.head)),
            rule.body,
            rule,
        )
        for rule in rules
    ]


@dataclass
class _Writer:
    """Gathers the rules of a pattern. Mutable."""

    pattern: Pattern
    definitions: Definitions
    cost: Cost
    own: Collection[str]
    demands: dict[Rule, None] = field(default_factory=dict)
    steps: dict[Rule, None] = field(default_factory=dict)
    asked: dict[Pattern, None] = field(default_factory=dict)
    groupings: list[Grouping] = field(default_factory=list)

    def write(self, made: Guarded, number: int) -> None:
        """Take a rule: what it asks for, and what it answers."""
        begin = self._beginning(made)
        given = {variable for literal in begin for variable in literal_variables(literal)}
        passing = Passing(self.definitions.rules_of.keys(), self.own, self._cost)
        ordered = passing.order(made.body, given)
        ages = dict.fromkeys(given, 1)
        done, joined = begin, 0
        for place, literal in enumerate(ordered):
            atom = literal.atom if isinstance(literal, Negation) else literal
            if isinstance(atom, Atom) and atom.predicate in self.definitions.rules_of:
                is_own = atom.predicate in self.own
                if joined >= (FEWEST_JOINED if is_own else 1):
                    name = (
                        f"joined {_plain(self.pattern.predicate)} {self.pattern.adornment} {number} {place}"
                    )
                    done, joined = [self._cut(name, done, ordered[place:], made)], 0
                self._ask(atom, ages, done, is_own)
                atom = Atom(answers_of(atom.predicate), atom.terms)
                done = [*done, Negation(atom) if isinstance(literal, Negation) else atom]
            else:
                done = [*done, _stated(literal)]
            joined += isinstance(literal, Atom)
            if not isinstance(literal, Negation):
                ages.update({each: place + 2 for each in literal_variables(literal) if each not in ages})
        self._answer(made, done, number)

    def _beginning(self, made: Guarded) -> list[Literal]:
        """The guard, and what lets calls rest that have no variables."""
        guard, pattern = made.guard, self.pattern
        assert guard is not None
        bound = _called_terms(pattern, guard)
        begin: list[Literal] = [guard]
        if guard.predicate == answers_of(pattern.predicate):
            begin.append(Atom(pattern.called, bound))  # others may have asked for it
        if pattern.is_ground:
            begin.append(Negation(Atom(answers_of(pattern.predicate), bound)))
        return begin

    def _cost(self, atom: Atom, bound: Collection[Variable]) -> float:
        read = _stated(atom)
        assert isinstance(read, Atom)
        return self.cost(read, bound)

    def _cut(self, name: str, done: Sequence[Literal], following: Sequence[Literal], made: Guarded) -> Atom:
        """What is done so far in a relation of its own, with the variables that are needed later."""
        rule = made.rule
        needed = {variable for literal in (made.head, *following) for variable in literal_variables(literal)}
        if rule.aggregations:
            needed |= set(collected_variables(rule))
        known = dict.fromkeys(
            variable
            for literal in done
            if not isinstance(literal, Negation)
            for variable in literal_variables(literal)
        )
        joined = Atom(name, tuple(variable for variable in known if variable in needed))
        self.steps[Rule(joined, tuple(done))] = None
        return joined

    def _ask(self, atom: Atom, ages: Mapping[Variable, int], done: Sequence[Literal], is_own: bool) -> None:
        pattern = Pattern(atom.predicate, self.definitions.adornment(atom, ages))
        self.asked[pattern] = None
        terms = pattern.binding.bound_terms(atom)
        if Atom(pattern.called, terms) not in done:
            rules = self.steps if is_own else self.demands
            rules[Rule(Atom(pattern.asked, terms), tuple(done))] = None

    def _answer(self, made: Guarded, done: Sequence[Literal], number: int) -> None:
        rule = made.rule
        if not rule.aggregations:
            self.steps[replace(rule, head=made.head, body=tuple(done))] = None
            return
        collected = f"collect {_plain(self.pattern.predicate)} {self.pattern.adornment} {number}"
        self.steps[Rule(Atom(collected, collected_variables(rule)), tuple(done))] = None
        self.groupings.append(Grouping(collected, replace(rule, head=made.head)))


def resting(rule: Rule, pattern: Pattern, general: Sequence[Pattern]) -> Rule:
    """A rule of a pattern that lets those calls rest which calls of the general patterns answer."""
    guard = rule.body[0]
    assert isinstance(guard, Atom)
    if not general or guard.predicate not in (pattern.called, pattern.context, answers_of(pattern.predicate)):
        return rule  # it goes on from a join, whose rows were found for calls that did not rest
    terms = _called_terms(pattern, guard)
    answered = (Negation(Atom(each.called, each.among(pattern, terms))) for each in general)
    return replace(rule, body=(guard, *answered, *rule.body[1:]))


def _called_terms(pattern: Pattern, guard: Atom) -> tuple[Term, ...]:
    """The bound arguments of the call that a guard lets in."""
    if guard.predicate == pattern.called:
        return guard.terms
    if guard.predicate == pattern.context:
        return guard.terms[: len(pattern.binding.bound)]
    return pattern.binding.bound_terms(guard)


def accepting(pattern: Pattern, general: Sequence[Pattern]) -> Rule:
    """The rule that lets what is asked be called, unless a more general call answers it, or it is true."""
    places = pattern.binding.bound
    terms = tuple(Variable(f"x{place}") for place in places)
    body: list[Literal] = [Atom(pattern.asked, terms)]
    body += [Negation(Atom(each.called, each.among(pattern, terms))) for each in general]
    if pattern.is_ground:
        body.append(Negation(Atom(answers_of(pattern.predicate), terms)))
    return Rule(Atom(pattern.called, terms), tuple(body))


def relations_of(rules: Iterable[Rule]) -> Iterator[tuple[str, int]]:
    """The relations that rules name, and their arities."""
    for rule in rules:
        for atom in (rule.head, *rule.positive, *rule.negated):
            yield atom.predicate, len(atom.terms)


def _stating(predicate: str, arity: int) -> Rule:
    """The rule that takes the explicit facts of a derived predicate."""
    terms = tuple(Variable(f"x{place}") for place in range(1, arity + 1))
    return Rule(Atom(predicate, terms), (Atom(predicate + STATED, terms),))


def _stated(literal: Literal) -> Literal:
    """The literal, by the name of the relation that has the explicit facts."""
    match literal:
        case Atom(predicate, terms):
            return Atom(predicate.removesuffix(STATED), terms)
        case Negation(Atom(predicate, terms)):
            return Negation(Atom(predicate.removesuffix(STATED), terms))
        case _:
            return literal


def _bindable(rules: Sequence[Rule]) -> frozenset[int]:
    """The places that can be bound before the rules aggregate."""
    places = range(len(rules[0].head.terms))
    return frozenset(
        place
        for place in places
        if all(not rule.aggregations or rule.head.terms[place] in rule.group for rule in rules)
    )


# ---- Rules of tables, each driven by what is new of one of its atoms. Mutates itself.
#
# A rule whose atom has constants is of no use to rows without them. Rules are therefore found by these
# constants, as Prolog finds clauses by their arguments: a round costs what its rows can drive, however many
# rules there are.
#
# Invariant: each instance with something new is found exactly once, whichever rules are passed over.

GROWN = 4  # plans are made anew when a relation has grown by this factor
SMALL = 1000  # … and is no longer this small
LOOKED_OVER = 8  # rounds after which plans are looked over
MANY = 1000  # new rows whose constants are not looked at: plans do so faster
EXPECTED_SIZE, EXPECTED_DISTINCT, EXPECTED_MATCHING = 1000, 100.0, 10  # of what is still growing


class Growing:
    """Statistics of relations of which some are still growing: of these there will be more than there are."""

    def __init__(self, known: Statistics, growing: Collection[str]) -> None:
        self._known = known
        self._growing = growing

    def size(self, relation: str) -> int:
        """How many facts a relation has, or will have."""
        size = self._known.size(relation)
        return max(size, EXPECTED_SIZE) if relation in self._growing else size

    def distinct(self, relation: str, column: int) -> float:
        """How many distinct values a column has, or will have."""
        distinct = self._known.distinct(relation, column)
        return max(distinct, EXPECTED_DISTINCT) if relation in self._growing else distinct

    def matching(self, relation: str, column: int, value: Value) -> int:
        """How many facts have this value in a column, or will have."""
        matching = self._known.matching(relation, column, value)
        return max(matching, EXPECTED_MATCHING) if relation in self._growing else matching


class Drive:
    """A rule of tables, driven by what is new of the atom at a place in its body."""

    def __init__(self, rule: Rule, place: int, own: Collection[str], engine: Engine) -> None:
        atom = rule.body[place]
        assert isinstance(atom, Atom)
        self.rule = rule
        self.relation = atom.predicate
        self._place = place
        self._own = own
        self._engine = engine
        self._read = tuple(dict.fromkeys(atom.predicate for atom in rule.positive))
        self.growing = frozenset(self._read).intersection(own)
        self._ready: Runnable | None = None
        self._generation = -1
        self.matches = 0  # instances of the rule that were found by `run`
        asked = ((column, term) for column, term in enumerate(atom.terms) if isinstance(term, Constant))
        self._constants = {column: engine.storage.dictionary.encode(term.value) for column, term in asked}

    @property
    def columns(self) -> tuple[int, ...]:
        """Where the driving atom has constants."""
        return tuple(self._constants)

    @property
    def key(self) -> tuple[int, ...]:
        """The ids of these constants."""
        return tuple(self._constants.values())

    @property
    def is_idle(self) -> bool:
        """Whether no new row has the constants of the driving atom."""
        columns, count = self._engine.rounds.new_rows(self.relation)
        passed = np.ones(count, bool)
        for column, identity in self._constants.items():
            passed &= columns[column] == identity
        return not passed.any()

    def run(self, check: Callable[[], None]) -> int:
        """Find what follows from what is new; returns how many facts that are new."""
        if self._generation != self._engine.plans.catalog_version:
            self.forget_plan()
        ready = self.ready()
        if ready is None:
            return 0
        outcome = ready()
        self.matches += outcome.matches
        check()
        return outcome.new

    def ready(self) -> Runnable | None:
        """What finds it; None while that cannot be anything."""
        if self._ready is None:
            self._ready = self._prepared()
        return self._ready

    def _prepared(self) -> Runnable | None:
        """A plan ready to run; none while indexes for it would be in vain."""
        engine, rule = self._engine, self.rule
        if not all(map(engine.storage.size, self._read)):
            return None
        plan = delta_plan(rule, 0, self._own, self._place, Growing(engine.storage, self._own))
        self._generation = engine.plans.catalog_version
        ready = engine.plans.prepare(plan)
        engine.plans.pin((*self._read, *(atom.predicate for atom in rule.negated), rule.head.predicate))
        return ready

    def forget_plan(self) -> None:
        """Discard the plan: relations have changed so much that it may be wrong or slow."""
        self._ready = None


def drives(rule: Rule, own: Collection[str], engine: Engine) -> list[Drive]:
    """A rule driven by each of its atoms in turn, of those whose relations are given."""
    return [Drive(rule, place, own, engine) for place in delta_pivots(rule, own)]


class Prepared:
    """A rule driven by each of its atoms in turn, of those whose relations are given."""

    def __init__(self, rule: Rule, own: Collection[str], engine: Engine) -> None:
        self.rule = rule
        self._engine = engine
        self._drives = drives(rule, own, engine)
        self._read = tuple(dict.fromkeys(atom.predicate for atom in (*rule.positive, *rule.negated)))
        self._growing = {name for drive in self._drives for name in drive.growing}
        self._lossy: list[str] = []
        self._limits: dict[str, int] = {}

    @property
    def matches(self) -> int:
        """How many instances of the rule were found so far."""
        return sum(drive.matches for drive in self._drives)

    def run(self, fresh: Collection[str], check: Callable[[], None]) -> int:
        """Find what follows from what is new in the fresh relations; returns how many facts that are new."""
        due = (drive for drive in self._drives if drive.relation in fresh and not drive.is_idle)
        return sum(drive.run(check) for drive in due)

    def look_over(self) -> None:
        """Discard plans if relations have grown much since they were made, or have lost facts."""
        size = self._engine.storage.size
        lossy = list(filter(self._engine.storage.has_tombstones, self._read))
        if lossy != self._lossy or any(size(name) > limit for name, limit in self._limits.items()):
            for drive in self._drives:
                drive.forget_plan()
            self._lossy, self._limits = lossy, {}
        self._limits = self._limits or limits(self._growing, self._engine)


def limits(relations: Iterable[str], engine: Engine) -> dict[str, int]:
    """The sizes of relations up to which plans that are made now are good ones."""
    return {name: max(GROWN * engine.storage.size(name), SMALL) for name in relations}


class Dispatch:
    """Rules by what drives them: a relation, and the constants that they ask of its rows."""

    def __init__(self, found: Iterable[Drive], engine: Engine) -> None:
        self._engine = engine
        self._drives = tuple(found)
        self._by_key: dict[str, dict[tuple[int, ...], dict[tuple[int, ...], list[Drive]]]] = {}
        for drive in self._drives:
            by_columns = self._by_key.setdefault(drive.relation, {})
            by_columns.setdefault(drive.columns, {}).setdefault(drive.key, []).append(drive)
        self._generation = engine.plans.catalog_version
        self._limits: dict[str, int] = {}  # the sizes up to which plans are good ones
        self._asked = 0

    def due(self, fresh: Iterable[str]) -> Iterator[Drive]:
        """The rules that can find something in what is new of these relations."""
        self._look_over()
        for relation in fresh:
            by_columns = self._by_key.get(relation)
            if by_columns:
                columns, count = self._engine.rounds.new_rows(relation)
                for places, by_key in by_columns.items():
                    if places and count <= MANY:
                        for key in _keys(columns, places):
                            yield from by_key.get(key, ())
                    else:
                        for some in by_key.values():
                            yield from some

    def _look_over(self) -> None:
        """Discard plans that read relations that were dropped or have grown much."""
        size = self._engine.storage.size
        self._asked += 1
        if self._generation != self._engine.plans.catalog_version:
            self._generation = self._engine.plans.catalog_version
            grown = set(self._limits)
        elif self._asked % LOOKED_OVER == 0:
            grown = {name for name, limit in self._limits.items() if size(name) > limit}
        else:
            grown = set()
        if grown or not self._limits:
            for drive in self._drives:
                if not drive.growing.isdisjoint(grown):
                    drive.forget_plan()
            self._limits = limits({name for drive in self._drives for name in drive.growing}, self._engine)


def _keys(columns: tuple[Any, ...], places: tuple[int, ...]) -> set[tuple[int, ...]]:
    """What rows have in some columns."""
    return set(zip(*(columns[place].tolist() for place in places), strict=True))


def run_together(
    found: Iterable[Drive], engine: Engine, check: Callable[[], None]
) -> list[tuple[Drive, int]]:
    """Run rules in turn; those that could find something, and how many new facts they have found."""
    prepared = [(drive, ready) for drive in found if (ready := drive.ready()) is not None]
    if not prepared:
        return []
    news = engine.plans.run_together([ready for _, ready in prepared])
    check()
    return [(drive, new) for (drive, _), new in zip(prepared, news, strict=True)]


def run_once(rule: Rule, engine: Engine) -> int:
    """Find all that a rule gives; returns how many facts are new."""
    if not all(engine.storage.size(atom.predicate) for atom in rule.positive):
        return 0
    return engine.plans.prepare(full_plan(rule, 0, engine.storage))().new
