"""What becomes of missing values in frames, as a caller says it: for all, by predicate or by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidelog.errors import Diagnostic, ProgramError, suggest
from tidelog.io.nulls import Nulls
from tidelog.spark import codes
from tidelog.spark.schemas import Input

Said = str | Mapping[str, str | Mapping[str, str]]
Lacking = tuple[str, str, str]  # a predicate, a column, and what is done about values that it lacks


def with_nulls(inputs: Mapping[str, Input], said: Said | None) -> dict[str, Input]:
    """Return the inputs with what is done about missing values; raise what is said of no column.

    `said` is a word for all columns of all inputs, or by input a word, or a word for each of its columns.
    """
    if said is None:
        return dict(inputs)
    if isinstance(said, str):
        return {name: _for_all(each, said) for name, each in inputs.items()}
    faults = [
        Diagnostic(
            codes.NO_SUCH_PREDICATE, f"`nulls` names `{name}`, which is no input", help=suggest(name, inputs)
        )
        for name in said
        if name not in inputs
    ]
    found = {}
    for name, each in inputs.items():
        words = said.get(name)
        if words is None or isinstance(words, str):
            found[name] = each if words is None else _for_all(each, words)
            continue
        names = each.columns[: len(each.types)]
        faults += wrong_columns(name, words, names)
        found[name] = replace(each, nulls=nulls_of(words, names))
    if faults:
        raise ProgramError(faults)
    return found


def wrong_columns(name: str, words: Mapping[str, str], names: Sequence[str]) -> list[Diagnostic]:
    """Return what is said of columns that an input does not have."""
    return [
        Diagnostic(
            codes.WRONG_COLUMNS,
            f"`nulls` names the column `{column}`, which the input does not have",
            place=f"the frame `{name}`",
            help=f"its columns are {', '.join(f'`{one}`' for one in names)}",
        )
        for column in words
        if column not in names
    ]


def nulls_of(words: str | Mapping[str, str], names: Sequence[str]) -> tuple[Nulls, ...]:
    """Return what is done about missing values in each of these columns."""
    if isinstance(words, str):
        return (_read(words),) * len(names)
    return tuple(_read(words[one]) if one in words else Nulls.REJECT for one in names)


def counted(inputs: Sequence[Input]) -> list[Lacking]:
    """Return the columns of inputs of which something is said, and what."""
    return [
        (each.predicate.written, column, what.value)
        for each in inputs
        for column, what in zip(each.columns, each.nulls, strict=False)
    ]


def _for_all(each: Input, word: str) -> Input:
    return replace(each, nulls=nulls_of(word, each.columns[: len(each.types)]))


def _read(word: str) -> Nulls:
    if word not in [each.value for each in Nulls]:
        words = ", ".join(f"`{each.value}`" for each in Nulls)
        raise ValueError(f"nulls is one of {words}, not {word!r}")
    return Nulls(word)
