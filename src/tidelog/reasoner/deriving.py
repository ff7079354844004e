"""Deriving everything: here or in other processes, again after a fault, or not at all where it is restored.
Mutates the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tidelog.data.rows import Rows, total
from tidelog.engine.events import FactsRemoved, ValuesMissing
from tidelog.engine.fixpoint import derive
from tidelog.errors import Inconsistent
from tidelog.logic.program import BOTTOM, Program, Rule
from tidelog.logic.strata import strata
from tidelog.reasoner.constraints import check_consistency
from tidelog.reasoner.loading import Loader
from tidelog.reasoner.runtime import Applier, OpenTransaction, SharedParts
from tidelog.rewrite.representatives import ALIAS
from tidelog.temporal.temporal import restore_times
from tidelog.temporal.timed_changes import restore_given

if TYPE_CHECKING:
    from tidelog.temporal.temporal import Restored


class Deriver:
    """Derives everything, once it is needed."""

    def __init__(self, shared: SharedParts, loader: Loader, applier: Applier, processes: int | None) -> None:
        self._runtime = shared.runtime
        self._engine = shared.runtime.engine
        self._program = shared.program
        self._derived = shared.derived
        self._loader = loader
        self._applier = applier
        self._recovery = shared.recovery
        self._demands = shared.demands
        self._requeried = shared.requeried
        self._strategies = shared.strategies
        self._time = shared.time
        self._lock = shared.lock
        self._modules = shared.settings.keeps_closures
        self._processes = processes  # that derive, instead of this one
        self._dropped_elsewhere = 0  # rows that these have dropped for want of a value

    def materialise(self) -> None:
        """Derive everything; raise `Inconsistent` if `bottom()` holds."""
        self.complete()
        if self._derived.inconsistency is not None:
            self._derived.is_reported = True
            raise Inconsistent(self._derived.inconsistency)

    def derive_to_ask(self) -> None:
        """Derive everything, to read facts; raise `Inconsistent` unless that has been reported."""
        self._recovery.recover()
        with self._lock.reading:
            is_known = self._derived.is_known
        if not is_known:
            with self._lock:
                self.materialise()

    def settle(self) -> None:
        """Ensure that there is something to maintain: kept queries, tables, or else all derived facts."""
        self._recovery.recover()
        if not self._demands.are_there and not self._has_tables:
            self.complete()

    @property
    def _has_tables(self) -> bool:
        """Whether tables are wanted; where all must be consistent, all must be derived."""
        if BOTTOM in self._program.effective.predicates or not self._strategies.are_tables_wanted:
            return False
        return self._strategies.are_tabled

    @property
    def is_maintained(self) -> bool:
        """Whether something is derived that must be maintained, so that each change is a transaction."""
        self._recovery.recover()
        return self._derived.is_materialised or self._demands.are_there

    def complete(self) -> None:
        """Derive everything, an inconsistency included, if that has not been done."""
        self._recovery.recover()
        if self._derived.is_materialised:
            return
        self._recovery.whole(lambda opened: self._derive_all())
        self._derived.complete()
        self.check_consistency()

    def check_consistency(self) -> None:
        """Note an inconsistency of what is derived: a transaction may resolve it."""
        program = self._program.current
        try:
            check_consistency(program.static, self._program, self._demands, self._engine)
            if program.timed:
                self._time.check_consistency(program)
        except Inconsistent as inconsistency:
            self._derived.inconsistency = inconsistency.diagnostics

    def _derive_all(self) -> None:
        """Derive everything, and answer kept queries by that."""
        runtime, state, time = self._runtime, self._program, self._time
        self._strategies.drain()
        runtime.statistics.clear()
        dropped = self._engine.dropped
        limits = runtime.limits()
        with limits.guarding():
            if self._demands.are_there:
                self._demands.withdraw()
            self._engine.counters.forget()  # of transactions on what tables and kept queries needed
            self._forget_derived(self._derived.was_materialised)
            self._loader.load_program()
            self._engine.limits.check = limits.check  # loading has had limits of its own
            self._derived.was_materialised = True
            if state.has_equality:
                state.equality.check(state.current)
            if self._processes is not None and state.current.timed:
                self._derive_times_in_processes(self._processes)
            elif self._processes is not None and self._has_classes:
                self._derive_classes_in_processes(self._processes)
            else:
                if state.has_equality:
                    state.equality.complete(state.current.static, self._derive)
                else:
                    self._derive(False)
                if state.current.timed:
                    time.derive(state.current, len(state.strata), runtime.tell, limits.check)
            if self._dropped_elsewhere or self._engine.dropped != dropped:
                self._report_missing()
        self._keep_by_rules()

    def _report_missing(self) -> None:
        """Report which rows rules have dropped because a function had no value."""
        from tidelog.engine.missing_values import find_missing

        rules, counts = self._program.whole.rules, self._runtime.statistics.rules
        timed = self._program.current.timed
        if self._dropped_elsewhere or self._time.periodic is not None:  # it is not known which rules did
            failing = list(rules)
        else:
            failing = [rules[number] for number in sorted(counts) if counts[number].no_value]
        missing = find_missing([rule for rule in failing if rule.head.predicate not in timed], self._engine)
        if timed:
            from tidelog.temporal.body_evaluation import find_missing_over_time

            over_time = [rule for rule in failing if rule.head.predicate in timed]
            missing += find_missing_over_time(over_time, self._time.store)
        self._runtime.grown(missing)
        if missing:
            self._runtime.tell(ValuesMissing(missing))

    def _forget_derived(self, is_needed: bool) -> None:
        """Delete derived facts, if that is needed or some are tombstones."""
        derived = self._program.effective.derived
        if is_needed or any(map(self._engine.storage.has_tombstones, derived)):
            self._engine.replacement.forget_derived(derived)

    def _derive(self, is_anew: bool, rules: Sequence[Rule] | None = None) -> None:
        """Derive everything by the rules as they are now, or by some of them."""
        if is_anew:
            self._runtime.tell(FactsRemoved("", self._runtime.statistics.derived))
            self._forget_derived(True)
        if self._processes is not None:
            self._derive_in_processes(self._processes)
        else:
            self._derive_here(False, rules)

    def _derive_here(self, is_anew: bool, rules: Sequence[Rule] | None = None) -> None:
        """Derive in this process, in addition to what is derived already."""
        state, runtime = self._program, self._runtime
        numbers = {id(rule): number for number, rule in enumerate(state.whole.rules)}
        layers = state.strata if rules is None else strata(rules, state.effective.predicates)
        derive(self._engine, layers, numbers, runtime.tell, runtime.check, self._modules)

    def _keep_by_rules(self) -> None:
        """Maintain the answers of kept queries from derived facts, now that all are derived."""
        step = self._demands.begin_anew(self._program.effective)
        if step is None:
            return
        try:
            if step.update:
                self._applier.keep(step)
        except BaseException:
            self._demands.withdraw()
            raise
        self._demands.adopt(step)

    def _derive_in_processes(self, count: int) -> None:
        """Derive everything in other processes, and store here what they have derived."""
        from tidelog.engine.exchange.tasks import ExchangeTask

        found, _ = self._found_in_processes(self._program.whole, count, ExchangeTask)
        self._store_derived(found)

    @property
    def _has_classes(self) -> bool:
        """Whether facts are stored over representatives of equal constants."""
        if not self._program.has_equality:
            return False
        from tidelog.equality.rewriting import Rewriting

        return isinstance(self._program.equality, Rewriting)

    def _derive_classes_in_processes(self, count: int) -> None:
        """Derive everything in other processes, and store here their classes and facts."""
        from tidelog.equality.distributed import EqualityTask

        found, _ = self._found_in_processes(self._program.current, count, EqualityTask)
        (aliases,) = found.pop(ALIAS)
        self._engine.storage.drop(ALIAS)
        self._engine.storage.define(ALIAS, 2)
        if aliases[1]:
            self._engine.storage.add(ALIAS, *aliases)
        self._store_derived(found)
        self._program.equality.resume_restored(self._program.current.static, self._derive_here)

    def _derive_times_in_processes(self, count: int) -> None:
        """Derive everything in other processes, and store here what they have derived, with and without
        times.
        """
        from tidelog.temporal.distributed import TimedTask

        program, time = self._program.current, self._time
        time.check_end(program)
        make = partial(TimedTask, time=time.settings)
        found, task = self._found_in_processes(program, count, make, time.given())
        timed = {name: found.pop(name) for name in program.derived & program.timed}
        self._store_derived(found)
        time.hold(program, timed, task.timeline, task.outcome, self._runtime.tell)

    def _found_in_processes(
        self, program: Program, count: int, make: Any, more: Iterable[tuple[Any, ...]] = ()
    ) -> tuple[dict[str, Any], Any]:
        from tidelog.engine.exchange.processes import derive

        engine, runtime = self._engine, self._runtime
        found, task = derive(
            program,
            [*((name, *engine.storage.rows(name)) for name in program.predicates), *more],
            engine.storage.dictionary,
            count,
            timeout=runtime.limits().left,
            max_facts=runtime.max_facts,
            make=make,
        )
        self._dropped_elsewhere = task.dropped
        return found, task

    def _store_derived(self, found: Mapping[str, Any]) -> None:
        """Store facts that were derived in other processes, except those that are explicit here."""
        engine = self._engine
        derived: dict[str, Any] = {}
        for name, parts in found.items():
            if not parts:
                continue
            columns = [np.concatenate(column) for column in zip(*(part for part, _ in parts), strict=True)]
            rows = sum(each for _, each in parts)
            new = engine.storage.row_flags(name, columns, rows) == 0
            derived[name] = tuple(column[new] for column in columns), int(new.sum())
        engine.replacement.restore(derived)
        self._runtime.statistics.derived = sum(rows for _, rows in derived.values())

    def rebuild(self, opened: OpenTransaction) -> None:
        """Derive everything from the explicit facts, as if nothing had been derived before."""
        demands, engine = self._demands, self._engine
        bindings = {asked.bindings for asked in demands.asked if asked.parameters}
        explicit = opened.collect(engine, bindings)
        self._empty(opened)
        for name, rows in explicit.items():
            if name not in bindings:
                engine.storage.add(name, rows.columns, rows.count)
        if opened.was_materialised:
            self.complete()
        elif demands.asked:
            bound = {name: rows for name, rows in explicit.items() if name in bindings}
            step = demands.asking_anew(self._program.effective, bound)
            self._applier.keep(step)
            demands.adopt(step)
        self._derived.is_reported = opened.was_reported
        self._requeried.look_up_anew()

    def _empty(self, opened: OpenTransaction) -> None:
        """Empty all relations, and drop everything that was made to derive their facts."""
        self._engine.renew()
        self._program.begin_again(opened.program)
        self._applier.begin_again()
        self._demands.begin_again()
        self._strategies.by_name.clear()
        restore_given(self._time.store, opened.times)
        self._time.begin_again()
        self._derived.forget()
        self._loader.define_all()

    def restore(
        self, explicit: Mapping[str, Rows], facts: Mapping[str, Rows], times: Restored | None
    ) -> None:
        """Restore a complete set of facts where there are none: none is derived again."""
        runtime, state, engine = self._runtime, self._program, self._engine
        static = state.current.static
        stored, derived = state.equality.restored(static, explicit, facts)
        for name, rows in stored.items():
            engine.storage.add(name, rows.columns, rows.count)
        for name in explicit:
            self._loader.data.note(name)
        engine.replacement.restore({name: (rows.columns, rows.count) for name, rows in derived.items()})
        with runtime.limits().guarding():
            state.equality.resume_restored(static, self._derive)
            if times is not None and restore_times(self._time, times, state.current):
                self._time.derive(state.current, len(state.strata), runtime.tell, runtime.check)
        state.facts.skip(state.current)
        runtime.statistics.loaded, runtime.statistics.derived = total(explicit), total(derived)
        self._derived.was_materialised = True
        self._keep_by_rules()
        self._derived.complete()
