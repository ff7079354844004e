"""Apply changes in Arrow tables to a store, as one transaction. Imports no Spark.

Begin with `apply_changes`: the rows of all tables are read (`gather`), and reduced to the facts to insert and
to delete (`GatheredChanges.net`). Of several rows of one fact in a transaction, the one of the highest order
decides; among those, or where there is no order, an insertion does. A batch that has been applied is skipped.
`open_or_reuse` keeps the reasoner of a store open in this process between transactions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from threading import RLock
from typing import Any, Final
from urllib.parse import unquote, urlparse

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data import decode
from tidelog.data.columns import Column
from tidelog.data.relation import Relation
from tidelog.data.rows import Rows, codes_of, concatenate, select
from tidelog.data.typed_columns import Misfit, arrow_type, to_typed
from tidelog.engine.columnar.engine import ColumnarEngine
from tidelog.engine.interrupts import waited_for
from tidelog.errors import DataError, Diagnostic, ProgramError, TidelogError, codes
from tidelog.io.arrow_files import read_arrow_data, wanted_columns
from tidelog.io.rejects import BadRow, OnError, RejectedRows
from tidelog.logic.import_options import Nulls
from tidelog.logic.program import Program
from tidelog.logic.type_inference import Schema
from tidelog.logic.types import Contents, Types, types_of_kinds
from tidelog.logic.values import ColumnType, Kind
from tidelog.reasoner.delta import Delta, PredicateDelta
from tidelog.reasoner.storing import StoredReasoner, check_memory, open_store, stored_sizes
from tidelog.records import dataclass
from tidelog.spark.worker import NULLARY, CollectedRejects, OutputColumns, output_rows
from tidelog.store.forms import BatchId

INSERT, DELETE = "insert", "delete"
CHANGE_TYPE = "_change_type"  # the column of Delta's change feed with the operation
OPERATIONS: Final = {
    "+": True,
    INSERT: True,
    "update_postimage": True,
    "-": False,
    DELETE: False,
    "update_preimage": False,
}
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

Tables = Iterable[Any]  # Arrow tables that follow each other
Encode = Callable[[Column], npt.NDArray[np.int32]]
Publish = Callable[[Delta], None]


class RejectedChanges(CollectedRejects):
    """Rows of changes that cannot be read, without the row number that `_facts` adds to them."""

    def add(self, row: BadRow) -> None:
        """Add a row with its original values."""
        if row.missing is None and row.diagnostic.code != codes.OPERATION:
            row = BadRow(row.diagnostic, json.dumps(json.loads(row.text)[:-1]))
        super().add(row)


@dataclass(frozen=True)
class ChangeColumns:
    """The columns of a table of changes: those of the predicate, then the operation, then the order."""

    predicate: str
    types: tuple[ColumnType, ...]
    label: str  # of the table in messages
    inserts: bool | None = None  # whether all rows are inserted, or deleted; None: a column has the operation
    has_order: bool = False
    nulls: tuple[Nulls, ...] = ()


@dataclass
class GatheredChanges:
    """The changes of one predicate, as rows of ids. Mutable: `append` adds rows."""

    rows: list[Rows] = field(default_factory=list)
    inserts: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    orders: list[npt.NDArray[np.int64]] = field(default_factory=list)

    def append(self, rows: Rows, inserts: npt.NDArray[np.bool_], orders: npt.NDArray[np.int64]) -> None:
        """Add rows."""
        self.rows.append(rows)
        self.inserts.append(inserts)
        self.orders.append(orders)

    def net(self) -> tuple[Rows, Rows]:
        """Return the rows to delete and those to insert: no row is in both."""
        rows, inserts = concatenate(self.rows), np.concatenate(self.inserts)
        facts = codes_of(rows)
        places = np.lexsort((inserts, np.concatenate(self.orders), facts))
        last = np.ones(len(places), bool)
        last[:-1] = np.diff(facts[places]) != 0
        decides = np.zeros(len(places), bool)
        decides[places[last]] = True
        return select(rows, decides & ~inserts), select(rows, decides & inserts)


def gather(
    gathered: dict[str, GatheredChanges],
    shape: ChangeColumns,
    tables: Tables,
    encode: Encode,
    faults: RejectedRows,
) -> None:
    """Add tables of changes to `gathered`; rows that cannot be read go to `faults`."""
    for table in waited_for(tables):
        inserts = _inserts(table, shape, faults)
        orders = np.zeros(table.num_rows, np.int64)
        if shape.has_order:
            orders = _orders(table, shape, inserts, faults)
        for rows, places in _facts(table, shape, encode, faults):
            good = inserts[places] >= 0
            changes = gathered.setdefault(shape.predicate, GatheredChanges())
            changes.append(select(rows, good), inserts[places][good] > 0, orders[places][good])


def _facts(
    table: Any, shape: ChangeColumns, encode: Encode, faults: RejectedRows
) -> Iterator[tuple[Rows, npt.NDArray[np.int64]]]:
    """Yield the facts of the rows that can be read, and their positions in the table."""
    numbers = pa.array(np.arange(table.num_rows))
    facts = table.select(range(len(shape.types))).append_column("row", numbers)
    request = wanted_columns(facts.schema, (*shape.types, ColumnType.INTEGER), (), shape.label)
    request = replace(request, nulls=shape.nulls)
    for batch in read_arrow_data([facts], request, faults):
        *columns, places = batch.columns
        yield Rows(tuple(map(encode, columns)), batch.rows), places.values.to_numpy()


def _inserts(table: Any, shape: ChangeColumns, faults: RejectedRows) -> npt.NDArray[np.int8]:
    """Return 1 for each row to insert, 0 for each to delete, and −1 for each without a valid operation."""
    if shape.inserts is not None:
        return np.full(table.num_rows, shape.inserts, np.int8)
    column = len(shape.types)
    texts = pc.utf8_lower(pc.utf8_trim_whitespace(table.column(column).cast(pa.string())))
    indices = pc.index_in(texts, pa.array(list(OPERATIONS))).fill_null(-1).to_numpy()
    inserts: npt.NDArray[np.int8] = np.array([*OPERATIONS.values(), -1], np.int8)[indices]
    for place in np.flatnonzero(inserts < 0).tolist():
        operation = table.column(column)[place].as_py()
        reason = f"{operation!r} is not an operation" if operation is not None else "the operation is missing"
        help = f"it is one of {', '.join(f'`{name}`' for name in OPERATIONS)}"
        _reject(table, place, Diagnostic(codes.OPERATION, reason, place=_at(shape, place), help=help), faults)
    return inserts


def _orders(
    table: Any, shape: ChangeColumns, inserts: npt.NDArray[np.int8], faults: RejectedRows
) -> npt.NDArray[np.int64]:
    """Return the order of each row; those without are marked by −1 in `inserts`."""
    values = table.column(table.num_columns - 1)
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    values = values.cast(pa.int64())
    for place in pc.indices_nonzero(pc.is_null(values)).to_pylist():
        if inserts[place] >= 0:
            inserts[place] = -1
            reason = f"the order is missing (column `{table.column_names[-1]}`)"
            _reject(table, place, Diagnostic(codes.OPERATION, reason, place=_at(shape, place)), faults)
    orders: npt.NDArray[np.int64] = values.fill_null(0).to_numpy()
    return orders


def _at(shape: ChangeColumns, place: int) -> str:
    return f"{shape.label}:{place + 1}"


def _reject(table: Any, place: int, fault: Diagnostic, faults: RejectedRows) -> None:
    row = table.slice(place, 1).to_pylist()[0]
    faults.add(BadRow(fault, json.dumps(list(row.values()), default=str)))


class NotPublished(TidelogError):  # noqa: N818 - named after what happens
    """Raised in a transaction whose changes could not be published, so that it is rolled back."""


def apply_changes(
    reasoner: StoredReasoner,
    changes: Sequence[tuple[ChangeColumns, Tables]],
    batch: BatchId | None,
    missing: str,
    faults: RejectedRows,
    publish: Publish | None = None,
    deleted: Mapping[str, Rows] | None = None,
) -> Delta | None:
    """Apply all changes as one transaction, and return its delta; None if the batch was applied before.

    `deleted` are further facts to delete, unless changes insert them.

    `publish` is called with the delta before anything is committed: if it raises, nothing is. If the process
    ends in between, the batch is not applied, and the next attempt has the same delta.
    """
    if batch is not None and reasoner.has_applied(batch):
        return None
    change = reasoner.change(missing=missing, batch=batch)
    gathered: dict[str, GatheredChanges] = {}
    for name, rows in (deleted or {}).items():
        gathered.setdefault(name, GatheredChanges()).append(
            rows, np.zeros(rows.count, bool), np.zeros(rows.count, int)
        )
    for shape, tables in changes:
        gather(gathered, shape, tables, _encode(change.engine), faults)
    faults.check()
    for name, predicate_changes in gathered.items():
        removed, added = predicate_changes.net()
        change.delete_rows(name, removed)
        change.insert_rows(name, added)
    refusals: list[BaseException] = []
    if publish is not None:
        change.publish = lambda delta: _published(publish, delta, refusals)
    try:
        delta = change.commit()
        reasoner.begin()  # a new store begins with a complete snapshot
    except NotPublished:
        raise refusals[0] from None
    return delta


def _encode(engine: ColumnarEngine) -> Encode:
    """Return a function from values to ids. Other threads may query the reasoner meanwhile."""

    def encode(column: Column) -> npt.NDArray[np.int32]:
        with engine.storage.dictionary.lock:
            ids: npt.NDArray[np.int32] = engine.storage.dictionary.encode_column(column)
        return ids

    return encode


def _published(publish: Publish, delta: Delta, refusals: list[BaseException]) -> None:
    """Publish a delta; turn an exception of `publish` into `NotPublished`, which rolls the transaction back.

    It is raised outside of `except`: one with a context would be considered a fault of the reasoner.
    """
    try:
        publish(delta)
    except BaseException as error:  # noqa: BLE001 - raised again when the transaction has been rolled back
        refusals.append(error)
    if refusals:
        raise NotPublished(Diagnostic(codes.NOT_PUBLISHED, "the changes could not be published"))


@dataclass(eq=False)
class OpenStore:
    """A reasoner that is open for writing. One thread at a time changes it."""

    reasoner: StoredReasoner
    program: Program
    lock: RLock = field(default_factory=RLock)


_OPEN: dict[Path, OpenStore] = {}
_LOCK = RLock()


def local_path(store: Path | str) -> Path:
    """Return the folder of a store; raise `DataError` if it does not lie on a disk of this process."""
    text = str(store)
    if isinstance(store, str) and ADDRESS.match(text):
        if not text.lower().startswith("file:"):
            message = f"a store cannot be kept at `{text}`"
            help = (
                "a store is written in place: name a folder on a disk of the process that changes it, or on "
                "a volume that is mounted there; `on_change` can write what changes to the address"
            )
            raise DataError(Diagnostic(codes.NOT_A_DISK, message, help=help))
        text = unquote(urlparse(text).path)
    return Path(text).resolve()


def open_or_reuse(path: Path, program: Program, settings: Mapping[str, Any]) -> OpenStore:
    """Return the reasoner of a store; open or create the store if it is not open in this process.

    An open one is reused if the folder still has the same store.
    """
    with _LOCK:
        store = _OPEN.get(path)
        if store is not None and not store.reasoner.is_in_place:
            discard(path)
            store = None
        if store is None:
            options = {name: value for name, value in settings.items() if name != "max_memory"}
            help = "give the process more memory, or set `max_memory`; `derive` keeps facts in tasks"
            check_memory(stored_sizes(path), f"the store `{path}`", settings.get("max_memory"), help)
            store = _OPEN[path] = OpenStore(open_store(path, program, later=True, **options), program)
        elif store.program is not program:
            store.reasoner.become(program)
            store.program = program
        return store


def is_open(path: Path) -> bool:
    """Whether a store is open in this process."""
    return path in _OPEN and _OPEN[path].reasoner.is_in_place


def discard(path: Path) -> None:
    """Drop the reasoner of a store without writing; committed transactions are on the disk."""
    with _LOCK:
        store = _OPEN.pop(path, None)
        if store is not None:
            store.reasoner.abandon()


def close(path: Path) -> None:
    """Close a store, so that other processes can write to it."""
    with _LOCK:
        store = _OPEN.pop(path, None)
        if store is not None:
            with store.lock:
                store.reasoner.close()


def typed_table(relation: Relation, types: Schema) -> Any:
    """Return the facts of a relation as an Arrow table of these types."""
    names = relation.columns or (NULLARY,)
    parts = output_rows(relation, OutputColumns(relation.name, relation.name, names, types))
    return pa.concat_tables(pa.table({name: part.columns[name] for name in names}) for part in parts)


def representable(
    reasoner: StoredReasoner, shape: ChangeColumns, types: Sequence[Types | None]
) -> tuple[Any, Rows]:
    """Return the explicit facts of a predicate as an Arrow table of these types, None being text.

    Facts that would not be read back as the same facts are returned separately, as rows of ids.
    """
    reasoner.change()  # everything is derived
    engine = reasoner.engine
    dictionary = engine.storage.dictionary
    explicit = Rows(*engine.storage.explicit(shape.predicate))
    fits = np.ones(explicit.count, bool)
    for ids, target in zip(explicit.columns, types, strict=True):
        if target is not None:
            kinds = [kind for kind in Kind if types_of_kinds((kind,)) & target]
            fits &= np.isin(dictionary.kind[ids], kinds)
    rows = select(explicit, fits)
    try:
        arrays = [
            decode.to_texts(dictionary, ids, "plain")
            if target is None
            else to_typed(dictionary, ids, Contents(target))
            for ids, target in zip(rows.columns, types, strict=True)
        ]
    except Misfit:  # rare: then no fact is compared on Spark
        fits[:] = False
        rows = select(explicit, fits)
        arrays = [
            pa.array([], pa.string() if target is None else arrow_type(Contents(target))) for target in types
        ]
    table = pa.Table.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])
    is_same = np.zeros(rows.count, bool)
    faults = RejectedRows(OnError.SKIP)
    for read_rows, places in _facts(table, shape, _encode(engine), faults):
        pairs = zip(read_rows.columns, rows.columns, strict=True)
        is_same[places] = np.logical_and.reduce([read_ids == ids[places] for read_ids, ids in pairs])
    fits[fits] = is_same
    return table.filter(pa.array(is_same)), select(explicit, ~fits)


def changed_table(delta: PredicateDelta, types: Schema) -> Any:
    """Return the changes of a predicate in a transaction: its columns, and `insert` or `delete`."""
    parts = [
        table.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(change_type), table.num_rows))
        for change_type, rows in ((DELETE, delta.removed), (INSERT, delta.added))
        for table in (typed_table(rows, types),)
    ]
    return pa.concat_tables(parts)


def untyped(written: str, declaration: str) -> ProgramError:
    """Return the error that the types of an input are not known."""
    message = f"the types of the columns of `{written}` are not declared"
    help = f"facts outlive their frames: `@declare {declaration} .`, or give their schema in `inputs`"
    return ProgramError(Diagnostic(codes.UNTYPED, message, help=help))
