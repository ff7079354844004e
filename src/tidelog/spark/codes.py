"""Codes of the faults of programs as functions of frames."""

from __future__ import annotations

from typing import Final

NO_SUCH_PREDICATE: Final = "E860"
WRONG_COLUMNS: Final = "E861"
NO_SUCH_TYPE: Final = "E862"
STREAMING: Final = "E863"
TRANSFER: Final = "E864"
TIMED: Final = "E865"
MISFIT: Final = "E866"
NO_SESSION: Final = "E867"
NOT_A_DISK: Final = "E875"
UNTYPED: Final = "E876"
OPERATION: Final = "E877"
NOT_COMPARABLE: Final = "E878"
NOT_PUBLISHED: Final = "E879"

MEANINGS: Final = {
    NO_SUCH_PREDICATE: "a frame for a predicate, or an output, that the program does not have",
    WRONG_COLUMNS: "a frame whose columns are not those of its predicate",
    NO_SUCH_TYPE: "a column of a Spark type that has no values here",
    STREAMING: "a streaming frame: each micro-batch would be evaluated alone",
    TRANSFER: "a program with imports or exports where frames go in and out",
    TIMED: "a program whose facts hold at times, on frames",
    MISFIT: "a derived value that the type of its column cannot hold",
    NO_SESSION: "no Spark session, and no frame to take it from",
    NOT_A_DISK: "a store at the address of an object store: stores lie on a disk",
    UNTYPED: "a frame of changes for a predicate whose columns have no declared types",
    OPERATION: "a row of changes that does not say whether its fact comes or goes, or when",
    NOT_COMPARABLE: "two versions of a table with different columns",
    NOT_PUBLISHED: "changes that could not be published: nothing was committed",
}
