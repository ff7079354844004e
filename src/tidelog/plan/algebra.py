"""Plans: trees of frozen nodes over named variables.

`Scan(relation, part)` names which part of a relation is read: that is the hinge on which semi-naive
evaluation and the maintenance algorithms turn.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from tidelog.logic.program import (
    Aggregation,
    Assignment,
    Comparison,
    Condition,
    Expression,
    Rule,
    Term,
    Variable,
)
from tidelog.records import dataclass


class Part(Enum):
    """Which facts of a relation a scan reads."""

    # In rounds of semi-naive evaluation:
    ALL = "all"  # all facts known when the round began
    OLD = "old"  # those known before the last round
    NEW = "new"  # those that the last round added

    # While a transaction is applied to derived facts:
    GIVEN = "given"  # the driving facts: those handed to the plan when it is run
    BEFORE = "before"  # true before the transaction
    NOW = "now"  # true at present
    KEPT = "kept"  # surviving: true before and at present
    EITHER = "either"  # true before or at present: such facts must be absent for a negation to survive
    SETTLED = "settled"  # true at present, and not of the set that drives the round
    CHECKED = "checked"  # true at present, and their support has been searched
    UNCHECKED = "unchecked"  # true at present, and their support has not been searched
    PROVED = "proved"  # checked, and found to be true in any case
    PROVED_SETTLED = "proved settled"  # … before the set that drives the round


@dataclass(frozen=True, slots=True)
class Unit:
    """One row without columns: where a body without atoms begins."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The facts of a part of a relation that match the terms."""

    relation: str
    part: Part
    terms: tuple[Term, ...]
    own: bool = False  # the relation is of the stratum that the plan maintains: ranks are compared


@dataclass(frozen=True, slots=True)
class Witness:
    """The given facts that made or broke a negation, one for each binding of the `bound` columns.

    Without those for which a fact of the part `unless` matches the terms and agrees with the given one on
    them: the negation did not hold before, or does not hold now, regardless of the given fact.
    """

    scan: Scan
    unless: Part
    bound: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """The input's rows extended by each matching fact."""

    input: Node
    scan: Scan


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """The input's rows that no fact matches; variables not in the input match anything."""

    input: Node
    scan: Scan


@dataclass(frozen=True, slots=True)
class Filter:
    """The input's rows for which the test holds."""

    input: Node
    test: Comparison | Condition


@dataclass(frozen=True, slots=True)
class Extend:
    """The input's rows with a computed column; rows for which it has no value are dropped."""

    input: Node
    variable: Variable
    expression: Expression


@dataclass(frozen=True, slots=True)
class Project:
    """The input's rows as facts: one term per column."""

    input: Node
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per group of the input's distinct rows, then computed columns, then the head's terms.

    The input is a scan whose terms are the variables it names, in order.
    """

    input: Scan
    group: tuple[Variable, ...]
    aggregations: tuple[Aggregation, ...]
    after: tuple[Assignment, ...]
    terms: tuple[Term, ...]


EXTREMES: Final = {"min": -1, "max": 1}  # the aggregates that repeated rows do not change


@dataclass(frozen=True, slots=True)
class Support:
    """The facts of these atoms in one instance for each given fact: its first, others are not searched."""

    input: Node
    atoms: tuple[Scan, ...]


Node = Unit | Scan | Witness | Join | AntiJoin | Filter | Extend | Project | Aggregate


@dataclass(frozen=True, slots=True)
class RulePlan:
    """How one rule adds facts to one relation; `pivot` is the scan that drives it."""

    relation: str
    root: Project | Aggregate
    rule: Rule
    number: int  # of the rule in the program
    pivot: Scan | Unit
    is_only: bool = False  # no other plan adds facts to the relation while this one runs
    may_repeat: bool = False  # facts that are found twice do no harm


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """How one rule propagates a change: driven by facts of the relation `given`, or by all if None.

    The effect on the facts that it finds, heads or supports, is an argument of each run.
    """

    relation: str
    root: Project | Support
    rule: Rule
    number: int  # of the rule in the program
    given: str | None


def chain(node: Node) -> list[Node]:
    """Return the nodes from the one that is scanned first to this one, which may be thousands."""
    nodes = [node]
    while not isinstance(node, Unit | Scan | Witness):
        node = node.input
        nodes.append(node)
    return nodes[::-1]


def scans(node: Node) -> tuple[Scan, ...]:
    """Return the scans below a node, the driving one first."""
    return tuple(scan for item in chain(node) if (scan := _scan_of(item)) is not None)


def _scan_of(node: Node) -> Scan | None:
    match node:
        case Scan():
            return node
        case Witness(scan) | Join(_, scan) | AntiJoin(_, scan):
            return scan
    return None


# ---- names of the relations made for queries, proofs and checks
#
# A name with a space in it is no predicate's. Some of these names are in snapshots and journals of stores:
# they stay as they are.

# Answers to one query, each in a separate relation that is dropped with it.
ANSWERS: Final = "?- answers"  # heads of a rule, found by its plan
CONSTANTS: Final = "?- given"  # the bound constants of a plan, or the parameters of a query, in one row
MAGIC_ANSWERS: Final = "?- magic"
MAGIC_BOTTOM: Final = "?- bottom"  # whether the program is inconsistent, as far as magic sets derive it
BINDING: Final = "?- asked"  # the binding for which a prepared query is answered now
VIOLATIONS: Final = "?- violation"  # instances of a rule that derives bottom()
UNEQUAL_PAIRS: Final = "?- unequal"  # pairs that a rule derives as not equal
LISTED: Final = "?- changed"  # facts that name a constant whose class has changed
ABSENT: Final = "?- absent"  # whether a fact is missing

# Queries that stay: `?- NUMBER of ARITY`, with the requested bindings.

KEPT_BOTTOM: Final = "?- bottom, kept"  # not `MAGIC_BOTTOM`, which is dropped with its query
REQUERIED: Final = "?- looked up"  # and a number: queries that are answered again after each transaction


def kept_answers(number: int, arity: int) -> str:
    """Return the relation of the answers to a kept query."""
    return f"?- {number} of {arity}"


# Proofs: temporary relations, each with a number of columns behind the name.

INSTANCES: Final = "why"
EXPLAINED: Final = "why asked"  # the answers that are explained
EXPLAINED_MEMBERS: Final = "why equal"  # the same over representatives of equal constants
UNEXPLAINED_FACT: Final = "why not"  # the fact for which an explanation of its absence is requested

# Tables: the prefixes of names; the predicate, and its pattern of bound arguments, follow.

ASKED: Final = "ask "  # requested bound arguments
CALLED: Final = "call "  # those among them that are evaluated
CONTEXT: Final = "within "  # which call requests which
ANSWERED: Final = "answer "
JOINED: Final = "joined "  # the beginning of a rule's body
COLLECTED: Final = "collect "  # rows that are aggregated
INSERTED: Final = "came "
DELETED: Final = "gone "
RETRACTED: Final = "taken "  # rows of a table that an instance with a deleted fact derives
