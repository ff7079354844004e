"""The statistics of each rule, as a table and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from shutil import get_terminal_size
from time import perf_counter
from typing import Final

from tidelog.cli.options import ON_SCREEN
from tidelog.cli.output import is_coloured
from tidelog.cli.work import LoadedProgram
from tidelog.durable import replacing_text
from tidelog.engine.events import RuleStatistics, Tally
from tidelog.errors import counted, visible_lines
from tidelog.logic.program import Program
from tidelog.logic.strata import Stratum, strata
from tidelog.plan.rule_text import Writing, shortened
from tidelog.temporal.horizon import sides
from tidelog.temporal.metric_rules import time_strata

_SHORT: Final = 0.1  # seconds of a rule that is not worth showing
_WIDTH: Final = 130  # of the table where there is no terminal to ask
_RULE_WIDTH: Final = 60  # of the text of a rule, at most
_COUNTS_WIDTH: Final = 66  # of the columns next to the rules
_REASONS: Final = 3  # for one maintainer, at most
_NOTHING: Final = RuleStatistics()


def statistics(work: LoadedProgram) -> dict[str, object]:
    """Return the statistics as plain JSON values."""
    tally = work.reasoner.statistics
    total = perf_counter() - work.start
    reasoning = work.reasoning
    if reasoning is None:
        reasoning = sum(stratum.seconds for stratum in work.tally.strata.values())
    outcome = work.reasoner.time.outcome
    time: dict[str, object] = {}
    if outcome is not None:
        time = {"completeness": outcome.kind, "completeness_text": str(outcome)}
        if outcome.periods is not None:
            time["periods"] = {name: str(side.period) for name, side in sides(outcome.periods)}
    return time | {
        "program": str(work.options.program),
        "engine": work.options.engine,
        "maintainer": work.maintainer,
        "choices": _choices(work.tally),
        "seconds": {
            "total": round(total, 6),
            "load": round(tally.load_seconds, 6),
            "reason": round(reasoning, 6),
        },
        "facts": {
            "loaded": tally.loaded,
            "derived": tally.derived,
            "total": tally.loaded + tally.derived,
        },
        "rows_left_out": work.reasoner.faults.skipped,
        "nulls": [
            {"file": file, "column": column, "done": action, "rows": rows}
            for (file, column, action), rows in sorted(work.reasoner.faults.nulls.items())
        ],
        "rounds": work.tally.rounds,
        "matches": work.tally.matches,
        "peak_memory_bytes": peak_memory(),
        "tables": None if work.reasoner.tables is None else asdict(work.reasoner.tables),
        "strata": _strata(work),
        "rules": _rules(work),
    }


def _choices(tally: Tally) -> list[dict[str, object]]:
    """Which maintainers were chosen, and why, the most frequent choice first."""
    counted_choices = sorted(tally.choices.items(), key=lambda item: -item[1])
    return [
        {"maintainer": choice.maintainer, "reason": choice.reason, "times": times}
        for choice, times in counted_choices
    ]


def choices(tally: Tally) -> Iterator[str]:
    """Yield the choices in words, a line for each maintainer that was chosen.

    >>> from tidelog.engine.events import MaintainerChosen
    >>> list(choices(Tally(choices={MaintainerChosen("recompute", "all of it changes"): 1})))
    ['chose recompute: all of it changes']
    """
    reasons: dict[str, dict[str, int]] = {}
    for choice, times in sorted(tally.choices.items(), key=lambda item: -item[1]):
        reasons.setdefault(choice.maintainer, {})[choice.reason] = times
    total = sum(tally.choices.values())
    for maintainer, often_by in reasons.items():
        often = f" {sum(often_by.values()):,} of {total:,} times" if total > 1 else ""
        several = len(often_by) > 1
        parts = [f"{reason} ({times:,})" if several else reason for reason, times in often_by.items()]
        more = f"; {len(parts) - _REASONS:,} more reasons" if len(parts) > _REASONS else ""
        yield f"chose {maintainer}{often}: {'; '.join(parts[:_REASONS])}{more}"


def _strata(work: LoadedProgram) -> list[dict[str, object]]:
    program = _program(work)
    writing = Writing.of(program)
    ended, closed = work.tally.strata, work.tally.closed
    return [
        {
            "stratum": position + 1,
            "predicates": [writing.predicate(name) for name in stratum.predicates],
            "recursive": stratum.recursive,
            "closed_as": closed[position].kind if position in closed else None,
            "rounds": ended[position].rounds if position in ended else 0,
            "seconds": round(ended[position].seconds, 6) if position in ended else 0.0,
        }
        for position, stratum in enumerate(_layers(program))
    ]


def _layers(program: Program) -> tuple[Stratum, ...]:
    """The strata of the rules without time, then those of the others."""
    return (*strata(program.static.rules), *time_strata(program.timed_rules))


def _program(work: LoadedProgram) -> Program:
    """The program whose rules were run: that of the last query, if it was rewritten; with equality's own."""
    return work.reasoner.rewritten or work.reasoner.meaning


def _rules(work: LoadedProgram) -> list[dict[str, object]]:
    program = _program(work)
    writing = Writing.of(program)
    work_of_rules = work.tally.rules
    positions = {
        id(rule): position for position, stratum in enumerate(_layers(program), 1) for rule in stratum.rules
    }
    rows: list[dict[str, object]] = []
    for number, rule in enumerate(program.rules):
        item = work_of_rules.get(number, _NOTHING)
        rows.append(
            {
                "rule": number + 1,
                "name": rule.name,
                "text": writing.rule(rule),
                "stratum": positions[id(rule)],
                "rounds": item.rounds,
                "matches": item.matches,
                "new": item.new,
                "duplicates": item.duplicates,
                "no_value": item.no_value,
                "seconds": round(item.seconds, 6),
            }
        )
    return rows


def peak_memory() -> int:
    """The most memory that this process has held, in bytes.

    On Linux as the kernel's high-water mark: `ru_maxrss` also counts the process that has started this one.
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else usage * 1024


def write_statistics(work: LoadedProgram, path: Path, more: Mapping[str, object] | None = None) -> None:
    """Write the statistics to a file, as JSON, with further keys."""
    values = statistics(work) | dict(more or {})
    with replacing_text(path) as stream:
        stream.write(json.dumps(values, indent=2, ensure_ascii=False).encode() + b"\n")


def print_statistics(work: LoadedProgram) -> None:
    """Print the statistics on standard error, rules that took longest first; short ones in their order."""
    from rich.console import Console
    from rich.table import Table

    values = statistics(work)
    rows = _rules(work)
    width = get_terminal_size().columns if sys.stderr.isatty() else _WIDTH
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True, footer_style="bold")
    table.add_column("rule", counted(len(rows), "rule"), no_wrap=True)
    for name in ("rounds", "matches", "new", "duplicates", "no value"):
        total = "" if name == "rounds" else f"{sum(_number(row, name) for row in rows):,.0f}"
        table.add_column(name, total, justify="right", no_wrap=True)
    seconds = sum(_number(row, "seconds") for row in rows)
    table.add_column("seconds", f"{seconds:.3f}", justify="right", no_wrap=True)
    for row in sorted(
        rows, key=lambda row: -_number(row, "seconds") if _number(row, "seconds") > _SHORT else 0
    ):
        text = shortened(str(row["name"] or row["text"]), _rule_width(width))
        counts = (f"{row[name]:,}" for name in ("rounds", "matches", "new", "duplicates", "no_value"))
        table.add_row(f"{row['rule']:>3}  {_escaped(text)}", *counts, f"{_number(row, 'seconds'):.3f}")
    console = Console(stderr=True, highlight=False, width=width, no_color=not is_coloured(sys.stderr))
    sys.stdout.flush()
    is_piecemeal = work.reasoner.commits > 0 or work.reasoner.tables is not None
    if rows and (work.tally.rules or not is_piecemeal):  # else no rule was run over all facts
        console.print(table)
    for line in (*_closed_lines(work), *_table_lines(work), *_time_lines(work)):
        console.print(_escaped(line), soft_wrap=True)
    console.print(_escaped(_summary(values)), soft_wrap=True)
    for line in choices(work.tally):
        console.print(_escaped(f"{work.maintainer} {line}"), soft_wrap=True)


def report_statistics(work: LoadedProgram) -> None:
    """Print or write statistics, if they were requested."""
    if work.options.stats == ON_SCREEN:
        print_statistics(work)
    elif work.options.stats is not None:
        write_statistics(work, Path(work.options.stats))


def _closed_lines(work: LoadedProgram) -> Iterator[str]:
    """A line for each stratum that a structure has closed in place of rules."""
    program = _program(work)
    writing = Writing.of(program)
    layers = _layers(program)
    for place, event in sorted(work.tally.closed.items()):
        if place < len(layers):
            yield f"{writing.predicate(layers[place].predicates[0])} closed by a structure: {event.kind}"


def _table_lines(work: LoadedProgram) -> Iterator[str]:
    """Yield the sizes of the tables of tabling, if a query used them."""
    tables = work.reasoner.tables
    if tables is not None:
        yield (
            f"tables: patterns {tables.tables:,}, subgoals asked {tables.asked:,}, "
            f"evaluated {tables.called:,}, answers {tables.answers:,}, {tables.bytes / 1e6:,.1f} MB"
        )


def _time_lines(work: LoadedProgram) -> Iterator[str]:
    """A line for each rule over time that was left out before the end, as soon as it was done."""
    writing = Writing.of(work.program)
    for number, after in work.reasoner.time.dropped.items():
        yield f"rule {number + 1} was done after round {after}: {writing.rule(work.program.rules[number])}"


def _rule_width(width: int) -> int:
    """How much of a rule there is room for on so wide a screen."""
    return min(_RULE_WIDTH, max(20, width - _COUNTS_WIDTH))


def _summary(values: dict[str, object]) -> str:
    facts, seconds = values["facts"], values["seconds"]
    assert isinstance(facts, dict) and isinstance(seconds, dict)
    memory = values["peak_memory_bytes"]
    assert isinstance(memory, int)
    return (
        f"{counted(facts['loaded'], 'fact')} loaded in {seconds['load']:.3f} s, "
        f"{facts['derived']:,} derived in {seconds['reason']:.3f} s; "
        f"{seconds['total']:.3f} s in all, at most {memory / 2**20:,.0f} MB"
    )


def _number(row: dict[str, object], name: str) -> float:
    number = row[name.replace(" ", "_")]
    assert isinstance(number, int | float)
    return number


def _escaped(text: str) -> str:
    """The text with nothing that rich would take for markup, or a terminal for a command."""
    from rich.markup import escape

    return escape(visible_lines(text))
