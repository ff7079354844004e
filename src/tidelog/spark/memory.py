"""How much memory a task may take: told by settings on the driver, observed on the worker. Imports no Spark.

Sizes are bytes of the anonymous memory of a Python worker, in which a task runs.
"""

from __future__ import annotations

import math
import re
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final, TypeVar

from tidelog.data.memory import REFUSAL, available_bytes
from tidelog.engine.limits import OUT_OF_MEMORY
from tidelog.errors import Diagnostic, ProgramError, Stopped, counted
from tidelog.spark import codes

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
PERIOD: Final = 0.01  # seconds between two looks at the memory that is used
MARGIN: Final = 32 << 20  # that is left below a limit of Spark's own, so that an error can be told
_SIZE: Final = re.compile(r"(\d+)([bkmgt]?)b?")
_UNITS: Final = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_DIVIDED: Final = 8  # tasks up to which the memory of each was measured to fall with their square root

Item = TypeVar("Item")
Setting = Callable[[str, str], str]  # the value of a key, or a default


@dataclass(frozen=True)
class Budget:
    """What a task may take, and who says so; `limit` is None if only its machine limits it."""

    size: int
    told: str
    limit: int | None = None
    is_shared: bool = False  # by all tasks: there is one machine

    def tasks_for(self, need: int) -> int | None:
        """Return how few tasks can take what needs so many bytes in one; None if no number of them can."""
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


def budget(setting: Setting) -> Budget:
    """Return what the settings of a session say that each task may take."""
    asked = _bytes(setting, TASK_MEMORY, "")
    if asked is not None:
        return Budget(asked, f"{shown(asked)} for each task ({TASK_MEMORY})", asked)
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
            return Budget(each, told, each)
    free = available_bytes() if local else None
    if free is not None:
        size = int(MOST * free)
        told = f"{shown(size)} for all tasks ({MOST:.0%} of what this machine has left)"
        return Budget(size, told, is_shared=True)
    told = f"{shown(ASSUMED)} for each task, which is assumed: set {TASK_MEMORY}, {PYSPARK} or {OVERHEAD}"
    return Budget(ASSUMED, told)


def _overhead(setting: Setting, master: str) -> int | None:
    """Return what a container has beside the heap; outside of containers nothing is set aside by default."""
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
        message = f"`{key}` is {text!r}, which is no size"
        raise ProgramError(Diagnostic(codes.STRATEGY, message, help="write it as `512m` or `4g`"))
    return int(found[1]) << _UNITS[found[2] or unit]


def shown(size: float) -> str:
    """Return a size as people read it.

    >>> shown(1_600_000_000), shown(52_428_800)
    ('1.6 GB', '52 MB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


# ---- on the worker


class Watch:
    """Limits what this process maps, again and again, so that it takes no more than so many bytes. Mutable.

    The system limits what is mapped, which may be much more than what is used: allocators and tables reserve
    memory that they never touch. So a thread looks at what is used, and allows as much more as is left.
    Tables, which may reserve much in a moment, have that looked at when they are refused.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._limits = resource.getrlimit(resource.RLIMIT_DATA)
        self._lock = Lock()
        self._is_on = False
        self._has_ended = Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """In the block, look at what is used while the limit is on."""
        thread = Thread(target=self._look_on, daemon=True)
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

    def _look_on(self) -> None:
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


class Metered(Iterable[Any]):
    """Batches that a task reads, and how many rows and bytes they had. Mutable.

    `rows_of` says how many rows of a batch count.
    """

    def __init__(self, batches: Iterable[Any], rows_of: Callable[[Any], int] = len) -> None:
        self.rows = self.bytes = 0
        self._rows_of = rows_of
        self.watch: Watch | None = None
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
class Limit:
    """What a task may take, and what its error says if that does not suffice; sent to workers."""

    size: int | None = None  # else most of what its machine has left
    told: str = ""  # who says so
    tasks: int = 1
    slots: int | None = None  # how many tasks can run at once, if that is known
    undivided: str = ""  # why more tasks do not help, if so

    def within(self, items: Iterator[Item], read: Metered, beside: int = 1) -> Iterator[Item]:
        """Yield items, and let computing them take no more memory: then it is an error, not the end.

        What is done with an item is not limited. `beside` is how many such tasks run on the machine.
        """
        watch = read.watch = Watch(int(NEAR * self._size(beside)))
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

    def _fault(self, size: int, progress: str, read: Metered, is_own: bool) -> Diagnostic:
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
        message = f"the facts of {whose} do not fit {shown(size)}: {told}{progress}"
        wanted = max(divided_by(ratio * _ratio(self.tasks)), 2 * self.tasks)
        return Diagnostic(codes.NO_MEMORY, message, help=self._advice(wanted if read.rows else 0))

    def _advice(self, tasks: int) -> str:
        """Return what to do, with so many tasks or, if these are none, without dividing the facts."""
        more = f"give each task more memory, by `{TASK_MEMORY}`"
        if self.told:
            more = f"{more}, which is now {self.told}"
        if not tasks:
            return f"{more}: Python and tidelog alone take about 100 MB"
        if self.undivided:
            return f"{more}: {self.undivided}"
        if self.slots is not None and tasks > self.slots:
            slots = counted(self.slots, "slot")
            least = f"`partitions={tasks}` would be needed, at least, and there are {slots}"
            joins = "set `tidelog.strategy=joins`, which keeps facts on disk"
            return f"{least}: add executors; or {more}; or {joins}"
        return f"set `partitions={tasks}`, at least; or {more}"


def _progress(error: MemoryError | Stopped) -> str:
    """Return how far the engine got, if it says so."""
    if isinstance(error, MemoryError):
        return ""
    said = error.diagnostics[0].message.split("; ")
    return "".join(f"; {each}" for each in said if each.startswith("it got to"))
