"""Plots of queries that are asked while facts arrive, after the figures of the thesis on magic sets.

Kasesalu: Revisiting Query Magic, Tartu 2025, Figures 1 to 5: all arguments bound, one, none; nonlinear and
linear rules on one graph; larger and smaller batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.asking import BATCHES, OTHER_BATCHES
from benchmarks.plain import seconds_text
from benchmarks.plots import STYLE, inscribe
from benchmarks.record import Record

Show = Callable[[Axes, Record], None]

COLOURS = {"full": "#1d2733", "magic": "#0b6e99", "tabling": "#bf6b5d", "auto": "#e0a030"}
WIDTH, HEIGHT = 13.0, 3.6
FIVE = ("lubm-rdfs", "lubm-owl", "rand1k", "rmat1k", "facebook")
SUBTITLE = "CPU seconds to take in a batch and answer, by the share of facts that is there; lower is better."
BY_BATCHES = "CPU seconds for all batches together, by their number; lower is better."


@dataclass(frozen=True)
class Panel:
    """One pair of axes: what is asked of which workload."""

    workload: str
    free: str  # least, middle or most arguments are free


FIGURES: dict[str, tuple[str, tuple[Panel, ...]]] = {
    "1": ("all arguments bound", tuple(Panel(name, "least") for name in FIVE)),
    "2": ("some arguments bound", tuple(Panel(name, "middle") for name in FIVE)),
    "3": ("no argument bound", tuple(Panel(name, "most") for name in FIVE)),
    "4": (
        "linear rules on RAND1K",
        tuple(Panel("rand1k-linear", free) for free in ("least", "middle", "most")),
    ),
}


def figures(records: Sequence[Record], caption: str) -> dict[str, Figure]:
    """The five figures, those for which there are records."""
    asked = [record for record in records if record.is_done and "batch_1_s" in record.counts]
    found = {}
    for number, (title, panels) in FIGURES.items():
        shown = {panel: own for panel in panels if (own := list(records_of(panel, asked)))}
        if shown:
            found[f"figure-{number}"] = draw(title, SUBTITLE, shown, over_arrivals, caption)
    batched = {panel: own for panel in FIGURES["2"][1] if (own := list(records_of(panel, asked)))}
    if batched:
        found["figure-5"] = draw("larger and smaller batches", BY_BATCHES, batched, over_batches, caption)
    return found


def records_of(panel: Panel, records: Iterable[Record]) -> Iterable[Record]:
    """The records of a workload with so many free arguments."""
    own = [record for record in records if record.workload == panel.workload]
    sizes = sorted({record.size for record in own})
    if not sizes:
        return ()
    size = {"least": sizes[0], "middle": sizes[len(sizes) // 2], "most": sizes[-1]}[panel.free]
    return (record for record in own if record.size == size and record.variant in COLOURS)


def over_arrivals(axes: Axes, record: Record) -> None:
    """The cost of each batch."""
    shares = [number / BATCHES for number in range(1, BATCHES + 1)]
    seconds = [float(record.counts[f"batch_{number}_s"]) for number in range(1, BATCHES + 1)]
    plot(axes, shares, seconds, record)
    axes.set_xticks([0.2, 0.6, 1.0], ["20 %", "60 %", "100 %"])


def over_batches(axes: Axes, record: Record) -> None:
    """The cost of all batches together."""
    numbers = sorted((BATCHES, *OTHER_BATCHES))
    costs = {BATCHES: record.counts["batches_s"]}
    costs |= {number: record.counts[f"in_{number}_batches_s"] for number in OTHER_BATCHES}
    plot(axes, numbers, [float(costs[number]) for number in numbers], record)
    axes.set_xscale("log")
    axes.set_xticks(numbers, list(map(str, numbers)))
    axes.xaxis.set_minor_locator(NullLocator())


def plot(axes: Axes, places: Sequence[float], seconds: Sequence[float], record: Record) -> None:
    colour = COLOURS[record.variant]
    axes.plot(places, seconds, color=colour, label=record.variant, marker="o", markersize=3, linewidth=1.6)


def draw(title: str, subtitle: str, shown: dict[Panel, list[Record]], show: Show, caption: str) -> Figure:
    """A row of panels with one legend."""
    matplotlib.style.use(STYLE)
    figure = Figure(figsize=(WIDTH, HEIGHT), facecolor="white")
    width = 0.89 / len(shown)
    for place, (panel, records) in enumerate(shown.items()):
        axes = figure.add_axes((0.055 + place * width, 0.2, width - 0.05, 0.48))
        for record in records:
            show(axes, record)
        lay_out(axes, f"{panel.workload}, {records[0].counts['bound']}")
    inscribe(figure, title, subtitle, caption)
    return figure


def lay_out(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.tick_params(length=0, labelsize=8)
    axes.grid(axis="both")
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)
