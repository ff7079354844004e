"""Changes worked into facts on Spark: what a plan looks up is fetched before it runs. Mutates itself.

See `engine.maintaining.Maintainable` for what the methods promise, and `wanted` for what is looked up. Plans
that are driven by all facts, those of rules that come and go, are frames; only their heads are fetched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.change_runner import COUNTERS, EMPTY, ChangeRunner, RowSet
from tidelog.engine.maintaining import PARTS, Counters, Effect, Flag, Notes, Noting, OutOfReach, Where
from tidelog.engine.spark.counted import Counted
from tidelog.engine.spark.fetching import NOT_RESIDENT, FetchingEngine
from tidelog.engine.spark.frames import Heads, Source, Translation
from tidelog.engine.spark.requests import Request
from tidelog.engine.spark.store import columns_of, difference, union
from tidelog.engine.spark.tagging import new_terms
from tidelog.engine.spark.wanted import Wanted, wanted
from tidelog.errors import Diagnostic
from tidelog.logic.program import Variable
from tidelog.logic.strata import Stratum
from tidelog.plan.algebra import ChangePlan, Part, Project, Scan, scans
from tidelog.rewrite.closures import ClosureModule

if TYPE_CHECKING:
    from tidelog.engine.spark.engine import SparkEngine

NEW_KEY = Effect(Where(Flag.ALIVE, Flag.NONE), Flag.ALIVE, create=True)
HELP = "raise `tidelog.residentFacts`, or do without"
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

    def resident_rows(self, relation: str) -> tuple[tuple[Any, ...], int]:
        """All rows of a relation; or raise."""
        if self.size(relation) > self.settings.resident_facts:
            raise self._refusal(f"all of `{relation}` must lie on the driver for facts to change")
        return self.rows(relation)

    def _refusal(self, reason: str) -> OutOfReach:
        facts, most = sum(map(self.size, self._placed)), self.settings.resident_facts
        message = f"{reason}, and {facts:,} are on Spark: more than {most:,}"
        return OutOfReach(Diagnostic(NOT_RESIDENT, message, help=HELP))

    # ---- transactions

    def begin_transaction(self) -> None:
        """Begin a journal; what lies on Spark comes to the driver, or what is touched of it will."""
        if self.is_resident and self.counters is Counters.NONE:
            self.come_home()
        elif self._placed:
            self.begin_fetching()
        super().begin_transaction()

    def recount(self, counters: Counters, strata: Any) -> RowSet:
        """Count all instances of the strata's rules anew; returns the facts that are true and unfounded."""
        if counters is Counters.NONE or not self._placed:
            return super().recount(counters, strata)
        strata = [stratum for stratum in strata if not any(rule.aggregations for rule in stratum.rules)]
        if counters is self.counters:
            self._fetch_all({name for stratum in strata for name in _relations(stratum)})
            return super().recount(counters, strata)
        if self.is_resident:
            self.come_home()
            return super().recount(counters, strata)
        self._count_elsewhere(counters, strata)
        return EMPTY

    def _count_elsewhere(self, counters: Counters, strata: Sequence[Stratum]) -> None:
        """Count the instances of strata where their facts lie; tables get the counters with the facts."""
        self.forget_counters()
        self.end_fetching()
        here, there = [], []
        for stratum in strata:  # from the bottom up: what reads something on Spark is counted there
            if not any(map(self.is_placed, _relations(stratum))):
                here.append(stratum)
                continue
            there.append(stratum)
            for name in stratum.predicates:
                if not self.is_placed(name):
                    self.move_to_spark(name)
        counted, highest = self.counted_frames(counters, there)
        super().recount(counters, here)
        self.begin_fetching()
        for name, found in counted.items():
            self.table(name).count_explicit()
            self.table(name).count_too(COUNTERS[counters] if found.is_recursive else ())
        self._counted_frames = counted
        state = self.workspaces[0].state
        state[layout.Z_CLOCK] = max(int(state[layout.Z_CLOCK]), highest + 1)

    def counted_frames(self, counters: Counters, strata: Sequence[Stratum]) -> tuple[dict[str, Counted], int]:
        """The facts of strata with their counters, and a rank that none of them exceeds."""
        from tidelog.engine.spark.counting import StratumCount

        counted: dict[str, Counted] = {}
        highest = 1
        for stratum in strata:
            count = StratumCount(cast("SparkEngine", self), stratum, counters, self.check)
            counted |= count.count()
            highest = max(highest, count.rounds + 1)
        return counted, highest

    def _fetch_all(self, relations: Collection[str]) -> None:
        """Let the tables hold all of relations."""
        for relation in relations:
            self.every(relation)

    @property
    def has_compiled_ranks(self) -> bool:
        """Whether the engine has a compiled loop of rank counting: not of facts that are fetched."""
        return not self.is_fetching

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
        whole = [plan for plan in plans if isinstance(plan, FetchingRunner) and self._is_whole(plan)]
        others = [plan for plan in plans if plan not in whole]
        self._fetch_for(others, given)
        found = super().run(others, given, effect)
        for plan in whole:
            found |= self.run_whole(plan, effect) if effect.count == 0 else self._run_here(plan, effect)
        return found

    def _is_whole(self, plan: FetchingRunner) -> bool:
        """Whether a plan is driven by all facts, and some lie on Spark."""
        return plan.given is None and any(map(self.is_placed, plan.reads))

    def _run_here(self, plan: FetchingRunner, effect: Effect) -> RowSet:
        """The heads that the effect selects, of all instances of a plan, each of which counts."""
        self._fetch_all(set(plan.reads))
        self._fetch_for([plan], EMPTY)
        return super().run([plan], EMPTY, effect)

    def run_support(self, plans: Iterable[Any], given: Any) -> tuple[RowSet, RowSet]:
        """For each given head the first instance that a plan finds: its unchecked facts, and the heads."""
        plans = list(plans)
        if self.is_fetching:
            self._fetch_for(plans, given)
        return super().run_support(plans, given)

    def _fetch_for(self, plans: Iterable[ChangeRunner], given: RowSet) -> None:
        """Fetch what plans will look up: one look-up of each after the other, those of all plans together.

        Plans that the engine has made for itself run where all is fetched.
        """
        prepared = [plan for plan in plans if isinstance(plan, FetchingRunner)]
        driven = [plan.keys for plan in prepared if plan.given is None or plan.given in given.rows]
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

    def run_whole(self, runner: FetchingRunner, effect: Effect) -> RowSet:
        """The heads that the effect selects, of the instances that a plan has on Spark."""
        plan = runner.plan
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


def _relations(stratum: Stratum) -> set[str]:
    """The relations that the rules of a stratum read or derive."""
    read = {atom.predicate for rule in stratum.rules for atom in (*rule.positive, *rule.negated)}
    return read | set(stratum.predicates)
