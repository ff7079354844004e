"""The maintainers by name, and the choice of one for each update by the instances that it may touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tidelog.engine.events import Listener, MaintainerChosen, MarkingDecided
from tidelog.engine.flags import CounterKind
from tidelog.engine.interrupts import made_once
from tidelog.engine.protocol import EngineParts
from tidelog.errors import Diagnostic, ProgramError, suggest
from tidelog.errors.codes import UNKNOWN_MAINTAINER, UNKNOWN_MARKING
from tidelog.logic.program import Program, Rule, Variable
from tidelog.maintenance import DEFAULT, DEFAULT_MARKING, NO_MARKING, keeps_closures
from tidelog.maintenance.backward_forward import BackwardForward
from tidelog.maintenance.counting import (
    CountingBackwardForward,
    CountingDeleteAndRederive,
    ForwardBackwardForward,
    RankCounting,
)
from tidelog.maintenance.dred import DeleteAndRederive
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.fp_update import FixpointUpdate
from tidelog.maintenance.maintainer import (
    Check,
    Factory,
    LookAhead,
    Maintainer,
    NetChange,
    Peek,
    Update,
    no_stream,
)
from tidelog.maintenance.marking import (
    MANY,
    MARKED,
    NO_RULES,
    WORTH_WHILE,
    Decision,
    Marking,
    Reading,
    removed_facts,
)
from tidelog.maintenance.marking import MARKINGS as WAYS_OF_MARKING
from tidelog.maintenance.recompute import Recompute
from tidelog.maintenance.schedule import Schedule
from tidelog.maintenance.task import Algorithm, ScheduledStratum
from tidelog.plan.join_order import Statistics, growth
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import SEPARATOR

# ---- the expected cost of an update
#
# The part of each relation that changes is passed on to the strata that read it, as if facts were spread
# evenly. How many instances a rule has is known where they were counted, else estimated from the sizes of
# what it reads. A stratum that a structure maintains has no instances: its pairs are counted instead.

COST_OF_RANKS = 1.6  # the cost of an instance in rank counting, relative to recomputation
COUNTING = 0.1  # the cost of counting an instance, shared by the updates expected to profit from it
LITTLE = 1e-6  # a share so small that the prediction is linear up to it

Instances = Callable[[Rule], int]


@dataclass(frozen=True, slots=True)
class Prediction:
    """How many instances an update is expected to touch, out of how many in the strata that it may change.

    `counted` is how many would have to be counted if none were.
    """

    touched: float
    total: int
    counted: int
    most: str = ""  # a predicate of the stratum in which most are touched
    strata: int = 0  # those that may change

    @property
    def share(self) -> float:
        """The part of the instances that is touched."""
        return self.touched / self.total if self.total else 0.0

    def is_expensive(self, is_counted: bool) -> bool:
        """Whether rank counting would cost more than recomputation."""
        counting = 0.0 if is_counted else COUNTING * self.counted
        return COST_OF_RANKS * self.touched + counting > self.total

    def __str__(self) -> str:
        where = f", most of {self.most}" if self.most else ""
        return f"about {self.share:.1%} of the instances concerned are touched{where}"


@dataclass(frozen=True, slots=True)
class Weight:
    """The cost of a stratum: its instances by the predicates that they read, and its rounds.

    Structures and aggregates have no counted instances: the facts of `measured` are counted instead.
    """

    predicates: tuple[str, ...]
    instances: tuple[tuple[tuple[str, ...], int], ...]
    read: frozenset[str]
    counted: int
    rounds: int
    measured: tuple[str, ...] = ()

    @property
    def is_recursive(self) -> bool:
        """Whether instances read the stratum itself."""
        return not self.read.isdisjoint(self.predicates)

    def total(self, engine: EngineParts) -> int:
        """Return the number of instances, or of facts of `measured`.

        After a recomputation auxiliary relations are missing until a maintainer creates them again.
        """
        if self.counted:
            return self.counted
        existing = engine.storage.relations()
        return max((engine.storage.size(name) for name in self.measured if name in existing), default=0)


def weigh(schedule: Schedule, engine: EngineParts, instances_of: Instances) -> tuple[Weight, ...]:
    """Return the weights of all strata, in their order."""
    return tuple(_weight(section, engine, instances_of) for section in schedule.sections)


def estimated_instances(rule: Rule, statistics: Statistics) -> int:
    """Estimate how many instances a rule has, if values are spread evenly over the facts that it reads."""
    bound: set[Variable] = set()
    rows = 1.0
    for atom in rule.positive:
        new = {term for term in atom.terms if isinstance(term, Variable)} - bound
        cost = 1 if new else 2  # `growth` makes tests cheaper than they are
        rows *= growth(atom, bound, statistics)[0] * cost
        bound |= new
    return int(rows)


def _weight(section: ScheduledStratum, engine: EngineParts, instances_of: Instances) -> Weight:
    if section.closure is not None:
        read = (section.closure.source, *section.predicates)
        return Weight(section.predicates, ((read, 0),), frozenset(read), 0, 1, section.predicates)
    instances = tuple((_read(rule), instances_of(rule)) for rule in section.before)
    total = sum(count for _, count in instances)
    names = frozenset(name for names, _ in instances for name in names)
    return Weight(
        section.predicates,
        instances,
        names,
        total,
        engine.counters.rounds_of(section.predicates),
        tuple(names),
    )


def _read(rule: Rule) -> tuple[str, ...]:
    return tuple(atom.predicate for atom in (*rule.positive, *rule.negated))


def predict(
    shares: Mapping[str, float], added: int, weights: tuple[Weight, ...], engine: EngineParts
) -> Prediction:
    """Predict how many instances an update touches if changes are spread evenly over each relation."""
    unchanged = {name: 1 - share for name, share in shares.items()}
    touched, total, counted, strata = 0.0, 0, 0, 0
    most_touched, where = 0.0, ""
    for weight in weights:
        counted += weight.counted
        if unchanged.keys().isdisjoint(weight.read):
            continue
        # An empty stratum is expected to become as large as what is added.
        share, stratum_total = _share(weight, unchanged), weight.total(engine) or added
        touched += share * stratum_total
        total += stratum_total
        strata += 1
        if share * stratum_total > most_touched:
            most_touched, where = share * stratum_total, weight.predicates[0].partition(SEPARATOR)[0]
        for predicate in weight.predicates:
            unchanged[predicate] = min(1 - share, unchanged.get(predicate, 1.0))
    return Prediction(touched, total, counted, where, strata)


class Slopes:
    """How fast the prediction grows with the share of each relation that changes. Mutable.

    Predicting costs as much as applying fifty facts. The prediction is concave in the shares, so that its
    slope at zero, times the share, is an upper bound: where that is small, no prediction is needed.
    """

    def __init__(self, weights: tuple[Weight, ...], engine: EngineParts) -> None:
        self.weights = weights
        self._engine = engine
        self._of_relation: dict[str, Prediction] = {}  # the prediction for a small change of one relation

    def at_most(self, shares: Mapping[str, float]) -> Prediction:
        """Return an upper bound of the touched instances, and a lower bound of all instances concerned."""
        touched, most_touched, total, counted, where = 0.0, 0.0, 0, 0, ""
        for name, share in shares.items():
            prediction = self._of(name)
            bound = prediction.touched * share / LITTLE
            touched += bound
            if bound >= most_touched:
                most_touched, where = bound, prediction.most
            total, counted = max(total, prediction.total), prediction.counted
        return Prediction(touched, total, counted, where)

    def _of(self, name: str) -> Prediction:
        if name not in self._of_relation:
            self._of_relation[name] = predict({name: LITTLE}, 0, self.weights, self._engine)
        return self._of_relation[name]


def _share(weight: Weight, unchanged: Mapping[str, float]) -> float:
    """Return the share of a stratum's instances that changes, given the unchanged share of each relation."""
    changed, most = 0.0, 0.0
    for predicates, count in weight.instances:
        unchanged_share = 1.0
        for predicate in predicates:
            unchanged_share *= unchanged.get(predicate, 1.0)
        changed += (1 - unchanged_share) * count
        most = max(most, 1 - unchanged_share)
    share = changed / weight.counted if weight.counted else most
    return float(1 - (1 - share) ** weight.rounds)


def shares_of(update: Update, statistics: Statistics) -> dict[str, float]:
    """Return the part of each relation that is explicitly removed or added."""
    shares = {
        name: min(1.0, rows.count / max(statistics.size(name), 1)) for name, rows in update.removed.items()
    }
    for name, rows in update.added.items():
        share = rows.count / (statistics.size(name) + rows.count)
        shares[name] = min(1.0, shares.get(name, 0.0) + share)
    return shares


# ---- the incremental algorithms by name

ALL: tuple[Algorithm, ...] = (
    DeleteAndRederive(),
    FixpointUpdate(),
    BackwardForward(),
    CountingDeleteAndRederive(),
    CountingBackwardForward(),
    ForwardBackwardForward(),
    RankCounting(),
)
ALGORITHMS = {algorithm.name: algorithm for algorithm in ALL}


# ---- updates without counters
#
# `auto` does so in streams while instances are not counted, as long as that is cheaper than counting them.
# According to measurements (docs/decisions/0049), a stratum is maintained by:
#
# - Delete and rederive: recursion whose facts have few instances each. Most of what it overdeletes stays
#   deleted, and links make it overdelete less.
# - Backward/forward: all others. Where facts have many instances, one that is left is found soon.
#
# Links are recorded in large recursive strata: facts that are supported by other facts than those to delete
# need not be suspected. To begin costs something for every fact, so the next update must be known to profit.

FEW_PROOFS = 4.0  # instances for each fact up to which recursion is deleted and rederived
MANY_PROOFS = 16.0  # from which most facts are supported by other facts than those to delete

DELETING, SEARCHING = ALGORITHMS["dred"], ALGORITHMS["backward-forward"]

NONE: frozenset[str] = frozenset()
NOTHING_COMES = Decision(NONE, "no next update is known that links would help")
NOTHING_GOES = Decision(NONE, "nothing is deleted in this update or the next")
NO_LARGE_RECURSION = Decision(NONE, "no large recursive stratum gains by links")


class StratumAdvisor:
    """Chooses an algorithm for each stratum, and whether its facts are linked. Mutable."""

    passes_all = False

    def __init__(self, engine: EngineParts) -> None:
        self._engine = engine
        self._reading: Reading | None = None
        self._weighed: dict[int, float] = {}  # instances for each fact, by stratum

    def algorithm_of(self, section: ScheduledStratum, reading: Reading) -> Algorithm:
        """Return the algorithm for a stratum, without marks."""
        is_sparse = section in reading.recursive and self._proofs(section, reading) <= FEW_PROOFS
        return DELETING if is_sparse else SEARCHING

    def _proofs(self, section: ScheduledStratum, reading: Reading) -> float:
        """Return about how many instances each fact of a stratum has."""
        if self._reading is not reading:
            self._reading, self._weighed = reading, {}
        storage, proofs = self._engine.storage, self._weighed
        if section.number not in proofs:
            facts = sum(map(storage.size, section.predicates))
            instances = sum(estimated_instances(rule, storage) for rule in section.before)
            proofs[section.number] = instances / max(facts, 1)
        return proofs[section.number]

    def decide(self, reading: Reading, update: Update, peek: Peek) -> tuple[Decision, Update | None]:
        """Return the facts to link in an update, and the next update if it was read."""
        linked = NONE.union(*(each.predicates for each in reading.recursive if self._gains(each, reading)))
        if not linked:
            return (NO_LARGE_RECURSION if reading.derived else NO_RULES), None
        coming = peek()
        if coming is None:
            return NOTHING_COMES, None
        removals = removed_facts(update) + removed_facts(coming)
        return (Decision(linked, WORTH_WHILE) if removals else NOTHING_GOES), coming

    def _gains(self, section: ScheduledStratum, reading: Reading) -> bool:
        """Return whether links are worth their cost in a recursive stratum."""
        is_large = sum(map(self._engine.storage.size, section.predicates)) >= MANY
        return is_large and not FEW_PROOFS < self._proofs(section, reading) < MANY_PROOFS


# ---- choosing a maintainer for each update
#
# Rank counting reads the instances that change, recomputation all that may, but faster each: beyond a share
# of the instances it is cheaper to start again. While nothing is counted, a few small updates of a stream are
# cheaper without counters: backward/forward, or delete and rederive, with marks where they pay. Each of them
# is rent, and to count is to buy: rent is paid while what was paid and what is known to come stay below a
# part of the price.
#
# Invariant: either way the result is the same; only the time differs.

SMALL = 16  # facts up to which no estimate is made
NEVER_COUNTED = 0.25  # the share of explicit facts from which counting for the first time does not pay

# The cost of updates without counters, relative to counting an instance (docs/decisions/0049).
FOUND = 7.0  # for each instance that plans find
SEARCHED = 100.0  # for each instance expected to be touched: the search reads many more
VISITED = 50_000.0  # for each stratum: plans are made, and run one by one
WORTH_WEIGHING = 50_000  # derived facts: fewer are counted quickly
WORTH_RENTING = 2_000_000  # instances, likewise
SPENT = 0.5  # the share of the price of counting that may be spent while the next updates are unknown
LATER = 4.0  # the additional cost of a recursive instance that is not counted before facts change

UNLIMITED = 1e15

RANKS = "rank-counting"
RENTED = "backward-forward or dred"


class TooExpensive(Exception):  # noqa: N818 - internal to this module
    """An update found more instances than were to be spent on it."""


class Auto:
    """Rank counting for most updates, recomputation for large ones, neither where counting costs more."""

    name = "auto"

    def __init__(self, engine: EngineParts, listen: Listener, check: Check, modules: bool = True) -> None:
        self.engine = engine
        self.listen = listen
        self.modules = modules
        self.lookahead = LookAhead()  # without `decides`, every update that can is applied without counters
        self._ranks = Driver(ALGORITHMS[RANKS], engine, listen, check, modules)
        self._check = check
        self._paid = 0.0  # the cost of updates without counters since instances were last counted
        self._last = 0.0  # the cost of the last of them
        self._budget = UNLIMITED  # of the present update
        self._most_instances = 0  # the number of instances at which it is cancelled
        self._weighed: tuple[tuple[Rule, ...], int, Slopes] | None = None
        self._estimated: tuple[tuple[Rule, ...], tuple[Weight, ...]] | None = None

    @made_once
    def _recompute(self) -> Recompute:
        """The maintainer of large updates."""
        return Recompute(self.engine, self.listen, self._check, self.modules)

    @made_once
    def _uncounted(self) -> Driver:
        """The maintainer of updates that do without counters."""
        tactics = Marking(SEARCHING, self.engine, self.listen, StratumAdvisor(self.engine), self.lookahead)
        return Driver(SEARCHING, self.engine, self.listen, self._check_rent, self.modules, tactics)

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Apply an update; on any exception the engine is as before."""
        chosen = self._choose(update, before, after)
        self.listen(chosen)
        if chosen.maintainer == RANKS:
            self._paid = self._last = 0.0
            return self._ranks.apply(update, before, after)
        if chosen.maintainer == RENTED:
            net = self._rent(update, before, after)
            return self._ranks.apply(update, before, after) if net is None else net
        net = self._recompute.apply(update, before, after)
        self._ranks.forget()
        self._uncounted.forget()
        return net

    def _rent(self, update: Update, before: Program, after: Program) -> NetChange | None:
        """Apply an update without counters, with marks where they pay off; None if that is too expensive."""
        plans = self.engine.change_plans
        instances_before = plans.instances
        self._most_instances = instances_before + int(self._budget / FOUND)
        try:
            return self._uncounted.apply(update, before, after)
        except TooExpensive:
            self.listen(TOO_EXPENSIVE)
            return None
        finally:
            self._last = max(self._last, FOUND * (plans.instances - instances_before))
            self._paid += self._last

    def _check_rent(self) -> None:
        """Raise if a limit is reached, or an update without counters has found too many instances."""
        self._check()
        if self.engine.change_plans.instances > self._most_instances:
            raise TooExpensive

    def _choose(self, update: Update, before: Program, after: Program) -> MaintainerChosen:
        """Choose the maintainer that is expected to be fastest, with the reason."""
        changed = update.removals + update.additions
        is_counted = self.engine.counters.kind is CounterKind.RANK
        if self._may_mark and after.rules is before.rules:
            is_cheaper, reason = self._without_counters(update, before)
            if is_cheaper:
                return MaintainerChosen(RENTED, reason)
            if self.lookahead.marking != "auto":  # marks were requested: report why there are none
                self.listen(MarkingDecided(False, reason))
        if changed <= SMALL:
            return FEW
        if not is_counted and not self.engine.counters.counts:
            share = max(shares_of(update, self.engine.storage).values(), default=0.0)
            name = "recompute" if share > NEVER_COUNTED else RANKS
            return MaintainerChosen(name, f"nothing is counted yet, and {share:.1%} of a relation changes")
        slopes = self._slopes(before)
        shares = shares_of(update, self.engine.storage)
        at_most = slopes.at_most(shares)
        if not at_most.is_expensive(is_counted):
            return MaintainerChosen(RANKS, f"at most {at_most}")
        predicted = predict(shares, update.additions, slopes.weights, self.engine)
        name = "recompute" if predicted.is_expensive(is_counted) else RANKS
        return MaintainerChosen(name, str(predicted))

    # ---- without counters

    @property
    def _may_mark(self) -> bool:
        """Whether the next update of a stream is available, and may be read ahead."""
        return self.lookahead.marking != "none" and self.lookahead.peek is not no_stream

    def _without_counters(self, update: Update, program: Program) -> tuple[bool, str]:
        """Return whether maintenance without counters is cheaper, given the known next updates, and why."""
        self._budget = UNLIMITED
        if not self.lookahead.decides:
            return True, "as requested"
        if self.engine.counters.kind is CounterKind.RANK:
            return False, "instances are counted, and rank counting needs no marks"
        if sum(map(self.engine.storage.size, program.derived)) < WORTH_WEIGHING:
            return False, f"fewer than {WORTH_WEIGHING:,} facts are derived: they are cheap to count"
        shares = shares_of(update, self.engine.storage)
        predicted = predict(shares, update.additions, self._estimates(program), self.engine)
        instances = f"about {_rounded(predicted.counted)} instances"
        if predicted.counted < WORTH_RENTING:
            return False, f"{instances} are cheap to count"
        rent = max(self._last, SEARCHED * predicted.touched + VISITED * predicted.strata)
        ahead = self.lookahead.waiting()
        self._budget = self._price(predicted.counted, ahead.is_all, program) - self._paid
        if rent * (1 + ahead.known) > self._budget:
            return False, f"counting {instances} soon pays off"
        return True, f"counting {instances} would cost more"

    def _price(self, counted: int, is_known: bool, program: Program) -> float:
        """Return the cost up to which maintenance without counters is cheaper than counting.

        Ranks are the rounds in which facts were derived, as long as no facts have changed since. If other
        updates may follow, counters will be needed eventually.
        """
        if is_known:
            return counted
        recursive = sum(weight.counted for weight in self._estimates(program) if weight.is_recursive)
        return SPENT * counted - LATER * recursive

    def _estimates(self, program: Program) -> tuple[Weight, ...]:
        """Return the costs of the strata, estimated once for a program without counting instances."""
        rules = program.rules
        if self._estimated is None or self._estimated[0] is not rules:
            schedule = self._ranks.schedule(program)
            weights = weigh(
                schedule, self.engine, lambda rule: estimated_instances(rule, self.engine.storage)
            )
            self._estimated = rules, weights
        return self._estimated[1]

    def _slopes(self, program: Program) -> Slopes:
        """Return the slopes of the strata, computed again when rules have changed or instances were counted.

        After a recomputation the earlier counts are good enough: new ones would need another schedule.
        """
        rules, counts = program.rules, self.engine.counters.counts
        if self._weighed is None or self._weighed[0] is not rules or self._weighed[1] != counts:
            weights = weigh(self._ranks.schedule(program), self.engine, self.engine.counters.instances_of)
            self._weighed = rules, counts, Slopes(weights, self.engine)
        return self._weighed[2]


def _rounded(number: int) -> str:
    """Return a number rounded to its first digit.

    >>> _rounded(16_040_000), _rounded(7)
    ('20,000,000', '7')
    """
    return f"{round(number, 1 - len(str(number))):,}"


TOO_EXPENSIVE = MaintainerChosen(
    RANKS, "searching for facts that still hold turned out to cost more than counting"
)
FEW = MaintainerChosen(RANKS, f"{SMALL} facts or fewer change")


# ---- maintainers by name
#
# `forward-backward-forward:3` looks for proofs three steps deep; without a number it takes its own depth.


def _driver(
    algorithm: Algorithm, engine: EngineParts, listen: Listener, check: Check, modules: bool = True
) -> Driver:
    """Return the driver of an algorithm, which marks if it can."""
    tactics = Marking(algorithm, engine, listen) if algorithm.name in MARKED else None
    return Driver(algorithm, engine, listen, check, modules, tactics)


MAINTAINERS: dict[str, Factory] = {
    "auto": Auto,
    "recompute": Recompute,
    **{name: partial(_driver, algorithm) for name, algorithm in ALGORITHMS.items()},
}
MARKINGS = (DEFAULT_MARKING, NO_MARKING, *WAYS_OF_MARKING)
MARKED_NAMES = (DEFAULT, *MARKED)  # those that can look ahead and mark


def make(
    name: str, marking: str, engine: EngineParts, listen: Listener, check: Check, modules: bool = True
) -> Maintainer:
    """Return the maintainer of this name, which marks as requested; raise ProgramError if there is none."""
    check_names(name, marking)
    kind, _, depth = name.partition(":")
    if depth:
        return Driver(ForwardBackwardForward(int(depth)), engine, listen, check, modules)
    maintainer = MAINTAINERS[kind](engine, listen, check, modules and keeps_closures(name, marking))
    if maintainer.lookahead is not None:
        maintainer.lookahead.marking = marking
    return maintainer


def check_names(name: str, marking: str) -> None:
    """Raise ProgramError unless there is such a maintainer and it supports the marking."""
    kind, colon, depth = name.partition(":")
    if colon and kind == ForwardBackwardForward.name and depth.isascii() and depth.isdigit():
        name = kind
    if name not in MAINTAINERS:
        help = suggest(name, MAINTAINERS) or f"choose one of {', '.join(MAINTAINERS)}"
        raise ProgramError(Diagnostic(UNKNOWN_MAINTAINER, f"unknown maintainer `{name}`", help=help))
    if marking not in MARKINGS:
        help = suggest(marking, MARKINGS) or f"choose one of {', '.join(MARKINGS)}"
        raise ProgramError(Diagnostic(UNKNOWN_MARKING, f"unknown marking `{marking}`", help=help))
    if marking not in (NO_MARKING, DEFAULT_MARKING) and name not in MARKED_NAMES:
        message = f"the maintainer `{name}` does not support marking"
        help = f"use one of {', '.join(f'`{other}`' for other in MARKED_NAMES)}, or no marking"
        raise ProgramError(Diagnostic(UNKNOWN_MARKING, message, help=help))
