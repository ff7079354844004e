"""An engine for maintenance over Python sets: slow, plain, and the oracle for every other one.

Plans are interpreted node by node, one binding of variables to values at a time. Flags, counters and ranks
are dictionaries, and a transaction begins with a copy of them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from tidelog.engine.flags import PARTS, PRESENT, CounterKind, Effect, Flag, MarkConfig, MarkKind, Role, Where
from tidelog.engine.interrupts import ActiveLimits
from tidelog.engine.protocol import Aggregated, EngineParts, Facts
from tidelog.logic.functions import builtins
from tidelog.logic.functions.builtins import evaluate, holds
from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Literal,
    Negation,
    Rule,
    Term,
    Variable,
)
from tidelog.logic.strata import Stratum
from tidelog.logic.values import Value
from tidelog.plan.algebra import (
    Aggregate,
    AntiJoin,
    ChangePlan,
    Extend,
    Filter,
    Join,
    Node,
    Part,
    Project,
    Scan,
    Support,
    Unit,
    Witness,
)

Row = tuple[Value, ...]
Fact = tuple[str, Row]
Binding = dict[Variable, Value]


@dataclass(frozen=True)
class Match:
    """A binding, and the own facts that it was matched with."""

    binding: Binding
    own: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class Set:
    """A set of facts."""

    members: frozenset[Fact] = frozenset()

    def __len__(self) -> int:
        return len(self.members)

    def __or__(self, other: Set) -> Set:
        assert self.members.isdisjoint(other.members), "no fact is in both"
        return Set(self.members | other.members)

    @property
    def relations(self) -> Collection[str]:
        """The relations that have facts in it."""
        return {relation for relation, _ in self.members}

    @property
    def counts(self) -> Mapping[str, int]:
        """How many facts there are of each relation."""
        return Counter(relation for relation, _ in self.members)


@dataclass
class State:
    """All that a transaction may change."""

    flags: dict[str, dict[Row, Flag]] = field(default_factory=dict)
    founded: dict[Fact, int] = field(default_factory=dict)
    hidden: dict[Fact, int] = field(default_factory=dict)
    ranks: dict[Fact, int] = field(default_factory=dict)
    clock: int = 1
    counters: CounterKind = CounterKind.NONE
    noted: Noted = field(default_factory=lambda: Noted())

    def copy(self) -> State:
        """The same, apart."""
        flags = {relation: dict(rows) for relation, rows in self.flags.items()}
        counts = dict(self.founded), dict(self.hidden), dict(self.ranks)
        return State(flags, *counts, self.clock, self.counters, self.noted.copy())


@dataclass
class Noted:
    """What is noted of facts."""

    noting: MarkConfig = field(default_factory=MarkConfig)
    moment: int = -1  # the number of transactions after which it is right
    marks: set[Fact] = field(default_factory=set)
    returning: set[Fact] = field(default_factory=set)
    links: dict[Fact, Fact | None] = field(default_factory=dict)
    sole: set[Fact] = field(default_factory=set)
    unlinked: frozenset[str] = frozenset()  # relations that had facts when links began

    def copy(self) -> Noted:
        """The same, apart."""
        notes = set(self.marks), set(self.returning), dict(self.links), set(self.sole)
        return Noted(self.noting, self.moment, *notes, self.unlinked)


class SetEngine:
    """Facts as tuples of values: storage, changes, plans over changes, counters and marks in one. Mutable."""

    plan_listener = None

    def __init__(self) -> None:
        self.state = State()
        self.instances = 0
        self._values: list[Value] = []
        self._number: dict[Value, int] = {}
        self._begun: State | None = None
        self._commits = 0
        self._is_noting = False

    @property
    def engine(self) -> EngineParts:
        """The engine that has this object as all of its parts but rounds, and plans over whole relations."""
        own, none = cast(Any, self), cast(Any, None)
        return EngineParts(
            storage=own,
            rounds=none,
            plans=none,
            changes=own,
            change_plans=own,
            aggregates=own,
            counters=own,
            replacement=none,
            limits=ActiveLimits(),
            marks=own,
            name="sets",
        )

    @property
    def kind(self) -> CounterKind:
        """What is counted at present."""
        return self.state.counters

    # ---- what every engine has

    def define(self, relation: str, arity: int) -> None:
        """Make an empty relation, unless it is there."""
        self.state.flags.setdefault(relation, {})

    def relations(self) -> Collection[str]:
        """The relations that are there."""
        return self.state.flags.keys()

    def load(self, relation: str, batch: Iterable[Row]) -> int:
        """Add explicit facts."""
        flags = self.state.flags[relation]
        flags.update(dict.fromkeys(batch, Flag.ALIVE | Flag.BEFORE | Flag.EXPLICIT))
        return len(flags)

    def add_derived(self, relation: str, rows: Iterable[Row]) -> None:
        """Add facts that follow."""
        flags = self.state.flags[relation]
        for row in rows:
            flags[row] = flags.get(row, Flag.NONE) | Flag.ALIVE | Flag.BEFORE

    def drop(self, relation: str) -> None:
        """Forget a relation."""
        del self.state.flags[relation]

    def size(self, relation: str) -> int:
        """How many facts are true."""
        return sum(Flag.ALIVE in flags for flags in self.state.flags[relation].values())

    def distinct(self, relation: str, column: int) -> float:
        """How many distinct values a column has."""
        return max(1, len({row[column] for row in self.state.flags[relation]}))

    def matching(self, relation: str, column: int, value: Value) -> int:
        """How many facts have this value in a column."""
        return sum(row[column] == value for row in self.state.flags[relation])

    # ---- transactions

    def begin(self) -> None:
        """Copy everything."""
        assert self._begun is None
        self._begun = self.state.copy()
        self._is_noting = False

    def commit(self) -> tuple[Set, Set]:
        """What went and what came since the copy."""
        assert self._begun is not None
        before, now = _true(self._begun), _true(self.state)
        self.start_second_phase()
        self._begun = None
        self._commits += 1
        if self._is_noting:
            self.state.noted.moment = self._commits
        return Set(before - now), Set(now - before)

    def start_second_phase(self) -> None:
        """BEFORE is ALIVE."""
        for flags in self.state.flags.values():
            for row, known in flags.items():
                before = Flag.BEFORE if Flag.ALIVE in known else Flag.NONE
                flags[row] = known & ~Flag.BEFORE | before

    def roll_back(self) -> None:
        """Go back to the copy; relations that were defined since stay, empty."""
        assert self._begun is not None
        for relation in self.state.flags:
            self._begun.flags.setdefault(relation, {})
        self.state, self._begun = self._begun, None

    # ---- sets of facts

    def facts(self, relation: str, columns: Sequence[Any], count: int, create: bool) -> Set:
        """The facts with these ids."""
        known = self.state.flags[relation]
        rows = [tuple(self._values[column[place]] for column in columns) for place in range(count)]
        for row in rows if create else ():
            known.setdefault(row, Flag.NONE)
        return Set(frozenset((relation, row) for row in rows if row in known))

    def all_facts(self, given: Mapping[str, tuple[Any, int]], create: bool) -> dict[str, Set]:
        """The facts with these ids, by relation."""
        found = {name: self.facts(name, *rows, create) for name, rows in given.items()}
        return {name: facts for name, facts in found.items() if len(facts)}

    def ids(self, facts: Facts) -> dict[str, tuple[Any, int]]:
        """The columns of ids, and how many, by relation."""
        found = {}
        for relation in facts.relations:
            rows = [row for name, row in _members(facts) if name == relation]
            found[relation] = self.encode(rows), len(rows)
        return found

    def encode(self, rows: Sequence[Row]) -> tuple[Any, ...]:
        """Rows as columns of ids."""
        return tuple(
            np.array([self._id(value) for value in column], np.int32) for column in zip(*rows, strict=True)
        )

    def decode(self, columns: Sequence[Any], count: int) -> frozenset[Row]:
        """The rows of columns of ids."""
        return frozenset(tuple(self._values[column[place]] for column in columns) for place in range(count))

    def _id(self, value: Value) -> int:
        if value not in self._number:
            self._number[value] = len(self._values)
            self._values.append(value)
        return self._number[value]

    def every(self, relation: str) -> Set:
        """All facts that are true now."""
        return Set(frozenset((relation, row) for row in self._reading(relation, Part.NOW)))

    def none(self) -> Set:
        """No facts."""
        return Set()

    def select(self, facts: Facts, where: Where) -> Set:
        """Those whose flags are as wanted."""
        return self._those(facts, lambda fact: self._flags(fact) & where.mask == where.want)

    def of(self, facts: Facts, relations: Collection[str]) -> Set:
        """Those of these relations."""
        return self._those(facts, lambda fact: fact[0] in relations)

    def mark(self, facts: Facts, set: Flag = Flag.NONE, clear: Flag = Flag.NONE) -> None:
        """Clear flags, then set flags."""
        for relation, row in _members(facts):
            flags = self.state.flags[relation]
            flags[row] = flags[row] & ~clear | set

    def _those(self, facts: Facts, test: Any) -> Set:
        return Set(frozenset(fact for fact in _members(facts) if test(fact)))

    def _flags(self, fact: Fact) -> Flag:
        return self.state.flags[fact[0]][fact[1]]

    # ---- counters

    def count(self, facts: Facts, founded: int) -> None:
        """Add to `founded` of each fact."""
        for fact in _members(facts):
            _add(self.state.founded, fact, founded)

    def select_unfounded(self, facts: Facts) -> Set:
        """Those whose `founded` is 0."""
        return self._those(facts, lambda fact: not self.state.founded.get(fact))

    def select_supported(self, facts: Facts) -> Set:
        """Those whose `founded` or `hidden` is above 0."""
        state = self.state
        return self._those(facts, lambda fact: state.founded.get(fact) or state.hidden.get(fact))

    def assign_next_rank(self, facts: Facts) -> None:
        """What was hidden becomes founded, and the clock moves on."""
        for fact in _members(facts):
            _add(self.state.founded, fact, self.state.hidden.pop(fact, 0))
            self.state.ranks[fact] = self.state.clock
        self.state.clock += 1

    def rebuild(self, kind: CounterKind, strata: Iterable[Stratum]) -> Set:
        """Count all instances anew; of ranks, facts get the round in which they can be derived."""
        self.state.counters = kind
        unfounded: frozenset[Fact] = frozenset()
        for stratum in strata:
            unfounded |= self._recount(stratum)
        return Set(unfounded)

    def _recount(self, stratum: Stratum) -> frozenset[Fact]:
        own = self.true_in(stratum.predicates).members
        for fact in [fact for fact in self.state.ranks if fact[0] in stratum.predicates]:
            del self.state.ranks[fact]
        if self.state.counters is CounterKind.RANK:
            self._rank(own, self._all_instances(stratum))
        self.count_again([stratum])
        return frozenset(fact for fact in own if not self.state.founded.get(fact))

    def count_again(self, strata: Iterable[Stratum]) -> None:
        """Count with ranks as they are."""
        state = self.state
        for stratum in strata:
            for counts in (state.founded, state.hidden):
                for fact in [fact for fact in counts if fact[0] in stratum.predicates]:
                    del counts[fact]
            explicit = Where(Flag.EXPLICIT, Flag.EXPLICIT)
            self.count(self.select(self.true_in(stratum.predicates), explicit), 1)
            for head, body in self._all_instances(stratum):
                _add(self._counts(head, body), head, 1)

    def true_in(self, relations: Iterable[str]) -> Set:
        """All facts of these relations that are true now."""
        return Set(frozenset(fact for relation in relations for fact in self.every(relation).members))

    def _all_instances(self, stratum: Stratum) -> list[tuple[Fact, tuple[Fact, ...]]]:
        rules = [rule for rule in stratum.rules if not rule.aggregations]
        return [instance for rule in rules for instance in self._instances(rule, stratum.predicates)]

    def _instances(self, rule: Rule, own: Collection[str]) -> Iterator[tuple[Fact, tuple[Fact, ...]]]:
        """The head and the own facts of each instance among what is true now."""
        node: Node = Unit()
        for literal in rule.body:
            node = _matched(node, literal, own)
        for match in self._matches(node, Set()):
            yield (rule.head.predicate, _ground(rule.head.terms, match.binding)), match.own

    def _rank(self, own: frozenset[Fact], instances: list[tuple[Fact, tuple[Fact, ...]]]) -> None:
        """Rank the facts of a stratum by the round in which they can be derived."""
        ranks = self.state.ranks
        waiting = own
        found = {fact for fact in own if Flag.EXPLICIT in self._flags(fact)}
        while True:
            found |= {head for head, body in instances if all(fact in ranks for fact in body)}
            if not found & waiting:
                break
            ranks.update(dict.fromkeys(found & waiting, self.state.clock))
            self.state.clock += 1
            waiting -= found

    def _counts(self, head: Fact, body: tuple[Fact, ...]) -> dict[Fact, int]:
        """Where an instance counts: among the founded, or the hidden."""
        state = self.state
        if not body:
            return state.founded
        if state.counters is CounterKind.CLASS:
            return state.hidden
        rank = state.ranks.get(head, 0)
        return state.founded if all(state.ranks[fact] < rank for fact in body) else state.hidden

    # ---- notes

    def configure(self, noting: MarkConfig) -> None:
        """In this transaction, let what is noted of facts be this."""
        noted = self.state.noted
        if (noted.noting, noted.moment) != (noting, self._commits):
            unlinked = frozenset(name for name in self.relations() if self.size(name))
            self.state.noted = Noted(noting, unlinked=unlinked)
        self._is_noting = True

    def is_linked(self, relations: Collection[str]) -> bool:
        """Whether the relations had no facts when links began."""
        return self.state.noted.unlinked.isdisjoint(relations)

    def linked(self, facts: Facts, relations: Collection[str], effect: Effect) -> Set:
        """The facts of these relations that lean on the given ones and that the effect selects."""
        leaning = {
            fact
            for fact, link in self.state.noted.links.items()
            if link in _members(facts) and fact[0] in relations
        }
        found = self.select(Set(frozenset(leaning)), effect.where)
        self.mark(found, set=effect.set)
        return found

    def split_single_support(self, facts: Facts) -> tuple[Set, Set]:
        """Those that are sole, and the others."""
        sole = self.state.noted.sole
        return self._those(facts, lambda fact: fact in sole), self._those(
            facts, lambda fact: fact not in sole
        )

    def set_marks(self, facts: Facts, marked: bool) -> None:
        """Mark the facts, or let them be unmarked."""
        marks = self.state.noted.marks
        (marks.update if marked else marks.difference_update)(_members(facts))

    def select_marked(self, facts: Facts) -> Set:
        """Those that are marked."""
        return self._those(facts, lambda fact: fact in self.state.noted.marks)

    def set_returning(self, facts: Facts, returning: bool) -> None:
        """Let it be noted that the facts return, or not."""
        noted = self.state.noted.returning
        (noted.update if returning else noted.difference_update)(_members(facts))

    def select_returning(self, facts: Facts) -> Set:
        """Those that return."""
        return self._those(facts, lambda fact: fact in self.state.noted.returning)

    # ---- plans

    def prepare(self, plan: ChangePlan) -> ChangePlan:
        """The plan itself."""
        return plan

    def run(self, plans: Iterable[ChangePlan], given: Facts, effect: Effect) -> Set:
        """Match each plan, then let the effect come over each head."""
        found: set[Fact] = set()
        for plan in plans:
            assert isinstance(plan.root, Project)
            for match in list(self._matches(plan.root.input, self._given(plan, given))):
                self.instances += 1
                head = plan.relation, _ground(plan.root.terms, match.binding)
                if self._affect(head, match.own, effect, plan.rule, match.binding):
                    found.add(head)
        return Set(frozenset(found))

    def _given(self, plan: ChangePlan, given: Facts) -> Set:
        return self.of(given, () if plan.given is None else (plan.given,))

    def _body(self, rule: Rule, binding: Binding) -> list[Fact]:
        """The facts of an instance whose marks are passed on, or that may be leant on."""
        if not self._is_noting:
            return []
        sources = self.state.noted.noting.sources
        atoms = (atom for atom in rule.positive if atom.predicate in sources)
        return [(atom.predicate, _ground(atom.terms, binding)) for atom in atoms]

    def _affect(
        self, head: Fact, own: tuple[Fact, ...], effect: Effect, rule: Rule, binding: Binding
    ) -> bool:
        """Whether the effect selects the head."""
        flags = self.state.flags[head[0]]
        if head[1] not in flags:
            if not effect.create:
                return False
            flags[head[1]] = Flag.NONE
        if effect.count:
            _add(self._counts(head, own), head, effect.count)
        is_selected = flags[head[1]] & effect.where.mask == effect.where.want
        if effect.unfounded and self.state.founded.get(head):
            is_selected = False
        is_noted = self._is_noting and head[0] in self.state.noted.noting.heads
        if is_noted and self._note(head, rule, binding, effect.role, is_selected):
            return False
        if not is_selected:
            return False
        flags[head[1]] |= effect.set
        assert flags[head[1]] & effect.where.mask != effect.where.want, "each is returned once"
        return True

    def _note(self, head: Fact, rule: Rule, binding: Binding, role: Role, is_selected: bool) -> bool:
        """Whether the head loses an instance that it does not lean on; what others mean for it is noted."""
        noted = self.state.noted
        body = self._body(rule, binding)
        leant_on = body[0] if body else None
        if role is Role.NONE:
            return False
        if noted.noting.kind is MarkKind.LINKS and role is Role.LOSS:
            return head in noted.links and noted.links[head] != leant_on
        if role is Role.LOSS:
            if is_selected and body and not rule.negated and all(map(self._returns, body)):
                noted.returning.add(head)
            return False
        if noted.noting.kind is MarkKind.MARKS:
            if is_selected and not noted.marks.isdisjoint(body):
                noted.marks.add(head)
            return False
        if is_selected:
            noted.links[head] = leant_on
        if role is Role.ORIGIN:
            (noted.sole.add if is_selected else noted.sole.discard)(head)
        return False

    def _returns(self, fact: Fact) -> bool:
        """Whether a fact in the body of an instance that broke is known to be true after the next update."""
        noted = self.state.noted
        stays = fact[0] in noted.noting.staying and fact not in noted.marks
        return fact in noted.returning or (stays and Flag.ALIVE in self._flags(fact))

    def run_support(self, plans: Iterable[ChangePlan], given: Facts) -> tuple[Set, Set]:
        """One instance for each head: its facts that were not checked, and the heads that have one."""
        plans = list(plans)
        fresh: frozenset[Fact] = frozenset()
        heads: frozenset[Fact] = frozenset()
        for head in sorted(_members(given)):
            instance = next(self._supports(plans, head), None)
            if instance is not None:
                self.instances += 1
                heads |= {head}
                unchecked = {fact for fact in instance if Flag.CHECKED not in self._flags(fact)}
                self.mark(Set(frozenset(unchecked)), set=Flag.CHECKED)
                fresh |= unchecked
        return Set(fresh), Set(heads)

    def _supports(self, plans: Iterable[ChangePlan], head: Fact) -> Iterator[list[Fact]]:
        for plan in plans:
            assert isinstance(plan.root, Support)
            for match in self._matches(plan.root.input, self._given(plan, Set(frozenset({head})))):
                yield [(atom.relation, _ground(atom.terms, match.binding)) for atom in plan.root.atoms]

    def exchange(self, aggregated: Aggregated, lost: Set, gained: Set) -> tuple[Set, Set, Set]:
        """No group is known: all that have changed rows are to be folded."""
        known, touched = self.state.flags[aggregated.touched.predicate], set()
        terms = {atom.predicate: atom.terms for atom in aggregated.changed}
        for relation, row in lost.members | gained.members:
            binding: Binding = dict(zip(cast(Any, terms[relation]), row, strict=True))
            touched.add((aggregated.touched.predicate, _ground(aggregated.touched.terms, binding)))
        for _, group in touched:
            known.setdefault(group, Flag.NONE)
        return Set(), Set(), Set(frozenset(touched))

    def forget(self, relation: str) -> None:
        """Nothing is known."""

    def fold(self, aggregated: Aggregated, keep: bool) -> Set:
        """One fact for each group of the collected rows."""
        rule, collected = aggregated.rule, aggregated.collected
        scan = Scan(collected.predicate, Part.NOW, collected.terms)
        root = Aggregate(scan, rule.group, rule.aggregations, (), rule.head.terms)
        return self._folded(root, rule.head.predicate)

    def _folded(self, root: Aggregate, relation: str) -> Set:
        groups: dict[Row, list[Binding]] = {}
        for match in self._matches(root.input, Set()):
            key = tuple(match.binding[variable] for variable in root.group)
            groups.setdefault(key, []).append(match.binding)
        found = set()
        for key, members in groups.items():
            binding = dict(zip(root.group, key, strict=True))
            for aggregation in root.aggregations:
                rows = {_ground(aggregation.arguments, member) for member in members}
                value = builtins.AGGREGATES[aggregation.function](list(rows))
                if value is None:
                    break
                binding[aggregation.variable] = value
            else:
                found.add((relation, _ground(root.terms, binding)))
        for _, row in found:
            self.state.flags[relation].setdefault(row, Flag.NONE)
        return Set(frozenset(found))

    def define_temporary(self, relation: str, arity: int) -> None:
        """Make an empty relation, unless it is there."""
        self.define(relation, arity)

    def unite(self, sets: Iterable[Any]) -> Set:
        """All facts of the sets."""
        united = Set()
        for facts in sets:
            united |= facts
        return united

    counts = 1

    def instances_of(self, rule: Rule) -> int:
        """How many instances of a rule there are."""
        return len(list(self._instances(rule, ())))

    def rounds_of(self, predicates: Collection[str]) -> int:
        """Nobody counts rounds here."""
        return 1

    def compact_if_sparse(self, relations: object) -> None:
        """Nothing is left over here."""

    def clear(self, relation: str) -> None:
        """Forget all facts of a relation."""
        self.state.flags[relation] = {}

    def end_stratum(self, relations: Collection[str]) -> tuple[Set, Set]:
        """Clear what algorithms note; what went and what came."""
        facts = Set(frozenset((name, row) for name in relations for row in self.state.flags[name]))
        self.mark(facts, clear=Flag.DELTA | Flag.PENDING | Flag.PROVED | Flag.CHECKED)
        changed = Flag.BEFORE | Flag.ALIVE
        return self.select(facts, Where(changed, Flag.BEFORE)), self.select(facts, Where(changed, Flag.ALIVE))

    # ---- matching

    def _matches(self, node: Node, given: Set) -> Iterator[Match]:
        match node:
            case Unit():
                yield Match({})
            case Scan():
                yield from self._scanned(node, Match({}), given)
            case Witness():
                yield from self._witnesses(node, given)
            case Join(source, scan):
                for found in self._matches(source, given):
                    yield from self._scanned(scan, found, given)
            case AntiJoin(source, scan):
                for found in self._matches(source, given):
                    if self._is_absent(scan, found.binding):
                        yield found
            case Filter(source, test):
                yield from (found for found in self._matches(source, given) if holds(test, found.binding))
            case Extend(source, variable, expression):
                for found in self._matches(source, given):
                    assert variable not in found.binding, "what is known is tested, not computed"
                    value = evaluate(expression, found.binding)
                    if value is not None:
                        yield Match({**found.binding, variable: value}, found.own)
            case _:
                raise TypeError(node)

    def _scanned(self, scan: Scan, match: Match, given: Set) -> Iterator[Match]:
        if scan.part is Part.GIVEN:
            rows: Iterable[Row] = sorted(row for relation, row in given.members if relation == scan.relation)
        else:
            rows = self._reading(scan.relation, scan.part)
        for row in rows:
            binding = _unified(scan.terms, row, match.binding)
            if binding is not None:
                own = (*match.own, (scan.relation, row)) if scan.own else match.own
                yield Match(binding, own)

    def _reading(self, relation: str, part: Part) -> list[Row]:
        where = PARTS[part]
        rows = self.state.flags.get(relation, {})
        return [row for row, flags in rows.items() if flags & where.mask == where.want]

    def _is_absent(self, scan: Scan, binding: Binding) -> bool:
        return all(_unified(scan.terms, row, binding) is None for row in self._present(scan))

    def _present(self, scan: Scan) -> list[Row]:
        wanted = PRESENT[scan.part]
        return [row for row, flags in self.state.flags.get(scan.relation, {}).items() if flags & wanted]

    def _witnesses(self, node: Witness, given: Set) -> Iterator[Match]:
        seen: set[Row] = set()
        present = [
            row
            for row in self._present(Scan(node.scan.relation, node.unless, ()))
            if _unified(node.scan.terms, row, {}) is not None
        ]
        excluded = {tuple(row[column] for column in node.bound) for row in present}
        for relation, row in sorted(given.members):
            key = tuple(row[column] for column in node.bound)
            binding = _unified(node.scan.terms, row, {})
            if relation == node.scan.relation and binding is not None and key not in seen | excluded:
                seen.add(key)
                bound = {node.scan.terms[column] for column in node.bound}
                yield Match({name: value for name, value in binding.items() if name in bound})


def _matched(node: Node, literal: Literal, own: Collection[str]) -> Node:
    """The node with one more literal matched against what is true now."""
    match literal:
        case Atom(predicate, terms):
            return Join(node, Scan(predicate, Part.NOW, terms, predicate in own))
        case Negation(Atom(predicate, terms)):
            return AntiJoin(node, Scan(predicate, Part.NOW, terms))
        case Assignment(variable, expression):
            return Extend(node, variable, expression)
        case Comparison() | Condition():
            return Filter(node, literal)
        case _:
            raise TypeError(literal)


def _members(facts: Any) -> frozenset[Fact]:
    members: frozenset[Fact] = facts.members
    return members


def _true(state: State) -> frozenset[Fact]:
    return frozenset(
        (relation, row)
        for relation, flags in state.flags.items()
        for row in flags
        if Flag.ALIVE in flags[row]
    )


def _add(counts: dict[Fact, int], fact: Fact, number: int) -> None:
    """Add to a count; what is 0 is left out, so that counts compare."""
    total = counts.pop(fact, 0) + number
    assert total >= 0, f"{fact} is counted too seldom"
    if total:
        counts[fact] = total


def _ground(terms: Iterable[Term], binding: Mapping[Variable, Value]) -> Row:
    return tuple(term.value if isinstance(term, Constant) else binding[term] for term in terms)


def _unified(terms: tuple[Term, ...], row: Row, binding: Binding) -> Binding | None:
    """The binding extended so that the terms are the row, if that can be."""
    extended = dict(binding)
    for term, value in zip(terms, row, strict=True):
        expected = term.value if isinstance(term, Constant) else extended.setdefault(term, value)
        if expected != value:
            return None
    return extended
