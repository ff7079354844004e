"""Tasks of a barrier stage that derive together: each has a part of the rows, and they send what is new.

They learn one another's addresses by one `allGather`. If one of them is lost, Spark runs the stage again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, Final

from tidelog.engine import exchange
from tidelog.engine.exchange import Listener, Lost
from tidelog.equality import distributed as equality
from tidelog.equality.distributed import by_rules, task_of
from tidelog.errors import Inconsistent
from tidelog.io.columns import Batch
from tidelog.logic.program import BOTTOM, Program
from tidelog.reasoner.constraints import told_apart, violated
from tidelog.spark.memory import Metered
from tidelog.spark.task import VIOLATIONS, Collected, Everything, Part, Reading, Task, given_rows, written
from tidelog.temporal import distributed as temporal
from tidelog.temporal.intake import split_batch

SETTINGS: Final = ("timeout", "max_facts")
EQUALITY: Final = ("equality", "unique_names")
Deriving = exchange.Task | equality.Divided | temporal.Divided
UNREACHED: Final = (
    "tasks connect to one another, on any port: where executors cannot, "
    "leave it to one task, by `partitions=1`, or set `tidelog.strategy=joins`"
)


@dataclass(frozen=True)
class Exchange:
    """What each task of the stage runs; `secret` and `certificate` are known to these tasks only."""

    task: Task
    ask: Everything
    count: int
    secret: bytes
    certificate: bytes | None = None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield this task's part of the rows of all outputs."""
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        hosts = [info.address.rpartition(":")[0].strip("[]") for info in context.getTaskInfos()]
        # Seen in attempts that follow one in which some tasks had ended before others failed.
        if len(hosts) != self.count:
            raise RuntimeError(f"{len(hosts)} of {self.count} tasks were started: Spark tries again")
        # Memory is not limited yet: a task that ended before it met the others would let them wait for ever.
        mesh, attempt = self._meet(context, hosts)
        read = Metered(batches, given_rows)
        try:
            parts = self._parts(read, mesh, attempt)
            yield from self.task.rows(parts, read, hosts.count(hosts[mesh.number]))
        finally:
            mesh.close()

    def _meet(self, context: Any, hosts: Sequence[str]) -> tuple[exchange.Mesh, str]:
        """Return the connections with all other tasks, and what this attempt is called."""
        number = context.partitionId()
        listener = Listener(hosts[number])
        said = context.allGather(json.dumps([listener.address, token_hex(16)]))
        told = [json.loads(each) for each in said]
        addresses, attempt = [address for address, _ in told], told[0][1]
        try:
            mesh = listener.join(number, addresses, self.secret, attempt, certificate=self.certificate)
        except Lost as error:
            raise Lost([replace(each, help=UNREACHED) for each in error.diagnostics]) from None
        return mesh, attempt

    def _parts(self, batches: Iterable[Any], mesh: exchange.Mesh, attempt: str) -> Iterator[Part]:
        faults = Collected(self.task.on_error)
        program = self._program()
        with mesh:
            deriving = self._deriving(program, mesh, int(attempt, 16))
            for reading, read in self.task.read(batches, faults):
                _load(deriving, reading, _checked(read, faults))
            deriving.run()
        yield from self.task.shown(faults, self._outputs(deriving, program))

    def _settings(self, *names: str) -> dict[str, Any]:
        return {key: self.task.settings[key] for key in names if key in self.task.settings}

    def _program(self) -> Program:
        """Return the program that tasks derive."""
        program = by_rules(self.task.program, **self._settings(*EQUALITY))
        return program if BOTTOM in program.timed else told_apart(program)

    def _deriving(self, program: Program, mesh: exchange.Mesh, seed: int) -> Deriving:
        settings = self._settings(*SETTINGS)
        if program.timed:
            return temporal.Divided(program, mesh, seed=seed, **settings, **self._settings("time"))
        return task_of(program, mesh, seed=seed, **settings, **self._settings("equal", *EQUALITY))

    def _outputs(self, deriving: Deriving, program: Program) -> Iterator[Part]:
        found = violated(program, lambda name: deriving.columns(name)[1] > 0)
        if not isinstance(deriving, exchange.Task):
            found = [*deriving.violations(), *found]
        if found and not self.ask.keeps_violations:
            raise Inconsistent(found)
        if found:
            texts = [[item.code for item in found], [item.message for item in found]]
            yield Part(VIOLATIONS, dict(zip(("code", "message"), texts, strict=True)), len(texts[0]))
        for output in self.ask.outputs:
            yield from written(deriving.relation(output.predicate), output)


def _load(deriving: Deriving, reading: Reading, batches: Iterator[Batch]) -> None:
    """Give a task the rows of an input, with when they hold if it has columns that say so."""
    if reading.times:
        assert isinstance(deriving, temporal.Divided), "the program knows which predicates have times"
        is_integer = deriving.program.is_integer_time
        deriving.load_timed(
            reading.predicate, (split_batch(batch, reading.times, is_integer) for batch in batches)
        )
    else:
        deriving.load(reading.predicate, batches)


def _checked(batches: Iterator[Batch], faults: Collected) -> Iterator[Batch]:
    """Yield the batches, then raise if rows could not be read: the others are told by who loads them."""
    yield from batches
    faults.check()
