"""Records as Markdown, for docs/benchmarks.md: sweeps, streams beside paper 000, targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log

from benchmarks.plain import ratio_text, seconds_text
from benchmarks.record import Record
from benchmarks.targets import marking_ratio, targets_table

MARKS = ("explicit", "implicit")
STREAM_HEAD = [
    "",
    "time",
    "ratio",
    "paper: s",
    "ratio",
    "marked",
    "deletions",
    "paper",
    "insertions",
    "paper",
]
STREAM_HEAD += ["marks", "paper"]


def tables(records: Sequence[Record]) -> str:
    """All tables that these records fill."""
    maintained = [record for record in records if record.suite == "maintain"]
    streamed = [record for record in records if record.suite == "stream"]
    on_spark = [record for record in records if record.suite == "spark"]
    reasoned = [record for record in records if record.suite == "ontology"]
    parts = [*(sweep_tables(maintained)), *(stream_tables(streamed)), *(spark_tables(on_spark))]
    parts += ontology_tables(reasoned)
    over_time = [record for record in records if record.suite == "temporal"]
    parts += temporal_tables(over_time)
    equated = [record for record in records if record.suite == "equality"]
    parts += equality_tables(equated)
    parts += value_tables([record for record in records if record.suite == "values"])
    if parts or any(record.suite in ("explain", "store") for record in records):
        parts.append(targets_table(records))
    return "\n\n".join(parts)


def sweep_tables(records: Sequence[Record], done: str = "deleted / added back") -> Iterator[str]:
    """A table for each workload: a row for each maintainer, deletion and addition for each size."""
    for workload in dict.fromkeys(record.workload for record in records):
        own = [record for record in records if record.workload == workload]
        sizes = sorted({record.size for record in own})
        found = {(record.variant, record.size): record for record in own}
        rows = [["", *(f"{size:,}" for size in sizes)]]
        for variant in dict.fromkeys(record.variant for record in own):
            rows.append([f"`{variant}`", *(change_cell(found.get((variant, size))) for size in sizes)])
        yield f"{workload}, {done}:\n\n{markdown(rows)}"


def change_cell(record: Record | None) -> str:
    if record is None:
        return ""
    if not record.is_done:
        reason = str(record.counts["reason"])
        return "not tried" if reason.startswith("not tried") else f"> {reason}"
    return f"{seconds_text(record.cpu_s)} / {seconds_text(float(record.counts['add_cpu_s']))}"


def stream_tables(records: Sequence[Record]) -> Iterator[str]:
    """A table for each maintainer that marks: time without and with each marking, applications, marks."""
    found = {(record.workload, record.size, record.variant): record for record in records if record.is_done}
    for maintainer in dict.fromkeys(record.variant.partition("/")[0] for record in records):
        markings = dict.fromkeys(
            r.variant.partition("/")[2] for r in records if r.variant.startswith(f"{maintainer}/")
        )
        for marking in [name for name in markings if name != "none"]:
            rows = [STREAM_HEAD]
            for workload, size in dict.fromkeys((record.workload, record.size) for record in records):
                old, new = (found.get((workload, size, f"{maintainer}/{m}")) for m in ("none", marking))
                if old and new:
                    rows.append([f"{workload} {size or ''}".strip(), *stream_cells(old, new)])
            told = "time where each update is marked or not as decided, counts where every one is"
            yield f"`{maintainer}`, `{marking}` marking; without → with; {told}:\n\n{markdown(rows)}"


def spark_tables(records: Sequence[Record]) -> Iterator[str]:
    """One table: CPU seconds of all processes and wall seconds of each job."""
    rows = [["", "facts", "", "CPU", "wall", "peak MB"]]
    for record in records:
        costs = (seconds_text(record.cpu_s), seconds_text(record.wall_s), f"{record.peak_rss_mb:,.0f}")
        found = costs if record.is_done else (f"> {record.counts['reason']}", "", "")
        rows.append([record.workload, f"{record.size:,}", f"`{record.variant}`", *found])
    if records:
        yield f"Jobs on Spark, in a session that is warm:\n\n{markdown(rows)}"


def ontology_tables(records: Sequence[Record]) -> Iterator[str]:
    """One table: what each reasoner spent, and on what."""
    rows = [["triples", "", "CPU", "making rules", "reading", "reasoning", "results", "peak MB"]]
    for record in sorted(records, key=lambda record: record.size):
        who = f"tidelog, `{record.variant}`" if record.variant else record.engine
        rows.append([f"{record.size:,}", who, *ontology_cells(record)])
    if records:
        yield f"OWL 2 RL, from files to all triples in Python:\n\n{markdown(rows)}"


def ontology_cells(record: Record) -> list[str]:
    if not record.is_done:
        return [f"> {record.counts['reason']}", "", "", "", "", ""]
    rules, results = (float(record.counts[name]) for name in ("rules_s", "results_s"))
    reasoning = (record.reason_s or 0.0) - rules
    parts = (record.cpu_s, rules, record.load_s or 0.0, reasoning, results)
    return [*(seconds_text(part) if part else "" for part in parts), f"{record.peak_rss_mb:,.0f}"]


def equality_tables(records: Sequence[Record]) -> Iterator[str]:
    """A table for each workload, after table 1 of paper 004: seconds and derivations for each deletion."""
    for workload in dict.fromkeys(record.workload for record in records):
        own = [record for record in records if record.workload == workload]
        found = {(record.variant, record.size): record for record in own}
        sizes = sorted({record.size for record in own})
        rows = [["", "facts kept", "deriving", *(f"−{size:,}" for size in sizes), "as dear as deriving anew"]]
        for variant in dict.fromkeys(record.variant for record in own):
            done = next((r for r in own if r.variant == variant and r.is_done), None)
            whole = ["", ""] if done is None else [number(done, "kept"), derived_cell(done)]
            cells = (equality_cell(found.get((variant, size))) for size in sizes)
            rows.append([f"`{variant}`", *whole, *cells, equilibrium(found, variant, sizes)])
        yield f"Equality, {workload}: CPU seconds (derivations):\n\n{markdown(rows)}"


def equilibrium(found: Mapping[tuple[str, int], Record], variant: str, sizes: Sequence[int]) -> str:
    """How many deletions cost as much as to derive everything anew, between the sizes that were measured."""
    anew = f"{variant.partition('-')[0]}-recompute"
    before: tuple[int, float] | None = None
    for size in sizes if variant != anew else ():
        own, other = found.get((variant, size)), found.get((anew, size))
        if own is None or other is None or not (own.is_done and other.is_done):
            continue
        share = log(own.cpu_s / other.cpu_s)
        if share >= 0:
            if before is None:
                return f"≤ {size:,}"
            way = before[1] / (before[1] - share)
            return f"about {float(f'{before[0] * (size / before[0]) ** way:.2g}'):,.0f}"
        before = size, share
    return "" if before is None else f"> {before[0]:,}"


def derived_cell(record: Record) -> str:
    return f"{seconds_text(record.reason_s or 0.0)} ({number(record, 'all_derivations')})"


def equality_cell(record: Record | None) -> str:
    if record is None:
        return ""
    if not record.is_done:
        return f"> {record.counts['reason']}"
    return f"{seconds_text(record.cpu_s)} ({number(record, 'derivations')})"


def value_tables(records: Sequence[Record]) -> Iterator[str]:
    """What jobs with values cost each engine, and what changes of order lines cost."""
    changed = [record for record in records if record.workload == "changes"]
    done = [record for record in records if record not in changed]
    engines = list(dict.fromkeys(record.engine for record in done))
    found = {(record.workload, record.size, record.engine): record for record in done}
    rows = [["", "size", *engines, *(f"{engine}, MB" for engine in engines), "tidelog by DuckDB"]]
    for workload, size in dict.fromkeys((record.workload, record.size) for record in done):
        own = [found.get((workload, size, engine)) for engine in engines]
        rows.append([workload, f"{size:,}", *map(computed_cell, own), *map(memory_cell, own)])
        ours, theirs = (found.get((workload, size, engine)) for engine in ("tidelog", "duckdb"))
        is_known = ours and theirs and ours.is_done and theirs.is_done
        rows[-1].append(ratio_text(ours.cpu_s / theirs.cpu_s) if is_known and ours and theirs else "")
    if done:
        yield f"Jobs with values, from files to files, CPU and peak memory:\n\n{markdown(rows)}"
    yield from sweep_tables(changed, "lines changed / changed back")


def computed_cell(record: Record | None) -> str:
    if record is None:
        return ""
    return seconds_text(record.cpu_s) if record.is_done else f"> {record.counts['reason']}"


def memory_cell(record: Record | None) -> str:
    return f"{record.peak_rss_mb:,.0f}" if record and record.is_done else ""


def temporal_tables(records: Sequence[Record]) -> Iterator[str]:
    """Three tables: everything derived, facts changed, streams."""
    changed = [record for record in records if record.workload.endswith("-changes")]
    streamed = [record for record in records if record.workload == "stream"]
    derived = [record for record in records if record not in changed and record not in streamed]
    rows = [["", "size", "", "loading", "deriving", "facts", "most at once", "peak MB"]]
    rows += [[record.workload, f"{record.size:,}", *temporal_cells(record)] for record in derived]
    if derived:
        yield f"Rules over time, everything derived:\n\n{markdown(rows)}"
    yield from sweep_tables(changed)
    rows = [["events", "", "CPU", "events a second", "p99 of a minute", "MB, tenth by tenth"]]
    for record in streamed:
        rows.append([f"{record.size:,}", f"`{record.variant}`", *endless_cells(record)])
    if streamed:
        yield f"An endless stream:\n\n{markdown(rows)}"


def temporal_cells(record: Record) -> list[str]:
    who = f"`{record.variant}`" if record.engine == "tidelog" else f"MeTeoR, `{record.variant}`"
    if not record.is_done:
        return [who, "", f"> {record.counts['reason']}", "", "", ""]
    parts = [seconds_text(part) for part in (record.load_s or 0.0, record.reason_s or 0.0)]
    return [who, *parts, f"{record.tuples:,}", number(record, "stored"), f"{record.peak_rss_mb:,.0f}"]


def endless_cells(record: Record) -> list[str]:
    if not record.is_done:
        return [f"> {record.counts['reason']}", "", "", ""]
    memory = str(record.counts["megabytes_by_tenth"])
    return [
        seconds_text(record.cpu_s),
        number(record, "events_per_s"),
        seconds_text(record.p99_s or 0.0),
        memory,
    ]


def stream_cells(old: Record, new: Record) -> list[str]:
    """What changed from no marking to marking, beside what paper 000 says."""
    return [
        f"{seconds_text(old.cpu_s)} → {seconds_text(new.cpu_s)}",
        f"{marking_ratio(old, new):.2f}",
        paper_seconds(old, new),
        paper_ratio(old, new),
        number(new, "updates marked"),
        f"{number(old, 'deletions')} → {number(new, 'deletions')}",
        f"{number(old, 'paper_deletions')} → {number(new, 'paper_deletions')}",
        number(new, "insertions"),
        number(new, "paper_insertions"),
        " + ".join(number(new, f"{kind} marks") for kind in MARKS),
        " + ".join(number(new, f"paper_{kind}_marks") for kind in MARKS),
    ]


def paper_seconds(old: Record, new: Record) -> str:
    if "paper_s" not in old.counts:
        return "–"
    return f"{old.counts['paper_s']} → {new.counts['paper_s']}"


def paper_ratio(old: Record, new: Record) -> str:
    if "paper_s" not in old.counts:
        return "–"
    return ratio_text(float(new.counts["paper_s"]) / float(old.counts["paper_s"]))


def number(record: Record, name: str) -> str:
    return f"{int(record.counts[name]):,}" if name in record.counts else "–"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])
