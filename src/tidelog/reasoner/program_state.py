"""The program of a reasoner as it is now, the facts that it brings along, and how far it is derived.
Mutates itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING

from tidelog import equality as treatments
from tidelog.data.columns import Batch, column_of_values
from tidelog.engine.flags import Flag
from tidelog.engine.interrupts import made_once
from tidelog.errors import Diagnostic, Span
from tidelog.io.data_file import InputFile, import_file
from tidelog.io.reader import read
from tidelog.io.rejects import RejectedRows
from tidelog.logic.program import Fact, Predicate, Program, Query, Rule, TimedFact
from tidelog.logic.strata import Stratum, strata
from tidelog.query.strategy import Answers
from tidelog.records import dataclass

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine
    from tidelog.equality.treatment import Axiomatised
    from tidelog.store.forms import BatchId

EXPLICIT = int(Flag.EXPLICIT)


@dataclass(frozen=True, slots=True)
class EqualitySettings:
    """How equality is treated, and whether names are unique."""

    treatment: str = treatments.DEFAULT
    unique_names: bool = False


@dataclass(slots=True)
class DerivedState:
    """How far everything is derived, and whether that is consistent. Mutable."""

    is_materialised: bool = False
    was_materialised: bool = False  # the engine may hold derived facts, current or not
    inconsistency: tuple[Diagnostic, ...] | None = None
    is_reported: bool = False  # the inconsistency has been raised since everything was derived

    @property
    def is_known(self) -> bool:
        """Whether everything is derived, and an inconsistency, if there is one, has been raised."""
        return self.is_materialised and (self.is_reported or self.inconsistency is None)

    def complete(self) -> None:
        """Mark everything as derived; whether it is consistent has not been reported."""
        self.was_materialised = self.is_materialised = True
        self.is_reported = False

    def forget(self) -> None:
        """Mark nothing as derived, because the relations have been emptied."""
        self.is_materialised = self.was_materialised = False


@dataclass(slots=True)
class History:
    """How many transactions were committed, and the last batch of each application that counts its own."""

    commits: int = 0
    batches: dict[str, BatchId] = field(default_factory=dict)


class ProgramState:
    """The program without its facts, what it means with equality, and its strata."""

    def __init__(
        self, program: Program, settings: EqualitySettings, attach: Callable[[Axiomatised], None]
    ) -> None:
        self.current = replace(program, facts=())
        self.facts = ProgramFacts(program.facts)
        self.settings = settings
        self._attach = attach  # sets a treatment of equality to work on the engine
        self.with_facts: Program | None = program  # None if that is not known
        self._strata: tuple[tuple[Rule, ...], tuple[Stratum, ...]] | None = None

    def become(self, program: Program, with_facts: Program | None = None) -> None:
        """Set the program, without facts; `with_facts` is the same with its own, if that is known."""
        self.current, self.with_facts = program, with_facts

    def extend(self, program: Program) -> None:
        """Set the program to an extended one, whose facts are those that are new."""
        self.facts.stated += program.facts
        self.become(replace(program, facts=()), replace(program, facts=self.facts.stated))

    def define(self, name: str, arity: int) -> Predicate:
        """Define a predicate that the program does not mention."""
        self.become(self.current.defining(name, arity))
        return self.current.predicates[name]

    def shown(self, engine: ColumnarEngine, holds: Callable[[TimedFact], bool]) -> Program:
        """Return the program with those of its facts that are still explicit; `holds` knows about times."""
        if self.with_facts is None:
            self.with_facts = replace(self.current, facts=tuple(self.facts.remaining(engine, holds)))
        return self.with_facts

    @property
    def has_equality(self) -> bool:
        """Whether the program says that constants are equal."""
        return self.current.has_equality

    @made_once
    def equality(self) -> Axiomatised:
        """The treatment of equality, which knows no classes yet; programs without equality need none."""
        made = treatments.make(self.settings.treatment, self.settings.unique_names)
        self._attach(made)
        return made

    def meaning(self, program: Program) -> Program:
        """Return the effective program of a program without rules over time."""
        return self.equality.meaning(program) if program.has_equality else program

    @property
    def effective(self) -> Program:
        """The program with all rules by which facts without times are derived: those of equality too."""
        return self.meaning(self.current.static)

    def look_up(self, shown: str) -> Callable[[Query], Answers] | None:
        """Return how answers are looked up, None if in the relations of the predicates themselves."""
        program = self.current.static
        return self.equality.look_up(program, shown) if program.has_equality else None

    @property
    def whole(self) -> Program:
        """The program with all rules, those over time and those of equality."""
        return self.current if self.current.timed else self.effective

    @property
    def strata(self) -> tuple[Stratum, ...]:
        """The strata of the effective program, in the order in which they are derived."""
        effective = self.effective
        if self._strata is None or self._strata[0] is not effective.rules:
            self._strata = effective.rules, strata(effective.rules, effective.predicates)
        return self._strata[1]

    def begin_again(self, program: Program) -> None:
        """Go on with a program, and with no constants that are equal."""
        if "equality" in vars(self):
            self.equality.lose_late()
            del self.equality
        self._strata = None
        self.become(program)


class ProgramFacts:
    """The facts that a program states and imports; once loaded, the engine has those that are left."""

    def __init__(self, stated: tuple[Fact, ...]) -> None:
        self.stated = stated
        self._loaded = 0  # facts of `stated`
        self._located = 0  # facts of `stated` that are among …
        self._spans: dict[Fact, Span | None] = {}  # … those whose places are known
        self._imported = 0  # imports of the program

    def pending(
        self, program: Program, faults: RejectedRows, threads: int
    ) -> Iterator[tuple[str, Iterable[Batch], InputFile | None, tuple[str, ...]]]:
        """Yield the facts that were not loaded before, predicate by predicate, each with the file that they
        are imported from, None if the program states them, and the names of their last columns if these say
        when they hold. They count as loaded when the next ones are requested.
        """
        for name, _, batch in _batches(self.stated[self._loaded :]):
            yield name, [batch], None, ()
        self._loaded = len(self.stated)
        for transfer in program.imports[self._imported :]:
            predicate = program.predicates[transfer.predicate]
            file = import_file(transfer, predicate)
            time = transfer.options.get("time", ())
            assert isinstance(time, tuple), "checked by the resolver"
            yield predicate.name, read(file, faults, threads), file, time
            self._imported += 1

    def pending_times(self) -> tuple[TimedFact, ...]:
        """The facts with times that were not loaded before."""
        return tuple(fact for fact in self.stated[self._loaded :] if isinstance(fact, TimedFact))

    def skip(self, program: Program) -> None:
        """Mark everything as loaded."""
        self._loaded, self._imported = len(self.stated), len(program.imports)

    def span_of(self, fact: Fact) -> Span | None:
        """Return where the program states a fact, if it does."""
        for stated in self.stated[self._located :]:
            self._spans.setdefault(stated, stated.span)
        self._located = len(self.stated)
        return self._spans.get(fact)

    def spans_within(self, fact: TimedFact) -> list[Span]:
        """Return where the program states a fact for a part of an interval."""
        stated = (each for each in self.stated if isinstance(each, TimedFact) and each.span is not None)
        same = (each for each in stated if (each.predicate, each.values) == (fact.predicate, fact.values))
        return [each.span for each in same if each.span and each.interval.meets(fact.interval)]

    def remaining(self, engine: ColumnarEngine, holds: Callable[[TimedFact], bool]) -> Iterator[Fact]:
        """Yield the facts of the program that are still explicit; `holds` answers for those with times."""
        for fact in self.stated[: self._loaded]:
            if isinstance(fact, TimedFact) and holds(fact):
                yield fact
        for name, facts, batch in _batches(self.stated[: self._loaded]):
            columns = [engine.storage.dictionary.encode_column(column) for column in batch.columns]
            standing = engine.storage.row_flags(name, columns, len(facts))
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
