"""Which rules make the facts inconsistent, and by which facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tidelog.engine.maintaining import Flag
from tidelog.errors import Diagnostic
from tidelog.logic.program import (
    BOTTOM,
    EQUAL,
    PRIVATE,
    Atom,
    Comparison,
    Constant,
    Program,
    Rule,
    Variable,
    literal_variables,
)
from tidelog.plan.rule_text import Writing
from tidelog.rewrite.over_representatives import ALIAS, MARK

INCONSISTENT: Final = "E601"
MOST: Final = 10  # rules that are reported
MOST_INSTANCES: Final = 10_000  # among which the one to be shown is chosen
MOST_RULES: Final = 100  # that are asked how they derive a fact
ANSWER: Final = "?- violation"
ALIGNED: Final = "\n        "  # below the first line of a help


@dataclass(frozen=True)
class Instance:
    """The facts of one instance of a rule, and which of them are stated; `ways` instances there are."""

    rule: Rule
    facts: tuple[Atom, ...]
    stated: tuple[bool, ...]
    ways: int

    @property
    def derived(self) -> tuple[Atom, ...]:
        """The facts that are not stated."""
        return tuple(fact for fact, is_stated in zip(self.facts, self.stated, strict=True) if not is_stated)

    def text(self, writing: Writing) -> str:
        """The facts, each with whether it is stated."""
        words = {True: " (stated)", False: " (derived)"}
        pairs = zip(self.facts, self.stated, strict=True)
        return ", ".join(
            _written(fact, writing) + ("" if fact.predicate == ALIAS else words[is_stated])
            for fact, is_stated in pairs
        )


def violations(program: Program, engine: Any) -> list[Diagnostic]:
    """A diagnostic for each rule whose body holds and whose head may not; the engine holds all facts."""
    found: list[Diagnostic] = []
    for rule in program.rules:
        if rule.head.predicate == BOTTOM and len(found) < MOST:
            found += _violation(rule, program, engine)
    return found


def _violation(rule: Rule, program: Program, engine: Any) -> Iterator[Diagnostic]:
    """The diagnostic for a rule, with the facts of one instance and how they come about, if there is one."""
    instance = _instance(rule, engine)
    if instance is None:
        return
    writing = Writing.of(program)
    named = f" by the rule {rule.name!r}" if rule.name else ""
    times = "" if instance.ways == 1 else f", in {instance.ways:,} ways"
    lines = [f"from {instance.text(writing)}"] if instance.facts else []
    for fact in dict.fromkeys(instance.derived):
        lines += _derivation(fact, program, engine, writing)
    help = ALIGNED.join(lines) or None
    yield Diagnostic(INCONSISTENT, f"inconsistent: bottom() derived{named}{times}", rule.span, help)


def _derivation(fact: Atom, program: Program, engine: Any, writing: Writing) -> Iterator[str]:
    """By which rule a fact is derived, at best from facts that are stated."""
    able = [rule for rule in program.rules if _may_derive(rule, fact)][:MOST_RULES]
    found = [made for rule in able if (made := _instance(_for_head(rule, fact), engine)) is not None]
    if found:
        best = min(found, key=lambda made: len(made.derived))
        named = f"by the rule {best.rule.name!r}" if best.rule.name and best.rule.span else "as it follows"
        yield f"{_written(fact, writing)} {named} from {best.text(writing)}"


def _may_derive(rule: Rule, fact: Atom) -> bool:
    if rule.head.predicate != fact.predicate or rule.aggregations:
        return False
    pairs = zip(rule.head.terms, fact.terms, strict=True)
    return all(isinstance(term, Variable) or term == value for term, value in pairs)


def _for_head(rule: Rule, fact: Atom) -> Rule:
    """The rule with tests that let it derive nothing but a fact."""
    pairs = zip(rule.head.terms, fact.terms, strict=True)
    tests = tuple(Comparison("=", term, value) for term, value in pairs if isinstance(term, Variable))
    return Rule(rule.head, (*rule.body, *tests), name=rule.name, span=rule.span)


def _instance(rule: Rule, engine: Any) -> Instance | None:
    """The instance of a rule with most facts that are stated, the first of these in the order of ids."""
    variables = tuple(dict.fromkeys(each for atom in rule.positive for each in literal_variables(atom)))
    columns, count = engine.answer(Rule(Atom(ANSWER, variables), rule.body))
    if not count:
        return None
    order = np.lexsort(columns[::-1])[:MOST_INSTANCES] if columns else np.zeros(1, np.int64)
    values = dict(zip(variables, (column[order] for column in columns), strict=True))
    seen = [atom for atom in rule.positive if not atom.predicate.startswith(PRIVATE)]
    stated = np.zeros((len(seen), len(order)), bool)
    for place, atom in enumerate(seen):
        stated[place] = _are_stated(atom, values, len(order), engine)
    best = int(np.argmax(stated.sum(axis=0))) if seen else 0
    row = {
        variable: Constant(engine.dictionary.decode(int(column[best]))) for variable, column in values.items()
    }
    facts = tuple(
        Atom(atom.predicate, tuple(row[term] if isinstance(term, Variable) else term for term in atom.terms))
        for atom in seen
    )
    return Instance(rule, facts, tuple(map(bool, stated[:, best])), count)


def _are_stated(atom: Atom, values: dict[Variable, Any], rows: int, engine: Any) -> Any:
    """Which rows of values make a fact of an atom that is stated."""
    columns = [
        values[term]
        if isinstance(term, Variable)
        else np.full(rows, engine.dictionary.encode_values([term.value])[0], np.int32)
        for term in atom.terms
    ]
    said = atom.predicate.removesuffix(MARK)  # what is stated is kept as it was said
    return (engine.standing(said, columns, rows) & Flag.EXPLICIT) != 0


def _written(fact: Atom, writing: Writing) -> str:
    """A fact as it was said; that one constant stands for another is that they are equal."""
    if fact.predicate == ALIAS:
        return writing.atom(Atom(EQUAL, fact.terms))
    return writing.atom(Atom(fact.predicate.removesuffix(MARK), fact.terms))
