"""Which rules make the facts inconsistent, and by which facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tidelog.engine.flags import Flag
from tidelog.equality.conflicts import REASONS, UNEQUAL
from tidelog.errors import Diagnostic
from tidelog.logic.program import (
    BOTTOM,
    EQUAL,
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
from tidelog.plan.rule_text import Writing
from tidelog.rewrite.representatives import ALIAS, MARK

INCONSISTENT: Final = "E601"
VIOLATED: Final = "violated "  # followed by the number of a rule: no predicate's name has a space
MOST: Final = 10  # rules that are reported
MOST_INSTANCES: Final = 10_000  # among which the one to be shown is chosen
MOST_RULES: Final = 100  # that are asked how they derive a fact
MOST_COMPARED: Final = 32  # instances of which the one that is explained best is shown
MANY_FACTS: Final = 200_000  # from which on that would take long
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

    @property
    def unexplained(self) -> int:
        """How many facts are not stated; an instance of which none is shown is the worst."""
        return len(self.derived) if self.facts else MOST

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
    search = _Search(program, engine)
    found: list[Diagnostic] = []
    for rule in program.rules:
        if rule.head.predicate == BOTTOM and len(found) < MOST:
            found += search.violation(rule)
    return found


class _Search:
    """Looks for instances among all facts. Mutable: it knows by what a fact is derived from then on."""

    def __init__(self, program: Program, engine: Any) -> None:
        self.program = program
        self.engine = engine
        self.writing = Writing.of(program)
        self._derivations: dict[Atom, Instance | None] = {}
        facts = sum(engine.size(name) for name in engine.relations())
        self.most = MOST_COMPARED if facts <= MANY_FACTS else 1

    def violation(self, rule: Rule) -> Iterator[Diagnostic]:
        """The diagnostic for a rule, if it has an instance: with its facts, and how these come about."""
        instances = _instances(rule, self.engine, self.most)
        if not instances:
            return
        instance = min(instances, key=self._unexplained)
        named = f" by the rule {rule.name!r}" if rule.name else ""
        times = "" if instance.ways == 1 else f", in {instance.ways:,} ways"
        lines = [f"from {instance.text(self.writing)}"] if instance.facts else []
        for fact in dict.fromkeys(instance.derived):
            lines += self._derived_by(fact)
        help = ALIGNED.join(lines) or None
        yield Diagnostic(INCONSISTENT, f"inconsistent: bottom() derived{named}{times}", rule.span, help)

    def _unexplained(self, instance: Instance) -> int:
        """How many facts are left of which it would not be said where they come from."""
        made = map(self._derivation, dict.fromkeys(instance.derived))
        return sum(MOST if each is None else each.unexplained for each in made)

    def _derived_by(self, fact: Atom) -> Iterator[str]:
        """By which rule a fact is derived, as text."""
        made = self._derivation(fact)
        if made is not None:
            named = (
                f"by the rule {made.rule.name!r}" if made.rule.name and made.rule.span else "as it follows"
            )
            yield f"{_written(fact, self.writing)} {named} from {made.text(self.writing)}"

    def _derivation(self, fact: Atom) -> Instance | None:
        """The instance by which a fact is derived: not from itself, at best from stated facts."""
        if fact not in self._derivations:
            able = [rule for rule in self.program.rules if _may_derive(rule, fact)][:MOST_RULES]
            made = (_instances(_for_head(rule, fact), self.engine, 1, fact) for rule in able)
            found = [instance for instances in made for instance in instances]
            self._derivations[fact] = min(found, key=lambda each: each.unexplained, default=None)
        return self._derivations[fact]


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


def _instances(rule: Rule, engine: Any, most: int, other_than: Atom | None = None) -> list[Instance]:
    """Some instances of a rule: those with most stated facts, the first of these in the order of ids.

    None of their facts is the one that they are to explain.
    """
    variables = tuple(dict.fromkeys(each for atom in rule.positive for each in literal_variables(atom)))
    columns, count = engine.answer(Rule(Atom(ANSWER, variables), rule.body))
    if not count:
        return []
    order = np.lexsort(columns[::-1])[:MOST_INSTANCES] if columns else np.zeros(1, np.int64)
    values = dict(zip(variables, (column[order] for column in columns), strict=True))
    seen = [atom for atom in rule.positive if not atom.predicate.startswith(PRIVATE)]
    stated = np.zeros((len(seen), len(order)), bool)
    for place, atom in enumerate(seen):
        stated[place] = _are_stated(atom, values, len(order), engine)
    counts = stated.sum(axis=0)
    found: list[Instance] = []
    for row in np.argsort(-counts, kind="stable").tolist():
        if found and (len(found) == most or counts[row] < sum(found[0].stated)):
            break
        facts = tuple(_ground(atom, values, row, engine) for atom in seen)
        if other_than not in facts:
            found.append(Instance(rule, facts, tuple(map(bool, stated[:, row])), count))
    return found


def _ground(atom: Atom, values: dict[Variable, Any], row: int, engine: Any) -> Atom:
    """The fact that an atom is in a row of values."""
    decode = engine.dictionary.decode
    terms = (
        Constant(decode(int(values[term][row]))) if isinstance(term, Variable) else term
        for term in atom.terms
    )
    return Atom(atom.predicate, tuple(terms))


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


# ---- where the facts lie in several places


def told_apart(program: Program) -> Program:
    """Return the program with a predicate for each rule that derives bottom(): its facts tell which did."""
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
        _violated(rule)
        for rule in program.rules
        if rule.head.predicate.startswith(VIOLATED) and holds(rule.head.predicate)
    ]


def _violated(rule: Rule) -> Diagnostic:
    if rule.span is None and rule.name in REASONS:  # an axiom of equality
        return Diagnostic(UNEQUAL, f"inconsistent: two constants are equal, {REASONS[rule.name]}")
    return Diagnostic(INCONSISTENT, "the facts are inconsistent: the body of this rule holds", rule.span)
