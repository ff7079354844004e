"""Which rules make the facts inconsistent over time, when, and by which facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidelog.errors import Diagnostic
from tidelog.logic.program import BOTTOM, Atom, Constant, Program, Rule, Variable
from tidelog.plan.rule_text import Writing
from tidelog.temporal.compute import Computer
from tidelog.temporal.evaluate import Evaluation
from tidelog.temporal.lists import Lists
from tidelog.temporal.nodes import ReadyRule
from tidelog.temporal.store import Store

INCONSISTENT = "E601"
MOST = 10  # rules that are reported
SHOWN = 3  # intervals
STATED = Diagnostic(INCONSISTENT, "inconsistent: bottom() is stated")
WHY = "`tidelog explain PROGRAM 'bottom()'`, or `reasoner.explain(…)`, says why"


@dataclass(frozen=True, slots=True)
class Violation:
    """The first instance of a rule by which `bottom()` holds: of so many, when, and by which facts."""

    body: int  # of the rule's bodies, if it has several
    ways: int
    left: int  # the end at which it begins to hold
    times: str
    facts: str

    def diagnostic(self, rule: Rule) -> Diagnostic:
        """Return it as the diagnostic of a rule."""
        named = f" by the rule {rule.name!r}" if rule.name else ""
        ways = "" if self.ways == 1 else f", in {self.ways:,} ways, first"
        message = f"inconsistent: bottom() derived{named}{ways} at {self.times}"
        help = f"from {self.facts}\n        {WHY}" if self.facts else WHY
        return Diagnostic(INCONSISTENT, message, rule.span, help)


def first_of(found: Sequence[Violation]) -> Violation:
    """Return what tasks have found of one rule, each among its own facts, as one."""
    body = min(each.body for each in found)
    same = [each for each in found if each.body == body]
    first = min(same, key=lambda each: each.left)
    return replace(first, ways=sum(each.ways for each in same))


def violations(program: Program, store: Store, first: int) -> list[Diagnostic]:
    """A diagnostic for each rule by which `bottom()` holds at a left end or later."""
    evaluation = Evaluation(store, Computer(store.engine))
    found: list[Diagnostic] = []
    for ready in store.ready(program):
        if ready.head == BOTTOM and len(found) < MOST:
            violation = instance_of(ready, ready.rule, program, evaluation, store, first)
            if violation is not None:
                found.append(violation.diagnostic(ready.rule))
    return found or [STATED]


def instance_of(
    ready: ReadyRule, rule: Rule, program: Program, evaluation: Evaluation, store: Store, first: int
) -> Violation | None:
    """Return the first instance of a rule, if there is one.

    It is made ready for relations of a task, perhaps; `rule` is the one that the program has.
    """
    for number, body in enumerate(ready.bodies):
        groups = evaluation.whole(body)
        lists = groups.lists
        for by in ready.moves:
            lists = lists.moved(by)
        lists = lists.later(first)
        kept = np.flatnonzero(lists.count > 0)
        if not len(kept):
            continue
        starts = lists.left[lists.first[kept]]
        chosen = kept[np.argmin(starts)]
        values = {name: int(groups.column(name)[chosen]) for name in groups.names}
        times = _times(lists.taken(np.array([chosen])), store)
        pairs = zip(rule.positive, ready.rule.positive, strict=True)
        facts = ", ".join(_facts(pairs, values, program, store))
        return Violation(number, len(kept), int(starts.min()), times, facts)
    return None


def _facts(
    atoms: Iterable[tuple[Atom, Atom]], values: Mapping[str, int], program: Program, store: Store
) -> Iterator[str]:
    """The facts that atoms are for some values, with when they hold; each with the atom as it is read."""
    writing = Writing.of(program)
    for atom, read in atoms:
        names = [term.name for term in atom.terms if isinstance(term, Variable)]
        if read.predicate not in store.tables or not all(name in values for name in names):
            continue
        decode, encode = store.engine.dictionary.decode, store.engine.dictionary.encode
        ids = [values[term.name] if isinstance(term, Variable) else encode(term.value) for term in atom.terms]
        table = store.tables[read.predicate]
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
