"""Where a program runs, and why: one task, several that exchange facts, or joins. Imports no Spark.

`choose` decides on the driver, from what is requested, the settings of the session and the size of the inputs
(`budget` is the memory of a task). `MemoryLimit.within` sees to it in the task that it takes no more, and
says otherwise how many tasks would do; `MemoryWatch` measures. Sizes are bytes of the anonymous memory of a
Python worker, in which a task runs.
"""

from __future__ import annotations

import io
import math
import re
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final, TypeVar

from tidelog.data.memory import REFUSAL, available_bytes
from tidelog.errors import Diagnostic, ProgramError, Stopped, codes, counted
from tidelog.errors.codes import OUT_OF_MEMORY
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import Program
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
MOST: Final = 0.8  # of what Python shares with others: with the JVM in a container, with all on a machine
ASSUMED: Final = 4 << 30  # of a task, where no setting says anything and its machine is not this one
# Bytes that a task takes for each byte of its inputs: measured, see docs/spark-at-scale.md.
PER_BYTE: Final = 8.0
NEAR: Final = 0.9  # of the memory that a task may take: it ends before it has all of it
PERIOD: Final = 0.01  # seconds between two checks of the memory that is used
MARGIN: Final = 32 << 20  # that is left below a limit of Spark's own, so that an error can be reported
_SIZE: Final = re.compile(r"(\d+)([bkmgt]?)b?")
_UNITS: Final = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_DIVIDED: Final = 8  # tasks up to which the memory of each was measured to fall with their square root

Item = TypeVar("Item")
Setting = Callable[[str, str], str]  # the value of a key, or a default


@dataclass(frozen=True)
class MemoryBudget:
    """What a task may take, and what says so; `limit` is None if only its machine limits it."""

    size: int
    source: str
    limit: int | None = None
    is_shared: bool = False  # by all tasks: there is one machine

    def tasks_for(self, need: int) -> int | None:
        """Return how few tasks can take what needs `need` bytes in one; None if no number of them can."""
        if need <= self.size:
            return 1
        return None if self.is_shared else divided_by(need / self.size)


def divided_by(ratio: float) -> int:
    """Return how many tasks are needed for each to take this part of what one would take.

    Measured: with P tasks each takes 1/√P of one up to 8 tasks, since values are known to several tasks;
    beyond that it is taken to fall with P.

    >>> [divided_by(ratio) for ratio in (1.0, 1.2, 2.0, 2.8, 10.0)]
    [1, 2, 4, 8, 29]
    """
    root = math.sqrt(_DIVIDED)
    return math.ceil(ratio**2) if ratio <= root else math.ceil(root * ratio)


def _ratio(tasks: int) -> float:
    """Return what one task takes against each of several, as it was measured."""
    return math.sqrt(tasks) if tasks <= _DIVIDED else tasks / math.sqrt(_DIVIDED)


def budget(setting: Setting) -> MemoryBudget:
    """Return what the settings of a session say that each task may take."""
    requested = _bytes(setting, TASK_MEMORY, "")
    if requested is not None:
        return MemoryBudget(requested, f"{shown(requested)} for each task ({TASK_MEMORY})", requested)
    master = setting("spark.master", "")
    local = re.match(r"local(?:\[(\d+|\*))?", master)
    for key, size, share in (
        (PYSPARK, _bytes(setting, PYSPARK, ""), 1.0),
        (OVERHEAD, _overhead(setting, master), MOST),
    ):
        if size is not None and not local:
            slots = max(int(setting("spark.executor.cores", "1")) // int(setting("spark.task.cpus", "1")), 1)
            each = int(size * share) // slots
            part = f"{share:.0%} of " if share < 1 else ""
            told = f"{shown(each)} for each task ({part}{key}, {shown(size)}, for {counted(slots, 'slot')})"
            return MemoryBudget(each, told, each)
    free = available_bytes() if local else None
    if free is not None:
        size = int(MOST * free)
        told = f"{shown(size)} for all tasks ({MOST:.0%} of what this machine has left)"
        return MemoryBudget(size, told, is_shared=True)
    told = f"{shown(ASSUMED)} for each task, which is assumed: set {TASK_MEMORY}, {PYSPARK} or {OVERHEAD}"
    return MemoryBudget(ASSUMED, told)


def _overhead(setting: Setting, master: str) -> int | None:
    """Return what a container has besides the heap; outside of containers nothing is set aside by default."""
    known = _bytes(setting, OVERHEAD, "", unit="m")
    factor = FACTORS.get(master.partition(":")[0])
    if known is not None or factor is None:
        return known
    heap, least = _bytes(setting, HEAP, "1g"), _bytes(setting, LEAST, "384m")
    assert heap is not None and least is not None
    return max(int(float(setting(FACTOR, factor)) * heap), least)


def _bytes(setting: Setting, key: str, otherwise: str, unit: str = "") -> int | None:
    """Return a size such as `512m`; a number alone is in the unit that Spark takes it in."""
    text = setting(key, otherwise).strip().lower()
    if not text:
        return None
    found = _SIZE.fullmatch(text)
    if found is None:
        message = f"`{key}` is {text!r}, which is not a size"
        raise ProgramError(Diagnostic(codes.STRATEGY, message, help="write it as `512m` or `4g`"))
    return int(found[1]) << _UNITS[found[2] or unit]


def shown(size: float) -> str:
    """Return a size as people read it.

    >>> shown(1_600_000_000), shown(52_428_800)
    ('1.6 GB', '52 MB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


class MemoryWatch:
    """Limits what this process maps, again and again, so that it takes no more than so many bytes. Mutable.

    The system limits what is mapped, which may be much more than what is used: allocators and tables reserve
    memory that they never touch. So a thread checks what is used, and allows as much more as is free.
    Tables, which may reserve much in a moment, have that checked when they are refused.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._limits = resource.getrlimit(resource.RLIMIT_DATA)
        self._lock = Lock()
        self._is_on = False
        self._has_ended = Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """In the block, check what is used while the limit is on."""
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
        """In the block, the limit is on, or off."""
        before = self._is_on
        self._switch(is_on)
        try:
            yield
        finally:
            self._switch(before)

    def check(self) -> None:
        """Raise if too much is used: what Arrow has reserved it may use without mapping more."""
        if _held()[1] > self.size:
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
        whole, used, mapped = _held()
        allowed = mapped + max(self.size - used, 0)
        space, _ = resource.getrlimit(resource.RLIMIT_AS)  # set by Spark for spark.executor.pyspark.memory
        if space != resource.RLIM_INFINITY:
            allowed = min(allowed, mapped + max(space - whole - MARGIN, 0))
        hard = self._limits[1]
        if hard != resource.RLIM_INFINITY:
            allowed = min(allowed, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))


def _held() -> tuple[int, int, int]:
    """Return the bytes of this process's address space, of its anonymous memory, and of what it mapped."""
    pages = [int(word) for word in Path("/proc/self/statm").read_text(encoding="ascii").split()]
    whole, resident, shared, _, _, mapped, _ = (count * resource.getpagesize() for count in pages)
    return whole, resident - shared, mapped


class MeteredBatches(Iterable[Any]):
    """Batches that a task reads, with a count of their rows and bytes. Mutable.

    `rows_of` says how many rows of a batch count.
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
        """Return the next batch. That is not limited, for Spark could not go on after an error of its own."""
        if self.watch is None:
            return next(self._batches, None)
        self.watch.check()
        with self.watch.switched(False):
            return next(self._batches, None)


@dataclass(frozen=True)
class MemoryLimit:
    """What a task may take, and what its error says if that does not suffice; sent to workers."""

    size: int | None = None  # else most of what its machine has left
    source: str = ""  # what says so
    tasks: int = 1
    slots: int | None = None  # how many tasks can run at once, if that is known
    undivided: str = ""  # why more tasks do not help, if so

    def within(self, items: Iterator[Item], read: MeteredBatches, beside: int = 1) -> Iterator[Item]:
        """Yield items, and raise where computing one takes more memory, before the system ends the task.

        What is done with an item is not limited. `beside` is how many such tasks run on the machine.
        """
        watch = read.watch = MemoryWatch(int(NEAR * self._size(beside)))
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
                    error.__traceback__ = error.__context__ = None  # they hold what takes the memory
                    fault = self._fault(self._size(beside), progress, read, is_own)
                else:
                    if item is None:
                        return
                    yield item
                    continue
                raise Stopped(fault)

    def _size(self, beside: int) -> int:
        if self.size is not None:
            return self.size
        free = available_bytes()
        return int(MOST * free / beside) if free is not None else ASSUMED

    def _fault(self, size: int, progress: str, read: MeteredBatches, is_own: bool) -> Diagnostic:
        """Return the error: what was read and derived, and how many tasks would do."""
        rows, size_read, ratio = read.rows, read.bytes, 1.0
        read.watch = None
        if rows:
            for _ in read:  # what is left is only counted, to know how much there is
                pass
        if is_own and rows < read.rows:
            ratio = 2 * read.rows / rows  # what is derived takes about as much again
            found = f"read {rows:,} of {read.rows:,} rows ({size_read:,} of {read.bytes:,} bytes)"
        else:
            found = f"read {read.rows:,} rows ({read.bytes:,} bytes)"
        whose = "a task" if self.tasks == 1 else f"one of {self.tasks} tasks"
        told = f"it had {found}" if is_own else f"this task had {found}, another one failed"
        message = f"the facts of {whose} do not fit in {shown(size)}: {told}{progress}"
        wanted = max(divided_by(ratio * _ratio(self.tasks)), 2 * self.tasks)
        return Diagnostic(codes.NO_MEMORY, message, help=self._advice(wanted if read.rows else 0))

    def _advice(self, tasks: int) -> str:
        """Return what to do, with a number of tasks or, if these are none, without dividing the facts."""
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
    """Return how far the engine got, if it says so."""
    if isinstance(error, MemoryError):
        return ""
    said = error.diagnostics[0].message.split("; ")
    return "".join(f"; {each}" for each in said if each.startswith("it reached"))


AUTO, TASK, EXCHANGE, JOINS = STRATEGIES = ("auto", "task", "exchange", "joins")
STRATEGY: Final = "tidelog.strategy"
SETTINGS: Final = (STRATEGY, TASK_MEMORY)  # of sessions, that say where a program runs
SMALL: Final = 128 << 20  # bytes, as many as Spark reads of a file in one task
VALUE: Final = 24  # bytes of a value, about, where rows are given
BY_JOINS: Final = "Spark joins frames, which need not fit in memory; each round of a recursion is a job"
ONE_TASK: Final = "one task derives everything: its facts have to fit in the memory of a worker"
ENCRYPTED: Final = ("spark.network.crypto.enabled", "spark.ssl.enabled", "spark.ssl.rpc.enabled")
_DATA_SIZE: Final = re.compile(r"sizeInBytes=([\d.]+)(?:E\+?(\d+))? ([KMGTPE]?)i?B")
_DATA_UNITS: Final = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_UNKNOWN: Final = 1 << 60  # what Catalyst says of what it knows nothing of is more


@dataclass(frozen=True)
class StrategyChoice:
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
) -> StrategyChoice:
    """Choose from what is requested, the settings of the session, and how large the inputs are, about.

    `columns` has how many columns each input has; `time` is how rules over time are derived. Nothing runs.
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
        found = partitions or _slots(session) or 2
        _check(partial(check_divisible, settings=time), program)
        _check_slots(session, found)
        why = f"`partitions={partitions}`" if partitions is not None else f"{STRATEGY}={EXCHANGE}"
        return StrategyChoice(
            EXCHANGE, found, f"{counted(found, 'task')} of a barrier stage exchange facts: {why}"
        )
    return _by_size(program, session, _data_bytes(frames, sizes, columns), time)


def check_one_task(session: Any, what: str) -> None:
    """Raise if the session asks for another strategy than one task, where there is no other."""
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
    """Choose as few tasks as can take the inputs."""
    allowed = budget(partial(_setting, session))
    need = int(PER_BYTE * (size or 0))
    tasks = allowed.tasks_for(need)
    told = (
        f"inputs of about {size or 0:,} bytes, which take about {shown(need)} in one task; {allowed.source}"
    )
    if tasks == 1:
        reason = ONE_TASK if size is None else f"{ONE_TASK}. It has {told}"
        return StrategyChoice(reason=reason, is_small=size is not None and size <= SMALL)
    try:
        _check(partial(check_divisible, settings=time), program)
    except ProgramError as error:
        reason = error.diagnostics[0].message
        return StrategyChoice(reason=f"{ONE_TASK}. It has {told}, but {reason}")
    try:
        if tasks is None:
            raise _error("tasks of one machine share its memory", "")
        _check_slots(session, tasks)
    except ProgramError as error:
        reason = error.diagnostics[0].message
        if has_equality(program.predicates) or program.timed:
            unknown = "times" if program.timed else "equality"
            return StrategyChoice(
                reason=f"{ONE_TASK}. It has {told}, but {reason}, and joins know no {unknown}"
            )
        return StrategyChoice(JOINS, 0, f"{BY_JOINS}. It has {told}, but {reason}")
    return StrategyChoice(
        EXCHANGE, tasks, f"{counted(tasks, 'task')} of a barrier stage exchange facts: {told}"
    )


def _check(check: Callable[[Program], None], program: Program) -> None:
    """Raise why a program cannot be divided among tasks, or derived by joins."""
    try:
        check(program)
    except NotLocalisable as reason:
        span = None if reason.rule is None else reason.rule.span
        raise ProgramError(Diagnostic(codes.STRATEGY, str(reason), span, "leave it to one task")) from None


def _check_slots(session: Any, tasks: int) -> None:
    """Raise why this number of tasks cannot run at once."""
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
    """Return what each of these tasks may take, and what an error says that it does not suffice."""
    allowed = budget(partial(_setting, session))
    undivided = ""
    try:
        check_divisible(program)
    except NotLocalisable as reason:
        undivided = f"the program runs in one task, since {reason}"
    return MemoryLimit(allowed.limit, allowed.source, tasks, _slots(session), undivided)


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


def _data_bytes(
    frames: Iterable[Any], sizes: Mapping[str, int] | None, columns: Mapping[str, int]
) -> int | None:
    """Return the size of inputs: from their rows, else as Catalyst estimates it; None if it is not known."""
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
    found = _DATA_SIZE.search(text)
    if found is None:
        return None
    size = int(float(found[1]) * 10 ** int(found[2] or 0) * (1 << _DATA_UNITS[found[3]]))
    return size if size < _UNKNOWN else None


def _error(message: str, help: str) -> ProgramError:
    return ProgramError(Diagnostic(codes.STRATEGY, message, help=help))
