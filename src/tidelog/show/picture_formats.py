"""Pictures laid out and drawn: a self-contained page of HTML, and text for Graphviz and Mermaid."""

from __future__ import annotations

import json
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final

from tidelog.records import dataclass
from tidelog.show.picture import Arrow, Box, Figure, Picture, PictureEntry, PictureGraph, PictureSection
from tidelog.syntax.printer import PLAIN, highlight

# ---- positions of the boxes and arrows of a graph
#
# Sugiyama, Tagawa, Toda: Methods for Visual Understanding of Hierarchical System Structures, IEEE
# Transactions on Systems, Man, and Cybernetics 1981: arrows that close cycles are reversed, boxes get
# layers, long arrows get a position in each layer they cross, and each layer is ordered by its neighbours.

MARGIN: Final = 14.0
ACROSS: Final = 26.0  # between two boxes of a layer
BETWEEN: Final = 40.0  # between two layers
_SWEEPS: Final = 12

Edge = tuple[str, str]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """The position and size of a box."""

    x: float
    y: float
    width: float
    height: float

    @property
    def centre(self) -> float:
        """The middle from left to right."""
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The places of boxes by their keys, the points of each arrow in the graph's order, the whole size."""

    boxes: Mapping[str, Rectangle]
    curves: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def lay_out(graph: PictureGraph, size: Callable[[Box], Point]) -> GraphLayout:
    """The layout of a graph whose boxes have these widths and heights. A tree has its root at the top."""
    sizes = {box.key: size(box) for box in graph.boxes}
    edges = [_edge(arrow.source, arrow.target, graph.is_tree) for arrow in graph.arrows]
    layered = _Layered(list(sizes), [edge for edge in edges if edge[0] != edge[1]], sizes)
    boxes, tops = layered.rectangles()
    ports = _Ports(layered)
    curves = []
    for arrow, edge in zip(graph.arrows, edges, strict=True):
        points = _loop(boxes[edge[0]]) if edge[0] == edge[1] else layered.route(edge, boxes, tops, ports)
        curves.append(points if (arrow.source, arrow.target) == edge else points[::-1])
    sides = [rectangle.x + rectangle.width for rectangle in boxes.values()]
    width = max(sides + [x for points in curves for x, _ in points])
    height = max(rectangle.y + rectangle.height for rectangle in boxes.values())
    return GraphLayout(boxes, tuple(curves), width + MARGIN, height + MARGIN)


def _edge(source: str, target: str, is_tree: bool) -> Edge:
    return (target, source) if is_tree else (source, target)


def _loop(box: Rectangle) -> tuple[Point, ...]:
    """An arrow from the right side of a box back to it."""
    right = box.x + box.width
    return (
        (right, box.y + box.height * 0.7),
        (right + ACROSS * 0.8, box.y + box.height * 0.7),
        (right + ACROSS * 0.8, box.y + box.height * 0.3),
        (right, box.y + box.height * 0.3),
    )


class _Layered:
    """The layers of a graph without self-loops, ordered and spread out. Mutable while that is done."""

    def __init__(self, keys: Sequence[str], edges: Sequence[Edge], sizes: Mapping[str, Point]) -> None:
        self.sizes = dict(sizes)
        turned = _back_edges(keys, edges)
        down = {edge: edge[::-1] if edge in turned else edge for edge in edges}
        self.layer_of = _longest_paths(keys, list(down.values()))
        self.layers: list[list[str]] = [[] for _ in range(max(self.layer_of.values(), default=0) + 1)]
        for key in keys:
            self.layers[self.layer_of[key]].append(key)
        self.above: dict[str, list[str]] = {}
        self.below: dict[str, list[str]] = {}
        self.paths = {edge: self._path(edge, *down[edge]) for edge in down}
        self._order()
        self.centres = self._spread()

    def _path(self, edge: Edge, upper: str, lower: str) -> tuple[str, ...]:
        """The keys that an edge passes through, downwards; those between its ends are made for it."""
        start, end = self.layer_of[upper], self.layer_of[lower]
        between = [f"{edge[0]} {edge[1]} {layer}" for layer in range(start + 1, end)]
        for layer, key in enumerate(between, start + 1):
            self.layers[layer].append(key)
            self.layer_of[key] = layer
            self.sizes[key] = (2.0, 0.0)
        path = (upper, *between, lower)
        for above, below in pairwise(path):
            self.below.setdefault(above, []).append(below)
            self.above.setdefault(below, []).append(above)
        return path

    # ---- the order within layers

    def _order(self) -> None:
        """Order each layer by the mean place of its neighbours; the order with the fewest crossings stays."""
        best, fewest = [list(layer) for layer in self.layers], self._crossings()
        for sweep in range(_SWEEPS if fewest else 0):
            downwards = sweep % 2 == 0
            neighbours = self.above if downwards else self.below
            for number in range(len(self.layers)) if downwards else reversed(range(len(self.layers))):
                self._order_layer(number, neighbours)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
        self.layers = best

    def _order_layer(self, number: int, neighbours: Mapping[str, list[str]]) -> None:
        place = {key: index for layer in self.layers for index, key in enumerate(layer)}
        own = {key: float(index) for index, key in enumerate(self.layers[number])}
        for key in own:
            adjacent = neighbours.get(key)
            if adjacent:
                own[key] = sum(place[other] for other in adjacent) / len(adjacent)
        self.layers[number].sort(key=own.__getitem__)

    def _crossings(self) -> int:
        place = {key: index for layer in self.layers for index, key in enumerate(layer)}
        crossings = 0
        for layer in self.layers:
            lines = sorted(
                (place[upper], place[lower]) for upper in layer for lower in self.below.get(upper, ())
            )
            ends: list[int] = []
            for _, end in lines:
                crossings += len(ends) - bisect_right(ends, end)
                insort(ends, end)
        return crossings

    # ---- coordinates

    def _spread(self) -> dict[str, float]:
        """The centres of all keys: as near to their neighbours as the order of each layer allows."""
        centres: dict[str, float] = {}
        for layer in self.layers:
            centres.update(self._spaced(layer, [0.0] * len(layer)))
        for sweep in range(_SWEEPS):
            neighbours = self.above if sweep % 2 == 0 else self.below
            for layer in self.layers if sweep % 2 == 0 else reversed(self.layers):
                preferred = [_mean(centres, neighbours.get(key), centres[key]) for key in layer]
                centres.update(self._spaced(layer, preferred))
        left = min((centre - self.sizes[key][0] / 2 for key, centre in centres.items()), default=0.0)
        return {key: centre - left + MARGIN for key, centre in centres.items()}

    def _spaced(self, layer: Sequence[str], preferred: Sequence[float]) -> dict[str, float]:
        """The centres nearest to the preferred ones at which the boxes of a layer do not overlap."""
        offsets = [0.0]
        for left, right in pairwise(layer):
            offsets.append(offsets[-1] + (self.sizes[left][0] + self.sizes[right][0]) / 2 + ACROSS)
        shifted = isotonic([want - offset for want, offset in zip(preferred, offsets, strict=True)])
        return {key: shift + offset for key, shift, offset in zip(layer, shifted, offsets, strict=True)}

    def rectangles(self) -> tuple[dict[str, Rectangle], list[tuple[float, float]]]:
        """The boxes and the places of long arrows, and where each layer begins and ends."""
        boxes: dict[str, Rectangle] = {}
        tops: list[tuple[float, float]] = []
        top = MARGIN
        for layer in self.layers:
            height = max(self.sizes[key][1] for key in layer)
            tops.append((top, top + height))
            for key in layer:
                width, own = self.sizes[key]
                if " " not in key:
                    boxes[key] = Rectangle(self.centres[key] - width / 2, top, width, own)
            top += height + BETWEEN
        return boxes, tops

    def route(
        self,
        edge: Edge,
        boxes: Mapping[str, Rectangle],
        tops: Sequence[tuple[float, float]],
        ports: _Ports,
    ) -> tuple[Point, ...]:
        """The points of an edge, from its source to its target."""
        path = self.paths[edge]
        upper, lower = boxes[path[0]], boxes[path[-1]]
        points = [(ports.place(edge, 0, upper), upper.y + upper.height)]
        for key in path[1:-1]:
            top, bottom = tops[self.layer_of[key]]
            points += [(self.centres[key], top), (self.centres[key], bottom)]
        points.append((ports.place(edge, -1, lower), lower.y))
        return tuple(points if path[0] == edge[0] else reversed(points))


class _Ports:
    """Where along a box's lower or upper side edges begin and end: in the order of their other ends."""

    def __init__(self, layered: _Layered) -> None:
        self._paths = layered.paths
        self._sides: dict[tuple[str, int], list[Edge]] = {}
        for edge, path in self._paths.items():
            for end in (0, -1):
                self._sides.setdefault((path[end], end), []).append(edge)
        for (_, end), side in self._sides.items():
            nearest = {edge: self._paths[edge][-2 if end else 1] for edge in side}
            side.sort(key=lambda edge: layered.centres[nearest[edge]])

    def place(self, edge: Edge, end: int, box: Rectangle) -> float:
        """The place of an edge's upper (0) or lower (-1) end along the side of a box."""
        side = self._sides[self._paths[edge][end], end]
        if len(side) == 1:
            return box.centre
        step = min(box.width * 0.6 / (len(side) - 1), 18.0)
        return box.centre + (side.index(edge) - (len(side) - 1) / 2) * step


def isotonic(preferred: Sequence[float]) -> list[float]:
    """Return the ascending numbers nearest to the preferred ones, by least squares (pool adjacent violators).

    >>> isotonic([1.0, 4.0, 2.0])
    [1.0, 3.0, 3.0]
    """
    pools: list[tuple[float, int]] = []
    for number in preferred:
        total, count = number, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            earlier, size = pools.pop()
            total, count = total + earlier, count + size
        pools.append((total, count))
    return [total / count for total, count in pools for _ in range(count)]


def _mean(centres: Mapping[str, float], keys: Sequence[str] | None, otherwise: float) -> float:
    return sum(centres[key] for key in keys) / len(keys) if keys else otherwise


def _back_edges(keys: Iterable[str], edges: Iterable[Edge]) -> frozenset[Edge]:
    """The edges that close a cycle in a depth-first search."""
    targets: dict[str, list[str]] = {}
    for source, target in edges:
        targets.setdefault(source, []).append(target)
    open_keys: set[str] = set()
    finished: set[str] = set()
    closing: set[Edge] = set()
    for root in keys:
        path = [] if root in finished else [(root, iter(targets.get(root, ())))]
        open_keys.update(key for key, _ in path)
        while path:
            key, waiting = path[-1]
            target = next(waiting, "")
            if not target:
                path.pop()
                open_keys.discard(key)
                finished.add(key)
            elif target in open_keys:
                closing.add((key, target))
            elif target not in finished:
                open_keys.add(target)
                path.append((target, iter(targets.get(target, ()))))
    return frozenset(closing)


def _longest_paths(keys: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The layer of each key: one below the lowest of those with an edge to it."""
    layer = dict.fromkeys(keys, 0)
    for _ in keys:
        changed = False
        for source, target in edges:
            if layer[target] <= layer[source]:
                layer[target] = layer[source] + 1
                changed = True
        if not changed:
            break
    return layer


# ---- pictures as text for Graphviz and Mermaid

_SHAPES: Final = {"given": "box", "derived": "box", "recursive": "box", "rule": "ellipse"}
_COLOURS: Final = {
    "add": "#0f766e",
    "answer": "#0f766e",
    "collect": "#0f766e",
    "scan": "#2563eb",
    "look up": "#0284c7",
    "join": "#7c3aed",
    "without": "#dc2626",
    "filter": "#c2410c",
    "compute": "#a16207",
    "group": "#be185d",
    "recursive": "#7c3aed",
    "derived": "#2563eb",
}
_OTHER: Final = "#64748b"
_DOT_ARROWS: Final = {"~": ' [style=dashed, color="#dc2626", label="~"]', "#": ' [style=dotted, label="#"]'}
_MERMAID_ARROWS: Final = {"~": ' -. "~" .-> ', "#": ' -. "#35;" .-> '}


def dot_text(picture: Picture) -> str:
    """The picture in Graphviz's language."""
    return "\n".join(_dot_lines(picture)) + "\n"


def _dot_lines(picture: Picture) -> Iterator[str]:
    yield "digraph tidelog {"
    yield f"  label={_dot_quoted(picture.title)}; labelloc=t; rankdir=BT; compound=true;"
    yield '  node [shape=box, style="rounded", fontname="monospace", fontsize=11];'
    yield '  edge [fontname="monospace", fontsize=10, color="#64748b"];'
    for number, (title, figure) in enumerate(picture.figures, 1):
        yield f"  subgraph cluster_{number} {{"
        yield f"    label={_dot_quoted(_caption(title, figure))}; labeljust=l; fontname=monospace;"
        yield from _dot_boxes(figure, f"f{number}_")
        for arrow in figure.graph.arrows:
            ends = f"f{number}_{arrow.source} -> f{number}_{arrow.target}"
            yield f"    {ends}{_DOT_ARROWS.get(arrow.kind, '')};"
        yield "  }"
    yield "}"


def _dot_boxes(figure: Figure, lead: str) -> Iterator[str]:
    for group, boxes in _grouped(figure):
        indent = "    " if group is None else "      "
        if group is not None:
            yield f"    subgraph cluster_{lead}{group} {{ label={_dot_quoted(f'stratum {group}')};"
        for box in boxes:
            colour = _COLOURS.get(box.kind, _OTHER)
            shape = _SHAPES.get(box.kind, "box")
            label = _dot_quoted("\n".join(_box_lines(box)))
            yield f'{indent}{lead}{box.key} [label={label}, shape={shape}, color="{colour}"];'
        if group is not None:
            yield "    }"


def _dot_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def mermaid_text(picture: Picture) -> str:
    """The picture as a Mermaid flowchart."""
    return "\n".join(_mermaid_lines(picture)) + "\n"


def _mermaid_lines(picture: Picture) -> Iterator[str]:
    yield "---"
    yield f"title: {json.dumps(picture.title, ensure_ascii=False)}"
    yield "---"
    yield "flowchart BT"
    for number, (title, figure) in enumerate(picture.figures, 1):
        lead = f"f{number}_"
        yield f"  subgraph f{number}[{_mermaid_quoted(_caption(title, figure))}]"
        for group, boxes in _grouped(figure):
            indent = "    " if group is None else "      "
            if group is not None:
                yield f"    subgraph {lead}s{group}[{_mermaid_quoted(f'stratum {group}')}]"
            for box in boxes:
                label = _mermaid_quoted("\n".join(_box_lines(box)))
                opening, closing = ("([", "])") if box.kind == "rule" else ("[", "]")
                yield f"{indent}{lead}{box.key}{opening}{label}{closing}"
            if group is not None:
                yield "    end"
        for arrow in figure.graph.arrows:
            yield f"    {lead}{arrow.source}{_mermaid_arrow(arrow)}{lead}{arrow.target}"
        yield "  end"


def _mermaid_arrow(arrow: Arrow) -> str:
    return _MERMAID_ARROWS.get(arrow.kind, " --> ")


def _mermaid_quoted(text: str) -> str:
    """The text in quotes, with what Mermaid would read as markup written as entities."""
    escaped = text.replace("#", "#35;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
    return '"' + escaped.replace("`", "#96;").replace("\n", "<br>") + '"'


def _grouped(figure: Figure) -> Iterator[tuple[int | None, list[Box]]]:
    """Return the boxes by stratum, those without one first."""

    def group(box: Box) -> int:
        return box.group or 0

    for number, boxes in groupby(sorted(figure.graph.boxes, key=group), key=group):
        yield number or None, list(boxes)


def _box_lines(box: Box) -> Iterator[str]:
    yield box.title if box.kind in ("rule", "given") or not box.group else box.detail
    if box.detail and not box.group:
        yield box.detail
    remarks = (box.part, *box.remarks) if box.part else box.remarks
    if remarks:
        yield " · ".join(remarks)


def _caption(title: str, figure: Figure) -> str:
    return f"{title} ({figure.caption})" if figure.caption else title


# ---- pictures as a self-contained page of HTML

_STYLE: Final = Path(__file__).with_name("page.css")
# Widths of a character of the style sheet's fonts, in pixels; monospaced fonts have 0.6 of their size.
_DETAIL, _REMARK, _TITLE = 12.5 * 0.605, 11 * 0.605, 10.5 * 0.605 + 0.42
_LINE: Final = 17.0
_ARROW_KINDS: Final = {"~": "negated", "#": "aggregated"}
_TIP: Final = 5.0


def html_text(picture: Picture) -> str:
    """The picture as a page."""
    sections = "".join(_section(section, position) for position, section in enumerate(picture.sections, 1))
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
        f'<a href="#part-{position}">{escape(", ".join(section.names) or section.title)}</a>'
        for position, section in enumerate(picture.sections, 1)
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


def _section(section: PictureSection, place: int) -> str:
    names = "".join(f'<span class="chip">{escape(name)}</span>' for name in section.names)
    tag = f'<span class="tag">{escape(section.tag)}</span>' if section.tag else ""
    figures = "".join(_figure(figure) for figure in section.figures)
    entries = "".join(_entry(entry) for entry in section.entries)
    heading = f"<h2>{escape(section.title)}{names}{tag}</h2>"
    entry_list = f'<div class="entries">\n{entries}</div>\n' if entries else ""
    return f'<section id="part-{place}">\n{heading}\n{figures}{entry_list}</section>\n'


def _entry(entry: PictureEntry) -> str:
    figures = "".join(_figure(figure) for figure in entry.figures)
    figure_list = f'<div class="figures">\n{figures}</div>\n' if figures else ""
    return (
        f"<article>\n<h3>{escape(entry.title)}</h3>\n<pre>{code(entry.text)}</pre>\n{figure_list}</article>\n"
    )


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


def svg(graph: PictureGraph) -> str:
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


def _curves(graph: PictureGraph, layout: GraphLayout) -> Iterator[str]:
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
