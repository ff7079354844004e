"""The guards of a run: what is measured for them, and the check before anything is published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Protocol

from tidelog.data.relation import Relation
from tidelog.logic.program import Predicate, Program
from tidelog.pipeline.drops import aside_of, published_as
from tidelog.pipeline.guard_settings import resolve
from tidelog.pipeline.guards import (
    MOST_SAMPLES,
    Finding,
    Guards,
    Limits,
    Measures,
    SourceMeasure,
    Violations,
    check,
    stop_on_failure,
)
from tidelog.pipeline.inputs import STATED
from tidelog.pipeline.manifest import Input, Manifest
from tidelog.pipeline.settings import Settings, Source
from tidelog.reasoner.reasoner import Reasoner
from tidelog.temporal.relation import TimedRelation

_IMPORTED: Final = Limits(allow_empty=True)  # only a [[source]] can say what it allows


class Taking(Protocol):
    """What a run has taken in."""

    inputs: dict[str, Input]

    def newest(self, key: str) -> int | None:
        """Return when the newest file of an input was written, in nanoseconds, if that is known."""


class Rows(Protocol):
    """The facts that a version is to have."""

    def count(self, predicate: Predicate) -> int:
        """Return how many facts a predicate has."""

    def violations(self, predicate: Predicate) -> Violations:
        """Return how many facts a predicate has, and some of them."""


@dataclass(frozen=True)
class ReasonerRows:
    """The facts of a reasoner, of which everything has been derived, perhaps in a transaction that is open.

    `program` is that of the reasoner, or what the transaction makes of it.
    """

    reasoner: Reasoner
    program: Program

    def _relation(self, predicate: Predicate) -> Relation:
        reasoner, name = self.reasoner, predicate.name
        if name in self.program.timed:
            return reasoner.time.relation(predicate)
        listing = reasoner.listing()
        if listing is None:
            columns, count = reasoner.engine.rows(name)
        else:
            listed = listing.rows(name)
            columns, count = listed.columns, listed.count
        return Relation(predicate.written, predicate.names, columns, count, reasoner.engine.dictionary)

    def count(self, predicate: Predicate) -> int:
        """Return how many facts a predicate has."""
        return len(self._relation(predicate))

    def violations(self, predicate: Predicate) -> Violations:
        """Return how many facts a predicate has, and some of them."""
        relation = self._relation(predicate)
        some = relation.head(MOST_SAMPLES)
        rows = some if isinstance(some, TimedRelation) else some.to_texts().rows()
        return Violations(len(relation), relation.columns, tuple(tuple(map(str, row)) for row in rows))


@dataclass(frozen=True)
class TableRows:
    """The rows of tables: those of a published version, or those that tasks have written for one."""

    counts: Mapping[str, int]
    read: Callable[[str], Any]  # gives a table, or its first rows

    def count(self, predicate: Predicate) -> int:
        """Return how many rows the table of a predicate has."""
        return self.counts.get(predicate.written, 0)

    def violations(self, predicate: Predicate) -> Violations:
        """Return how many rows the table of a predicate has, and some of them."""
        count = self.count(predicate)
        if not count:
            return Violations(0, predicate.names)
        table = self.read(predicate.written).slice(0, MOST_SAMPLES)
        rows = islice(zip(*table.to_pydict().values(), strict=True), MOST_SAMPLES)
        return Violations(count, tuple(table.column_names), tuple(tuple(map(str, row)) for row in rows))


class Guarding:
    """The guards of one run, and what they have found. Mutates itself."""

    def __init__(self, settings: Settings, program: Program) -> None:
        self.settings = settings
        self.program = program
        self.guards: Guards = resolve(settings.guards, program)
        self.measures: Measures | None = None
        self.findings: tuple[Finding, ...] = ()
        self._limits = {key_of(source, program): source.limits for source in settings.sources}

    def check(self, taking: Taking, before: Manifest | None, rows: Rows) -> None:
        """Check what a run would publish; raise `GuardFailed` if it must not be published."""
        names = source_names(taking.inputs)
        limits = {name: self._limits.get(key, _IMPORTED) for key, name in names.items()}
        self.guards = replace(self.guards, sources=limits)
        measures = Measures(
            tuple(self._source(name, key, taking) for key, name in names.items()),
            self._counts(rows),
            {one.predicate: rows.violations(self._predicate(one.predicate)) for one in self._expectations},
            datetime.now(UTC),
            {name: rows.count(aside) for name in self._counted() if (aside := aside_of(name, self.program))},
        )
        self.measures = measures
        self.findings = check(measures, None if before is None else self._previous(before), self.guards)
        stop_on_failure(self.findings)

    @property
    def _expectations(self) -> tuple[Any, ...]:
        return self.guards.expectations

    def _predicate(self, name: str) -> Predicate:
        return published_as(name, self.program)

    def _counted(self) -> list[str]:
        """Return the predicates whose rows are counted."""
        of = [one.of for one in self._expectations if one.of is not None]
        return list(dict.fromkeys((*self.guards.predicates, *of)))

    def _counts(self, rows: Rows) -> dict[str, int]:
        return {name: rows.count(self._predicate(name)) for name in self._counted()}

    def _source(self, name: str, key: str, taking: Taking) -> SourceMeasure:
        has_limit = self._limits.get(key, _IMPORTED).max_age is not None
        newest = taking.newest(key) if has_limit else None
        return source_measure(name, taking.inputs[key], newest)

    def _previous(self, before: Manifest) -> Measures:
        names = source_names(before.inputs)
        written = {name: self._predicate(name).written for name in self._counted()}
        return Measures(
            tuple(source_measure(name, before.inputs[key]) for key, name in names.items()),
            {name: before.tables[table].rows for name, table in written.items() if table in before.tables},
        )


def source_measure(name: str, found: Input, newest: int | None = None) -> SourceMeasure:
    """Return what was read of an input; `newest` is when its newest file was written, in nanoseconds."""
    written = None if newest is None else datetime.fromtimestamp(newest / 1e9, UTC)
    rows = found.rows - found.filtered
    return SourceMeasure(name, found.predicate, rows, found.rejected, found.filtered, written)


def source_names(inputs: Mapping[str, Input]) -> dict[str, str]:
    """Return what messages call the sources and imports among inputs, by their keys; no two are the same."""
    shown = [found.shown for found in inputs.values()]
    return {
        key: found.shown if shown.count(found.shown) == 1 else key
        for key, found in inputs.items()
        if found.shown != STATED
    }


def key_of(source: Source, program: Program) -> str:
    """Return the key of the input that a source becomes."""
    predicate = program.find(source.predicate)
    name = source.predicate if predicate is None else predicate.name
    return f"{name} < {', '.join(source.paths) or source.shown}"
