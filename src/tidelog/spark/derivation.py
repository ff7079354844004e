"""The functions of `tidelog.spark` that derive: lazy, without a session argument.

Begin with `derive`: `stages.BoundProgram` binds the program to the frames and chooses where it runs, and the
frames of its outputs are returned as `frames.Derived`. Spark runs the tasks when an output is used, once for
each action. `query`, `explain`, `rules` and `check` work likewise. With the frames of previously derived
facts, `derive` applies a change to them: `Rederivation`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructType

from tidelog.data.relation import column_names
from tidelog.errors import Diagnostic, ProgramError, codes
from tidelog.errors.codes import EMPTY_PREDICATE
from tidelog.io.rejects import OnError
from tidelog.logic.import_options import Nulls
from tidelog.logic.program import Program
from tidelog.logic.resolve import program_of
from tidelog.logic.strata import Stratum, strata
from tidelog.logic.type_inference import infer
from tidelog.logic.types import Type, Types
from tidelog.logic.values import ColumnType
from tidelog.proof import MOST_ROWS
from tidelog.proof.explanation import Explanation
from tidelog.reasoner.delta import find_predicate
from tidelog.reasoner.explaining import MOST_ANSWERS
from tidelog.records import dataclass
from tidelog.rewrite.delete_rederive import MaintenanceProgram, NotMaintainable, afterwards, maintenance
from tidelog.spark.frames import SPECIAL, Derived, quoted
from tidelog.spark.schemas import NullSettings, share_columns
from tidelog.spark.shipping import translated_errors
from tidelog.spark.stages import (
    ANSWERS,
    STRING,
    BoundProgram,
    InputFrames,
    check_program,
    needed_for,
    only_input,
    parse_query,
    read_schemas,
    requested_predicates,
)
from tidelog.spark.strategies import VALUE, StrategyChoice, estimate
from tidelog.spark.worker import FactExplanation
from tidelog.store.json_forms import explanation_of

FramesByName = Mapping[str, DataFrame]
# The types whose values are the same when they are read from a frame.
FAITHFUL: Final = frozenset(
    {
        Type.BOOLEAN,
        Type.INTEGER,
        Type.DECIMAL,
        Type.DOUBLE,
        Type.DATE,
        Type.DATETIME,
        Type.LOCAL_DATETIME,
        Type.STRING,
    }
)


# Measured costs of applying a change, besides those of reading: see docs/decisions/0066.
COPIED: Final = {False: 0.2, True: 0.7}  # for each old fact that may change; more if facts may be deleted
FOLLOWED: Final = 50  # facts read for each deleted fact, as a multiple of its share in the derived facts
# Frames by predicate, or one for several predicates; `check` takes schemas, too.
Inputs = Mapping[str, Any] | Mapping[tuple[str, ...], Any] | Mapping[str | tuple[str, ...], Any]


def derive(
    program: Program | Path | str,
    inputs: Inputs | None = None,
    *,
    outputs: Sequence[str] | None = None,
    previous: Mapping[str, DataFrame] | None = None,
    inserted: Mapping[str, DataFrame] | None = None,
    deleted: Mapping[str, DataFrame] | None = None,
    apply: bool | None = None,
    partitions: int | None = None,
    sizes: Mapping[str, int] | None = None,
    nulls: NullSettings | None = None,
    mixed: str = "text",
    on_error: str = "fail",
    on_violation: str = "fail",
    **settings: Any,
) -> Derived:
    """Return the frames that a program derives from others, by predicate. Nothing runs yet.

    Columns of an input are taken by the names of the predicate's columns if it has them all, else in order;
    columns `start` and `end`, or `interval`, next to them say when a fact holds. One frame may hold the rows
    of several predicates, `{("flight", "train"): connections}`: its column `predicate` separates them, and
    it is read once.
    `outputs` are the predicates wanted, by default those of `@output`, else all derived ones. So many
    `partitions` of the facts lie with as many tasks, which exchange what they derive; without it there is one
    task, unless the inputs are large by Spark's estimate, or by `sizes`, the rows of each.

    `nulls` says what becomes of a row that lacks a value: `reject`, as a row that cannot be read; `drop-row`;
    or `value`, by which a missing value is one that is equal to itself alone. It is one word for all inputs,
    or by predicate one word, or one for each column: `{"flight": {"dst": "value"}}`. A column of values of
    several types is text, or with `mixed="struct"` a struct with a field for each type. `on_error` is
    `fail`, `skip` to leave out rows that cannot be read, or `collect` to have them in `rejects`;
    `on_violation` is `fail`, or `keep` to have them in `violations`. All other settings are those of
    `Reasoner`.

    With `previous`, the frames of what was derived from the inputs, all that follows after facts were
    `inserted` and `deleted` is derived; `reach gained` and `reach lost` are outputs, too. Either the change
    is applied to `previous`, or everything is derived again: `apply` says so, else what costs less by Spark's
    estimates.
    """
    frames: Mapping[str, DataFrame] = InputFrames(inputs or {})
    if previous is not None:
        change = Rederivation.of(
            program_of(program), frames, previous, inserted or {}, deleted or {}, outputs, sizes, apply, nulls
        )
        frames = change.frames()
        bound = change.bind(settings, mixed)
        choice = bound.choose(frames, partitions, change.sizes_of())
        derived = bound.derive(frames, change.names(), on_error, on_violation, choice)
        return derived.with_frames(change.changed(derived))
    if inserted or deleted:
        raise ValueError("`inserted` and `deleted` go with `previous`, the frames of what was derived before")
    bound = BoundProgram.of(program, frames, settings, nulls=nulls, mixed=mixed)
    choice = bound.choose(frames, partitions, sizes)
    return bound.derive(frames, outputs, on_error, on_violation, choice)


def query(
    program: Program | Path | str,
    text: str,
    inputs: Inputs | None = None,
    *,
    nulls: NullSettings | None = None,
    mixed: str = "text",
    on_error: str = "fail",
    **settings: Any,
) -> DataFrame:
    """Return the answers to a query such as `reach(a, ?x)` as a frame: a column for each variable.

    Nothing runs yet; then only what the query asks for is derived, and only the frames that it depends on are
    read. A query without variables has one row, `holds`, if it holds. One task derives it: a session whose
    `tidelog.strategy` is another one is an error.
    """
    frames: Mapping[str, DataFrame] = InputFrames(inputs or {})
    bound = BoundProgram.of(program, frames, settings, nulls=nulls, mixed=mixed)
    bound.check_one_task(frames, "a query")
    return bound.query(frames, text, on_error)[ANSWERS]


def explain(
    program: Program | Path | str,
    fact: str,
    inputs: Inputs | None = None,
    *,
    proofs: int = 1,
    limit: int = MOST_ANSWERS,
    rows: int | None = MOST_ROWS,
    nulls: NullSettings | None = None,
    **settings: Any,
) -> Explanation:
    """Return why a fact such as `reach(a, c)` holds, as `Reasoner.explain` does. This runs a job.

    Only the frames that the fact depends on are read, and only what it asks for is derived, by magic sets;
    everything is where there is equality, or the fact holds at times. One task derives it, as for `query`.
    """
    frames: Mapping[str, DataFrame] = InputFrames(inputs or {})
    bound = BoundProgram.of(program, frames, settings, nulls=nulls)
    bound.check_one_task(frames, "an explanation")
    query = parse_query(fact, bound.program)
    special = {name: [STRING] * len(columns) for name, columns in SPECIAL.items()}
    shared = share_columns({"explanation": [STRING], **special})
    options = {"proofs": proofs, "limit": limit, "rows": rows}
    ask = FactExplanation(fact, options, shared.of["explanation"][0])
    answers = bound.rows(ask, frames, shared, OnError.FAIL, needed_for(query, bound.program))
    with translated_errors():
        (row,) = Derived(lambda: answers, {}, shared).only("explanation", ["form"]).collect()
    return explanation_of(json.loads(row.form), bound.program)


def rules(
    program: Program | Path | str,
    output: str,
    *,
    input: str | None = None,
    nulls: NullSettings | None = None,
    mixed: str = "text",
    **more: DataFrame,
) -> Callable[[DataFrame], DataFrame]:
    """Return a function for `DataFrame.transform` that derives one output of a program.

    `input` is the predicate of the frame that is transformed; it may be left out where there is only one.
    `nulls` and `mixed` are those of `derive`, further arguments the frames of other predicates.
    """
    resolved_program = program_of(program)

    def transform(frame: DataFrame) -> DataFrame:
        name = input or only_input(resolved_program, more)
        frames = {name: frame, **more}
        return derive(resolved_program, frames, outputs=[output], nulls=nulls, mixed=mixed)[output]

    return transform


class Checked(dict[str, spark_types.StructType]):
    """The schemas of a program's outputs, its warnings and strata, and where it will run."""

    def __init__(
        self,
        schemas: Mapping[str, spark_types.StructType],
        warnings: Sequence[Diagnostic],
        strata: Sequence[Stratum],
        choice: StrategyChoice,
    ) -> None:
        super().__init__(schemas)
        self.warnings = tuple(warnings)
        self.strata = tuple(strata)
        self.strategy, self.tasks, self.reason = choice.strategy, choice.tasks, choice.reason

    def __str__(self) -> str:
        lines = [f"{name}: {schema.simpleString()}" for name, schema in self.items()]
        lines += [
            f"stratum {place}: {', '.join(stratum.predicates)}" for place, stratum in enumerate(self.strata)
        ]
        return "\n".join([*lines, f"{self.strategy}: {self.reason}", *map(str, self.warnings)])


def check(
    program: Program | Path | str,
    inputs: Inputs | None = None,
    *,
    outputs: Sequence[str] | None = None,
    previous: Mapping[str, DataFrame] | None = None,
    inserted: Mapping[str, DataFrame] | None = None,
    deleted: Mapping[str, DataFrame] | None = None,
    apply: bool | None = None,
    partitions: int | None = None,
    sizes: Mapping[str, int] | None = None,
    nulls: NullSettings | None = None,
    mixed: str = "text",
    **settings: Any,
) -> Checked:
    """Return the schemas of the outputs, or raise all that is wrong with the program and the inputs.

    With `previous` its `reason` says whether a change would be applied, or everything derived again, and why.
    """
    frames = InputFrames(inputs or {})
    bound = BoundProgram.of(program, frames, settings, nulls=nulls, mixed=mixed)
    requested = bound.outputs(requested_predicates(bound.program, outputs))
    program_strata = strata(bound.program.rules, bound.program.predicates)
    schemas = {name: output.schema for name, output in requested.items()}
    only_frames = {name: frame for name, frame in (inputs or {}).items() if isinstance(frame, DataFrame)}
    running: Mapping[str, DataFrame] = InputFrames(only_frames)
    if previous is None:
        choice = bound.choose(running, partitions, sizes)
    else:
        change = Rederivation.of(
            bound.program, running, previous, inserted or {}, deleted or {}, outputs, sizes, apply, nulls
        )
        choice = change.bind(settings, mixed).choose(change.frames(), partitions, change.sizes_of())
        choice = replace(choice, reason=f"{change.decision}; {choice.reason}")
    empty = tuple(f"`{name}`" for name in bound.inputs)  # as the program alone would have them
    warnings = [
        item
        for item in dict.fromkeys((*bound.program.warnings, *bound.inferred.warnings))
        if item.code != EMPTY_PREDICATE or not item.message.startswith(empty)
    ]
    return Checked(schemas, warnings, program_strata, choice)


@dataclass(frozen=True)
class Rederivation:
    """How everything is derived after a change of frames, from the facts derived before, and why.

    The program is rewritten to one that applies the change to the previous facts, or one that derives
    everything again from the changed inputs, whichever costs less: see `rewrite.delete_rederive`. It runs as
    any other, in one task or several. So no process has to keep the facts between changes.
    """

    program: Program
    inputs: FramesByName
    previous: FramesByName
    inserted: FramesByName
    deleted: FramesByName
    outputs: Sequence[str] | None
    sizes: Mapping[str, int] | None
    rewritten: MaintenanceProgram  # the program that runs
    applying: MaintenanceProgram  # the program that applies the change
    is_applied: bool
    reason: str
    null_settings: NullSettings | None = None  # by predicate

    @classmethod
    def of(
        cls,
        program: Program,
        inputs: FramesByName,
        previous: FramesByName,
        inserted: FramesByName,
        deleted: FramesByName,
        outputs: Sequence[str] | None,
        sizes: Mapping[str, int] | None,
        apply: bool | None,
        nulls: NullSettings | None = None,
    ) -> Rederivation:
        """Choose whether to apply the change to the previously derived facts, or to derive everything again.

        `inputs` are the tables before the change, `previous` the facts derived from them.
        """
        check_program(program)
        explicit_inputs, before, added, removed = (
            {find_predicate(name, program.predicates).name: frame for name, frame in frames.items()}
            for frames in (inputs, previous, inserted, deleted)
        )
        null_settings = _by_predicate(nulls, program)
        explicit_derived = explicit_inputs.keys() & program.derived
        try:
            rewritten = maintenance(program, added, removed, explicit_derived)
        except NotMaintainable as reason:
            help = "leave `previous`, `inserted` and `deleted` out, and derive everything from the new inputs"
            raise ProgramError(Diagnostic(codes.NOT_REDERIVED, str(reason), help=help)) from None
        applying = cls(
            program,
            explicit_inputs,
            before,
            added,
            removed,
            outputs,
            sizes,
            rewritten,
            rewritten,
            True,
            "`apply=True`",
            null_settings,
        )
        rederiving = replace(
            applying, rewritten=afterwards(program, added, removed, explicit_derived), is_applied=False
        )
        if apply is False:
            return replace(rederiving, reason="`apply=False`")
        applying._check_previous()
        unfaithful = applying._unfaithful()
        if apply and unfaithful:
            raise ProgramError(unfaithful)
        if apply:
            return applying
        if unfaithful:
            return replace(rederiving, reason=unfaithful[0].message)
        costs_less, why = applying._compare()
        return replace(applying if costs_less else rederiving, reason=why)

    @property
    def decision(self) -> str:
        """The choice, and its reason, as text."""
        action = "the change is applied" if self.is_applied else "everything is derived again"
        return f"{action}: {self.reason}"

    def bind(self, settings: Mapping[str, Any], mixed: str) -> BoundProgram:
        """Bind the program that runs to its frames."""
        program, nulls = self.rewritten.program, self.nulls()
        return BoundProgram.of(program, self.frames(), settings, nulls=nulls, mixed=mixed, warns=False)

    def frames(self) -> dict[str, DataFrame]:
        """Return the input frames of the program that runs, by its names for them."""
        rewritten = self.rewritten
        frames = {_input_name(name, rewritten): frame for name, frame in self.inputs.items()}
        if self.is_applied:
            frames |= _before(self.program, self.previous, self._needed(), rewritten)
        frames |= {rewritten.inserted[name]: frame for name, frame in self.inserted.items()}
        return frames | {rewritten.deleted[name]: frame for name, frame in self.deleted.items()}

    def names(self) -> list[str]:
        """Return the outputs of the program that runs: those requested, and their changes."""
        requested, rewritten = requested_predicates(self.program, self.outputs), self.rewritten
        names = [predicate.written for predicate in requested]
        for places in (rewritten.gained, rewritten.lost):
            names += [places[predicate.name] for predicate in requested if predicate.name in places]
        return names

    def changed(self, derived: Derived) -> dict[str, DataFrame]:
        """Return the changes of outputs, compared on Spark, if everything is derived again."""
        if self.is_applied:
            return {}
        changes = {}
        for predicate in requested_predicates(self.program, self.outputs):
            name, now = predicate.name, derived[predicate.written]
            before = self.previous.get(name) if name in self.program.derived else self.inputs.get(name)
            if before is None:
                continue
            places = list(zip(before.columns, now.schema.fields, strict=True))
            _check_structs(before, now)
            same = before.select(
                *(F.col(quoted(old)).cast(new.dataType).alias(new.name) for old, new in places)
            ).dropna()  # rows of inputs that lack a value are no facts
            if name in self.applying.gained:
                changes[self.applying.gained[name]] = now.subtract(same)
            if name in self.applying.lost:
                changes[self.applying.lost[name]] = same.subtract(now)
        return changes

    def sizes_of(self) -> dict[str, int] | None:
        """Return `sizes` by the names in the program that runs."""
        if self.sizes is None:
            return None
        rows_by_predicate = {self.program.find(name): rows for name, rows in self.sizes.items()}
        places = {
            _input_name(predicate.name, self.rewritten): rows
            for predicate, rows in rows_by_predicate.items()
            if predicate is not None
        }
        return {name: rows for name, rows in places.items() if name in self.frames()}

    def nulls(self) -> NullSettings | None:
        """Return the settings of missing values by the names in the program that runs."""
        if self.null_settings is None or isinstance(self.null_settings, str):
            return self.null_settings
        rewritten, frames = self.rewritten, self.frames()
        settings = {}
        for name, words in self.null_settings.items():
            for place in (
                _input_name(name, rewritten),
                rewritten.inserted.get(name),
                rewritten.deleted.get(name),
            ):
                if place in frames:
                    settings[place] = words
        return settings

    def _needed(self) -> list[str]:
        """Return the derived predicates whose old facts are read by rules, or are outputs."""
        names = self.rewritten.read | {
            predicate.name for predicate in requested_predicates(self.program, self.outputs)
        }
        return [name for name in sorted(self.program.derived) if self.rewritten.old.get(name) in names]

    def _compare(self) -> tuple[bool, str]:
        """Return whether applying the change costs less, and why."""
        program, rewritten = self.program, self.rewritten
        for stratum in strata(program.rules):
            if stratum.recursive and any(name in rewritten.lost for name in stratum.predicates):
                name = stratum.predicates[0]
                return False, f"`{name}` is recursive and may lose facts, and many may have to be rederived"
        estimates = [
            self._sizes(self.inputs),
            self._sizes(self.previous),
            self._sizes(self.inserted, " inserted"),
            self._sizes(self.deleted, " deleted"),
        ]
        if None in estimates:
            return False, "the size of all frames is unknown (set `sizes`)"
        inputs, before, added, removed = (sizes or {} for sizes in estimates)
        reached = {name: size for name, size in before.items() if rewritten.old.get(name, name) != name}
        bytes_read = sum(
            size for name, size in inputs.items() if _input_name(name, rewritten) in rewritten.read
        )
        bytes_read += sum(size for name, size in before.items() if rewritten.old.get(name) in rewritten.read)
        copied = sum(size * COPIED[name in rewritten.lost] for name, size in reached.items())
        changed = sum(added.values()) + FOLLOWED * sum(removed.values())
        share = changed / max(sum(inputs.values()), 1)
        applied = int(bytes_read + copied + share * sum(reached.values()))
        again = sum(inputs.values()) + sum(before.values())
        reason = f"applying is estimated at {applied:,} bytes read and derived, deriving again at {again:,}"
        return applied < again, reason

    def _sizes(self, frames: FramesByName, kind: str = "") -> dict[str, int] | None:
        """Return the estimated bytes of frames; None if one is unknown."""
        estimates = {name: self._size(name, frame, kind) for name, frame in frames.items()}
        sizes = {name: size for name, size in estimates.items() if size is not None}
        return sizes if len(sizes) == len(estimates) else None

    def _size(self, name: str, frame: DataFrame, kind: str) -> int | None:
        """Return the estimated bytes of a frame; its rows are in `sizes` as `edge`, or `edge inserted`."""
        rows = (self.sizes or {}).get(self.program.predicates[name].written + kind)
        return estimate(frame) if rows is None else rows * max(len(frame.columns), 1) * VALUE

    def _check_previous(self) -> None:
        """Raise if frames of previously derived facts are missing."""
        missing = [name for name in self._needed() if name not in self.previous]
        if missing:
            listed = ", ".join(f"`{name}`" for name in missing)
            message = f"previously derived facts are missing for {listed}"
            help = "give the frame of each in `previous`, as `derive` returned it"
            raise ProgramError(Diagnostic(codes.NOT_REDERIVED, message, help=help))

    def _unfaithful(self) -> list[Diagnostic]:
        """Return an error for each column of derived facts that could be read back as other values."""
        program, faults = self.program, []
        inputs = read_schemas(program, {name: frame.schema for name, frame in self.inputs.items()})
        inferred = infer(program, {name: schema.types for name, schema in inputs.items()})
        for name in self._needed():
            predicate = program.predicates[name]
            for column, types, declared in zip(
                column_names(predicate), inferred.of(predicate), predicate.types, strict=True
            ):
                if not _is_faithful(types, declared):
                    message = f"values of column `{column}` of `{name}` are texts in its frame"
                    help = f"declare the columns of `{name}`: texts could be read as other values"
                    faults.append(Diagnostic(codes.NOT_REDERIVED, message, help=help))
        return faults


def _by_predicate(settings: NullSettings | None, program: Program) -> NullSettings | None:
    """Return the settings of missing values by the full names of predicates; raise if one is `value`."""
    words = [settings] if isinstance(settings, str) else [] if settings is None else list(settings.values())
    all_words = [
        word for setting in words for word in ([setting] if isinstance(setting, str) else setting.values())
    ]
    if Nulls.VALUE.value in all_words:
        message = "missing values are texts in frames, and could not be distinguished afterwards"
        help = "leave `previous`, `inserted` and `deleted` out, or drop the rows that lack values"
        raise ProgramError(Diagnostic(codes.NOT_REDERIVED, message, help=help))
    if settings is None or isinstance(settings, str):
        return settings
    return {find_predicate(name, program.predicates).name: setting for name, setting in settings.items()}


def _check_structs(before: DataFrame, now: DataFrame) -> None:
    """Raise if a column was a struct and is text now, or was text and is a struct."""
    for old, new in zip(before.schema.fields, now.schema.fields, strict=True):
        if isinstance(old.dataType, StructType) != isinstance(new.dataType, StructType):
            message = f"column `{new.name}` was {old.dataType.simpleString()} in `previous`"
            help = "derive with the same `mixed` as before"
            raise ProgramError(Diagnostic(codes.NOT_REDERIVED, message, help=help))


def _input_name(name: str, rewritten: MaintenanceProgram) -> str:
    """Return the input of the program that runs with the explicit facts of a predicate."""
    return rewritten.given.get(name) or rewritten.old.get(name, name)


def _before(
    program: Program, previous: FramesByName, needed: Sequence[str], rewritten: MaintenanceProgram
) -> dict[str, DataFrame]:
    """Return the frames of previously derived facts, by their names in the program that runs."""
    return {
        rewritten.old[name]: previous[name] if program.predicates[name].arity else previous[name].select()
        for name in needed
    }


def _is_faithful(types: Types, declared: ColumnType) -> bool:
    """Whether values of a column are read from a frame as the same values."""
    if declared is not ColumnType.ANY and declared is not ColumnType.TERM:
        return True
    return len(types) == 1 and types <= FAITHFUL


__all__ = ["Checked", "Derived", "check", "derive", "explain", "query", "rules"]
