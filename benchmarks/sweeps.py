"""Plots of the suites in which facts change: one figure per workload, a line per maintainer, log-log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.plain import seconds_text
from benchmarks.plots import FAINT, INK, STYLE
from benchmarks.record import Record
from benchmarks.workloads import CHANGING

LINES = {
    "auto": ("#0b6e99", "-"),
    "rank-counting": ("#4fb0d8", "--"),
    "modules": ("#5f9e6e", "-"),
    "recompute": ("#1d2733", ":"),
    "dred": ("#e0a030", "-"),
    "counting": ("#e0a030", "--"),
    "backward-forward": ("#bf6b5d", "-"),
    "counting-backward-forward": ("#bf6b5d", "--"),
    "forward-backward-forward": ("#bf6b5d", ":"),
    "fp-update": ("#8d6cab", "-"),
}
MARKED = {"none": "-", "literal": ":", "linked": "--"}
OTHER = ("#8a94a0", "-")
WIDTH, HEIGHT = 12.0, 5.0
FEW_POWERS = 1_000  # a range of seconds in which powers of ten would be too few lines
SUBTITLES = {
    "maintain": "CPU seconds of a change by the number of facts changed, in the median; lower is better.",
    "stream": "CPU seconds of a stream by the number of facts that each update adds and deletes.",
}


@dataclass(frozen=True)
class View:
    """One pair of axes: its title, and the seconds it shows of a record."""

    title: str
    seconds: Callable[[Record], float]


CHANGES = (
    View("deleted", lambda record: record.cpu_s),
    View("added back", lambda record: float(record.counts["add_cpu_s"])),
)
STREAMS = (View("whole stream of 50 updates", lambda record: record.cpu_s),)
VIEWS = {"maintain": CHANGES, "stream": STREAMS}


def figures(suite: str, records: Sequence[Record], caption: str) -> dict[str, Figure]:
    """A figure for each workload of a suite that was measured at several sizes."""
    found = {}
    for workload in dict.fromkeys(record.workload for record in records):
        own = [record for record in records if record.workload == workload and record.is_done]
        if len({record.size for record in own}) > 1:
            found[workload] = draw_sweep(workload, own, suite, caption)
    return found


def draw_sweep(workload: str, records: Sequence[Record], suite: str, caption: str) -> Figure:
    """CPU seconds over the number of facts changed."""
    views = VIEWS[suite]
    matplotlib.style.use(STYLE)
    figure = Figure(figsize=(WIDTH, HEIGHT), facecolor="white")
    width = 0.78 / len(views)
    shown = [view.seconds(record) for view in views for record in records]
    span = min(shown) / 1.6, max(shown) * 1.6
    for place, view in enumerate(views):
        axes = figure.add_axes((0.06 + place * width, 0.14, width - 0.055, 0.64))
        draw_view(axes, view, records, span)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="center left", bbox_to_anchor=(0.815, 0.5), frameon=False, fontsize=8)
    known = CHANGING.get(workload)
    title = f"{workload}  {known.title}" if known else workload
    figure.text(0.025, 0.94, title, fontsize=14, fontweight="bold", va="center")
    figure.text(0.025, 0.885, SUBTITLES[suite], fontsize=9.5, color=FAINT, va="center")
    figure.text(0.025, 0.03, caption, fontsize=8.5, color=FAINT, va="center")
    return figure


def draw_view(axes: Axes, view: View, records: Sequence[Record], span: tuple[float, float]) -> None:
    """One line per variant; the reader finds its name in the legend, in the order of the lines' ends."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    for variant in ordered(records, view):
        line = sorted((r for r in records if r.variant == variant), key=lambda record: record.size)
        colour, style = look_of(variant)
        axes.plot(
            [record.size for record in line],
            [view.seconds(record) for record in line],
            marker="o",
            markersize=4,
            linewidth=3 if variant == "auto" else 1.6,
            color=colour,
            linestyle=style,
            label=variant,
        )
    sizes = sorted({record.size for record in records})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(*span)
    steps = (1,) if span[1] > FEW_POWERS * span[0] else (1, 2, 5)
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=steps, numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value)))
    axes.set_title(view.title, fontsize=10, color=INK, loc="left")
    axes.grid(axis="both")
    axes.tick_params(length=0, labelsize=8.5)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)


def ordered(records: Sequence[Record], view: View) -> list[str]:
    """The variants, slowest first, at the largest size of each."""
    last = {record.variant: view.seconds(record) for record in sorted(records, key=lambda r: r.size)}
    return sorted(last, key=lambda variant: -last[variant])


def look_of(variant: str) -> tuple[str, str]:
    """The colour of a maintainer and its style of line, or that of its marking."""
    maintainer, _, marking = variant.partition("/")
    colour, style = LINES.get(maintainer, OTHER)
    return colour, MARKED.get(marking, style)
