"""Where the boxes of a graph stand and how its arrows run, in layers from top to bottom.

Sugiyama, Tagawa, Toda: Methods for Visual Understanding of Hierarchical System Structures, IEEE Transactions
on Systems, Man, and Cybernetics 1981: arrows that close cycles are turned round, boxes go into layers, long
arrows get a place in each layer they cross, and each layer is ordered by where its neighbours stand.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tidelog.plan.picture import Box, Graph

MARGIN: Final = 14.0
ACROSS: Final = 26.0  # between two boxes of a layer
BETWEEN: Final = 40.0  # between two layers
_SWEEPS: Final = 12

Edge = tuple[str, str]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Where a box stands."""

    x: float
    y: float
    width: float
    height: float

    @property
    def centre(self) -> float:
        """The middle from left to right."""
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of boxes by their keys, the points of each arrow in the graph's order, the whole size."""

    boxes: Mapping[str, Rectangle]
    curves: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def lay_out(graph: Graph, size: Callable[[Box], Point]) -> Layout:
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
    return Layout(boxes, tuple(curves), width + MARGIN, height + MARGIN)


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
            found = neighbours.get(key)
            if found:
                own[key] = sum(place[other] for other in found) / len(found)
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
                wanted = [_mean(centres, neighbours.get(key), centres[key]) for key in layer]
                centres.update(self._spaced(layer, wanted))
        left = min((centre - self.sizes[key][0] / 2 for key, centre in centres.items()), default=0.0)
        return {key: centre - left + MARGIN for key, centre in centres.items()}

    def _spaced(self, layer: Sequence[str], wanted: Sequence[float]) -> dict[str, float]:
        """The centres nearest to those wanted at which the boxes of a layer do not overlap."""
        offsets = [0.0]
        for left, right in pairwise(layer):
            offsets.append(offsets[-1] + (self.sizes[left][0] + self.sizes[right][0]) / 2 + ACROSS)
        shifted = isotonic([want - offset for want, offset in zip(wanted, offsets, strict=True)])
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
    """Where along a box's lower or upper side edges begin and end: in the order in which they go on."""

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


def isotonic(wanted: Sequence[float]) -> list[float]:
    """The ascending numbers nearest to those wanted, by least squares: pools of adjacent violators.

    >>> isotonic([1.0, 4.0, 2.0])
    [1.0, 3.0, 3.0]
    """
    pools: list[tuple[float, int]] = []
    for number in wanted:
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
    done: set[str] = set()
    found: set[Edge] = set()
    for root in keys:
        path = [] if root in done else [(root, iter(targets.get(root, ())))]
        open_keys.update(key for key, _ in path)
        while path:
            key, waiting = path[-1]
            target = next(waiting, "")
            if not target:
                path.pop()
                open_keys.discard(key)
                done.add(key)
            elif target in open_keys:
                found.add((key, target))
            elif target not in done:
                open_keys.add(target)
                path.append((target, iter(targets.get(target, ()))))
    return frozenset(found)


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
