"""Programs as a version keeps them: the rules and declarations written out, and a hash of what they mean."""

from __future__ import annotations

from dataclasses import replace

from tidelog.logic.program import Program
from tidelog.logic.values import ColumnType
from tidelog.mending import read_rules, write_rules
from tidelog.pipeline.drops import restored_names
from tidelog.pipeline.inputs import digest
from tidelog.pipeline.manifest import Origin
from tidelog.plan.rule_text import Writing

_described: list[tuple[Program, tuple[str, str | None]]] = []  # the last one, by what it consists of


def described(program: Program) -> tuple[str, str | None]:
    """A hash of what a program means, and its rules and declarations written out."""
    for known, texts in _described:
        if known.rules is program.rules and known.predicates is program.predicates:
            return texts
    found = hash_of(program), write_rules(program)
    _described[:] = [(program, found)]
    return found


def hash_of(program: Program) -> str:
    """A hash of the rules and of the predicates' columns: the same if only the writing differs."""
    writing = Writing()
    rules = sorted(writing.rule(rule) for rule in program.rules)
    predicates = sorted(
        f"{item.name}/{item.arity} {' '.join(_kind(kind) for kind in item.types)}"
        for item in program.predicates.values()
    )
    times = sorted(f"@ {name}" for name in program.given_times)
    return digest(*rules, "", *predicates, *times, *(["integer time"] if program.is_integer_time else []))


def _kind(column_type: ColumnType) -> str:
    return column_type.value


def published_program(origin: Origin, program: Program) -> Program | None:
    """Return the program that a version was published with; None if that cannot be told any more.

    `program` is today's, which it often is.
    """
    if hash_of(program) == origin.program:
        return replace(program, facts=(), imports=())
    return None if origin.rules is None else restored_names(read_rules(origin.rules), program)
