"""A program as a function from DataFrames to DataFrames: lazy, without an action.

All inputs become one frame of tagged rows, one task evaluates the program over them, and each output is a
filter over what comes out. Spark runs the task when an output is used: once for each action.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from tidelog.errors import Diagnostic
from tidelog.explaining import MOST_ANSWERS
from tidelog.io.rejects import OnError
from tidelog.logic.codes import EMPTY_PREDICATE
from tidelog.logic.program import Program
from tidelog.logic.resolve import program_of
from tidelog.logic.strata import Stratum, strata
from tidelog.proof.explanation import Explanation
from tidelog.proof.explanation_form import explanation_of
from tidelog.proof.tree import MOST_ROWS
from tidelog.spark.derived import SPECIAL, Derived
from tidelog.spark.failures import telling
from tidelog.spark.frames import Frames
from tidelog.spark.given import ANSWERS, STRING, Given, needed_for, only_input, resolved, wanted_predicates
from tidelog.spark.nulls import Said
from tidelog.spark.rederiving import Change
from tidelog.spark.schemas import slots
from tidelog.spark.strategies import Choice
from tidelog.spark.task import Proofs

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
    nulls: Said | None = None,
    mixed: str = "text",
    on_error: str = "fail",
    on_violation: str = "fail",
    **settings: Any,
) -> Derived:
    """Return the frames that a program derives from others, by predicate. Nothing runs yet.

    Columns of an input are taken by the names of the predicate's columns if it has them all, else in order;
    columns `start` and `end`, or `interval`, beside them say when a fact holds. One frame may hold the rows
    of several predicates, `{("flight", "train"): connections}`: its column `predicate` tells them apart, and
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
    frames: Mapping[str, DataFrame] = Frames(inputs or {})
    if previous is not None:
        change = Change.of(
            program_of(program), frames, previous, inserted or {}, deleted or {}, outputs, sizes, apply, nulls
        )
        frames = change.frames()
        given = Given.of(
            change.made.program, frames, settings, nulls=change.nulls(), mixed=mixed, tells=False
        )
        choice = given.choose(frames, partitions, change.sizes_of())
        found = given.derive(frames, change.names(), on_error, on_violation, choice)
        return found.with_frames(change.changed(found))
    if inserted or deleted:
        raise ValueError("`inserted` and `deleted` go with `previous`, the frames of what was derived before")
    given = Given.of(program, frames, settings, nulls=nulls, mixed=mixed)
    choice = given.choose(frames, partitions, sizes)
    return given.derive(frames, outputs, on_error, on_violation, choice)


def query(
    program: Program | Path | str,
    text: str,
    inputs: Inputs | None = None,
    *,
    nulls: Said | None = None,
    mixed: str = "text",
    on_error: str = "fail",
    **settings: Any,
) -> DataFrame:
    """Return the answers to a query such as `reach(a, ?x)` as a frame: a column for each variable.

    Nothing runs yet; then only what the query asks for is derived, and only the frames that it depends on are
    read. A query without variables has one row, `holds`, if it holds. One task derives it: a session whose
    `tidelog.strategy` is another one is an error.
    """
    frames: Mapping[str, DataFrame] = Frames(inputs or {})
    given = Given.of(program, frames, settings, nulls=nulls, mixed=mixed)
    given.check_one_task(frames, "a query")
    return given.query(frames, text, on_error)[ANSWERS]


def explain(
    program: Program | Path | str,
    fact: str,
    inputs: Inputs | None = None,
    *,
    proofs: int = 1,
    limit: int = MOST_ANSWERS,
    rows: int | None = MOST_ROWS,
    nulls: Said | None = None,
    **settings: Any,
) -> Explanation:
    """Return why a fact such as `reach(a, c)` holds, as `Reasoner.explain` does. This runs a job.

    Only the frames that the fact depends on are read, and only what it asks for is derived, by magic sets;
    everything is where there is equality, or the fact holds at times. One task derives it, as for `query`.
    """
    frames: Mapping[str, DataFrame] = Frames(inputs or {})
    given = Given.of(program, frames, settings, nulls=nulls)
    given.check_one_task(frames, "an explanation")
    asked = resolved(fact, given.program)
    special = {name: [STRING] * len(columns) for name, columns in SPECIAL.items()}
    places = slots({"explanation": [STRING], **special})
    options = {"proofs": proofs, "limit": limit, "rows": rows}
    ask = Proofs(fact, options, places.of["explanation"][0])
    found = given.rows(ask, frames, places, OnError.FAIL, needed_for(asked, given.program))
    with telling():
        (row,) = Derived(lambda: found, {}, places).only("explanation", ["form"]).collect()
    return explanation_of(json.loads(row.form), given.program)


def rules(
    program: Program | Path | str,
    output: str,
    *,
    input: str | None = None,
    nulls: Said | None = None,
    mixed: str = "text",
    **more: DataFrame,
) -> Callable[[DataFrame], DataFrame]:
    """Return a function for `DataFrame.transform`: what a program derives for one output.

    `input` is the predicate of the frame that is transformed; it may be left out where there is only one.
    `nulls` and `mixed` are those of `derive`, further arguments the frames of other predicates.
    """
    known = program_of(program)

    def transform(frame: DataFrame) -> DataFrame:
        name = input or only_input(known, more)
        frames = {name: frame, **more}
        return derive(known, frames, outputs=[output], nulls=nulls, mixed=mixed)[output]

    return transform


class Checked(dict[str, spark_types.StructType]):
    """The schemas of a program's outputs, what is doubtful in it, its strata, and where it will run."""

    def __init__(
        self,
        schemas: Mapping[str, spark_types.StructType],
        warnings: Sequence[Diagnostic],
        strata: Sequence[Stratum],
        choice: Choice,
    ) -> None:
        super().__init__(schemas)
        self.warnings = tuple(warnings)
        self.strata = tuple(strata)
        self.strategy, self.tasks, self.reason = choice.strategy, choice.tasks, choice.reason

    def __str__(self) -> str:
        lines = [f"{name}: {schema.simpleString()}" for name, schema in self.items()]
        lines += [f"stratum {place}: {', '.join(each.predicates)}" for place, each in enumerate(self.strata)]
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
    nulls: Said | None = None,
    mixed: str = "text",
    **settings: Any,
) -> Checked:
    """Return the schemas of the outputs, or raise all that is wrong with the program and the inputs.

    With `previous` its `reason` says whether a change would be applied, or everything derived again, and why.
    """
    frames = Frames(inputs or {})
    given = Given.of(program, frames, settings, nulls=nulls, mixed=mixed)
    wanted = given.outputs(wanted_predicates(given.program, outputs))
    found = strata(given.program.rules, given.program.predicates)
    schemas = {name: output.schema for name, output in wanted.items()}
    given_frames = {name: each for name, each in (inputs or {}).items() if isinstance(each, DataFrame)}
    running: Mapping[str, DataFrame] = Frames(given_frames)
    if previous is None:
        choice = given.choose(running, partitions, sizes)
    else:
        change = Change.of(
            given.program, running, previous, inserted or {}, deleted or {}, outputs, sizes, apply, nulls
        )
        changing = Given.of(
            change.made.program, change.frames(), settings, nulls=change.nulls(), mixed=mixed, tells=False
        )
        choice = changing.choose(change.frames(), partitions, change.sizes_of())
        choice = replace(choice, reason=f"{change.told}; {choice.reason}")
    empty = tuple(f"`{name}`" for name in given.inputs)  # as the program alone would have them
    doubts = [
        item
        for item in dict.fromkeys((*given.program.warnings, *given.inferred.warnings))
        if item.code != EMPTY_PREDICATE or not item.message.startswith(empty)
    ]
    return Checked(schemas, doubts, found, choice)


__all__ = ["Checked", "Derived", "check", "derive", "explain", "query", "rules"]
