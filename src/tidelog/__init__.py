"""tidelog keeps the consequences of rules right while facts and rules change."""

from __future__ import annotations

from tidelog.errors import (
    DataError,
    Diagnostic,
    EvaluationError,
    Inconsistent,
    ProgramError,
    ProgramWarning,
    Stopped,
    TidelogError,
)

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from tidelog import pipeline
    from tidelog.data.relation import Relation
    from tidelog.logic.intervals import Interval, read_interval
    from tidelog.logic.program import Folders, Program
    from tidelog.ontology.ontology import Ontology
    from tidelog.reasoner.delta import Delta
    from tidelog.reasoner.reasoner import Reasoner
    from tidelog.reasoner.storing import StoredReasoner
    from tidelog.reasoner.transaction import Change
    from tidelog.show.chart import Drawing, Time
    from tidelog.temporal.temporal import TimeSettings

    spark: Any  # the module `tidelog.spark`

# Imported when they are first used: `import tidelog` does not wait for the engine.
_LAZY = {
    "Change": "tidelog.reasoner.transaction",
    "Delta": "tidelog.reasoner.delta",
    "Interval": "tidelog.logic.intervals",
    "Ontology": "tidelog.ontology.ontology",
    "Program": "tidelog.logic.program",
    "Reasoner": "tidelog.reasoner.reasoner",
    "Relation": "tidelog.data.relation",
    "StoredReasoner": "tidelog.reasoner.storing",
    "TimeSettings": "tidelog.temporal.temporal",
    "read_interval": "tidelog.logic.intervals",
}

__all__ = [
    "Change",
    "DataError",
    "Delta",
    "Diagnostic",
    "EvaluationError",
    "Inconsistent",
    "Interval",
    "Ontology",
    "Program",
    "ProgramError",
    "ProgramWarning",
    "Reasoner",
    "Relation",
    "Stopped",
    "StoredReasoner",
    "TidelogError",
    "TimeSettings",
    "load",
    "load_ontology",
    "open",
    "parse",
    "pipeline",
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
    allow_read: Folders = None,
    allow_write: Folders = None,
) -> Program:
    """The program of a text; relative paths in it lie in `folder`.

    A program that is not your own is confined: `allow_read` and `allow_write` are the folders, or files,
    that it may include, import and export. Where one of the two is given, the other is none.
    """
    from tidelog.logic.program import Sandbox
    from tidelog.logic.resolve import read_text, warned

    return warned(read_text(text, parameters, folder, name, Sandbox.of(allow_read, allow_write)))


def load(
    path: Path | str,
    *,
    parameters: Mapping[str, str] | None = None,
    allow_read: Folders = None,
    allow_write: Folders = None,
) -> Program:
    """The program in a file; relative paths in it are relative to its folder.

    `allow_read` and `allow_write` confine it, as in `parse`.
    """
    from tidelog.logic.program import Sandbox
    from tidelog.logic.resolve import load as load_program
    from tidelog.logic.resolve import warned

    return warned(load_program(path, parameters, sandbox=Sandbox.of(allow_read, allow_write)))


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
    program: Program | Path | str | None = None,
    *,
    durability: str = "full",
    read_only: bool = False,
    **settings: Any,
) -> StoredReasoner:
    """The reasoner of a store, the folder `path`: its transactions are durable when they return.

    Where there is no store, one is made of the program: a `Program`, its text, or the `Path` of its file.
    `settings` are those of `Reasoner`.
    """
    from tidelog.reasoner.storing import open_store

    return open_store(path, program, durability=durability, read_only=read_only, **settings)


def timeline(
    *relations: Relation, start: Time | None = None, end: Time | None = None, lanes: int | None = 1_000
) -> Drawing:
    """A picture of when the facts of relations hold: a lane for each, no more than `lanes` of each relation.

    A notebook shows it; `save("alarms.svg")` and `.html` write it, `text()` is for terminals. It shows the
    time between `start` and `end`, numbers or texts such as `2024-05-01T08:00:00Z`, else all bounds.
    """
    from tidelog.show.chart import Drawing

    return Drawing(relations, start, end, lanes)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in ("pipeline", "spark"):
        return import_module(f"tidelog.{name}")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
