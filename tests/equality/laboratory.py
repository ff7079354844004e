"""Where treatments of equality are tried: a reasoner that changes, beside the reference from scratch."""

from __future__ import annotations

import tidelog as tl
from tests.equality.scripts import DECLARED, Change, Script
from tidelog.engine.reference import evaluate
from tidelog.errors import Inconsistent
from tidelog.logic.conversions import exact
from tidelog.logic.program import BUILT_IN, EQUAL

Facts = dict[str, frozenset[tuple[str, ...]]]


def reference(rules: tuple[str, ...], facts: tuple[str, ...]) -> Facts | None:
    """All facts that follow, None if they are inconsistent."""
    try:
        found = evaluate(tl.parse("\n".join((DECLARED, *rules, *facts))))
    except Inconsistent:
        return None
    return _present({name: frozenset(tuple(map(exact, row)) for row in rows) for name, rows in found.items()})


def held(reasoner: tl.Reasoner) -> Facts:
    """All facts that a reasoner holds."""
    return _present(
        {name: frozenset(reasoner[name].to_texts("exact").rows()) for name in reasoner.predicates()}
    )


def _present(facts: Facts) -> Facts:
    """Those of predicates that have some."""
    return {name: rows for name, rows in facts.items() if rows and (name not in BUILT_IN or name == EQUAL)}


class Laboratory:
    """A reasoner, and what it was told."""

    def __init__(self, script: Script, **options: object) -> None:
        self.rules, self.facts = script.rules, script.facts
        self.reasoner = tl.Reasoner(tl.parse(script.text), threads=1, **options)  # type: ignore[arg-type]

    def apply(self, change: Change) -> None:
        """Carry a transaction out; the delta, and all facts afterwards, are as from scratch."""
        before = held(self.reasoner)
        lines = set(change.removed)
        rules = tuple(rule for rule in self.rules if rule not in lines)
        facts = tuple(fact for fact in self.facts if fact not in lines)
        rules += tuple(each for each in change.added if ":-" in each)
        facts += tuple(each for each in change.added if ":-" not in each)
        expected = reference(rules, facts)
        try:
            delta = self.reasoner.apply(change.text)
        except Inconsistent:
            assert expected is None
            assert held(self.reasoner) == before
            return
        assert expected is not None
        self.rules, self.facts = rules, facts
        after = held(self.reasoner)
        assert after == expected
        for name in self.reasoner.predicates():
            if name in BUILT_IN and name != EQUAL:
                continue
            old, new = before.get(name, frozenset()), after.get(name, frozenset())
            changed = delta[name]
            assert set(changed.added.to_texts("exact").rows()) == new - old
            assert set(changed.removed.to_texts("exact").rows()) == old - new


def run(script: Script, **options: object) -> None:
    """Carry a script out, everything being compared with the reference after each transaction."""
    laboratory = Laboratory(script, **options)
    expected = reference(script.rules, script.facts)
    try:
        laboratory.reasoner.materialise()
    except Inconsistent:
        assert expected is None
        return
    assert expected is not None
    assert held(laboratory.reasoner) == expected
    for change in script.changes:
        laboratory.apply(change)
