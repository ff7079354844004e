"""What a journal's records say: transactions as they were stated, normalised, and queries kept or forgotten.

JSON, facts as columns of exact terms, rules as `program_form` writes them. Ids are not in it: whoever replays
a record gives its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.data.dictionary import Dictionary
from tidelog.engine.columnar.exact import ids_of_terms, terms_of
from tidelog.errors import counted
from tidelog.logic.intervals import Interval
from tidelog.logic.program import Program, Rule
from tidelog.logic.terms import exact, read_exact
from tidelog.maintenance.maintainer import Update
from tidelog.maintenance.row_sets import Ids, Rows
from tidelog.query.kept_queries import Asked
from tidelog.store.journal import Record
from tidelog.store.program_form import (
    INTERVAL,
    SURROUNDINGS,
    interval_of,
    interval_to_json,
    rule_of,
    rule_to_json,
    surroundings_to_json,
    with_rules,
)
from tidelog.store.shapes import (
    FormError,
    anything,
    fields,
    integer,
    loaded,
    many,
    named,
    natural,
    one_of,
    row,
    text,
    truth,
)
from tidelog.store.snapshot import ASKED, asked_of, asked_to_json
from tidelog.store.state import BatchId
from tidelog.store.state_checks import check_program
from tidelog.temporal.changing import TimedRows, TimedUpdate, Times
from tidelog.temporal.list_kernels import INFINITY, LIMIT
from tidelog.temporal.lists import Timeline

CHANGE, KEEP, FORGET = "change", "keep", "forget"
BATCH = row(text, natural, text)
ROWS = many(anything)  # how many, and a list of terms for each column
TIMED = row(text, ROWS, row(natural, truth, truth), many(integer), many(integer))
SHAPES = {
    CHANGE: fields(
        {"commit": natural},
        {
            **dict.fromkeys(("-", "+"), named(ROWS)),
            **dict.fromkeys(("- times", "+ times"), many(TIMED)),
            "advance": INTERVAL,
            **dict.fromkeys(("- rules", "+ rules"), many(anything)),
            "program": fields(SURROUNDINGS, {"given_times": many(text)}),
            "batch": BATCH,
        },
    ),
    KEEP: fields({"asked": ASKED}),
    FORGET: fields({"name": text}),
}
FEW = 32  # rows that are written one by one: more are faster as columns


def change_record(
    stated: Update,
    times: TimedUpdate,
    before: Program,
    after: Program,
    dictionary: Dictionary,
    commits: int,
    batch: BatchId | None = None,
) -> bytes:
    """A transaction that leads from one program to another."""
    form: dict[str, Any] = {"is": CHANGE, "commit": commits}
    for sign, facts in (("-", stated.removed), ("+", stated.added)):
        if facts:
            form[sign] = {name: _rows_to_json(rows, dictionary) for name, rows in facts.items()}
    for sign, timed in (("-", times.removed), ("+", times.added)):
        if timed:
            form[f"{sign} times"] = [[name, *_timed_to_json(rows, dictionary)] for name, rows in timed]
    if times.advance is not None:
        form["advance"] = interval_to_json(times.advance)
    for sign, rules in (("- rules", stated.rules_removed), ("+ rules", stated.rules_added)):
        if rules:
            form[sign] = [rule_to_json(rule) for rule in rules]
    if after is not before:
        form["program"] = surroundings_to_json(after)
    if batch is not None:
        form["batch"] = list(batch)
    return _written(form)


def keep_record(asked: Asked) -> bytes:
    """That a query is kept from now on."""
    return _written({"is": KEEP, "asked": asked_to_json(asked)})


def forget_record(asked: Asked) -> bytes:
    """That a query is kept no longer."""
    return _written({"is": FORGET, "name": asked.name})


def _written(form: Mapping[str, Any]) -> bytes:
    return json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode()


class Said:
    """What a record says, read when it is asked for."""

    def __init__(self, record: Record) -> None:
        """Read a record; raises `FormError` if it is not what records are."""
        self.number = record.number
        self._form: dict[str, Any] = loaded(record.content, fields({"is": one_of(CHANGE, KEEP, FORGET)}))
        SHAPES[self._form["is"]](self._form, "")

    @property
    def kind(self) -> str:
        """CHANGE, KEEP or FORGET."""
        return str(self._form["is"])

    @property
    def commit(self) -> int:
        """The number of the transaction."""
        return int(self._form["commit"])

    @property
    def batch(self) -> BatchId | None:
        """The batch that the transaction was of, if it was of one."""
        return BatchId(*self._form["batch"]) if "batch" in self._form else None

    @property
    def asked(self) -> Asked:
        """The query that is kept."""
        return asked_of(self._form["asked"])

    @property
    def name(self) -> str:
        """The name of the query that is kept no longer."""
        return str(self._form["name"])

    def facts(self, sign: str, dictionary: Dictionary, program: Program) -> dict[str, Rows]:
        """The facts that went, `-`, or came, `+`; raises `FormError` if they cannot be those of a program."""
        found = {name: _rows_of(form, dictionary) for name, form in self._form.get(sign, {}).items()}
        for name, rows in found.items():
            _check_arity(name, rows, program)
        return found

    def times(self, sign: str, dictionary: Dictionary, program: Program) -> list[tuple[str, TimedRows]]:
        """The facts with times that went, `-`, or came, `+`; raises `FormError` if they cannot be."""
        found = [(name, _timed_of(form, dictionary)) for name, *form in self._form.get(f"{sign} times", ())]
        for name, rows in found:
            _check_arity(name, rows, program)
        return found

    @property
    def advance(self) -> Interval | None:
        """The point that time advanced to, if it did."""
        return interval_of(self._form["advance"]) if "advance" in self._form else None

    def program(self, before: Program) -> Program:
        """The program afterwards, if this is the one before."""
        if "program" not in self._form:
            return before
        gone = [rule_of(form) for form in self._form.get("- rules", ())]
        added = tuple(rule_of(form) for form in self._form.get("+ rules", ()))
        rules = _without(before.rules, gone)
        same = not gone and not added
        program = with_rules(self._form["program"], before.rules if same else (*rules, *added))
        check_program(program)
        return program


def _check_arity(name: str, rows: Rows, program: Program) -> None:
    """Raise `FormError` if a program has no such predicate of as many columns."""
    known = program.predicates.get(name)
    if known is None or known.arity != len(rows.columns):
        raise FormError(f"there is no predicate `{name}` of {counted(len(rows.columns), 'column')}")


def _without(rules: tuple[Rule, ...], gone: list[Rule]) -> tuple[Rule, ...]:
    """The rules but for those that went, each once."""
    left = list(gone)
    kept = []
    for rule in rules:
        if rule in left:
            left.remove(rule)
        else:
            kept.append(rule)
    return tuple(kept)


def _rows_to_json(rows: Rows, dictionary: Dictionary) -> list[Any]:
    """How many rows there are, and the columns as exact terms."""
    return [rows.count, *(_texts(column, dictionary) for column in rows.columns)]


def _timed_to_json(rows: TimedRows, dictionary: Dictionary) -> list[Any]:
    """The rows, the timeline, and the ends of their intervals on it."""
    times = rows.times
    assert times is not None
    timeline = times.timeline
    means = [timeline.scale, timeline.is_integer, timeline.is_calendar]
    return [_rows_to_json(rows, dictionary), means, times.left.tolist(), times.right.tolist()]


def _timed_of(form: list[Any], dictionary: Dictionary) -> TimedRows:
    said, means, *ends = form
    rows = _rows_of(said, dictionary, is_timed=True)
    left, right = (np.array(each, np.int64) for each in ends)
    is_whole = len(left) == len(right) == rows.count and means[0] > 0 and bool((left <= right).all())
    in_range = all(((abs(each) <= LIMIT) | (abs(each) == INFINITY)).all() for each in (left, right))
    if not is_whole or not in_range:
        raise FormError("facts have intervals that are none")
    return TimedRows(rows.columns, rows.count, Times(Timeline(*means), left, right))


def _texts(column: Ids, dictionary: Dictionary) -> list[str]:
    if len(column) <= FEW:
        return [exact(dictionary.decode(identity)) for identity in column.tolist()]
    texts: list[str] = terms_of(column, dictionary).to_pylist()
    return texts


def _rows_of(form: list[Any], dictionary: Dictionary, is_timed: bool = False) -> Rows:
    """Rows as they are written; those with times may differ in these alone."""
    count, *columns = form
    natural(count, "a number of rows")
    for place, column in enumerate(columns):
        many(text)(column, f"column {place + 1}")
        if len(column) != count:
            raise FormError(f"a column has {counted(len(column), 'row')} instead of {count}")
    if not columns and count > 1 and not is_timed:
        raise FormError(f"{count} rows do not differ")
    return Rows(tuple(_ids(column, dictionary) for column in columns), count)


def _ids(texts: list[str], dictionary: Dictionary) -> Ids:
    if len(texts) <= FEW:
        return np.array([dictionary.encode(read_exact(text)) for text in texts], np.int32)
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    ids = ids_of_terms(encoded.dictionary, dictionary)
    taken: Ids = ids[encoded.indices.to_numpy()]
    return taken
