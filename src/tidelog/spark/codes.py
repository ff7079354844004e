"""Codes of the faults of programs as functions of frames."""

from __future__ import annotations

from typing import Final

from tidelog.io.codes import MISFIT, RETIRED

NO_SUCH_PREDICATE: Final = "E860"
WRONG_COLUMNS: Final = "E861"
NO_SUCH_TYPE: Final = "E862"
STREAMING: Final = "E863"
TRANSFER: Final = "E864"
NO_SESSION: Final = "E867"
NOT_SHIPPED: Final = "E868"
FAILED: Final = "E869"
NOT_WRITTEN: Final = "E870"
FORMAT: Final = "E871"
STRATEGY: Final = "E873"
NOT_A_DISK: Final = "E875"
UNTYPED: Final = "E876"
OPERATION: Final = "E877"
NOT_COMPARABLE: Final = "E878"
NOT_PUBLISHED: Final = "E879"
TIMED: Final = "E880"
NO_MEMORY: Final = "E882"
NOT_REDERIVED: Final = "E881"
NO_FILES: Final = "E895"
NOT_READABLE: Final = "E896"
OTHER_COLUMNS: Final = "E897"
FILTER: Final = "E898"
CALL: Final = "E890"
OPTION: Final = "E891"
NO_LAYOUT: Final = "E892"

MEANINGS: Final = {
    NO_SUCH_PREDICATE: "a frame for a predicate, or an output, that the program does not have",
    WRONG_COLUMNS: "a frame whose columns are not those of its predicate",
    NO_SUCH_TYPE: "a column of a Spark type that has no values here",
    STREAMING: "a streaming frame: each micro-batch would be evaluated alone",
    TRANSFER: "a program with imports or exports where frames go in and out",
    MISFIT: "a derived value that the type of its column cannot hold",
    NO_SESSION: "no Spark session, and no frame to take it from",
    NOT_SHIPPED: "a worker of Spark without tidelog, or without what it needs",
    FAILED: "a job of Spark that failed",
    NOT_WRITTEN: "where `derived.save` cannot write",
    FORMAT: "an import or export in a format, or with options, that Spark does not have",
    STRATEGY: "a strategy, or a number of tasks, by which a program cannot run",
    RETIRED: "the Spark engine of `Reasoner`, which is no more",
    NOT_A_DISK: "a store at the address of an object store: stores lie on a disk",
    UNTYPED: "changes, or a table of a pipeline, for a predicate whose columns have no declared types",
    OPERATION: "a row of changes that does not say whether its fact comes or goes, or when",
    NOT_COMPARABLE: "two versions of a table with different columns",
    NOT_PUBLISHED: "changes that could not be published: nothing was committed",
    TIMED: "facts that hold at times, where changes and tables of pipelines have none",
    NOT_REDERIVED: "a change that cannot be worked into frames of what was derived before",
    NO_FILES: "a source without files",
    NOT_READABLE: "a source that the session of Spark cannot read: a format, a driver or a table it lacks",
    OTHER_COLUMNS: "files of one source with different columns",
    FILTER: "a filter of a source that is not well formed",
    NO_MEMORY: "facts that do not fit the memory of a task",
    CALL: "a call of the function of SQL that has no right result",
    OPTION: "options of the format `tidelog` that do not exist, or do not go together",
    NO_LAYOUT: "a frame to be published that is not `derived.facts`",
}
