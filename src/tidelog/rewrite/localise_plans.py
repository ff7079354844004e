"""Plans of one rule for tasks that each hold a part of the facts, and the sizes estimated for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import prod
from typing import Final

from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Program,
    Rule,
    Term,
    Variable,
    literal_atoms,
    literal_variables,
)
from tidelog.logic.strata import Stratum
from tidelog.logic.type_inference import Columns
from tidelog.logic.values import Value
from tidelog.records import dataclass

# ---- estimated sizes of derived relations
#
# Selinger, Astrahan, Chamberlin, Lorie, Price: Access Path Selection in a Relational Database Management
# System, SIGMOD 1979, section 4: a join on a variable that has n values keeps one in n pairs of rows.
#
# A recursive relation is estimated by some rounds of its rules. What a rule derives from one recursive atom
# alone, such as an inverse, is taken to be known mostly: otherwise a pair of inverses would grow with each
# round.

REPEATED: Final = 10  # facts for each value of a column whose distinct values were not counted
ROUNDS: Final = 12  # rounds of a recursion that are estimated; real ones may take thousands
SMALL: Final = 1000  # rows that are copied to every task without estimating
MOST: Final = 1e15  # rows beyond which an estimate is meaningless
# The share of rows that pass a test.
PASSING: Final = {"=": 0.1, "!=": 1.0, "<": 1 / 3, "<=": 1 / 3, ">": 1 / 3, ">=": 1 / 3}


@dataclass(frozen=True)
class Sizes:
    """What is known of given relations; one that is not named has the facts in the program."""

    rows: Mapping[str, int] = field(default_factory=dict)
    distinct: Mapping[tuple[str, int], int] = field(default_factory=dict)  # values of a predicate's column
    matching: Mapping[tuple[str, int, Value], int] = field(default_factory=dict)  # rows with a value there
    heavy: Mapping[tuple[str, int], int] = field(default_factory=dict)  # rows with the most frequent values
    types: Mapping[str, Columns] = field(default_factory=dict)  # of what is given, as far as that is known

    @staticmethod
    def of(
        facts: Mapping[str, Collection[Sequence[Value]]],
        constants: Iterable[tuple[str, int, Value]] = (),
    ) -> Sizes:
        """Count rows and distinct values of facts, and the rows that have these constants.

        >>> from tidelog.logic.values import integer
        >>> Sizes.of({"edge": [(integer(1), integer(2)), (integer(1), integer(3))]}).distinct
        {('edge', 0): 1, ('edge', 1): 2}
        """
        return Sizes(
            {name: len(rows) for name, rows in facts.items()},
            {
                (name, position): len(set(column))
                for name, rows in facts.items()
                for position, column in enumerate(zip(*rows, strict=True))
            },
            {
                (name, position, value): sum(row[position] == value for row in facts[name])
                for name, position, value in constants
                if name in facts
            },
        )


def constants_of(program: Program) -> frozenset[tuple[str, int, Value]]:
    """Return the constants in bodies, each with its column: the keys of `Sizes.matching`."""
    return frozenset(
        (atom.predicate, position, term.value)
        for rule in program.rules
        for atom in rule.body_atoms
        for position, term in enumerate(atom.terms)
        if isinstance(term, Constant)
    )


@dataclass(frozen=True, slots=True)
class RelationEstimate:
    """Estimated rows of a relation, and distinct values of each of its columns."""

    rows: float
    distinct: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """Estimated matches of some literals, and distinct values of each of their variables."""

    rows: float
    distinct: Mapping[Variable, float]

    def projected(self, variables: Iterable[Variable]) -> float:
        """Return how many distinct rows the matches have in these variables."""
        combinations = 1.0
        for variable in variables:
            combinations *= self.distinct.get(variable, self.rows)
            if combinations >= self.rows:
                return self.rows
        return combinations


@dataclass(frozen=True)
class Estimates:
    """The estimated sizes of all relations of a program."""

    relations: Mapping[str, RelationEstimate]
    sizes: Sizes
    given: Mapping[str, RelationEstimate]

    def rows(self, predicate: str) -> float:
        """Return the estimated rows of a relation."""
        return self.relations[predicate].rows

    def matches(self, literals: Iterable[Literal]) -> Matches:
        """Estimate the join of the atoms among the literals, and what passes their comparisons."""
        rows = 1.0
        values: dict[Variable, float] = {}
        for literal in literals:
            if isinstance(literal, Comparison):
                rows *= PASSING[literal.operator]
            elif isinstance(literal, Atom):
                selected = self._selected(literal)
                rows *= selected
                for term, column in zip(
                    literal.terms, self.relations[literal.predicate].distinct, strict=True
                ):
                    if isinstance(term, Constant):
                        continue
                    distinct = min(column, selected)
                    if term in values:
                        rows /= max(values[term], distinct, 1.0)
                    values[term] = min(values.get(term, distinct), distinct)
        rows = min(rows, MOST)
        return Matches(rows, {variable: min(distinct, rows) for variable, distinct in values.items()})

    def _selected(self, atom: Atom) -> float:
        """Return how many rows of a relation have the constants of an atom."""
        rows = self.relations[atom.predicate].rows
        for position, term in enumerate(atom.terms):
            if isinstance(term, Constant):
                rows *= self._share(atom.predicate, position, term.value)
        return rows

    def _share(self, predicate: str, position: int, value: Value) -> float:
        """Return the share of a relation's rows that have this value, as among its given rows."""
        given = self.given.get(predicate)
        if given is None or not given.rows:
            return 1 / max(self.relations[predicate].distinct[position], 1.0)
        matching = self.sizes.matching.get((predicate, position, value))
        return 1 / max(given.distinct[position], 1.0) if matching is None else matching / given.rows


def spread(rows: float, tasks: int) -> float:
    """Return the cost of copying rows to every task; few rows are counted once, not per task."""
    return rows * tasks if rows > SMALL else rows


def estimate(program: Program, parts: Iterable[Stratum], sizes: Sizes) -> Estimates:
    """Estimate all relations of a program, stratum by stratum; `parts` are its strata."""
    explicit = Counter(fact.predicate for fact in program.facts)
    given: dict[str, RelationEstimate] = {}
    for name, predicate in program.predicates.items():
        rows = float(sizes.rows.get(name, explicit[name]))
        rows = rows if predicate.arity else min(rows, 1.0)
        typical = rows / REPEATED if predicate.arity > 1 else rows
        columns = (sizes.distinct.get((name, position), typical) for position in range(predicate.arity))
        given[name] = RelationEstimate(rows, tuple(min(rows, max(1.0, float(column))) for column in columns))
    relations = dict(given)
    estimates = Estimates(relations, sizes, given)
    for stratum in parts:
        early = {name: given[name] for name in stratum.predicates if given[name].rows}
        for _ in range(ROUNDS if stratum.recursive else 1):
            sums = {name: _Derived(given[name]) for name in stratum.predicates}
            for rule in stratum.rules:
                recursive = [atom for atom in rule.positive if atom.predicate in sums]
                sums[rule.head.predicate].add(rule, _matches(rule, recursive, estimates, early), recursive)
            updated = {name: derived.relation(relations[name]) for name, derived in sums.items()}
            if all(relations[name] == relation for name, relation in updated.items()):
                break  # fixpoint
            relations.update(updated)
            early = {name: relations[name] for name in sums if relations[name].rows} | early
    return estimates


def _matches(
    rule: Rule, recursive: Sequence[Atom], estimates: Estimates, early: Mapping[str, RelationEstimate]
) -> Matches:
    """Estimate the matches of a body as if its recursion were linear.

    One recursive atom has the rows of this round, and all others those of the first round; otherwise each
    round would square the estimate.
    """
    later = recursive[1:]
    if not later:
        return estimates.matches(rule.body)
    aliases = {atom.predicate: f"{atom.predicate} early" for atom in later}
    body = [
        Atom(aliases[each.predicate], each.terms) if isinstance(each, Atom) and each in later else each
        for each in rule.body
    ]
    relations = estimates.relations
    aliased = {alias: early.get(name, relations[name]) for name, alias in aliases.items()}
    return replace(estimates, relations={**relations, **aliased}).matches(body)


class _Derived:
    """The estimate of one predicate, summed over its rules. Mutable while they are added."""

    def __init__(self, given: RelationEstimate) -> None:
        self.rows = given.rows
        self.distinct = list(given.distinct)
        self.most_copied = 0.0
        self.most_distinct = [0.0] * len(
            given.distinct
        )  # by recursive rules, which derive the same values again

    def add(self, rule: Rule, matches: Matches, recursive: Sequence[Atom]) -> None:
        """Add the rows that a rule derives."""
        variables = dict.fromkeys(term for term in rule.head.terms if isinstance(term, Variable))
        rows = matches.projected(rule.group if rule.aggregations else variables)
        if recursive and len(rule.positive) == 1:
            self.most_copied = max(self.most_copied, rows)
        else:
            self.rows += rows
        for position, term in enumerate(rule.head.terms):
            distinct = 1.0 if isinstance(term, Constant) else min(rows, matches.distinct.get(term, rows))
            if recursive:
                self.most_distinct[position] = max(self.most_distinct[position], distinct)
            else:
                self.distinct[position] += distinct

    def relation(self, before: RelationEstimate) -> RelationEstimate:
        """Return the estimate: no more rows than combinations of values, no fewer than the round before."""
        columns = [max(pair) for pair in zip(self.distinct, self.most_distinct, strict=True)]
        rows = min(max(self.rows, self.most_copied), prod(columns, start=1.0))
        distinct = (max(min(pair[0], rows), pair[1]) for pair in zip(columns, before.distinct, strict=True))
        return RelationEstimate(max(rows, before.rows), tuple(distinct))


# ---- plans of one rule for tasks that each hold a part of the facts
#
# A *plan* is a chain of steps. The facts that a step reads lie at the owner of one term, its *key*, or at
# every task. A step joins all it can; what is needed later, and no more, goes on to the key of the next step.
#
# The search keeps the cheapest partial plans of each length (`WIDTH`), so that long bodies take time in
# proportion to their length. A plan of one step is always among the results, for each key: atoms without the
# key lie at every task. A join larger than copying all relations to all tasks is therefore never chosen.
#
# Invariant: the matches of a plan's last step, over all tasks, are the matches of the rule's body.

WIDTH: Final = 4  # partial plans that are followed at a time
LONG: Final = 12  # atoms of a body beyond which fewer plans are tried
KEPT: Final = 16  # plans of several steps that are returned
COPYING: Final = 2  # a row of a copy is sent, and it is stored


@dataclass(frozen=True, slots=True)
class StepRead:
    """A literal of a step, and the arguments that are its key.

    Its facts lie at the owner of one of these arguments, or at every task if there are none.
    """

    literal: Literal
    atom: Atom | None  # None if the literal is a test
    arguments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinStep:
    """What is joined at the owner of one term; without a key, all that is read lies at every task."""

    key: Term | None
    reads: tuple[StepRead, ...]  # in an order in which variables are bound before they are tested
    kept: tuple[Variable, ...]  # what later steps need
    rows: float  # estimated, of what is kept


@dataclass(frozen=True, slots=True)
class DistributedPlan:
    """A way to run a rule. `moved` is the estimated cost of what goes from step to step."""

    steps: tuple[JoinStep, ...]
    moved: float

    @property
    def last(self) -> JoinStep:
        """The step that derives the head."""
        return self.steps[-1]


def target(rule: Rule) -> tuple[Term, ...]:
    """Return the terms that the last step provides: the head's, or the group and what is aggregated."""
    if not rule.aggregations:
        return rule.head.terms
    return tuple(dict.fromkeys((*rule.group, *rule.aggregated)))


def plans_of(rule: Rule, estimates: Estimates, tasks: int) -> tuple[DistributedPlan, ...]:
    """Return plans of a rule: all of one step, and the cheapest of several steps."""
    search = _Search(rule, estimates, tasks)
    waiting = [_Partial((), frozenset(), frozenset(), 0.0, 0.0)]
    single: list[DistributedPlan] = []
    several: list[tuple[float, DistributedPlan]] = []
    while waiting:
        following: dict[frozenset[int], _Partial] = {}
        for partial in (extended for each in waiting for extended in search.extend(each)):
            if len(partial.done) < len(rule.body):
                cheapest = following.get(partial.done)
                if cheapest is None or partial.cost < cheapest.cost:
                    following[partial.done] = partial
            elif len(partial.steps) == 1:
                single.append(DistributedPlan(partial.steps, partial.moved))
            else:
                several.append((partial.cost, DistributedPlan(partial.steps, partial.moved)))
        waiting = sorted(following.values(), key=lambda partial: partial.cost)[:WIDTH]
    several.sort(key=lambda pair: pair[0])
    return (*single, *(plan for _, plan in several[:KEPT]))


@dataclass(frozen=True, slots=True)
class _Partial:
    """The first steps of a plan."""

    steps: tuple[JoinStep, ...]
    done: frozenset[int]  # the literals of the body that they join
    bound: frozenset[Variable]  # what the last of them keeps
    cost: float
    moved: float


class _Search:
    """The search for plans of one rule."""

    def __init__(self, rule: Rule, estimates: Estimates, tasks: int) -> None:
        self.body = rule.body
        self.estimates = estimates
        self.tasks = tasks
        self.variables = [frozenset(literal_variables(literal)) for literal in rule.body]
        self.target_variables = frozenset(term for term in target(rule) if isinstance(term, Variable))
        self.positive = [position for position, each in enumerate(rule.body) if isinstance(each, Atom)]
        self.is_negating = any(isinstance(each, Negation) for each in rule.body)
        self.sizes = [self._size(literal) for literal in rule.body]
        self.local = [self._local(position) for position in range(len(rule.body))]
        self._cached_matches: dict[frozenset[int], Matches] = {}

    def _size(self, literal: Literal) -> float:
        atom = next(literal_atoms(literal), None)
        return 0.0 if atom is None else self.estimates.rows(atom.predicate)

    def extend(self, partial: _Partial) -> Iterator[_Partial]:
        """Return the partial plan with one step more, in all ways that are worth trying."""
        last = partial.steps[-1].key if partial.steps else None
        for key in self._keys(partial):
            if key == last and partial.steps:
                continue
            with_key = [position for position in self._left(partial) if key in self._atom(position).terms]
            groups = (with_key, self._with_small(partial, with_key), self._left(partial))
            extensions = [
                self._step(partial, key, group) for group in dict.fromkeys(map(tuple, map(sorted, groups)))
            ]
            if self.is_negating:  # else all that is left is among the groups, with the same step
                extensions.append(self._step(partial, key, self._left(partial), is_last=True))
            yield from {each.done: each for each in extensions if each.done != partial.done}.values()
        if not partial.steps and self._is_repeatable():
            yield self._step(partial, None, self.positive, is_last=True)

    def _is_repeatable(self) -> bool:
        """Whether every task may do all the work: at most one relation is large, and it is only scanned."""
        return (
            sum(self.sizes[position] > SMALL for position in self.positive if self.variables[position]) <= 1
        )

    def _keys(self, partial: _Partial) -> Iterable[Term]:
        """Return the terms at whose owners the next step may run.

        Matches go to every task only if they are few, or if nothing that is left can be joined with them. A
        constant is a key only where one atom is read.
        """
        left = [position for position in range(len(self.body)) if position not in partial.done]
        joined = partial.bound & frozenset().union(*(self.variables[position] for position in left))
        keys = sorted(joined, key=lambda variable: variable.name)
        if keys and (partial.steps[-1].rows > SMALL or len(self.positive) > LONG):
            return keys
        terms = (term for position in self._left(partial) for term in self._atom(position).terms)
        others = [term for term in terms if isinstance(term, Variable) or len(self.positive) == 1]
        return list(dict.fromkeys((*keys, *others)))

    def _left(self, partial: _Partial) -> list[int]:
        return [position for position in self.positive if position not in partial.done]

    def _atom(self, position: int) -> Atom:
        literal = self.body[position]
        assert isinstance(literal, Atom)
        return literal

    def _with_small(self, partial: _Partial, with_key: list[int]) -> list[int]:
        """Return the atoms, and those joined to them that are cheaper to copy than the matches to send."""
        group = list(with_key)
        bound = partial.bound.union(*(self.variables[position] for position in with_key))
        rows = self._matches(partial.done.union(with_key)).rows if group or partial.done else 0.0
        for position in sorted(self._left(partial), key=self.sizes.__getitem__):
            is_joined = not self.variables[position] or self.variables[position] & bound
            if position not in group and is_joined and spread(self.sizes[position], self.tasks) <= rows:
                group.append(position)
                bound |= self.variables[position]
        return group

    def _matches(self, positions: frozenset[int]) -> Matches:
        """Estimate the matches of some literals, once."""
        if positions not in self._cached_matches:
            self._cached_matches[positions] = self.estimates.matches(
                self.body[position] for position in sorted(positions)
            )
        return self._cached_matches[positions]

    def _step(
        self, partial: _Partial, key: Term | None, group: Sequence[int], *, is_last: bool = False
    ) -> _Partial:
        """Return the partial plan with a step that joins these atoms, and applies all tests that it can."""
        reads = {position: self._read(position, key) for position in group}
        bound = partial.bound.union(*(self.variables[position] for position in group))
        rows = self._matches(partial.done.union(group)).rows
        for position, literal in enumerate(self.body):
            if position in partial.done or isinstance(literal, Atom) or not self._is_ready(position, bound):
                continue
            read = self._read(position, key)
            if not isinstance(literal, Negation) or is_last or self._is_cheap(read, position, rows):
                reads[position] = read
                bound |= self.variables[position] - self.local[position]
        return self._extended(partial, key, reads, bound)

    def _heavy(self, positions: Iterable[int], key: Term | None) -> float:
        """Return how many rows of the atoms have a heavy value in the key, all owned by one task."""
        heavy = self.estimates.sizes.heavy
        return max(
            (
                heavy.get((atom.predicate, at), 0)
                for atom in (self._atom(position) for position in self.positive if position in positions)
                for at, term in enumerate(atom.terms)
                if term == key
            ),
            default=0,
        )

    def _is_ready(self, position: int, bound: frozenset[Variable]) -> bool:
        """Whether all variables that a test, an assignment or a negation needs are bound."""
        literal = self.body[position]
        assigned = {literal.variable} if isinstance(literal, Assignment) else self.local[position]
        return self.variables[position] - assigned <= bound

    def _local(self, position: int) -> frozenset[Variable]:
        """Return the variables that occur in this negation and nowhere else."""
        if not isinstance(self.body[position], Negation):
            return frozenset()
        others = self.variables[:position] + self.variables[position + 1 :]
        return self.variables[position].difference(self.target_variables, *others)

    def _read(self, position: int, key: Term | None) -> StepRead:
        literal = self.body[position]
        atom = next(literal_atoms(literal), None)
        terms = () if atom is None else atom.terms
        return StepRead(literal, atom, tuple(at for at, term in enumerate(terms) if term == key))

    def _is_cheap(self, read: StepRead, position: int, rows: float) -> bool:
        """Whether a negated atom holds the key, or is cheaper to copy than the matches to send."""
        return bool(read.arguments) or spread(self.sizes[position], self.tasks) <= rows

    def _extended(
        self,
        partial: _Partial,
        key: Term | None,
        reads: dict[int, StepRead],
        bound: frozenset[Variable],
    ) -> _Partial:
        """Return the partial plan extended by a step of these reads, with its cost."""
        done = partial.done.union(reads)
        needed = self.target_variables.union(
            *(self.variables[position] for position in range(len(self.body)) if position not in done)
        )
        kept = tuple(sorted(bound & needed, key=lambda variable: variable.name))
        rows = self._matches(done).projected(kept)
        step = JoinStep(key, tuple(reads[position] for position in _in_order(self.body, reads)), kept, rows)
        moved = partial.moved
        if key is None:
            moved += sum(self.tasks * self.sizes[at] for at in self.positive if self.sizes[at] > SMALL)
        if partial.steps:
            previous = partial.steps[-1]
            moved += COPYING * (previous.rows if key in previous.kept else spread(previous.rows, self.tasks))
            moved += COPYING * self.tasks * self._heavy(partial.done, key)
        copied = sum(
            self.sizes[at] if read.arguments else spread(self.sizes[at], self.tasks)
            for at, read in reads.items()
        )
        cost_so_far = partial.cost - partial.moved
        return _Partial(
            (*partial.steps, step), done, bound & needed, cost_so_far + COPYING * copied + moved, moved
        )


def _in_order(body: tuple[Literal, ...], positions: Iterable[int]) -> list[int]:
    """Return the positions with those of atoms first, so that all they bind is bound before it is tested."""
    return sorted(positions, key=lambda position: (not isinstance(body[position], Atom), position))
