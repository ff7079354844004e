"""What a program derives after a change, from frames of what it derived before: for state of no one process.

The program becomes one that maintains it, `rewrite.delete_rederive`, and that is run as any other: by one
task, or by tasks that exchange facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame

from tidelog.changes import find_predicate
from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.inference import infer
from tidelog.logic.program import Predicate, Program
from tidelog.logic.types import Type, Types
from tidelog.logic.values import ColumnType
from tidelog.relation import column_names
from tidelog.rewrite.delete_rederive import Maintenance, NotMaintainable, maintenance
from tidelog.spark import codes, functions
from tidelog.spark.derived import Derived

Frames = Mapping[str, DataFrame]
# What a column of a frame holds so that it is read as the same values.
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


def rederive(
    program: Program,
    inputs: Frames,
    previous: Frames,
    inserted: Frames,
    deleted: Frames,
    outputs: Sequence[str] | None,
    **settings: Any,
) -> Derived:
    """Return the frames of the outputs after a change; with `p gained` and `p lost` for what changed in `p`.

    `inputs` are the tables as they were, `previous` what was derived from them.
    """
    functions._check_program(program)
    known = {
        name: find_predicate(name, program.predicates).name
        for name in {**inputs, **previous, **inserted, **deleted}
    }
    came, went = ({known[name] for name in each} for each in (inserted, deleted))
    try:
        made = maintenance(program, came, went, {known[name] for name in inputs} & program.derived)
    except NotMaintainable as reason:
        help = "leave `previous`, `inserted` and `deleted` out, and derive everything from the new inputs"
        raise ProgramError(Diagnostic(codes.NOT_REDERIVED, str(reason), help=help)) from None
    wanted = functions._wanted(program, outputs)
    frames = {_place(known[name], made): frame for name, frame in inputs.items()}
    frames |= _before(program, made, {known[name]: previous[name] for name in previous}, wanted, frames)
    frames |= {made.inserted[known[name]]: frame for name, frame in inserted.items()}
    frames |= {made.deleted[known[name]]: frame for name, frame in deleted.items()}
    names = [predicate.written for predicate in wanted]
    for places in (made.gained, made.lost):
        names += [places[predicate.name] for predicate in wanted if predicate.name in places]
    return functions.derive(made.program, frames, outputs=names, **settings)


def _place(name: str, made: Maintenance) -> str:
    """Return where the explicit facts of a predicate are given."""
    return made.given.get(name) or made.old.get(name, name)


def _before(
    program: Program,
    made: Maintenance,
    previous: Frames,
    wanted: Sequence[Predicate],
    inputs: Frames,
) -> dict[str, DataFrame]:
    """Return the frames of what was derived before, under the names by which it is read now."""
    rules = made.program.rules
    read = {atom.predicate for rule in rules for atom in (*rule.positive, *rule.negated)}
    read |= {predicate.name for predicate in wanted}
    needed = [name for name in sorted(program.derived) if made.old.get(name) in read]
    missing = [name for name in needed if name not in previous]
    faults = []
    if missing:
        message = f"what was derived before is missing for {', '.join(f'`{name}`' for name in missing)}"
        help = "give the frame of each in `previous`, as `derive` returned it"
        faults.append(Diagnostic(codes.NOT_REDERIVED, message, help=help))
    schemas = {name: frame.schema for name, frame in inputs.items()}
    read_as = functions._read_schemas(made.program, schemas)
    places = {name: _place(name, made) for name in program.predicates}
    types = {name: read_as[place].types for name, place in places.items() if place in read_as}
    inferred = infer(program, types)
    for name in needed:
        predicate = program.predicates[name]
        for column, held, declared in zip(
            column_names(predicate), inferred.of(predicate), predicate.types, strict=True
        ):
            if not _is_faithful(held, declared):
                message = f"values of column `{column}` of `{name}` are texts in its frame"
                help = f"declare the columns of `{name}`: texts could be read as other values"
                faults.append(Diagnostic(codes.NOT_REDERIVED, message, help=help))
    if faults:
        raise ProgramError(faults)
    return {
        made.old[name]: previous[name] if program.predicates[name].arity else previous[name].select()
        for name in needed
    }


def _is_faithful(held: Types, declared: ColumnType) -> bool:
    """Whether values of a column are read from a frame as the same values."""
    if declared is not ColumnType.ANY and declared is not ColumnType.TERM:
        return True
    return len(held) == 1 and held <= FAITHFUL
