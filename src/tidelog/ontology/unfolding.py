"""Rules without what stands between them: classes that have no name, and predicates that walk along lists.

A class without a name, such as a restriction, is defined by some rules and read by others. What no rule reads
is not derived, what no rule derives is not read, and where a class is not defined by itself its definitions
take its place in the rules that read it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidelog.logic.program import (
    Atom,
    Comparison,
    Constant,
    Literal,
    Rule,
    Term,
    Variable,
    literal_variables,
)
from tidelog.logic.values import Kind, Value
from tidelog.ontology.vocabulary import TABLES, TRIPLE, TYPE
from tidelog.rewrite.renaming import renamed_rule

WALKS: Final = frozenset(TABLES + name for name in ("leads", "within", "agree"))  # along a list, by its nodes
ASKED: Final = frozenset(TABLES + name for name in ("term", "asked", "of"))  # of datatypes, by their names
MOST: Final = 32  # rules that one rule may become in place of reading a definition

NAMES: Final = "xyzuvw"  # of variables, the first ones

Handle = tuple[str, Value | None]
Key = tuple[Atom, frozenset[Literal]]


@dataclass(frozen=True)
class Hidden:
    """What is not to be seen in results: datatypes, and classes and properties without a name.

    Classes to which something is said to belong are seen.
    """

    datatypes: frozenset[Value]
    classes_of_things: frozenset[Value]

    def handle(self, atom: Atom) -> Handle | None:
        """What an atom asks for if that is hidden: the predicate, and the class, node or datatype."""
        if atom.predicate in WALKS or atom.predicate in ASKED:
            term = atom.terms[1]
            return atom.predicate, term.value if isinstance(term, Constant) else None
        if atom.predicate != TRIPLE:
            return None
        _, predicate, object_ = atom.terms
        named = object_ if predicate == Constant(TYPE) else predicate
        if not isinstance(named, Constant) or not self._is_hidden(named.value):
            return None
        return TRIPLE, named.value

    def _is_hidden(self, value: Value) -> bool:
        is_unnamed = value.kind is Kind.BLANK or value in self.datatypes
        return is_unnamed and value not in self.classes_of_things


def simplified(rules: Iterable[Rule], hidden: Hidden) -> list[Rule]:
    """Rules that derive the same, apart from what is hidden."""
    unfolding = _Unfolding(hidden)
    for rule in _living(list(rules), hidden):
        unfolding.add(rule)
    unfolding.run()
    return _living(list(unfolding.rules.values()), hidden)


def _canonical(rule: Rule) -> Rule:
    """The rule with variables named in their order, each literal once."""
    body = tuple(dict.fromkeys(rule.body))
    counted = Counter(item for literal in (rule.head, *body) for item in literal_variables(literal))
    names: dict[Variable, Term] = {}
    for variable, count in counted.items():
        number = len(names)
        named = NAMES[number] if number < len(NAMES) else f"x{number}"
        names[variable] = Variable(named if count > 1 else f"_{number}")
    return renamed_rule(replace(rule, body=body), names)


# ---- what is derived and read


def _living(rules: Sequence[Rule], hidden: Hidden) -> list[Rule]:
    """The rules that can derive something, and something that is read or seen."""
    left = _derivable(rules, hidden)
    while True:
        read = {handle for rule in left for handle in _read(rule, hidden)}
        kept = [rule for rule in left if _is_seen(rule, read, hidden)]
        if len(kept) == len(left):
            return kept
        left = kept


def _derivable(rules: Sequence[Rule], hidden: Hidden) -> list[Rule]:
    """The rules whose bodies can hold, for what is hidden is derived by others of them."""
    derived: set[Handle] = set()
    pending = [(rule, tuple(_needed(rule, hidden))) for rule in rules]
    left: list[Rule] = []
    while True:
        waiting = []
        for rule, needed in pending:
            if all(_is_met(handle, derived) for handle in needed):
                left.append(rule)
                derived |= {handle for handle in [hidden.handle(rule.head)] if handle is not None}
            else:
                waiting.append((rule, needed))
        if len(waiting) == len(pending):
            return left
        pending = waiting


def _is_met(handle: Handle, derived: set[Handle]) -> bool:
    predicate, value = handle
    if value is None:
        return any(known == predicate for known, _ in derived)
    return handle in derived or (predicate, None) in derived


def _needed(rule: Rule, hidden: Hidden) -> Iterator[Handle]:
    """What is hidden that must hold for the rule to derive something."""
    return (handle for atom in rule.positive if (handle := hidden.handle(atom)) is not None)


def _read(rule: Rule, hidden: Hidden) -> Iterator[Handle]:
    """What is hidden that the rule reads, negated or not."""
    atoms = (*rule.positive, *rule.negated)
    return (handle for atom in atoms if (handle := hidden.handle(atom)) is not None)


def _is_seen(rule: Rule, read: set[Handle], hidden: Hidden) -> bool:
    handle = hidden.handle(rule.head)
    return handle is None or _is_met(handle, read)


# ---- unfolding


class _Unfolding:
    """Rules in which definitions take the place of what is hidden, one hidden thing after the other. Mutable.

    A rule is kept under what it says, so that none says what another one says; one that says nothing is
    left out, which often is all that made a definition recursive.
    """

    def __init__(self, hidden: Hidden) -> None:
        self.rules: dict[Key, Rule] = {}
        self._hidden = hidden
        self._defining: dict[Handle, dict[Key, None]] = defaultdict(dict)
        self._reading: dict[Handle, dict[Key, None]] = defaultdict(dict)

    def add(self, rule: Rule) -> None:
        """Take in a rule, unless it says nothing new."""
        plain = _canonical(rule)
        key = plain.head, frozenset(plain.body)
        says_nothing = plain.head in plain.body or not set(plain.positive).isdisjoint(plain.negated)
        if says_nothing or key in self.rules:
            return
        self.rules[key] = plain
        for handles, index in self._places(plain):
            for handle in handles:
                index[handle][key] = None

    def _remove(self, key: Key) -> Rule:
        rule = self.rules.pop(key)
        for handles, index in self._places(rule):
            for handle in handles:
                index[handle].pop(key, None)
        return rule

    def _places(self, rule: Rule) -> Iterator[tuple[list[Handle], dict[Handle, dict[Key, None]]]]:
        """What a rule defines and reads, and where that is noted."""
        handle = self._hidden.handle(rule.head)
        yield [handle] if handle is not None else [], self._defining
        yield list(_read(rule, self._hidden)), self._reading

    def run(self) -> None:
        """Unfold all that can be unfolded."""
        left = [handle for handle in self._defining if handle[0] not in ASKED and handle[1] is not None]
        while True:
            waiting = [handle for handle in left if not self._unfold(handle)]
            if len(waiting) == len(left):
                return
            left = waiting

    def _unfold(self, handle: Handle) -> bool:
        """Whether definitions took the place of something hidden: not if it is defined by itself."""
        definitions = [self.rules[key] for key in self._defining[handle]]
        readers = [self.rules[key] for key in self._reading[handle]]
        is_recursive = any(handle in _read(rule, self._hidden) for rule in definitions)
        if is_recursive or any(self._grown(rule, handle, len(definitions)) > MOST for rule in readers):
            return False
        for key in list(self._defining[handle]):
            self._remove(key)
        for key in list(self._reading[handle]):
            for made in self._replaced(self._remove(key), handle, definitions):
                self.add(made)
        return True

    def _grown(self, rule: Rule, handle: Handle, definitions: int) -> int:
        """How many rules a rule would become; too many if it negates what is hidden."""
        if any(self._hidden.handle(atom) == handle for atom in rule.negated):
            return MOST + 1
        uses = sum(needed == handle for needed in _needed(rule, self._hidden))
        return int(definitions**uses)

    def _replaced(
        self, rule: Rule, handle: Handle, definitions: Sequence[Rule], depth: int = 0
    ) -> Iterator[Rule]:
        """The rules that one rule becomes, a definition in each place where it reads what is hidden."""
        atom = next((atom for atom in rule.positive if self._hidden.handle(atom) == handle), None)
        if atom is None:
            body = decide(rule.body)
            if body is not None:
                yield replace(rule, body=body)
            return
        for definition in definitions:
            made = _resolved(rule, atom, definition, f"{depth}_")
            if made is not None:
                yield from self._replaced(made, handle, definitions, depth + 1)


def _resolved(rule: Rule, atom: Atom, definition: Rule, mark: str) -> Rule | None:
    """The rule with the body of a definition in place of an atom; None if the two do not fit."""
    variables = (item for each in (definition.head, *definition.body) for item in literal_variables(each))
    apart = renamed_rule(definition, {item: Variable(mark + item.name) for item in variables})
    names = _unifier(atom.terms, apart.head.terms)
    if names is None:
        return None
    place = rule.body.index(atom)
    body = (*rule.body[:place], *apart.body, *rule.body[place + 1 :])
    return renamed_rule(replace(rule, body=body), names)


def _unifier(left: Sequence[Term], right: Sequence[Term]) -> dict[Variable, Term] | None:
    """What variables must stand for, so that the terms are the same."""
    names: dict[Variable, Term] = {}

    def final(term: Term) -> Term:
        while isinstance(term, Variable) and term in names:
            term = names[term]
        return term

    for one, other in zip(left, right, strict=True):
        first, second = final(one), final(other)
        if first == second:
            continue
        if isinstance(second, Variable):
            names[second] = first
        elif isinstance(first, Variable):
            names[first] = second
        else:
            return None
    return {variable: final(variable) for variable in names}


def decide(body: tuple[Literal, ...]) -> tuple[Literal, ...] | None:
    """The body without comparisons of two constants; None if one of them fails."""
    left: list[Literal] = []
    for literal in body:
        if isinstance(literal, Comparison) and literal.operator in ("=", "!="):
            first, second = literal.left, literal.right
            if isinstance(first, Constant) and isinstance(second, Constant):
                if (first == second) != (literal.operator == "="):
                    return None
                continue
            if first == second and literal.operator == "!=":
                return None
        left.append(literal)
    return tuple(left)
