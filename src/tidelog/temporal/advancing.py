"""Time that advances: what can no longer matter is forgotten, so that an endless stream takes bounded memory.

When time advances to T, everything before T is final: facts come and go at T or later only. If no rule looks
ahead, whatever follows at T or later follows from points at T or later, and from final ones that rules look
back at. Derived facts are kept as given ones are, so that a predicate is needed only as far back as a rule
that reads it looks in one step.

Invariant: every table holds, from T less what is looked back at its predicate, what it would hold had nothing
been forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.intervals import Interval, write_point
from tidelog.logic.program import Program, Query, Rule, Throughout
from tidelog.temporal.analysis import Edge, Shift, edges
from tidelog.temporal.changing import GoOn
from tidelog.temporal.horizon import Horizon
from tidelog.temporal.interval_dred import Journal
from tidelog.temporal.list_kernels import INFINITY
from tidelog.temporal.lists import Timeline
from tidelog.temporal.materialise import Derivation, unheard
from tidelog.temporal.nodes import ReadyRule
from tidelog.temporal.store import Store

NOT_ADVANCED = "E644"
FORGOTTEN = "E645"
# It is looked for what can be forgotten when so many times what was left then is there, and some more.
GROWTH, SWEPT_FROM = 2, 4096


def looked_back(program: Program) -> Mapping[str, Fraction | None]:
    """How far back rules look at each predicate; None, for what holds always only, without end.

    Raises ProgramError if a rule looks ahead, or back without end at what holds at times.
    """
    found: dict[str, Fraction | None] = {}
    faults: list[Diagnostic] = []
    for edge in edges(program.timed_rules):
        fault = _fault(edge, program)
        if fault is not None:
            faults.append(fault)
        before = found.get(edge.source, Fraction(0))
        high = edge.shift.high
        found[edge.source] = None if before is None or high is None else max(before, high)
    if faults:
        raise ProgramError(faults)
    return found


def _fault(edge: Edge, program: Program) -> Diagnostic | None:
    """Why time cannot advance with a rule."""
    name = program.predicates[edge.source].written
    if edge.shift.low is None or edge.shift.low < 0:
        message = f"time cannot advance: this rule looks ahead at `{name}`, so that nothing is ever final"
        help = "use boxminus, diamondminus and since, and boxplus in heads"
        return Diagnostic(NOT_ADVANCED, message, edge.rule.span, help)
    if edge.shift.high is None and edge.source in program.timed:
        message = f"time cannot advance: this rule looks back at `{name}` without end"
        help = "give the operator an end, such as [0, 1d]"
        return Diagnostic(NOT_ADVANCED, message, edge.rule.span, help)
    return None


@dataclass(slots=True)
class Past:
    """What is final, and how much of it is kept. Mutable: it grows.

    `window` is the horizon, which moves along as time advances.
    """

    window: Interval | None = None
    time: Fraction | None = None  # before which everything is final; None if time has not advanced
    is_calendar: bool = False  # the time was given as a dateTime
    kept: Mapping[str, Fraction | None] = field(default_factory=dict)
    weight: int = 0  # of what was there when something was forgotten last

    def advanced(self, point: Interval, program: Program) -> Past:
        """What is final when time has advanced to a point; raises ProgramError if it cannot."""
        to, is_calendar = point.start, point.is_calendar
        assert to is not None, "a point is finite"
        if self.time is not None and to < self.time:
            message = f"time has advanced to {self}, and cannot go back to {write_point(to, is_calendar)}"
            raise ProgramError(Diagnostic(NOT_ADVANCED, message))
        kept = looked_back(program)
        return Past(self._moved(to, is_calendar), to, is_calendar, kept, self.weight)

    def __str__(self) -> str:
        return "the beginning" if self.time is None else write_point(self.time, self.is_calendar)

    def _moved(self, to: Fraction, is_calendar: bool) -> Interval | None:
        """The horizon, from this time on: its end moves as far as its beginning."""
        window = self.window
        if window is None:
            return None
        by = Fraction(0) if window.start is None else max(to - window.start, Fraction(0))
        end = None if window.end is None else window.end + by
        if end is not None and end < to:
            message = (
                f"the horizon has no beginning, and ends at {write_point(end, is_calendar)}: that is before"
            )
            raise ProgramError(Diagnostic(NOT_ADVANCED, message, help="give a horizon that begins"))
        return Interval(to, end, False, window.end_open and end != to, is_calendar)

    @property
    def interval(self) -> Interval | None:
        """The times at which answers are right: the horizon, or all from the time that was advanced to."""
        if self.window is None and self.time is not None:
            return Interval(self.time, None, is_calendar=self.is_calendar)
        return self.window

    def first(self, timeline: Timeline) -> int:
        """The left end of what is not final."""
        return -INFINITY if self.time is None else timeline.ends(Interval(self.time, None))[0]

    # ---- forgetting

    def forget(self, store: Store) -> None:
        """Let go what can no longer matter, unless little has come since that was done last."""
        tables = (*store.given.values(), *store.tables.values())
        if sum(table.weight for table in tables) < GROWTH * self.weight + SWEPT_FROM:
            return
        for table in tables:
            table.forget(self._kept_from(table.name, store.timeline))
        self.weight = sum(table.weight for table in tables)

    def _kept_from(self, name: str, timeline: Timeline) -> int:
        """The left end from which on the facts of a predicate are kept."""
        back = self.kept.get(name, Fraction(0))
        if back is None or self.time is None:
            return -INFINITY
        return timeline.ends(Interval(self.time - back, None))[0]

    # ---- asking

    def check(self, query: Query, program: Program) -> None:
        """Raise ProgramError if a query asks for what was forgotten."""
        if self.time is None:
            return
        for what, at in _asked(query.rule):
            if at is None or at < self.time:
                message = f"{what} was forgotten: time has advanced to {self}"
                raise ProgramError(Diagnostic(FORGOTTEN, message, query.rule.span))
        for edge in edges([query.rule]):
            kept = self.kept.get(edge.source, Fraction(0))
            if edge.source in program.timed and kept is not None and _is_beyond(edge.shift, kept):
                name = program.predicates[edge.source].written
                message = (
                    f"the query looks further back at `{name}` than its facts are kept, as time advanced"
                )
                help = f"rules look back at it by {write_point(kept)}; advance less far"
                raise ProgramError(Diagnostic(FORGOTTEN, message, query.rule.span, help))


def derive_on(
    horizon: Horizon | None, later: Horizon | None, store: Store, check: Callable[[], None]
) -> GoOn:
    """What derives in the horizon as it is when time has advanced what was cut off by the one before."""

    def go_on(rules: Sequence[ReadyRule], journal: Journal) -> bool:
        if horizon is None or later is None or not horizon.is_cut:
            return False
        later.left = horizon.left
        Derivation(store, rules, unheard, check, "seminaive", horizon=later, journal=journal).run()
        return True

    return go_on


def _asked(rule: Rule) -> Iterator[tuple[str, Fraction | None]]:
    """What a query asks to hold throughout, and from when."""
    for literal in rule.body:
        if isinstance(literal, Throughout):
            yield f"what held at {literal.interval}", literal.interval.start


def _is_beyond(shift: Shift, kept: Fraction) -> bool:
    return shift.high is None or shift.high > kept
