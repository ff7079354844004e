"""`tidelog stream`: apply changes as they arrive, and report what each commit changes, stratum by stratum."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from tidelog import maintenance
from tidelog.cli.commands.run import check_options, exports_of, outputs_of, report_files, write_files
from tidelog.cli.options import ON_SCREEN, UsageError
from tidelog.cli.results import DeltaFolder, Form, check_statements, duration, print_lines
from tidelog.cli.statistics import print_statistics, write_statistics
from tidelog.cli.updates import STANDARD_INPUT, Updates
from tidelog.cli.work import LoadedProgram
from tidelog.engine.events import Listener, StrataTally, StratumStatistics, Tally
from tidelog.errors import Interrupted, TidelogError, counted
from tidelog.logic.program import Rule
from tidelog.maintenance.marking import MARKINGS
from tidelog.maintenance.step_plans import MaintenanceStep
from tidelog.plan.rule_text import Writing, shortened
from tidelog.reasoner.delta import Delta, counts
from tidelog.rewrite.auxiliary_relations import SEPARATOR
from tidelog.rewrite.representatives import MARK

# ---- work of transactions in each stratum

_MOST: Final = 20  # strata on a screen
_NAME_WIDTH: Final = 44
_HEAD: Final = ("stratum", "by", "times", "overdeleted", "rederived", "went", "came", "instances", "seconds")


def strata_json(tally: StrataTally, work: LoadedProgram) -> list[dict[str, object]]:
    """A value for each stratum and who maintained it, those that took longest first."""
    return [
        {
            "predicates": names,
            "maintainer": maintainer,
            "times": statistics.times,
            "taken_away": statistics.overdeleted,
            "put_back": statistics.rederived,
            "went": statistics.went,
            "came": statistics.came,
            "instances": statistics.instances,
            "seconds": round(statistics.seconds, 6),
        }
        for names, maintainer, statistics in _sorted(tally, work)
    ]


def strata_lines(tally: StrataTally, work: LoadedProgram) -> list[str]:
    """The same as lines of text."""
    entries = _sorted(tally, work)
    if not entries:
        return []
    rows = [_HEAD, *(_cells(*each) for each in entries[:_MOST])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(_aligned(row, widths)).rstrip() for row in rows]
    more = len(entries) - _MOST
    return [*lines, f"… and {more:,} more strata"] if more > 0 else lines


def _sorted(tally: StrataTally, work: LoadedProgram) -> list[tuple[list[str], str, StratumStatistics]]:
    """The strata with the names of their predicates, those that took longest first."""
    writing = Writing.of(work.program)
    entries = sorted(tally.strata.items(), key=lambda item: -item[1].seconds)
    return [
        ([_named(name, writing) for name in predicates], maintainer, statistics)
        for (predicates, maintainer), statistics in entries
    ]


def _named(relation: str, writing: Writing) -> str:
    """The predicate, or that on behalf of which there is an auxiliary relation."""
    name, separator, _ = relation.partition(SEPARATOR)
    if MARK in name:
        name, _, suffix = name.partition(MARK)
        predicate = writing.predicates.get(name)
        written = (name if predicate is None else predicate.written) + MARK
        separator = separator or suffix
    else:
        written = writing.predicate(name)
    return f"{written} (auxiliary)" if separator else written


def _cells(names: list[str], maintainer: str, statistics: StratumStatistics) -> tuple[str, ...]:
    numbers = (
        statistics.times,
        statistics.overdeleted,
        statistics.rederived,
        statistics.went,
        statistics.came,
        statistics.instances,
    )
    name = shortened(", ".join(names), _NAME_WIDTH)
    return name, maintainer, *(f"{number:,}" for number in numbers), f"{statistics.seconds:.3f}"


def _aligned(cells: tuple[str, ...], widths: list[int]) -> list[str]:
    """Words to the left, numbers to the right."""
    return [
        cell.ljust(width) if position < 2 else cell.rjust(width)
        for position, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]


# ---- `tidelog stream`

# What Illich and Glimm count, lines 23, 20, 11 and 28 of their Algorithm 1, and the steps that do it.
APPLICATIONS = {
    "deletions": (
        MaintenanceStep.LOST,
        MaintenanceStep.LOST_UNDER_NEGATION,
        MaintenanceStep.OVERDELETE,
        MaintenanceStep.RULES_REMOVED,
    ),
    "backward": (MaintenanceStep.SUPPORT,),
    "forward": (MaintenanceStep.GROUND, MaintenanceStep.PROVE, MaintenanceStep.REDERIVE),
    "insertions": (
        MaintenanceStep.GAINED,
        MaintenanceStep.GAINED_UNDER_NEGATION,
        MaintenanceStep.INSERT,
        MaintenanceStep.RULES_ADDED,
    ),
}


def stream(options: Namespace) -> int:
    """The exit code of `tidelog stream`."""
    names = options.updates or [STANDARD_INPUT]
    form = Form.of(options, "csv")
    form.check_mixed()
    _check(options, names, form)
    if options.engine == "spark":
        from tidelog.cli.commands import spark_commands

        return spark_commands.stream(options, names, form)
    updates = Updates(names, options.follow)
    commits = Commits(options, form)
    with LoadedProgram(options, commits.listeners) as work:
        return _stream(work, updates, commits, form)


def _stream(work: LoadedProgram, updates: Updates, commits: Commits, form: Form) -> int:
    """Apply all updates, and write the requested output; the exit code."""
    options = work.options
    work.reasoner.runtime.started = None  # the timeout is for each transaction, not for the stream
    work.warn()
    exports = exports_of(work)
    if options.output is not None:
        check_statements({item.name: item.arity for item in outputs_of(work, exports)}, form)
    start = perf_counter()
    work.derive()
    commits.begin(work, perf_counter() - start)
    code = _take_all(work, updates, commits)
    outputs = outputs_of(work, exports) if options.output is not None else []
    report_files(work, write_files(work, outputs, exports, form))
    commits.summarise(work)
    return code


def _check(options: Namespace, names: list[str], form: Form) -> None:
    """Raise UsageError if options are incompatible."""
    check_options(options, form)
    if options.program == STANDARD_INPUT and STANDARD_INPUT in names:
        raise UsageError(
            "program and changes cannot both come from standard input", "name a file for one of them"
        )
    if options.format is not None and not (options.deltas or options.output or options.format == "jsonl"):
        raise UsageError(
            f"changes cannot be written to standard output as {options.format}",
            "choose --format jsonl, or write files with --deltas DIR or --output DIR",
        )


def _take_all(work: LoadedProgram, updates: Updates, commits: Commits) -> int:
    """Apply all updates; the exit code of the worst that happened, or the first error raised."""
    worst = 0
    is_final = work.options.store is None  # what is counted is lost with this process
    deltas = work.reasoner.stream(updates, missing=work.options.missing, final=is_final)
    while True:
        rules = work.reasoner.rules
        try:
            delta = next(deltas)
        except StopIteration:
            return worst
        except KeyboardInterrupt:  # while waiting: in the middle of a transaction it is an error
            work.messages.say("interrupted while waiting: the stream has ended")
            return worst
        except TidelogError as error:
            if not work.options.keep_going or isinstance(error, Interrupted):
                commits.report_failure(work)
                raise
            work.messages.diagnose(error.diagnostics)
            worst = max(worst, error.exit_code)
        else:
            commits.record(delta, work)
            commits.renumber(rules, work.reasoner.rules)


class Commits:
    """What the commits so far have changed. Mutable: it grows with each."""

    def __init__(self, options: Namespace, form: Form) -> None:
        self.tally = Tally()  # over all transactions, where the reasoner's own is for the last
        self.strata = StrataTally()
        # An event for every stratum interrupts a compiled loop at each.
        self.listeners: list[Listener] = [self.tally, *([] if options.stats is None else [self.strata])]
        self.added = self.removed = 0
        self.seconds: list[float] = []
        self._form = form
        self._folder = DeltaFolder(options.deltas, form) if options.deltas is not None else None
        self._prints = options.format == "jsonl" and options.deltas is None and options.output is None

    def begin(self, work: LoadedProgram, seconds: float) -> None:
        """Report the facts before the first commit."""
        facts = work.reasoner.statistics
        work.reasoning = sum(stratum.seconds for stratum in facts.strata.values())
        work.messages.say(
            f"{counted(facts.loaded, 'fact')} loaded, {facts.derived:,} derived  {duration(seconds)}"
        )

    def record(self, delta: Delta, work: LoadedProgram) -> None:
        """Report a commit, and write what it changes."""
        self.tally.begin_transaction()
        self.added += delta.added
        self.removed += delta.removed
        self.seconds.append(delta.seconds)
        if self._folder is not None:
            self._folder.write(delta, work.program)
        if self._prints:
            print_lines(delta, self._form)
        work.messages.say(f"commit {delta.number}: {delta}  {duration(delta.seconds)}")

    def renumber(self, before: tuple[Rule, ...], after: tuple[Rule, ...]) -> None:
        """Renumber the counts after rules were inserted or deleted, and drop those of deleted rules."""
        if before is after:
            return
        positions = {id(rule): position for position, rule in enumerate(after)}
        rules = self.tally.rules
        remaining = {
            positions.get(id(rule), -1): rules[position]
            for position, rule in enumerate(before)
            if position in rules
        }
        remaining.pop(-1, None)
        # Counts of the present transaction have the new numbers already, for rules that came with it.
        new = {position: counted for position, counted in rules.items() if position >= len(before)}
        rules.clear()
        rules.update({**new, **remaining})

    def report_failure(self, work: LoadedProgram) -> None:
        """Print what was committed before the stream ended with an error."""
        done = len(self.seconds)
        work.messages.say(f"stopped after {counted(done, 'commit')}: the next one failed")

    def summarise(self, work: LoadedProgram) -> None:
        """Report the whole stream, with statistics if they were requested."""
        done = len(self.seconds)
        total = duration(sum(self.seconds))
        work.messages.say(f"{counted(done, 'commit')}: {counts(self.added, self.removed)}  {total}")
        if work.reasoner.time.past.time is not None:
            work.report_completeness()
        if work.options.stats is None:
            return
        work.tally = self.tally
        work.reasoning = (work.reasoning or 0.0) + sum(self.seconds)
        if work.options.stats == ON_SCREEN:
            print_statistics(work)
            for line in strata_lines(self.strata, work):
                work.messages.say(line)
            work.messages.say(_applied(self.tally))
            if self.tally.markings or work.options.marking in MARKINGS:
                work.messages.say(
                    _marked(self.tally, maintenance.keeps_closures(work.maintainer, work.marking))
                )
            if self.seconds:
                middle, longest = duration(median(self.seconds)), duration(max(self.seconds))
                work.messages.say(f"a commit took {middle} in the median, {longest} at most")
        else:
            write_statistics(work, Path(work.options.stats), {"commits": self._to_json(work)})

    def _to_json(self, work: LoadedProgram) -> dict[str, object]:
        return {
            "count": len(self.seconds),
            "added": self.added,
            "removed": self.removed,
            "seconds": [round(seconds, 6) for seconds in self.seconds],
            "strata": strata_json(self.strata, work),
            "applications": {name: _total(self.tally, name) for name in APPLICATIONS},
            "marks": {
                "explicit": self.tally.explicit_marks,
                "implicit": self.tally.implicit_marks,
                "positive": self.tally.positive_marks,
            },
            "markings": [
                {"marked": made.is_marked, "reason": made.reason, "times": times}
                for made, times in self.tally.markings.items()
            ],
        }


def _total(tally: Tally, name: str) -> int:
    """How many facts the steps of this name have found."""
    return sum(tally.applications.get(step.value, 0) for step in APPLICATIONS[name])


def _applied(tally: Tally) -> str:
    """What rules were applied for, and marks, in one line."""
    counted = [f"{_total(tally, name):,} {name}" for name in APPLICATIONS]
    marks = f"{tally.explicit_marks:,} explicit and {tally.implicit_marks:,} implicit marks"
    positive = f", {tally.positive_marks:,} positive" if tally.positive_marks else ""
    return f"rules found {', '.join(counted)}; {marks}{positive}"


def _marked(tally: Tally, keeps_closures: bool) -> str:
    """Return how many updates were marked, why others were not, and whether marking keeps closures by rules.

    >>> from tidelog.engine.events import MarkingDecided
    >>> made = {MarkingDecided(True, "it pays"): 3, MarkingDecided(False, "few facts"): 1}
    >>> _marked(Tally(markings=made), keeps_closures=False)
    'marked 3 of 4 updates (3: it pays; not 1: few facts); closures are left to rules while marking'
    """
    closures = "" if keeps_closures else "; closures are left to rules while marking"
    if not tally.markings:
        return f"marked every update that changes facts only{closures}"
    marked = sum(times for choice, times in tally.markings.items() if choice.is_marked)
    parts = [
        f"{'' if choice.is_marked else 'not '}{n:,}: {choice.reason}" for choice, n in tally.markings.items()
    ]
    updates = counted(sum(tally.markings.values()), "update")
    return f"marked {marked:,} of {updates} ({'; '.join(parts)}){closures}"
