"""Pictures as text for Graphviz and Mermaid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from tidelog.plan.picture import Arrow, Box, Figure, Picture

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
    """The boxes by stratum, those of none first."""

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
