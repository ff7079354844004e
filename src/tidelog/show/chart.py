"""Charts of relations over time in every form: SVG, page, lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Final

from tidelog.data.relation import Relation
from tidelog.durable import replacing_text
from tidelog.errors import Diagnostic, ProgramError, codes, shortened, text_width
from tidelog.logic.intervals import read_point
from tidelog.records import dataclass
from tidelog.show.chart_lanes import Axis, Chart, End, Lane, LaneSpan, RelationLanes, make_chart
from tidelog.show.picture_formats import document
from tidelog.temporal.timed_relation import PeriodicRelation, TimedRelation

# ---- charts as self-contained SVG
#
# Few lanes have room for a label each, and circles at their ends: filled if the bound is included. Many
# lanes are as thin as can be distinguished: their labels are thinned, or name groups, and bars fade before
# bounds that are left out.

SVG_WIDTH: Final = 1000.0
_EDGE: Final = 16.0
_CHARACTER: Final = 7.0  # width of one, in a label of 11.5 pixels
_MOST_LABEL: Final = 40  # characters
_TITLE: Final = 46.0
_AXIS: Final = 22.0
_DATES: Final = 14.0
_HEADING: Final = 24.0
_LEGEND: Final = 30.0
_HIGHEST, _LOWEST = 24.0, 3.0  # pixels from lane to lane
_WANTED: Final = 1_400.0  # pixels of all lanes together, while they can be distinguished
_ROOMY: Final = 12.0  # from here on every lane has its label
_TALL: Final = 700.0  # pixels from which on there is an axis below, too
_FADE: Final = 3.0
_ARROW: Final = 7.0
_SHORTEST: Final = 1.2  # of bars

_STYLE: Final = """\
.tide-chart { background: #fff; }
.tide-chart text {
  font: 11.5px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #18242e;
}
.tide-chart .tide-title { font-size: 14px; font-weight: 600; }
.tide-chart .tide-muted, .tide-chart .tide-thin { fill: #5f7282; }
.tide-chart .tide-thin { font-size: 10px; }
.tide-chart .tide-heading { fill: #0f766e; font-weight: 600; }
.tide-chart .tide-paper { fill: #fff; }
.tide-chart .tide-stripe { fill: #f3f6f8; }
.tide-chart .tide-grid { stroke: #d7e0e7; stroke-width: 1; }
.tide-chart .tide-frame { stroke: #8ea1af; stroke-width: 1; }
.tide-chart .tide-bar, .tide-chart .tide-closed, .tide-chart .tide-arrow { fill: #0f766e; }
.tide-chart .tide-dense { fill: #0f766e; fill-opacity: 0.5; }
.tide-chart .tide-fade { fill: #0f766e; fill-opacity: 0.35; }
.tide-chart .tide-open { fill: #fff; stroke: #0f766e; stroke-width: 1.8; }
@media (prefers-color-scheme: dark) {
.tide-chart { background: #131c22; }
.tide-chart text { fill: #dde7ed; }
.tide-chart .tide-muted, .tide-chart .tide-thin { fill: #8ea1af; }
.tide-chart .tide-heading { fill: #4fd1c5; }
.tide-chart .tide-paper { fill: #131c22; }
.tide-chart .tide-stripe { fill: #19242b; }
.tide-chart .tide-grid { stroke: #26343d; }
.tide-chart .tide-bar, .tide-chart .tide-closed, .tide-chart .tide-arrow { fill: #4fd1c5; }
.tide-chart .tide-dense, .tide-chart .tide-fade { fill: #4fd1c5; }
.tide-chart .tide-open { fill: #131c22; stroke: #4fd1c5; }
}
"""


@dataclass(frozen=True, slots=True)
class ChartLayout:
    """The positions of lanes, in pixels."""

    left: float  # of the lanes
    right: float
    pitch: float  # from lane to lane

    @property
    def is_roomy(self) -> bool:
        """Whether lanes have room for labels and circles."""
        return self.pitch >= _ROOMY

    @property
    def bar(self) -> float:
        """The height of bars."""
        return round(min(6.0, self.pitch * 0.3)) if self.is_roomy else self.pitch - 1

    def x(self, place: float) -> float:
        """Where a place of a lane is."""
        return self.left + place * (self.right - self.left)


def svg_text(chart: Chart, *, is_alone: bool = True) -> str:
    """Return the chart as an SVG document; on a page without title and upper axis, which the page has."""
    layout = _layout(chart)
    lines: list[str] = []
    top = 0.0
    if is_alone:
        lines += [*_title(chart), _shifted(_TITLE, _axis(chart, layout))]
        top = _TITLE + _axis_height(chart)
    placed, y = _placed(chart, layout, top)
    for section, start in placed:
        lines += _stripes(section, layout, start)
    lines += _grid(chart, layout, top, y)
    for section, start in placed:
        if len(placed) > 1:
            lines.append(_text("tide-heading", _EDGE, start - 7, shortened(section.title, 110)))
        lines += _section(section, layout, start)
    if y - top > _TALL:
        lines.append(_shifted(y, _axis(chart, layout, is_below=True)))
        y += _axis_height(chart)
    lines += _legend(chart, layout, y)
    return _document(lines, y + _LEGEND, chart.title)


def _shifted(y: float, lines: Iterable[str]) -> str:
    return f'<g transform="translate(0 {y:g})">{"".join(lines)}</g>'


def axis_text(chart: Chart) -> str:
    """The axis of the chart alone, as an SVG document."""
    return _document(_axis(chart, _layout(chart)), _axis_height(chart), "time")


def _document(lines: Iterable[str], height: float, title: str) -> str:
    size = f'width="{SVG_WIDTH:g}" height="{height:g}" viewBox="0 0 {SVG_WIDTH:g} {height:g}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" class="tide-chart" {size} role="img">'
    name = f"<title>{escape(title)}</title>"
    paper = f'<rect class="tide-paper" width="{SVG_WIDTH:g}" height="{height:g}"/>'
    return "\n".join([opening, name, f"<style>\n{_STYLE}</style>", paper, *lines, "</svg>\n"])


def _layout(chart: Chart) -> ChartLayout:
    labels = (text_width(lane.label) for section in chart.sections for lane in section.lanes)
    characters = min(max(labels, default=0), _MOST_LABEL)
    pitch = max(_LOWEST, min(_HIGHEST, _WANTED / max(chart.lanes, 1)))
    return ChartLayout(
        _EDGE + characters * _CHARACTER + 14,
        SVG_WIDTH - _EDGE - 8,
        pitch if pitch >= _ROOMY else round(pitch),
    )


# ---- around the lanes


def _title(chart: Chart) -> list[str]:
    return [
        _text("tide-title", _EDGE, 20, shortened(chart.title, 110)),
        _text("tide-muted", _EDGE, 37, shortened(" · ".join(chart.summary), 135)),
    ]


def _axis_height(chart: Chart) -> float:
    return _AXIS + (_DATES if chart.axis.is_calendar else 0)


def _axis(chart: Chart, layout: ChartLayout, *, is_below: bool = False) -> Iterator[str]:
    """The line, the ticks with their labels, and the dates beyond them."""
    height = _axis_height(chart)
    line = 0.0 if is_below else height
    yield f'<path class="tide-frame" d="M{layout.left:.1f} {line:g}H{layout.right:.1f}"/>'
    for tick in chart.axis.ticks(_characters(layout)):
        x = layout.x(chart.axis.place(tick.point))
        yield f'<path class="tide-frame" d="M{x:.1f} {line:g}v{4 if is_below else -4}"/>'
        yield _middle(x, line + (16 if is_below else -8), tick.text, "tide-muted")
        if tick.date:
            yield _middle(x, line + (30 if is_below else -22), tick.date, "tide-muted")


def _characters(layout: ChartLayout) -> int:
    return int((layout.right - layout.left) / _CHARACTER)


def _grid(chart: Chart, layout: ChartLayout, top: float, bottom: float) -> Iterator[str]:
    for tick in chart.axis.ticks(_characters(layout)):
        x = layout.x(chart.axis.place(tick.point))
        yield f'<path class="tide-grid" d="M{x:.1f} {top:g}V{bottom:g}"/>'


def _legend(chart: Chart, layout: ChartLayout, y: float) -> Iterator[str]:
    """Return the legend of the ends that occur."""
    ends = {end for section in chart.sections for lane in section.lanes for end in _ends(lane)}
    is_dense = any(
        span.intervals > 1 for section in chart.sections for lane in section.lanes for span in lane.spans
    )
    roomy = ChartLayout(0, 1, _HIGHEST if layout.is_roomy else 9)
    x = layout.left
    meanings = {End.CLOSED: "bound included", End.OPEN: "bound excluded", End.INFINITE: "without end"}
    for end, meaning in meanings.items():
        if end in ends:
            sample = LaneSpan(x, x + 24, End.CUT, end, "")
            yield f"<g>{''.join(_shapes(sample, roomy, y + 18))}</g>"
            yield _text("tide-muted", x + 34, y + 22, meaning)
            x += 34 + len(meaning) * _CHARACTER + 22
    if is_dense:
        yield _rectangle("tide-dense", x, y + 14, 24, 8)
        yield _text("tide-muted", x + 34, y + 22, "many short intervals")


def _ends(lane: Lane) -> Iterator[End]:
    for span in lane.spans:
        yield span.left_end
        yield span.right_end


# ---- lanes


def _placed(chart: Chart, layout: ChartLayout, y: float) -> tuple[list[tuple[RelationLanes, float]], float]:
    """Return the sections with the positions of their first lanes, and the end of all."""
    placed = []
    for section in chart.sections:
        y += _HEADING if len(chart.sections) > 1 else 4
        placed.append((section, y))
        y += len(section.lanes) * layout.pitch + 4
        if section.left_out or not section.lanes:
            y += _HEADING
    return placed, y


def _section(section: RelationLanes, layout: ChartLayout, y: float) -> Iterator[str]:
    """The lanes of a relation with their labels."""
    if layout.is_roomy:
        yield from _labels(section, layout, y)
    elif _has_groups(section):
        yield from _group_labels(section, layout, y)
    else:
        yield from _thinned_labels(section, layout, y)
    for position, lane in enumerate(section.lanes):
        yield from _lane(lane, layout, y + (position + 0.5) * layout.pitch)
    rest = f"… {section.left_out:,} more" if section.left_out else ""
    if rest or not section.lanes:
        bottom = y + len(section.lanes) * layout.pitch
        yield _text("tide-muted", layout.left + 4, bottom + 16, rest or "nothing holds in this period")


def _has_groups(section: RelationLanes) -> bool:
    """Whether to label groups by their first arguments alone."""
    return section.is_grouped and 2 * len({lane.group for lane in section.lanes}) <= len(section.lanes)


def _groups(section: RelationLanes) -> list[tuple[int, int]]:
    """Return the first lane of each group, and the lane after its last one."""
    lanes = section.lanes
    starts = [
        position
        for position in range(len(lanes))
        if not position or lanes[position].group != lanes[position - 1].group
    ]
    return list(zip(starts, [*starts[1:], len(lanes)], strict=True))


def _stripes(section: RelationLanes, layout: ChartLayout, y: float) -> Iterator[str]:
    """Draw stripes behind every other lane, or group of lanes, so that labels are easy to follow."""
    stretches = (
        [(position, position + 1) for position in range(len(section.lanes))] if layout.is_roomy else []
    )
    if not layout.is_roomy and _has_groups(section):
        stretches = _groups(section)
    for start, stop in stretches[::2]:
        top, height = y + start * layout.pitch, (stop - start) * layout.pitch
        yield _rectangle("tide-stripe", _EDGE, top, SVG_WIDTH - 2 * _EDGE, height)


def _labels(section: RelationLanes, layout: ChartLayout, y: float) -> Iterator[str]:
    for position, lane in enumerate(section.lanes):
        label = shortened(lane.label, _MOST_LABEL)
        yield _right(layout.left - 10, y + (position + 0.5) * layout.pitch + 4, label)


def _group_labels(section: RelationLanes, layout: ChartLayout, y: float) -> Iterator[str]:
    """The first arguments next to all their lanes, as far as there is room."""
    free = y
    for start, _ in _groups(section):
        top = y + start * layout.pitch
        if top >= free:
            label = shortened(section.lanes[start].group, _MOST_LABEL)
            yield _right(layout.left - 10, top + 9, label, "tide-thin")
            free = top + _ROOMY


def _thinned_labels(section: RelationLanes, layout: ChartLayout, y: float) -> Iterator[str]:
    """As many labels as there is room for, each with a line to its lane."""
    step = -(-_ROOMY // layout.pitch)
    for position in range(0, len(section.lanes), int(step)):
        middle = y + (position + 0.5) * layout.pitch
        label = shortened(section.lanes[position].label, _MOST_LABEL)
        yield _right(layout.left - 10, middle + 3.5, label, "tide-thin")
        yield f'<path class="tide-grid" d="M{layout.left - 7:.1f} {middle:g}H{layout.left:.1f}"/>'


def _lane(lane: Lane, layout: ChartLayout, middle: float) -> Iterator[str]:
    for span in lane.spans:
        placed = LaneSpan(
            layout.x(span.left), layout.x(span.right), span.left_end, span.right_end, "", span.intervals
        )
        shapes = "".join(_shapes(placed, layout, middle))
        yield f"<g><title>{escape(lane.label)} {escape(span.text)}</title>{shapes}</g>"


def _shapes(span: LaneSpan, layout: ChartLayout, middle: float) -> Iterator[str]:
    """A bar and its ends; the places of the span are pixels."""
    left, right = span.left, span.right
    half = layout.bar / 2
    if span.left_end is End.INFINITE:
        yield _arrow(left, -1, middle, half)
        left += _ARROW
    if span.right_end is End.INFINITE:
        yield _arrow(right, 1, middle, half)
        right -= _ARROW
    fade = 0.0 if layout.is_roomy else min(_FADE, max(right - left, 0) / 3)
    if fade and span.left_end is End.OPEN:
        yield _rectangle("tide-fade", left, middle - half, fade, 2 * half)
        left += fade
    if fade and span.right_end is End.OPEN:
        right -= fade
        yield _rectangle("tide-fade", right, middle - half, fade, 2 * half)
    kind = "tide-dense" if span.intervals > 1 else "tide-bar"
    yield _rectangle(kind, left, middle - half, max(right - left, _SHORTEST), 2 * half)
    if layout.is_roomy and span.intervals == 1:
        for x, end in ((span.left, span.left_end), (span.right, span.right_end)):
            if end in (End.CLOSED, End.OPEN):
                yield f'<circle class="tide-{end}" cx="{x:.1f}" cy="{middle:g}" r="{half + 1.5:g}"/>'


def _arrow(tip: float, sign: int, middle: float, half: float) -> str:
    base, height = tip - sign * _ARROW, half + (2 if half > 2 else 1)
    return (
        f'<path class="tide-arrow" d="M{tip:.1f} {middle:g}'
        f'L{base:.1f} {middle - height:g}L{base:.1f} {middle + height:g}Z"/>'
    )


# ---- pieces


def _rectangle(name: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{name}" x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}"/>'


def _text(name: str, x: float, y: float, text: str) -> str:
    return f'<text class="{name}" x="{x:.1f}" y="{y:g}">{escape(text)}</text>'


def _right(x: float, y: float, text: str, name: str = "tide-label") -> str:
    return f'<text class="{name}" x="{x:.1f}" y="{y:g}" text-anchor="end">{escape(text)}</text>'


def _middle(x: float, y: float, text: str, name: str) -> str:
    return f'<text class="{name}" x="{x:.1f}" y="{y:g}" text-anchor="middle">{escape(text)}</text>'


# ---- charts as lines of text

_LEFT = {End.CLOSED: "[", End.OPEN: "(", End.INFINITE: "◀", End.CUT: "‹"}
_RIGHT = {End.CLOSED: "]", End.OPEN: ")", End.INFINITE: "▶", End.CUT: "›"}
_BAR, _POINT, _SHORT, _DENSE, _BOTH = "━", "●", "▪", "▒", "┃"
_NARROWEST = 20  # columns of a lane


def chart_lines(chart: Chart, width: int) -> Iterator[str]:
    """The lines of a chart, at most as wide as given, or as narrow as lanes can be."""
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
            yield f"{label}{' ' * (labels - text_width(label))} {_text_lane(lane, columns)}".rstrip()
        yield from _more(section)


def _indented(lines: Iterable[str], labels: int) -> Iterator[str]:
    return (f"{' ' * (labels + 1)}{line}".rstrip() for line in lines)


def _more(section: RelationLanes) -> Iterator[str]:
    if section.left_out:
        yield f"… {section.left_out:,} more"
    elif not section.lanes:
        yield "nothing holds in this period"


def _ruler(axis: Axis, columns: int) -> Iterator[str]:
    """The dates, if there are some, the labels, and the line with the ticks."""
    ticks = axis.ticks(columns)
    at = [round(axis.place(tick.point) * (columns - 1)) for tick in ticks]
    for texts in ([tick.date for tick in ticks], [tick.text for tick in ticks]):
        if any(texts):
            yield _text_labels(zip(at, texts, strict=True), columns)
    yield "".join("┬" if position in at else "─" for position in range(columns))


def _text_labels(labels: Iterable[tuple[int, str]], columns: int) -> str:
    """Texts in the middle over their places, as far as there is room to both sides."""
    line = ""
    for place, text in labels:
        if text:
            start = max(min(place - (len(text) - 1) // 2, columns - len(text)), len(line) and len(line) + 1)
            line = line.ljust(start) + text
    return line


def _text_lane(lane: Lane, columns: int) -> str:
    cells = [" "] * columns
    for span in lane.spans:
        _draw(span, cells)
    return "".join(cells)


def _draw(span: LaneSpan, cells: list[str]) -> None:
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


# ---- drawings

Time = int | Fraction | Decimal | datetime | date | str
FORMS = (".svg", ".html")
WIDTH = 100  # columns of text


class Drawing:
    """Lanes of intervals, to be shown in a notebook, saved, or printed as text.

    >>> import tidelog as tl
    >>> reasoner = tl.Reasoner(tl.parse("hot(s1)@[0, 10) . alarm(?s) :- boxminus[0, 5] hot(?s) ."))
    >>> print(tl.timeline(reasoner["hot"], reasoner["alarm"], end=10).text(50))
    hot, alarm  2 facts, 2 intervals
        0    1   2    3   4    5   6    7   8    9  10
       ─┬────┬───┬────┬───┬────┬───┬────┬───┬────┬───┬
    hot
    s1  [━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━)
    alarm
    s1                         [━━━━━━━━━━━━━━━━━━━━━)
    """

    def __init__(
        self,
        relations: Sequence[Relation],
        start: Time | None = None,
        end: Time | None = None,
        lanes: int | None = None,
        remarks: Sequence[str] = (),
    ) -> None:
        self._start, self._end = (None if time is None else _point(time) for time in (start, end))
        self._relations = [_timed(relation, self._start, self._end) for relation in relations]
        if self._start is not None and self._end is not None and self._start >= self._end:
            message = f"the picture would end at {end}, which is not after its start, {start}"
            raise ProgramError(Diagnostic(codes.NOT_DRAWN, message))
        self._lanes = lanes
        self._remarks = remarks

    def chart(self, places: int = 2_000) -> Chart:
        """What is drawn, as data; `places` is how many positions in a lane can be distinguished."""
        return make_chart(
            self._relations,
            self._start,
            self._end,
            most=self._lanes,
            places=places,
            remarks=self._remarks,
        )

    def svg(self) -> str:
        """The picture as SVG that needs nothing else."""
        return svg_text(self.chart())

    def html(self) -> str:
        """The picture as a page that needs nothing else, with an axis that stays in sight."""
        chart = self.chart()
        style = "<style>.tide-chart { width: 100%; height: auto; }</style>\n"
        axis = f'<div style="position: sticky; top: 0">{axis_text(chart)}</div>\n'
        body = f"{style}<section>\n{axis}{svg_text(chart, is_alone=False)}</section>\n"
        return document(chart.title, chart.summary, body)

    def text(self, width: int = WIDTH) -> str:
        """The picture as lines of text, which are no longer than that."""
        return "\n".join(chart_lines(self.chart(width), width))

    def save(self, path: Path | str) -> None:
        """Write the picture to a file, whose name ends in `.svg` or `.html`."""
        path = Path(path)
        if path.suffix.lower() not in FORMS:
            message = f"{path} is not the file name of a picture"
            raise ProgramError(
                Diagnostic(codes.NOT_DRAWN, message, help=f"let it end in {' or '.join(FORMS)}")
            )
        text = self.svg() if path.suffix.lower() == ".svg" else self.html()
        with replacing_text(path) as stream:
            stream.write(text.encode())

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.svg()


def _timed(relation: Relation, start: Fraction | None, end: Fraction | None) -> TimedRelation:
    """Return the relation, unrolling what repeats in the window; raise `ProgramError` without times."""
    if isinstance(relation, PeriodicRelation):
        return relation.unrolled(start, end)
    if not isinstance(relation, TimedRelation):
        message = f"`{relation.name}` is not temporal, so there is nothing to draw"
        help = "query temporal facts, without a time in the query"
        raise ProgramError(Diagnostic(codes.NOT_DRAWN, message, help=help))
    return relation


def _point(time: Time) -> Fraction:
    """Return the time point of a number, a dateTime or a text; raise `ProgramError` if it is none."""
    if isinstance(time, int | Fraction | Decimal):
        return Fraction(time)
    try:
        point, _ = read_point(time if isinstance(time, str) else time.isoformat())
    except ValueError as fault:
        raise ProgramError(Diagnostic(codes.NOT_DRAWN, str(fault))) from None
    if point is None:
        raise ProgramError(Diagnostic(codes.NOT_DRAWN, f"a picture cannot extend to {time}"))
    return point
