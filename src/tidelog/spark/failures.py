"""Errors of tasks, which Spark brings to the driver as text: as what they were raised as."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidelog import errors
from tidelog.engine.exchange import Lost
from tidelog.errors import DataError, Diagnostic, ProgramError, TidelogError
from tidelog.spark import codes

_CLASSES: Final = {
    name: getattr(errors, name)
    for name in ("ProgramError", "DataError", "EvaluationError", "Inconsistent", "Stopped")
} | {"Lost": Lost}
# The code is part of it: before the message, a way through Python code may show the line that raises it.
_TOLD: Final = re.compile(rf"({'|'.join(_CLASSES)}): (?=error\[[A-Z]\d+\])(.*)", re.DOTALL)
_END: Final = re.compile(r"\s*(SQLSTATE: \w+|\n\s*at org\.apache\.spark).*", re.DOTALL)
_PYTHON: Final = re.compile(
    r"Python in worker has different version: ([\d.]+) than that in driver: (\d+\.\d+)"
)
_CAUSE: Final = re.compile(r"Caused by: [\w.$]+: (.*?)(?=\n\s+at |\n\s*\.\.\. |\Z)", re.DOTALL)
_RAISED: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_ONE: Final = re.compile(
    r"error\[(?P<code>\w+)\]: (?P<message>.*?)"
    r"(?:\n +--> (?P<place>[^\n]*))?(?P<excerpt>(?:\n[ \d]*\|[^\n]*)*)(?:\n  help: (?P<help>.*))?",
    re.DOTALL,
)


@contextmanager
def telling() -> Iterator[None]:
    """In the block, raise what a task says, or what else Spark failed with, as an error of tidelog."""
    try:
        yield
    except (PySparkException, Py4JError) as error:  # the second is a barrier stage that failed for good
        raise error_of(error) from error


def error_of(error: Exception) -> TidelogError:
    """Return the error of tidelog that Spark raises an exception for.

    >>> text = "[X] DataError: error[E504]: bad\\n  --> p\\n  help: mend it SQLSTATE: P0001"
    >>> told = error_of(RuntimeError(text))
    >>> type(told).__name__, told.diagnostics[0].place, told.diagnostics[0].help
    ('DataError', 'p', 'mend it')
    """
    other = _PYTHON.search(str(error))
    if other is not None:
        message = f"a worker of Spark has Python {other[1]}, the driver {other[2]}"
        help = f"let PYSPARK_PYTHON, or spark.pyspark.python, name a Python {other[2]} on all machines"
        return ProgramError(Diagnostic(codes.NOT_SHIPPED, message, help=help))
    found = _TOLD.search(str(error))
    if found is None:
        return DataError(Diagnostic(codes.FAILED, f"Spark failed: {_reason(str(error))}"))
    kind: type[TidelogError] = _CLASSES[found[1]]
    return kind(_diagnostic(text) for text in _END.sub("", found[2]).split("\n\n") if text.strip())


def _reason(text: str) -> str:
    """Return why Java failed: what a task raised, else the last cause if some are told, else the first line.

    >>> _reason("x failed\\n\\tat A.b(C)\\nCaused by: java.io.IOException: no file\\nf.csv\\n\\tat D.e(F)\\n")
    'no file f.csv'
    >>> _reason("x: Traceback (most recent call last):\\n  File a, line 1\\nOSError: full\\n SQLSTATE: 38000")
    'OSError: full'
    """
    causes = _RAISED.findall(text) or _CAUSE.findall(text)
    told = " ".join(causes[-1].split()) if causes else text.strip().splitlines()[0]
    return _END.sub("", told)


def _diagnostic(text: str) -> Diagnostic:
    read = _ONE.fullmatch(text.strip())
    if read is None:
        return Diagnostic(codes.FAILED, text.strip())
    return Diagnostic(read["code"], read["message"], place=read["place"], help=read["help"])
