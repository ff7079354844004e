"""What a process does to find out what a query costs: by tidelog's strategies, and by peers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.peers.outcome import Outcome
from benchmarks.program import read_imports
from benchmarks.questions import OTHERS, QUESTIONS, REACHED, Question, bound
from benchmarks.record import Counts, Measurement, Task
from benchmarks.workloads import ASKED, Prepared, prepare

BATCHES = 10
OTHER_BATCHES = (2, 50)
START = 0  # the node that paths begin at


@dataclass(frozen=True)
class Arrived:
    """A batch of facts: what it cost to take it in and to answer, and how many answers there were."""

    cpu_s: float
    tuples: int


def ask(task: Task) -> Measurement:
    """The cost of a query, from the first file to the number of answers."""
    prepared = prepare(ASKED[task.workload], task.facts)
    question = QUESTIONS[task.workload][task.size]
    query = question.about(START)
    counts: Counts = {"facts": prepared.facts, "query": query, "bound": bound(query)}
    if task.engine != "tidelog":
        outcome, cpu, wall = timed(PEERS[task.engine](prepared, task.threads))
    else:
        asked = Asked.of(prepared, question, task)
        outcome, cpu, wall = timed(asked.once)
        counts |= asked.further()
        if task.variant != "rules":  # they are slow in keeping closures right, which is not asked here
            counts |= arrivals(asked.in_batches)
    return Measurement(
        cpu_s=cpu,
        wall_s=wall,
        tuples=outcome.tuples,
        peak_rss_mb=peak_megabytes(),
        load_s=outcome.load_s,
        reason_s=outcome.reason_s,
        counts=counts,
    )


def arrivals(batches: Callable[[int], list[Arrived]]) -> Counts:
    """What it costs to ask after each of some batches, and in all with larger and smaller ones."""
    usual = batches(BATCHES)
    each = {f"batch_{number}_s": one.cpu_s for number, one in enumerate(usual, 1)}
    others = {f"in_{number}_batches_s": sum(one.cpu_s for one in batches(number)) for number in OTHER_BATCHES}
    return {
        "batches": BATCHES,
        "batches_s": sum(one.cpu_s for one in usual),
        "batches_tuples": sum(one.tuples for one in usual),
        **each,
        **others,
    }


# ---- tidelog


@dataclass
class Asked:
    """A query of a workload by a strategy: once, about other things, while facts arrive. Mutable."""

    prepared: Prepared
    question: Question
    task: Task
    tables: Mapping[str, Any]
    program: Any

    @staticmethod
    def of(prepared: Prepared, question: Question, task: Task) -> Asked:
        import tidelog
        import tidelog.reasoner.reasoner  # here, so that no measurement has it
        from benchmarks.updates import explicit_facts  # not for processes that measure peers

        program = tidelog.parse(without_imports(prepared))
        return Asked(prepared, question, task, explicit_facts(prepared).tables, program)

    @property
    def strategy(self) -> str:
        return "full" if self.task.variant == "rules" else self.task.variant

    def reasoner(self, program: Any, **options: Any) -> Any:
        import tidelog

        modules = self.task.variant != "rules"
        return tidelog.Reasoner(program, threads=self.task.threads, modules=modules, **options)

    def once(self) -> Outcome:
        """What it takes to read all facts, and to answer about the first thing."""
        import tidelog
        from tidelog.engine.events import Event, FactsLoaded

        marks = [cpu_seconds()]

        def listen(event: Event) -> None:
            if isinstance(event, FactsLoaded) and " " not in event.relation:
                marks.append(cpu_seconds())

        self.asking = self.reasoner(tidelog.load(self.prepared.program), listeners=[listen])
        tuples = len(self.asking.query(self.question.about(START), self.strategy))
        return Outcome(tuples, marks[-1] - marks[0], cpu_seconds() - marks[-1])

    def further(self) -> Counts:
        """What the same query takes again, and about other things, in the median; prepared ones too."""
        if not self.question.is_bound:
            return {}
        ask = self.asking.query
        counts: Counts = {
            "again_s": middle([lambda: ask(self.question.about(START), self.strategy)] * OTHERS),
            "further_s": middle([partial(ask, self.question.about(n), self.strategy) for n in others()]),
        }
        if self.strategy == "magic" and self.question == REACHED[1]:
            query = self.asking.prepare(self.question.text.format("$from"))
            query(START)
            counts["prepared_s"] = middle([partial(query, number) for number in others()])
            query.close()
        return counts

    def in_batches(self, batches: int) -> list[Arrived]:
        """What it takes to ask after each of several batches."""
        reasoner, query = self.reasoner(self.program), self.question.about(START)
        live = reasoner.watch(query) if self.strategy == "magic" else None
        arrived = []
        for number in range(batches):
            begin = cpu_seconds()
            for predicate, table in self.tables.items():
                first, last = (place * table.num_rows // batches for place in (number, number + 1))
                arrive(reasoner, predicate, table.slice(first, last - first))
            tuples = len(live.answers if live is not None else reasoner.query(query, self.strategy))
            arrived.append(Arrived(cpu_seconds() - begin, tuples))
        return arrived


def arrive(reasoner: Any, predicate: str, table: Any) -> None:
    """Add facts, whose texts are read as the columns of the predicate want it."""
    from tidelog.data.columns import Batch, Column
    from tidelog.logic.values import ColumnType

    types = reasoner.predicates()[predicate].types
    if ColumnType.ANY in types:
        columns = tuple(Column(ColumnType.ANY, column.combine_chunks()) for column in table.columns)
        reasoner.load(predicate, [Batch(columns, table.num_rows)])
    else:
        reasoner.insert(predicate, table)


def others() -> range:
    """The numbers of other things."""
    return range(START + 1, START + 1 + OTHERS)


def middle(works: Sequence[Callable[[], object]]) -> float:
    """The median of what each takes."""
    return statistics.median(timed(work)[1] for work in works)


def without_imports(prepared: Prepared) -> str:
    """The program, its facts to come from elsewhere."""
    text = prepared.program.read_text(encoding="utf-8")
    declared = []
    for each in read_imports(text):
        columns = (f"c{place}: {kind}" for place, kind in enumerate(each.types))
        declared.append(f"@declare {each.predicate}({', '.join(columns)}) .")
    kept = [line for line in text.splitlines() if not line.startswith("@import")]
    return "\n".join([*declared, *kept])


# ---- peers: what one node reaches


def ready_duckdb(prepared: Prepared, threads: int) -> Callable[[], Outcome]:
    """A recursive query that begins at the node."""
    import duckdb

    from benchmarks.peers.duckdb import set_up

    duckdb.connect().execute("SELECT 1").close()

    def work() -> Outcome:
        with duckdb.connect() as connection:
            set_up(connection, prepared.folder, threads)
            row = connection.execute(
                f"""
                CREATE TEMP TABLE edge AS FROM edges('edge.tsv');
                WITH RECURSIVE reached(y) AS (
                    SELECT y FROM edge WHERE x = {START}
                    UNION
                    SELECT edge.y FROM reached JOIN edge ON reached.y = edge.x
                )
                SELECT count(*) FROM reached
                """
            ).fetchone()
        assert row is not None
        return Outcome(int(row[0]))

    return work


def ready_clingo(prepared: Prepared, threads: int) -> Callable[[], Outcome]:
    """The rules with the node pushed into them by hand, as clingo has no magic sets; grounding only."""
    import clingo

    clingo.Control().ground([("base", [])])
    rules = f"reached(Y) :- edge({START}, Y). reached(Z) :- reached(Y), edge(Y, Z)."

    def work() -> Outcome:
        control = clingo.Control(["--warn=none"])
        with (prepared.folder / "edge.tsv").open() as lines:
            facts = "".join(f"edge({line.strip().replace(chr(9), ',')})." for line in lines)
        control.add("base", [], facts + rules)
        control.ground([("base", [])])
        return Outcome(sum(1 for _ in control.symbolic_atoms.by_signature("reached", 1)))

    return work


def ready_pydatalog(prepared: Prepared, threads: int) -> Callable[[], Outcome]:
    """The rules as they stand, asked with the node bound."""
    from pyDatalog import pyDatalog

    text = prepared.program.read_text(encoding="utf-8")
    is_left = "path(?x, ?y), edge" in text
    step = "path(X, Y) & edge(Y, Z)" if is_left else "edge(X, Y) & path(Y, Z)"

    def work() -> Outcome:
        pyDatalog.clear()
        with (prepared.folder / "edge.tsv").open() as lines:
            for line in lines:
                pyDatalog.assert_fact("edge", *map(int, line.split()))
        pyDatalog.load(f"path(X, Y) <= edge(X, Y)\npath(X, Z) <= {step}")
        return Outcome(len(pyDatalog.ask(f"path({START}, Y)").answers))

    return work


PEERS: Mapping[str, Callable[[Prepared, int], Callable[[], Outcome]]] = {
    "duckdb": ready_duckdb,
    "clingo": ready_clingo,
    "pydatalog": ready_pydatalog,
}
