"""Rows that expectations leave out, the guards of a run measured, and programs as a version keeps them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Protocol

from tidelog.data.relation import Relation
from tidelog.errors import DataError, Diagnostic, codes
from tidelog.logic.program import (
    BOTTOM,
    BUILT_IN,
    PRIVATE,
    Atom,
    Constant,
    Negation,
    Predicate,
    Program,
    Rule,
    Variable,
    free_name,
)
from tidelog.logic.strata import entangled
from tidelog.logic.values import ColumnType, string
from tidelog.pipeline.guards import (
    MOST_SAMPLES,
    Drop,
    GuardFinding,
    GuardLimits,
    Guards,
    Measures,
    SourceMeasure,
    Violations,
    check,
    stop_on_failure,
)
from tidelog.pipeline.guards import resolve as resolve_guards
from tidelog.pipeline.inputs import STATED, digest
from tidelog.pipeline.job_settings import Settings
from tidelog.pipeline.job_settings import Source as JobSource
from tidelog.pipeline.version_folder import InputRecord, Manifest, VersionOrigin
from tidelog.plan.rule_text import Writing
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.store_repair import read_rules, write_rules
from tidelog.rewrite.renaming import with_predicates
from tidelog.temporal.timed_relation import TimedRelation

# ---- Rows that expectations leave out: the program that derives what there is without them.
#
# Of a predicate P of which rows are left out, three things are known: P itself, all that is given or derived;
# what is kept, by a rule with a negation for each expectation, which is what other rules read and what is
# published as P; and what is left out, which is published as a table of its own, with the reason.
#
# The predicate of an expectation sees all rows of the predicates that it leaves rows out of, and what is kept
# of all others. Helpers on the way, which have another meaning for it than for other rules, are derived
# twice.

KEPT: Final = "tag:tidelog,kept:"  # followed by a predicate: its rows without those that are left out
_BEFORE: Final = f"{PRIVATE}before:"  # a helper, as the predicate of an expectation sees it
_DROPPED: Final = "_dropped"  # follows the name of a predicate: the rows that are left out
_REASON: Final = "reason"  # the last column of these


def with_drops(program: Program, drops: Sequence[Drop], given: Collection[str]) -> Program:
    """Return a program in which rows are left out; `given` are the predicates that have sources.

    Since rules derive what remains, every engine and every way to maintain facts keeps it right: a row comes
    back when its violation goes. Raise `DataError` where that has no meaning.
    """
    if not drops:
        return program
    kept = {drop.of: KEPT + drop.of for drop in drops}
    faults = list(_faults(program, drops))
    rules: list[Rule] = []
    predicates = dict(program.predicates)
    seers = dict.fromkeys(drop.predicate for drop in drops)
    for rule in program.rules:
        if rule.head.predicate not in seers:
            rules.append(_reading(rule, kept))
    explicit = {*given, *(fact.predicate for fact in program.facts)}
    explicit |= {transfer.predicate for transfer in program.imports}
    for seer in seers:
        whole = {drop.of for drop in drops if drop.predicate == seer}
        helpers = _helpers(program, seer, whole, kept.keys() | seers.keys())
        names = {name: f"{_BEFORE}{seer}:{name}" for name in helpers}
        for name in helpers:
            predicates[names[name]] = replace(predicates[name], name=names[name])
            if name in explicit:
                shown = predicates[name].written
                drop = next(each for each in drops if each.predicate == seer)
                message = f"`{shown}` is given and derived, and `{drop.shown}` sees `{drop.of}` through it"
                help = "give these rows a predicate of their own, and derive this one from it by a rule"
                faults.append(Diagnostic(codes.NO_PREDICATE, message, drop.span, help))
        seen = {name: new for name, new in kept.items() if name not in whole} | names
        for rule in program.rules:
            if rule.head.predicate == seer or rule.head.predicate in names:
                rules.append(_reading(rule, seen, names))
    for of in kept:
        some = [drop for drop in drops if drop.of == of]
        whole_of = program.predicates[of]
        predicates[kept[of]] = replace(whole_of, name=kept[of])
        aside = _aside(whole_of)
        predicates[aside.name] = aside
        rules += _rules_of(whole_of, aside.name, some, program)
    if faults:
        raise DataError(faults)
    made = replace(program, predicates=predicates, rules=tuple(rules))
    _check_strata(program, made, drops)
    return made


def tables_of(program: Program) -> dict[str, Predicate]:
    """Return the predicates that are published, by the names of their tables."""
    return {
        each.written: each
        for each in program.predicates.values()
        if each.name != BOTTOM
        and not each.name.startswith(_BEFORE)
        and KEPT + each.name not in program.predicates
    }


def published_as(name: str, program: Program) -> Predicate:
    """Return the predicate whose rows are published as those of a predicate."""
    return program.predicates.get(KEPT + name) or program.predicates[name]


def aside_of(name: str, program: Program) -> Predicate | None:
    """Return the predicate of the rows of another one that are left out, if any are."""
    return program.predicates.get(name + _DROPPED) if KEPT + name in program.predicates else None


def aside_table(table: str, names: Mapping[str, str]) -> str | None:
    """Return the table of the rows that a version left out of another one, if it did.

    `names` are the full names of predicates that the version has.
    """
    return table + _DROPPED if names.get(table, "").startswith(KEPT) else None


def public_name(name: str) -> str:
    """Return the name by which users know a predicate whose rows are published."""
    return name.removeprefix(KEPT)


def restored_names(then: Program, now: Program) -> Program:
    """Return a program that was read back from its text, with predicates called as today's program does."""
    known = {
        name: replace(each, written=now.predicates[name].written) if name in now.predicates else each
        for name, each in then.predicates.items()
    }
    return replace(then, predicates=known)


def check_rules(before: Program, after: Program) -> None:
    """Raise `DataError` if rules that come read all rows of a predicate of which some are left out."""
    added = set(after.rules) - set(before.rules)
    dropped = {name for name in before.predicates if KEPT + name in before.predicates}
    faults = []
    for rule in added:
        for atom in (*rule.positive, *rule.negated):
            if atom.predicate in dropped:
                shown = before.predicates[atom.predicate].written
                message = (
                    f"a rule that comes with changes reads `{shown}`, of which an [[expect]] leaves rows out"
                )
                faults.append(Diagnostic(codes.NO_PREDICATE, message, rule.span, "write it into the program"))
    if faults:
        raise DataError(faults)


def _faults(program: Program, drops: Sequence[Drop]) -> Iterator[Diagnostic]:
    seers = {drop.predicate for drop in drops}
    for drop in drops:
        if drop.of in BUILT_IN or drop.of in seers:
            why = "is what an [[expect]] leaves rows out by" if drop.of in seers else "is no table"
            message = f"rows of `{drop.of}` cannot be left out: it {why}"
            yield Diagnostic(codes.NO_PREDICATE, message, drop.span)
        name = drop.of + _DROPPED
        if name in program.predicates:
            message = (
                f"rows of `{drop.of}` that are left out are published as `{name}`, which the program has"
            )
            yield Diagnostic(codes.NO_PREDICATE, message, drop.span, "call that predicate otherwise")


def _helpers(program: Program, seer: str, whole: Collection[str], ends: Collection[str]) -> list[str]:
    """Return the predicates through which one sees all rows of others; the search ends at some predicates."""
    body: dict[str, set[str]] = {}
    for rule in program.rules:
        read = (atom.predicate for atom in (*rule.positive, *rule.negated))
        body.setdefault(rule.head.predicate, set()).update(read)
    reached, waiting = {seer}, [seer]
    while waiting:
        for name in body.get(waiting.pop(), ()):
            if name not in reached and name not in ends:
                reached.add(name)
                waiting.append(name)
    found: set[str] = set()
    size = -1
    while size != len(found):
        size = len(found)
        found |= {
            name for name in reached - {seer} if not body.get(name, set()).isdisjoint(found | set(whole))
        }
    return sorted(found)


def _reading(rule: Rule, names: Mapping[str, str], heads: Mapping[str, str] = {}) -> Rule:
    """Return a rule that reads other predicates in place of some, and perhaps derives another one."""
    head = replace(rule.head, predicate=heads.get(rule.head.predicate, rule.head.predicate))
    return replace(with_predicates(rule, names), head=head)


def _aside(whole: Predicate) -> Predicate:
    """Return the predicate of the rows of another one that are left out."""
    reason = free_name(_REASON, set(whole.names))
    return replace(
        whole,
        name=whole.name + _DROPPED,
        written=whole.written + _DROPPED,
        arity=whole.arity + 1,
        columns=(*whole.names, reason),
        types=(*whole.types, ColumnType.STRING),
    )


def _rules_of(whole: Predicate, aside: str, drops: Sequence[Drop], program: Program) -> Iterator[Rule]:
    """Yield the rules of what is kept, and of what is left out, each row with the first reason."""
    terms = tuple(Variable(f"x{place}") for place in range(whole.arity))
    every = Atom(whole.name, terms)
    seen = [_violated(drop, program, terms, number) for number, drop in enumerate(drops)]
    name = f"{whole.written} without what is left out"
    yield Rule(Atom(KEPT + whole.name, terms), (every, *map(Negation, seen)), name=name)
    for number, (drop, atom) in enumerate(zip(drops, seen, strict=True)):
        head = Atom(aside, (*terms, Constant(string(drop.shown))))
        yield Rule(
            head, (every, atom, *map(Negation, seen[:number])), name=f"{whole.written} that is left out"
        )


def _violated(drop: Drop, program: Program, terms: tuple[Variable, ...], number: int) -> Atom:
    """Return the atom of violations: a variable that occurs nowhere else in the rule matches anything."""
    named = dict(drop.pairs)
    places = range(program.predicates[drop.predicate].arity)
    return Atom(
        drop.predicate,
        tuple(terms[named[place]] if place in named else Variable(f"_{number}_{place}") for place in places),
    )


def _check_strata(program: Program, made: Program, drops: Sequence[Drop]) -> None:
    """Raise `DataError` if which rows are left out depends on which are left out."""
    known = {(each.rule.head.predicate, each.predicate) for each in entangled(program.rules)}
    faults = []
    for each in entangled(made.rules):
        if (each.head, each.predicate) in known:
            continue
        for drop in drops:
            if each.predicate == drop.predicate and each.head in (KEPT + drop.of, drop.of + _DROPPED):
                message = (
                    f"rows of `{drop.of}` cannot be left out by `{drop.predicate}`: which rows of "
                    f"`{drop.predicate}` there are depends on which of `{drop.of}` are left out"
                )
                help = (
                    "leave rows out of what is given instead; or derive all of them under another name, and "
                    "expect something of that"
                )
                faults.append(Diagnostic(codes.NO_PREDICATE, message, drop.span, help))
                break
    if faults:
        raise DataError(list({fault.message: fault for fault in faults}.values()))


# ---- The guards of a run: what is measured for them, and the check before anything is published.

_IMPORTED: Final = GuardLimits(allow_empty=True)  # only a [[source]] can say what it allows


class ReadInputs(Protocol):
    """What a run has taken in."""

    inputs: dict[str, InputRecord]

    def newest(self, key: str) -> int | None:
        """Return when the newest file of an input was written, in nanoseconds, if that is known."""


class CandidateRows(Protocol):
    """The facts that a version is to have."""

    def count(self, predicate: Predicate) -> int:
        """Return how many facts a predicate has."""

    def violations(self, predicate: Predicate) -> Violations:
        """Return how many facts a predicate has, and some of them."""


@dataclass(frozen=True)
class ReasonerRows:
    """The facts of a reasoner, of which everything has been derived, perhaps in a transaction that is open.

    `program` is that of the reasoner, or what the transaction makes of it.
    """

    reasoner: Reasoner
    program: Program

    def _relation(self, predicate: Predicate) -> Relation:
        reasoner, name = self.reasoner, predicate.name
        if name in self.program.timed:
            return reasoner.time.relation(predicate)
        listing = reasoner.listing()
        if listing is None:
            columns, count = reasoner.engine.rows(name)
        else:
            listed = listing.rows(name)
            columns, count = listed.columns, listed.count
        return Relation(predicate.written, predicate.names, columns, count, reasoner.engine.dictionary)

    def count(self, predicate: Predicate) -> int:
        """Return how many facts a predicate has."""
        return len(self._relation(predicate))

    def violations(self, predicate: Predicate) -> Violations:
        """Return how many facts a predicate has, and some of them."""
        relation = self._relation(predicate)
        some = relation.head(MOST_SAMPLES)
        rows = some if isinstance(some, TimedRelation) else some.to_texts().rows()
        return Violations(len(relation), relation.columns, tuple(tuple(map(str, row)) for row in rows))


@dataclass(frozen=True)
class TableRows:
    """The rows of tables: those of a published version, or those that tasks have written for one."""

    counts: Mapping[str, int]
    read: Callable[[str], Any]  # gives a table, or its first rows

    def count(self, predicate: Predicate) -> int:
        """Return how many rows the table of a predicate has."""
        return self.counts.get(predicate.written, 0)

    def violations(self, predicate: Predicate) -> Violations:
        """Return how many rows the table of a predicate has, and some of them."""
        count = self.count(predicate)
        if not count:
            return Violations(0, predicate.names)
        table = self.read(predicate.written).slice(0, MOST_SAMPLES)
        rows = islice(zip(*table.to_pydict().values(), strict=True), MOST_SAMPLES)
        return Violations(count, tuple(table.column_names), tuple(tuple(map(str, row)) for row in rows))


class RunGuards:
    """The guards of one run, and what they have found. Mutates itself."""

    def __init__(self, settings: Settings, program: Program) -> None:
        self.settings = settings
        self.program = program
        self.guards: Guards = resolve_guards(settings.guards, program)
        self.measures: Measures | None = None
        self.findings: tuple[GuardFinding, ...] = ()
        self._limits = {key_of(source, program): source.limits for source in settings.sources}

    def check(self, taking: ReadInputs, before: Manifest | None, rows: CandidateRows) -> None:
        """Check what a run would publish; raise `GuardFailed` if it must not be published."""
        names = source_names(taking.inputs)
        limits = {name: self._limits.get(key, _IMPORTED) for key, name in names.items()}
        self.guards = replace(self.guards, sources=limits)
        measures = Measures(
            tuple(self._source(name, key, taking) for key, name in names.items()),
            self._counts(rows),
            {one.predicate: rows.violations(self._predicate(one.predicate)) for one in self._expectations},
            datetime.now(UTC),
            {name: rows.count(aside) for name in self._counted() if (aside := aside_of(name, self.program))},
        )
        self.measures = measures
        self.findings = check(measures, None if before is None else self._previous(before), self.guards)
        stop_on_failure(self.findings)

    @property
    def _expectations(self) -> tuple[Any, ...]:
        return self.guards.expectations

    def _predicate(self, name: str) -> Predicate:
        return published_as(name, self.program)

    def _counted(self) -> list[str]:
        """Return the predicates whose rows are counted."""
        of = [one.of for one in self._expectations if one.of is not None]
        return list(dict.fromkeys((*self.guards.predicates, *of)))

    def _counts(self, rows: CandidateRows) -> dict[str, int]:
        return {name: rows.count(self._predicate(name)) for name in self._counted()}

    def _source(self, name: str, key: str, taking: ReadInputs) -> SourceMeasure:
        has_limit = self._limits.get(key, _IMPORTED).max_age is not None
        newest = taking.newest(key) if has_limit else None
        return source_measure(name, taking.inputs[key], newest)

    def _previous(self, before: Manifest) -> Measures:
        names = source_names(before.inputs)
        written = {name: self._predicate(name).written for name in self._counted()}
        return Measures(
            tuple(source_measure(name, before.inputs[key]) for key, name in names.items()),
            {name: before.tables[table].rows for name, table in written.items() if table in before.tables},
        )


def source_measure(name: str, found: InputRecord, newest: int | None = None) -> SourceMeasure:
    """Return what was read of an input; `newest` is when its newest file was written, in nanoseconds."""
    written = None if newest is None else datetime.fromtimestamp(newest / 1e9, UTC)
    rows = found.rows - found.filtered
    return SourceMeasure(name, found.predicate, rows, found.rejected, found.filtered, written)


def source_names(inputs: Mapping[str, InputRecord]) -> dict[str, str]:
    """Return what messages call the sources and imports among inputs, by their keys; no two are the same."""
    shown = [found.shown for found in inputs.values()]
    return {
        key: found.shown if shown.count(found.shown) == 1 else key
        for key, found in inputs.items()
        if found.shown != STATED
    }


def key_of(source: JobSource, program: Program) -> str:
    """Return the key of the input that a source becomes."""
    predicate = program.find(source.predicate)
    name = source.predicate if predicate is None else predicate.name
    return f"{name} < {', '.join(source.paths) or source.shown}"


# ---- Programs as a version keeps them: the rules and declarations written out, and a hash of what they mean.

_described: list[tuple[Program, tuple[str, str | None]]] = []  # the last one, by what it consists of


def described(program: Program) -> tuple[str, str | None]:
    """A hash of what a program means, and its rules and declarations written out."""
    for known, texts in _described:
        if known.rules is program.rules and known.predicates is program.predicates:
            return texts
    found = hash_of(program), write_rules(program)
    _described[:] = [(program, found)]
    return found


def hash_of(program: Program) -> str:
    """A hash of the rules and of the predicates' columns: the same if only the writing differs."""
    writing = Writing()
    rules = sorted(writing.rule(rule) for rule in program.rules)
    predicates = sorted(
        f"{item.name}/{item.arity} {' '.join(_kind(kind) for kind in item.types)}"
        for item in program.predicates.values()
    )
    times = sorted(f"@ {name}" for name in program.given_times)
    return digest(*rules, "", *predicates, *times, *(["integer time"] if program.is_integer_time else []))


def _kind(column_type: ColumnType) -> str:
    return column_type.value


def published_program(origin: VersionOrigin, program: Program) -> Program | None:
    """Return the program that a version was published with; None if that cannot be told any more.

    `program` is today's, which it often is.
    """
    if hash_of(program) == origin.program:
        return replace(program, facts=(), imports=())
    return None if origin.rules is None else restored_names(read_rules(origin.rules), program)
