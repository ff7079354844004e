"""Programs as a version keeps them: the rules and declarations written out, and a hash of what they mean."""

from __future__ import annotations

from dataclasses import replace

from tidelog.errors import Source, TidelogError
from tidelog.logic.meaning import is_same
from tidelog.logic.program import Program
from tidelog.logic.resolve import EMPTY, resolve
from tidelog.logic.values import ColumnType
from tidelog.pipeline.drops import restored_names
from tidelog.pipeline.inputs import digest
from tidelog.pipeline.manifest import Origin
from tidelog.plan.rule_text import Writing
from tidelog.relation import column_names
from tidelog.syntax.parser import parse

_described: list[tuple[Program, tuple[str, str | None]]] = []  # the last one, by what it consists of


def described(program: Program) -> tuple[str, str | None]:
    """A hash of what a program means, and its rules and declarations written out."""
    for known, texts in _described:
        if known.rules is program.rules and known.predicates is program.predicates:
            return texts
    found = hash_of(program), write_rules(program)
    _described[:] = [(program, found)]
    return found


def write_rules(program: Program) -> str | None:
    """The rules and declarations of a program; None if that text would not mean the same."""
    writing = Writing()
    lines = []
    for predicate in program.predicates.values():
        if predicate.declared:
            columns = zip(column_names(predicate), predicate.types, strict=True)
            typed = ", ".join(f"{name}: {kind.value}" for name, kind in columns)
            lines.append(f"@declare {writing.predicate(predicate.name)}({typed}) .")
    lines += [writing.rule(rule) for rule in program.rules]
    text = "".join(f"{line}\n" for line in lines)
    return text if _means(text, program) else None


def _means(text: str, program: Program) -> bool:
    """Whether a text has the rules and the types of a program."""
    try:
        again = read_rules(text)
    except TidelogError:
        return False
    pairs = zip(again.rules, program.rules, strict=False)
    is_whole = len(again.rules) == len(program.rules) and all(is_same(*pair) for pair in pairs)
    declared = [item for item in program.predicates.values() if item.declared]
    return is_whole and all(
        item.name in again.predicates and again.predicates[item.name].types == item.types for item in declared
    )


def read_rules(text: str) -> Program:
    """The program of a text that `write_rules` made."""
    return resolve(parse(Source("<published rules>", text))) if text.strip() else EMPTY


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
