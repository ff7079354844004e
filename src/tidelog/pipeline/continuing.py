"""Whether a job can go on from a version: what it must not differ in, and what is derived anew otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidelog.errors import DataError, Diagnostic, ProgramError, counted
from tidelog.logic.program import Program
from tidelog.logic.strata import entangled
from tidelog.pipeline import codes
from tidelog.pipeline.manifest import Input, Manifest
from tidelog.pipeline.settings import Engine
from tidelog.reasoner.transaction import Change
from tidelog.store.codes import NOT_STORABLE
from tidelog.temporal.analysis import time_cycle
from tidelog.temporal.reasoning import NOT_CHANGED
from tidelog.temporal.relation import BOUNDS


def check_columns(before: Manifest, program: Program) -> None:
    """Raise `DataError` if predicates have other numbers of columns than were published."""
    faults = []
    for predicate in program.predicates.values():
        types = before.origin.types.get(predicate.written) if predicate.written in before.tables else None
        if types is not None and predicate.arity != len(types):
            message = (
                f"`{predicate.written}` has {counted(predicate.arity, 'column')}, "
                f"and {len(types)} in version {before.version}"
            )
            help = "publish it anew, with all that depends on it, with --full"
            faults.append(Diagnostic(codes.DRIFT, message, predicate.span, help))
    if faults:
        raise DataError(faults)


def reason_for_anew(before: Manifest, then: Program, program: Program, engine: Engine) -> str | None:
    """Return why everything must be derived anew, to go on from a version with a program, if it must."""
    now, was = engine.treatment_in(program), before.origin.treatment
    if now != was and {was, now} - {None} != {"axiomatise"}:  # axioms come and go as rules do
        shown = [text or "no such treatment" for text in (was, now)]
        return f"version {before.version} is of `{shown[0]}`, and the job of `{shown[1]}`"
    for name, predicate in program.predicates.items():
        published = predicate.written in before.tables
        times = before.origin.times.get(predicate.written, 0)
        if published and times != _times_of(name, program, engine):
            kind = "always" if name not in program.timed else "without end" if times else "at times"
            return f"`{predicate.written}` holds {kind}, otherwise than in version {before.version}"
    if then.rules is not program.rules and entangled((*then.timed_rules, *program.timed_rules)):
        return "rules over time that come and rules that go negate each other in a cycle"
    return None


def edited_inputs(inputs: Mapping[str, Input], change: Change) -> Mapping[str, Input]:
    """The inputs; tables of predicates whose facts a transaction changes no longer tell all of these."""
    names = {*change.added, *change.deleted, *(name for name, _ in change.times.added + change.times.removed)}
    return {
        key: replace(each, is_edited=True) if each.version is not None and each.predicate in names else each
        for key, each in inputs.items()
    }


def reason_in(error: ProgramError) -> str:
    """Why everything must be derived anew, as maintaining what holds at times has told; else raises it."""
    for fault in error.diagnostics:
        if fault.code == NOT_CHANGED:
            return fault.message
    raise error


def reason_not_to_open(error: DataError) -> str:
    """Return why everything must be derived anew, as opening the state has told; else raise the error."""
    for fault in error.diagnostics:
        if fault.code == NOT_STORABLE:  # other settings than it was made with
            return fault.message
    raise error


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
    message = "time cannot advance in a pipeline by a change script"
    help = "give a stream of records an `event-time`: time advances by its watermark"
    return DataError(Diagnostic(codes.TIMED, message, place=place, help=help))
