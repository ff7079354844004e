"""Codes of the faults of job files, pipelines and published versions, each with what it means."""

from __future__ import annotations

from typing import Final

NOT_TOML: Final = "E801"
UNKNOWN_KEY: Final = "E802"
BAD_VALUE: Final = "E803"
MISSING_KEY: Final = "E804"
NO_PREDICATE: Final = "E805"
NO_FILES: Final = "E806"
DRIFT: Final = "E807"
TOO_MANY_REJECTS: Final = "E808"
LOCKED: Final = "E809"
NO_VERSION: Final = "E810"
DAMAGED: Final = "E811"
NEEDS_SPARK: Final = "E812"
BAD_SINK: Final = "E813"
BAD_RECORD: Final = "E814"
LATE: Final = "E815"
NO_STREAM: Final = "E816"
TIMED: Final = "E817"
GUARD: Final = "E818"
EXPECTATION: Final = "E819"
NOT_A_REPORT: Final = "E820"
GUARD_WARNING: Final = "W818"
EXPECTATION_WARNING: Final = "W819"
NOT_SENT: Final = "W820"

MEANINGS: Final = {
    NOT_TOML: "a job file that cannot be read, or is not TOML",
    UNKNOWN_KEY: "a key that a job file does not have",
    BAD_VALUE: "a value that a key of a job file cannot have",
    MISSING_KEY: "a key that a job file lacks",
    NO_PREDICATE: "a predicate that the program does not have, or not with so many columns",
    NO_FILES: "a source without files",
    DRIFT: "a source, or a predicate, with other columns than in the last published version",
    TOO_MANY_REJECTS: "more rejected rows than the job allows",
    LOCKED: "a published folder that another process is writing to",
    NO_VERSION: "a version that is not published, or a folder without any",
    DAMAGED: "a published folder in which something is missing or is not what it should be",
    NEEDS_SPARK: "a source, sink or engine that needs Spark where that is not to be had",
    BAD_SINK: "a sink that cannot take what it is given",
    BAD_RECORD: "a record of a stream that is not well formed",
    LATE: "a record of a stream that comes after later ones",
    NO_STREAM: "a stream that is not described, or not as it was",
    TIMED: "time that is to advance in a pipeline, or records with times where facts have none, or without",
    GUARD: "a guard that a run does not satisfy: nothing was published",
    EXPECTATION: "an expectation that does not hold: nothing was published",
    NOT_A_REPORT: "a report or log of runs that cannot be read",
    GUARD_WARNING: "a guard that a run does not satisfy and that only warns",
    EXPECTATION_WARNING: "an expectation that does not hold and that only warns, or leaves rows out",
    NOT_SENT: "an OpenLineage event that could not be written or sent",
}
