"""Relations as tables for people: columns that line up, numbers to the right, nothing cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidelog.data.relation import Relation
from tidelog.errors import counted
from tidelog.shown import text_width, visible

_BOLD, _DIM, _NORMAL = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def table_lines(
    name: str, relation: Relation, *, most: int | None = None, terms: str = "plain", coloured: bool = False
) -> Iterator[str]:
    """The lines of a table: its name and size, its columns, its rows, and how many more there are."""
    bold, dim, normal = (_BOLD, _DIM, _NORMAL) if coloured else ("", "", "")
    count = len(relation)
    yield f"{bold}{visible(name)}{normal}  {dim}{counted(count, 'row')}{normal}"
    shown = relation if most is None else relation.head(most)
    table = shown.to_texts(terms).table
    numbers = {field.name for field in shown.to_arrow().schema if _is_number(field.type)}
    right = [name in numbers for name in table.column_names]
    cells = [[visible(text) for text in column.to_pylist()] for column in table.columns]
    names = [visible(name) for name in table.column_names]
    widths = [max(map(text_width, (name, *column))) for name, column in zip(names, cells, strict=True)]
    if count:
        yield f"  {bold}{_line(names, widths, right)}{normal}"
        yield f"  {dim}{'  '.join('─' * width for width in widths)}{normal}"
        for row in zip(*cells, strict=True):
            yield f"  {_line(row, widths, right)}"
    if count > len(shown):
        yield f"  {dim}… {count - len(shown):,} more; `--rows 0` shows all{normal}"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        " " * (width - text_width(cell)) + cell if to_right else cell + " " * (width - text_width(cell))
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(padded).rstrip()


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
