"""Equality as ordinary rules: a program that any engine, maintainer and query strategy can run.

Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
Programs with Equality, IJCAI 2015, section 2, rules (≈1) to (≈3), for predicates of any arity. It is the
definition of what equality means, and the baseline that rewriting is measured against.

Invariant: the program has the same facts as before in every predicate, and those that replacing equals adds.
"""

from __future__ import annotations

from dataclasses import replace

from tidelog.logic.equality import axioms, constraints, has_equality
from tidelog.logic.program import BOTTOM, DIFFERENT, EQUAL, Program


def axiomatise(program: Program, *, unique_names: bool = False) -> Program:
    """The program with the axioms of equality as rules; the same object if it has no equality.

    >>> from tidelog.logic.resolve import resolve
    >>> from tidelog.syntax.parser import parse_text
    >>> program = resolve(parse_text("?x = ?y :- passport(?x, ?n), passport(?y, ?n) . passport(ann, 7) ."))
    >>> len(axiomatise(program).rules)
    6
    """
    if not has_equality(program.predicates):
        return program
    whole = program
    for name, arity in ((EQUAL, 2), (BOTTOM, 0)):
        whole = whole if name in whole.predicates else whole.defining(name, arity)
    rules = (*axioms(whole.predicates), *constraints(DIFFERENT in whole.predicates, unique_names))
    return replace(whole, rules=(*program.rules, *rules))
