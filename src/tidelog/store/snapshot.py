"""Snapshots: a whole state in one file, a section for each column, written once and never changed.

    header    magic, version of the format, checksum of both
    sections  the arrays, one after the other, each with a checksum in the index
    index     JSON: the program, and the positions of the columns of the dictionary and of each relation
    trailer   the position of the index, its checksum, a checksum of that, magic

The file gets its name when it is whole and on the disk, so a file of that name is whole. Every byte of it is
under some checksum.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from tidelog import durable
from tidelog.engine.columnar.storage.engine_state import (
    COUNTERS,
    ENDS,
    DictionaryState,
    EngineState,
    TableState,
)
from tidelog.engine.flags import CounterKind
from tidelog.equality import NAMES as TREATMENTS
from tidelog.errors import DataError, Diagnostic, codes
from tidelog.logic.program import Variable
from tidelog.query.kept_queries import KeptQuery
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import is_auxiliary
from tidelog.rewrite.representatives import ALIAS
from tidelog.store import forms
from tidelog.store.forms import (
    SECTION,
    Array,
    BatchId,
    FileSection,
    FormError,
    StoredState,
    anything,
    fields,
    integer,
    loaded,
    many,
    named,
    natural,
    one_of,
    packed,
    reading,
    row,
    some_of,
    text,
    truth,
    unpacked,
)
from tidelog.store.json_forms import (
    PROGRAM,
    QUERY,
    TIME,
    given_only,
    program_of,
    program_to_json,
    query_of,
    query_to_json,
    rule_of,
    rule_to_json,
    time_of,
    time_sections,
    time_to_json,
)
from tidelog.store.state_checks import check_asked, check_engine, check_program, check_times
from tidelog.temporal.temporal import TimeState

VERSION = 3  # 1 had no times, 2 no superblock
MAGIC, END = b"TIDESNAP", b"TIDEDONE"
HEADER = struct.Struct("<8sII")
TRAILER = struct.Struct("<QQII8s")
DICTIONARY = ("kind", "payload", "extent", "extra", "heap")
KEPT_QUERY = fields({"name": text, "query": QUERY, "parameters": many(text)})
TABLE = fields(
    {
        "name": text,
        "columns": many(SECTION),
        "flags": SECTION,
        "counters": some_of(dict.fromkeys(COUNTERS, SECTION)),
        "ends": fields(dict.fromkeys(ENDS, natural)),
        "scratch": truth,
        "rounds": row(many(natural), integer, many(text)),
    }
)
ENGINE = fields(
    {
        "counters": one_of(*(each.value for each in CounterKind)),
        **dict.fromkeys(("clock", "epoch", "counts"), natural),
        "instances": integer,
        "counted": many(row(anything, natural)),
        "rounds": named(natural),
        "closed": many(text),
    }
)
INDEX = fields(
    {
        **dict.fromkeys(("sequence", "commits"), natural),
        **dict.fromkeys(("loaded", "derived"), integer),
        "settings": fields({"equality": one_of(*TREATMENTS), "unique_names": truth}),
        "beside": fields({}, {"time": TIME, "batches": many(row(text, natural, text))}),
        "program": PROGRAM,
        "asked": many(KEPT_QUERY),
        "engine": ENGINE,
        "dictionary": fields(dict.fromkeys(DICTIONARY, SECTION)),
        "tables": many(TABLE),
    }
)
KNOWN_ADDITIONAL = frozenset({"time", "batches"})  # what this version understands in addition to the engine


# ---- writing


def write(path: Path, state: StoredState) -> tuple[int, int]:
    """Write a state to a file on the disk; return its size, and its checksum for the superblock.

    On any error there is no such file.
    """
    with durable.replacing(path) as descriptor:
        return _Writer(descriptor).write(state)


class _Writer:
    """Writes one snapshot. Mutable: it has the current offset."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.offset = 0

    def write(self, state: StoredState) -> tuple[int, int]:
        """Write all of a state; return how many bytes it takes, and the checksum of its index."""
        begin = struct.pack("<8sI", MAGIC, VERSION)
        self._put(HEADER.pack(MAGIC, VERSION, crc32(begin)))
        index = json.dumps(self._index(state), ensure_ascii=False, separators=(",", ":")).encode()
        place = self.offset
        self._put(index)
        fields = struct.pack("<QQI", place, len(index), crc32(index))
        self._put(TRAILER.pack(place, len(index), crc32(index), crc32(fields), END))
        return self.offset, crc32(index)

    def _put(self, data: bytes | memoryview) -> None:
        durable.write_all(self.descriptor, data)
        self.offset += len(data)

    def _section(self, array: Array) -> list[Any]:
        section, data = packed(array, self.offset)
        self._put(data)
        return section.to_json()

    def _index(self, state: StoredState) -> dict[str, Any]:
        """Return the index of the written sections."""
        engine = state.engine
        return {
            "format": VERSION,
            "sequence": state.sequence,
            "commits": state.commits,
            "loaded": state.loaded,
            "derived": state.derived,
            "settings": dict(state.settings),
            "beside": self._additional(state),
            "program": program_to_json(state.program),
            "asked": [kept_query_to_json(query) for query in state.asked],
            "engine": {
                "counters": engine.counters.value,
                "clock": engine.clock,
                "epoch": engine.epoch,
                "counts": engine.counts,
                "instances": engine.instances,
                "counted": [[rule_to_json(rule), count] for rule, count in engine.counted],
                "rounds": dict(engine.rounds),
                "closed": list(engine.closed),
            },
            "dictionary": {name: self._section(getattr(engine.dictionary, name)) for name in DICTIONARY},
            "tables": [self._table(table) for table in engine.tables],
        }

    def _additional(self, state: StoredState) -> dict[str, Any]:
        """Return the parts that only some states have."""
        parts: dict[str, Any] = {}
        if state.time is not None:
            parts["time"] = time_to_json(state.time, self._section)
        if state.batches:
            parts["batches"] = [list(batch) for batch in state.batches.values()]
        return parts

    def _table(self, table: TableState) -> dict[str, Any]:
        return {
            "name": table.name,
            "columns": [self._section(column) for column in table.columns],
            "flags": self._section(table.flags),
            "counters": {name: self._section(counter) for name, counter in table.counters.items()},
            "ends": dict(table.ends),
            "scratch": table.is_scratch,
            "rounds": [list(table.rounds), table.rounds_epoch, sorted(table.rounds_of)],
        }


def kept_query_to_json(query: KeptQuery) -> dict[str, Any]:
    """Return the form of a live or prepared query."""
    parameters = [variable.name for variable in query.parameters]
    return {"name": query.name, "query": query_to_json(query.query), "parameters": parameters}


def kept_query_of(form: Mapping[str, Any]) -> KeptQuery:
    """The live or prepared query of a form."""
    parameters = tuple(Variable(name) for name in form["parameters"])
    return KeptQuery(form["name"], query_of(form["query"]), parameters)


# ---- reading


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """A column of a snapshot, with its name for people."""

    relation: str | None  # None: the dictionary
    name: str
    section: FileSection
    is_derived: bool = False  # it can be derived again

    def __str__(self) -> str:
        return f"{self.name} of `{self.relation}`" if self.relation else f"{self.name} of the dictionary"


class Snapshot:
    """An open file of a state; the index is valid, sections are checked when they are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size < HEADER.size + TRAILER.size:
                raise forms.damaged(path, f"the snapshot has only {size:,} bytes")
            self._data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        self.size = size
        self.version = 0
        self.checksum = 0  # of the index
        self.index: dict[str, Any] = self._read_index()

    def close(self) -> None:
        """Close the file."""
        self._data.close()

    @property
    def has_superblock(self) -> bool:
        """Whether a superblock belongs to the snapshot."""
        return self.version > 2

    @property
    def sequence(self) -> int:
        """The number of the last record that it includes."""
        return int(self.index["sequence"])

    def _read_index(self) -> dict[str, Any]:
        magic, version, checksum = HEADER.unpack(self._data[: HEADER.size])
        is_right = magic == MAGIC and checksum == crc32(struct.pack("<8sI", magic, version))
        if not is_right:
            raise forms.damaged(self.path, "the snapshot has no valid header")
        forms.check_version(self.path, version, VERSION)
        self.version = version
        end = self.size - TRAILER.size
        place, length, of_index, of_fields, magic = TRAILER.unpack(self._data[end:])
        fields = struct.pack("<QQI", place, length, of_index)
        if magic != END or of_fields != crc32(fields) or place + length != end:
            raise forms.damaged(self.path, "the snapshot has no valid end")
        index = self._data[place:end]
        if crc32(index) != of_index:
            raise forms.damaged(self.path, "the index of the snapshot is damaged")
        self.checksum = of_index
        with forms.understood(self.path):
            form: dict[str, Any] = loaded(index, anything)
            if isinstance(form, dict) and isinstance(form.get("beside"), dict):
                _check_additional(self.path, form["beside"])
            INDEX(form, "")
            for part in _parts(form):
                part.section.check(place)
            _check_sizes(form)
        return form

    def parts(self) -> Iterator[SnapshotPart]:
        """All columns."""
        return _parts(self.index)

    def is_right(self, section: FileSection) -> bool:
        """Whether the bytes of a section are those that were written."""
        return crc32(self._bytes(section)) == section.checksum

    def _bytes(self, section: FileSection) -> memoryview:
        return memoryview(self._data)[section.offset : section.offset + section.size]

    def array(self, form: list[Any], subject: str) -> Array:
        """Return the array of a section; raise `DataError` if it is damaged."""
        section = FileSection(*form)
        if not self.is_right(section):
            raise forms.damaged(self.path, f"the snapshot is damaged: {subject}")
        return unpacked(section, self._bytes(section))

    def state(self, *, without_tables: bool = False) -> StoredState:
        """All that the snapshot holds, or all but relations, closures and kept queries.

        Of what holds at times what is given stays, as far as it is whole.
        """
        index = self.index
        if without_tables:
            index = self._without_tables(index)
        with forms.understood(self.path), reading("the index"):
            state = StoredState(
                program_of(index["program"]),
                tuple(map(kept_query_of, index["asked"])),
                self._engine(index),
                index["sequence"],
                index["commits"],
                index["loaded"],
                index["derived"],
                index["settings"],
                self._time(index["beside"].get("time")),
                {form[0]: BatchId(*form) for form in index["beside"].get("batches", ())},
            )
            check_state(state)
        return state

    def _without_tables(self, index: Mapping[str, Any]) -> dict[str, Any]:
        additional = dict(index["beside"])
        if "time" in additional:
            additional["time"] = given_only(
                additional["time"], lambda section: self.is_right(FileSection(*section))
            )
        engine = {**index["engine"], "closed": []}
        return {**index, "asked": [], "tables": [], "engine": engine, "beside": additional}

    def _time(self, form: Mapping[str, Any] | None) -> TimeState | None:
        return None if form is None else time_of(form, self.array)

    def _engine(self, index: Mapping[str, Any]) -> EngineState:
        form = index["engine"]
        return EngineState(
            self.dictionary(),
            tuple(self.table(each) for each in index["tables"]),
            CounterKind(form["counters"]),
            form["clock"],
            form["epoch"],
            form["counts"],
            form["instances"],
            tuple((rule_of(rule), count) for rule, count in form["counted"]),
            form["rounds"],
            tuple(form["closed"]),
        )

    def dictionary(self) -> DictionaryState:
        """The values."""
        sections = self.index["dictionary"]
        return DictionaryState(
            *(self.array(sections[name], f"{name} of the dictionary") for name in DICTIONARY)
        )

    def table(self, form: Mapping[str, Any]) -> TableState:
        """Read the rows of a relation, unchecked."""
        name = form["name"]
        rounds, epoch, together = form["rounds"]
        return TableState(
            name,
            tuple(
                self.array(section, f"column {position} of `{name}`")
                for position, section in enumerate(form["columns"], 1)
            ),
            self.array(form["flags"], f"flags of `{name}`"),
            {
                counter: self.array(section, f"{counter} of `{name}`")
                for counter, section in form["counters"].items()
            },
            form["ends"],
            form["scratch"],
            tuple(rounds),
            epoch,
            frozenset(together),
        )


def _parts(index: Mapping[str, Any]) -> Iterator[SnapshotPart]:
    """All columns of an index."""
    for name in DICTIONARY:
        yield SnapshotPart(None, name, FileSection(*index["dictionary"][name]))
    for table in index["tables"]:
        is_made = is_rederived(table["name"])
        for position, section in enumerate(table["columns"], 1):
            yield SnapshotPart(table["name"], f"column {position}", FileSection(*section), is_made)
        yield SnapshotPart(table["name"], "flags", FileSection(*table["flags"]), is_made)
        for name, section in table["counters"].items():
            yield SnapshotPart(table["name"], name, FileSection(*section))
    for relation, name, section, is_derived in time_sections(index["beside"].get("time")):
        yield SnapshotPart(relation, name, FileSection(*section), is_derived)


def _check_sizes(index: Mapping[str, Any]) -> None:
    """Raise `FormError` if there are more rows than can differ: rows that are all equal need no bytes."""
    timed = index["beside"].get("time")
    tables = [*index["tables"], *(() if timed is None else (*timed["given"], *timed["tables"]))]
    parts = {"the dictionary": [index["dictionary"][name] for name in DICTIONARY[:4]]}
    parts |= {f"`{table['name']}`": table["columns"] for table in tables}
    for name, sections in parts.items():
        places = [FileSection(*each) for each in sections]
        rows = max((each.count for each in places), default=0)
        if rows > 1 and max(each.size for each in places) < rows:
            raise FormError(f"{name} has duplicate rows")
    for table in tables:
        rows = FileSection(*table["columns"][0]).count if table["columns"] else 1
        for name in ("flags", "count"):
            if name in table and FileSection(*table[name]).count > rows:
                raise FormError(f"{name} of `{table['name']}` are of more rows than there are")
        for name in ("left", "right"):  # a fact has one interval at most that begins, or ends, there
            if (
                name in table
                and not FileSection(*table[name]).width
                and FileSection(*table[name]).count > rows
            ):
                raise FormError(f"`{table['name']}` has duplicate intervals")
        for name, section in table.get("counters", {}).items():
            if FileSection(*section).count > rows:
                raise FormError(f"{name} of `{table['name']}` is of more rows than there are")


def check_state(state: StoredState) -> None:
    """Raise `FormError` if this cannot be the state of a reasoner."""
    check_program(state.program)
    for query in state.asked:
        check_asked(query, state.program)
    check_engine(state.engine)
    if state.time is not None:
        check_times(state.time, state.program, len(state.engine.dictionary.kind))


def is_rederived(relation: str) -> bool:
    """Return whether a relation has no explicit facts: rows of aggregates, classes of equal constants."""
    return is_auxiliary(relation) or relation == ALIAS


def _check_additional(path: Path, additional: Mapping[str, Any]) -> None:
    """Raise `DataError` if the store has additional data of an unknown kind."""
    unknown = sorted(additional.keys() - KNOWN_ADDITIONAL)
    if unknown:
        message = f"the store holds {', '.join(unknown)}, which this tidelog does not know"
        help = "open it with a newer tidelog"
        raise DataError(Diagnostic(codes.NEWER, message, place=str(path), help=help))
