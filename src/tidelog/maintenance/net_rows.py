"""What went or came in a transaction, by relation; rows are made when somebody looks at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelog.maintenance.row_sets import Columns, LateRows, Rows
from tidelog.rewrite.splitting import is_auxiliary


class NetRows(Mapping[str, Rows]):
    """The rows of the program's own relations among those that an engine tells of.

    `counts` are how many rows each relation has; `found` has their ids. Most transactions are never asked
    what they have changed, and few are asked about every relation.
    """

    __slots__ = ("_counts", "_found")

    def __init__(self, counts: Mapping[str, int], found: Mapping[str, tuple[Columns, int]]) -> None:
        self._counts = counts
        self._found = found

    def __getitem__(self, name: str) -> Rows:
        if name not in self:
            raise KeyError(name)
        return Rows(*self._found[name])

    def __contains__(self, name: object) -> bool:
        return name in self._counts and not is_auxiliary(str(name))

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._counts if not is_auxiliary(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many rows each relation has, auxiliary ones included."""
        return self._counts

    @property
    def total(self) -> int:
        """How many rows there are."""
        return sum(count for name, count in self._counts.items() if not is_auxiliary(name))


def total(rows: Mapping[str, Rows]) -> int:
    """How many rows there are, of all relations; of those that are found late, how many stand for them."""
    if type(rows) is NetRows or type(rows) is LateRows:  # `isinstance` asks abstract classes, which is slow
        return rows.total
    return sum(some.count for some in rows.values())
