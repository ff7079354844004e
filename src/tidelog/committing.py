"""Updates carried out: everything that they mean, or nothing of it. Mutates the engine."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.engine.events import Tally
from tidelog.logic.program import Program
from tidelog.maintenance.maintainer import Maintainer, NetChange, Update
from tidelog.maintenance.net_rows import total
from tidelog.query.kept_queries import Demands, Step
from tidelog.runtime import Runtime

Check = Callable[[NetChange], None]  # raises if a net change must not be


class Rehearsed(Exception):  # noqa: N818 – no error: the update was never meant to stay
    """An update was worked in to see what it changes, and must be taken back."""

    def __init__(self, net: NetChange) -> None:
        super().__init__()
        self.net = net


class Committing:
    """The maintainer at work, for the program and for kept queries alike."""

    def __init__(self, runtime: Runtime, maintainer: Maintainer, demands: Demands) -> None:
        self.maintainer = maintainer
        self._runtime = runtime
        self._demands = demands

    def rehearse(self, update: Update, before: Program, after: Program, check: Check) -> NetChange:
        """The net change that an update would make: it is carried out and taken back."""
        try:
            self.carry_out(update, before, after, check, is_kept=False)
        except Rehearsed as rehearsed:
            return rehearsed.net
        raise AssertionError("a rehearsal is taken back")

    def carry_out(
        self,
        update: Update,
        before: Program,
        after: Program,
        check: Check,
        is_kept: bool = True,
    ) -> NetChange:
        """The net change of an update; on any exception, such as one of `check`, everything is as before."""
        is_same = after is before
        new = [] if is_same else [name for name in after.predicates if name not in before.predicates]
        tally, engine = self._runtime.statistics, self._runtime.engine
        loaded, derived = tally.loaded, tally.derived
        tally.clear()
        tally.derived = derived
        try:
            for name in new:
                engine.define(name, after.predicates[name].arity)
            step = self._demands.step(update, before, after)
            net = self.maintain(step, check, is_kept)
            self._demands.adopt(step)
        except BaseException:
            for name in new:
                engine.drop(name)
            tally.loaded, tally.derived = loaded, derived
            raise
        return net

    def maintain(self, step: Step, check: Check, is_kept: bool = True) -> NetChange:
        """The net change of a step, which is taken back if its outcome may not be: then `check` raises.

        One that is not to be kept is taken back in any case, and the net change raised.
        """
        update, tally = step.update, self._runtime.statistics
        loaded, derived = tally.loaded, tally.derived
        net = NetChange()
        is_done = False
        limits = self._runtime.limits()
        try:
            with limits.guarding():
                if update:
                    self._demands.define(step.kept)
                    net = self.maintainer.apply(update, step.before, step.after)
                    is_done = True
                _count(tally, loaded, derived, update, net)
                limits.check()
                check(net)
                if not is_kept:
                    raise Rehearsed(net)
        except BaseException:
            if is_done:
                self._undo(step)
            raise
        return net

    def _undo(self, step: Step) -> None:
        """Take a step back that was carried out but must not be. Nothing stops this."""
        with self._runtime.no_limits().guarding():
            self.maintainer.apply(step.update.inverse, step.after, step.before)


def _count(tally: Tally, loaded: int, derived: int, update: Update, net: NetChange) -> None:
    """Let the tally say how many facts there are, explicit and derived ones, after an update."""
    explicit = total(update.added) - total(update.removed)
    tally.loaded = loaded + explicit
    tally.derived = derived + total(net.added) - total(net.removed) - explicit
