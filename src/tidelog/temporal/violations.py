"""Which rules make the facts inconsistent over time, when, and by which facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tidelog.errors import Diagnostic
from tidelog.logic.program import BOTTOM, Atom, Constant, Program, Variable
from tidelog.plan.rule_text import Writing
from tidelog.temporal.compute import Computer
from tidelog.temporal.evaluate import Evaluation
from tidelog.temporal.lists import Lists
from tidelog.temporal.nodes import ReadyRule
from tidelog.temporal.store import Store

INCONSISTENT = "E601"
MOST = 10  # rules that are reported
SHOWN = 3  # intervals
WHY = "`tidelog explain PROGRAM 'bottom()'`, or `reasoner.explain(…)`, says why"


def violations(program: Program, store: Store, first: int) -> list[Diagnostic]:
    """A diagnostic for each rule by which `bottom()` holds at a left end or later."""
    evaluation = Evaluation(store, Computer(store.engine))
    found: list[Diagnostic] = []
    for ready in store.ready(program):
        if ready.head == BOTTOM and len(found) < MOST:
            found += _violation(ready, program, evaluation, store, first)
    return found or [Diagnostic(INCONSISTENT, "inconsistent: bottom() is stated")]


def _violation(
    ready: ReadyRule, program: Program, evaluation: Evaluation, store: Store, first: int
) -> Iterator[Diagnostic]:
    """The diagnostic for a rule, with the facts of the first instance, if there is one."""
    for body in ready.bodies:
        groups = evaluation.whole(body)
        lists = groups.lists
        for by in ready.moves:
            lists = lists.moved(by)
        lists = lists.later(first)
        kept = np.flatnonzero(lists.count > 0)
        if not len(kept):
            continue
        chosen = kept[np.argmin(lists.left[lists.first[kept]])]
        values = {name: int(groups.column(name)[chosen]) for name in groups.names}
        rule = ready.rule
        named = f" by the rule {rule.name!r}" if rule.name else ""
        ways = "" if len(kept) == 1 else f", in {len(kept):,} ways, first"
        times = _times(lists.taken(np.array([chosen])), store)
        message = f"inconsistent: bottom() derived{named}{ways} at {times}"
        facts = ", ".join(_facts(rule.positive, values, program, store))
        yield Diagnostic(INCONSISTENT, message, rule.span, f"from {facts}\n        {WHY}" if facts else WHY)
        return


def _facts(atoms: Sequence[Atom], values: Mapping[str, int], program: Program, store: Store) -> Iterator[str]:
    """The facts that atoms are for some values, with when they hold."""
    writing = Writing.of(program)
    for atom in atoms:
        names = [term.name for term in atom.terms if isinstance(term, Variable)]
        if atom.predicate not in store.tables or not all(name in values for name in names):
            continue
        decode, encode = store.engine.dictionary.decode, store.engine.dictionary.encode
        ids = [values[term.name] if isinstance(term, Variable) else encode(term.value) for term in atom.terms]
        table = store.tables[atom.predicate]
        number = table.facts.find(np.array(ids, np.int32).reshape(len(ids), 1), 1)
        text = writing.atom(Atom(atom.predicate, tuple(Constant(decode(one)) for one in ids)))
        if number[0] >= 0 and atom.predicate in program.timed:
            text += f" at {_times(table.lists.taken(number), store)}"
        yield text


def _times(lists: Lists, store: Store) -> str:
    """The first intervals of a list."""
    _, left, right = lists.rows()
    ends = list(zip(left.tolist(), right.tolist(), strict=True))
    texts = [str(store.timeline.decode(*each)) for each in ends[:SHOWN]]
    more = f" and {len(ends) - SHOWN:,} more intervals" if len(ends) > SHOWN else ""
    return ", ".join(texts) + more
