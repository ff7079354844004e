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

from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.columnar.exact import ids_of_terms, terms_of
from tidelog.logic.program import Program, Rule
from tidelog.logic.terms import exact, read_exact
from tidelog.logic.time import Interval
from tidelog.maintenance.maintainer import Ids, Rows, Update
from tidelog.query.demands import Asked
from tidelog.store.journal import Record
from tidelog.store.program_form import (
    interval_of,
    interval_to_json,
    rule_of,
    rule_to_json,
    surroundings_to_json,
    with_rules,
)
from tidelog.store.snapshot import asked_of, asked_to_json
from tidelog.temporal.changing import TimedRows, TimedUpdate, Times
from tidelog.temporal.lists import Timeline

FEW = 32  # rows that are written one by one: more are faster as columns
CHANGE, KEEP, FORGET = "change", "keep", "forget"


def change_record(
    stated: Update,
    times: TimedUpdate,
    before: Program,
    after: Program,
    dictionary: Dictionary,
    commits: int,
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
        self.number = record.number
        self._form: dict[str, Any] = json.loads(record.content)

    @property
    def kind(self) -> str:
        """CHANGE, KEEP or FORGET."""
        return str(self._form["is"])

    @property
    def commit(self) -> int:
        """The number of the transaction."""
        return int(self._form["commit"])

    @property
    def asked(self) -> Asked:
        """The query that is kept."""
        return asked_of(self._form["asked"])

    @property
    def name(self) -> str:
        """The name of the query that is kept no longer."""
        return str(self._form["name"])

    def facts(self, sign: str, dictionary: Dictionary) -> dict[str, Rows]:
        """The facts that went, `-`, or came, `+`."""
        return {name: _rows_of(form, dictionary) for name, form in self._form.get(sign, {}).items()}

    def times(self, sign: str, dictionary: Dictionary) -> list[tuple[str, TimedRows]]:
        """The facts with times that went, `-`, or came, `+`."""
        return [(name, _timed_of(form, dictionary)) for name, *form in self._form.get(f"{sign} times", ())]

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
        return with_rules(self._form["program"], before.rules if same else (*rules, *added))


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
    rows = _rows_of(said, dictionary)
    left, right = (np.array(each, np.int64) for each in ends)
    return TimedRows(rows.columns, rows.count, Times(Timeline(*means), left, right))


def _texts(column: Ids, dictionary: Dictionary) -> list[str]:
    if len(column) <= FEW:
        return [exact(dictionary.decode(identity)) for identity in column.tolist()]
    texts: list[str] = terms_of(column, dictionary).to_pylist()
    return texts


def _rows_of(form: list[Any], dictionary: Dictionary) -> Rows:
    count, *columns = form
    return Rows(tuple(_ids(column, dictionary) for column in columns), count)


def _ids(texts: list[str], dictionary: Dictionary) -> Ids:
    if len(texts) <= FEW:
        return np.array([dictionary.encode(read_exact(text)) for text in texts], np.int32)
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    ids = ids_of_terms(encoded.dictionary, dictionary)
    taken: Ids = ids[encoded.indices.to_numpy()]
    return taken
