"""The bench of the columnar engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tests.maintenance.sets import Row
from tidelog.data.rows import Rows
from tidelog.engine import fixpoint
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.engine import make
from tidelog.engine.columnar.storage.table import Table
from tidelog.engine.events import Tally
from tidelog.engine.flags import CounterKind
from tidelog.logic.program import Program
from tidelog.logic.strata import Stratum, strata
from tidelog.rewrite.auxiliary_relations import is_auxiliary, recognise, rewrite, split

Facts = Mapping[str, frozenset[Row]]


class ColumnarBench:
    """The bench of tables, materialised by the semi-naive fixpoint."""

    def __init__(
        self,
        program: Program,
        explicit: Facts,
        is_split: bool = True,
        dense: int = 1 << 20,
        modules: bool = False,
    ) -> None:
        self.engine = make(threads=1)
        self.engine.catalog.dense_bytes = dense
        program = split(program) if is_split else program
        for predicate in program.predicates.values():
            self.engine.storage.define(predicate.name, predicate.arity)
        for name, rows in self.encode(explicit).items():
            self.engine.storage.add(name, rows.columns, rows.count)
        self.engine.rounds.begin(self.engine.storage.relations())
        numbers = {id(rule): place for place, rule in enumerate(program.rules)}
        closures = self.engine.closures if modules else None
        fixpoint.materialise(strata(program.rules), numbers, self.engine, Tally(), lambda: None, closures)

    def encode(self, facts: Facts) -> dict[str, Rows]:
        """Facts as columns of ids."""
        identity = self.engine.storage.dictionary.encode
        encoded = {}
        for name, rows in facts.items():
            listed = [[identity(value) for value in row] for row in sorted(rows)]
            if listed:
                columns = tuple(np.array(column, np.int32) for column in zip(*listed, strict=True))
                encoded[name] = Rows(columns, len(listed))
        return encoded

    def decode(self, rows: Mapping[str, Rows]) -> dict[str, frozenset[Row]]:
        """The facts of columns of ids."""
        return {name: self._decoded(some.columns, some.count) for name, some in rows.items()}

    def _decoded(self, columns: tuple[np.ndarray, ...], count: int) -> frozenset[Row]:
        value = self.engine.storage.dictionary.decode
        if not columns:
            return frozenset([()] * count)
        return frozenset(
            tuple(map(value, row)) for row in zip(*(column.tolist() for column in columns), strict=True)
        )

    def facts(self) -> dict[str, frozenset[Row]]:
        """All facts that are true, of predicates that have some."""
        found = {
            name: self._decoded(*self.engine.storage.rows(name))
            for name in self.engine.storage.relations()
            if not is_auxiliary(name)
        }
        for name, rows in found.items():
            assert self.engine.storage.size(name) == len(rows)
        return {name: rows for name, rows in found.items() if rows}

    def check(self, program: Program) -> None:
        """Fails unless flags are clean, and counters those of counting anew with the same ranks."""
        engine = self.engine
        for table in self._tables():
            flags = table.flags[: len(table)] & ~np.uint8(layout.EXPLICIT)
            assert np.isin(flags, (0, layout.TRUE)).all(), table.name
            assert table.dead == int((flags == 0).sum())
        for name in engine.closures.closed:
            self._check_structure(name)
        if engine.counters.kind is CounterKind.NONE:
            return
        kept = self._counters()
        derived = [
            each for each in self._strata(program) if not any(rule.aggregations for rule in each.rules)
        ]
        for stratum in derived:
            unfounded = engine.counters.count_stratum(stratum)
            assert engine.counters.kind is CounterKind.CLASS or not len(unfounded)
        names = {name for stratum in derived for name in stratum.predicates}
        for fact, counted in self._counters().items():
            if fact[0] in names:
                assert kept[fact] == counted, fact

    def _check_structure(self, name: str) -> None:
        """Fails unless a closed relation has the external pairs and the facts of its structure."""
        closed = self.engine.closures.closed[name]
        assert not self.engine.catalog.table(name).counters
        if closed.structure is not None:
            externals = self.engine.closures.externals(closed.module, layout.ALIVE)
            assert _pairs(closed.structure.externals()) == _pairs(externals)
            assert _pairs(closed.structure.pairs()) == _pairs(self.engine.storage.rows(name)[0])

    def _strata(self, program: Program) -> list[Stratum]:
        """The strata whose instances are counted, auxiliary relations included."""
        modules = [
            module for name in self.engine.closures.closed if (module := self.engine.closures.module_of(name))
        ]
        now = [recognise(each) for each in strata(split(program).rules)]
        used = [module for module in now if module and any(map(module.is_like, modules))]
        assert len(used) == len(modules)
        rules = rewrite(dict.fromkeys(split(program).rules, 0), used)
        return [
            each
            for each in strata(tuple(rules))
            if not set(each.predicates) & set(self.engine.closures.closed)
        ]

    def _tables(self) -> list[Table]:
        return [
            self.engine.catalog.table(name)
            for name in self.engine.storage.relations()
            if not self._is_scratch(name)
        ]

    def _is_scratch(self, name: str) -> bool:
        return bool(self.engine.catalog.table(name).words[layout.SCRATCH])

    def _counters(self) -> dict[tuple[str, int], tuple[int, int]]:
        """What is counted for each fact: founded and hidden."""
        counted = {}
        for table in self._tables():
            none = np.zeros(len(table), np.int32)
            founded = table.counters.get(layout.FOUNDED, none)
            hidden = table.counters.get(layout.HIDDEN, none)
            for row in np.flatnonzero(table.flags[: len(table)] & layout.ALIVE).tolist():
                counted[table.name, row] = int(founded[row]), int(hidden[row])
        return counted

    def state(self) -> object:
        """Flags that are set, and counters and ranks of true facts."""
        found = []
        for table in self._tables():
            for row in np.flatnonzero(table.flags[: len(table)]).tolist():
                counters = {
                    place: int(counter[row]) for place, counter in table.counters.items() if counter[row]
                }
                found.append((table.name, row, int(table.flags[row]), counters))
        structures = {name: closed.structure for name, closed in self.engine.closures.closed.items()}
        known = {
            name: (_pairs(structure.externals()), _pairs(structure.pairs()))
            for name, structure in structures.items()
            if structure is not None
        }
        return found, known, list(structures), self.engine.counters.kind


def _pairs(columns: Iterable[np.ndarray]) -> set[tuple[int, ...]]:
    return set(zip(*(column.tolist() for column in columns), strict=True))
