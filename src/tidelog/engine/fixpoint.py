"""The semi-naive fixpoint: every stratum in order, every rule instance considered once.

`derive` runs it over all facts; `Fed` is a fixpoint to which rows are added from outside as they arrive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter

from tidelog.engine.events import (
    Listener,
    PlanOutcome,
    RoundEnded,
    RoundsRan,
    RuleRan,
    StratumClosed,
    StratumEnded,
    StratumStarted,
    ignore,
    tell,
)
from tidelog.engine.protocol import Closures, EngineParts, ManyRounds, Runnable, Watched
from tidelog.errors import Diagnostic, EvaluationError
from tidelog.logic.functions.builtins import Overflow
from tidelog.logic.program import Atom, Constant, Rule
from tidelog.logic.strata import Stratum, strata
from tidelog.logic.values import Value
from tidelog.plan.algebra import Part
from tidelog.plan.compile import aggregate_plans, collected_variables, delta_pivots, delta_plan, full_plan
from tidelog.plan.join_order import Freshness, PlannedSizes
from tidelog.rewrite.auxiliary_relations import SEPARATOR, ClosureModule, is_long, pieces, recognise
from tidelog.rewrite.renaming import with_predicates

# ---- whether a rule can match
#
# Most rules of a rule set such as OWL 2 RL have constants that the present facts do not mention, and to plan
# a rule takes as long as to match thousands of facts.
#
# Invariant: within one stratum facts are only inserted. So a constant that occurs goes on to occur, and one
# that did not occur needs to be searched in the facts that have come since.

ColumnValue = tuple[str, int, Value]  # a relation, a column of it, and the value to find there


class Occurrences:
    """Which constants were found in facts, while a stratum is derived. Mutable."""

    def __init__(self, engine: EngineParts) -> None:
        self._engine = engine
        self._present: set[ColumnValue] = set()
        self._absent: dict[ColumnValue, int] = {}  # and how many facts have been searched
        self._new: dict[ColumnValue, bool] = {}

    def advance(self) -> None:
        """Begin the next round."""
        self._new.clear()

    def may_match(self, atoms: Iterable[Atom]) -> bool:
        """Whether each atom's relation has facts, and its constants occur in them."""
        return all(
            self._engine.storage.size(atom.predicate) > 0 and all(map(self._occurs, _constants(atom)))
            for atom in atoms
        )

    def has_new(self, atom: Atom) -> bool:
        """Whether the atom's constants occur in the facts that the last round added."""
        return all(map(self._is_new, _constants(atom)))

    def awaited(self, atoms: Iterable[Atom], pivot: Atom) -> Watched:
        """Return what must become new, among other things, before the atoms match new facts of the pivot."""
        for atom in atoms:
            if not self._engine.storage.size(atom.predicate):
                return atom.predicate, -1, None
            for sought in _constants(atom):
                if sought in self._absent and not self._occurs(sought):
                    return sought
        # Of several constants one that is not new now; in triples, objects are rarer than predicates.
        pivotal = list(_constants(pivot))[::-1]
        rare = (sought for sought in pivotal if not self._is_new(sought))
        return next(rare, pivotal[0] if pivotal else (pivot.predicate, -1, None))

    def _occurs(self, sought: ColumnValue) -> bool:
        if sought in self._present:
            return True
        visible = self._engine.rounds.visible(sought[0], Part.ALL)
        rows = visible[self._absent.get(sought, 0) :]
        if rows and self._engine.rounds.occurs(*sought, rows):
            self._present.add(sought)
            return True
        self._absent[sought] = len(visible)
        return False

    def _is_new(self, sought: ColumnValue) -> bool:
        is_new = self._new.get(sought)
        if is_new is None:
            rows = self._engine.rounds.visible(sought[0], Part.NEW)
            is_new = self._new[sought] = self._engine.rounds.occurs(*sought, rows)
        return is_new


def _constants(atom: Atom) -> Iterable[ColumnValue]:
    return (
        (atom.predicate, column, term.value)
        for column, term in enumerate(atom.terms)
        if isinstance(term, Constant)
    )


# ---- the semi-naive fixpoint
#
# If rules only close a predicate and the engine has a structure for that, the structure replaces
# these rules.
#
# Invariant: after `materialise`, the engine holds the least model of the rules over the loaded facts.

FRESHNESS = Freshness(grown=4, small=1000, from_empty=False)
MANY = 1 << 13  # new facts of a round that is run plan by plan, each perhaps by several threads
FEW_ROUNDS = 4  # that cost as much plan by plan as in one call
MOST_PATIENCE = 16
ENDLESS = 1 << 60
IN_DERIVATION = " ~"  # in the names of relations that are dropped when a stratum is derived

Step = tuple[Rule, int, Runnable]  # a rule, its number, one of its plans


def materialise(
    strata: Sequence[Stratum],
    numbers: dict[int, int],
    engine: EngineParts,
    listen: Listener,
    check: Callable[[], None],
    closures: Closures | None = None,
) -> None:
    """Derive all facts; `numbers` has the position of each rule (by identity) in the program.

    `check` is called after every plan, and raises to stop. `closures`, if not None, close predicates by
    structures.
    """
    for position, stratum in enumerate(strata):
        _derive_stratum(position, len(strata), stratum, numbers, engine, listen, check, closures)


def derive(
    engine: EngineParts,
    strata: Sequence[Stratum],
    numbers: dict[int, int],
    listen: Listener,
    check: Callable[[], None],
    modules: bool,
) -> None:
    """Derive all that follows from the facts of an engine, closures by structures if `modules`.

    `numbers` has the position of each rule (by identity) in the program; `check` raises to stop.
    """
    engine.rounds.begin(engine.storage.relations())
    materialise(strata, numbers, engine, listen, check, engine.closures if modules else None)


def _derive_stratum(
    position: int,
    count: int,
    stratum: Stratum,
    numbers: dict[int, int],
    engine: EngineParts,
    listen: Listener,
    check: Callable[[], None],
    closures: Closures | None = None,
) -> None:
    """Derive all facts of one stratum; `position` is its position among `count` strata."""
    listen(StratumStarted(position, count, stratum.predicates, stratum.recursive))
    start = perf_counter()
    with _in_pieces(stratum, numbers, engine) as (parts, part_numbers):
        rounds = _Stratum(position, parts, part_numbers, engine, listen, check).close(closures)
    listen(StratumEnded(position, rounds, perf_counter() - start))


@contextmanager
def _in_pieces(
    stratum: Stratum, numbers: dict[int, int], engine: EngineParts
) -> Iterator[tuple[Stratum, dict[int, int]]]:
    """Yield the stratum and the numbers of its rules, with long recursive rules split into pieces.

    A rule has a plan for each of its recursive atoms. The relations of pieces are dropped after the block.
    """
    long = {id(rule) for rule in stratum.rules if is_long(len(delta_pivots(rule, stratum.predicates)))}
    if not long:
        yield stratum, numbers
        return
    derived_rules: dict[Rule, int] = {}
    added: dict[str, int] = {}  # the arities of relations
    names: dict[str, str] = {}
    for rule in stratum.rules:
        rule_pieces = pieces(rule) if id(rule) in long else (rule,)
        for piece in rule_pieces[:-1]:
            # Not the relations that maintenance may have created for the same pieces.
            names[piece.head.predicate] = name = piece.head.predicate.replace(SEPARATOR, IN_DERIVATION)
            added[name] = len(piece.head.terms)
        derived_rules.update({with_predicates(piece, names): numbers[id(rule)] for piece in rule_pieces})
    for relation, arity in added.items():
        engine.storage.define(relation, arity)
    try:
        whole = Stratum((*stratum.predicates, *added), tuple(derived_rules), stratum.recursive)
        yield whole, {id(piece): number for piece, number in derived_rules.items()}
    finally:
        for relation in added:
            engine.storage.drop(relation)


class _Rounds:
    """Rounds of rules over relations, and reports of what they do. Mutable."""

    def __init__(
        self,
        position: int,
        relations: Collection[str],
        engine: EngineParts,
        listen: Listener,
        check: Callable[[], None],
    ) -> None:
        self.position = position
        self.relations = relations
        self.engine = engine
        self.listen = listen
        self.check = check
        self.occurrences = Occurrences(engine)
        self._group = engine.rounds.group(relations)
        self._patience = FEW_ROUNDS  # rounds to run plan by plan before many are tried in one call

    def run(self, step: Step, count: int) -> None:
        """Run a plan, and report what it did."""
        rule, number, runnable = step
        start = perf_counter()
        outcome = run_plan(rule, runnable)
        if outcome.matches or outcome.new or outcome.no_value:
            seconds = perf_counter() - start
            self.listen(
                RuleRan(self.position, count, number, outcome.matches, outcome.new, outcome.no_value, seconds)
            )
        self.check()

    def advance(self, count: int) -> Mapping[str, int]:
        """End a round; return how many facts are new, by relation."""
        new = self.engine.rounds.advance(self.relations)
        self.occurrences.advance()
        self.listen(RoundEnded(self.position, count, sum(new.values())))
        return new

    def close(self, steps: Sequence[DeltaStep], new: Mapping[str, int], count: int) -> int:
        """Run rounds after round `count` until nothing is new; return the number of the last.

        As long as there is nothing to plan and little is new, many rounds are run in one call.
        """
        waiting = self._patience
        while new:
            if waiting <= 0 and sum(new.values()) < MANY:
                ended = self._run_many(steps, count + 1)
                count += ended
                is_worth = ended >= FEW_ROUNDS
                self._patience = waiting = 1 if is_worth else min(2 * self._patience, MOST_PATIENCE)
                new = self.engine.rounds.new_in(self._group)
                if not new:
                    break
            count += 1
            waiting = self._patience if self._run_round(steps, new, count) else waiting - 1
            new = self.advance(count)
        return count

    def _run_round(self, steps: Sequence[DeltaStep], new: Mapping[str, int], count: int) -> bool:
        """Run the steps that have work, plan by plan; return whether a plan was made."""
        sizes, is_planned = self._sizes(), False
        for step in steps:
            if step.pivot.predicate in new and step.has_work(self.occurrences):
                is_planned |= not step.is_fresh(sizes)
                self.run(step.ready(sizes), count)
        return is_planned

    def _run_many(self, steps: Sequence[DeltaStep], first: int) -> int:
        """Run rounds of the plans that fit, until another is needed or much is new; return how many ended."""
        sizes = self._sizes()
        fresh = [step for step in steps if step.is_fresh(sizes)]
        limits = dict.fromkeys(sizes, ENDLESS)
        for step in fresh:
            for name, limit in step.limits.items():
                limits[name] = min(limits[name], limit)
        waited = {
            self.occurrences.awaited(step.rule.positive, step.pivot)
            for step in steps
            if not step.is_fresh(sizes)
        }
        rounds = ManyRounds(
            self.position,
            [step.ready(sizes)[2] for step in fresh],
            [step.number for step in fresh],
            [limits[name] for name in sizes],
            {each for each in waited if each[0] in sizes},  # others do not change
            MANY,
        )
        ended = self.engine.plans.run_rounds(self._group, rounds, first, self._report)
        self.occurrences.advance()
        return ended or 0

    def _report(self, ran: RoundsRan) -> None:
        if len(ran.runs) or len(ran.new):
            tell(self.listen, ran)
        self.check()

    def _sizes(self) -> dict[str, int]:
        """Return the size of each relation."""
        return dict(zip(self.relations, self.engine.rounds.sizes(self._group).tolist(), strict=True))


class _Stratum:
    """A stratum that is being derived."""

    def __init__(
        self,
        position: int,
        stratum: Stratum,
        numbers: dict[int, int],
        engine: EngineParts,
        listen: Listener,
        check: Callable[[], None],
    ) -> None:
        self.position = position
        self.stratum = stratum
        self.numbers = numbers
        self.engine = engine
        self.listen = listen
        self.check = check
        self.rounds = _Rounds(position, stratum.predicates, engine, listen, check)

    def close(self, closures: Closures | None) -> int:
        """Derive all facts of the stratum; return the number of rounds."""
        self.engine.rounds.begin(self.stratum.predicates)
        module = recognise(self.stratum) if closures is not None else None
        if closures is not None and module is not None:
            if self._close_by(module, closures):
                return 1
        else:
            self._run_first(self.stratum.rules)
        new = self.rounds.advance(1)
        if not self.stratum.recursive:
            return 1
        return self.rounds.close(_delta_steps(self.stratum, self.numbers, self.engine), new, 1)

    def _close_by(self, module: ClosureModule, closures: Closures) -> bool:
        """Whether a structure closes the predicate; otherwise all rules have run once."""
        is_explicit = self.engine.storage.size(module.predicate) > 0
        given = module.copied
        if is_explicit or given is None:
            given = module.predicate
            self._run_first(module.external_rules)
        if not (module.is_linear and is_explicit):
            start = perf_counter()
            new = closures.build(module, given)
            if new is not None:
                self._report_closed(module, given, new, perf_counter() - start)
                self.rounds.advance(1)
                self.check()
                return True
        if given != module.predicate:
            self._run_first(module.external_rules)
        self._run_first(module.owned_rules)
        return False

    def _report_closed(self, module: ClosureModule, given: str, new: int, seconds: float) -> None:
        """Report the facts of a structure as if the first external and owned rules had derived them."""
        external = self.engine.storage.size(given) if given != module.predicate else 0
        self.listen(StratumClosed(self.position, module.kind.value))
        for rules, count, share in (
            (module.external_rules, external, 0.0),
            (module.owned_rules, new - external, seconds),
        ):
            if count or share:
                self.listen(RuleRan(self.position, 1, self.numbers[id(rules[0])], count, count, 0, share))

    def _run_first(self, rules: Sequence[Rule]) -> None:
        """Run rules over all facts."""
        heads = Counter(rule.head.predicate for rule in self.stratum.rules)
        for rule in rules:
            if self.rounds.occurrences.may_match(rule.positive):
                is_only = not self.stratum.recursive and heads[rule.head.predicate] == 1
                self.rounds.run(first_step(rule, self.numbers[id(rule)], self.engine, is_only), 1)


def run_plan(rule: Rule, runnable: Runnable) -> PlanOutcome:
    """Run a plan of a rule; raise EvaluationError, at the rule, where arithmetic leaves 64 bits."""
    try:
        return runnable()
    except Overflow as overflow:
        raise EvaluationError(Diagnostic(overflow.code, str(overflow), rule.span)) from None


def first_step(rule: Rule, number: int, engine: EngineParts, is_only: bool = False) -> Step:
    """Return the plan of a rule over all facts; `is_only` if no other plan adds facts to its relation."""
    if rule.aggregations:
        return rule, number, _aggregating(rule, number, engine)
    plan = replace(full_plan(rule, number, engine.storage), is_only=is_only)
    return rule, number, engine.plans.prepare(plan)


def _aggregating(rule: Rule, number: int, engine: EngineParts) -> Runnable:
    """Return a function that runs the two plans of an aggregate rule, and drops the collected rows."""
    collected = f"{rule.head.predicate} #{number}"  # a name with a space is no predicate's

    def run() -> PlanOutcome:
        engine.storage.define(collected, len(collected_variables(rule)))
        try:
            collect, group = aggregate_plans(rule, number, collected, engine.storage)
            gathered = engine.plans.prepare(collect)()
            engine.rounds.begin([collected])
            grouped = engine.plans.prepare(group)()
        finally:
            engine.storage.drop(collected)
        return PlanOutcome(gathered.matches, grouped.new, gathered.no_value + grouped.no_value)

    return run


class DeltaStep:
    """A rule driven by facts that the last round added to one predicate; planned when there first are any.

    Many rules of a large stratum never run, and planning one takes as long as matching thousands of facts.
    """

    def __init__(
        self, rule: Rule, number: int, recursive: Collection[str], position: int, engine: EngineParts
    ) -> None:
        self.rule = rule
        self.number = number
        self.recursive = recursive
        self.position = position
        self.engine = engine
        self.pivot = rule.positive[_count_atoms(rule, position)]
        self._own = {atom.predicate for atom in rule.positive if atom.predicate in recursive}
        self._planned = PlannedSizes(FRESHNESS)
        self._plan: Runnable | None = None

    def has_work(self, occurrences: Occurrences) -> bool:
        """Return whether the rule may match new facts; a prepared plan finds out as fast by itself."""
        if self._plan is not None:
            return True
        return occurrences.has_new(self.pivot) and occurrences.may_match(self.rule.positive)

    def is_fresh(self, sizes: Mapping[str, int]) -> bool:
        """Return whether there is a plan that fits the sizes of the stratum's predicates."""
        return self._plan is not None and not self._planned.stale(sizes.__getitem__)

    @property
    def limits(self) -> Mapping[str, int]:
        """The sizes of predicates up to which the plan fits."""
        return self._planned.limits

    def ready(self, sizes: Mapping[str, int]) -> Step:
        """Return the step with a plan that fits the sizes of the stratum's predicates."""
        plan = self._plan
        if plan is None or not self.is_fresh(sizes):
            self._planned.note(self._own, sizes.__getitem__)
            rule_plan = delta_plan(self.rule, self.number, self.recursive, self.position, self.engine.storage)
            plan = self._plan = self.engine.plans.prepare(rule_plan)
        return self.rule, self.number, plan


def _count_atoms(rule: Rule, position: int) -> int:
    """Return how many atoms the body has before a position."""
    return sum(isinstance(literal, Atom) for literal in rule.body[:position])


def _delta_steps(stratum: Stratum, numbers: dict[int, int], engine: EngineParts) -> list[DeltaStep]:
    """Return the rules of a stratum as steps over facts of the last round."""
    return [
        DeltaStep(rule, numbers[id(rule)], stratum.predicates, position, engine)
        for rule in stratum.rules
        for position in delta_pivots(rule, stratum.predicates)
    ]


# ---- a fixpoint fed from outside, as rows arrive
#
# All relations count as one recursive stratum, so that rows which arrive are NEW rows of the next round,
# whichever rules derive them. A rule that negates or aggregates reads a gate, a relation without columns: its
# fact arrives when all else that the rule reads is complete.
#
# Invariant: after `close`, all consequences of the received rows are derived.


class Fed:
    """The rules of a program over an engine whose relations hold the given facts. Mutable."""

    def __init__(
        self, rules: Sequence[Rule], relations: Sequence[str], engine: EngineParts, check: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._check = check
        self._relations = tuple(relations)
        self._rules = [(rule, number) for number, rule in enumerate(rules) if not rule.aggregations]
        self._aggregates = [(rule, number) for number, rule in enumerate(rules) if rule.aggregations]
        self._rounds = _Rounds(0, self._relations, engine, ignore, check)
        names = frozenset(relations)
        self._steps = [
            DeltaStep(rule, number, names, position, engine)
            for rule, number in self._rules
            for position in delta_pivots(rule, names)
        ]

    def begin(self) -> None:
        """Derive all consequences of the given facts, stratum by stratum, as if no rows were to arrive.

        Rules that read a gate have no matches yet.
        """
        numbered = [*self._rules, *self._aggregates]
        numbers = {id(rule): number for rule, number in numbered}
        in_order = strata([rule for rule, _ in numbered])
        self._engine.rounds.begin(self._relations)
        materialise(in_order, numbers, self._engine, ignore, self._check)
        self._engine.rounds.begin(self._relations)

    def close(self) -> None:
        """Derive all that follows from the rows that were added to relations since the last time."""
        new = self._rounds.advance(0)
        for rule, number in self._aggregates:
            if any(atom.predicate in new for atom in rule.positive if not atom.terms):
                self._rounds.run(first_step(rule, number, self._engine), 1)
        self._rounds.close(self._steps, new, 0)
