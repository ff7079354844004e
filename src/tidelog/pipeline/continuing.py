"""Whether a job can go on from a version: what it must not differ in, and what is derived anew otherwise."""

from __future__ import annotations

from tidelog.errors import DataError, Diagnostic, ProgramError, counted
from tidelog.logic.program import Program
from tidelog.logic.strata import entangled
from tidelog.pipeline import codes
from tidelog.pipeline.manifest import Manifest
from tidelog.pipeline.settings import Engine
from tidelog.temporal.analysis import time_cycle
from tidelog.temporal.reasoning import NOT_CHANGED
from tidelog.temporal.relation import BOUNDS


def check_columns(before: Manifest, program: Program) -> None:
    """Nothing, if the predicates have as many columns as were published; else raises `DataError`."""
    faults = []
    for name, table in before.tables.items():
        predicate, columns = program.predicates.get(name), len(table.columns) - table.times
        if predicate is not None and predicate.arity != columns:
            message = (
                f"`{predicate.written}` has {counted(predicate.arity, 'column')}, "
                f"and {columns} in version {before.version}"
            )
            help = "publish it anew, with all that depends on it, with --full"
            faults.append(Diagnostic(codes.DRIFT, message, predicate.span, help))
    if faults:
        raise DataError(faults)


def reason_for_anew(before: Manifest, then: Program, program: Program, engine: Engine) -> str | None:
    """Why everything must be derived anew, to go on from a version with a program; None if it need not."""
    now = engine.treatment_in(program)
    known = {before.treatment, now} - {None}
    if now != before.treatment and known != {"axiomatise"}:  # axioms come and go as rules do
        was, now = (text or "no such treatment" for text in (before.treatment, now))
        return f"version {before.version} is of `{was}`, and the job of `{now}`"
    for name, table in before.tables.items():
        if name in program.predicates and table.times != _times_of(name, program, engine):
            kind = "always" if name not in program.timed else "without end" if table.times else "at times"
            return f"`{table.written}` holds {kind}, otherwise than in version {before.version}"
    if then.rules is not program.rules and entangled((*then.timed_rules, *program.timed_rules)):
        return "rules over time that come and rules that go negate each other in a cycle"
    return None


def reason_in(error: ProgramError) -> str:
    """Why everything must be derived anew, as maintaining what holds at times has told; else raises it."""
    for fault in error.diagnostics:
        if fault.code == NOT_CHANGED:
            return fault.message
    raise error


def is_outdated(held: Program, program: Program) -> bool:
    """Whether a predicate that a reasoner knows from an earlier program held at times, and will not."""
    return not (held.timed & program.predicates.keys()) <= program.timed


def _times_of(name: str, program: Program, engine: Engine) -> int:
    """How many columns of a predicate's table tell when."""
    if name not in program.timed:
        return 0
    is_periodic = engine.horizon is None and bool(time_cycle(program.timed_rules))
    return len(BOUNDS) + is_periodic


def has_changed(what: str) -> DataError:
    """The error for a change without a run, while the job is another one than that of the last version."""
    message = f"{what} has changed since the last version was published"
    return DataError(Diagnostic(codes.DRIFT, message, help="run the job first"))


def no_advance(place: str | None = None) -> DataError:
    """The error for time that is to advance."""
    message = "time cannot advance in a pipeline: what is published keeps all times"
    help = "leave `@advance` out, or use a store"
    return DataError(Diagnostic(codes.TIMED, message, place=place, help=help))
