"""Rows that rules drop because a function has no value: how many, by which function, and the first of them.

Kernels only count such rows (`ColumnarEngine.dropped`): that costs nothing where there are none. When the
count has grown, the rules at fault are matched again, over the same facts, by rules that this module makes:
each function is computed in a step of its own, which has the value `NONE` where the function has none, and
rows are kept for which a step has that value and no test fails. So a row is a combination of facts that the
body matches; it counts once, whatever the order of joins and however many plans have met it, for the first
function without a value, in the order of the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Final

import numpy as np

from tidelog.data.rows import Rows, distinct, select, without
from tidelog.engine.events import MissingValues
from tidelog.engine.protocol import EngineParts
from tidelog.errors import Diagnostic, EvaluationError, Severity, Span, counted
from tidelog.errors.codes import ROWS_DROPPED
from tidelog.logic.functions.builtins import Overflow, lookup
from tidelog.logic.program import (
    PRIVATE,
    Aggregation,
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Expression,
    Literal,
    Negation,
    Program,
    Rule,
    Term,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.logic.values import FALSE, TRUE, Value, iri
from tidelog.plan.algebra import Aggregate
from tidelog.plan.compile import aggregate_plans, full_plan
from tidelog.plan.join_order import negated_only_variables
from tidelog.plan.rule_text import Writing, shortened
from tidelog.records import dataclass

NONE: Final = Constant(iri(f"{PRIVATE}no-value"))
NEVER_FAILING: Final = frozenset({"=", "!="})
MOST_ROWS: Final = 1_000  # that are counted of one rule: more take as long to find as the rule to run
MOST_NOTES: Final = 5  # of one load or change; the other functions are summed up
MOST_VALUES: Final = 4  # of the first row
WIDEST_VALUE: Final = 60
# Relations with ` #` in their names are not counted as facts.
DROPPED, GATHERED, GROUPED, AFFECTED = (
    f"?- missing #{name}" for name in ("rows", "gathered", "grouped", "affected")
)
INSERTED, DELETED = " #inserted", " #deleted"  # behind the name of a relation: its facts that a change moved

HELP: Final = "exclude such rows by a test, or give them a value with COALESCE"

# ---- the rule that finds the rows


@dataclass(frozen=True, slots=True)
class ComputedStep:
    """A function of a rule's body, computed into a variable of its own."""

    variable: Variable
    applied: Apply
    literal: Literal


@dataclass(slots=True)
class FindingRule:
    """The body by which dropped rows are found. Mutable: it is made literal by literal."""

    body: list[Literal] = field(default_factory=list)
    steps: list[ComputedStep] = field(default_factory=list)
    copied: list[Variable] = field(default_factory=list)  # variables that are assigned without a function
    _failing: set[Variable] = field(default_factory=set)  # variables that may have the value `NONE`

    @staticmethod
    def of(body: Sequence[Literal]) -> FindingRule | None:
        """Return the finding rule for a body, None if nothing in it can lack a value."""
        made = FindingRule()
        for literal in body:
            made._add(literal)
        if not made.steps:
            return None
        made.body.append(_is_one_of([step.variable for step in made.steps]))
        return made

    def _add(self, literal: Literal) -> None:
        match literal:
            case Assignment(variable, Apply() as applied):
                self._compute(applied, literal, variable)
            case Comparison(operator, left, right):
                self._test(Apply(operator, (left, right)), literal, FALSE)
            case Condition(applied, negated):
                self._test(applied, literal, TRUE if negated else FALSE)
            case Assignment(variable, expression):
                self.copied.append(variable)
                if expression in self._failing:
                    self._failing.add(variable)
                self.body.append(literal)
            case _:
                self.body.append(literal)

    def _test(self, applied: Apply, literal: Literal, failing: Value) -> None:
        """Add a test, which a row without a value passes."""
        may_lack = applied.function not in NEVER_FAILING or any(
            isinstance(argument, Apply) or argument in self._failing for argument in applied.arguments
        )
        if not may_lack:
            self.body.append(literal)
            return
        result = self._compute(applied, literal)
        self.body.append(Comparison("!=", result, Constant(failing)))

    def _compute(self, applied: Apply, literal: Literal, variable: Variable | None = None) -> Variable:
        """Add the steps that compute a function, its arguments first; return the variable of its value."""
        function = lookup(applied.function)
        assert function is not None
        if not function.lazy:  # a lazy one has a value where an argument has none
            arguments = tuple(
                self._compute(argument, literal) if isinstance(argument, Apply) else argument
                for argument in applied.arguments
            )
            applied = Apply(applied.function, arguments)
        value: Expression = Apply("COALESCE", (applied, NONE))
        failing = [each for each in dict.fromkeys(variables_of(applied)) if each in self._failing]
        if failing:
            value = Apply("IF", (_any_is_none(failing), NONE, value))
        result = variable or Variable(f"step {len(self.steps)}")  # no variable of a rule has a space
        self.body.append(Assignment(result, value))
        self.steps.append(ComputedStep(result, applied, literal))
        self._failing.add(result)
        return result

    @property
    def computed(self) -> tuple[Variable, ...]:
        """The variables that the body assigns."""
        return (*self.copied, *(step.variable for step in self.steps))

    def shown(self, step: ComputedStep) -> tuple[Variable, ...]:
        """Return the variables of the rule that the arguments of a step are computed from."""
        computed = {each.variable: each for each in self.steps}
        found: dict[Variable, None] = {}
        for variable in variables_of(step.applied):
            inner = computed.get(variable)
            if inner is not None and (" " in variable.name or variable.name.startswith("_")):
                found |= dict.fromkeys(self.shown(inner))
            else:
                found[variable] = None
        return tuple(found)


def _any_is_none(variables: Sequence[Variable]) -> Apply:
    tests = tuple(Apply("=", (variable, NONE)) for variable in variables)
    return tests[0] if len(tests) == 1 else Apply("OR", tests)


def _is_one_of(variables: Sequence[Variable]) -> Literal:
    """Return the test whether one of the variables has no value."""
    if len(variables) == 1:
        return Comparison("=", variables[0], NONE)
    return Condition(_any_is_none(variables))


def _bound(body: Iterable[Literal]) -> tuple[Variable, ...]:
    """Return the variables that the atoms of a body bind."""
    atoms = (literal for literal in body if isinstance(literal, Atom))
    return tuple(dict.fromkeys(variable for atom in atoms for variable in literal_variables(atom)))


def may_drop(rule: Rule) -> bool:
    """Return whether a rule has a function or an aggregate that may lack a value."""
    return bool(rule.aggregations) or FindingRule.of(rule.body) is not None


# ---- the search
#
# A change brings the rows that have at least one new fact: an inserted one, or one that a negation no longer
# forbids since it was deleted.

NetFacts = Mapping[str, Rows]
Body = tuple[Literal, ...]


class _Enough(Exception):  # noqa: N818 - the end of a count
    """More rows than are counted have been found."""


@dataclass(slots=True)
class _Kind:
    """What is found of one function at one place. Mutable: rules with the same body are found together."""

    missing: MissingValues
    parts: list[Rows] = field(default_factory=list)


class RowSearch:
    """Finds dropped rows in the facts of an engine as they are now. Mutable; what it defines is dropped."""

    def __init__(self, engine: EngineParts) -> None:
        self._engine = engine
        self._found: dict[object, _Kind] = {}

    def missing(self) -> tuple[MissingValues, ...]:
        """Return what was found, each row counted once."""
        return tuple(
            replace(kind.missing, rows=distinct(kind.parts).count) if len(kind.parts) > 1 else kind.missing
            for kind in self._found.values()
        )

    def in_all(self, rule: Rule) -> None:
        """Find the rows of a rule that are dropped."""
        self._guarded(rule, lambda: self._search(rule, [rule.body]))

    def in_change(self, rule: Rule, inserted: NetFacts, deleted: NetFacts) -> None:
        """Find the rows of a rule that are dropped, and that these changes of facts have brought."""
        moved = [
            (place, suffix)
            for facts, suffix in ((inserted, INSERTED), (deleted, DELETED))
            for place, literal in enumerate(rule.body)
            if _is_in(literal, facts)
        ]
        if not moved or not may_drop(rule):
            return
        with self._moved(INSERTED, inserted, rule, moved), self._moved(DELETED, deleted, rule, moved):
            brought = [_brought_by(rule.body, *each) for each in moved]
            touched = [_touched_by(rule.body, *each) for each in moved] if rule.aggregations else []
            bodies = [body for body in brought if body is not None]
            self._guarded(rule, lambda: self._search(rule, bodies, touched))

    @contextmanager
    def _moved(
        self, suffix: str, facts: NetFacts, rule: Rule, moved: Iterable[tuple[int, str]]
    ) -> Iterator[None]:
        """Define relations of the facts that a change has moved, within the block."""
        storage = self._engine.storage
        names = {_atom(rule.body[place]).predicate for place, each in moved if each == suffix}
        for name in names:
            storage.define(name + suffix, len(facts[name].columns))
        try:
            for name in names:
                storage.add(name + suffix, facts[name].columns, facts[name].count)
            yield
        finally:
            for name in names:
                storage.drop(name + suffix)

    def _guarded(self, rule: Rule, search: Callable[[], None]) -> None:
        """Search; where arithmetic overflows, or the body is too long, say only that rows were dropped."""
        try:
            search()
        except (Overflow, EvaluationError):
            missing = MissingValues(rule, "", 0, (), rule.span, is_complete=False)
            self._found.setdefault((rule.span or rule, ""), _Kind(missing))

    def _search(self, rule: Rule, bodies: Sequence[Body], touched: Sequence[Body] | None = None) -> None:
        """Find rows of a rule in these forms of its body, and groups, of the forms `touched` only."""
        self._rows(rule, rule.body, bodies)
        if rule.aggregations:
            self._groups(rule, touched)

    # ---- rows

    def _rows(self, rule: Rule, body: Body, forms: Sequence[Body]) -> None:
        """Find the rows that a body drops, in these forms of it: it, or a part of its rows each."""
        finding = FindingRule.of(body)
        if finding is None or not forms:
            return
        bound = _bound(body)
        terms = (*bound, *finding.computed)
        with self._defined(DROPPED, len(terms)):
            is_complete = True
            try:
                with self._counting():
                    for form in forms:
                        found = FindingRule.of(form)
                        assert found is not None
                        self._run(Rule(Atom(DROPPED, terms), tuple(found.body), span=rule.span))
            except _Enough:
                is_complete = False
            self.attribute(rule, finding, bound, self._engine.storage.rows(DROPPED), is_complete)

    def attribute(
        self,
        rule: Rule,
        finding: FindingRule,
        bound: Sequence[Variable],
        rows: Rows,
        is_complete: bool = True,
    ) -> None:
        """Attribute each row to its first step without a value.

        Rows have a column for each of the `bound` variables, then one for each that the body computes.
        """
        if not rows.count:
            return
        dictionary = self._engine.storage.dictionary
        none = dictionary.encode(NONE.value)
        columns = dict(zip((*bound, *finding.computed), rows.columns, strict=True))
        waiting = np.ones(rows.count, bool)
        for step in finding.steps:
            failed = waiting & (columns[step.variable] == none)
            waiting &= ~failed
            if not failed.any():
                continue
            first = int(np.argmax(failed))
            shown = finding.shown(step)
            values = tuple((each.name, dictionary.decode(int(columns[each][first]))) for each in shown)
            place = rule.place_of(step.literal)
            missing = MissingValues(
                rule, step.applied.function, int(failed.sum()), values, place, is_complete=is_complete
            )
            row = Rows(tuple(columns[each] for each in bound), rows.count)
            self._note(missing, bound, select(row, failed))

    def _note(self, missing: MissingValues, terms: object, rows: Rows) -> None:
        key = missing.place or missing.rule, missing.function, terms
        self._found.setdefault(key, _Kind(missing)).parts.append(rows)

    # ---- groups

    def _groups(self, rule: Rule, touched: Sequence[Body] | None) -> None:
        """Find groups for which an aggregate has no value, or what is computed of it."""
        engine, body = self._engine, rule.body
        with self._defined(AFFECTED, len(rule.group)):
            if touched is not None:
                for form in touched:
                    self._run(Rule(Atom(AFFECTED, rule.group), form, span=rule.span))
                body = (Atom(AFFECTED, rule.group), *body)
            collect, group = aggregate_plans(replace(rule, body=body), -1, GATHERED, engine.storage)
            assert isinstance(group.root, Aggregate)
            with self._defined(GATHERED, len(group.root.input.terms)):
                engine.rounds.mark_all_old(replace(rule, body=body).read)
                engine.plans.prepare(collect)()
                gathered = Atom(GATHERED, group.root.input.terms)
                lost = Rows(tuple(np.zeros(0, np.int32) for _ in rule.group), 0)
                for count, aggregation in enumerate(rule.aggregations, 1):
                    aggregations = rule.aggregations[:count]
                    terms = (*rule.group, *(each.variable for each in aggregations))
                    root = replace(group.root, aggregations=aggregations, after=(), terms=terms)
                    with self._defined(GROUPED, len(terms)):
                        engine.plans.prepare(replace(group, relation=GROUPED, root=root))()
                        all_lost = self._groups_lost(rule, gathered, aggregations)
                        self._note_groups(rule, f"#{aggregation.function}", without(all_lost, lost))
                        lost = all_lost
                        if count == len(rule.aggregations):
                            after: Body = (Atom(GROUPED, terms), *rule.after)
                            self._rows(rule, after, [after])

    def _groups_lost(self, rule: Rule, gathered: Atom, aggregations: Sequence[Aggregation]) -> Rows:
        """Return the groups for which one of the aggregates has no value."""
        anything = (Variable(f"{each.variable.name} of a group") for each in aggregations)
        has_values = Negation(Atom(GROUPED, (*rule.group, *anything)))
        with self._defined(DROPPED, len(rule.group)):
            self._run(Rule(Atom(DROPPED, rule.group), (gathered, has_values), span=rule.span))
            return self._engine.storage.rows(DROPPED)

    def _note_groups(self, rule: Rule, function: str, groups: Rows) -> None:
        if groups.count:
            decode = self._engine.storage.dictionary.decode
            pairs = zip(rule.group, groups.columns, strict=True)
            values = tuple((each.name, decode(int(column[0]))) for each, column in pairs)
            self._note(MissingValues(rule, function, groups.count, values, rule.span), rule.group, groups)

    # ---- plans

    @contextmanager
    def _defined(self, relation: str, arity: int) -> Iterator[None]:
        """Define a relation within the block."""
        self._engine.storage.define(relation, arity)
        try:
            yield
        finally:
            self._engine.storage.drop(relation)

    def _run(self, rule: Rule) -> None:
        """Add the heads of a rule's instances to its relation."""
        self._engine.rounds.mark_all_old(rule.read)  # all facts are visible
        self._engine.plans.prepare(full_plan(rule, -1, self._engine.storage, rule.head.predicate))()

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Stop in the block when more rows are found than are counted."""
        limits, storage = self._engine.limits, self._engine.storage
        check, budget = limits.check, limits.budget

        def count(found: int = 0, are_answers: bool = False) -> None:
            check(found, are_answers)
            if storage.size(DROPPED) > MOST_ROWS:
                raise _Enough

        limits.check = count
        limits.budget = lambda found=0, are_answers=False: min(budget(found, are_answers), MOST_ROWS)
        try:
            yield
        finally:
            limits.check, limits.budget = check, budget


def _atom(literal: Literal) -> Atom:
    atom = literal.atom if isinstance(literal, Negation) else literal
    assert isinstance(atom, Atom)
    return atom


def _is_in(literal: Literal, facts: NetFacts) -> bool:
    """Return whether a literal reads a relation of which there are facts."""
    return isinstance(literal, Atom | Negation) and _atom(literal).predicate in facts


def _moved_atom(body: Body, place: int, suffix: str) -> Atom:
    """Return the atom that matches the moved facts of a literal's relation."""
    atom, local = _atom(body[place]), negated_only_variables(body)
    terms: tuple[Term, ...] = tuple(
        Variable(f"{term.name} moved") if isinstance(term, Variable) and term in local else term
        for term in atom.terms
    )
    return Atom(atom.predicate + suffix, terms)


def _brought_by(body: Body, place: int, suffix: str) -> Body | None:
    """Return the form of a body for the rows that the moved facts of a literal have brought, if any."""
    moved = _moved_atom(body, place, suffix)
    if isinstance(body[place], Atom):
        return (*body[:place], moved, *body[place + 1 :]) if suffix == INSERTED else None
    return (moved, *body) if suffix == DELETED else None


def _touched_by(body: Body, place: int, suffix: str) -> Body:
    """Return the form of a body for the rows that the moved facts of a literal have brought or removed."""
    return (*body[:place], _moved_atom(body, place, suffix), *body[place + 1 :])


def find_missing(rules: Iterable[Rule], engine: EngineParts) -> tuple[MissingValues, ...]:
    """Return what rules drop of all facts, in the order of the rules."""
    search = RowSearch(engine)
    for rule in rules:
        search.in_all(rule)
    return search.missing()


def find_missing_in_change(
    rules: Iterable[Rule], inserted: NetFacts, deleted: NetFacts, engine: EngineParts
) -> tuple[MissingValues, ...]:
    """Return what rules drop of the rows that a change of facts has brought."""
    search = RowSearch(engine)
    for rule in rules:
        search.in_change(rule, inserted, deleted)
    return search.missing()


# ---- text


def describe_missing(found: Sequence[MissingValues], writing: Writing) -> list[Diagnostic]:
    """Return a warning for each function, and one for all beyond the first few."""
    described = [_described(each, writing) for each in found]
    return _first_few(described, [each.rows for each in found])


def warn_of(found: Sequence[tuple[str, str, int, str]]) -> list[Diagnostic]:
    """Return the same where tasks tell the function, its place, how many rows, and the first of them."""
    described = [
        replace(_warning(message_of(function, rows, first), None, HELP), place=place or None)
        for function, place, rows, first in found
    ]
    return _first_few(described, [rows for _, _, rows, _ in found])


def missing_columns(found: Sequence[MissingValues], program: Program) -> dict[str, list[str]]:
    """Return the same as columns of texts, for tasks to tell: function, place, rows and the first row."""
    writing = Writing.of(program)
    return {
        "function": [each.function for each in found],
        "place": [Diagnostic("", "", each.place).location or "" for each in found],
        "rows": [str(each.rows) for each in found],
        "first": [first_row(each, writing) for each in found],
    }


def _first_few(described: list[Diagnostic], rows: Sequence[int]) -> list[Diagnostic]:
    rest = len(described) - MOST_NOTES
    if rest <= 0:
        return described
    count = counted(sum(rows[MOST_NOTES:]), "row")
    message = f"{counted(rest, 'more function')} had no value, for {count}, from which nothing is derived"
    return [*described[:MOST_NOTES], _warning(message, None, None)]


def first_row(missing: MissingValues, writing: Writing) -> str:
    """Return the first row as text, such as `?s = "x"`; empty if the function depends on no variable."""
    shown = [
        f"?{name} = {shortened(writing.value(value), WIDEST_VALUE)}"
        for name, value in missing.values
        if not name.startswith("_")  # the program has no name for it, as for `#count(?x)` in a head
    ]
    return ", ".join(shown[:MOST_VALUES]) + (", …" if len(shown) > MOST_VALUES else "")


def message_of(function: str, rows: int, first: str, is_complete: bool = True) -> str:
    """Return the message for a function without a value.

    >>> message_of("INT", 2, '?s = "x"')
    '`INT` has no value for 2 rows, which derive nothing; the first: ?s = "x"'
    """
    if not function:
        times = f"{counted(rows, 'time')}, " if rows else ""
        return f"functions had no value {times}and nothing is derived from those rows"
    more = "" if is_complete else "more than "
    count = counted(rows, "group" if function.startswith("#") else "row")
    verb, link = ("derives", ": ") if rows == 1 else ("derive", "; the first: ")
    return f"`{function}` has no value for {more}{count}, which {verb} nothing{link + first if first else ''}"


def _described(missing: MissingValues, writing: Writing) -> Diagnostic:
    first = first_row(missing, writing)
    message = message_of(missing.function, missing.rows, first, missing.is_complete)
    return _warning(message, missing.place, HELP)


def _warning(message: str, place: Span | None, help: str | None) -> Diagnostic:
    return Diagnostic(ROWS_DROPPED, message, place, help, severity=Severity.WARNING)
