"""The rules of tables, which request subgoals and derive answers, and how they run on new rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tidelog.engine.protocol import Runnable
from tidelog.logic.program import Atom, Constant, Literal, Negation, Rule, Term, Variable, literal_variables
from tidelog.logic.strata import components, dependency_graph
from tidelog.logic.values import Value
from tidelog.plan.algebra import ANSWERED, ASKED, CALLED, COLLECTED, CONTEXT, JOINED
from tidelog.plan.compile import collected_variables, delta_pivots, delta_plan, full_plan
from tidelog.plan.join_order import Freshness, PlannedSizes, Statistics
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import SEPARATOR, Cost, Passing, split_rules, unknown_sizes
from tidelog.rewrite.factoring import Binding, Guarded, factor, linearise, relaxed
from tidelog.rewrite.magic_sets import EXPLICIT_SUFFIX, substituted

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

# ---- requests of subgoals, and rules that answer them
#
# Kasesalu: Revisiting Query Magic, Tartu 2025, sections 2.6.4 and 3.1.2. Tekle, Liu: More Efficient Datalog
# Queries: Subsumptive Tabling Beats Magic Sets, SIGMOD 2011.
#
# A *pattern* is a predicate with its arguments bound or free: in `tc bf` the first argument is bound. Each
# pattern has a relation of the subgoals that are requested (*asked*), as rows of bound arguments, and one of
# those that are *called*, which are evaluated; each predicate has one relation of answers, which its patterns
# share.
#
# The rules of a pattern begin with its calls. Two literals skip a call: `~call` of a more general pattern,
# which answers it, and `~answer` of a subgoal without variables, which is known to be true. No answer is
# lost: the facts that the rule would find are known, or are found by other rules.
#
# Invariant: `demands` request from lower components all facts that `steps` read, from the same preceding
# literals: once these are complete, steps read their answers as if they were explicit facts.

FEWEST_JOINED = 2  # atoms whose join is stored in a relation rather than computed twice


@dataclass(frozen=True, slots=True)
class CallPattern:
    """A predicate, and for each argument `b` if it is bound, `f` if it is free."""

    predicate: str
    adornment: str

    @property
    def asked(self) -> str:
        """The relation of the requested bound arguments."""
        return f"{ASKED}{_plain(self.predicate)} {self.adornment}"

    @property
    def called(self) -> str:
        """The relation of the requested arguments that are evaluated."""
        return f"{CALLED}{_plain(self.predicate)} {self.adornment}"

    @property
    def context(self) -> str:
        """The relation that records which call requests which."""
        return f"{CONTEXT}{_plain(self.predicate)} {self.adornment}"

    @property
    def binding(self) -> Binding:
        """The positions that are bound, and those that are free."""
        return Binding.of(self.adornment)

    @property
    def is_ground(self) -> bool:
        """Whether no argument is free, so that a subgoal is true or false."""
        return "f" not in self.adornment

    def subsumes(self, other: CallPattern) -> bool:
        """Whether the pattern is more general: it binds some of the other's bound arguments, and no others.

        >>> CallPattern("tc", "bf").subsumes(CallPattern("tc", "bb"))
        True
        >>> CallPattern("tc", "bf").subsumes(CallPattern("tc", "fb"))
        False
        """
        if self.predicate != other.predicate or self == other:
            return False
        marks = zip(self.adornment, other.adornment, strict=True)
        return all(own_mark == "f" or other_mark == "b" for own_mark, other_mark in marks)

    def among(self, other: CallPattern, terms: Sequence[Term]) -> tuple[Term, ...]:
        """The bound terms of a more specific pattern that this one binds too."""
        at = dict(zip(other.binding.bound, terms, strict=True))
        return tuple(at[position] for position in self.binding.bound)


def answers_of(predicate: str) -> str:
    """The relation of a predicate's answers."""
    return f"{ANSWERED}{_plain(predicate)}"


def _plain(predicate: str) -> str:
    return predicate.replace(SEPARATOR, " ~")  # so that maintenance does not take it for an auxiliary name


@dataclass(frozen=True, slots=True)
class Grouping:
    """An aggregate rule: its rows are collected in a relation, then grouped."""

    collected: str
    rule: Rule


@dataclass(frozen=True, slots=True)
class Variant:
    """The rules of one pattern."""

    demands: tuple[Rule, ...]
    steps: tuple[Rule, ...]
    asked: tuple[CallPattern, ...]  # by demands and steps
    groupings: tuple[Grouping, ...]


@dataclass(frozen=True)
class Definitions:
    """A program as it is tabled: closures linear, aggregates separate, explicit facts read by rules."""

    rules_of: Mapping[str, tuple[Rule, ...]]
    components: tuple[tuple[str, ...], ...]  # each after those that it depends on
    component_of: Mapping[str, int]
    bindable: Mapping[str, frozenset[int]]  # the arguments of a predicate that no rule aggregates

    @staticmethod
    def of(rules: Iterable[Rule], explicit: Collection[str]) -> Definitions:
        """The definitions of rules; `explicit` are the derived predicates that have explicit facts too."""
        rules = tuple(rules)
        arities = {rule.head.predicate: len(rule.head.terms) for rule in rules}
        explicit_rules = (_explicit_rule(name, arities[name]) for name in sorted(arities.keys() & explicit))
        all_rules = linearise(split_rules(map(substituted, (*rules, *explicit_rules))))
        rules_of: dict[str, tuple[Rule, ...]] = {}
        for rule in all_rules:
            rules_of[rule.head.predicate] = (*rules_of.get(rule.head.predicate, ()), rule)
        in_order = tuple(components(dependency_graph(all_rules)))
        return Definitions(
            rules_of,
            in_order,
            {name: number for number, names in enumerate(in_order) for name in names},
            {name: _bindable(rules_of_name) for name, rules_of_name in rules_of.items()},
        )

    def read_by(self, component: int) -> set[str]:
        """The predicates that a component's rules read, those of explicit facts by their own names."""
        rules = (rule for name in self.components[component] for rule in self.rules_of[name])
        return {name.removesuffix(EXPLICIT_SUFFIX) for rule in rules for name in rule.read}

    def adornment(self, atom: Atom, ages: Mapping[Variable, int]) -> str:
        """Return the pattern in which an atom requests its predicate; `ages`: when variables were bound."""
        predicate = atom.predicate
        bindable = self.bindable[predicate]
        marks = (
            "b" if position in bindable and (isinstance(term, Constant) or term in ages) else "f"
            for position, term in enumerate(atom.terms)
        )
        adornment = "".join(marks)
        if self.is_alone(predicate):
            term_ages = [
                ages[term] if isinstance(term, Variable) and term in ages else 0 for term in atom.terms
            ]
            return relaxed(predicate, self.rules_of[predicate], adornment, term_ages)
        return adornment

    def is_alone(self, predicate: str) -> bool:
        """Whether a predicate takes part in no recursion but its own."""
        return len(self.components[self.component_of[predicate]]) == 1


def variant(
    pattern: CallPattern,
    definitions: Definitions,
    cost: Cost = unknown_sizes,
    rules: Sequence[Rule] | None = None,
    own: Collection[str] | None = None,
) -> Variant:
    """Return the rules that answer the calls of a pattern.

    By default the rules are those of the predicate in the definitions, evaluated together with its component;
    otherwise `rules`, evaluated together with the predicates `own`.
    """
    if own is None:
        own = definitions.components[definitions.component_of[pattern.predicate]]
    writer = _Writer(pattern, definitions, cost, own)
    for number, rule in enumerate(_guarded(pattern, definitions, rules)):
        writer.write(rule, number)
    return Variant(tuple(writer.demands), tuple(writer.steps), tuple(writer.asked), tuple(writer.groupings))


def _guarded(
    pattern: CallPattern, definitions: Definitions, rules: Sequence[Rule] | None
) -> Sequence[Guarded]:
    """The rules of a pattern, each with its guard, which reads the calls; linear recursion is factored."""
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

    pattern: CallPattern
    definitions: Definitions
    cost: Cost
    own: Collection[str]
    demands: dict[Rule, None] = field(default_factory=dict)
    steps: dict[Rule, None] = field(default_factory=dict)
    asked: dict[CallPattern, None] = field(default_factory=dict)
    groupings: list[Grouping] = field(default_factory=list)

    def write(self, guarded: Guarded, number: int) -> None:
        """Add the demands and the answers of a rule."""
        initial = self._beginning(guarded)
        bound = {variable for literal in initial for variable in literal_variables(literal)}
        passing = Passing(self.definitions.rules_of.keys(), self.own, self._cost)
        ordered = passing.order(guarded.body, bound)
        ages = dict.fromkeys(bound, 1)
        matched, joined = initial, 0
        for position, literal in enumerate(ordered):
            atom = literal.atom if isinstance(literal, Negation) else literal
            if isinstance(atom, Atom) and atom.predicate in self.definitions.rules_of:
                is_own = atom.predicate in self.own
                if joined >= (FEWEST_JOINED if is_own else 1):
                    pattern = f"{_plain(self.pattern.predicate)} {self.pattern.adornment}"
                    name = f"{JOINED}{pattern} {number} {position}"
                    matched, joined = [self._cut(name, matched, ordered[position:], guarded)], 0
                self._ask(atom, ages, matched, is_own)
                atom = Atom(answers_of(atom.predicate), atom.terms)
                matched = [*matched, Negation(atom) if isinstance(literal, Negation) else atom]
            else:
                matched = [*matched, _explicit(literal)]
            joined += isinstance(literal, Atom)
            if not isinstance(literal, Negation):
                ages.update({each: position + 2 for each in literal_variables(literal) if each not in ages})
        self._answer(guarded, matched, number)

    def _beginning(self, guarded: Guarded) -> list[Literal]:
        """The guard, and literals that skip ground calls that are already true."""
        guard, pattern = guarded.guard, self.pattern
        assert guard is not None
        bound = _called_terms(pattern, guard)
        begin: list[Literal] = [guard]
        if guard.predicate == answers_of(pattern.predicate):
            begin.append(Atom(pattern.called, bound))  # it may answer other calls
        if pattern.is_ground:
            begin.append(Negation(Atom(answers_of(pattern.predicate), bound)))
        return begin

    def _cost(self, atom: Atom, bound: Collection[Variable]) -> float:
        explicit_atom = _explicit(atom)
        assert isinstance(explicit_atom, Atom)
        return self.cost(explicit_atom, bound)

    def _cut(
        self, name: str, matched: Sequence[Literal], following: Sequence[Literal], guarded: Guarded
    ) -> Atom:
        """Store the join so far in a relation, with the variables that are needed later."""
        rule = guarded.rule
        needed = {
            variable for literal in (guarded.head, *following) for variable in literal_variables(literal)
        }
        if rule.aggregations:
            needed |= set(collected_variables(rule))
        bound = dict.fromkeys(
            variable
            for literal in matched
            if not isinstance(literal, Negation)
            for variable in literal_variables(literal)
        )
        joined = Atom(name, tuple(variable for variable in bound if variable in needed))
        self.steps[Rule(joined, tuple(matched))] = None
        return joined

    def _ask(
        self, atom: Atom, ages: Mapping[Variable, int], matched: Sequence[Literal], is_own: bool
    ) -> None:
        pattern = CallPattern(atom.predicate, self.definitions.adornment(atom, ages))
        self.asked[pattern] = None
        terms = pattern.binding.bound_terms(atom)
        if Atom(pattern.called, terms) not in matched:
            rules = self.steps if is_own else self.demands
            rules[Rule(Atom(pattern.asked, terms), tuple(matched))] = None

    def _answer(self, guarded: Guarded, matched: Sequence[Literal], number: int) -> None:
        rule = guarded.rule
        if not rule.aggregations:
            self.steps[replace(rule, head=guarded.head, body=tuple(matched))] = None
            return
        collected = f"{COLLECTED}{_plain(self.pattern.predicate)} {self.pattern.adornment} {number}"
        self.steps[Rule(Atom(collected, collected_variables(rule)), tuple(matched))] = None
        self.groupings.append(Grouping(collected, replace(rule, head=guarded.head)))


def resting(rule: Rule, pattern: CallPattern, general: Sequence[CallPattern]) -> Rule:
    """A rule of a pattern that skips the calls which calls of the general patterns answer."""
    guard = rule.body[0]
    assert isinstance(guard, Atom)
    if not general or guard.predicate not in (pattern.called, pattern.context, answers_of(pattern.predicate)):
        return rule  # it continues from a join, whose rows come from calls that were not skipped
    terms = _called_terms(pattern, guard)
    answered = (Negation(Atom(each.called, each.among(pattern, terms))) for each in general)
    return replace(rule, body=(guard, *answered, *rule.body[1:]))


def _called_terms(pattern: CallPattern, guard: Atom) -> tuple[Term, ...]:
    """The bound arguments of the call that a guard reads."""
    if guard.predicate == pattern.called:
        return guard.terms
    if guard.predicate == pattern.context:
        return guard.terms[: len(pattern.binding.bound)]
    return pattern.binding.bound_terms(guard)


def accepting(pattern: CallPattern, general: Sequence[CallPattern]) -> Rule:
    """Return the rule that calls requested subgoals that are neither true nor answered by general calls."""
    positions = pattern.binding.bound
    terms = tuple(Variable(f"x{position}") for position in positions)
    body: list[Literal] = [Atom(pattern.asked, terms)]
    body += [Negation(Atom(each.called, each.among(pattern, terms))) for each in general]
    if pattern.is_ground:
        body.append(Negation(Atom(answers_of(pattern.predicate), terms)))
    return Rule(Atom(pattern.called, terms), tuple(body))


def relations_read(rule: Rule) -> set[str]:
    """The relations that a rule reads."""
    return {atom.predicate for atom in (*rule.positive, *rule.negated)}


def relations_of(rules: Iterable[Rule]) -> Iterator[tuple[str, int]]:
    """The relations that rules name, and their arities."""
    for rule in rules:
        for atom in (rule.head, *rule.body_atoms):
            yield atom.predicate, len(atom.terms)


def _explicit_rule(predicate: str, arity: int) -> Rule:
    """The rule by which explicit facts of a derived predicate are answers."""
    terms = tuple(Variable(f"x{position}") for position in range(1, arity + 1))
    return Rule(Atom(predicate, terms), (Atom(predicate + EXPLICIT_SUFFIX, terms),))


def _explicit(literal: Literal) -> Literal:
    """The literal, reading the relation that has the explicit facts."""
    match literal:
        case Atom(predicate, terms):
            return Atom(predicate.removesuffix(EXPLICIT_SUFFIX), terms)
        case Negation(Atom(predicate, terms)):
            return Negation(Atom(predicate.removesuffix(EXPLICIT_SUFFIX), terms))
        case _:
            return literal


def _bindable(rules: Sequence[Rule]) -> frozenset[int]:
    """The positions that can be bound before the rules aggregate."""
    positions = range(len(rules[0].head.terms))
    return frozenset(
        position
        for position in positions
        if all(not rule.aggregations or rule.head.terms[position] in rule.group for rule in rules)
    )


# ---- rules driven by the new rows of one atom
#
# A rule whose driving atom has constants matches no row without them. Rules are therefore indexed by these
# constants, as Prolog indexes clauses by arguments: the cost of a round depends on its new rows, not on the
# number of rules.
#
# Invariant: each instance with a new row is found exactly once, whichever rules are skipped.

FRESHNESS = Freshness(grown=4, small=1000, every=8)  # every: rounds
MANY = 1000  # new rows from which on constants are left to the plans, which compare them faster
EXPECTED_SIZE, EXPECTED_DISTINCT, EXPECTED_MATCHING = 1000, 100.0, 10  # of relations that are still growing


class GrowingStatistics:
    """Statistics in which growing relations are expected to have a minimum number of rows."""

    def __init__(self, statistics: Statistics, growing: Collection[str]) -> None:
        self._statistics = statistics
        self._growing = growing

    def size(self, relation: str) -> int:
        """How many facts a relation has, or is expected to have."""
        size = self._statistics.size(relation)
        return max(size, EXPECTED_SIZE) if relation in self._growing else size

    def distinct(self, relation: str, column: int) -> float:
        """How many distinct values a column has, or is expected to have."""
        distinct = self._statistics.distinct(relation, column)
        return max(distinct, EXPECTED_DISTINCT) if relation in self._growing else distinct

    def matching(self, relation: str, column: int, value: Value) -> int:
        """How many facts have this value in a column, or are expected to have it."""
        matching = self._statistics.matching(relation, column, value)
        return max(matching, EXPECTED_MATCHING) if relation in self._growing else matching


class DrivenRule:
    """A rule of tables, driven by the new rows of the atom at a position in its body."""

    def __init__(self, rule: Rule, position: int, own: Collection[str], engine: ColumnarEngine) -> None:
        atom = rule.body[position]
        assert isinstance(atom, Atom)
        self.rule = rule
        self.relation = atom.predicate
        self._place = position
        self._own = own
        self._engine = engine
        self._read = tuple(dict.fromkeys(atom.predicate for atom in rule.positive))
        self.growing = frozenset(self._read).intersection(own)
        self._runnable: Runnable | None = None
        self._generation = -1
        self.matches = 0  # instances of the rule that were found by `run`
        constants = ((column, term) for column, term in enumerate(atom.terms) if isinstance(term, Constant))
        self._constants = {column: engine.storage.dictionary.encode(term.value) for column, term in constants}

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns in which the driving atom has constants."""
        return tuple(self._constants)

    @property
    def key(self) -> tuple[int, ...]:
        """The ids of these constants."""
        return tuple(self._constants.values())

    @property
    def is_idle(self) -> bool:
        """Whether no new row has the constants of the driving atom."""
        columns, count = self._engine.rounds.new_rows(self.relation)
        matching = np.ones(count, bool)
        for column, identity in self._constants.items():
            matching &= columns[column] == identity
        return not matching.any()

    def run(self, check: Callable[[], None]) -> int:
        """Derive facts from new rows; return how many are new."""
        if self._generation != self._engine.plans.catalog_version:
            self.forget_plan()
        runnable = self.ready()
        if runnable is None:
            return 0
        outcome = runnable()
        self.matches += outcome.matches
        check()
        return outcome.new

    def ready(self) -> Runnable | None:
        """The prepared plan; None while it cannot match."""
        if self._runnable is None:
            self._runnable = self._prepared()
        return self._runnable

    def _prepared(self) -> Runnable | None:
        """Prepare a plan; return None while a relation that it reads is empty, to avoid needless indexes."""
        engine, rule = self._engine, self.rule
        if not all(map(engine.storage.size, self._read)):
            return None
        plan = delta_plan(rule, 0, self._own, self._place, GrowingStatistics(engine.storage, self._own))
        self._generation = engine.plans.catalog_version
        runnable = engine.plans.prepare(plan)
        engine.plans.pin((*self._read, *(atom.predicate for atom in rule.negated), rule.head.predicate))
        return runnable

    def forget_plan(self) -> None:
        """Discard the plan, which may be invalid or slow after relations have changed."""
        self._runnable = None


def drives(rule: Rule, own: Collection[str], engine: ColumnarEngine) -> list[DrivenRule]:
    """A rule driven by each of its atoms in turn whose relation is one of `own`."""
    return [DrivenRule(rule, position, own, engine) for position in delta_pivots(rule, own)]


class PreparedRule:
    """A rule driven by each of its atoms in turn whose relation is one of `own`."""

    def __init__(self, rule: Rule, own: Collection[str], engine: ColumnarEngine) -> None:
        self.rule = rule
        self._engine = engine
        self._drives = drives(rule, own, engine)
        self._read = rule.read
        self._growing = {name for drive in self._drives for name in drive.growing}
        self._with_tombstones: list[str] = []
        self._sizes = PlannedSizes(FRESHNESS)

    @property
    def matches(self) -> int:
        """How many instances of the rule were found so far."""
        return sum(drive.matches for drive in self._drives)

    def run(self, grown: Collection[str], check: Callable[[], None]) -> int:
        """Derive facts from new rows of the grown relations; return how many are new."""
        due = (drive for drive in self._drives if drive.relation in grown and not drive.is_idle)
        return sum(drive.run(check) for drive in due)

    def refresh_plans(self) -> None:
        """Discard plans if relations have grown much since, or have tombstones where they had none."""
        size = self._engine.storage.size
        with_tombstones = list(filter(self._engine.storage.has_tombstones, self._read))
        is_stale = with_tombstones != self._with_tombstones or self._sizes.stale(size)
        if is_stale:
            for drive in self._drives:
                drive.forget_plan()
            self._with_tombstones = with_tombstones
        if is_stale or not self._sizes.are_known:
            self._sizes.note(self._growing, size)


class Dispatch:
    """An index of rules by the relation that drives them, and the constants that its rows must have."""

    def __init__(self, rules: Iterable[DrivenRule], engine: ColumnarEngine) -> None:
        self._engine = engine
        self._drives = tuple(rules)
        self._by_key: dict[str, dict[tuple[int, ...], dict[tuple[int, ...], list[DrivenRule]]]] = {}
        for drive in self._drives:
            by_columns = self._by_key.setdefault(drive.relation, {})
            by_columns.setdefault(drive.columns, {}).setdefault(drive.key, []).append(drive)
        self._growing = {name for drive in self._drives for name in drive.growing}
        self._generation = engine.plans.catalog_version
        self._sizes = PlannedSizes(FRESHNESS)

    def due(self, grown: Iterable[str]) -> Iterator[DrivenRule]:
        """The rules that new rows of these relations can drive."""
        self._refresh_plans()
        for relation in grown:
            by_columns = self._by_key.get(relation)
            if by_columns:
                columns, count = self._engine.rounds.new_rows(relation)
                for positions, by_key in by_columns.items():
                    if positions and count <= MANY:
                        for key in _keys(columns, positions):
                            yield from by_key.get(key, ())
                    else:
                        for rules in by_key.values():
                            yield from rules

    def _refresh_plans(self) -> None:
        """Discard plans that read relations that were dropped or have grown much."""
        size = self._engine.storage.size
        is_due = self._sizes.is_due()
        grown: Collection[str] = ()
        if self._generation != self._engine.plans.catalog_version:
            self._generation = self._engine.plans.catalog_version
            grown = set(self._sizes.relations)
        elif is_due:
            grown = self._sizes.stale(size)
        if grown or not self._sizes.are_known:
            for drive in self._drives:
                if not drive.growing.isdisjoint(grown):
                    drive.forget_plan()
            self._sizes.note(self._growing, size)


def _keys(columns: tuple[Any, ...], positions: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The distinct keys of rows in some columns."""
    return set(zip(*(columns[position].tolist() for position in positions), strict=True))


def run_together(
    rules: Iterable[DrivenRule], engine: ColumnarEngine, check: Callable[[], None]
) -> list[tuple[DrivenRule, int]]:
    """Run rules in turn; return those that could match, each with the number of new facts."""
    prepared = [(drive, runnable) for drive in rules if (runnable := drive.ready()) is not None]
    if not prepared:
        return []
    new_counts = engine.plans.run_together([runnable for _, runnable in prepared])
    check()
    return [(drive, new) for (drive, _), new in zip(prepared, new_counts, strict=True)]


def run_once(rule: Rule, engine: ColumnarEngine) -> int:
    """Derive the facts of a rule; return how many are new."""
    if not all(engine.storage.size(atom.predicate) for atom in rule.positive):
        return 0
    return engine.plans.prepare(full_plan(rule, 0, engine.storage))().new
