"""What a rule means, whatever its variables are called and in whatever order its literals stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from tidelog.logic.program import MetricRule, Rule, Variable


class Rules:
    """Rules that can be looked for by what they mean. Mutable: it grows."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self._rules: dict[object, list[Rule]] = {}
        for rule in rules:
            self.add(rule)

    def add(self, rule: Rule) -> None:
        """Let a rule be found."""
        self._rules.setdefault(_outline(rule), []).append(rule)

    def find(self, wanted: Rule) -> tuple[Rule, ...]:
        """All rules that mean the same as the wanted one: names, spelling and order do not matter.

        >>> from tidelog import parse
        >>> rules = parse("p(?x) :- q(?x, ?y), ~r(?y) . q(1, 2) . r(3) .").rules
        >>> other = parse('#[name("other")] p(?b) :- q(?b, ?a), ~r(?a) . q(1, 2) . r(3) .').rules
        >>> Rules(rules).find(other[0]) == rules
        True
        """
        return tuple(rule for rule in self._rules.get(_outline(wanted), ()) if is_same(rule, wanted))


def is_same(rule: Rule, other: Rule) -> bool:
    """Whether two rules differ in the names of variables and the order of literals only."""
    fixed = (rule.head, rule.group, rule.aggregations, rule.after, _moves(rule))
    wanted = (other.head, other.group, other.aggregations, other.after, _moves(other))
    names = _matched(fixed, wanted, {})
    return names is not None and _bodies_match(rule.body, list(other.body), names)


def _moves(rule: Rule) -> tuple[object, ...]:
    """The operators of time in a rule's head."""
    return rule.moves if isinstance(rule, MetricRule) else ()


Names = dict[str, str]


def _bodies_match(body: Sequence[object], others: list[Any], names: Names) -> bool:
    """Whether each literal is one of the others, each of these once, under one renaming."""
    if not body:
        return not others
    for place, other in enumerate(others):
        extended = _matched(body[0], other, names)
        if extended is not None and _bodies_match(body[1:], others[:place] + others[place + 1 :], extended):
            return True
    return False


def _matched(item: object, other: object, names: Names) -> Names | None:
    """The renaming extended so that it makes the item the other, or None if that cannot be."""
    if isinstance(item, Variable) and isinstance(other, Variable):
        known = names.get(item.name)
        if known is None and other.name not in names.values():
            return {**names, item.name: other.name}
        return names if known == other.name else None
    if type(item) is not type(other):
        return None
    parts, others = _parts(item), _parts(other)
    if parts is None or others is None:
        return names if item == other else None
    if len(parts) != len(others):
        return None
    for part, counterpart in zip(parts, others, strict=True):
        extended = _matched(part, counterpart, names)
        if extended is None:
            return None
        names = extended
    return names


def _parts(item: object) -> tuple[object, ...] | None:
    """What a literal, term or tuple consists of; None if it is a whole."""
    if isinstance(item, tuple):
        return item
    if is_dataclass(item) and type(item).__module__ == Variable.__module__:
        return tuple(getattr(item, field.name) for field in fields(item))
    return None


@lru_cache(maxsize=4096)
def _outline(rule: Rule) -> object:
    """What remains of a rule when all variables are called alike: equal for rules that mean the same."""
    blind = replace(rule, name=None, span=None)
    return repr((_blind(blind.head), sorted(map(_blind, blind.body)), _blind(blind.aggregations)))


def _blind(item: object) -> str:
    return "(" + " ".join(_words(item)) + ")"


def _words(item: object) -> Iterator[str]:
    parts = _parts(item)
    if isinstance(item, Variable):
        yield "?"
    elif parts is None:
        yield repr(item)
    else:
        yield type(item).__name__
        yield from map(_blind, parts)
