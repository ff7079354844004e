"""The engines by name: an engine is registered here, by one line.

`Reasoner(engine="columnar")` names an engine; `Reasoner(engine=settings)` describes one, by an object that
has a name and makes it. What an engine imports is imported when it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from tidelog.engine.columnar.engine import ColumnarEngine, make
from tidelog.errors import Diagnostic, ProgramError, suggest
from tidelog.errors.codes import RETIRED, UNKNOWN_ENGINE
from tidelog.records import dataclass


@runtime_checkable
class EngineSettings(Protocol):
    """What describes an engine, and makes it."""

    @property
    def name(self) -> str:
        """The engine's name."""

    def make(self, threads: int | None, relations: int) -> ColumnarEngine:
        """Return an empty engine with this many threads, for about this many relations of two columns."""


@dataclass(frozen=True, slots=True)
class ColumnarSettings:
    """All facts in this process."""

    name: str = "columnar"

    def make(self, threads: int | None, relations: int) -> ColumnarEngine:
        """Return an empty engine."""
        return make(threads, relations)


ENGINES: dict[str, Callable[[], EngineSettings]] = {
    "columnar": ColumnarSettings,
}


def settings_of(engine: str | EngineSettings) -> EngineSettings:
    """Return the settings of an engine, the defaults if it is named only; raise ProgramError if unknown."""
    if isinstance(engine, str) and engine in ENGINES:
        return ENGINES[engine]()
    if not isinstance(engine, str) and isinstance(engine, EngineSettings):
        return engine
    if engine == "spark":
        raise retired()
    help = suggest(str(engine), ENGINES) or f"choose one of {', '.join(ENGINES)}"
    raise ProgramError(Diagnostic(UNKNOWN_ENGINE, f"unknown engine `{engine}`", help=help))


def retired() -> ProgramError:
    """Return the error that says what to use instead of the Spark engine that reasoners had."""
    message = "the engine `spark` was removed: reasoners run in this process"
    help = (
        "a program is a function of DataFrames: `from tidelog import spark as ts`, then "
        '`ts.derive(program, {"edge": frame})`, `ts.query`, `ts.explain`, `ts.maintain`'
    )
    return ProgramError(Diagnostic(RETIRED, message, help=help))
