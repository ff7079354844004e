"""Inconsistencies: what their finders return, as data, and the diagnostics that this module makes of it.

A finder returns a `ConstraintViolation` (`reasoner.constraints`), a `TimedViolation`
(`temporal.body_evaluation`) or a `Conflict` (`equality.conflicts`). Where it is only known that `bottom()`
holds, or a constraint, the rule is all that is said. No other module makes text of an inconsistency.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from tidelog.errors import Diagnostic, Span
from tidelog.errors.codes import INCONSISTENT, UNEQUAL
from tidelog.logic.equality_axioms import DIFFERENT_LITERALS, DIFFERENT_NAMES, VIOLATED
from tidelog.logic.intervals import Interval
from tidelog.logic.program import BOTTOM, EQUAL, Atom, Fact, Program, Rule
from tidelog.logic.values import Value
from tidelog.plan.rule_text import Writing
from tidelog.records import dataclass
from tidelog.rewrite.representatives import ALIAS, MARK

MOST: Final = 10  # rules that are reported
SHOWN: Final = 3  # intervals of a fact
REASONS: Final = {  # by the axioms that constants violate
    DIFFERENT_LITERALS: "which are different literals",
    DIFFERENT_NAMES: "which are different names, and names are unique",
    VIOLATED: "which must differ",
}
_ALIGNED: Final = "\n        "  # below the first line of a help
_WHY: Final = "`tidelog explain PROGRAM 'bottom()'`, or `reasoner.explain(…)`, says why"

Pair = tuple[Value, Value]

# ---- a rule derives `bottom()`


@dataclass(frozen=True, slots=True)
class RuleInstance:
    """The facts of one instance of a rule, and which of them are explicit; the rule has `ways` instances."""

    rule: Rule
    facts: tuple[Atom, ...]
    explicit: tuple[bool, ...]
    ways: int

    @property
    def derived(self) -> tuple[Atom, ...]:
        """The distinct facts that are not explicit."""
        pairs = zip(self.facts, self.explicit, strict=True)
        return tuple(dict.fromkeys(fact for fact, is_explicit in pairs if not is_explicit))

    @property
    def unexplained(self) -> int:
        """How many facts are not explicit; an instance of which no fact is shown is the worst."""
        return self.explicit.count(False) if self.facts else MOST


@dataclass(frozen=True, slots=True)
class ConstraintViolation:
    """An instance of a rule that derives `bottom()`, and the instances that its facts are derived by."""

    instance: RuleInstance
    derivations: tuple[tuple[Atom, RuleInstance], ...]


def describe_violation(violation: ConstraintViolation, program: Program) -> Diagnostic:
    """Describe a violation: the rule, its facts, and how these are derived."""
    writing = Writing.of(program)
    instance = violation.instance
    times = "" if instance.ways == 1 else f", in {instance.ways:,} ways"
    lines = [f"from {_facts_of(instance, writing)}"] if instance.facts else []
    for fact, by in violation.derivations:
        how = f"by the rule {by.rule.name!r}" if by.rule.name and by.rule.span else "as it follows"
        lines.append(f"{_written(fact, writing)} {how} from {_facts_of(by, writing)}")
    return _derived(instance.rule, times, _ALIGNED.join(lines) or None)


def _facts_of(instance: RuleInstance, writing: Writing) -> str:
    """Return the facts of an instance, each with whether it is stated."""
    words = {True: " (explicit)", False: " (derived)"}
    pairs = zip(instance.facts, instance.explicit, strict=True)
    return ", ".join(
        _written(fact, writing) + ("" if fact.predicate == ALIAS else words[is_explicit])
        for fact, is_explicit in pairs
    )


def _written(fact: Atom, writing: Writing) -> str:
    """Return a fact as its predicate is written; an alias means that two constants are equal."""
    if fact.predicate == ALIAS:
        return writing.atom(Atom(EQUAL, fact.terms))
    return writing.atom(Atom(fact.predicate.removesuffix(MARK), fact.terms))


def _derived(rule: Rule, how: str, help: str | None) -> Diagnostic:
    named = f" by the rule {rule.name!r}" if rule.name else ""
    return Diagnostic(INCONSISTENT, f"inconsistent: bottom() derived{named}{how}", rule.span, help)


# ---- a rule derives `bottom()` at some time


@dataclass(frozen=True, slots=True)
class TimedViolation:
    """A rule by which `bottom()` holds at some time, with its first instance: plain values, which tasks send.

    The intervals and facts are written where the dictionary is, by `intervals_text` and `timed_fact_text`.
    """

    rule: int  # its number in the program
    body: int  # which of the rule's bodies holds, if it has several
    ways: int  # how many instances there are
    left: int  # the end at which the first one begins to hold
    times: str
    facts: str


def describe_timed_violations(violations: Iterable[TimedViolation], program: Program) -> list[Diagnostic]:
    """Describe each violation; if there is none, `bottom()` is explicit."""
    return [_timed(each, program.rules[each.rule]) for each in violations] or [describe_explicit_bottom()]


def _timed(violation: TimedViolation, rule: Rule) -> Diagnostic:
    ways = "" if violation.ways == 1 else f", in {violation.ways:,} ways, first"
    help = f"from {violation.facts}{_ALIGNED}{_WHY}" if violation.facts else _WHY
    return _derived(rule, f"{ways} at {violation.times}", help)


def timed_fact_text(fact: Atom, times: str | None, writing: Writing) -> str:
    """Return a fact of a violation as text, with the times at which it holds if it has some."""
    return writing.atom(fact) + (f" at {times}" if times is not None else "")


def intervals_text(intervals: Iterable[Interval], count: int) -> str:
    """Return the first of so many intervals as text."""
    more = f" and {count - SHOWN:,} more intervals" if count > SHOWN else ""
    return ", ".join(map(str, islice(intervals, SHOWN))) + more


# ---- `bottom()` holds, and nothing else is known


def describe_bottom(program: Program) -> Diagnostic:
    """Describe that `bottom()` holds in a program, at the first rule that can derive it."""
    rule = next((rule for rule in program.rules if rule.head.predicate == BOTTOM), None)
    if rule is None:
        return describe_explicit_bottom()
    return Diagnostic(INCONSISTENT, "inconsistent: bottom() derived", rule.span)


def describe_explicit_bottom(span: Span | None = None) -> Diagnostic:
    """Describe that a program or its data states `bottom()`."""
    return Diagnostic(INCONSISTENT, "inconsistent: bottom() is an explicit fact", span)


def describe_derived_bottom(rule: Rule) -> Diagnostic:
    """Describe that a rule derives `bottom()`."""
    return _derived(rule, "", None)


def describe_constraint(rule: Rule) -> Diagnostic:
    """Describe that the body of a constraint, or of an axiom of equality, holds for unknown facts."""
    if rule.span is None and rule.name in REASONS:  # an axiom of equality
        return Diagnostic(UNEQUAL, f"inconsistent: two constants are equal, {REASONS[rule.name]}")
    return Diagnostic(INCONSISTENT, "the facts are inconsistent: the body of this rule holds", rule.span)


# ---- constants are equal that must not be


@dataclass(frozen=True, slots=True)
class EquatingInstance:
    """The instance of a rule that makes two constants equal; the last `derived` of its facts are derived."""

    rule: Rule
    facts: tuple[Fact, ...]
    derived: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two constants that are equal and must not be; `reason` is the name of the violated axiom."""

    pair: Pair
    reason: str
    instance: EquatingInstance | None = None


def describe_conflict(conflict: Conflict, program: Program) -> Diagnostic:
    """Describe a conflict, with the instance of the rule that causes it if one was found."""
    writing = Writing.of(program)
    left, right = map(writing.value, conflict.pair)
    asking = f"`tidelog explain PROGRAM '{left} = {right}'`, or `reasoner.explain(…)`, says why"
    if conflict.instance is None:
        return Diagnostic(UNEQUAL, _message(conflict, writing), help=f"{asking} they are equal")
    rule, facts, derived = conflict.instance.rule, conflict.instance.facts, conflict.instance.derived
    named = f"the rule {rule.name!r}" if rule.name else "this rule"
    marks = ("",) * (len(facts) - derived) + (" (derived)",) * derived
    texts = (writing.fact(fact).removesuffix(" .") for fact in facts)
    shown = ", ".join(map("".join, zip(texts, marks, strict=True)))
    more = f"; {asking}" if derived else ""
    return Diagnostic(UNEQUAL, _message(conflict, writing), rule.span, f"by {named} from {shown}{more}")


def describe_conflict_among_tasks(conflict: Conflict, program: Program) -> Diagnostic:
    """Describe a conflict found by tasks that each hold a part of the facts."""
    writing = Writing.of(program)
    left, right = map(writing.value, conflict.pair)
    help = f"run it in one process, or `tidelog explain PROGRAM '{left} = {right}'`, which says why"
    return Diagnostic(UNEQUAL, _message(conflict, writing), help=help)


def describe_equal(pair: Iterable[Value]) -> Diagnostic:
    """Describe two constants that are equal and must not be, for whatever reason."""
    return Diagnostic(UNEQUAL, _equal(pair, Writing()))


def _message(conflict: Conflict, writing: Writing) -> str:
    return f"{_equal(conflict.pair, writing)}, {REASONS[conflict.reason]}"


def _equal(pair: Iterable[Value], writing: Writing) -> str:
    left, right = map(writing.value, pair)
    return f"inconsistent: {left} = {right}"
