"""What a process does to find out what a query costs: by tidelog's strategies, and by peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.facts import FACEBOOK, LUBM
from benchmarks.peers.outcome import Outcome
from benchmarks.program import read_imports
from benchmarks.record import Counts, Measurement, Task
from benchmarks.workloads import ASKED, Prepared, prepare

BATCHES = 10
OTHER_BATCHES = (2, 50)
START = 0  # the node that paths begin at
PATHS = {0: "path(0, 100)", 1: "path(0, ?y)", 2: "path(?x, ?y)"}
DEPARTMENT = "http://www.Department0.University0.edu"
STUDENT, PROFESSOR = f"{DEPARTMENT}/GraduateStudent1", f"{DEPARTMENT}/FullProfessor0"
QUERIES: Mapping[str, Mapping[int, str]] = {
    **{name: PATHS for name in ASKED if not name.startswith("lubm")},
    "W7L": {1: PATHS[1]},
    "W7R": {1: PATHS[1]},
    "friends": {1: PATHS[1]},
    "friends-left": {1: PATHS[1]},
    "lubm-rdfs": {
        0: f'triple("{STUDENT}", "rdf:type", "ub:Person")',
        2: f'triple("{STUDENT}", ?p, ?o)',
        3: "triple(?s, ?p, ?o)",
    },
    "lubm-owl": {
        0: f'memberOf("{PROFESSOR}", "{DEPARTMENT}")',
        1: f'memberOf(?x, "{DEPARTMENT}")',
        2: "memberOf(?x, ?y)",
    },
}
NEEDED = {
    **dict.fromkeys(("facebook", "facebook-left", "friends", "friends-left"), FACEBOOK),
    "lubm-rdfs": LUBM,
}


@dataclass(frozen=True)
class Arrived:
    """A batch of facts: what it cost to take it in and to answer, and how many answers there were."""

    cpu_s: float
    tuples: int


def is_there(workload: str) -> bool:
    """Whether the data of a workload can be made."""
    return workload not in NEEDED or NEEDED[workload].exists()


def ask(task: Task) -> Measurement:
    """The cost of a query, from the first file to the number of answers."""
    prepared = prepare(ASKED[task.workload], task.facts)
    query = QUERIES[task.workload][task.size]
    counts: Counts = {"facts": prepared.facts, "query": query, "bound": bound(query)}
    if task.engine != "tidelog":
        outcome, cpu, wall = timed(PEERS[task.engine](prepared, task.threads))
    else:
        work, batches = ready_tidelog(prepared, query, task)
        outcome, cpu, wall = timed(work)
        if task.variant != "rules":  # they are slow in keeping closures right, which is not asked here
            counts |= arrivals(batches)
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


def bound(query: str) -> str:
    """The pattern of bindings, `bf` for a first argument that is bound."""
    inner = query[query.index("(") + 1 : query.rindex(")")]
    return "".join("f" if term.strip().startswith("?") else "b" for term in inner.split(","))


# ---- tidelog


def ready_tidelog(
    prepared: Prepared, query: str, task: Task
) -> tuple[Callable[[], Outcome], Callable[[int], list[Arrived]]]:
    """A query asked once of all facts, and one that is asked after each of several batches."""
    import tidelog
    from benchmarks.updates import explicit_facts  # not for processes that measure peers
    from tidelog.engine.events import Event, FactsLoaded

    tidelog.prepare()
    strategy = "full" if task.variant == "rules" else task.variant
    modules = task.variant != "rules"
    tables = explicit_facts(prepared).tables
    rules = tidelog.parse(without_imports(prepared))

    def once() -> Outcome:
        marks = [cpu_seconds()]

        def listen(event: Event) -> None:
            if isinstance(event, FactsLoaded) and " " not in event.relation:
                marks.append(cpu_seconds())

        program = tidelog.load(prepared.program)
        reasoner = tidelog.Reasoner(program, threads=task.threads, modules=modules, listeners=[listen])
        tuples = len(reasoner.query(query, strategy))
        return Outcome(tuples, marks[-1] - marks[0], cpu_seconds() - marks[-1])

    def in_batches(batches: int) -> list[Arrived]:
        reasoner = tidelog.Reasoner(rules, threads=task.threads, modules=modules)
        live = reasoner.watch(query) if strategy == "magic" else None
        arrived = []
        for number in range(batches):
            begin = cpu_seconds()
            for predicate, table in tables.items():
                first, last = (place * table.num_rows // batches for place in (number, number + 1))
                reasoner.insert(predicate, table.slice(first, last - first))
            tuples = len(live.answers if live is not None else reasoner.query(query, strategy))
            arrived.append(Arrived(cpu_seconds() - begin, tuples))
        return arrived

    return once, in_batches


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
