"""Which rules make the facts inconsistent, and by which facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tidelog.engine.maintaining import Flag
from tidelog.errors import Diagnostic
from tidelog.logic.program import BOTTOM, PRIVATE, Atom, Constant, Program, Rule, literal_variables
from tidelog.logic.values import Value
from tidelog.plan.rule_text import Writing

INCONSISTENT: Final = "E601"
MOST: Final = 10  # rules that are reported
ANSWER: Final = "?- violation"


def violations(program: Program, engine: Any) -> list[Diagnostic]:
    """A diagnostic for each rule whose body holds and whose head may not; the engine holds all facts."""
    found: list[Diagnostic] = []
    for rule in program.rules:
        if rule.head.predicate == BOTTOM and len(found) < MOST:
            found += _violation(rule, program, engine)
    return found


def _violation(rule: Rule, program: Program, engine: Any) -> Iterator[Diagnostic]:
    """The diagnostic for a rule, with the facts of one instance, if there is an instance."""
    variables = tuple(dict.fromkeys(each for atom in rule.positive for each in literal_variables(atom)))
    columns, count = engine.answer(Rule(Atom(ANSWER, variables), rule.body))
    if not count:
        return
    first = int(np.lexsort(columns[::-1])[0]) if columns else 0
    row = {
        variable: engine.dictionary.decode(int(column[first]))
        for variable, column in zip(variables, columns, strict=True)
    }
    writing = Writing.of(program)
    seen = [atom for atom in rule.positive if not atom.predicate.startswith(PRIVATE)]
    facts = [_fact(atom, row, writing, engine) for atom in seen]
    named = f" by the rule {rule.name!r}" if rule.name else ""
    times = "" if count == 1 else f", in {count:,} ways"
    help = f"from {', '.join(facts)}" if facts else None
    yield Diagnostic(INCONSISTENT, f"inconsistent: bottom() derived{named}{times}", rule.span, help)


def _fact(atom: Atom, row: dict[Any, Value], writing: Writing, engine: Any) -> str:
    """A fact, and whether it is stated or derived."""
    values = [term.value if isinstance(term, Constant) else row[term] for term in atom.terms]
    columns = [engine.dictionary.encode_values([value]) for value in values]
    is_stated = bool(engine.standing(atom.predicate, columns, 1)[0] & Flag.EXPLICIT)
    ground = Atom(atom.predicate, tuple(map(Constant, values)))
    return f"{writing.atom(ground)} ({'stated' if is_stated else 'derived'})"
