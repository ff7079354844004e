"""Codes of the faults of data and files, each with what it means."""

from __future__ import annotations

from typing import Final

MISFIT = "E866"


RETIRED = "E872"

NOT_FOUND: Final = "E501"
NOT_OF_FORMAT: Final = "E502"
WRONG_WIDTH: Final = "E503"
NOT_OF_TYPE: Final = "E504"
NOT_UTF_8: Final = "E505"
NOT_JSON: Final = "E506"
NOT_RDF: Final = "E507"
PACKAGE_MISSING: Final = "E508"
BAD_OPTION: Final = "E509"
# E510 is a Python object without a value, in `logic.python`.
OPEN_QUOTE: Final = "E511"
COLUMN_MISSING: Final = "E512"
NO_SUCH_VALUES: Final = "E513"
NOT_ROWS: Final = "E514"
NOT_WRITABLE: Final = "E515"
NEEDS_QUOTES: Final = "E516"
NOT_A_STATEMENT: Final = "E517"
NOT_SPARQL: Final = "E518"
MALFORMED: Final = "E519"
ENTITIES: Final = "E520"
TOO_DEEP: Final = "E521"
TEXT_IS_A_PATH: Final = "E526"
NO_SUCH_COLUMN: Final = "E527"
MORE_BAD_ROWS: Final = "E528"
NOT_ALLOWED: Final = "E529"

MEANINGS: Final = {
    NOT_FOUND: "a file that does not exist or cannot be opened",
    NOT_OF_FORMAT: "a file whose format is not known, or that is not of its format",
    WRONG_WIDTH: "a row, or a table, with too few or too many columns",
    NOT_OF_TYPE: "a value that is missing, or not of its column's type",
    NOT_UTF_8: "text that is not UTF-8",
    NOT_JSON: "a file or a line that is not JSON, or not rows",
    NOT_RDF: "a statement that is not well written, or has a term that is not supported",
    PACKAGE_MISSING: "a format that needs a package that is not installed",
    BAD_OPTION: "an option of an import or export with a value that it cannot have",
    OPEN_QUOTE: "a quoted text without its closing quote",
    COLUMN_MISSING: "a declared column that the header does not name",
    NO_SUCH_VALUES: "a column of a type of Arrow that has no values here",
    NOT_ROWS: "a Python object that is not rows, or columns of several lengths",
    NOT_WRITABLE: "a file that cannot be written",
    NEEDS_QUOTES: "text that cannot be written without quotes",
    NOT_A_STATEMENT: "a row that cannot be written as a statement of RDF",
    NOT_SPARQL: "a query that is not SPARQL",
    MALFORMED: "Arrow data that is damaged: buffers that do not fit together, or text that is not UTF-8",
    ENTITIES: "a file of RDF/XML with entities that are external, too long or too many",
    TOO_DEEP: "data, or a query of SPARQL, that is nested too deeply",
    TEXT_IS_A_PATH: "in Python, the path of a file where the text of a program is expected",
    NO_SUCH_COLUMN: "a column of a relation that does not exist",
    MORE_BAD_ROWS: "rows that cannot be read, beyond those that are shown",
    NOT_ALLOWED: "a file that the program [may not](cli.md#programs-of-others) read or write",
}
