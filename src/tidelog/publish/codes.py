"""Codes of the faults of published folders and of tables of others, each with what it means."""

from __future__ import annotations

from typing import Final

NO_VERSION: Final = "E901"
NO_TABLE: Final = "E902"
FORMAT: Final = "E903"
LOCKED: Final = "E904"
PENDING: Final = "E905"
NO_SUCH_TYPE: Final = "E906"
WRONG_FILE: Final = "E907"
NOT_THERE: Final = "E908"
TWICE: Final = "E909"
DAMAGED: Final = "E910"
STORAGE: Final = "E911"
FEATURE: Final = "E912"
NO_CHANGES: Final = "E913"
PACKAGE_MISSING: Final = "E914"
CONFLICT: Final = "E915"
NOT_READABLE: Final = "E916"

MEANINGS: Final = {
    NO_VERSION: "a version that is not published, or no longer, or a folder without any",
    NO_TABLE: "a table that a published version does not have",
    FORMAT: "a folder in another format than the one asked for, or a format that does not exist",
    LOCKED: "a published folder that another process is writing to",
    PENDING: "a version that was not completed, and only its job knows whether it counts",
    NO_SUCH_TYPE: "a column, or a name, that tables in this format cannot have",
    WRONG_FILE: "a data file that does not have the columns, types or values of its table",
    NOT_THERE: "a row to delete that a published table does not have",
    TWICE: "a table that is changed twice in one version, or a version that is used after its commit",
    DAMAGED: "a published folder in which something is missing or is not what it should be",
    STORAGE: "an address or a storage setting that is not known, or an object store that cannot be reached",
    FEATURE: "a Delta or Iceberg table with a feature that is not supported",
    NO_CHANGES: "changes that are not there: no change feed, too old, or of other columns",
    PACKAGE_MISSING: "a format whose package is not installed",
    CONFLICT: "a table that somebody else has written to at the same time",
    NOT_READABLE: "a Delta or Iceberg table that cannot be read",
}
