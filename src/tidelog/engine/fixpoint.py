"""The semi-naive fixpoint: every stratum in order, every rule instance considered once.

`derive` runs it over all facts; `Fed` is a fixpoint to which rows are added from outside as they arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter

from tidelog.engine.events import (
    Listener,
    PlanOutcome,
    RoundEnded,
    RuleRan,
    StratumClosed,
    StratumEnded,
    StratumStarted,
    ignore,
)
from tidelog.engine.protocol import Closures, EngineParts, Runnable
from tidelog.errors import Diagnostic, EvaluationError
from tidelog.logic.functions.builtins import Overflow
from tidelog.logic.program import Atom, Constant, Rule
from tidelog.logic.strata import Stratum, strata
from tidelog.logic.values import Value
from tidelog.plan.algebra import Part
from tidelog.plan.compile import aggregate_plans, collected_variables, delta_pivots, delta_plan, full_plan
from tidelog.plan.plan_cache import Freshness, PlanCache
from tidelog.rewrite.auxiliary_relations import SEPARATOR, ClosureModule, is_long, pieces, recognise
from tidelog.rewrite.renaming import with_predicates

# ---- whether a rule has anything to match
#
# Most rules of a rule set such as OWL 2 RL have constants that the facts at hand do not mention, and to plan
# a rule takes as long as to match thousands of facts.
#
# Invariant: within one stratum facts are only inserted. So a constant that occurs goes on to occur, and one
# that did not occur in the last round needs to be searched in new facts only.

ColumnValue = tuple[str, int, Value]  # a relation, a column of it, and the value to find there


class Occurrences:
    """Which constants were found in facts, while a stratum is derived. Mutable."""

    def __init__(self, engine: EngineParts) -> None:
        self._engine = engine
        self._round = 0
        self._present: set[ColumnValue] = set()
        self._absent: dict[ColumnValue, int] = {}  # and the last round in which they did not occur
        self._new: dict[ColumnValue, bool] = {}

    def advance(self) -> None:
        """Begin the next round."""
        self._round += 1
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

    def _occurs(self, sought: ColumnValue) -> bool:
        if sought in self._present:
            return True
        absent = self._absent.get(sought)
        if absent == self._round:
            return False
        was_absent = absent is not None and absent == self._round - 1
        occurs = self._is_new(sought) if was_absent else self._search(sought, Part.ALL)
        if occurs:
            self._present.add(sought)
        else:
            self._absent[sought] = self._round
        return occurs

    def _is_new(self, sought: ColumnValue) -> bool:
        is_new = self._new.get(sought)
        if is_new is None:
            is_new = self._new[sought] = self._search(sought, Part.NEW)
        return is_new

    def _search(self, sought: ColumnValue, part: Part) -> bool:
        relation, column, value = sought
        return self._engine.rounds.occurs(relation, column, value, part)


def _constants(atom: Atom) -> Iterable[ColumnValue]:
    return (
        (atom.predicate, column, term.value)
        for column, term in enumerate(atom.terms)
        if isinstance(term, Constant)
    )


# ---- the semi-naive fixpoint
#
# Where rules do nothing but close a predicate and the engine has a structure for that, the structure replaces
# these rules.
#
# Invariant: after `materialise`, the engine holds the least model of the rules over the loaded facts.

FRESHNESS = Freshness(grown=4, small=1000, from_empty=False)
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
    """Yield the stratum as it is derived, with the numbers of its rules: long recursive ones are in pieces.

    A rule has a plan for each of its recursive atoms. The relations of pieces are dropped after the block.
    """
    long = {id(rule) for rule in stratum.rules if is_long(len(delta_pivots(rule, stratum.predicates)))}
    if not long:
        yield stratum, numbers
        return
    derived_rules: dict[Rule, int] = {}
    added: dict[str, int] = {}  # relations and how many columns they have
    names: dict[str, str] = {}
    for rule in stratum.rules:
        parts = pieces(rule) if id(rule) in long else (rule,)
        for part in parts[:-1]:
            # Not those that maintenance may have made of the same pieces.
            names[part.head.predicate] = name = part.head.predicate.replace(SEPARATOR, IN_DERIVATION)
            added[name] = len(part.head.terms)
        derived_rules.update({with_predicates(part, names): numbers[id(rule)] for part in parts})
    for relation, arity in added.items():
        engine.storage.define(relation, arity)
    try:
        whole = Stratum((*stratum.predicates, *added), tuple(derived_rules), stratum.recursive)
        yield whole, {id(part): number for part, number in derived_rules.items()}
    finally:
        for relation in added:
            engine.storage.drop(relation)


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
        self.occurrences = Occurrences(engine)

    def close(self, closures: Closures | None) -> int:
        """Derive all facts of the stratum; return the number of rounds."""
        self.engine.rounds.begin(self.stratum.predicates)
        module = recognise(self.stratum) if closures is not None else None
        if closures is not None and module is not None:
            if self._close_by(module, closures):
                return 1
        else:
            self._run_first(self.stratum.rules)
        return self._repeat(self._advance(1))

    def _close_by(self, module: ClosureModule, closures: Closures) -> bool:
        """Whether a structure closes the predicate; else all rules have run once."""
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
                self._advance(1)
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
        for rule in rules:
            if self.occurrences.may_match(rule.positive):
                self._run(first_step(rule, self.numbers[id(rule)], self.engine), 1)

    def _repeat(self, new: int) -> int:
        """Run recursive rules until nothing is new; return the number of rounds."""
        count = 1
        if not self.stratum.recursive:
            return count
        steps = _delta_steps(self.stratum, self.numbers, self.engine)
        sizes = dict.fromkeys(self.stratum.predicates, 0)
        while new:
            count += 1
            before, sizes = sizes, {name: self.engine.storage.size(name) for name in self.stratum.predicates}
            grown = {name for name, size in sizes.items() if size > before[name]}
            for step in steps:
                if step.pivot.predicate in grown and step.has_work(self.occurrences):
                    self._run(step.ready(sizes), count)
            new = self._advance(count)
        return count

    def _advance(self, count: int) -> int:
        """End a round; return how many facts are new."""
        new = self.engine.rounds.advance(self.stratum.predicates)
        self.occurrences.advance()
        self.listen(RoundEnded(self.position, count, new))
        return new

    def _run(self, step: Step, count: int) -> None:
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


def run_plan(rule: Rule, runnable: Runnable) -> PlanOutcome:
    """Run a plan of a rule; raise EvaluationError, at the rule, where arithmetic leaves 64 bits."""
    try:
        return runnable()
    except Overflow as overflow:
        raise EvaluationError(Diagnostic(overflow.code, str(overflow), rule.span)) from None


def first_step(rule: Rule, number: int, engine: EngineParts) -> Step:
    """Return the plan of a rule over all facts."""
    if rule.aggregations:
        return rule, number, _aggregating(rule, number, engine)
    return rule, number, engine.plans.prepare(full_plan(rule, number, engine.storage))


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
    """A rule, driven by what the last round added to one predicate; planned when that first is not empty.

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
        self._plans: PlanCache[None, Runnable] = PlanCache(FRESHNESS)

    def has_work(self, occurrences: Occurrences) -> bool:
        """Return whether the rule may match new facts; a prepared plan finds out as fast by itself."""
        if None in self._plans:
            return True
        return occurrences.has_new(self.pivot) and occurrences.may_match(self.rule.positive)

    def ready(self, sizes: Mapping[str, int]) -> Step:
        """Return the step with a plan that fits the sizes of the stratum's predicates."""
        return self.rule, self.number, self._plans.get(None, self._own, sizes.__getitem__, self._plan)

    def _plan(self) -> Runnable:
        plan = delta_plan(self.rule, self.number, self.recursive, self.position, self.engine.storage)
        return self.engine.plans.prepare(plan)


def _count_atoms(rule: Rule, position: int) -> int:
    """Return how many atoms the body has before a position."""
    return sum(isinstance(literal, Atom) for literal in rule.body[:position])


def _delta_steps(stratum: Stratum, numbers: dict[int, int], engine: EngineParts) -> list[DeltaStep]:
    """Return the rules of a stratum as steps over what the last round added."""
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
# Invariant: after `close`, everything is derived that the rows which have arrived imply.


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
        self._occurrences = Occurrences(engine)
        names = frozenset(relations)
        self._steps: dict[str, list[DeltaStep]] = {}  # by the relation whose new rows drive them
        for rule, number in self._rules:
            for position in delta_pivots(rule, names):
                step = DeltaStep(rule, number, names, position, engine)
                self._steps.setdefault(step.pivot.predicate, []).append(step)
        self._seen = dict.fromkeys(self._relations, 0)  # the rows of each relation that rules have read

    def begin(self) -> None:
        """Derive all that follows from the given facts, stratum by stratum, as if nothing were to arrive.

        Rules that read a gate match nothing yet.
        """
        numbered = [*self._rules, *self._aggregates]
        numbers = {id(rule): number for rule, number in numbered}
        in_order = strata([rule for rule, _ in numbered])
        self._engine.rounds.begin(self._relations)
        materialise(in_order, numbers, self._engine, ignore, self._check)
        self._engine.rounds.begin(self._relations)
        self._seen = self._sizes()

    def close(self) -> None:
        """Derive all that follows from the rows that were added to relations since the last time."""
        while True:
            sizes = self._sizes()
            grown = [name for name, size in sizes.items() if size > self._seen[name]]
            if not grown:
                return
            self._engine.rounds.advance(self._relations)
            self._occurrences.advance()
            self._seen = sizes
            for rule, number in self._aggregates:
                if any(atom.predicate in grown for atom in rule.positive if not atom.terms):
                    self._run(first_step(rule, number, self._engine))
            for step in (step for name in grown for step in self._steps.get(name, ())):
                if step.has_work(self._occurrences):
                    self._run(step.ready(sizes))

    def _run(self, step: Step) -> None:
        rule, _, runnable = step
        run_plan(rule, runnable)
        self._check()

    def _sizes(self) -> dict[str, int]:
        return {name: self._engine.storage.size(name) for name in self._relations}
