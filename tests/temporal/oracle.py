"""Metric operators by their definition, point by point: an oracle that shares nothing with the kernels.

All bounds are integers, so the truth of anything is the same at all points of a cell: an integer, or all
points between two. A cell is numbered 2t or 2t + 1. Quantifiers range over points fine enough to meet every
cell that a window with bounds on half points meets: quarters for the one that is looked for, eighths between.
Points are counted in eighths.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache

from tidelog.logic.intervals import Interval

REACH = 16  # no fact or window reaches further, but for infinite ones
CELLS = range(-2 * REACH, 2 * REACH + 1)
Points = frozenset[int]  # cells


def cells_of(intervals: Iterable[Interval]) -> Points:
    """The cells between -REACH and REACH in which one of the intervals lies."""
    intervals = list(intervals)
    return frozenset(cell for cell in CELLS if any(Fraction(cell, 2) in interval for interval in intervals))


def cell_of(point: int) -> int:
    """The cell of a point; beyond the reach, everything is as at its end."""
    cell = 2 * (point >> 3) + (point & 7 != 0)
    return max(CELLS[0], min(CELLS[-1], cell))


@cache
def operated(
    operator: str,
    window: Interval,
    operands: tuple[Points, ...],
    is_integer: bool = False,
    cells: range = CELLS,
) -> Points:
    """Those of the cells in which a metric atom holds."""
    way = -1 if operator in ("boxminus", "diamondminus", "since") else 1
    step = 8 if is_integer else 2
    distances = [n for n in range(0, 16 * REACH + 1, step) if Fraction(n, 8) in window]

    def holds(cell: int) -> bool:
        point = 4 * cell
        if operator in ("since", "until"):
            return _lasts(point, way, distances, operands, 8 if is_integer else 1)
        truths = (cell_of(point + way * distance) in operands[0] for distance in distances)
        return all(truths) if operator.startswith("box") else any(truths)

    return frozenset(cell for cell in cells if (cell % 2 == 0 or not is_integer) and holds(cell))


def _lasts(point: int, way: int, distances: list[int], operands: tuple[Points, ...], step: int) -> bool:
    """Whether the second operand holds at one of the distances, and the first at all points before it."""
    passed = 0
    for distance in distances:
        while passed + step < distance:
            passed += step
            if cell_of(point + way * passed) not in operands[0]:
                return False
        if cell_of(point + way * distance) in operands[1]:
            return True
    return False
