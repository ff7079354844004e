"""The reasoner: a program, its facts, and everything that follows. Mutates itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from tidelog import compiled
from tidelog.engine import fixpoint
from tidelog.engine.columnar import warm
from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.engine.events import Event, FactsLoaded, Listener, Notice, Tally
from tidelog.engine.limits import Limits
from tidelog.errors import Diagnostic, EvaluationError, Inconsistent, ProgramError, Source, suggest
from tidelog.io.columns import Batch, column_of_values
from tidelog.io.faults import Faults, OnError
from tidelog.io.formats import data_files
from tidelog.io.objects import from_python
from tidelog.io.source import data_file, predicate_of
from tidelog.io.tables import read, read_import
from tidelog.logic.builtins import Overflow
from tidelog.logic.program import BOTTOM, Fact, Predicate, Program
from tidelog.logic.resolve import EMPTY, extend, resolve_query
from tidelog.logic.strata import Stratum, strata
from tidelog.logic.values import ColumnType
from tidelog.plan.compile import full_plan
from tidelog.plan.join_order import Statistics
from tidelog.relation import Relation
from tidelog.syntax.parser import parse, parse_literals

ENGINES = ("columnar",)
ANSWER = "?- answers"  # a name with a space is no predicate's


class Reasoner:
    """Facts, rules, and all that follows from them.

    >>> import tidelog as tl
    >>> reasoner = tl.Reasoner(tl.parse('''
    ...     ancestor(?x, ?y) :- parent(?x, ?y) .
    ...     ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .
    ... '''))
    >>> reasoner.insert("parent", [("alice", "bob"), ("bob", "carol")])
    2
    >>> reasoner.materialise()
    >>> reasoner.query("ancestor(alice, ?who)")
    ancestor(alice, ?who): 2 rows
      who
      bob
      carol
    """

    def __init__(
        self,
        program: Program = EMPTY,
        *,
        engine: str = "columnar",
        threads: int | None = None,
        timeout: float | None = None,
        max_facts: int | None = None,
        on_error: OnError | str = OnError.FAIL,
        rejects: Path | str = "rejects.csv",
        listeners: Iterable[Listener] = (),
    ) -> None:
        if engine not in ENGINES:
            message = f"there is no engine `{engine}`"
            raise ProgramError(Diagnostic("E620", message, help=suggest(engine, ENGINES) or "use `columnar`"))
        self.program = program
        self.statistics = Tally()
        self.faults = Faults(OnError(on_error), Path(rejects))
        self.timeout = timeout
        self.max_facts = max_facts
        self.started: float | None = None  # monotonic time that the timeout counts from, else each call's own
        self._listeners: list[Listener] = [self.statistics, *listeners]
        binary = sum(predicate.arity == 2 for predicate in program.predicates.values())
        self._engine = ColumnarEngine(threads, binary)
        self._loaded_facts = 0
        self._loaded_imports = 0
        self._is_materialised = False
        self._was_materialised = False
        for predicate in program.predicates.values():
            self._engine.define(predicate.name, predicate.arity)

    # ---- facts and rules in

    def insert(self, predicate: str, data: object) -> int:
        """Add explicit facts to a predicate; returns how many were new.

        `data` is Arrow data, a polars or pandas data frame, or an iterable of tuples.
        """
        known = self._find(predicate)
        if known is None:
            data, arity = _with_arity(data)
            if arity is None:
                return 0
            known = self._define(predicate, arity)
        # All rows are read before the first is added: a bad one leaves everything as it was.
        batches = list(from_python(data, known.types, known.columns, self.faults))
        return self._load(known.name, batches)

    def read(self, *paths: Path | str, header: bool | None = None) -> int:
        """Add the facts in files, each named after its predicate; a folder stands for its files."""
        new = 0
        for path in data_files([Path(path) for path in paths]):
            name = predicate_of(path, self.program.predicates)
            file = data_file(path, self.program.predicates.get(name), header)
            new += self._load(name, read(file, self.faults, self._engine.threads))
        return new

    def add(self, text: str, *, name: str = "<text>", folder: Path | None = None) -> None:
        """Add the statements of a text to the program: rules, facts, declarations, imports."""
        self.program = extend(parse(Source(name, text)), self.program, folder=folder)
        for predicate in self.program.predicates.values():
            self._engine.define(predicate.name, predicate.arity)
        self._is_materialised = False

    def _load(self, name: str, batches: Iterable[Batch]) -> int:
        """Load batches of explicit facts."""
        new = 0
        limits = self._limits()
        with limits.guarding():
            self._compile_once()
            start = perf_counter()
            for batch in batches:
                if name not in self.program.predicates:
                    self._define(name, len(batch.columns))
                added = self._engine.load(name, batch)
                new += added
                if added:
                    self._is_materialised = False
                end = perf_counter()
                self._tell(FactsLoaded(name, batch.rows, added, end - start))
                start = end
                limits.check()
        return new

    def _define(self, name: str, arity: int) -> Predicate:
        """Make known a predicate that the program does not mention."""
        types = (ColumnType.ANY,) * arity
        predicate = Predicate(name, arity, (None,) * arity, types, name)
        predicates = {**self.program.predicates, name: predicate}
        self.program = replace(self.program, predicates=predicates)
        self._engine.define(name, arity)
        return predicate

    # ---- deriving

    def materialise(self) -> None:
        """Derive everything that follows; does nothing if nothing has changed since the last time."""
        if self._is_materialised:
            return
        self.statistics.clear()
        limits = self._limits()
        with limits.guarding():
            self._compile_once()
            if self._was_materialised:
                self._engine.forget_derived(self.program.derived)
            self._load_program()
            self._engine.check = limits.check  # loading has had limits of its own
            self._was_materialised = True
            self._engine.begin(self._engine.relations())
            numbers = {id(rule): place for place, rule in enumerate(self.program.rules)}
            fixpoint.materialise(self.strata, numbers, self._engine, self._tell, limits.check)
        self._check_consistency()
        self._is_materialised = True

    @property
    def strata(self) -> tuple[Stratum, ...]:
        """The program's strata, in the order in which they are derived."""
        return strata(self.program.rules, self.program.predicates)

    @property
    def sizes(self) -> Statistics:
        """What join orders are decided on: the sizes of relations and of their columns."""
        return self._engine

    def _limits(self) -> Limits:
        """The limits of what begins now, which the engine checks from now on."""
        limits = Limits(self.statistics, self.timeout, self.max_facts, self.started)
        self._engine.check = limits.check
        return limits

    def _compile_once(self) -> None:
        if not compiled.is_warm():
            self._tell(Notice("compiling kernels for this machine: about 15 s, this once"))
            warm.compile_kernels()

    def _load_program(self) -> None:
        """Load the facts that the program states and imports, those that were not loaded before."""
        facts = self.program.facts[self._loaded_facts :]
        for name, batch in _fact_batches(facts):
            self._load(name, [batch])
        self._loaded_facts = len(self.program.facts)
        for transfer in self.program.imports[self._loaded_imports :]:
            predicate = self.program.predicates[transfer.predicate]
            self._load(predicate.name, read_import(transfer, predicate, self.faults, self._engine.threads))
            self._loaded_imports += 1

    def _check_consistency(self) -> None:
        if BOTTOM not in self._engine.relations() or not self._engine.size(BOTTOM):
            return
        for number, rule in enumerate(self.program.rules):
            done = self.statistics.rules.get(number)
            if rule.head.predicate == BOTTOM and done is not None and done.matches:
                name = f" by the rule {rule.name!r}" if rule.name else ""
                raise Inconsistent(Diagnostic("E601", f"inconsistent: bottom() derived{name}", rule.span))
        raise Inconsistent(Diagnostic("E601", "inconsistent: the program states bottom()"))

    # ---- asking

    def __getitem__(self, name: str) -> Relation:
        """All facts of a predicate, derived ones included."""
        predicate = self._find(name)
        if predicate is None:
            known = [known.written for known in self.program.predicates.values()]
            message = f"there is no predicate `{name}`"
            raise ProgramError(Diagnostic("E621", message, help=suggest(name, known)))
        self.materialise()
        columns, rows = self._engine.rows(predicate.name)
        return Relation(predicate.written, column_names(predicate), columns, rows, self._engine.dictionary)

    def query(self, text: str) -> Relation:
        """The answers to a query such as `ancestor(alice, ?x)`: one column per variable."""
        literals = parse_literals(Source("<query>", text))
        query = resolve_query(literals, self.program, text)
        self.materialise()
        engine = self._engine
        engine.define(ANSWER, len(query.rule.head.terms))
        try:
            with self._limits().guarding():
                engine.prepare(full_plan(query.rule, -1, engine, ANSWER))()
            columns, rows = engine.rows(ANSWER)
        except Overflow as overflow:
            raise EvaluationError(Diagnostic("E603", str(overflow), help=f"in the query {text}")) from None
        finally:
            engine.drop(ANSWER)
        return Relation(text.strip(), query.variables, columns, rows, engine.dictionary)

    def predicates(self) -> Mapping[str, Predicate]:
        """The predicates by their full names."""
        return self.program.predicates

    def __iter__(self) -> Iterator[str]:
        """The names of the predicates."""
        return (predicate.written for predicate in self.program.predicates.values())

    def _find(self, name: str) -> Predicate | None:
        predicate = self.program.predicates.get(name)
        if predicate is not None:
            return predicate
        return next((known for known in self.program.predicates.values() if known.written == name), None)

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def __repr__(self) -> str:
        state = "materialised" if self._is_materialised else "not materialised yet"
        return (
            f"<Reasoner: {len(self.program.rules)} rules, {len(self.program.predicates)} predicates, {state}>"
        )


def prepare() -> None:
    """Load the compiled kernels now, or compile them, rather than when they are first used."""
    warm.compile_kernels()


def column_names(predicate: Predicate) -> tuple[str, ...]:
    """The names of a predicate's columns; `c1`, `c2`… where the program gives none."""
    return tuple(name or f"c{place}" for place, name in enumerate(predicate.columns, 1))


def _with_arity(data: object) -> tuple[object, int | None]:
    """The data, and how many columns it has; None if it has no rows to tell."""
    columns = getattr(data, "columns", None)
    if columns is not None:
        return data, len(columns)
    if hasattr(data, "__arrow_c_stream__"):
        import pyarrow

        table = pyarrow.table(data)
        return table, table.num_columns
    if isinstance(data, Mapping):
        return data, len(data)
    rows = list(data) if isinstance(data, Iterable) else []
    return rows, len(rows[0]) if rows else None


def _fact_batches(facts: Iterable[Fact]) -> Iterator[tuple[str, Batch]]:
    """The stated facts, predicate by predicate."""
    by_predicate: dict[str, list[Fact]] = {}
    for fact in facts:
        by_predicate.setdefault(fact.predicate, []).append(fact)
    for name, stated in by_predicate.items():
        columns = tuple(map(column_of_values, zip(*(fact.values for fact in stated), strict=True)))
        yield name, Batch(columns, len(stated))
