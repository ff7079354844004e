"""What a store holds, as values between its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.engine.columnar.storage.engine_state import EngineState
from tidelog.errors import DataError, Diagnostic
from tidelog.logic.program import Program
from tidelog.query.kept_queries import Asked
from tidelog.store.codes import BACKWARDS
from tidelog.temporal.state import TimeState


class BatchId(NamedTuple):
    """A transaction as whoever sends it counts: the application, and the number, which only grows.

    `stream` tells one stream of an application from another, whose numbers begin anew; empty if unknown.
    """

    app: str
    number: int
    stream: str = ""

    def repeats(self, applied: Mapping[str, BatchId]) -> bool:
        """Return whether this was the last of its application; raise `DataError` if it cannot come now."""
        last = applied.get(self.app)
        if last is None:
            return False
        is_other = bool(last.stream and self.stream and last.stream != self.stream)
        if is_other or self.number < last.number:
            help = (
                "the numbers of an application only grow; a stream that begins anew, with a new checkpoint, "
                "and one beside another need an `app_id` of their own"
            )
            where = " of another stream" if is_other else ""
            raise self.refused(f"comes after batch {last.number}{where} was applied", help)
        return self.number == last.number

    def refused(self, reason: str, help: str) -> DataError:
        """Return the error that the batch cannot be applied."""
        return DataError(Diagnostic(BACKWARDS, f"batch {self.number} of `{self.app}` {reason}", help=help))


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A reasoner between two transactions, everything derived.

    Classes of equal constants are the engine's relation of aliases.
    """

    program: Program
    asked: tuple[Asked, ...]  # live and prepared queries
    engine: EngineState
    sequence: int  # of the last record that it includes
    commits: int = 0
    loaded: int = 0  # explicit facts
    derived: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)  # that facts depend on: how equality is treated
    time: TimeState | None = None  # what holds at times, if anything does
    batches: Mapping[str, BatchId] = field(default_factory=dict)  # the last of each application
