"""Where the facts of predicates have come from, as far as that is known. Mutates itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidelog.io.columns import Batch
from tidelog.io.locate import line_of
from tidelog.io.source import DataFile
from tidelog.logic.program import Fact


@dataclass(frozen=True)
class Place:
    """Where a fact was read: the file and the line, if they are found when somebody asks; may be empty."""

    find: Callable[[], str | None]
    otherwise: str

    @cached_property
    def text(self) -> str:
        """The file and the line, or what is known otherwise."""
        return self.find() or self.otherwise

    def __str__(self) -> str:
        return self.text


class Origins:
    """The files that the facts of each predicate were loaded from."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._files: dict[str, dict[DataFile | None, None]] = {}

    def note(self, predicate: str, file: DataFile | None) -> None:
        """Some facts of a predicate come from a file, None if they came otherwise."""
        self._files.setdefault(predicate, {})[file] = None

    def of(self, fact: Fact) -> Place | None:
        """Where a fact comes from that the program does not state; None if nothing is known of that."""
        known = [file for file in self._files.get(fact.predicate, ()) if file is not None]
        if not known:
            return None
        return Place(lambda: self._find(fact, known), self.files_of(fact.predicate) or "")

    def files_of(self, predicate: str) -> str | None:
        """The files that all facts of a predicate come from; None if some came otherwise."""
        files = self._files.get(predicate, {})
        if not files or None in files:
            return None
        return " or ".join(dict.fromkeys(file.shown for file in files if file is not None))

    def _find(self, fact: Fact, files: list[DataFile]) -> str | None:
        wanted = [self._engine.identity(value) for value in fact.values]

        def is_row(batch: Batch) -> bool:
            columns = [self._engine.encode_column(column) for column in batch.columns[: len(wanted)]]
            rows = zip(*(column.tolist() for column in columns), strict=True)
            return any(list(row) == wanted for row in rows)

        for file in files:
            line = line_of(file, fact.values, is_row)
            if line is not None:
                return file.place(line)
        return None
