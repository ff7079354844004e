"""What was set out to be reached, by suite, against what records say; as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.plain import ratio_text, seconds_text
from benchmarks.record import Record

HANDS = ("auto", "recompute")
MARKED = ((("P_trans",), 1.0), (("P_seq",), 0.9), (("track0", "track1", "track2"), 1.0))
COMPLETE = "45,899"  # facts of temporal LUBM after 30 rounds
LATER = 10  # the round from which on procedures are compared
BY_DUCKDB = {"W9": 1, "W9-doubles": 1, "W10": 1, "W11-interest": 0.5, "W11-parts": 0.5}
SWEPT = ("W1", "W4", "W5", "W6", "cliques")


@dataclass(frozen=True)
class Target:
    """A figure to be reached, the one measured, and whether that is enough; None: it was not measured."""

    what: str
    limit: str
    measured: str
    is_reached: bool | None


class Figures:
    """Records found by what they are of."""

    def __init__(self, records: Iterable[Record]) -> None:
        done = [record for record in records if record.is_done]
        self.found = {(r.suite, r.workload, r.variant, r.size): r for r in done}
        self._asked = {(r.workload, r.variant or r.engine, r.size): r for r in done if r.suite == "query"}
        self._computed = {(r.workload, r.engine, r.size): r for r in done if r.suite == "values"}
        self._reasoned = {(r.variant or r.engine, r.size): r for r in done if r.suite == "ontology"}

    def maintained(self, workload: str, variant: str, size: int) -> Record | None:
        return self.found.get(("maintain", workload, variant, size))

    def asked(self, workload: str, who: str, free: int) -> Record | None:
        """What a query cost by a strategy or a peer."""
        return self._asked.get((workload, who, free))

    def unbound(self) -> Iterator[tuple[str, Record, Record]]:
        """The workloads with all arguments free, by `full` and by `auto`."""
        for workload in dict.fromkeys(name for name, _, _ in self._asked):
            free = max(size for name, _, size in self._asked if name == workload)
            full, auto = (self.asked(workload, who, free) for who in ("full", "auto"))
            if free > 1 and full is not None and auto is not None:
                yield workload, full, auto

    def spark(self, workload: str, variant: str, size: int) -> Record | None:
        return self.found.get(("spark", workload, variant, size))

    def of(self, suite: str, workload: str, variant: str) -> Record | None:
        """What was measured at the largest size."""
        own = [key for key in self.found if key[:3] == (suite, workload, variant)]
        return self.found[max(own, key=lambda key: key[3])] if own else None

    def over_time(self, workload: str, variant: str, size: int) -> Record | None:
        return self.found.get(("temporal", workload, variant, size))

    def in_turns(self) -> list[tuple[float, str]]:
        """How two procedures over time compare that took turns, for each size."""
        own = [record for key, record in self.found.items() if key[:2] == ("temporal", "turns")]
        return [(float(record.counts["ratio"]), f"{record.size:,} facts") for record in own]

    def reasoned(self, who: str, size: int) -> Record | None:
        """What OWL 2 RL over so many triples cost, by a variant of ours or a peer."""
        return self._reasoned.get((who, size))

    def computed(self, workload: str, engine: str) -> Iterator[Record]:
        """What a job with values cost an engine, the smallest size first."""
        own = [key for key in self._computed if key[:2] == (workload, engine)]
        return (self._computed[key] for key in sorted(own))

    def single(self, workload: str, size: int) -> Record | None:
        """What a job with values of one size cost tidelog."""
        return self._computed.get((workload, "tidelog", size))

    def equated(self, workload: str, variant: str) -> Record | None:
        """What deleting 100 facts cost, with equality."""
        return self.found.get(("equality", workload, variant, 100))

    def points(self, workload: str) -> Iterator[tuple[int, dict[str, Record]]]:
        """The sizes of a sweep, and the record of each maintainer there."""
        own = [key for key in self.found if key[:2] == ("maintain", workload)]
        for size in sorted({key[3] for key in own}):
            yield size, {key[2]: self.found[key] for key in own if key[3] == size}


def targets(records: Sequence[Record]) -> list[Target]:
    """All targets, in the order in which they were set."""
    figures = Figures(records)
    return [
        *single_facts(figures),
        faster(figures, "W5", 100, 300),
        faster(figures, "W1", 1, 200),
        *never_much_slower(figures),
        cut(figures),
        heaviest(figures),
        *(drift(figures, name) for name in ("drift", "drift-W1")),
        *(marking(figures, names, limit) for names, limit in MARKED),
        *asking(figures),
        *on_spark(figures),
        *equating(figures),
        *reasoning(figures),
        *explaining(figures),
        *storing(figures),
        *over_time(figures),
        *computing(figures),
    ]


def asking(figures: Figures) -> Iterator[Target]:
    """What queries were to cost; without reading the facts, except beside DuckDB."""
    for workload in ("W7L", "W7R"):
        own, other = figures.asked(workload, "magic", 1), figures.asked(workload, "duckdb", 1)
        measured = own.cpu_s / other.cpu_s if own and other else None
        yield at_most(f"{workload}: `magic` by DuckDB's query pushed by hand", 1.5, measured, ratio_text)
    for workload in ("friends", "friends-left", "facebook", "facebook-left"):
        rules, magic = (answering(figures.asked(workload, who, 1)) for who in ("rules", "magic"))
        measured = rules / magic if rules and magic else None
        yield at_least(f"{workload}: `magic` times faster than everything by rules", 2000, measured)
    yield from answered_at_once(figures)
    linear, other_rules = (
        answering(figures.asked(name, "magic", 1)) for name in ("rmat1k", "rmat1k-nonlinear")
    )
    measured = other_rules / linear if linear and other_rules else None
    yield at_most("RMAT1K: nonlinear by linear rules, `magic`", 3, measured, ratio_text)
    ratios = [(auto.cpu_s / full.cpu_s, name) for name, full, auto in figures.unbound()]
    yield worst("nothing bound: `auto` by `full`", 1.1, ratios)


def answered_at_once(figures: Figures) -> Iterator[Target]:
    """What a query costs once there are tables or bindings: the first one waits for plans and indexes."""
    for workload in ("lubm-rdfs", "lubm-owl"):
        own, full = figures.asked(workload, "tabling", 0), answering(figures.asked(workload, "full", 0))
        first, further = answering(own), float(own.counts["further_s"]) if own else None
        words = f"{workload}, ground: `tabling` times faster than everything"
        yield at_least(words, 1000, full / further if full and further else None)
        if full and first:
            yield Target(f"{words}, when it is the first", "", ratio_text(full / first), None)
    for workload in ("facebook", "friends"):
        own = figures.asked(workload, "magic", 1)
        measured = float(own.counts["prepared_s"]) if own else None
        yield at_most(f"{workload}: a prepared query's further binding", 0.001, measured, seconds_text)


def answering(record: Record | None) -> float | None:
    return None if record is None else record.reason_s


def single_facts(figures: Figures) -> Iterator[Target]:
    record = figures.maintained("W5", "auto", 1)
    asked: list[tuple[str, float, Callable[[Record], float | None]]] = [
        ("deleted, median", 0.0002, lambda found: found.cpu_s),
        ("deleted, 99th percentile", 0.002, lambda found: found.p99_s),
        ("added, median", 0.0002, lambda found: float(found.counts["add_cpu_s"])),
        ("added, 99th percentile", 0.002, lambda found: float(found.counts["add_p99_s"])),
    ]
    for words, limit, figure in asked:
        measured = figure(record) if record else None
        yield at_most(f"W5, one fact {words}", limit, measured, seconds_text)


def faster(figures: Figures, workload: str, size: int, limit: int) -> Target:
    """How many times faster than recomputation `auto` deletes."""
    own, other = (figures.maintained(workload, name, size) for name in HANDS)
    measured = other.cpu_s / own.cpu_s if own and other else None
    return at_least(f"{workload}, {size:,} deleted, times faster than `recompute`", limit, measured)


def never_much_slower(figures: Figures) -> Iterator[Target]:
    """The worst points of the sweep, `auto` by the best maintainer and by recomputation."""
    by_best, by_recompute = [], []
    for workload in SWEPT:
        for size, found in figures.points(workload):
            if "auto" in found and len(found) > 1:
                for words, seconds in (("deleted", deleting), ("added", adding)):
                    own = seconds(found["auto"])
                    best = min(seconds(record) for record in found.values())
                    point = f"{workload}, {size:,} {words}"
                    by_best.append((own / best, point))
                    if "recompute" in found:
                        by_recompute.append((own / seconds(found["recompute"]), point))
    yield worst("every point: `auto` by the best maintainer", 1.5, by_best)
    yield worst("every point: `auto` by `recompute`", 1.2, by_recompute)


def deleting(record: Record) -> float:
    return record.cpu_s


def adding(record: Record) -> float:
    return float(record.counts["add_cpu_s"])


def worst(what: str, limit: float, ratios: Sequence[tuple[float, str]]) -> Target:
    if not ratios:
        return Target(what, f"≤ {limit:g}", "not measured", None)
    ratio, point = max(ratios)
    missed = sum(one > limit for one, _ in ratios)
    words = f"{ratio_text(ratio)} at the worst ({point}); {len(ratios) - missed} of {len(ratios)} within"
    return Target(what, f"≤ {limit:g}", words, missed == 0)


def cut(figures: Figures) -> Target:
    own, other = (figures.maintained("cut", name, 1) for name in ("auto", "dred"))
    measured = other.cpu_s / own.cpu_s if own and other else None
    return at_least("a 300-clique cut in the middle, times faster than `dred`", 100, measured)


def heaviest(figures: Figures) -> Target:
    """The most bytes that counters and ranks take for each fact, on any workload."""
    found = [
        float(record.counts["bytes_per_fact"])
        for key, record in figures.found.items()
        if key[0] == "maintain" and "bytes_per_fact" in record.counts
    ]
    return at_most("counters and ranks, bytes a fact", 12, max(found, default=None), "{:.1f}".format)


def drift(figures: Figures, workload: str) -> Target:
    record = next((r for k, r in figures.found.items() if k[:3] == ("maintain", workload, "auto")), None)
    measured = float(record.counts["drift"]) if record else None
    name = "W1" if workload.endswith("W1") else "W5"
    return at_most(f"drift after 10,000 updates, {name}", 1.2, measured, ratio_text)


def marking_ratio(old: Record, new: Record) -> float:
    """Time with marks by time without, measured in turns where that was done."""
    return float(new.counts.get("ratio", new.cpu_s / old.cpu_s))


def marking(figures: Figures, workloads: tuple[str, ...], limit: float) -> Target:
    """The worst size or track, time with linked marks by time without."""
    ratios = []
    for (suite, workload, variant, size), old in figures.found.items():
        if suite == "stream" and workload in workloads and variant == "backward-forward/none":
            new = figures.found.get((suite, workload, "backward-forward/linked", size))
            if new is not None:
                ratios.append((marking_ratio(old, new), f"{workload} {size or ''}".strip()))
    name = workloads[0] if len(workloads) == 1 else "tracks"
    return worst(f"{name}: linked marking by none", limit, ratios)


def on_spark(figures: Figures) -> Iterator[Target]:
    """Ratios are of CPU seconds of all processes; what is waited for is of wall seconds on two cores."""
    small, large = (figures.spark("W5", "pipeline", size) for size in (1_000_000, 4_000_000))
    plain = figures.spark("W5", "plain-read-distinct-write", 1_000_000)
    yield at_most("Spark, W5: pipeline by a plain job", 4, quotient(small, plain), ratio_text)
    yield at_most("Spark, W5: pipeline over 4 M facts by 1 M", 4.6, quotient(large, small), ratio_text)
    changed = figures.spark("update", "pipeline", 1_000_000)
    waited = changed.wall_s if changed else None
    yield at_most("Spark, 10 facts changed and 1 M published", 3, waited, seconds_text)


def reasoning(figures: Figures) -> Iterator[Target]:
    """OWL 2 RL over a million triples; owlrl, which needs half an hour for these, also where it was run.

    Everything counts on both sides, from the files to all triples in the hands of Python.
    """
    waited = [size for size in (100_000, 300_000) if figures.reasoned("owlrl", size)]
    asked = [("reasonable", 1_000_000, 10), *(("owlrl", size, 500) for size in (*waited, 1_000_000))]
    for peer, size, limit in asked:
        for variant in ("specialised", "tables"):
            times = quotient(figures.reasoned(peer, size), figures.reasoned(variant, size))
            words = f"OWL 2 RL, {size:,} triples, {variant}: times faster than {peer}"
            yield at_least(words, limit, times)


def explaining(figures: Figures) -> Iterator[Target]:
    """What a proof was to cost, once everything is derived."""
    for workload in ("W5", "W1"):
        record = figures.of("explain", workload, "why")
        measured = float(record.counts["median_ms"]) / 1000 if record else None
        yield at_most(f"a proof in {workload}, median", 0.01, measured, seconds_text)


def storing(figures: Figures) -> Iterator[Target]:
    """What stores were to cost; commits are of one fact each, to a store of a million."""
    committed = figures.of("store", "pairs", "commit")
    rate = float(committed.counts["commits_per_s"]) if committed else None
    yield at_least("commits of one fact, durable, a second", 500, rate)
    floors = float(committed.counts["by_floor"]) if committed else None
    words = "a commit without its maintenance, by what the disk takes"
    yield at_most(words, 1.5, floors, ratio_text)
    opened, derived = (figures.of("store", "W5", name) for name in ("open", "materialise"))
    yield at_most("opening W5's store by deriving it", 0.3, quotient(opened, derived), ratio_text)
    pairs = figures.of("store", "pairs", "open")
    size = float(pairs.counts["bytes_per_fact"]) if pairs else None
    yield at_most("a snapshot of pairs of integers, bytes a fact", 16, size, "{:.1f}".format)


def over_time(figures: Figures) -> Iterator[Target]:
    """What rules over time were to cost; deriving only, unless it says otherwise."""
    record = figures.over_time("lubm", "optimised", 20_000)
    own, other = answering(record), answering(figures.over_time("lubm", "opt", 20_000))
    times = other / own if own and other else None
    yield at_least("temporal LUBM, 20 k facts, times faster than MeTeoR's optimised mode", 100, times)
    found = None if record is None else f"{record.tuples:,}"
    is_complete = None if found is None else found == COMPLETE
    yield Target("the same, facts found", COMPLETE, found or "not measured", is_complete)
    yield worst("rounds from the 10th on: `optimised` by `seminaive`, in turns", 1, figures.in_turns())
    yield worst("the same: `seminaive` by `naive`", 1, list(later_rounds(figures, "seminaive", "naive")))
    large = figures.over_time("lubm", "optimised", 10_000_000)
    memory = None if large is None else large.peak_rss_mb / 1074
    yield at_most("temporal LUBM, 10 M facts, 15 rounds, GiB", 24, memory, "{:.1f}".format)
    few, many = (figures.over_time("lubm", "optimised", size) for size in (200_000, 1_000_000))
    yield at_most("temporal LUBM, 1 M facts by 200 k", 6.5, quotient(many, few), ratio_text)
    for workload in ("sensors", "lubm"):
        new, kept = (
            figures.over_time(f"{workload}-changes", variant, 100) for variant in ("recompute", "maintained")
        )
        words = f"{workload}, 100 of 1 M facts deleted, times faster than deriving anew"
        yield at_least(words, 50, quotient(new, kept))
    stream = figures.over_time("stream", "advance", 1_000_000)
    growth = None if stream is None else float(stream.counts["growth"])
    yield at_most("a stream, memory after 1 M events by that after 500 k", 1.1, growth, ratio_text)


def later_rounds(figures: Figures, better: str, slower: str) -> Iterator[tuple[float, str]]:
    """The time that one procedure spends in later rounds, by that of another."""
    for (suite, workload, variant, size), record in figures.found.items():
        other = figures.over_time(workload, slower, size)
        if suite == "temporal" and workload == "lubm" and variant == better and other is not None:
            yield later_seconds(record) / later_seconds(other), f"{size:,} facts"


def later_seconds(record: Record) -> float:
    """The CPU seconds of the later rounds."""
    ends = str(record.counts["seconds_by_round"]).split()
    return float(ends[-1]) - float(ends[LATER - 2])


def computing(figures: Figures) -> Iterator[Target]:
    """What jobs with values were to cost, from files to files, and changes of a million order lines."""
    for workload, limit in BY_DUCKDB.items():
        peers = {record.size: record for record in figures.computed(workload, "duckdb")}
        own = [record for record in figures.computed(workload, "tidelog") if record.size in peers]
        times = [(record.cpu_s / peers[record.size].cpu_s, f"{record.size:,}") for record in own]
        yield worst(f"{workload}: CPU by DuckDB's", limit, times)
        memory = [(record.peak_rss_mb / peers[record.size].peak_rss_mb, f"{record.size:,}") for record in own]
        yield worst(f"{workload}: peak memory by DuckDB's", 1.2, memory)
    pairs, rounds = figures.single("W12", 3_000), figures.single("W13", 1_000_000)
    yield at_most("W12, amicable numbers below 3,000", 2, pairs.cpu_s if pairs else None, seconds_text)
    measured = rounds.cpu_s / rounds.size if rounds else None
    yield at_most("W13, a round of a million", 2e-6, measured, seconds_text)
    for lines, limit in ((1, 0.00005), (1_000, 0.006)):
        changed = figures.found.get(("values", "changes", "auto", lines))
        measured = changed.cpu_s if changed else None
        yield at_most(f"W9, lines changed: {lines:,}", limit, measured, seconds_text)


def equating(figures: Figures) -> Iterator[Target]:
    """Deletions of 100 facts with equality, and what deriving everything takes beside axioms."""
    words = "equality, {}, 100 deletions: times faster than {}"
    for workload in ("uobm", "lubm", "cliques", "uobm-5m"):
        own, anew = (figures.equated(workload, f"rewrite-{way}") for way in ("maintain", "recompute"))
        yield at_least(words.format(workload, "deriving anew"), 100, quotient(anew, own))
    for workload in ("uobm", "uobm-100k", "lubm", "cliques"):
        own = figures.equated(workload, "rewrite-maintain")
        axioms = figures.equated(workload, "axiomatise-backward-forward")
        yield at_least(words.format(workload, "B/F by axioms"), 10, quotient(axioms, own))
    for workload in ("uobm", "uobm-100k"):
        own, axioms = (figures.equated(workload, f"{way}-recompute") for way in ("rewrite", "axiomatise"))
        classes = f"equality, {workload}, classes of 6: times"
        yield at_least(f"{classes} faster derived than by axioms", 3, quotient(axioms, own))
        smaller = float(axioms.counts["kept"]) / float(own.counts["kept"]) if own and axioms else None
        yield at_least(f"{classes} fewer facts than by axioms", 3, smaller)


def quotient(own: Record | None, other: Record | None) -> float | None:
    return own.cpu_s / other.cpu_s if own and other else None


def at_most(what: str, limit: float, measured: float | None, write: Callable[[float], str]) -> Target:
    if measured is None:
        return Target(what, f"≤ {write(limit)}", "not measured", None)
    return Target(what, f"≤ {write(limit)}", write(measured), measured <= limit)


def at_least(what: str, limit: float, measured: float | None) -> Target:
    if measured is None:
        return Target(what, f"≥ {limit:g}", "not measured", None)
    return Target(what, f"≥ {limit:g}", ratio_text(measured), measured >= limit)


def targets_table(records: Sequence[Record]) -> str:
    """The targets as a Markdown table."""
    words = {True: "yes", False: "**no**", None: "–"}
    rows = [f"| {t.what} | {t.limit} | {t.measured} | {words[t.is_reached]} |" for t in targets(records)]
    return "\n".join(["| target | to reach | measured | reached |", "|---|---|---|---|", *rows])
