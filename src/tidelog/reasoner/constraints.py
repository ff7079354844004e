"""Which rules make the facts inconsistent, and by which facts: `plan.inconsistency` makes text of it.

Times (`temporal`) and equality (`equality`) find what only they know: intervals and classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tidelog.engine.flags import Flag
from tidelog.errors import Diagnostic, Inconsistent
from tidelog.logic.program import (
    BOTTOM,
    PRIVATE,
    Atom,
    Comparison,
    Constant,
    Predicate,
    Program,
    Rule,
    Variable,
    literal_variables,
)
from tidelog.plan.algebra import VIOLATIONS
from tidelog.plan.inconsistency import (
    MOST,
    ConstraintViolation,
    RuleInstance,
    describe_bottom,
    describe_constraint,
    describe_violation,
)
from tidelog.query.kept_queries import KeptQueries
from tidelog.reasoner.program_state import ProgramState
from tidelog.rewrite.representatives import MARK

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

VIOLATED: Final = "violated "  # followed by the number of a rule: no predicate's name has a space
MOST_INSTANCES: Final = 10_000  # among which the one to be shown is chosen
MOST_RULES: Final = 100  # that are asked how they derive a fact
MOST_COMPARED: Final = 32  # instances of which the one that is explained best is shown
MANY_FACTS: Final = 200_000  # from which on that would take long


def check_consistency(
    program: Program, state: ProgramState, demands: KeptQueries, engine: ColumnarEngine
) -> None:
    """Raise `Inconsistent` if constants are equal that must not be, or `bottom()` holds."""
    unequal = state.equality.violation(program) if program.has_equality else None
    if unequal is not None:
        raise Inconsistent(unequal)
    effective = state.meaning(program)
    demands.check_consistency(effective)
    if BOTTOM not in effective.predicates or not engine.storage.size(BOTTOM):
        return
    found = [describe_violation(violation, effective) for violation in violations(effective, engine)]
    raise Inconsistent(found or describe_bottom(effective))


def violations(program: Program, engine: ColumnarEngine) -> list[ConstraintViolation]:
    """Return a violation of each of the first rules that derive `bottom()`; the engine has all facts."""
    search = _Search(program, engine)
    found: list[ConstraintViolation] = []
    for rule in program.rules:
        if rule.head.predicate == BOTTOM and len(found) < MOST:
            found += search.violation(rule)
    return found


class _Search:
    """Searches all facts for instances of rules. Mutable: the derivations that it has found are cached."""

    def __init__(self, program: Program, engine: ColumnarEngine) -> None:
        self.program = program
        self.engine = engine
        self._derivations: dict[Atom, RuleInstance | None] = {}
        facts = sum(engine.storage.size(name) for name in engine.storage.relations())
        self.most = MOST_COMPARED if facts <= MANY_FACTS else 1

    def violation(self, rule: Rule) -> Iterator[ConstraintViolation]:
        """Yield the violation of a rule, if it has an instance: the one that is explained best."""
        instances = _instances(rule, self.engine, self.most)
        if instances:
            instance = min(instances, key=self._unexplained)
            known = ((fact, self._derivation(fact)) for fact in instance.derived)
            yield ConstraintViolation(instance, tuple((fact, by) for fact, by in known if by is not None))

    def _unexplained(self, instance: RuleInstance) -> int:
        """Return how many facts are left whose origin would not be said."""
        derivations = map(self._derivation, instance.derived)
        return sum(MOST if each is None else each.unexplained for each in derivations)

    def _derivation(self, fact: Atom) -> RuleInstance | None:
        """Return the instance by which a fact is derived: not from itself, at best from explicit facts."""
        if fact not in self._derivations:
            able = [rule for rule in self.program.rules if _may_derive(rule, fact)][:MOST_RULES]
            by_rule = (_instances(_for_head(rule, fact), self.engine, 1, fact) for rule in able)
            found = [instance for instances in by_rule for instance in instances]
            self._derivations[fact] = min(found, key=lambda each: each.unexplained, default=None)
        return self._derivations[fact]


def _may_derive(rule: Rule, fact: Atom) -> bool:
    if rule.head.predicate != fact.predicate or rule.aggregations:
        return False
    pairs = zip(rule.head.terms, fact.terms, strict=True)
    return all(isinstance(term, Variable) or term == value for term, value in pairs)


def _for_head(rule: Rule, fact: Atom) -> Rule:
    """Return the rule with tests by which it derives nothing but a fact."""
    pairs = zip(rule.head.terms, fact.terms, strict=True)
    tests = tuple(Comparison("=", term, value) for term, value in pairs if isinstance(term, Variable))
    return Rule(rule.head, (*rule.body, *tests), name=rule.name, span=rule.span)


def _instances(
    rule: Rule, engine: ColumnarEngine, most: int, other_than: Atom | None = None
) -> list[RuleInstance]:
    """Return some instances of a rule: those with most explicit facts, the first of these in order of ids.

    None of their facts is the one that they are to explain.
    """
    variables = tuple(dict.fromkeys(each for atom in rule.positive for each in literal_variables(atom)))
    columns, count = engine.plans.answer(Rule(Atom(VIOLATIONS, variables), rule.body))
    if not count:
        return []
    order = np.lexsort(columns[::-1])[:MOST_INSTANCES] if columns else np.zeros(1, np.int64)
    values = dict(zip(variables, (column[order] for column in columns), strict=True))
    seen = [atom for atom in rule.positive if not atom.predicate.startswith(PRIVATE)]
    explicit = np.zeros((len(seen), len(order)), bool)
    for place, atom in enumerate(seen):
        explicit[place] = _are_explicit(atom, values, len(order), engine)
    counts = explicit.sum(axis=0)
    found: list[RuleInstance] = []
    for row in np.argsort(-counts, kind="stable").tolist():
        if found and (len(found) == most or counts[row] < sum(found[0].explicit)):
            break
        facts = tuple(_ground(atom, values, row, engine) for atom in seen)
        if other_than not in facts:
            found.append(RuleInstance(rule, facts, tuple(map(bool, explicit[:, row])), count))
    return found


def _ground(atom: Atom, values: dict[Variable, Any], row: int, engine: ColumnarEngine) -> Atom:
    """Return the fact that an atom is in a row of values."""
    decode = engine.storage.dictionary.decode
    terms = (
        Constant(decode(int(values[term][row]))) if isinstance(term, Variable) else term
        for term in atom.terms
    )
    return Atom(atom.predicate, tuple(terms))


def _are_explicit(atom: Atom, values: dict[Variable, Any], rows: int, engine: ColumnarEngine) -> Any:
    """Return which rows of values make an explicit fact of an atom."""
    columns = [
        values[term]
        if isinstance(term, Variable)
        else np.full(rows, engine.storage.dictionary.encode_values([term.value])[0], np.int32)
        for term in atom.terms
    ]
    name = atom.predicate.removesuffix(MARK)  # explicit facts are stored with the constants they were given
    return (engine.storage.row_flags(name, columns, rows) & Flag.EXPLICIT) != 0


# ---- where the facts are divided among processes


def told_apart(program: Program) -> Program:
    """Return the program with a predicate for each rule that derives bottom(): it tells which rules did."""
    rules: list[Rule] = []
    added: dict[str, Predicate] = {}
    for number, rule in enumerate(program.rules):
        if rule.head.predicate == BOTTOM:
            name = f"{VIOLATED}{number}"
            added[name] = Predicate(name, 0, (), (), name)
            rules.append(replace(rule, head=Atom(name, ())))
        else:
            rules.append(rule)
    return replace(program, rules=tuple(rules), predicates={**program.predicates, **added})


def violated(program: Program, holds: Callable[[str], bool]) -> list[Diagnostic]:
    """Return a diagnostic for each rule of a program that was `told_apart` whose predicate holds."""
    return [
        describe_constraint(rule)
        for rule in program.rules
        if rule.head.predicate.startswith(VIOLATED) and holds(rule.head.predicate)
    ]
