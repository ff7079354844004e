"""One static page from files of results: plots, and every figure in a table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from benchmarks import arrivals, rounds
from benchmarks.plots import draw, name_of, panels_of, save_image, svg
from benchmarks.record import Record, read_records
from benchmarks.sweeps import VIEWS, figures

STYLE = """
body { font: 16px/1.5 "DejaVu Sans", Verdana, sans-serif; color: #1d2733; background: #fff;
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
p, caption { color: #4b5866; } svg { width: 100%; height: auto; }
table { border-collapse: collapse; font-size: .82rem; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 600; border-bottom: 1px solid #b8c2cc; padding: .2rem .5rem; }
td { text-align: right; border-bottom: 1px solid #e3e8ee; padding: .2rem .5rem; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
tr.tidelog td { font-weight: 600; }
"""
HEADINGS = {
    "materialise": "From files to all consequences",
    "maintain": "Facts and rules that change",
    "stream": "Streams of updates, with marking and without",
    "spark": "On Spark",
    "temporal": "Rules over time",
    "values": "Computing with values",
}
MEANING = (
    "CPU seconds of one process, start-up and imports apart: from the first file opened to the last fact "
    "counted, or of one change through Python, or of one stream. Medians of interleaved repetitions. "
    "Axes are logarithmic. Hatched: stopped at the limit."
)
COLUMNS = (
    "workload",
    "engine",
    "size",
    "CPU s",
    "wall s",
    "p99 s",
    "load s",
    "reason s",
    "peak MB",
    "tuples",
)


def write_page(sources: Sequence[Path], output: Path, image: Path | None, images: Path | None = None) -> None:
    """The page, and the images if their path or folder is given, show the records of all sources."""
    records = read_records(sources)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page(records), encoding="utf-8")
    if image is not None:
        heading = f"tidelog and its peers, CPU seconds on {threads_text(records)}"
        compared = [record for record in records if record.suite not in VIEWS]
        save_image(draw(panels_of(compared), heading, caption(compared)), image)
    if images is not None:
        for suite in VIEWS:
            own = [record for record in records if record.suite == suite]
            for workload, figure in figures(suite, own, caption(own) if own else "").items():
                save_image(figure, images / f"{suite}-{workload}.png")
        asked = [record for record in records if record.suite == "query"]
        for name, figure in arrivals.figures(asked, caption(asked) if asked else "").items():
            save_image(figure, images / f"query-{name}.png")
        over_time = [record for record in records if record.suite == "temporal"]
        for name, figure in rounds.figures(over_time, caption(over_time) if over_time else "").items():
            save_image(figure, images / f"temporal-{name}.png")


def page(records: Sequence[Record]) -> str:
    suites = dict.fromkeys(record.suite for record in records)
    sections = "\n".join(section(suite, [r for r in records if r.suite == suite]) for suite in suites)
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>tidelog benchmarks</title>\n<style>{STYLE}</style>\n"
        f"<h1>tidelog benchmarks</h1>\n<p>{escape(MEANING)}</p>\n"
        f"<p>{escape(caption(records))}</p>\n{sections}\n</html>\n"
    )


def section(suite: str, records: Sequence[Record]) -> str:
    """A suite's plots and its table."""
    heading = HEADINGS.get(suite, suite)
    if suite in VIEWS:
        drawn = list(figures(suite, records, caption(records)).values())
    else:
        drawn = [draw(panels_of(records), f"CPU seconds on {threads_text(records)}", caption(records))]
    plots = "\n".join(map(svg, drawn))
    return f"<h2>{escape(heading)}</h2>\n{plots}\n{table(records)}"


def table(records: Sequence[Record]) -> str:
    head = "".join(f"<th>{column}</th>" for column in COLUMNS)
    body = "\n".join(map(table_row, records))
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def table_row(record: Record) -> str:
    inside = "".join(f"<td>{escape(cell)}</td>" for cell in cells(record))
    return f'<tr class="{escape(record.engine)}">{inside}</tr>'


def cells(record: Record) -> tuple[str, ...]:
    """The cells of a record's row; one without an answer says why in place of the number of tuples."""
    names = record.workload, name_of(record), f"{record.size:,}"
    if not record.is_done:
        why = f"{record.counts['status']}: {record.counts['reason']}"
        return *names, f"> {record.cpu_s:.1f}", f"> {record.wall_s:.1f}", "", "", "", "", why
    parts = (record.cpu_s, record.wall_s, record.p99_s, record.load_s, record.reason_s)
    seconds = ("" if part is None else f"{part:.4g}" for part in parts)
    return *names, *seconds, f"{record.peak_rss_mb:.0f}", f"{record.tuples:,}"


def caption(records: Sequence[Record]) -> str:
    """The machines and the dates of the records, and how busy the machines were."""
    machines = dict.fromkeys(str(record.counts["machine"]) for record in records)
    dates = sorted({str(record.counts["date"]) for record in records})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    loads = [float(record.counts["load_average"]) for record in records]
    load = f"load average {min(loads):.1f} to {max(loads):.1f} while measuring"
    return f"{'; '.join(machines)}. {days}, {load}."


def threads_text(records: Sequence[Record]) -> str:
    threads = sorted({int(record.counts["threads"]) for record in records})
    if threads == [1]:
        return "one thread"
    return " and ".join(map(str, threads)) + " threads"
