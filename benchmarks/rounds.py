"""Plots of rounds over time, after Figure 1 of paper 002.

Wang, Wałęga, Cuenca Grau: Seminaïve Materialisation in DatalogMTL, RuleML+RR 2022: time and stored facts
round by round on one dataset, and for fifteen rounds on nine datasets with more and more constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchmarks.plain import seconds_text
from benchmarks.plots import FAINT, STYLE, inscribe
from benchmarks.record import Record
from benchmarks.tenures import CONSTANTS

COLOURS = {"naive": "#bf6b5d", "seminaive": "#e0a030", "optimised": "#0b6e99"}
STYLES = {"naive": "-", "seminaive": "-", "optimised": "--"}  # dashed, as it may lie on another line
DATASETS = tuple(f"D{number}" for number in range(1, 10))
ONE = "lubm", 1_000_000  # the dataset that is looked at round by round
WIDTH, HEIGHT = 13.0, 3.9
TITLE = "Temporal LUBM: the three procedures"
SUBTITLE = (
    "CPU seconds from the first round on, and facts held at once: those there and those that a round finds."
)

Series = dict[str, tuple[Sequence[float], Sequence[float]]]  # by procedure: places and heights


def figures(records: Sequence[Record], caption: str) -> dict[str, Figure]:
    """Figure 1, as far as there are records."""
    done = [record for record in records if record.is_done and record.engine == "tidelog"]
    nine = facts_text(max((record.size for record in done if record.workload in DATASETS), default=0))
    below = f"constants, {nine} facts"
    panels = {
        "(a) time by round": (by_round(done, "seconds_by_round"), "round, 1 M facts", seconds_text),
        "(b) stored facts by round": (by_round(done, "stored_by_round"), "round, 1 M facts", facts_text),
        "(c) time of 15 rounds": (by_dataset(done, seconds), below, seconds_text),
        "(d) stored facts of 15 rounds": (by_dataset(done, stored), below, facts_text),
    }
    shown = {title: panel for title, panel in panels.items() if panel[0]}
    return {"figure-1": draw(shown, caption)} if shown else {}


def by_round(records: Sequence[Record], name: str) -> Series:
    """A series that is written down round by round."""
    found: Series = {}
    for variant in COLOURS:
        for record in records:
            if (record.workload, record.size, record.variant) == (*ONE, variant):
                heights = [float(word) for word in str(record.counts[name]).split()]
                found[variant] = range(1, len(heights) + 1), heights
    return found


def by_dataset(records: Sequence[Record], height: Callable[[Record], float]) -> Series:
    """A figure of each of the nine datasets, over their constants."""
    found: Series = {}
    for variant in COLOURS:
        own = {record.workload: record for record in records if record.variant == variant}
        there = [(place, own[name]) for place, name in enumerate(DATASETS) if name in own]
        if there:
            places = [CONSTANTS[place] * record.size for place, record in there]
            found[variant] = places, [height(record) for _, record in there]
    return found


def seconds(record: Record) -> float:
    """The CPU seconds of all rounds."""
    return float(str(record.counts["seconds_by_round"]).split()[-1])


def stored(record: Record) -> float:
    """The most facts held at once."""
    return float(record.counts["stored"])


def facts_text(count: float) -> str:
    return f"{count / 1e6:g} M" if count >= 1e6 else f"{count / 1e3:,.0f} k"


def draw(panels: dict[str, tuple[Series, str, Callable[[float], str]]], caption: str) -> Figure:
    """A row of panels with one legend."""
    matplotlib.style.use(STYLE)
    figure = Figure(figsize=(WIDTH, HEIGHT), facecolor="white")
    width = 0.89 / len(panels)
    for place, (title, (series, below, write)) in enumerate(panels.items()):
        axes = figure.add_axes((0.05 + place * width, 0.25, width - 0.05, 0.44))
        for name, (places, heights) in series.items():
            axes.plot(places, heights, STYLES[name], color=COLOURS[name], label=name, linewidth=1.8)
        lay_out(axes, title, below, write)
    inscribe(figure, TITLE, SUBTITLE, caption)
    return figure


def lay_out(axes: Axes, title: str, below: str, write: Callable[[float], str]) -> None:
    axes.set_title(title, fontsize=9.5, loc="left")
    axes.set_xlabel(below, fontsize=8.5, color=FAINT)
    axes.set_ylim(bottom=0)
    if below.startswith("constants"):
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: facts_text(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: write(value) if value else "0"))
    axes.tick_params(length=0, labelsize=8)
    axes.grid(axis="both")
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)
