"""tidelog keeps the consequences of rules right while facts and rules change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidelog.errors import (
    DataError,
    Diagnostic,
    EvaluationError,
    Inconsistent,
    ProgramError,
    Stopped,
    TidelogError,
)

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tidelog import pipeline
    from tidelog.changes import Delta
    from tidelog.engine.spark.settings import SparkSettings
    from tidelog.logic.program import Program
    from tidelog.logic.time import Interval, read_interval
    from tidelog.ontology.ontology import Ontology
    from tidelog.opening import StoredReasoner
    from tidelog.reasoner import Reasoner
    from tidelog.relation import Relation
    from tidelog.temporal.chart.drawing import Drawing, Time
    from tidelog.temporal.reasoning import TimeSettings

__all__ = [
    "DataError",
    "Delta",
    "Diagnostic",
    "EvaluationError",
    "Inconsistent",
    "Interval",
    "Program",
    "ProgramError",
    "Reasoner",
    "Relation",
    "Stopped",
    "TidelogError",
    "TimeSettings",
    "load",
    "load_ontology",
    "open",
    "parse",
    "pipeline",
    "prepare",
    "read_interval",
    "spark",
    "timeline",
]


def parse(
    text: str,
    *,
    parameters: Mapping[str, str] | None = None,
    folder: Path | str | None = None,
    name: str = "<text>",
) -> Program:
    """The program of a text; relative paths in it lie in `folder`."""
    from tidelog.errors import Source
    from tidelog.logic.resolve import resolve
    from tidelog.syntax.parser import parse as parse_source

    place = None if folder is None else Path(folder)
    return resolve(parse_source(Source(name, text)), parameters=parameters, folder=place)


def load(path: Path | str, *, parameters: Mapping[str, str] | None = None) -> Program:
    """The program in a file; relative paths in it are relative to its folder."""
    from tidelog.logic.resolve import load as load_program

    return load_program(path, parameters)


def load_ontology(*paths: Path | str, equality: str = "axiomatise", unique_names: bool = False) -> Ontology:
    """The ontology in files of RDF: its rules, and what lies outside OWL 2 RL.

    `Reasoner(tl.load_ontology("zoo.owl").program)` reasons by it. With `equality="rewrite"` what is
    `owl:sameAs` something else is merged with it, by rules with `?x = ?y` in their heads. With `unique_names`
    it is inconsistent that two IRIs are the same.
    """
    from tidelog.ontology import ontology

    return ontology.load_ontology(*paths, equality=equality, unique_names=unique_names)


def open(
    path: Path | str,
    program: Program | None = None,
    *,
    durability: str = "full",
    read_only: bool = False,
    **settings: Any,
) -> StoredReasoner:
    """The reasoner of a store, the folder `path`: its transactions are durable when they return.

    Where there is no store, one is made of the program. `settings` are those of `Reasoner`.
    """
    from tidelog.opening import open_store

    return open_store(path, program, durability=durability, read_only=read_only, **settings)


def prepare() -> None:
    """Load the compiled kernels now, or compile them, rather than when they are first used."""
    from tidelog.reasoner import prepare as prepare_kernels

    prepare_kernels()


def timeline(
    *relations: Relation, start: Time | None = None, end: Time | None = None, lanes: int | None = 1_000
) -> Drawing:
    """A picture of when the facts of relations hold: a lane for each, no more than `lanes` of each relation.

    A notebook shows it; `save("alarms.svg")` and `.html` write it, `text()` is for terminals. It shows the
    time between `start` and `end`, numbers or texts such as `2024-05-01T08:00:00Z`, else all bounds.
    """
    from tidelog.temporal.chart.drawing import Drawing

    return Drawing(relations, start, end, lanes)


def spark(session: object = None, **settings: Any) -> SparkSettings:
    """The Spark engine: `Reasoner(program, engine=tl.spark(session, strategy="iterated-joins"))`.

    Without a session the shared one is used, which starts when it is first needed.
    """
    from tidelog.engine.spark.settings import SparkSettings

    return SparkSettings(session, **settings)


def __getattr__(name: str) -> object:
    # The engine is imported when it is first used: `tidelog --version` need not wait for it.
    if name == "Reasoner":
        from tidelog.reasoner import Reasoner

        return Reasoner
    if name == "Relation":
        from tidelog.relation import Relation

        return Relation
    if name == "Delta":
        from tidelog.changes import Delta

        return Delta
    if name == "pipeline":
        from importlib import import_module

        return import_module("tidelog.pipeline")
    if name == "TimeSettings":
        from tidelog.temporal.reasoning import TimeSettings

        return TimeSettings
    if name in ("Interval", "read_interval"):
        from tidelog.logic import time

        return getattr(time, name)
    if name == "Program":
        from tidelog.logic.program import Program

        return Program
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
