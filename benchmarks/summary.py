"""The table at the end of a run: CPU seconds, and how they compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.record import Record, threads_variant

REFERENCE = "duckdb"
BASELINES = {"maintain": "recompute", "stream": "backward-forward/none", "spark": "columnar"}


def summary(records: Sequence[Record]) -> str:
    """One line per record, in the order of the questions.

    The ratio is the record's CPU seconds divided by DuckDB's on the same question; where facts change,
    by those of recomputation or of B/F without marking; on Spark, by those of the columnar engine.
    """
    rows: list[tuple[str, ...]] = [("", "", "", "CPU s", "wall s", "MB", "tuples", "ratio")]
    rows += [row(record, reference_for(record, records)) for record in records]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(aligned(cells, widths) for cells in rows)


def row(record: Record, reference: Record | None) -> tuple[str, ...]:
    name = f"{record.engine} {record.variant}".strip()
    if not record.is_done:
        reason = f"{record.counts['status']}: {record.counts['reason']}"
        return record.workload, f"{record.size:,}", name, f">{record.cpu_s:.1f}", "", "", reason, ""
    ratio = f"{record.cpu_s / reference.cpu_s:.2f}" if reference else ""
    ratio = f"{record.cpu_s / reference.cpu_s:.2g}" if reference and record.suite in BASELINES else ratio
    costs = f"{record.cpu_s:.3g}", f"{record.wall_s:.3g}", f"{record.peak_rss_mb:.0f}"
    return record.workload, f"{record.size:,}", name, *costs, f"{record.tuples:,}", ratio


def reference_for(record: Record, records: Iterable[Record]) -> Record | None:
    """The record of the same question on as many threads that ratios are to, if it came to an end."""
    engine = "tidelog" if record.suite in BASELINES else REFERENCE
    words = BASELINES.get(record.suite, ""), threads_variant(int(record.counts["threads"]))
    wanted = (record.suite, record.workload, record.size, engine, " ".join(filter(None, words)))
    for other in records:
        if (other.suite, other.workload, other.size, other.engine, other.variant) == wanted and other.is_done:
            return other
    return None


def aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    """Names to the left, numbers to the right."""
    padded = [
        cell.ljust(width) if column in (0, 2) else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()
