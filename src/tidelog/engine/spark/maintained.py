"""Changes worked into facts on Spark: what a plan looks up is fetched before it runs. Mutates itself.

See `engine.maintaining.Maintainable` for what the methods promise, and `wanted` for what is looked up. Plans
that are driven by all facts, those of rules that come and go, are frames; only their heads are fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

from tidelog.engine.columnar.change_runner import EMPTY, ChangeRunner, RowSet
from tidelog.engine.maintaining import PARTS, Counters, Effect, Flag, Notes, Noting, OutOfReach, Where
from tidelog.engine.spark.fetching import NOT_RESIDENT, FetchingEngine, Request
from tidelog.engine.spark.frames import Heads, Source, Translation
from tidelog.engine.spark.store import columns_of, difference, union
from tidelog.engine.spark.tagging import new_terms
from tidelog.engine.spark.wanted import Wanted, wanted
from tidelog.errors import Diagnostic
from tidelog.logic.program import Variable
from tidelog.plan.algebra import ChangePlan, Part, Project, Scan, scans
from tidelog.rewrite.closures import ClosureModule

NEW_KEY = Effect(Where(Flag.ALIVE, Flag.NONE), Flag.ALIVE, create=True)
HELP = "raise `tidelog.residentFacts`, or use `auto`, `recompute`, `dred`, `fp-update` or `backward-forward`"
FOUND = "found on Spark"  # a name with a space is no predicate's


class FetchingRunner(ChangeRunner):
    """A plan that passes on changes, and the plans of the keys that it looks up."""

    def __init__(self, plan: ChangePlan, engine: MaintainedOnSpark) -> None:
        super().__init__(plan, engine)
        self.engine = engine
        self._keys: tuple[tuple[Wanted, ChangeRunner], ...] | None = None

    @property
    def keys(self) -> tuple[tuple[Wanted, ChangeRunner], ...]:
        """What it looks up, and the plan that finds the keys."""
        if self._keys is None:
            asked = self.engine.asked
            self._keys = tuple(
                (want, ChangeRunner(want.keys(self.plan, asked((want.relation, want.columns))), self.engine))
                for want in wanted(self.plan)
            )
        return self._keys

    @property
    def reads(self) -> Iterator[str]:
        """The relations that it reads."""
        return (scan.relation for scan in scans(self.plan.root.input))


class MaintainedOnSpark(FetchingEngine):
    """Relations on Spark whose facts come and go."""

    @property
    def is_resident(self) -> bool:
        """Whether all facts lie on the driver, or can."""
        return not self._placed or sum(map(self.size, self.relations())) <= self.settings.resident_facts

    def come_home(self) -> None:
        """Let everything lie on the driver; or raise."""
        if not self.is_resident:
            raise self._refusal("this is done where all facts lie on the driver")
        self.bring_home(self.relations())

    def _refusal(self, reason: str) -> OutOfReach:
        facts, most = sum(map(self.size, self._placed)), self.settings.resident_facts
        message = f"{reason}, and {facts:,} are on Spark: more than {most:,}"
        return OutOfReach(Diagnostic(NOT_RESIDENT, message, help=HELP))

    # ---- transactions

    def begin_transaction(self) -> None:
        """Begin a journal; what lies on Spark comes to the driver, or what is touched of it will."""
        if self.is_resident:
            self.come_home()
        else:
            self.begin_fetching()
        super().begin_transaction()

    def recount(self, counters: Counters, strata: Any) -> RowSet:
        """Count all instances of the strata's rules anew; returns the facts that are true and unfounded."""
        if counters is not Counters.NONE:
            if not self.is_resident:
                raise self._refusal("instances are counted where all facts lie on the driver")
            self.come_home()
        return super().recount(counters, strata)

    def keep_notes(self, noting: Noting) -> None:
        """In this transaction, let what is noted of facts be this."""
        if noting.notes is not Notes.NONE and self.is_fetching:
            raise self._refusal("facts are marked where all of them lie on the driver")
        super().keep_notes(noting)

    def close_later(self, module: ClosureModule) -> bool:
        """Whether a structure keeps the relation from now on."""
        if not self.is_resident:
            return False
        self.come_home()
        return super().close_later(module)

    # ---- plans

    def prepare_change(self, plan: ChangePlan) -> ChangeRunner:
        """The plan ready to run, any number of times."""
        return FetchingRunner(plan, self)

    def run(self, plans: Iterable[Any], given: Any, effect: Effect) -> RowSet:
        """The heads that the effect selects, of each plan's instances over the given facts."""
        if not self.is_fetching:
            return super().run(plans, given, effect)
        plans = list(plans)
        whole = [plan for plan in plans if plan.given is None and any(map(self.is_placed, plan.reads))]
        others = [plan for plan in plans if plan not in whole]
        self._fetch_for(others, given)
        found = super().run(others, given, effect)
        for plan in whole:
            found |= self.run_whole(plan.plan, effect)
        return found

    def run_support(self, plans: Iterable[Any], given: Any) -> tuple[RowSet, RowSet]:
        """For each given head the first instance that a plan finds: its unchecked facts, and the heads."""
        plans = list(plans)
        if self.is_fetching:
            self._fetch_for(plans, given)
        return super().run_support(plans, given)

    def _fetch_for(self, plans: Iterable[FetchingRunner], given: RowSet) -> None:
        """Fetch what plans will look up: one look-up of each after the other, those of all plans together."""
        driven = [plan.keys for plan in plans if plan.given is None or plan.given in given.rows]
        instances = self._instances
        for level in zip_longest(*driven):
            steps = [step for step in level if step is not None and self.is_placed(step[0].relation)]
            requests = [self._new_keys(want, keys, given) for want, keys in steps]
            self.fetch([request for request in requests if len(request.rows)])
        self._instances = instances  # those that only found keys do not count

    def _new_keys(self, want: Wanted, keys: ChangeRunner, given: RowSet) -> Request:
        """The keys of a look-up that were not asked for before."""
        found = super().run([keys], given, NEW_KEY)
        rows = found.rows.get(keys.plan.relation, np.zeros(0, np.int64))
        return self.request(want.relation, want.columns, rows)

    # ---- plans over all facts

    def run_whole(self, plan: ChangePlan, effect: Effect) -> RowSet:
        """The heads that the effect selects, of the instances that a plan has on Spark."""
        translation = Translation(
            self.store, self._part, plan.number, self.store.session.sparkContext.accumulator(0)
        )
        arity = len(plan.rule.head.terms)
        columns, count = self.fetch_heads(translation.heads(plan), arity, "rules that come and go")
        name = f"{FOUND} {arity}"
        self.scratch(name, arity)
        self.clear(name)
        if not count:
            return EMPTY
        terms = tuple(Variable(f"argument {place}") for place in range(arity))
        passing = Project(Scan(name, Part.GIVEN, terms), terms)
        runner = FetchingRunner(ChangePlan(plan.relation, passing, plan.rule, plan.number, name), self)
        return self.run([runner], self.facts(name, columns, count, create=True), effect)

    def fetch_heads(self, heads: Heads, arity: int, description: str) -> tuple[tuple[Any, ...], int]:
        """The distinct heads of instances in the driver's ids, and how many they are."""
        frame = heads.frame
        if heads.fresh:
            frame = frame.persist()
            self.store.add_terms(new_terms(frame, [f"t{place}" for place in heads.fresh]), 0)
        return self.store.fetched(frame.select(*columns_of(arity)).distinct(), arity, description)

    def _part(self, relation: str, part: Part) -> Source:
        """A part of a relation as it is in the transaction, as a frame."""
        table, where = self.table(relation), PARTS[part]
        if not self.is_placed(relation):
            rows = np.flatnonzero(table.flags[: len(table)] & where.mask == where.want)
            return Source(self.lifted_rows(relation, rows), len(rows))
        known = self._placed[relation]
        touched = self.touched_rows(relation)
        if not len(touched):
            return Source(known.frame, known.rows)
        true = touched[table.flags[touched] & where.mask == where.want]
        columns = columns_of(self.arity(relation))
        rest = difference(known.frame, self.lifted_rows(relation, touched), columns, True)
        return Source(union([rest, self.lifted_rows(relation, true)]), known.rows + len(true))
