"""Layouts: boxes apart from each other, arrows between them, all of it inside the picture."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.show.picture import Arrow, Box, PictureGraph
from tidelog.show.picture_formats import GraphLayout, lay_out

KEYS = [f"n{number}" for number in range(8)]
ARROWS = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)), max_size=16, unique=True)


def graph(ends: list[tuple[str, str]]) -> PictureGraph:
    """A graph of all boxes and these arrows."""
    boxes = tuple(Box(key, "derived", key) for key in KEYS)
    return PictureGraph(boxes, tuple(Arrow(source, target) for source, target in ends))


def placed(whole: PictureGraph) -> GraphLayout:
    """The layout of a graph whose boxes have different sizes."""
    return lay_out(whole, lambda box: (40.0 + 13 * int(box.key[1:]), 20.0 + 7 * (int(box.key[1:]) % 3)))


@given(ARROWS)
def test_boxes_do_not_overlap(ends: list[tuple[str, str]]) -> None:
    for one, other in combinations(placed(graph(ends)).boxes.values(), 2):
        beside = one.x + one.width <= other.x or other.x + other.width <= one.x
        above = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert beside or above


@given(ARROWS)
def test_everything_is_inside(ends: list[tuple[str, str]]) -> None:
    layout = placed(graph(ends))
    for rectangle in layout.boxes.values():
        assert rectangle.x >= 0 and rectangle.x + rectangle.width <= layout.width
        assert rectangle.y >= 0 and rectangle.y + rectangle.height <= layout.height
    for points in layout.curves:
        assert all(0 <= x <= layout.width and 0 <= y <= layout.height for x, y in points)


@given(ARROWS)
def test_arrows_begin_and_end_at_their_boxes(ends: list[tuple[str, str]]) -> None:
    layout = placed(graph(ends))
    for (source, target), points in zip(ends, layout.curves, strict=True):
        for key, (x, y) in ((source, points[0]), (target, points[-1])):
            box = layout.boxes[key]
            assert box.x <= x <= box.x + box.width
            assert box.y <= y <= box.y + box.height
