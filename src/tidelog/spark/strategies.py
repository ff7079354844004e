"""Where a program runs, and why: one task, several that exchange facts, or joins. Imports no Spark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tidelog.errors import Diagnostic, ProgramError, counted
from tidelog.logic.equality import has_equality
from tidelog.logic.program import Program
from tidelog.rewrite.localise import NotLocalisable, check_localisable
from tidelog.spark import codes
from tidelog.spark.memory import PER_BYTE, TASK_MEMORY, Limit, budget, shown
from tidelog.temporal.partitioning import check_divisible
from tidelog.temporal.reasoning import USUAL, TimeSettings

AUTO, TASK, EXCHANGE, JOINS = STRATEGIES = ("auto", "task", "exchange", "joins")
STRATEGY: Final = "tidelog.strategy"
SETTINGS: Final = (STRATEGY, TASK_MEMORY)  # of sessions, that say where a program runs
SMALL: Final = 128 << 20  # bytes, as many as Spark reads of a file in one task
VALUE: Final = 24  # bytes of a value, about, where rows are given
BY_JOINS: Final = "Spark joins frames, which need not fit the memory; each round of a recursion is a job"
ONE_TASK: Final = "one task derives everything: its facts have to fit the memory of a worker"
ENCRYPTED: Final = ("spark.network.crypto.enabled", "spark.ssl.enabled", "spark.ssl.rpc.enabled")
_SIZE: Final = re.compile(r"sizeInBytes=([\d.]+)(?:E\+?(\d+))? ([KMGTPE]?)i?B")
_UNITS: Final = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_UNKNOWN: Final = 1 << 60  # what Catalyst says of what it knows nothing of is more


@dataclass(frozen=True)
class Choice:
    """How many tasks derive, by which strategy, and why."""

    strategy: str = TASK
    tasks: int = 1
    reason: str = ONE_TASK
    is_small: bool = False  # one task can read the inputs, too, without an exchange

    def __str__(self) -> str:
        return f"{self.strategy}: {self.reason}"


def choose(
    program: Program,
    session: Any,
    frames: Iterable[Any],
    partitions: int | None,
    sizes: Mapping[str, int] | None,
    columns: Mapping[str, int],
    time: TimeSettings = USUAL,
) -> Choice:
    """Choose from what is asked for, the settings of the session, and how large the inputs are, about.

    `columns` has how many columns each input has; `time` is how rules over time are derived. Nothing runs.
    """
    asked = _asked(session)
    if partitions is not None and partitions < 1:
        raise ValueError(f"a program is run by one task at least, not by {partitions}")
    if partitions == 1 or (asked == TASK and partitions is None):
        return Choice()
    if asked == JOINS and partitions is None:
        _check(check_localisable, program)
        return Choice(JOINS, 0, BY_JOINS)
    if asked in (TASK, JOINS):
        raise _error(f"{STRATEGY}={asked} has no {partitions} tasks", "leave out one of the two")
    if partitions is not None or asked == EXCHANGE:
        found = partitions or _slots(session) or 2
        _check(partial(check_divisible, settings=time), program)
        _check_slots(session, found)
        why = f"`partitions={partitions}`" if partitions is not None else f"{STRATEGY}={EXCHANGE}"
        return Choice(EXCHANGE, found, f"{counted(found, 'task')} of a barrier stage exchange facts: {why}")
    return _by_size(program, session, _bytes(frames, sizes, columns), time)


def check_one_task(session: Any, what: str) -> None:
    """Raise if the session asks for another strategy than one task, where there is no other."""
    asked = _asked(session)
    if asked in (EXCHANGE, JOINS):
        help = (
            f"set {STRATEGY} to `{AUTO}` or `{TASK}`; or derive the predicates that it asks for, "
            "by `derive(…, outputs=…)`, and filter their frames"
        )
        raise _error(f"{what} runs in one task, but {STRATEGY}={asked}", help)


def _asked(session: Any) -> str:
    """Return the strategy that the session asks for."""
    asked = _setting(session, STRATEGY, AUTO)
    if asked not in STRATEGIES:
        raise _error(f"there is no strategy `{asked}`", f"{STRATEGY} is one of {', '.join(STRATEGIES)}")
    return asked


def _by_size(program: Program, session: Any, size: int | None, time: TimeSettings) -> Choice:
    """Choose as few tasks as take inputs of so many bytes."""
    allowed = budget(partial(_setting, session))
    need = int(PER_BYTE * (size or 0))
    tasks = allowed.tasks_for(need)
    told = f"inputs of about {size or 0:,} bytes, which take about {shown(need)} in one task; {allowed.told}"
    if tasks == 1:
        reason = ONE_TASK if size is None else f"{ONE_TASK}. It has {told}"
        return Choice(reason=reason, is_small=size is not None and size <= SMALL)
    try:
        _check(partial(check_divisible, settings=time), program)
    except ProgramError as error:
        reason = error.diagnostics[0].message
        return Choice(reason=f"{ONE_TASK}. It has {told}, but {reason}")
    try:
        if tasks is None:
            raise _error("tasks of one machine share its memory", "")
        _check_slots(session, tasks)
    except ProgramError as error:
        reason = error.diagnostics[0].message
        if has_equality(program.predicates) or program.timed:
            unknown = "times" if program.timed else "equality"
            return Choice(reason=f"{ONE_TASK}. It has {told}, but {reason}, and joins know no {unknown}")
        return Choice(JOINS, 0, f"{BY_JOINS}. It has {told}, but {reason}")
    return Choice(EXCHANGE, tasks, f"{counted(tasks, 'task')} of a barrier stage exchange facts: {told}")


def _check(check: Callable[[Program], None], program: Program) -> None:
    """Raise why a program cannot be divided among tasks, or derived by joins."""
    try:
        check(program)
    except NotLocalisable as reason:
        span = None if reason.rule is None else reason.rule.span
        raise ProgramError(Diagnostic(codes.STRATEGY, str(reason), span, "leave it to one task")) from None


def _check_slots(session: Any, tasks: int) -> None:
    """Raise why so many tasks cannot run at once."""
    if _setting(session, "spark.dynamicAllocation.enabled", "false") == "true":
        message = "tasks that exchange facts run all at once, for which dynamic allocation has no executors"
        raise _error(message, "set spark.dynamicAllocation.enabled=false, or leave out `partitions`")
    slots = _slots(session)
    if slots is not None and tasks > slots:
        message = f"{counted(tasks, 'task')} cannot run at once: there are {counted(slots, 'slot')}"
        raise _error(
            message, "give Spark more cores (spark.executor.instances, spark.cores.max), or fewer tasks"
        )


def limit_of(session: Any, program: Program, tasks: int) -> Limit:
    """Return what each of so many tasks may take, and what an error says that it does not suffice."""
    allowed = budget(partial(_setting, session))
    undivided = ""
    try:
        check_divisible(program)
    except NotLocalisable as reason:
        undivided = f"the program runs in one task, since {reason}"
    return Limit(allowed.limit, allowed.told, tasks, _slots(session), undivided)


def is_encrypted(session: Any) -> bool:
    """Whether Spark encrypts what its processes send."""
    return any(_setting(session, key, "false") == "true" for key in ENCRYPTED)


def _slots(session: Any) -> int | None:
    """Return how many tasks can run at once; None where that is not known, as on clusters by Connect."""
    if session is None:
        return None
    local = re.fullmatch(r"local\[(\d+)[,\]].*|local\[(\d+)\]", _setting(session, "spark.master", ""))
    if local is not None:
        return int(local[1] or local[2])
    if type(session).__module__.startswith("pyspark.sql.connect"):
        return None
    return int(session.sparkContext.defaultParallelism)


def _setting(session: Any, key: str, otherwise: str) -> str:
    return otherwise if session is None else str(session.conf.get(key, otherwise))


def _bytes(frames: Iterable[Any], sizes: Mapping[str, int] | None, columns: Mapping[str, int]) -> int | None:
    """Return the size of inputs: of so many rows, else as Catalyst estimates it; None if nobody knows."""
    if sizes is not None:
        return sum(rows * columns.get(name, 1) * VALUE for name, rows in sizes.items())
    found = [estimate(frame) for frame in frames]
    known = [size for size in found if size is not None]
    return sum(known) if len(known) == len(found) else None


def estimate(frame: Any) -> int | None:
    """Return how many bytes Catalyst takes a frame to have; None if it does not know."""
    with redirect_stdout(io.StringIO()) as printed:
        frame.explain(mode="cost")
    return bytes_in(printed.getvalue())


def bytes_in(text: str) -> int | None:
    """Return the size that a plan with costs says first.

    >>> bytes_in("Relation [a] parquet, Statistics(sizeInBytes=1.5 KiB, rowCount=3)"), bytes_in("8.0 EiB")
    (1536, None)
    """
    found = _SIZE.search(text)
    if found is None:
        return None
    size = int(float(found[1]) * 10 ** int(found[2] or 0) * (1 << _UNITS[found[3]]))
    return size if size < _UNKNOWN else None


def _error(message: str, help: str) -> ProgramError:
    return ProgramError(Diagnostic(codes.STRATEGY, message, help=help))
