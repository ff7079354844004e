"""Programs without the rows that expectations leave out.

Of a predicate P of which rows are left out, three relations exist: P itself, all rows that are given or
derived; the rows that remain, by a rule with a negation for each expectation, which other rules read and
which are published as P; and the rows that are left out, which are published as a table of their own, with
the reason.

The predicate of an expectation sees all rows of the predicates that it leaves rows out of, and the remaining
rows of all others. Auxiliary predicates on the way, which have another meaning for it than for other rules,
are derived twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from tidelog.errors import DataError, Diagnostic, Span, codes
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
from tidelog.records import dataclass
from tidelog.rewrite.renaming import with_predicates

KEPT: Final = "tag:tidelog,kept:"  # followed by a predicate: its rows without those that are left out
_BEFORE: Final = f"{PRIVATE}before:"  # a helper, as the predicate of an expectation sees it
_DROPPED: Final = "_dropped"  # follows the name of a predicate: the rows that are left out
_REASON: Final = "reason"  # the last column of these


@dataclass(frozen=True, slots=True)
class Drop:
    """Rows of `of` to leave out: those that agree with a row of `predicate` in pairs of columns.

    A pair has the place of a column in `predicate`, and that of a column in `of`.
    """

    of: str
    predicate: str
    pairs: tuple[tuple[int, int], ...]
    shown: str = field(default="", compare=False)  # what the expectation is called
    span: Span | None = field(default=None, compare=False, repr=False)


def with_drops(program: Program, drops: Sequence[Drop], given: Collection[str]) -> Program:
    """Return a program in which rows are left out; `given` are the predicates that have sources.

    Since rules derive the remaining rows, every engine and maintainer keeps them up to date: a row reappears
    when its violation is resolved. Raise `DataError` where that has no meaning.
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
                drop = next(candidate for candidate in drops if candidate.predicate == seer)
                message = f"`{shown}` is given and derived, and `{drop.shown}` reads `{drop.of}` through it"
                help = "move these rows to a separate predicate, and derive this one from it by a rule"
                faults.append(Diagnostic(codes.NO_PREDICATE, message, drop.span, help))
        names_read = {name: new for name, new in kept.items() if name not in whole} | names
        for rule in program.rules:
            if rule.head.predicate == seer or rule.head.predicate in names:
                rules.append(_reading(rule, names_read, names))
    for name in kept:
        drops_of_predicate = [drop for drop in drops if drop.of == name]
        predicate = program.predicates[name]
        predicates[kept[name]] = replace(predicate, name=kept[name])
        dropped = _dropped_predicate(predicate)
        predicates[dropped.name] = dropped
        rules += _rules_of(predicate, dropped.name, drops_of_predicate, program)
    if faults:
        raise DataError(faults)
    rewritten = replace(program, predicates=predicates, rules=tuple(rules))
    _check_strata(program, rewritten, drops)
    return rewritten


def tables_of(program: Program) -> dict[str, Predicate]:
    """Return the predicates that are published, by the names of their tables."""
    return {
        predicate.written: predicate
        for predicate in program.predicates.values()
        if predicate.name != BOTTOM
        and not predicate.name.startswith(_BEFORE)
        and KEPT + predicate.name not in program.predicates
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
    """Return `then`, a program parsed from stored text, with predicates written as in the program `now`."""
    predicates = {
        name: replace(predicate, written=now.predicates[name].written)
        if name in now.predicates
        else predicate
        for name, predicate in then.predicates.items()
    }
    return replace(then, predicates=predicates)


def check_rules(before: Program, after: Program) -> None:
    """Raise `DataError` if an inserted rule reads all rows of a predicate of which some are dropped."""
    added = set(after.rules) - set(before.rules)
    dropped = {name for name in before.predicates if KEPT + name in before.predicates}
    faults = []
    for rule in added:
        for atom in rule.body_atoms:
            if atom.predicate in dropped:
                written = before.predicates[atom.predicate].written
                message = f"an inserted rule reads `{written}`, of which an [[expect]] drops rows"
                faults.append(Diagnostic(codes.NO_PREDICATE, message, rule.span, "add it to the program"))
    if faults:
        raise DataError(faults)


def _faults(program: Program, drops: Sequence[Drop]) -> Iterator[Diagnostic]:
    seers = {drop.predicate for drop in drops}
    for drop in drops:
        if drop.of in BUILT_IN or drop.of in seers:
            why = "is used by an [[expect]] to drop rows" if drop.of in seers else "is not a table"
            message = f"rows of `{drop.of}` cannot be dropped: it {why}"
            yield Diagnostic(codes.NO_PREDICATE, message, drop.span)
        name = drop.of + _DROPPED
        if name in program.predicates:
            message = f"rows of `{drop.of}` that are dropped are published as `{name}`, which the program has"
            yield Diagnostic(codes.NO_PREDICATE, message, drop.span, "rename that predicate")


def _helpers(program: Program, seer: str, whole: Collection[str], ends: Collection[str]) -> list[str]:
    """Return the predicates through which `seer` reads all rows of `whole`; do not search below `ends`."""
    body: dict[str, set[str]] = {}
    for rule in program.rules:
        body.setdefault(rule.head.predicate, set()).update(rule.read)
    reached, waiting = {seer}, [seer]
    while waiting:
        for name in body.get(waiting.pop(), ()):
            if name not in reached and name not in ends:
                reached.add(name)
                waiting.append(name)
    helpers: set[str] = set()
    size = -1
    while size != len(helpers):
        size = len(helpers)
        helpers |= {
            name for name in reached - {seer} if not body.get(name, set()).isdisjoint(helpers | set(whole))
        }
    return sorted(helpers)


def _reading(rule: Rule, names: Mapping[str, str], heads: Mapping[str, str] = {}) -> Rule:
    """Rename predicates in the body of a rule, and in its head according to `heads`."""
    head = replace(rule.head, predicate=heads.get(rule.head.predicate, rule.head.predicate))
    return replace(with_predicates(rule, names), head=head)


def _dropped_predicate(whole: Predicate) -> Predicate:
    """Return the predicate of the dropped rows of a predicate, with the reason as its last column."""
    reason = free_name(_REASON, set(whole.names))
    return replace(
        whole,
        name=whole.name + _DROPPED,
        written=whole.written + _DROPPED,
        arity=whole.arity + 1,
        columns=(*whole.names, reason),
        types=(*whole.types, ColumnType.STRING),
    )


def _rules_of(whole: Predicate, dropped: str, drops: Sequence[Drop], program: Program) -> Iterator[Rule]:
    """Yield the rules of the remaining rows and of the dropped ones, each with its first reason."""
    terms = tuple(Variable(f"x{position}") for position in range(whole.arity))
    row = Atom(whole.name, terms)
    violations = [_violated(drop, program, terms, number) for number, drop in enumerate(drops)]
    name = f"{whole.written} without dropped rows"
    yield Rule(Atom(KEPT + whole.name, terms), (row, *map(Negation, violations)), name=name)
    for number, (drop, atom) in enumerate(zip(drops, violations, strict=True)):
        head = Atom(dropped, (*terms, Constant(string(drop.shown))))
        yield Rule(
            head, (row, atom, *map(Negation, violations[:number])), name=f"{whole.written} that is dropped"
        )


def _violated(drop: Drop, program: Program, terms: tuple[Variable, ...], number: int) -> Atom:
    """Return the atom of violations: a variable that occurs nowhere else in the rule matches anything."""
    named = dict(drop.pairs)
    places = range(program.predicates[drop.predicate].arity)
    return Atom(
        drop.predicate,
        tuple(terms[named[place]] if place in named else Variable(f"_{number}_{place}") for place in places),
    )


def _check_strata(program: Program, rewritten: Program, drops: Sequence[Drop]) -> None:
    """Raise `DataError` if dropping rows depends on itself."""
    existing = {(offence.rule.head.predicate, offence.predicate) for offence in entangled(program.rules)}
    faults = []
    for offence in entangled(rewritten.rules):
        if (offence.head, offence.predicate) in existing:
            continue
        for drop in drops:
            if offence.predicate == drop.predicate and offence.head in (KEPT + drop.of, drop.of + _DROPPED):
                message = (
                    f"rows of `{drop.of}` cannot be dropped by `{drop.predicate}`: which rows of "
                    f"`{drop.predicate}` there are depends on which of `{drop.of}` are dropped"
                )
                help = "drop explicit rows instead, or put the expectation on a copy that a rule derives"
                faults.append(Diagnostic(codes.NO_PREDICATE, message, drop.span, help))
                break
    if faults:
        raise DataError(list({fault.message: fault for fault in faults}.values()))
