"""Choosing for each update how it is worked in, from what it is expected to touch.

Rank counting looks at the instances that change, recomputation at all that may, but faster at each: beyond a
share of the instances it is cheaper to begin anew. While nothing is counted, a few small updates of a stream
are cheaper without counters: backward/forward, or delete and rederive, with marks where they pay. Each is
rent, and to count is to buy: rent is paid while what was paid and what is known to come stay below a part of
the price.

Invariant: either way the result is the same; only the time differs.
"""

from __future__ import annotations

from typing import Any

from tidelog.engine.events import Listener, MaintainerChosen, MarkingDecided
from tidelog.engine.maintaining import Counters, Maintainable
from tidelog.logic.program import Program, Rule
from tidelog.maintenance.algorithms import ALGORITHMS
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.maintainer import (
    Check,
    NetChange,
    Peek,
    Update,
    Waiting,
    no_stream,
    none_known,
)
from tidelog.maintenance.prediction import (
    Slopes,
    Weight,
    count,
    estimated_instances,
    predict,
    shares_of,
    weigh,
)
from tidelog.maintenance.recompute import Recompute
from tidelog.maintenance.uncounted import Uncounted

SMALL = 16  # so few facts are worked in without thinking about it
NEVER_COUNTED = 0.25  # the share of explicit facts from which on counting for the first time does not pay

# What updates cost without counters, measured by what it costs to count an instance (docs/decisions/0049).
FOUND = 7.0  # for each instance that plans find
SEARCHED = 100.0  # for each instance that is expected to be touched: many more are found on the way
VISITED = 50_000.0  # for each stratum: plans are made, and run one by one
WORTH_WEIGHING = 50_000  # derived facts: fewer are counted in no time
WORTH_RENTING = 2_000_000  # instances, likewise
SPENT = 0.5  # of the price of counting: so much may be spent while it is not known what comes
LATER = 4.0  # what an instance of a recursive stratum costs more if it is not counted before facts change

UNLIMITED = 1e15

RANKS = "rank-counting"
RENTED = "backward-forward or dred"


class TooDear(Exception):  # noqa: N818 - nobody sees it
    """An update found more instances than were to be spent on it."""


class Auto:
    """Rank counting for most updates, recomputation for large ones, neither where counting costs more."""

    name = "auto"

    def __init__(self, engine: Any, listen: Listener, check: Check, modules: bool = True) -> None:
        self.engine: Maintainable = engine
        self.listen = listen
        self.marking = "none"
        self.decides = True  # whether to do without counters; else every update does that may be marked
        self.peek: Peek = no_stream
        self.waiting: Waiting = none_known
        self._ranks = Driver(ALGORITHMS[RANKS], engine, listen, check, modules)
        self._recompute = Recompute(engine, listen, check, modules)
        self._uncounted = Uncounted(engine, listen, self._check_rent, modules)
        self._check = check
        self._paid = 0.0  # for updates without counters, since there were some last
        self._last = 0.0  # of which for the last one
        self._budget = UNLIMITED  # that is left for the present one
        self._most = 0  # instances found when it must end
        self._weighed: tuple[tuple[Rule, ...], int, Slopes] | None = None
        self._estimated: tuple[tuple[Rule, ...], tuple[Weight, ...]] | None = None

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Carry out an update; on any exception the engine is as before."""
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
        """Carry out an update without counters, with marks where they pay; None if that is too dear."""
        rented, engine = self._uncounted, self.engine
        rented.marking, rented.decides = self.marking, self.decides
        rented.peek, rented.waiting = self.peek, self.waiting
        begun = engine.instances
        self._most = begun + int(self._budget / FOUND)
        try:
            return rented.apply(update, before, after)
        except TooDear:
            self.listen(TOO_DEAR)
            return None
        finally:
            rented.peek, rented.waiting = no_stream, none_known
            self._last = max(self._last, FOUND * (engine.instances - begun))
            self._paid += self._last

    def _check_rent(self) -> None:
        """Raise if a limit is reached, or an update without counters has found too many instances."""
        self._check()
        if self.engine.instances > self._most:
            raise TooDear

    def _choose(self, update: Update, before: Program, after: Program) -> MaintainerChosen:
        """The maintainer that is expected to be faster, and why."""
        changed = count(update.removed) + count(update.added)
        is_counted = self.engine.counters is Counters.RANK
        if self._may_mark and after.rules is before.rules:
            is_cheaper, reason = self._without_counters(update, before)
            if is_cheaper:
                return MaintainerChosen(RENTED, reason)
            if self.marking != "auto":  # whoever asks for marks is told why there are none
                self.listen(MarkingDecided(False, reason))
        if changed <= SMALL:
            return FEW
        if not is_counted and not self.engine.counts:
            share = max(shares_of(update, self.engine).values(), default=0.0)
            name = "recompute" if share > NEVER_COUNTED else RANKS
            return MaintainerChosen(name, f"nothing is counted yet, and {share:.1%} of a relation changes")
        slopes = self._slopes(before)
        shares = shares_of(update, self.engine)
        at_most = slopes.at_most(shares)
        if not at_most.is_dear(is_counted):
            return MaintainerChosen(RANKS, f"at most {at_most}")
        predicted = predict(shares, count(update.added), slopes.weights, self.engine)
        name = "recompute" if predicted.is_dear(is_counted) else RANKS
        return MaintainerChosen(name, str(predicted))

    # ---- without counters

    @property
    def _may_mark(self) -> bool:
        """Whether the next update of a stream can be seen, and may be looked at."""
        return self.marking != "none" and self.peek is not no_stream

    def _without_counters(self, update: Update, program: Program) -> tuple[bool, str]:
        """Whether to do without counters is cheaper now and for all that is known to come, and why."""
        self._budget = UNLIMITED
        if not self.decides:
            return True, "as asked"
        if self.engine.counters is Counters.RANK:
            return False, "instances are counted, and rank counting needs no marks"
        if sum(map(self.engine.size, program.derived)) < WORTH_WEIGHING:
            return False, f"fewer than {WORTH_WEIGHING:,} facts are derived: they are counted in no time"
        shares = shares_of(update, self.engine)
        predicted = predict(shares, count(update.added), self._estimates(program), self.engine)
        instances = f"about {_rounded(predicted.counted)} instances"
        if predicted.counted < WORTH_RENTING:
            return False, f"{instances} are counted in no time"
        rent = max(self._last, SEARCHED * predicted.touched + VISITED * predicted.strata)
        ahead = self.waiting()
        self._budget = self._price(predicted.counted, ahead.is_all, program) - self._paid
        if rent * (1 + ahead.known) > self._budget:
            return False, f"to count {instances} soon pays"
        return True, f"to count {instances} would cost more"

    def _price(self, counted: int, is_known: bool, program: Program) -> float:
        """What may be spent before counting is cheaper.

        Ranks are the rounds in which facts were derived, as long as nothing has changed since. If something
        may follow, counters will be wanted in the end.
        """
        if is_known:
            return counted
        recursive = sum(weight.counted for weight in self._estimates(program) if weight.is_recursive)
        return SPENT * counted - LATER * recursive

    def _estimates(self, program: Program) -> tuple[Weight, ...]:
        """What the strata would cost, estimated once for a program: nothing is counted."""
        rules = program.rules
        if self._estimated is None or self._estimated[0] is not rules:
            schedule = self._ranks.schedule(program)
            made = weigh(schedule, self.engine, lambda rule: estimated_instances(rule, self.engine))
            self._estimated = rules, made
        return self._estimated[1]

    def _slopes(self, program: Program) -> Slopes:
        """What the strata would cost, weighed anew when rules have changed or instances were counted.

        After a recomputation what was counted before is good enough; a schedule would have to be made.
        """
        rules, counts = program.rules, self.engine.counts
        if self._weighed is None or self._weighed[0] is not rules or self._weighed[1] != counts:
            weights = weigh(self._ranks.schedule(program), self.engine, self.engine.instances_of)
            self._weighed = rules, counts, Slopes(weights, self.engine)
        return self._weighed[2]


def _rounded(number: int) -> str:
    """A number of which only the first digit is worth telling.

    >>> _rounded(16_040_000), _rounded(7)
    ('20,000,000', '7')
    """
    return f"{round(number, 1 - len(str(number))):,}"


TOO_DEAR = MaintainerChosen(RANKS, "to search for what still holds turned out to cost more than to count")
FEW = MaintainerChosen(RANKS, f"{SMALL} facts or fewer change")
