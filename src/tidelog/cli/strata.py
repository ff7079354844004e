"""What transactions did in each stratum, as a table for people and as JSON for programs."""

from __future__ import annotations

from typing import Final

from tidelog.cli.reasoning import Work
from tidelog.engine.events import StrataTally, StratumStatistics
from tidelog.plan.rule_text import Writing, shortened
from tidelog.rewrite.over_representatives import MARK
from tidelog.rewrite.splitting import SEPARATOR

_MOST: Final = 20  # strata on a screen
_NAME_WIDTH: Final = 44
_HEAD: Final = ("stratum", "by", "times", "taken away", "put back", "went", "came", "instances", "seconds")


def strata_json(tally: StrataTally, work: Work) -> list[dict[str, object]]:
    """A value for each stratum and who maintained it, those that took longest first."""
    return [
        {
            "predicates": names,
            "maintainer": maintainer,
            "times": done.times,
            "taken_away": done.overdeleted,
            "put_back": done.rederived,
            "went": done.went,
            "came": done.came,
            "instances": done.instances,
            "seconds": round(done.seconds, 6),
        }
        for names, maintainer, done in _sorted(tally, work)
    ]


def strata_lines(tally: StrataTally, work: Work) -> list[str]:
    """The same as lines of text."""
    found = _sorted(tally, work)
    if not found:
        return []
    rows = [_HEAD, *(_cells(*each) for each in found[:_MOST])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(_aligned(row, widths)).rstrip() for row in rows]
    more = len(found) - _MOST
    return [*lines, f"… and {more:,} more strata"] if more > 0 else lines


def _sorted(tally: StrataTally, work: Work) -> list[tuple[list[str], str, StratumStatistics]]:
    """The strata with the names of their predicates, those that took longest first."""
    writing = Writing.of(work.program)
    found = sorted(tally.strata.items(), key=lambda item: -item[1].seconds)
    return [
        ([_named(name, writing) for name in predicates], maintainer, done)
        for (predicates, maintainer), done in found
    ]


def _named(relation: str, writing: Writing) -> str:
    """The predicate, or that on behalf of which there is an auxiliary relation."""
    name, separator, _ = relation.partition(SEPARATOR)
    if MARK in name:
        name, _, rest = name.partition(MARK)
        known = writing.predicates.get(name)
        written = (name if known is None else known.written) + MARK
        separator = separator or rest
    else:
        written = writing.predicate(name)
    return f"{written} (auxiliary)" if separator else written


def _cells(names: list[str], maintainer: str, done: StratumStatistics) -> tuple[str, ...]:
    numbers = (done.times, done.overdeleted, done.rederived, done.went, done.came, done.instances)
    name = shortened(", ".join(names), _NAME_WIDTH)
    return name, maintainer, *(f"{number:,}" for number in numbers), f"{done.seconds:.3f}"


def _aligned(cells: tuple[str, ...], widths: list[int]) -> list[str]:
    """Words to the left, numbers to the right."""
    return [
        cell.ljust(width) if place < 2 else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
