"""Drawings: charts of relations in every form that they are wanted in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from tidelog.data.relation import Relation
from tidelog.errors import Diagnostic, ProgramError
from tidelog.io.atomic import replacing
from tidelog.logic.intervals import read_point
from tidelog.plan.page import document
from tidelog.temporal.chart.lanes import Chart, make_chart
from tidelog.temporal.chart.svg import axis_text, svg_text
from tidelog.temporal.chart.text import chart_lines
from tidelog.temporal.periodic_relation import PeriodicRelation
from tidelog.temporal.relation import TimedRelation

Time = int | Fraction | Decimal | datetime | date | str
FORMS = (".svg", ".html")
WIDTH = 100  # columns of text
NOT_DRAWN = "E629"


class Drawing:
    """Lanes of intervals, to be looked at in a notebook, saved, or put out as text.

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
            raise ProgramError(Diagnostic(NOT_DRAWN, message))
        self._lanes = lanes
        self._remarks = remarks

    def chart(self, places: int = 2_000) -> Chart:
        """What is drawn, as data; `places` is how many places in a lane can be told apart."""
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
            message = f"{path} is no name of a picture"
            raise ProgramError(Diagnostic(NOT_DRAWN, message, help=f"let it end in {' or '.join(FORMS)}"))
        text = self.svg() if path.suffix.lower() == ".svg" else self.html()
        with replacing(path) as stream:
            stream.write(text.encode())

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.svg()


def _timed(relation: Relation, start: Fraction | None, end: Fraction | None) -> TimedRelation:
    """The relation, what repeats as often as it is seen; raises ProgramError if it has no times."""
    if isinstance(relation, PeriodicRelation):
        return relation.unrolled(start, end)
    if not isinstance(relation, TimedRelation):
        message = f"`{relation.name}` holds at no particular times, so that there is nothing to draw"
        help = "ask for facts with times, and name no time in the query"
        raise ProgramError(Diagnostic(NOT_DRAWN, message, help=help))
    return relation


def _point(time: Time) -> Fraction:
    """The time point that a number, a dateTime or a text is; raises ProgramError."""
    if isinstance(time, int | Fraction | Decimal):
        return Fraction(time)
    try:
        point, _ = read_point(time if isinstance(time, str) else time.isoformat())
    except ValueError as fault:
        raise ProgramError(Diagnostic(NOT_DRAWN, str(fault))) from None
    if point is None:
        raise ProgramError(Diagnostic(NOT_DRAWN, f"a picture cannot reach {time}"))
    return point
