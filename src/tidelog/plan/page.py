"""Pictures as a page of HTML that needs nothing else: no network, no scripts, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final

from tidelog.plan.layout import Layout, Point, Rectangle, lay_out
from tidelog.plan.picture import Box, Entry, Figure, Graph, Picture, Section
from tidelog.syntax.highlight import PLAIN, highlight

_STYLE: Final = Path(__file__).with_name("page.css")
# Widths of a character of the style sheet's fonts, in pixels; monospaced fonts have 0.6 of their size.
_DETAIL, _REMARK, _TITLE = 12.5 * 0.605, 11 * 0.605, 10.5 * 0.605 + 0.42
_LINE: Final = 17.0
_ARROW_KINDS: Final = {"~": "negated", "#": "aggregated"}
_TIP: Final = 5.0


def html_text(picture: Picture) -> str:
    """The picture as a page."""
    sections = "".join(_section(section, place) for place, section in enumerate(picture.sections, 1))
    head = f"{_legend(picture)}{_navigation(picture)}"
    return document(picture.title, picture.summary, sections, head)


def document(title: str, summary: Iterable[str], body: str, head: str = "") -> str:
    """A page with a title, a summary in a few words, and a body; `head` and it are HTML."""
    title = escape(title)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{_STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
<header>
<h1><small>tidelog</small>{title}</h1>
<p>{escape(" · ".join(summary))}</p>
{head}</header>
{body}</main>
</body>
</html>
"""


def _navigation(picture: Picture) -> str:
    if len(picture.sections) < 4:
        return ""
    links = (
        f'<a href="#part-{place}">{escape(", ".join(section.names) or section.title)}</a>'
        for place, section in enumerate(picture.sections, 1)
    )
    return f"<nav>{''.join(links)}</nav>\n"


def _legend(picture: Picture) -> str:
    kinds = {arrow.kind for _, figure in picture.figures for arrow in figure.graph.arrows}
    parts = {box.part for _, figure in picture.figures for box in figure.graph.boxes}
    entries = [(kind, text) for kind, text in (("~", "under negation"), ("#", "aggregated")) if kind in kinds]
    lines = [f"<span>{_sample(_ARROW_KINDS[kind])}{text}</span>" for kind, text in entries]
    if "new" in parts:
        lines.append("<span><b>new</b>: what the last round added</span>")
        lines.append("<span><b>old</b>: what was known before it</span>")
        lines.append("<span><b>all</b>: both</span>")
    return f'<div class="legend">{"".join(lines)}</div>\n' if lines else ""


def _sample(kind: str) -> str:
    return f'<svg width="28" height="12"><path class="curve {kind}" d="M1 6H27"/></svg>'


def _section(section: Section, place: int) -> str:
    names = "".join(f'<span class="chip">{escape(name)}</span>' for name in section.names)
    tag = f'<span class="tag">{escape(section.tag)}</span>' if section.tag else ""
    figures = "".join(_figure(figure) for figure in section.figures)
    entries = "".join(_entry(entry) for entry in section.entries)
    heading = f"<h2>{escape(section.title)}{names}{tag}</h2>"
    shown = f'<div class="entries">\n{entries}</div>\n' if entries else ""
    return f'<section id="part-{place}">\n{heading}\n{figures}{shown}</section>\n'


def _entry(entry: Entry) -> str:
    figures = "".join(_figure(figure) for figure in entry.figures)
    shown = f'<div class="figures">\n{figures}</div>\n' if figures else ""
    return f"<article>\n<h3>{escape(entry.title)}</h3>\n<pre>{code(entry.text)}</pre>\n{shown}</article>\n"


def code(text: str) -> str:
    """Return a piece of a program as HTML, with a class for each kind of token."""
    return "".join(
        escape(piece) if name == PLAIN else f'<span class="{name}">{escape(piece)}</span>'
        for name, piece in highlight(text)
    )


def _figure(figure: Figure) -> str:
    delta = ' class="is-delta"' if figure.caption.startswith("new") else ""
    caption = f"<figcaption>{escape(figure.caption)}</figcaption>" if figure.caption else ""
    return f"<figure{delta}>{caption}\n{svg(figure.graph)}</figure>\n"


# ---- drawings


def svg(graph: Graph) -> str:
    """The graph as SVG, to be styled by the page."""
    if not graph.boxes:
        return ""
    layout = lay_out(graph, _size)
    lines = [*_curves(graph, layout), *(_box(box, layout.boxes[box.key]) for box in graph.boxes)]
    width, height = round(layout.width), round(layout.height)
    opening = f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">'
    return "\n".join([opening, *lines, "</svg>\n"])


def _size(box: Box) -> Point:
    pill = 40 if box.part else 0
    width = max(
        len(box.title) * _TITLE + pill, len(box.detail) * _DETAIL, len(" · ".join(box.remarks)) * _REMARK
    )
    lines = 1 + bool(box.detail) + bool(box.remarks)
    return max(width, 40) + 28, lines * _LINE + 13


def _box(box: Box, place: Rectangle) -> str:
    left, top = place.x, place.y
    texts = [_text("title", left + 15, top + 18, box.title)]
    line = top + 18
    for name, text in (("detail", box.detail), ("remark", " · ".join(box.remarks))):
        if text:
            line += _LINE
            texts.append(_text(name, left + 15, line, text))
    kind = box.kind.replace(" ", "-")
    part = f" part-{box.part}" if box.part else ""
    size = f'width="{place.width:.1f}" height="{place.height:.1f}"'
    face = f'<rect class="face" x="{left:.1f}" y="{top:.1f}" {size} rx="7"/>'
    bar_size = f'width="3.5" height="{place.height - 14:.1f}"'
    bar = f'<rect class="bar" x="{left + 5:.1f}" y="{top + 7:.1f}" {bar_size} rx="1.75"/>'
    return f'<g class="{kind}{part}">{face}{bar}{"".join(texts)}{_pill(box.part, place)}</g>'


def _pill(part: str, place: Rectangle) -> str:
    if not part:
        return ""
    left = place.x + place.width - 40
    shape = f'<rect class="pill" x="{left:.1f}" y="{place.y + 7:.1f}" width="32" height="15" rx="7.5"/>'
    return shape + _text("pill-text", left + 16, place.y + 18, part, ' text-anchor="middle"')


def _text(name: str, x: float, y: float, text: str, more: str = "") -> str:
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}"{more}>{escape(text)}</text>'


def _curves(graph: Graph, layout: Layout) -> Iterator[str]:
    for arrow, points in zip(graph.arrows, layout.curves, strict=True):
        kind = _ARROW_KINDS.get(arrow.kind, "")
        is_loop = arrow.source == arrow.target
        path = _loop_path(points) if is_loop else _path(points)
        yield f'<path class="curve {kind}" d="{path}"/>'
        yield _tip(points, kind)


def _path(points: tuple[Point, ...]) -> str:
    """A smooth line through the points, leaving and entering each vertically."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (right, below) in pairwise(points):
        middle = (y + below) / 2
        path += f"C{x:.1f} {middle:.1f} {right:.1f} {middle:.1f} {right:.1f} {below:.1f}"
    return path


def _loop_path(points: tuple[Point, ...]) -> str:
    start, *between = points
    return f"M{start[0]:.1f} {start[1]:.1f}C" + " ".join(f"{x:.1f} {y:.1f}" for x, y in between)


def _tip(points: tuple[Point, ...], kind: str) -> str:
    """The point of an arrow, in the direction from which it comes in."""
    (before_x, before_y), (x, y) = points[-2], points[-1]
    if before_y == y:
        side = _TIP if before_x > x else -_TIP
        corners = f"{x:.1f} {y:.1f}L{x + side:.1f} {y - 3.5:.1f}V{y + 3.5:.1f}"
    else:
        back = _TIP if before_y > y else -_TIP
        corners = f"{x:.1f} {y:.1f}L{x - 3.5:.1f} {y + back:.1f}H{x + 3.5:.1f}"
    return f'<path class="tip {kind}" d="M{corners}Z"/>'
