"""Codes of the faults of programs as functions of frames."""

from __future__ import annotations

from typing import Final

from tidelog.relation import MISFIT

NO_SUCH_PREDICATE: Final = "E860"
WRONG_COLUMNS: Final = "E861"
NO_SUCH_TYPE: Final = "E862"
STREAMING: Final = "E863"
TRANSFER: Final = "E864"
TIMED: Final = "E865"
NO_SESSION: Final = "E867"

MEANINGS: Final = {
    NO_SUCH_PREDICATE: "a frame for a predicate, or an output, that the program does not have",
    WRONG_COLUMNS: "a frame whose columns are not those of its predicate",
    NO_SUCH_TYPE: "a column of a Spark type that has no values here",
    STREAMING: "a streaming frame: each micro-batch would be evaluated alone",
    TRANSFER: "a program with imports or exports where frames go in and out",
    TIMED: "a program whose facts hold at times, on frames",
    MISFIT: "a derived value that the type of its column cannot hold",
    NO_SESSION: "no Spark session, and no frame to take it from",
}
