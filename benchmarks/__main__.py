"""The command line: `python -m benchmarks SUITE …` measures; `page` draws, `tables` writes Markdown."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TextIO

from benchmarks.measure import DisagreementError, Limits, measure, report
from benchmarks.record import Record, read_records
from benchmarks.suites import SUITES
from benchmarks.suites.suite import Options, Suite
from benchmarks.summary import summary
from benchmarks.tables import tables
from benchmarks.workloads import RESULTS


def main(arguments: Sequence[str]) -> int:
    """Zero if every engine came to an end or to a limit, and all answers were equal."""
    parsed = command_line().parse_args(arguments)
    if parsed.suite == "page":
        return draw(parsed)
    if parsed.suite == "tables":
        print(tables(read_records([Path(name) for name in parsed.files])))
        return 0
    repetitions = parsed.repetitions or (1 if parsed.quick else 3)
    limits = Limits(parsed.time_limit or SUITES[parsed.suite].time_limit, parsed.memory_limit)
    target = parsed.json or str(RESULTS / f"{parsed.suite}.jsonl")
    try:
        suite = SUITES[parsed.suite]
        records = list(measured(suite, options_of(parsed), repetitions, limits, target, parsed.resume))
    except DisagreementError as error:
        report(f"engines disagree on {error}")
        return 1
    report("\n" + summary(records))
    return int(any(record.counts["status"] == "failed" for record in records))


def measured(
    suite: Suite, options: Options, repetitions: int, limits: Limits, target: str, resume: bool
) -> Iterator[Record]:
    """The records of a suite, each already written when it is given; those that were there come first."""
    known = read_records([Path(target)]) if resume and Path(target).exists() else []
    yield from known
    there = {record.key for record in known}
    hopeless: dict[tuple[str, ...], int] = {
        (record.suite, record.workload, record.engine, record.variant): record.size
        for record in known
        if record.counts["status"] == "stopped" and record.cpu_s
    }
    with opened(target, "a" if resume else "w") as sink:
        for tasks in suite.questions(options):
            missing = [task for task in tasks if task.key not in there]
            for record in measure(missing, repetitions, limits, hopeless):
                print(record.to_json(), file=sink, flush=True)
                yield record


@contextlib.contextmanager
def opened(target: str, mode: Literal["a", "w"]) -> Iterator[TextIO]:
    if target == "-":
        yield sys.stdout
        return
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    with Path(target).open(mode, encoding="utf-8") as sink:
        yield sink


def draw(parsed: argparse.Namespace) -> int:
    """The page, and the image if one is asked for, are written."""
    from benchmarks.page import write_page

    write_page(
        [Path(name) for name in parsed.files],
        Path(parsed.output),
        parsed.image and Path(parsed.image),
        parsed.images and Path(parsed.images),
    )
    return 0


def options_of(parsed: argparse.Namespace) -> Options:
    return Options(
        workloads=words(parsed.workloads),
        sizes=tuple(int(size) for size in words(parsed.sizes)),
        variants=words(parsed.variants),
        peers=None if parsed.peers is None else words(parsed.peers),
        threads=parsed.threads,
        quick=parsed.quick,
    )


def words(text: str | None) -> tuple[str, ...]:
    return tuple(word for word in (text or "").split(",") if word)


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="suite", required=True, metavar="SUITE")
    for name in SUITES:
        add_suite(commands.add_parser(name, help=f"measure the suite {name}"))
    page = commands.add_parser("page", help="draw a page from files of results")
    page.add_argument("files", nargs="+", metavar="FILE", help="JSON lines that a suite wrote")
    page.add_argument("--output", default="docs/benchmarks.html", help="the page (default %(default)s)")
    page.add_argument("--image", help="an image of the plots of `materialise`, PNG")
    page.add_argument("--images", metavar="FOLDER", help="an image per workload of the other suites, PNG")
    written = commands.add_parser("tables", help="write files of results as Markdown")
    written.add_argument("files", nargs="+", metavar="FILE", help="JSON lines that a suite wrote")
    return parser


def add_suite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workloads", metavar="W1,…", help="default: all")
    parser.add_argument("--sizes", metavar="N,…", help="default: what each workload is known for")
    parser.add_argument(
        "--variants", metavar="ENGINE:NAME,…", help="measured beside the default; NAME,… of maintainers"
    )
    parser.add_argument("--peers", metavar="NAME,…", help="default: all; an empty word for none")
    parser.add_argument("--repetitions", type=int, help="default: 3, or 1 with --quick")
    parser.add_argument("--quick", action="store_true", help="small sizes, one repetition, few engines")
    parser.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--time-limit", type=float, help="CPU seconds of a size, default: that of the suite")
    parser.add_argument("--memory-limit", type=float, default=12.0, help="GiB, default: %(default)g")
    parser.add_argument(
        "--json", metavar="FILE", help="default: benchmarks/results/SUITE.jsonl; - for stdout"
    )
    parser.add_argument("--resume", action="store_true", help="keep what FILE has, and measure the rest")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
