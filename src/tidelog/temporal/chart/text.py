"""Charts as lines of text: `[━━━)` as intervals are written, `◀` and `▶` where they never end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.shown import shortened, text_width
from tidelog.temporal.chart.axis import Axis
from tidelog.temporal.chart.lanes import Chart, End, Lane, Section, Span

_LEFT = {End.CLOSED: "[", End.OPEN: "(", End.INFINITE: "◀", End.CUT: "‹"}
_RIGHT = {End.CLOSED: "]", End.OPEN: ")", End.INFINITE: "▶", End.CUT: "›"}
_BAR, _POINT, _SHORT, _DENSE, _BOTH = "━", "●", "▪", "▒", "┃"
_NARROWEST = 20  # columns of a lane


def chart_lines(chart: Chart, width: int) -> Iterator[str]:
    """The lines of a chart that is no wider than so many columns, or as narrow as lanes can be."""
    longest = max((text_width(lane.label) for section in chart.sections for lane in section.lanes), default=0)
    labels = max(min(longest, width // 3), 1)
    columns = max(width - labels - 1, _NARROWEST)
    yield f"{chart.title}  {', '.join(chart.summary)}"
    ruler = list(_ruler(chart.axis, columns))
    yield from _indented(ruler, labels)
    for section in chart.sections:
        if len(chart.sections) > 1:
            yield section.title
        for lane in section.lanes:
            label = shortened(lane.label, labels)
            yield f"{label}{' ' * (labels - text_width(label))} {_lane(lane, columns)}".rstrip()
        yield from _more(section)


def _indented(lines: Iterable[str], labels: int) -> Iterator[str]:
    return (f"{' ' * (labels + 1)}{line}".rstrip() for line in lines)


def _more(section: Section) -> Iterator[str]:
    if section.left_out:
        yield f"… {section.left_out:,} more"
    elif not section.lanes:
        yield "nothing holds in this time"


def _ruler(axis: Axis, columns: int) -> Iterator[str]:
    """The dates, if there are some, the labels, and the line with the ticks."""
    ticks = axis.ticks(columns)
    at = [round(axis.place(tick.point) * (columns - 1)) for tick in ticks]
    for texts in ([tick.date for tick in ticks], [tick.text for tick in ticks]):
        if any(texts):
            yield _labels(zip(at, texts, strict=True), columns)
    yield "".join("┬" if place in at else "─" for place in range(columns))


def _labels(labels: Iterable[tuple[int, str]], columns: int) -> str:
    """Texts in the middle over their places, as far as there is room to both sides."""
    line = ""
    for place, text in labels:
        if text:
            start = max(min(place - (len(text) - 1) // 2, columns - len(text)), len(line) and len(line) + 1)
            line = line.ljust(start) + text
    return line


def _lane(lane: Lane, columns: int) -> str:
    cells = [" "] * columns
    for span in lane.spans:
        _draw(span, cells)
    return "".join(cells)


def _draw(span: Span, cells: list[str]) -> None:
    """Put a span into its cells; two ends in one cell are a line."""
    last = len(cells) - 1
    left, right = round(span.left * last), round(span.right * last)
    if span.intervals > 1:
        cells[left : right + 1] = _DENSE * (right + 1 - left)
        return
    if left == right:
        is_point = span.left == span.right and span.left_end is span.right_end is End.CLOSED
        marks = [_POINT if is_point else _SHORT]
        if span.right_end in (End.INFINITE, End.CUT):
            marks = [_RIGHT[span.right_end]]
        elif span.left_end in (End.INFINITE, End.CUT):
            marks = [_LEFT[span.left_end]]
    else:
        marks = [_LEFT[span.left_end], *_BAR * (right - left - 1), _RIGHT[span.right_end]]
    if cells[left] != " ":
        marks[0] = _BOTH
    cells[left : right + 1] = marks
