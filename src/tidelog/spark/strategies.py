"""Where a program runs, and why: one task, several that exchange facts, or joins. Imports no Spark.

`choose` decides on the driver, by the arguments, the settings of the session and the size of the inputs
(`budget` is the memory of a task). In the task, `MemoryLimit.within` limits the memory, and raises an error
with the number of tasks that would suffice; `MemoryWatch` measures. Sizes are bytes of the anonymous memory
of a Python worker, in which a task runs.
"""

from __future__ import annotations

import io
import math
import re
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final, TypeVar

from tidelog.data.memory import REFUSAL, available_bytes
from tidelog.errors import Diagnostic, ProgramError, Stopped, codes, counted
from tidelog.errors.codes import OUT_OF_MEMORY
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import Program
from tidelog.records import dataclass
from tidelog.rewrite.localise import NotLocalisable, check_localisable
from tidelog.temporal.partitioning import check_divisible
from tidelog.temporal.temporal import USUAL, TimeSettings

TASK_MEMORY: Final = "tidelog.taskMemory"
PYSPARK: Final = "spark.executor.pyspark.memory"
OVERHEAD: Final = "spark.executor.memoryOverhead"
FACTOR: Final = "spark.executor.memoryOverheadFactor"
LEAST: Final = "spark.executor.minMemoryOverhead"
HEAP: Final = "spark.executor.memory"
FACTORS: Final = {"yarn": "0.1", "k8s": "0.4"}  # of the heap; Kubernetes gives Python programs this much
MOST: Final = 0.8  # of memory that Python shares with the JVM of a container, or all on a machine
ASSUMED: Final = 4 << 30  # bytes of a task, without a setting and on another machine
# Bytes of memory of a task for each byte of its inputs: measured, see docs/spark-at-scale.md.
PER_BYTE: Final = 8.0
NEAR: Final = 0.9  # of the memory that a task may take: at this fraction it fails
PERIOD: Final = 0.01  # seconds between two checks of the memory that is used
MARGIN: Final = 32 << 20  # below a limit of Spark's own, so that an error can be reported
_SIZE: Final = re.compile(r"(\d+)([bkmgt]?)b?")
_UNITS: Final = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_DIVIDED: Final = 8  # tasks up to which the memory of each was measured to fall with their square root

Item = TypeVar("Item")
Setting = Callable[[str, str], str]  # the value of a key, or a default


@dataclass(frozen=True)
class MemoryBudget:
    """The memory that a task may take, and the setting it is from; `limit` is None without a setting."""

    size: int
    source: str
    limit: int | None = None
    is_shared: bool = False  # by all tasks, which run on one machine

    def tasks_for(self, need: int) -> int | None:
        """Return the least number of tasks for what needs `need` bytes in one; None if none suffices."""
        if need <= self.size:
            return 1
        return None if self.is_shared else divided_by(need / self.size)


def divided_by(ratio: float) -> int:
    """Return how many tasks are needed for each to take 1/`ratio` of the memory of one task.

    Measured: with P tasks each takes 1/√P of one up to 8 tasks, since several tasks hold the same values;
    beyond that it is assumed to fall with P.

    >>> [divided_by(ratio) for ratio in (1.0, 1.2, 2.0, 2.8, 10.0)]
    [1, 2, 4, 8, 29]
    """
    root = math.sqrt(_DIVIDED)
    return math.ceil(ratio**2) if ratio <= root else math.ceil(root * ratio)


def _ratio(tasks: int) -> float:
    """Return the measured ratio of the memory of one task to that of each of several."""
    return math.sqrt(tasks) if tasks <= _DIVIDED else tasks / math.sqrt(_DIVIDED)


def budget(setting: Setting) -> MemoryBudget:
    """Return the memory that each task may take by the settings of a session."""
    requested = _bytes(setting, TASK_MEMORY, "")
    if requested is not None:
        return MemoryBudget(requested, f"{format_size(requested)} for each task ({TASK_MEMORY})", requested)
    master = setting("spark.master", "")
    local = re.match(r"local(?:\[(\d+|\*))?", master)
    for key, size, share in (
        (PYSPARK, _bytes(setting, PYSPARK, ""), 1.0),
        (OVERHEAD, _overhead(setting, master), MOST),
    ):
        if size is not None and not local:
            slots = max(int(setting("spark.executor.cores", "1")) // int(setting("spark.task.cpus", "1")), 1)
            per_task = int(size * share) // slots
            part = f"{share:.0%} of " if share < 1 else ""
            origin = f"{part}{key}, {format_size(size)}, for {counted(slots, 'slot')}"
            source = f"{format_size(per_task)} for each task ({origin})"
            return MemoryBudget(per_task, source, per_task)
    free = available_bytes() if local else None
    if free is not None:
        size = int(MOST * free)
        source = f"{format_size(size)} for all tasks ({MOST:.0%} of what this machine has left)"
        return MemoryBudget(size, source, is_shared=True)
    source = (
        f"{format_size(ASSUMED)} for each task, which is assumed: set {TASK_MEMORY}, {PYSPARK} or {OVERHEAD}"
    )
    return MemoryBudget(ASSUMED, source)


def _overhead(setting: Setting, master: str) -> int | None:
    """Return the memory of a container outside of the heap; None by default outside of containers."""
    overhead = _bytes(setting, OVERHEAD, "", unit="m")
    factor = FACTORS.get(master.partition(":")[0])
    if overhead is not None or factor is None:
        return overhead
    heap, least = _bytes(setting, HEAP, "1g"), _bytes(setting, LEAST, "384m")
    assert heap is not None and least is not None
    return max(int(float(setting(FACTOR, factor)) * heap), least)


def _bytes(setting: Setting, key: str, default: str, unit: str = "") -> int | None:
    """Return a size such as `512m`; a number alone is in `unit`, as in Spark."""
    text = setting(key, default).strip().lower()
    if not text:
        return None
    match = _SIZE.fullmatch(text)
    if match is None:
        message = f"`{key}` is {text!r}, which is not a size"
        raise ProgramError(Diagnostic(codes.STRATEGY, message, help="write it as `512m` or `4g`"))
    return int(match[1]) << _UNITS[match[2] or unit]


def format_size(size: float) -> str:
    """Format a size for people.

    >>> format_size(1_600_000_000), format_size(52_428_800)
    ('1.6 GB', '52 MB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


class MemoryWatch:
    """Limits the memory that this process uses to a number of bytes. Mutable.

    The system limits the mapped memory, which may be much more than the used memory: allocators and tables
    reserve memory that they never touch. So a thread measures the used memory repeatedly, and allows as much
    more to be mapped as is free. Hash tables, which may reserve much at once, have it measured again when a
    reservation is refused.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._limits = resource.getrlimit(resource.RLIMIT_DATA)
        self._lock = Lock()
        self._is_on = False
        self._has_ended = Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """In the block, measure the memory repeatedly while the limit is on."""
        thread = Thread(target=self._keep_looking, daemon=True)
        before = REFUSAL.answer
        REFUSAL.answer = self._look
        thread.start()
        try:
            yield
        finally:
            REFUSAL.answer = before
            self._has_ended.set()
            thread.join()

    @contextmanager
    def switched(self, is_on: bool) -> Iterator[None]:
        """In the block, switch the limit on or off."""
        before = self._is_on
        self._switch(is_on)
        try:
            yield
        finally:
            self._switch(before)

    def check(self) -> None:
        """Raise if too much is used: Arrow may use memory that it has reserved without mapping more."""
        if _memory_use()[1] > self.size:
            raise MemoryError

    def _switch(self, is_on: bool) -> None:
        with self._lock:
            self._is_on = is_on
            if is_on:
                self._allow()
            else:
                resource.setrlimit(resource.RLIMIT_DATA, self._limits)

    def _keep_looking(self) -> None:
        while not self._has_ended.wait(PERIOD):
            self._look()

    def _look(self) -> None:
        with self._lock:
            if self._is_on:
                self._allow()

    def _allow(self) -> None:
        address_space, used, mapped = _memory_use()
        allowed = mapped + max(self.size - used, 0)
        space, _ = resource.getrlimit(resource.RLIMIT_AS)  # set by Spark for spark.executor.pyspark.memory
        if space != resource.RLIM_INFINITY:
            allowed = min(allowed, mapped + max(space - address_space - MARGIN, 0))
        hard = self._limits[1]
        if hard != resource.RLIM_INFINITY:
            allowed = min(allowed, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))


def _memory_use() -> tuple[int, int, int]:
    """Return the bytes of this process's address space, of its anonymous memory, and of its mapped data."""
    pages = [int(word) for word in Path("/proc/self/statm").read_text(encoding="ascii").split()]
    address_space, resident, shared, _, _, mapped, _ = (count * resource.getpagesize() for count in pages)
    return address_space, resident - shared, mapped


class MeteredBatches(Iterable[Any]):
    """Batches that a task reads, with a count of their rows and bytes. Mutable.

    `rows_of` returns how many rows of a batch to count.
    """

    def __init__(self, batches: Iterable[Any], rows_of: Callable[[Any], int] = len) -> None:
        self.rows = self.bytes = 0
        self._rows_of = rows_of
        self.watch: MemoryWatch | None = None
        self._batches = iter(batches)

    def __iter__(self) -> Iterator[Any]:
        while (batch := self._next()) is not None:
            self.rows += self._rows_of(batch)
            self.bytes += batch.nbytes
            yield batch

    def _next(self) -> Any:
        """Return the next batch, without the limit: Spark could not continue after an error in its code."""
        if self.watch is None:
            return next(self._batches, None)
        self.watch.check()
        with self.watch.switched(False):
            return next(self._batches, None)


@dataclass(frozen=True)
class MemoryLimit:
    """The memory that a task may take, and the advice if it does not suffice; sent to workers."""

    size: int | None = None  # None: most of the available memory of its machine
    source: str = ""  # the setting that limits it, for messages
    tasks: int = 1
    slots: int | None = None  # how many tasks can run at once, if that is known
    undivided: str = ""  # why more tasks do not help, if so

    def within(self, items: Iterator[Item], metered: MeteredBatches, tasks_here: int = 1) -> Iterator[Item]:
        """Yield items, and raise if computing one takes more memory, before the system kills the task.

        The consumer of an item is not limited. `tasks_here` is the number of such tasks on the machine.
        """
        watch = metered.watch = MemoryWatch(int(NEAR * self._size(tasks_here)))
        with watch.running():
            while True:
                try:
                    with watch.switched(True):
                        item = next(items, None)
                    watch.check()
                except (MemoryError, Stopped) as error:
                    if isinstance(error, Stopped) and error.diagnostics[0].code != OUT_OF_MEMORY:
                        raise
                    is_own = isinstance(error, MemoryError) or isinstance(error.__context__, MemoryError)
                    progress = _progress(error)
                    error.__traceback__ = error.__context__ = None  # they refer to what takes the memory
                    fault = self._fault(self._size(tasks_here), progress, metered, is_own)
                else:
                    if item is None:
                        return
                    yield item
                    continue
                raise Stopped(fault)

    def _size(self, tasks_here: int) -> int:
        if self.size is not None:
            return self.size
        free = available_bytes()
        return int(MOST * free / tasks_here) if free is not None else ASSUMED

    def _fault(self, size: int, progress: str, metered: MeteredBatches, is_own: bool) -> Diagnostic:
        """Return the error, with the progress and the number of tasks that would suffice."""
        rows, size_read, ratio = metered.rows, metered.bytes, 1.0
        metered.watch = None
        if rows:
            for _ in metered:  # only count the other rows
                pass
        if is_own and rows < metered.rows:
            ratio = 2 * metered.rows / rows  # derived facts take about as much again
            count = f"read {rows:,} of {metered.rows:,} rows ({size_read:,} of {metered.bytes:,} bytes)"
        else:
            count = f"read {metered.rows:,} rows ({metered.bytes:,} bytes)"
        whose = "a task" if self.tasks == 1 else f"one of {self.tasks} tasks"
        state = f"it had {count}" if is_own else f"this task had {count}, another one failed"
        message = f"the facts of {whose} do not fit in {format_size(size)}: {state}{progress}"
        tasks = max(divided_by(ratio * _ratio(self.tasks)), 2 * self.tasks)
        return Diagnostic(codes.NO_MEMORY, message, help=self._advice(tasks if metered.rows else 0))

    def _advice(self, tasks: int) -> str:
        """Return the advice: this number of tasks or, if it is zero, more memory for each."""
        more = f"give each task more memory, by `{TASK_MEMORY}`"
        if self.source:
            more = f"{more}, which is now {self.source}"
        if not tasks:
            return f"{more}: Python and tidelog alone take about 100 MB"
        if self.undivided:
            return f"{more}: {self.undivided}"
        if self.slots is not None and tasks > self.slots:
            slots = counted(self.slots, "slot")
            least = f"`partitions={tasks}` would be needed, at least, but there are {slots}"
            joins = "set `tidelog.strategy=joins`, which keeps facts on disk"
            return f"{least}: add executors; or {more}; or {joins}"
        return f"set `partitions={tasks}`, at least; or {more}"


def _progress(error: MemoryError | Stopped) -> str:
    """Return the progress of the engine, if the error has it."""
    if isinstance(error, MemoryError):
        return ""
    parts = error.diagnostics[0].message.split("; ")
    return "".join(f"; {part}" for part in parts if part.startswith("it reached"))


AUTO, TASK, EXCHANGE, JOINS = STRATEGIES = ("auto", "task", "exchange", "joins")
STRATEGY: Final = "tidelog.strategy"
SETTINGS: Final = (STRATEGY, TASK_MEMORY)  # of sessions, on which the choice depends
SMALL: Final = 128 << 20  # bytes, as many as Spark reads of a file in one task
VALUE: Final = 24  # estimated bytes of a value, for sizes in rows
BY_JOINS: Final = "Spark joins frames, which need not fit in memory; each round of a recursion is a job"
ONE_TASK: Final = "one task derives everything: its facts have to fit in the memory of a worker"
ENCRYPTED: Final = ("spark.network.crypto.enabled", "spark.ssl.enabled", "spark.ssl.rpc.enabled")
_DATA_SIZE: Final = re.compile(r"sizeInBytes=([\d.]+)(?:E\+?(\d+))? ([KMGTPE]?)i?B")
_DATA_UNITS: Final = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_UNKNOWN: Final = 1 << 60  # Catalyst returns more than this for unknown sizes


@dataclass(frozen=True)
class StrategyChoice:
    """How many tasks derive, by which strategy, and why."""

    strategy: str = TASK
    tasks: int = 1
    reason: str = ONE_TASK
    is_small: bool = False  # one task can also read the inputs, without a shuffle

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
) -> StrategyChoice:
    """Choose by the arguments, the settings of the session, and the estimated size of the inputs.

    `columns` is the number of columns of each input; `time` has the settings for rules over time.
    """
    requested = _requested(session)
    if partitions is not None and partitions < 1:
        raise ValueError(f"a program is run by one task at least, not by {partitions}")
    if partitions == 1 or (requested == TASK and partitions is None):
        return StrategyChoice()
    if requested == JOINS and partitions is None:
        _check(check_localisable, program)
        return StrategyChoice(JOINS, 0, BY_JOINS)
    if requested in (TASK, JOINS):
        raise _error(f"{STRATEGY}={requested} has no {partitions} tasks", "leave out one of the two")
    if partitions is not None or requested == EXCHANGE:
        tasks = partitions or _slots(session) or 2
        _check(partial(check_divisible, settings=time), program)
        _check_slots(session, tasks)
        cause = f"`partitions={partitions}`" if partitions is not None else f"{STRATEGY}={EXCHANGE}"
        return StrategyChoice(
            EXCHANGE, tasks, f"{counted(tasks, 'task')} of a barrier stage exchange facts: {cause}"
        )
    return _by_size(program, session, _data_bytes(frames, sizes, columns), time)


def check_one_task(session: Any, what: str) -> None:
    """Raise if the session asks for another strategy than one task, for `what` can only run in one."""
    requested = _requested(session)
    if requested in (EXCHANGE, JOINS):
        help = (
            f"set {STRATEGY} to `{AUTO}` or `{TASK}`; or derive the predicates that it asks for, "
            "by `derive(…, outputs=…)`, and filter their frames"
        )
        raise _error(f"{what} runs in one task, but {STRATEGY}={requested}", help)


def _requested(session: Any) -> str:
    """Return the strategy that the session asks for."""
    requested = _setting(session, STRATEGY, AUTO)
    if requested not in STRATEGIES:
        raise _error(f"unknown strategy `{requested}`", f"{STRATEGY} is one of {', '.join(STRATEGIES)}")
    return requested


def _by_size(program: Program, session: Any, size: int | None, time: TimeSettings) -> StrategyChoice:
    """Choose the least number of tasks whose memory suffices for the inputs."""
    available = budget(partial(_setting, session))
    need = int(PER_BYTE * (size or 0))
    tasks = available.tasks_for(need)
    estimate = (
        f"inputs of about {size or 0:,} bytes, which take about {format_size(need)} in one task; "
        f"{available.source}"
    )
    if tasks == 1:
        reason = ONE_TASK if size is None else f"{ONE_TASK}. It has {estimate}"
        return StrategyChoice(reason=reason, is_small=size is not None and size <= SMALL)
    try:
        _check(partial(check_divisible, settings=time), program)
    except ProgramError as error:
        reason = error.diagnostics[0].message
        return StrategyChoice(reason=f"{ONE_TASK}. It has {estimate}, but {reason}")
    try:
        if tasks is None:
            raise _error("tasks of one machine share its memory", "")
        _check_slots(session, tasks)
    except ProgramError as error:
        reason = error.diagnostics[0].message
        if has_equality(program.predicates) or program.timed:
            unknown = "times" if program.timed else "equality"
            return StrategyChoice(
                reason=f"{ONE_TASK}. It has {estimate}, but {reason}, and joins know no {unknown}"
            )
        return StrategyChoice(JOINS, 0, f"{BY_JOINS}. It has {estimate}, but {reason}")
    return StrategyChoice(
        EXCHANGE, tasks, f"{counted(tasks, 'task')} of a barrier stage exchange facts: {estimate}"
    )


def _check(check: Callable[[Program], None], program: Program) -> None:
    """Raise an error if a program cannot be divided among tasks, or derived by joins."""
    try:
        check(program)
    except NotLocalisable as reason:
        span = None if reason.rule is None else reason.rule.span
        raise ProgramError(Diagnostic(codes.STRATEGY, str(reason), span, "leave it to one task")) from None


def _check_slots(session: Any, tasks: int) -> None:
    """Raise an error if this number of tasks cannot run at once."""
    if _setting(session, "spark.dynamicAllocation.enabled", "false") == "true":
        message = "tasks that exchange facts run all at once, for which dynamic allocation has no executors"
        raise _error(message, "set spark.dynamicAllocation.enabled=false, or leave out `partitions`")
    slots = _slots(session)
    if slots is not None and tasks > slots:
        message = f"{counted(tasks, 'task')} cannot run at once: there are {counted(slots, 'slot')}"
        raise _error(
            message, "give Spark more cores (spark.executor.instances, spark.cores.max), or fewer tasks"
        )


def limit_of(session: Any, program: Program, tasks: int) -> MemoryLimit:
    """Return the limit on the memory of each of these tasks."""
    available = budget(partial(_setting, session))
    undivided = ""
    try:
        check_divisible(program)
    except NotLocalisable as reason:
        undivided = f"the program runs in one task, since {reason}"
    return MemoryLimit(available.limit, available.source, tasks, _slots(session), undivided)


def is_encrypted(session: Any) -> bool:
    """Whether Spark encrypts the traffic of its processes."""
    return any(_setting(session, key, "false") == "true" for key in ENCRYPTED)


def _slots(session: Any) -> int | None:
    """Return how many tasks can run at once; None if unknown, as on Connect."""
    if session is None:
        return None
    local = re.fullmatch(r"local\[(\d+)[,\]].*|local\[(\d+)\]", _setting(session, "spark.master", ""))
    if local is not None:
        return int(local[1] or local[2])
    if type(session).__module__.startswith("pyspark.sql.connect"):
        return None
    return int(session.sparkContext.defaultParallelism)


def _setting(session: Any, key: str, default: str) -> str:
    return default if session is None else str(session.conf.get(key, default))


def _data_bytes(
    frames: Iterable[Any], sizes: Mapping[str, int] | None, columns: Mapping[str, int]
) -> int | None:
    """Return the size of inputs: by `sizes` in rows, else as Catalyst estimates it; None if unknown."""
    if sizes is not None:
        return sum(rows * columns.get(name, 1) * VALUE for name, rows in sizes.items())
    estimates = [estimate(frame) for frame in frames]
    sizes_known = [size for size in estimates if size is not None]
    return sum(sizes_known) if len(sizes_known) == len(estimates) else None


def estimate(frame: Any) -> int | None:
    """Return the bytes of a frame as Catalyst estimates them; None if it does not know."""
    with redirect_stdout(io.StringIO()) as printed:
        frame.explain(mode="cost")
    return bytes_in(printed.getvalue())


def bytes_in(text: str) -> int | None:
    """Return the first size in a plan with costs.

    >>> bytes_in("Relation [a] parquet, Statistics(sizeInBytes=1.5 KiB, rowCount=3)"), bytes_in("8.0 EiB")
    (1536, None)
    """
    match = _DATA_SIZE.search(text)
    if match is None:
        return None
    size = int(float(match[1]) * 10 ** int(match[2] or 0) * (1 << _DATA_UNITS[match[3]]))
    return size if size < _UNKNOWN else None


def _error(message: str, help: str) -> ProgramError:
    return ProgramError(Diagnostic(codes.STRATEGY, message, help=help))
