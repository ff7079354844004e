"""The state of an engine as arrays: captured from one engine, and loaded into another that is empty.

Between transactions only. Columns and the dictionary are shared with the engine, which appends to them and
never changes existing rows; flags and counters, which do change, are copied. What is built on demand is left
out: sets of rows, indexes, plans, structures for closures, notes of marking.

Invariant: an engine with a reinstated state and the one it was taken from do the same from then on, to facts,
flags, counters and ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data import dictionary_kernels
from tidelog.data.dictionary import TEXT_KINDS, Dictionary
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.engine import ColumnarEngine
from tidelog.engine.columnar.storage.table import Table
from tidelog.engine.flags import CounterKind
from tidelog.logic.program import Rule
from tidelog.logic.values import Kind
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import ClosureModule

Array = npt.NDArray[Any]

COUNTERS = {"founded": layout.FOUNDED, "hidden": layout.HIDDEN, "rank": layout.RANK}
ENDS = {"old_end": layout.OLD_END, "current_end": layout.CURRENT_END, "dead": layout.DEAD}
IDENTITY = np.int64(0xFFFFFFFF)  # of a slot, the part that is the id plus one


@dataclass(frozen=True, slots=True, eq=False)
class DictionaryState:
    """The values, by id."""

    kind: Array
    payload: Array
    extent: Array
    extra: Array
    heap: Array


@dataclass(frozen=True, slots=True, eq=False)
class TableState:
    """The rows of a relation, tombstones included, so that row numbers stay."""

    name: str
    columns: tuple[Array, ...]
    flags: Array
    counters: Mapping[str, Array]
    ends: Mapping[str, int]
    is_scratch: bool = False
    rounds: tuple[int, ...] = ()
    rounds_epoch: int = -1
    rounds_of: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class EngineState:
    """All that an engine holds."""

    dictionary: DictionaryState
    tables: tuple[TableState, ...]
    counters: CounterKind
    clock: int  # the rank of what becomes true next
    epoch: int
    counts: int
    instances: int
    counted: tuple[tuple[Rule, int], ...]  # instances of rules, when they were last counted
    rounds: Mapping[str, int]
    closed: tuple[str, ...]  # relations that structures maintain


def capture(engine: ColumnarEngine, relations: Collection[str]) -> EngineState:
    """Return the state of an engine between two transactions, of these relations."""
    catalog, counters = engine.catalog, engine.counters
    return EngineState(
        _captured(catalog.dictionary),
        tuple(_captured_table(catalog.table(name)) for name in relations),
        counters.kind,
        int(counters.state[layout.Z_CLOCK]),
        catalog.epoch,
        counters.counts,
        engine.change_plans.instances,
        tuple(counters.counted.items()),
        dict(counters.rounds),
        tuple(name for name in engine.closures.closed if name in relations),
    )


def _captured(dictionary: Dictionary) -> DictionaryState:
    count, top = len(dictionary), int(dictionary.words[dictionary_kernels.D_HEAP_TOP])
    return DictionaryState(
        dictionary.kind[:count],
        dictionary.payload[:count],
        dictionary.extent[:count],
        dictionary.extra[:count],
        dictionary.heap[:top],
    )


def _captured_table(table: Table) -> TableState:
    rows, words = len(table), table.words
    is_scratch = bool(words[layout.SCRATCH])
    columns = tuple(table.column(position) for position in range(table.arity))
    return TableState(
        table.name,
        tuple(column.copy() for column in columns) if is_scratch else columns,  # these are overwritten
        table.flags[:rows].copy(),
        {
            name: table.counters[position][:rows].copy()
            for name, position in COUNTERS.items()
            if position in table.counters
        },
        {name: int(words[position]) for name, position in ENDS.items()},
        is_scratch,
        tuple(table.rounds),
        *table.rounds_of,
    )


def reinstate(
    engine: ColumnarEngine, state: EngineState, modules: Callable[[], Mapping[str, ClosureModule]]
) -> None:
    """Load a state into an engine without facts and values, which takes over the arrays.

    `modules` returns the modules of the closed relations, and is called once all facts are loaded.
    """
    catalog, counters = engine.catalog, engine.counters
    refill(catalog.dictionary, state.dictionary)
    for each in state.tables:
        catalog.define(each.name, len(each.columns))
        table = catalog.table(each.name)
        _reinstate_table(table, each, len(catalog.dictionary))
        catalog.incomplete.append(table)
    catalog.epoch = state.epoch
    counters.become(state.counters)
    engine.bookkeeping.instances = state.instances
    counters.state[layout.Z_CLOCK] = state.clock
    counters.counts = state.counts
    counters.counted, counters.rounds = dict(state.counted), dict(state.rounds)
    known = modules()
    for name in state.closed:
        engine.closures.keep(known[name])


def _reinstate_table(table: Table, state: TableState, constants: int) -> None:
    counters = {COUNTERS[name]: counter for name, counter in state.counters.items()}
    table.hold(state.columns, state.flags, counters, constants)
    for name, position in ENDS.items():
        table.words[position] = state.ends[name]
    table.words[layout.SCRATCH] = state.is_scratch
    table.rounds = list(state.rounds)
    table.rounds_of = state.rounds_epoch, state.rounds_of


def refill(dictionary: Dictionary, state: DictionaryState) -> None:
    """Load these values into a new dictionary, each with its id.

    The values are encoded in another dictionary, grouped by kind and qualifier, in any order; where a value
    lies among the slots depends on the value alone, so only the ids in the slots are replaced.
    """
    dictionary.kind, dictionary.payload = state.kind, state.payload
    dictionary.extent, dictionary.extra = state.extent, state.extra
    dictionary.heap = state.heap if len(state.heap) else dictionary.heap
    dictionary.words[dictionary_kernels.D_COUNT] = len(state.kind)
    dictionary.words[dictionary_kernels.D_HEAP_TOP] = len(state.heap)
    dictionary.publish()
    other = Dictionary()
    identities = np.zeros(len(state.kind) + 1, np.int64)  # plus one, by ids of the other, plus one
    for kind, extra, members in _groups(state):
        if kind in TEXT_KINDS:
            given = other.encode_texts(kind, dictionary.texts(members), extra)
        else:
            given = other.encode_numbers(kind, state.payload[members], extra)
            dictionary.place_in_window(kind, extra, members)
        identities[given + 1] = members + 1
    if len(other) != len(state.kind):
        raise ValueError("a value has two ids")
    slots = other.slots
    dictionary.slots = slots & ~IDENTITY | identities[slots & IDENTITY]
    dictionary.words[dictionary_kernels.D_USED] = other.words[dictionary_kernels.D_USED]
    dictionary.publish()


def _groups(state: DictionaryState) -> list[tuple[Kind, int, npt.NDArray[np.int32]]]:
    """The ids of values, those of one kind and qualifier together."""
    keys = state.kind.astype(np.int64) << 32 | state.extra.astype(np.int64) & IDENTITY
    order = np.argsort(keys, kind="stable")
    ends = [*(np.flatnonzero(np.diff(keys[order])) + 1).tolist(), len(order)] if len(order) else []
    groups = []
    for first, end in pairwise((0, *ends)):
        members = order[first:end].astype(np.int32)
        groups.append((Kind(int(state.kind[members[0]])), int(state.extra[members[0]]), members))
    return groups
