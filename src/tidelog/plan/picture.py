"""Pictures as data: boxes, arrows and the sections they stand in. `draw` and `page` turn them into text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidelog.logic.program import Rule
from tidelog.logic.strata import Stratum
from tidelog.plan.rule_text import Writing
from tidelog.plan.show import Tree


@dataclass(frozen=True, slots=True)
class Box:
    """A node: what it does or is, what it is about, and remarks on it.

    `kind` chooses the colour, `group` the stratum it belongs to.
    """

    key: str
    kind: str
    title: str
    detail: str = ""
    remarks: tuple[str, ...] = ()
    part: str = ""
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow between two boxes, from where facts come to where they go. `kind` is `~`, `#` or empty."""

    source: str
    target: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Boxes and the arrows between them; `is_tree` if the root stands above what it is computed from."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    is_tree: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A graph and what it shows."""

    caption: str
    graph: Graph


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule or query in the rule language, with its figures."""

    title: str
    text: str
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A stratum, or another part of a picture."""

    title: str
    names: tuple[str, ...] = ()
    tag: str = ""
    entries: tuple[Entry, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A whole picture: what of, a summary in a few words, and its sections."""

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def figures(self) -> tuple[tuple[str, Figure], ...]:
        """All figures in order, each with the title of what it belongs to."""
        return tuple(self._figures())

    def _figures(self) -> Iterator[tuple[str, Figure]]:
        for section in self.sections:
            for figure in section.figures:
                yield section.title, figure
            for entry in section.entries:
                for figure in entry.figures:
                    yield f"{entry.title}: {entry.text}", figure


def tree_graph(tree: Tree) -> Graph:
    """The graph of a tree."""
    boxes: list[Box] = []
    arrows: list[Arrow] = []

    def add(node: Tree) -> str:
        key = f"n{len(boxes) + 1}"
        boxes.append(Box(key, node.operator, node.operator, node.detail, node.remarks, node.part))
        for below in node.inputs:
            arrows.append(Arrow(add(below), key))
        return key

    add(tree)
    return Graph(tuple(boxes), tuple(arrows), is_tree=True)


def dependencies(strata: Sequence[Stratum], writing: Writing) -> Graph:
    """The predicates, and which of them are derived from which."""
    boxes: dict[str, Box] = {}
    arrows: dict[Arrow, None] = {}
    stratum_of = {name: place for place, stratum in enumerate(strata, 1) for name in stratum.predicates}
    for stratum in strata:
        for rule in stratum.rules:
            for name in _names(rule):
                number = stratum_of.get(name)
                kind = _kind(strata, number)
                title = f"stratum {number}" if number else kind
                key, written = _key(name, boxes), writing.predicate(name)
                boxes.setdefault(name, Box(key, kind, title, written, group=number))
            target = boxes[rule.head.predicate].key
            for name, arrow in body_predicates(rule):
                arrows[Arrow(boxes[name].key, target, arrow)] = None
    return Graph(tuple(boxes.values()), tuple(arrows))


def rule_graph(rules: Sequence[Rule], writing: Writing) -> Graph:
    """The predicates and the rules between them."""
    derived = {rule.head.predicate for rule in rules}
    predicates: dict[str, Box] = {}
    boxes: list[Box] = []
    arrows: dict[Arrow, None] = {}
    for number, rule in enumerate(rules, 1):
        for name in _names(rule):
            kind = "derived" if name in derived else "given"
            predicates.setdefault(name, Box(_key(name, predicates), kind, kind, writing.predicate(name)))
        boxes.append(Box(f"r{number}", "rule", f"rule {number}", rule.name or ""))
        for name, arrow in body_predicates(rule):
            arrows[Arrow(predicates[name].key, f"r{number}", arrow)] = None
        arrows[Arrow(f"r{number}", predicates[rule.head.predicate].key)] = None
    return Graph((*predicates.values(), *boxes), tuple(arrows))


def body_predicates(rule: Rule) -> tuple[tuple[str, str], ...]:
    """The predicates that a rule reads, each once, with `~` if negated and `#` if aggregated."""
    read = [(atom.predicate, "#" if rule.aggregations else "") for atom in rule.positive]
    negated = [(atom.predicate, "~") for atom in rule.negated]
    return tuple(dict.fromkeys((*read, *negated)))


def _names(rule: Rule) -> tuple[str, ...]:
    return (*(name for name, _ in body_predicates(rule)), rule.head.predicate)


def _key(name: str, boxes: Mapping[str, Box]) -> str:
    return boxes[name].key if name in boxes else f"p{len(boxes) + 1}"


def _kind(strata: Sequence[Stratum], number: int | None) -> str:
    if number is None:
        return "given"
    return "recursive" if strata[number - 1].recursive else "derived"
