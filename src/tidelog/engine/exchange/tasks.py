"""A task of a distributed derivation, with its part of the facts. Mutable.

Begin with `ExchangeTask.run`. A task receives any part of the given facts. All tasks exchange their counts,
make the same plan from them (`_make_plan`), and send given facts to the owners of each copy (`_send_given`).
Then they derive in rounds (`_derive`): each task derives all consequences of its facts and sends new facts to
the tasks that own them; facts in an outbox are sent and deleted.

Invariant: when `run` ends, the home copies at all tasks together hold the facts of the program.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.data import memory
from tidelog.data.columns import Batch, column_of_values
from tidelog.data.dictionary import Dictionary
from tidelog.data.relation import Relation, column_names
from tidelog.engine.columnar.engine import ColumnarEngine, make
from tidelog.engine.events import MissingValues, Tally
from tidelog.engine.exchange.ids import (
    PARTS,
    Counting,
    IdRows,
    ParcelRows,
    PredicateColumn,
    Values,
    error_of,
    error_record,
)
from tidelog.engine.exchange.sockets import Frame, Mesh, PeerFailed
from tidelog.engine.fixpoint import Fed
from tidelog.engine.interrupts import Limits
from tidelog.errors import Diagnostic, ProgramError, TidelogError, codes
from tidelog.logic.program import Program
from tidelog.logic.values import integer
from tidelog.rewrite.localise import EVERYWHERE, NUMBER, Localised, NotLocalisable, Place, Sizes, localise

Ids = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]

LARGE: Final = 1 << 14  # rows of an outbox whose memory is given back
PASS: Final = 1 << 18  # approximate number of values of given facts per pass …
MOST_PASSES: Final = 64  # … unless this many passes are not enough: then a pass has more …
LARGEST_PASS: Final = 1 << 22  # … but at most this many
COUNTED, AGREED, GIVEN, DERIVED, COLLECTED, SHUFFLED, BROADCAST, GATHERED = range(8)  # stages of a run
TO_LAST: Final = -1  # the task behind the owners
Extended = tuple[Sequence[Ids], Sequence[Integers], int]  # columns of ids, columns of integers, and rows


class ExchangeTask:
    """A task of a mesh: `load`, then `run`, then `relation` or `collect`.

    The tasks with numbers below `owners`, by default all, own facts. One beyond them brings given facts, and
    can have all that is derived sent to it by `collect`. Its `dictionary` is then the one of its facts.
    With a `reader`, the ids of given facts are those of its dictionary, which is left as it is.
    """

    def __init__(
        self,
        program: Program,
        mesh: Mesh,
        *,
        owners: int | None = None,
        timeout: float | None = None,
        max_facts: int | None = None,
        seed: int = 0,
        bits: int = 64,
        sizes: Sizes | None = None,
        dictionary: Dictionary | None = None,
        reader: ColumnarEngine | None = None,
    ) -> None:
        self.program = program
        self.mesh = mesh
        self.owners = mesh.count if owners is None else owners
        self.sizes = sizes  # to plan for, instead of counted ones
        self.rounds = 0
        self._limits = Limits(Tally(), timeout, max_facts)
        binary = sum(predicate.arity == 2 for predicate in program.predicates.values())
        self._engine = make(1, binary)
        # With more than two owners, most values that a task reads belong to others: they are in a dictionary
        # that is dropped when given facts have been sent.
        shares = self.owners <= 2 or dictionary is not None
        self._reader = reader or (self._engine if shares else make(1))
        if dictionary is not None:
            self._engine.storage.dictionary = dictionary
        self._seed = int.from_bytes(hashlib.sha256(f"{seed}".encode()).digest()[:8], "little", signed=True)
        self._bits = bits
        self._values = self.values_of(self._engine.storage.dictionary)
        self._given_values = self._values
        if self._reader.storage.dictionary is not self._engine.storage.dictionary:
            self._given_values = self.values_of(self._reader.storage.dictionary)
        self._given: dict[str, list[IdRows]] = {}
        self._values_sent = 0  # with the given facts
        self._remote_facts = 0  # of other tasks
        self._extra_facts = 0  # of this task outside of its relations
        self._plan: Localised | None = None
        self.dropped = 0  # rows that all tasks have dropped for want of a value, once facts are collected

    @property
    def is_owner(self) -> bool:
        """Whether facts lie at this task."""
        return self.mesh.number < self.owners

    @property
    def plan(self) -> Localised:
        """How the program is divided; known once `run` has begun."""
        assert self._plan is not None
        return self._plan

    @property
    def dictionary(self) -> Dictionary:
        """The values of the ids of derived facts."""
        return self._engine.storage.dictionary

    def translated(self, part: IdRows, values: Values) -> IdRows:
        """Translate rows from ids of another dictionary to ids of this task's."""
        values.know()
        columns, count = part
        unpacked = self._values.unpack(values.pack([ParcelRows(0, columns, count)], None), None)
        rows = next(iter(unpacked))
        return rows.columns, rows.count

    def values_of(self, dictionary: Dictionary) -> Values:
        """Return the values of a dictionary by the hashes that all tasks of this run use."""
        return Values(dictionary, self.mesh.count, self._seed, self._bits)

    def take_given(self) -> tuple[ColumnarEngine, dict[str, list[IdRows]]]:
        """Return the engine whose ids given facts are, and these facts, with those of the program.

        For callers that run other programs on them; this task is not run then.
        """
        with self._sharing_errors(), self._limits.guarding():
            self._add_program_facts()
        return self._reader, self._given

    def load(self, predicate: str, batches: Iterable[Batch]) -> None:
        """Take batches of given facts, any part of them."""
        with self._sharing_errors(), self._limits.guarding():
            for batch in batches:
                self.add(predicate, self.encode(batch), batch.rows)
                self._check()

    def encode(self, batch: Batch) -> list[Ids]:
        """Return given rows as ids of the dictionary, such as `add` and `spread` take before `run`."""
        return [self._reader.storage.dictionary.encode_column(column) for column in batch.columns]

    def add(self, predicate: str, columns: Sequence[Ids], rows: int) -> None:
        """Take given facts as ids of the dictionary."""
        self._given.setdefault(predicate, []).append((columns, rows))

    def _add_program_facts(self) -> None:
        """Take the facts of the program itself; one task does."""
        explicit: dict[str, list[Any]] = {}
        for fact in self.program.facts if self.mesh.number == 0 else ():
            explicit.setdefault(fact.predicate, []).append(fact.values)
        for name, rows in explicit.items():
            columns = tuple(map(column_of_values, zip(*rows, strict=True)))
            self.load(name, [Batch(columns, len(rows))])

    def run(self) -> None:
        """Derive all consequences of the facts given to all tasks.

        All tasks raise an error of one task. After `Collision` and `Lost` another attempt, with another seed,
        may succeed.
        """
        with self._sharing_errors(), self._limits.guarding():
            self.mesh.check = self._check_waiting
            self._add_program_facts()
            memory.give_back()  # memory used to read given facts
            heavy = self._make_plan()
            self._engine.limits.check, self._engine.limits.budget = self._check_plan, self._limits.budget
            self._define_relations()
            self._send_given(heavy)
            self._derive()
            memory.give_back()

    def _make_plan(self) -> dict[PredicateColumn, Ids]:
        """Make the plan that all tasks make; return the frequent values of columns."""
        # A task keeps the values that it owns in its dictionary: one in `tasks` of those sent by others.
        shares = self._given_values is self._values and self.owners > 1
        self._given_values.know(len(self._given_values.dictionary) // self.owners if shares else 0)
        counting = Counting(self.program)
        own_counts = counting.count(self._given, self._given_values, self.owners)
        received = self._swap(COUNTED, self._to_others(*own_counts.parts))
        counts = [own_counts, *(own_counts.like(frame.parts) for _, frame in sorted(received.items()))]
        sizes, heavy = counting.sizes(counts, self._values, self.owners)
        try:
            self._plan = localise(self.program, self.sizes or sizes, self.owners)
        except NotLocalisable as reason:
            raise refused(reason) from None
        return heavy

    def _define_relations(self) -> None:
        """Define the relations of the plan, and prepare its rules; raise if others have another plan."""
        plan = self.plan
        self._names = sorted(plan.program.predicates)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        # Facts that an outbox adds to a home at this task are routed to the other copies in the same round.
        self._sources = sorted(plan.routes, key=lambda name: (name not in plan.outboxes, name))
        self._homes = [copies[0] for copies in plan.copies.values()]
        for predicate in plan.program.predicates.values():
            self._engine.storage.define(predicate.name, predicate.arity, is_large=False)
        kept = [name for name in self._names if name not in plan.outboxes]
        self._fed = Fed(plan.program.rules, kept, self._engine, self._check)
        self.check_same(repr((plan.program.rules, plan.copies, plan.auxiliaries, plan.routes, plan.gates)))

    def check_same(self, text: str) -> None:
        """Raise if other tasks have another text, which follows from the program."""
        digest = hashlib.sha256(text.encode()).digest()
        for task, frame in self._swap(AGREED, self._to_others(digest)).items():
            if bytes(frame.parts[0]) != digest:
                message = f"tasks {self.mesh.number} and {task} run different programs"
                help = "all workers need the same program and the same version of tidelog"
                raise ProgramError(Diagnostic(codes.DIFFERENT, message, help=help))

    def _send_given(self, heavy: Mapping[PredicateColumn, Ids]) -> None:
        """Send the given facts to every copy of their relations; they follow no route."""
        values = sum(count * len(columns) for parts in self._given.values() for columns, count in parts)
        received = self._swap(GIVEN, self._to_others(np.array([values], np.int64))).values()
        largest = max((int(np.frombuffer(each.parts[0], np.int64)[0]) for each in received), default=0)
        passes = _passes(max(values, largest))
        waiting = _in_passes(self._given, values, passes)
        self._given = {}  # each part is dropped when it has been sent
        for parts in waiting:
            parcels: dict[int, list[ParcelRows]] = {}
            for name, columns, count in parts:
                for copy in self.plan.copies[name]:
                    target = self._numbers[copy.relation]
                    self._divide(columns, count, target, copy.place, self._given_values, parcels)
            self._deliver(parcels)
        if self._given_values is not self._values:
            self._values_sent = self._given_values.told
            self._given_values, self._reader = self._values, self._engine
            memory.give_back()  # memory of read and sent facts
        if self.is_owner:
            self._add_heavy(heavy)
            if self.plan.is_numbered:
                number = self.dictionary.encode(integer(self.mesh.number))
                self._engine.storage.add(NUMBER, [np.array([number], np.int32)], 1)
        self._sent = {name: self._engine.storage.size(name) for name in self._sources}

    def _deliver(self, parcels: Mapping[int, Sequence[ParcelRows]]) -> None:
        """Send given facts in one pass, and add those that arrive."""
        me = self.mesh.number
        frames = {
            task: Frame(0, self._given_values.pack(rows, task))
            for task, rows in parcels.items()
            if task != me
        }
        arrived = list(parcels.get(me, ()))
        if self._given_values is not self._values:
            arrived = list(self._values.unpack(self._given_values.pack(arrived, me), None))
        for task, frame in sorted(self._swap(GIVEN, frames).items()):
            if frame.parts:
                # A task that drops its dictionary will not know the values that it sends now.
                arrived += self._values.unpack(
                    frame.parts, task if self._given_values is self._values else None
                )
        self._reserve(arrived)
        self._add(arrived)

    def _reserve(self, several: Iterable[ParcelRows]) -> None:
        """Reserve room in relations for given rows of several tasks, so that they grow once for all."""
        counts: Counter[int] = Counter()
        for rows in several:
            counts[rows.relation] += rows.count
        for relation, count in counts.items():
            table = self._engine.catalog.table(self._names[relation])
            table.reserve(count, len(self._engine.storage.dictionary), given=True)

    def _add_heavy(self, heavy: Mapping[PredicateColumn, Ids]) -> None:
        """Add the frequent values of columns, which all tasks know, to their relations."""
        for column, copies in self.plan.heavy.items():
            ids = heavy.get(column)
            if ids is None:
                continue
            for copy in copies:
                parcels: dict[int, list[ParcelRows]] = {}
                self._divide([ids], len(ids), self._numbers[copy.relation], copy.place, self._values, parcels)
                self._add(parcels.get(self.mesh.number, ()))

    def _add(self, several: Iterable[ParcelRows]) -> int:
        """Add rows to relations here; return how many were new."""
        new = 0
        for rows in several:
            columns = [_select(column, rows.chosen) for column in rows.columns]
            new += self._engine.storage.add(self._names[rows.relation], columns, rows.count)
            self._check()
        return new

    def _divide(
        self,
        columns: Sequence[Ids],
        count: int,
        number: int,
        place: Place,
        values: Values,
        parcels: dict[int, list[ParcelRows]],
    ) -> None:
        """Add rows to the parcels of the tasks that own them."""
        if self.owners == 1 or not isinstance(place, int):
            tasks = range(self.owners) if place is EVERYWHERE else range(1)
            for task in tasks:
                parcels.setdefault(task, []).append(ParcelRows(number, columns, count))
            return
        for task, chosen in enumerate(values.by_owner(columns[place], self.owners)):
            if len(chosen):
                whole = None if len(chosen) == count else chosen
                parcels.setdefault(task, []).append(ParcelRows(number, columns, len(chosen), whole))

    def _derive(self) -> None:
        """Derive and exchange until no task has new facts, then open the next gate."""
        if self.is_owner:
            self._fed.begin()
        gates = iter(self.plan.gates)
        while True:
            arrived, moved = self._exchange()
            if not moved:
                gate = next(gates, None)
                if gate is None:
                    return
                arrived = [ParcelRows(self._numbers[gate], (), 1)]
            if self.is_owner:
                self._add(arrived)
                self._fed.close()

    def _exchange(self) -> tuple[list[ParcelRows], int]:
        """Send new rows; return received ones, and the number of rows sent or new at all tasks."""
        parcels: dict[int, list[ParcelRows]] = {}
        new = 0
        if self.is_owner:
            self._values.know()
            for source in self._sources:
                new += self._route(source, parcels)
        moved = new + sum(rows.count for parcel in parcels.values() for rows in parcel)
        facts = self.facts
        head = np.array([moved, facts], np.int64)
        frames = {
            task: Frame(0, (head, *(self._values.pack(parcels[task], task) if task in parcels else ())))
            for task in range(self.mesh.count)
            if task != self.mesh.number
        }
        self._empty_outboxes()
        self.rounds += 1
        received = self._swap(DERIVED, frames)
        heads = [np.frombuffer(frame.parts[0], np.int64).tolist() for frame in received.values()]
        self._remote_facts = sum(each[1] for each in heads)
        self._check()
        arrived = [
            rows
            for task, frame in sorted(received.items())
            if len(frame.parts) > 1
            for rows in self._values.unpack(frame.parts[1:], task)
        ]
        return arrived, moved + sum(each[0] for each in heads)

    def _empty_outboxes(self) -> None:
        """Delete sent facts, which no rule reads."""
        for outbox in self.plan.outboxes if self.is_owner else ():
            size = self._engine.storage.size(outbox)
            if size > LARGE:
                self._engine.catalog.table(outbox).empty()
            elif size:
                self._engine.storage.clear(outbox)

    def _route(self, source: str, parcels: dict[int, list[ParcelRows]]) -> int:
        """Add new rows of a relation to relations here, and to the parcels of others; return how many."""
        columns, size = self._engine.storage.rows(source)
        first = 0 if source in self.plan.outboxes else self._sent[source]
        if size == first:
            return 0
        self._sent[source] = size
        new = 0
        added = [column[first:] for column in columns]
        for route in self.plan.routes[source]:
            divided: dict[int, list[ParcelRows]] = {}
            target = self._numbers[route.target]
            self._divide(added, size - first, target, route.place, self._values, divided)
            new += self._add(divided.pop(self.mesh.number, ()))
            if not route.replicated:
                for task, rows in divided.items():
                    parcels.setdefault(task, []).extend(rows)
        return new

    def columns(self, predicate: str) -> tuple[tuple[Ids, ...], int]:
        """Return this task's part of a predicate's facts as ids, and how many they are."""
        home = self.plan.copies[predicate][0]
        if not self.is_owner or (home.place is EVERYWHERE and self.mesh.number):
            arity = self.program.predicates[predicate].arity
            return tuple(np.zeros(0, np.int32) for _ in range(arity)), 0
        return self._engine.storage.rows(home.relation)

    def relation(self, predicate: str) -> Relation:
        """Return this task's part of a predicate's facts; the parts of all tasks are disjoint."""
        columns, count = self.columns(predicate)
        names = column_names(self.program.predicates[predicate])
        return Relation(predicate, names, columns, count, self._engine.storage.dictionary)

    def collect(self, predicates: Sequence[str]) -> dict[str, list[tuple[Sequence[Ids], int]]]:
        """Send all facts of predicates to the task behind the owners; return them there, as ids."""
        with self._sharing_errors(), self._limits.guarding():
            collected: dict[str, list[tuple[Sequence[Ids], int]]] = {name: [] for name in predicates}
            for name in predicates:
                frames: dict[int, Frame] = {}
                columns, count = self.columns(name)
                if self.is_owner and count:
                    frames[self.owners] = Frame(
                        0, self._values.pack([ParcelRows(0, columns, count)], self.owners)
                    )
                for task, frame in sorted(self._swap(COLLECTED, frames).items()):
                    if frame.parts:
                        arrived = self._values.unpack(frame.parts, task)
                        collected[name] += [(rows.columns, rows.count) for rows in arrived]
            self.dropped = sum(map(int, self.all_gather(str(self._engine.dropped).encode())))
            return collected

    def missing(self) -> tuple[MissingValues, ...]:
        """Return which rows of this task's part its rules have dropped because a function has no value.

        Each row lies at one task, but for rows that lie at all of them: the first task returns those.
        """
        if not self.is_owner or not self._engine.dropped:
            return ()
        from tidelog.engine.missing_values import find_missing

        copies = (*self.plan.copies.values(), *self.plan.auxiliaries.values())
        divided = {copy.relation for group in copies for copy in group if copy.place is not EVERYWHERE}
        local = [
            replace(rule, span=reason.rule.span, places=reason.rule.places)
            for reason in self.plan.reasons
            for rule in reason.local
            if self.mesh.number == 0 or not divided.isdisjoint(rule.read)
        ]
        return find_missing(local, self._engine)

    def shuffle(self, parts: Sequence[IdRows], place: Place) -> list[list[IdRows]]:
        """Send rows to the owners of a column after the derivation; return those that this task owns.

        All tasks pass the same number of parts, some perhaps empty.
        """
        with self._sharing_errors(), self._limits.guarding():
            received = self.shuffle_with_integers([(columns, (), count) for columns, count in parts], place)
            return [[(columns, count) for columns, _, count in part] for part in received]

    def shuffle_with_integers(self, parts: Sequence[Extended], place: Place) -> list[list[Extended]]:
        """Send rows of ids, with columns of integers; return those that this task owns.

        They go to the owners of a column, to all of them, or, with `TO_LAST`, to the task behind the owners.
        Before `run`, ids are those of given facts. Every task gives as many parts as the others, perhaps
        empty ones. To be called within `guarded`.
        """
        values, me = self._given_values, self.mesh.number
        values.know()
        parcels: dict[int, list[ParcelRows]] = {}
        for number, (columns, _, count) in enumerate(parts):
            if count and place == TO_LAST:
                parcels.setdefault(self.owners, []).append(ParcelRows(number, columns, count))
            elif count:
                self._divide(columns, count, number, place, values, parcels)
        integers = {
            task: [_select(column, rows.chosen) for rows in groups for column in parts[rows.relation][1]]
            for task, groups in parcels.items()
        }
        own_rows = parcels.pop(me, [])
        frames = {
            task: Frame(0, (*values.pack(groups, task), *integers[task])) for task, groups in parcels.items()
        }
        if values is not self._values:
            own_rows = list(self._values.unpack(values.pack(own_rows, me), None))
        arrived = [(own_rows, integers.get(me, []))]
        for task, frame in sorted(self._swap(SHUFFLED, frames).items()):
            if frame.parts:
                # A task that drops its dictionary will not know the values that it sends now.
                knows = task if values is self._values else None
                rows = list(self._values.unpack(frame.parts[:PARTS], knows))
                arrived.append((rows, [np.frombuffer(part, np.int64) for part in frame.parts[PARTS:]]))
        return _by_part(arrived, [len(added) for _, added, _ in parts])

    def owned_rows(self, column: Ids) -> Ids:
        """Return the numbers of the rows whose value this task owns, once all is derived."""
        self._values.know()
        return self._values.by_owner(column, self.owners)[self.mesh.number]

    def all_gather(self, record: bytes) -> list[bytes]:
        """Send a record to all tasks; return those of all of them, in their order.

        To be called within `guarded`.
        """
        received = self._swap(GATHERED, self._to_others(record))
        records = {task: bytes(frame.parts[0]) for task, frame in received.items()}
        records[self.mesh.number] = record
        return [records[task] for task in sorted(records)]

    def broadcast(self, part: IdRows, values: Values) -> list[IdRows]:
        """Send every task some rows of this one; return those of all tasks, as ids that `values` knows."""
        with self._sharing_errors(), self._limits.guarding():
            self._values.know()
            columns, count = part
            parcel = self._values.pack([ParcelRows(0, columns, count)] if count else [], None)
            received = self._swap(BROADCAST, self._to_others(*parcel))
            parcels = (parcel, *(frame.parts for _, frame in sorted(received.items())))
            arrived = (rows for each in parcels for rows in values.unpack(each, None))
            return [(rows.columns, rows.count) for rows in arrived]

    def count_extra_facts(self, here: int, remote: int | None = None) -> None:
        """Count facts that are not in relations of this task, and those of other tasks if they are known.

        Raise if a limit has been reached, or another task has failed.
        """
        self._extra_facts = here
        if remote is not None:
            self._remote_facts = remote
        self._check()

    @property
    def facts(self) -> int:
        """How many facts lie at this task, those that are not in its relations included."""
        if not self.is_owner:
            return 0
        if self._plan is None:
            return self._extra_facts
        is_first = self.mesh.number == 0
        return self._extra_facts + sum(
            self._engine.storage.size(home.relation)
            for home in self._homes
            if is_first or home.place is not EVERYWHERE
        )

    @property
    def engine(self) -> ColumnarEngine:
        """The engine that has this task's facts."""
        return self._engine

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """In the block, limits hold; an error is sent to all other tasks, and theirs are raised."""
        with self._sharing_errors(), self._limits.guarding():
            self.mesh.check = self._check_waiting
            yield

    def counts(self) -> dict[str, int]:
        """Return figures: values in the dictionary, values sent to others (`told`), rows of all relations."""
        rows = sum(self._engine.storage.size(name) for name in self._names)
        sent = self._values_sent + self._values.told
        return {"values": len(self._engine.storage.dictionary), "told": sent, "rows": rows}

    def _check(self) -> None:
        """Raise if a limit has been reached, or another task has failed."""
        if self._limits.max_facts is not None and (self._plan is not None or self._extra_facts):
            self._limits.tally.loaded = self._remote_facts + self.facts
        self._limits.check()
        self.mesh.look()

    def _check_plan(self, found: int = 0, are_answers: bool = False) -> None:
        """Check the limits within a plan: only its rows are counted, since rows for an outbox may be known to
        other tasks.
        """
        self._limits.tally.loaded = 0
        self._limits.check(found)
        self.mesh.look()

    def _check_waiting(self) -> None:
        self._limits.check()

    def _to_others(self, *parts: Any) -> dict[int, Frame]:
        """Return the same frame for every other task."""
        return {task: Frame(0, parts) for task in range(self.mesh.count) if task != self.mesh.number}

    def _swap(self, stage: int, frames: Mapping[int, Frame]) -> dict[int, Frame]:
        """Exchange frames with all other tasks; raise if one is at another stage."""
        word = stage << 32 | self.rounds
        stamped = {task: Frame(word, frames[task].parts) for task in frames}
        every = {task: stamped.get(task, Frame(word)) for task in range(self.mesh.count)}
        received = self.mesh.swap(every)
        for task, frame in received.items():
            if frame.word != word:
                raise AssertionError(f"task {task} is at {frame.word >> 32}, not at {stage}")
        return received

    @contextmanager
    def _sharing_errors(self) -> Iterator[None]:
        """Send an error to all other tasks, and raise theirs."""
        try:
            yield
        except PeerFailed as failed:
            self.mesh.fail(failed.frame)  # some tasks may receive it only from this one
            spans = [rule.span for rule in self.program.rules] + [fact.span for fact in self.program.facts]
            raise error_of(failed.frame.parts[0], spans) from None
        except TidelogError as error:
            self.mesh.fail(Frame(0, (error_record(error),)))
            raise
        except BaseException as error:
            message = f"task {self.mesh.number} failed: {type(error).__name__}: {error}"
            record = error_record(TidelogError(Diagnostic(codes.EXCHANGE_FAILED, message)))
            self.mesh.fail(Frame(0, (record,)))
            raise


def refused(reason: NotLocalisable) -> ProgramError:
    """Return the error of a program that cannot be divided."""
    span = None if reason.rule is None else reason.rule.span
    return ProgramError(Diagnostic(codes.NOT_DIVISIBLE, str(reason), span, "run it in one process"))


def _select(column: Any, chosen: Ids | None) -> Any:
    """Return the chosen rows of a column, None for all."""
    return column if chosen is None else column[chosen]


def _by_part(
    arrived: Iterable[tuple[Sequence[ParcelRows], Sequence[Integers]]], widths: Sequence[int]
) -> list[list[Extended]]:
    """Return the rows of each part, with as many columns of integers as the part has."""
    parts: list[list[Extended]] = [[] for _ in widths]
    for groups, integers in arrived:
        remaining = iter(integers)
        for rows in groups:
            ids = [_select(column, rows.chosen) for column in rows.columns]
            added = [next(remaining) for _ in range(widths[rows.relation])]
            parts[rows.relation].append((ids, added, rows.count))
    return parts


def _passes(values: int) -> int:
    """Return in how many passes tasks send given facts, none of which has more values than fit.

    Small passes take little memory in addition to the facts; each costs a round.
    """
    return max(1, min(MOST_PASSES, -(-values // PASS)), -(-values // LARGEST_PASS))


def _in_passes(
    given: dict[str, list[IdRows]], values: int, passes: int
) -> Iterator[list[tuple[str, Sequence[Ids], int]]]:
    """Yield the rows of each pass, with about the same number of values; removes them from `given`.

    Rows of a predicate stay together, so that tables rarely grow.
    """
    pass_size = max(1, -(-values // passes))
    rows: list[tuple[str, Sequence[Ids], int]] = []
    room, passes_left = pass_size, passes
    while given:
        name, parts = next(iter(given.items()))
        columns, count = parts.pop()
        if not parts:
            del given[name]
        width = max(1, len(columns))
        first = 0
        while first < count:
            end = count if passes_left == 1 else min(count, first + max(1, room // width))
            rows.append((name, [column[first:end] for column in columns], end - first))
            room -= (end - first) * width
            first = end
            if room <= 0 and passes_left > 1:
                yield rows
                rows, room, passes_left = [], pass_size, passes_left - 1
    yield rows
    for _ in range(passes_left - 1):
        yield []
