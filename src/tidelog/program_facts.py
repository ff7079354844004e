"""The facts that a program brings along, stated or imported: what is loaded of them. Mutates itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tidelog.engine.maintaining import Flag
from tidelog.errors import Span
from tidelog.io.columns import Batch, column_of_values
from tidelog.io.rejects import Faults
from tidelog.io.source import DataFile, import_file
from tidelog.io.tables import read
from tidelog.logic.program import Fact, Program, TimedFact

EXPLICIT = int(Flag.EXPLICIT)


class ProgramFacts:
    """What a program states; once that is loaded, the engine knows better what is left of it."""

    def __init__(self, stated: tuple[Fact, ...]) -> None:
        self.stated = stated
        self._loaded = 0  # facts of `stated`
        self._located = 0  # facts of `stated` that are among …
        self._spans: dict[Fact, Span | None] = {}  # … those whose places are known
        self._imported = 0  # imports of the program

    def pending(
        self, program: Program, faults: Faults, threads: int
    ) -> Iterator[tuple[str, Iterable[Batch], DataFile | None, tuple[str, ...]]]:
        """What was not loaded before, predicate by predicate; it counts as loaded when more is asked for.

        Each with the file that it is imported from, None of what the program states, and the columns that say
        when facts hold, which are the last ones of the batches.
        """
        for name, _, batch in _batches(self.stated[self._loaded :]):
            yield name, [batch], None, ()
        self._loaded = len(self.stated)
        for transfer in program.imports[self._imported :]:
            predicate = program.predicates[transfer.predicate]
            file = import_file(transfer, predicate)
            time = transfer.options.get("time", ())
            assert isinstance(time, tuple), "the resolver has seen to that"
            yield predicate.name, read(file, faults, threads), file, time
            self._imported += 1

    def pending_times(self) -> tuple[TimedFact, ...]:
        """The facts with times that were not loaded before."""
        return tuple(fact for fact in self.stated[self._loaded :] if isinstance(fact, TimedFact))

    def skip(self, program: Program) -> None:
        """Let everything count as loaded."""
        self._loaded, self._imported = len(self.stated), len(program.imports)

    def span_of(self, fact: Fact) -> Span | None:
        """Where the program states a fact, if it does."""
        for stated in self.stated[self._located :]:
            self._spans.setdefault(stated, stated.span)
        self._located = len(self.stated)
        return self._spans.get(fact)

    def spans_within(self, fact: TimedFact) -> list[Span]:
        """Where the program states a fact for some of an interval."""
        stated = (each for each in self.stated if isinstance(each, TimedFact) and each.span is not None)
        same = (each for each in stated if (each.predicate, each.values) == (fact.predicate, fact.values))
        return [each.span for each in same if each.span and each.interval.meets(fact.interval)]

    def remaining(self, engine: Any, holds: Callable[[TimedFact], bool]) -> Iterator[Fact]:
        """The facts that the program stated and that are explicit still; `holds` knows about times."""
        for fact in self.stated[: self._loaded]:
            if isinstance(fact, TimedFact) and holds(fact):
                yield fact
        for name, facts, batch in _batches(self.stated[: self._loaded]):
            columns = [engine.encode_column(column) for column in batch.columns]
            standing = engine.standing(name, columns, len(facts))
            yield from (
                fact for fact, flags in zip(facts, standing.tolist(), strict=True) if flags & EXPLICIT
            )
        yield from self.stated[self._loaded :]


def _batches(facts: Iterable[Fact]) -> Iterator[tuple[str, list[Fact], Batch]]:
    """Facts, predicate by predicate."""
    by_predicate: dict[str, list[Fact]] = {}
    for fact in facts:
        if isinstance(fact, TimedFact):
            continue
        by_predicate.setdefault(fact.predicate, []).append(fact)
    for name, stated in by_predicate.items():
        columns = tuple(map(column_of_values, zip(*(fact.values for fact in stated), strict=True)))
        yield name, stated, Batch(columns, len(stated))
