"""The main use, on a company of ten thousand people: load, derive, change and query.

Each change of `year.changes` is applied twice: by incremental maintenance, and by deriving again everything
that depends on it. The script checks that both have the same net change. Results go to standard output,
progress to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

import tidelog as tl
from tidelog.reasoner.delta import PredicateDelta

FOLDER = Path(__file__).parent
PROGRAM = FOLDER / "company.rls"
CHANGES = FOLDER / "year.changes"


def main() -> None:
    """Print each step and its duration."""
    print("A company: who may open which folder?\n")
    program = tl.load(PROGRAM)
    reasoner = begin(program, "auto")
    people = reasoner.query("member(?person, _)")
    print(f"  {len(people):,} people, {len(program.rules)} rules\n")
    other = begin(program, "recompute", quiet=True)
    ratios = list(make_changes(reasoner, other))
    print(f"\n  In the median applying a change is {median(ratios):,.0f} times as fast as deriving again.")
    print("  The first change takes longer: it counts the derivations of each fact, once.")
    ask(reasoner)


def begin(program: tl.Program, maintainer: str, quiet: bool = False) -> tl.Reasoner:
    """Return a reasoner that has derived everything."""
    reasoner = tl.Reasoner(program, maintainer=maintainer)
    start = perf_counter()
    reasoner.materialise()
    seconds = perf_counter() - start
    done = reasoner.statistics
    if not quiet:
        print(f"  loaded   {done.loaded:>9,} facts  {duration(done.load_seconds):>9}")
        print(f"  derived  {done.derived:>9,} facts  {duration(seconds - done.load_seconds):>9}")
    return reasoner


def make_changes(reasoner: tl.Reasoner, other: tl.Reasoner) -> Iterator[float]:
    """Print each change with its effect; yield the speed-up compared with deriving again."""
    updates = CHANGES.read_text(encoding="utf-8").split("@commit .")[:-1]
    alarms: list[str] = []
    reasoner.subscribe("alarm", lambda delta: alarms.extend(told(delta)))
    print(f"  {'change':<50} {'net change':>16} {'tidelog':>10} {'again':>10}")
    print(f"  {'─' * 50} {'─' * 16} {'─' * 10} {'─' * 10}")
    for number, update in enumerate(updates, 1):
        progress(f"  change {number} of {len(updates)} …")
        title = update.strip().partition("\n")[0].removeprefix("% ")
        anew = other.apply(update)
        delta = reasoner.apply(update)
        assert sorted(map(str, delta)) == sorted(map(str, anew))
        progress("")
        times = (duration(each.seconds) for each in (delta, anew))
        print("  {:<50} {:>16} {:>10} {:>10}".format(title, str(delta), *times), flush=True)
        while alarms:
            print(f"    → {alarms.pop(0)}")
        yield anew.seconds / delta.seconds


def told(delta: PredicateDelta) -> Iterator[str]:
    """Return messages about alarms that begin or end."""
    for rows, said in ((delta.added, "alarm"), (delta.removed, "alarm ended")):
        if rows:
            people = ", ".join(sorted({person for person, _ in rows}))
            yield f"{said}: contractor {people}, {len(rows)} confidential folders"


def ask(reasoner: tl.Reasoner) -> None:
    """Print the answers to a query."""
    question = 'may_open(?person, "Legal/Oslo/Contracts"), ~belongs(?person, "Legal Oslo")'
    start = perf_counter()
    answers = reasoner.query(question).sorted()
    seconds = perf_counter() - start
    print(f"\n  ?- {question} .")
    for (person,) in answers:
        print(f"     {person}")
    print(f"     {len(answers)} answers in {duration(seconds)}")


def duration(seconds: float) -> str:
    """Return a readable duration."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def progress(text: str) -> None:
    """Replace the current line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
