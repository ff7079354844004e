"""Pictures of what holds when: where bars are, how they end, and that many lanes stay readable."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tidelog.show.chart import Drawing
from tidelog.show.chart_lanes import Axis, Chart, End

CHARTS = Path(__file__).parent / "charts"
SVG = "{http://www.w3.org/2000/svg}"


def drawing(text: str, *names: str, **window: object) -> Drawing:
    reasoner = tl.Reasoner(tl.parse(text))
    return tl.timeline(*(reasoner[name] for name in names), **window)  # type: ignore[arg-type]


def chart(text: str, **window: object) -> Chart:
    return drawing(text, "p", **window).chart()


def shapes(svg: str, name: str) -> list[dict[str, str]]:
    """The elements of a class; the whole is well-formed."""
    return [each.attrib for each in ElementTree.fromstring(svg).iter() if each.get("class") == name]


@pytest.mark.parametrize("form", ["svg", "html", "text"])
def test_a_small_chart_is_drawn_as_it_was_when_looked_at(form: str) -> None:
    """`python -m tests.temporal.test_chart` draws them anew: look at them before they are committed."""
    assert drawn(form) == (CHARTS / f"boiler.{form}").read_text(encoding="utf-8")


def drawn(form: str) -> str:
    picture = drawing((CHARTS / "boiler.rls").read_text(encoding="utf-8"), "hot", "reset")
    if form == "text":
        return f"{picture.text(80)}\n"
    return picture.svg() if form == "svg" else picture.html()


def test_ends_are_told_apart() -> None:
    lanes = chart("p(a)@[0, 4) . p(b)@(1, inf) . p(c)@(-inf, 2] .").sections[0].lanes
    assert [(lane.label, lane.spans[0].left_end, lane.spans[0].right_end) for lane in lanes] == [
        ("a", End.CLOSED, End.OPEN),
        ("b", End.OPEN, End.INFINITE),
        ("c", End.INFINITE, End.CLOSED),
    ]


def test_the_window_cuts_and_leaves_out() -> None:
    found = chart("p(a)@[0, 10] . p(b)@[0, 4) . p(c)@[0, 4] . p(d)@(8, 9) .", start=4, end=8)
    [section] = found.sections
    assert [lane.label for lane in section.lanes] == ["a", "c"]  # at 4 itself b does not hold, nor d at 8
    assert section.lanes[0].spans[0].left_end is section.lanes[0].spans[0].right_end is End.CUT
    assert (section.lanes[0].spans[0].left, section.lanes[0].spans[0].right) == (0, 1)


def test_a_window_may_be_finer_than_all_bounds() -> None:
    [section] = chart("p(a)@[0, 1) . p(b)@[1, 2] .", start=Fraction(3, 4), end=Fraction(4, 5)).sections
    assert [lane.label for lane in section.lanes] == ["a"]


def test_places_are_exact_long_after_1970() -> None:
    text = 'p(a)@["2524-05-01T08:00:00.000001Z", "2524-05-01T08:00:00.000003Z"] .'
    window = {"start": "2524-05-01T08:00:00Z", "end": "2524-05-01T08:00:00.000004Z"}
    span = chart(text, **window).sections[0].lanes[0].spans[0]
    assert (span.left, span.right) == (0.25, 0.75)


def test_the_window_has_room_around_points_and_without_bounds() -> None:
    assert chart("p(a)@7 .").axis == Axis(Fraction(6), Fraction(8))
    assert chart("p(a)@(-inf, inf) .").axis.length > 0


def test_integers_have_whole_ticks() -> None:
    axis = chart("@timeline integer . p(a)@[0, 2] .").axis
    assert [tick.text for tick in axis.ticks(100)] == ["0", "1", "2"]


@given(
    st.fractions(-(10**13), 10**13, max_denominator=10**6),
    st.fractions(Fraction(1, 10**5), 10**13, max_denominator=10**6),
    st.integers(25, 200),
    st.booleans(),
)
def test_ticks_lie_within_and_their_labels_apart(
    start: Fraction, length: Fraction, characters: int, is_calendar: bool
) -> None:
    axis = Axis(start, start + length, is_calendar)
    ticks = axis.ticks(characters)
    assert all(axis.start <= tick.point <= axis.end for tick in ticks)
    places = [axis.place(tick.point) * characters for tick in ticks]
    for place, following, tick, after in zip(places, places[1:], ticks, ticks[1:], strict=False):
        assert place + len(tick.text) / 2 < following - len(after.text) / 2
    dated = [(place, tick) for place, tick in zip(places, ticks, strict=True) if tick.date]
    assert all(right[0] - left[0] > 10 for left, right in itertools.pairwise(dated))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("2024-05-01T08:00:00Z", "2024-05-01T08:00:01Z", "08:00:00 08:00:00.2"),
        ("2024-05-01T08:00:00Z", "2024-05-01T12:00:00Z", "08:00 08:30"),
        ("2024-05-01", "2024-05-05", "00:00 12:00"),
        ("2024-05-06", "2024-05-20", "2024-05-07 2024-05-09"),
        ("2024-01-01", "2024-07-01", "2024-01 2024-02"),
        ("1900-01-01", "2000-01-01", "1900 1910"),
    ],
)
def test_calendars_have_ticks_that_people_know(start: str, end: str, expected: str) -> None:
    reasoner = tl.Reasoner(tl.parse('p(a)@["2024-05-01T00:00:00Z", inf) .'))
    axis = tl.timeline(reasoner["p"], start=start, end=end).chart().axis
    assert " ".join(tick.text for tick in axis.ticks(100)[:2]) == expected


# ---- many lanes


def many(name: Callable[[int], str], count: int = 1_000) -> str:
    return "\n".join(f"p({name(place)})@[{place}, {place + 40}) ." for place in range(count))


def test_a_thousand_lanes_are_thin_and_their_labels_apart() -> None:
    svg = drawing(many(lambda place: f"lane{place:04}"), "p").svg()
    assert len(shapes(svg, "tide-bar")) == 1_000 + 2  # and two in the legend
    labels = [float(label["y"]) for label in shapes(svg, "tide-thin")]
    assert 200 <= len(labels) <= 400
    assert min(after - before for before, after in itertools.pairwise(labels)) >= 10
    assert not shapes(svg, "tide-label")
    assert float(ElementTree.fromstring(svg).attrib["height"]) < 3_300
    bars = {(float(bar["y"]), float(bar["height"])) for bar in shapes(svg, "tide-bar")[:-2]}
    assert len(bars) == 1_000  # no two lanes lie on one another
    assert all(height >= 2 for _, height in bars)


def test_a_thousand_lanes_are_named_by_groups() -> None:
    svg = drawing(many(lambda place: f"host{place // 100}, u{place:04}"), "p").svg()
    assert len(shapes(svg, "tide-thin")) == 10
    assert len(shapes(svg, "tide-stripe")) == 5


def test_ten_lanes_have_a_label_each() -> None:
    svg = drawing(many(str, 10), "p").svg()
    assert len(shapes(svg, "tide-label")) == 10
    assert len(shapes(svg, "tide-open")) == len(shapes(svg, "tide-closed")) == 10 + 1  # and the legend


def test_no_more_lanes_than_wanted() -> None:
    found = drawing(many(str), "p", lanes=30)
    assert found.chart().summary[-1] == "the first 30 drawn"
    assert "… 970 more" in found.svg()
    assert found.text().endswith("… 970 more")


def test_short_intervals_are_drawn_as_one() -> None:
    text = "".join(f"p(a)@[{place}, {place}.5] ." for place in range(10_000))
    [lane] = chart(text).sections[0].lanes
    assert len(lane.spans) == 1
    assert lane.spans[0].intervals == 10_000
    assert "▒▒▒" in drawing(text, "p").text()


# ---- forms


def test_texts_are_no_part_of_the_page() -> None:
    picture = drawing('p("<script>", "\\u0000\\n")@[0, 1] .', "p")
    assert "<script" not in picture.svg() + picture.html()
    assert "\\x00\\n" in picture.svg()
    ElementTree.fromstring(picture.svg())


def test_pages_need_nothing_else() -> None:
    page = drawing("p(a)@[0, 1] .", "p").html()
    assert not re.findall(r"""(?:src|href)\s*=|@import|url\(""", page)
    assert page.count("http") == page.count("http://www.w3.org/2000/svg")


def test_a_notebook_shows_the_picture_and_the_rows() -> None:
    shown = tl.Reasoner(tl.parse("p(a)@[0, 1] ."))["p"]._repr_html_()
    assert "<svg" in shown
    assert "<td>[0, 1]</td>" in shown


def test_saving(tmp_path: Path) -> None:
    picture = drawing("p(a)@[0, 1] .", "p")
    picture.save(tmp_path / "p.svg")
    assert (tmp_path / "p.svg").read_text(encoding="utf-8") == picture.svg()
    with pytest.raises(tl.ProgramError, match=r"\.svg or \.html"):
        picture.save(tmp_path / "p.png")


@pytest.mark.parametrize(
    ("start", "end"), [("soon", None), ("inf", None), (3, 3), (datetime(2024, 1, 2), datetime(2024, 1, 1))]
)
def test_windows_that_make_no_sense(start: object, end: object) -> None:
    with pytest.raises(tl.ProgramError) as caught:
        drawing("p(a)@[0, 1] .", "p", start=start, end=end)
    assert caught.value.diagnostics[0].code == "E629"


def test_what_has_no_times_is_not_drawn() -> None:
    with pytest.raises(tl.ProgramError, match="is not temporal"):
        drawing("p(a) . q(a)@3 .", "p")


if __name__ == "__main__":
    for form in ("svg", "html", "text"):
        (CHARTS / f"boiler.{form}").write_text(drawn(form), encoding="utf-8")
