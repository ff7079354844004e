"""The frames of a program's inputs, by predicate; one frame may hold the rows of several predicates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types

from tidelog.errors import Diagnostic, ProgramError
from tidelog.spark import codes

PREDICATE: Final = "predicate"  # the column that says of which predicate a row of a shared frame is
Source = DataFrame | spark_types.StructType


class Frames(Mapping[str, Any]):
    """Frames, or their schemas where nothing will run, by the name of the predicate.

    A frame that is given for several predicates, `{("flight", "train"): connections}`, has a column
    `predicate`; the others are the columns of the predicates, in order. It is read once for all of them.
    """

    def __init__(
        self, given: Mapping[str, Any] | Mapping[tuple[str, ...], Any] | Mapping[str | tuple[str, ...], Any]
    ) -> None:
        self._own: dict[str, Source] = {}
        self._shared: dict[str, Source] = {}
        self.groups: list[tuple[tuple[str, ...], Source]] = []
        if isinstance(given, Frames):
            self._own, self._shared, self.groups = given._own, given._shared, given.groups
            return
        for name, source in given.items():
            if not isinstance(source, DataFrame | spark_types.StructType):
                raise TypeError(f"`{name}` is no DataFrame, but {type(source).__name__}")
            if isinstance(name, tuple):
                _check(name, source)
                self.groups.append((name, source))
                self._shared |= dict.fromkeys(name, source)
            else:
                self._own[name] = source
        twice = self._own.keys() & self._shared.keys()
        if twice or sum(len(names) for names, _ in self.groups) > len(self._shared):
            raise ValueError(f"several frames are given for {', '.join(sorted(twice or self._shared))}")

    def __getitem__(self, name: str) -> Any:
        """Return the frame, or the schema, of one predicate."""
        if name in self._own:
            return self._own[name]
        whole = self._shared[name]
        if not isinstance(whole, DataFrame):
            return _without_predicate(whole)
        return whole.where(F.col(PREDICATE) == name).drop(PREDICATE)

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._shared

    def __len__(self) -> int:
        return len(self._own) + len(self._shared)

    def is_shared(self, name: str) -> bool:
        """Whether the frame of a predicate holds others, too."""
        return name in self._shared

    @property
    def sources(self) -> list[DataFrame]:
        """The frames that are given, each once."""
        shared = (source for _, source in self.groups)
        return [each for each in (*self._own.values(), *shared) if isinstance(each, DataFrame)]

    @property
    def schemas(self) -> list[str]:
        """The predicates of which only a schema is given."""
        given = {**self._own, **self._shared}
        return [name for name, source in given.items() if not isinstance(source, DataFrame)]

    def schema_of(self, name: str, arity: int | None) -> spark_types.StructType:
        """Return the schema of a predicate's frame; a shared one has columns for the widest predicate."""
        source = self._own.get(name, self._shared.get(name))
        schema = source.schema if isinstance(source, DataFrame) else source
        assert schema is not None
        if name in self._own:
            return schema
        return spark_types.StructType(_without_predicate(schema).fields[:arity])


def _without_predicate(schema: spark_types.StructType) -> spark_types.StructType:
    return spark_types.StructType([each for each in schema.fields if each.name != PREDICATE])


def _check(names: tuple[str, ...], source: Source) -> None:
    schema = source.schema if isinstance(source, DataFrame) else source
    if PREDICATE not in schema.names or not isinstance(schema[PREDICATE].dataType, spark_types.StringType):
        shown = ", ".join(f"`{name}`" for name in names)
        message = f"the frame of {shown} has no column `{PREDICATE}` of strings, to tell them apart"
        help = f'add one, such as `frame.withColumn("{PREDICATE}", …)`, or give a frame for each predicate'
        raise ProgramError(Diagnostic(codes.WRONG_COLUMNS, message, help=help))
