"""Plots of records: bars where a question has one size, lines where it has several."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.plain import seconds_text
from benchmarks.record import Record
from benchmarks.summary import reference_for
from benchmarks.workloads import VALUED, WORKLOADS

INK, FAINT = "#1d2733", "#697586"
COLOURS = {
    "tidelog": "#0b6e99",
    "duckdb": "#e0a030",
    "egglog": "#8d6cab",
    "nemo": "#5f9e6e",
    "clingo": "#bf6b5d",
    "polars": "#4a6fa5",
}
OTHER_COLOUR = "#8a94a0"
STYLE = Path(__file__).parent / "page.mplstyle"
NAMES = {"duckdb": "DuckDB", "nemo": "Nemo"}
EXPLANATION = "From files to the count of all consequences, start-up apart. Logarithmic; shorter is better."
COLUMNS = 2
WIDTH = 12.0
MARGIN_TOP, MARGIN_BOTTOM, PANEL_TITLE, PANEL_GAP = 0.95, 0.4, 0.5, 0.55
BAR, LINES = 0.3, 2.6
POINTS, NAME_HEIGHT = 72, 13
NAME_WIDTH = 0.095


@dataclass(frozen=True)
class Span:
    """One range of seconds for all bars of a figure."""

    low: float
    high: float

    @property
    def limit(self) -> float:
        """Where the axis ends, with room for the words beside the longest bar."""
        return self.high * float((self.high / self.low) ** 0.4)

    @property
    def ticks(self) -> list[float]:
        powers = (10.0**power for power in range(-7, 6))
        return [power for power in powers if self.low <= power <= self.high * 3]


@dataclass(frozen=True)
class Panel:
    """The records of one workload in one suite, in the order in which engines are always shown."""

    suite: str
    workload: str
    records: tuple[Record, ...]

    @property
    def sizes(self) -> list[int]:
        return sorted({record.size for record in self.records})

    @property
    def title(self) -> str:
        known = (WORKLOADS | VALUED).get(self.workload)
        return f"{self.workload}  {known.title}" if known else self.workload

    @property
    def subtitle(self) -> str:
        if len(self.sizes) > 1:
            return "seconds by size"
        tuples = max(record.tuples for record in self.records)
        facts = max(int(record.counts.get("facts", record.size)) for record in self.records)
        return f"{facts:,} facts in, {tuples:,} out"


def panels_of(records: Sequence[Record]) -> list[Panel]:
    """Bars for every suite and workload that has them, then lines for those with several sizes."""
    order = list(COLOURS)
    bars, lines = [], []
    for suite, workload in sorted({(record.suite, record.workload) for record in records}):
        own = [r for r in records if (r.suite, r.workload) == (suite, workload) and r.cpu_s > 0]
        own.sort(
            key=lambda r: (order.index(r.engine) if r.engine in order else len(order), r.variant, r.size)
        )
        at_one_size, at_several = bars_and_lines(own)
        bars += [Panel(suite, workload, at_one_size)] if at_one_size else []
        lines += [Panel(suite, workload, at_several)] if at_several else []
    return bars + lines


def bars_and_lines(records: list[Record]) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """The records of the size that most engines were given, and those of engines given several."""
    sizes = Counter(record.size for record in records)
    often = Counter(map(name_of, records))
    lines = tuple(record for record in records if often[name_of(record)] > 1)
    usual = max(sizes, key=lambda size: (sizes[size], -size), default=0)
    if lines and len(set(sizes.values())) == 1:
        return (), lines
    return tuple(record for record in records if record.size == usual), lines


def draw(panels: Sequence[Panel], heading: str, caption: str) -> Figure:
    """A figure of all panels under one heading, with the machine and the date below."""
    matplotlib.style.use(STYLE)
    rows = [panels[first : first + COLUMNS] for first in range(0, len(panels), COLUMNS)]
    heights = [PANEL_TITLE + max(map(plot_height, row)) + PANEL_GAP for row in rows]
    total = sum(heights) + MARGIN_TOP + MARGIN_BOTTOM
    figure = Figure(figsize=(WIDTH, total), facecolor="white")
    span, top = span_of(panels), total - MARGIN_TOP
    for row, height in zip(rows, heights, strict=True):
        for column, panel in enumerate(row):
            draw_panel(figure, panel, (0.025 + column * 0.5, top), span)
        top -= height
    figure.text(0.025, 1 - 0.3 / total, heading, fontsize=16, fontweight="bold", va="center")
    figure.text(0.025, 1 - 0.58 / total, EXPLANATION, fontsize=10, color=FAINT, va="center")
    figure.text(0.025, 0.25 / total, caption, fontsize=9, color=FAINT, va="center")
    return figure


def plot_height(panel: Panel) -> float:
    return LINES if len(panel.sizes) > 1 else BAR * len(panel.records)


def span_of(panels: Sequence[Panel]) -> Span:
    """The range of all seconds that are drawn as bars."""
    seconds = [record.cpu_s for panel in panels if len(panel.sizes) == 1 for record in panel.records] or [1.0]
    return Span(min(seconds) / 2, max(seconds))


def draw_panel(figure: Figure, panel: Panel, corner: tuple[float, float], span: Span) -> None:
    """The panel is drawn with its title; its upper left corner is a share of the width, and inches."""
    left, top = corner
    total = figure.get_figheight()
    figure.text(left, (top - 0.1) / total, panel.title, fontsize=11, fontweight="bold", va="center")
    figure.text(left, (top - 0.32) / total, panel.subtitle, fontsize=9, color=FAINT, va="center")
    height = plot_height(panel)
    bottom = (top - PANEL_TITLE - height) / total
    axes = figure.add_axes((left + NAME_WIDTH, bottom, 0.455 - NAME_WIDTH, height / total))
    if len(panel.sizes) > 1:
        draw_lines(axes, panel)
    else:
        draw_bars(axes, panel, span)
    axes.tick_params(length=0)
    axes.tick_params(axis="x", labelsize=8.5)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)


def draw_bars(axes: Axes, panel: Panel, span: Span) -> None:
    """One bar per engine and variant, its CPU seconds written beside it."""
    axes.set_xscale("log")
    axes.set_xlim(span.low, span.limit)
    axes.set_ylim(len(panel.records) - 0.5, -0.5)
    for position, record in enumerate(panel.records):
        draw_bar(axes, position, record, span)
        axes.annotate(
            bar_words(record, panel),
            (record.cpu_s, position),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            fontweight="bold" if record.engine == "tidelog" else "normal",
            color=INK if record.is_done else FAINT,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    axes.set_yticks(range(len(panel.records)), [name_of(record) for record in panel.records])
    axes.set_xticks(span.ticks, [f"{tick:g} s" for tick in span.ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x")


def draw_bar(axes: Axes, position: int, record: Record, span: Span) -> None:
    """A full bar for an answer, a hatched one for a limit that was reached."""
    colour, length = colour_of(record), record.cpu_s - span.low
    if record.is_done:
        axes.barh(position, length, left=span.low, height=0.72, color=colour)
    else:
        axes.barh(
            position,
            length,
            left=span.low,
            height=0.72,
            facecolor="white",
            edgecolor=colour,
            linewidth=0.8,
            hatch="////",
        )


def bar_words(record: Record, panel: Panel) -> str:
    """The seconds, and for tidelog how they compare with DuckDB's."""
    if not record.is_done:
        return f"{record.counts['status']}: {record.counts['reason']}"
    reference = reference_for(record, panel.records)
    if record.engine == "tidelog" and reference is not None:
        return f"{seconds_text(record.cpu_s)}  ({record.cpu_s / reference.cpu_s:.2f} × DuckDB)"
    return seconds_text(record.cpu_s)


def draw_lines(axes: Axes, panel: Panel) -> None:
    """One line per engine and variant over the sizes, named at its right end."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    ends: dict[str, Record] = {}
    for name in dict.fromkeys(map(name_of, panel.records)):
        line = [record for record in panel.records if name_of(record) == name and record.is_done]
        if line:
            sizes, seconds = [record.size for record in line], [record.cpu_s for record in line]
            axes.plot(sizes, seconds, marker="o", markersize=5, linewidth=2, color=colour_of(line[0]))
            ends[name] = line[-1]
    smallest, largest = max(panel.sizes[0], 1), panel.sizes[-1]
    axes.set_xlim(smallest / 1.3, largest * (largest / smallest) ** 0.5)
    axes.set_xticks(panel.sizes, [f"{size:,}" for size in panel.sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))
    axes.grid(axis="both")
    name_lines(axes, ends)


def name_lines(axes: Axes, ends: dict[str, Record]) -> None:
    """Every line is named beside its end, or as near to it as the name below leaves room."""
    low, high = axes.get_ylim()
    below = -math.inf
    for name, end in sorted(ends.items(), key=lambda item: item[1].cpu_s):
        height = LINES * POINTS * math.log(end.cpu_s / low) / math.log(high / low)
        below = max(height, below + NAME_HEIGHT)
        axes.annotate(
            f"{name}, {seconds_text(end.cpu_s)}",
            (end.size, end.cpu_s),
            xytext=(8, below - height),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK,
        )


def name_of(record: Record) -> str:
    return f"{NAMES.get(record.engine, record.engine)} {record.variant}".strip()


def colour_of(record: Record) -> tuple[float, float, float]:
    """The engine's colour, paler for a variant."""
    red, green, blue = to_rgb(COLOURS.get(record.engine, OTHER_COLOUR))
    if not record.variant:
        return red, green, blue
    return (1 + red) / 2, (1 + green) / 2, (1 + blue) / 2


def inscribe(figure: Figure, title: str, subtitle: str, caption: str) -> None:
    """A row of panels gets its words, and one legend to the right for all of them."""
    pairs = (zip(*axes.get_legend_handles_labels(), strict=True) for axes in figure.axes)
    drawn = {name: line for some in pairs for line, name in some}
    figure.legend(
        list(drawn.values()),
        list(drawn),
        loc="center right",
        bbox_to_anchor=(0.995, 0.45),
        frameon=False,
        fontsize=9,
    )
    figure.text(0.025, 0.93, title, fontsize=14, fontweight="bold", va="center")
    figure.text(0.025, 0.85, subtitle, fontsize=9.5, color=FAINT, va="center")
    figure.text(0.025, 0.04, caption, fontsize=8.5, color=FAINT, va="center")


def svg(figure: Figure) -> str:
    """The figure as an element of a page."""
    sink = io.StringIO()
    figure.savefig(sink, format="svg", metadata={"Date": None})
    text = sink.getvalue()
    return text[text.index("<svg") :]


def save_image(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
