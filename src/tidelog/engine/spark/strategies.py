"""How each stratum runs on Spark, chosen from sizes and from the shape of its rules. Knows no Spark.

- `lazy`: no recursion; consecutive strata are one job.
- `driver-closure`: little is read; the columnar engine on the driver.
- `executor-fixpoint`: the recursion keeps an argument and the rest can be sent to all executors; facts are
  partitioned by that argument, and the columnar engine runs the whole fixpoint in each partition.
- `iterated-joins`: any other recursion; one job per round.
- `interval-rounds`: rules over time that read much; two jobs per round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

from tidelog.engine.spark.settings import (
    DRIVER_CLOSURE,
    EXECUTOR_FIXPOINT,
    INTERVAL_ROUNDS,
    ITERATED_JOINS,
    LAZY,
    SparkSettings,
)
from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.program import Assignment, Atom, Comparison, Condition, Constant, Negation, Rule, Variable
from tidelog.logic.strata import Stratum

NOT_APPLICABLE = "E681"
MOST_TRIED = 10_000  # choices of kept arguments, of strata with many predicates

Size = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy and the reason for it; `kept` is the argument that partitions each predicate."""

    strategy: str
    reason: str
    kept: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a choice is made from."""

    size: Size
    terms: int  # of Spark's dictionary
    settings: SparkSettings


def choose(stratum: Stratum, sizes: Sizes) -> Choice:
    """The strategy of a stratum; ProgramError if the one that is forced does not serve."""
    preferred = sizes.settings.preferred
    if preferred:
        return _forced(stratum, sizes, preferred)
    read = facts_read(stratum, sizes.size)
    if read <= sizes.settings.driver_facts:
        return Choice(DRIVER_CLOSURE, f"reads {read:,} facts, at most {sizes.settings.driver_facts:,}")
    if not stratum.recursive:
        return Choice(LAZY, "no recursion")
    found = _decomposed(stratum, sizes)
    if isinstance(found, Choice):
        return found
    return Choice(ITERATED_JOINS, found)


def choose_over_time(facts: int, settings: SparkSettings) -> Choice:
    """The strategy of all rules over time, which read so many facts."""
    most = settings.driver_facts
    if settings.preferred:
        is_here = DRIVER_CLOSURE in settings.preferred
        return Choice(DRIVER_CLOSURE if is_here else INTERVAL_ROUNDS, "as asked for")
    if facts <= most:
        return Choice(DRIVER_CLOSURE, f"rules over time read {facts:,} facts, at most {most:,}")
    return Choice(INTERVAL_ROUNDS, f"rules over time read {facts:,} facts, more than {most:,}")


def _forced(stratum: Stratum, sizes: Sizes, preferred: tuple[str, ...]) -> Choice:
    reasons = []
    if not stratum.recursive and DRIVER_CLOSURE not in preferred:
        return Choice(LAZY, "no recursion")
    for name in preferred:
        if name == EXECUTOR_FIXPOINT and stratum.recursive:
            found = _decomposed(stratum, sizes)
            if isinstance(found, Choice):
                return found
            reasons.append(found)
        elif name == LAZY and stratum.recursive:
            reasons.append(f"`{LAZY}` does not recurse, and {_listed(stratum.predicates)} does")
        else:
            return Choice(LAZY if not stratum.recursive and name != DRIVER_CLOSURE else name, "as asked for")
    message = f"the strategy `{sizes.settings.strategy}` does not serve for {_listed(stratum.predicates)}"
    help = f"{'; '.join(reasons)}; add `,{ITERATED_JOINS}` to the strategy, or use `auto`"
    raise ProgramError(Diagnostic(NOT_APPLICABLE, message, stratum.rules[0].span, help))


def facts_read(stratum: Stratum, size: Size) -> int:
    """How many facts the stratum's rules read, each relation counted once."""
    return sum(size(name) for name in relations_read(stratum) | set(stratum.predicates))


def relations_read(stratum: Stratum) -> set[str]:
    """The relations in the bodies of a stratum's rules."""
    return {atom.predicate for rule in stratum.rules for atom in (*rule.positive, *rule.negated)}


# ---- fixpoints inside executors


def _decomposed(stratum: Stratum, sizes: Sizes) -> Choice | str:
    """The choice of a fixpoint inside the executors, or why there is none."""
    kept = kept_arguments(stratum)
    if kept is None:
        return "no argument is kept by all recursive rules"
    most = sizes.settings.broadcast_rows
    sides = side_relations(stratum)
    large = sorted(name for name in sides if sizes.size(name) > most)
    if large:
        return f"{_listed(large)} has more than {most:,} facts, too many to be sent to all executors"
    if needs_terms(stratum) and sizes.terms > most:
        return f"functions need all of {sizes.terms:,} terms, too many to be sent to all executors"
    arguments = ", ".join(f"{name}/{place + 1}" for name, place in kept.items())
    return Choice(EXECUTOR_FIXPOINT, f"the recursion keeps {arguments}", kept)


def recursive_rules(stratum: Stratum) -> tuple[Rule, ...]:
    """The rules that read what the stratum derives."""
    own = set(stratum.predicates)
    return tuple(rule for rule in stratum.rules if any(atom.predicate in own for atom in rule.positive))


def side_relations(stratum: Stratum) -> set[str]:
    """What recursive rules read besides the stratum's own predicates."""
    read = {atom.predicate for rule in recursive_rules(stratum) for atom in (*rule.positive, *rule.negated)}
    return read - set(stratum.predicates)


def needs_terms(stratum: Stratum) -> bool:
    """Whether recursive rules look at values, not only at which are the same."""
    return any(not _is_opaque(literal) for rule in recursive_rules(stratum) for literal in rule.body)


def _is_opaque(literal: object) -> bool:
    match literal:
        case Atom() | Negation():
            return True
        case Comparison("=" | "!=", left, right):
            return isinstance(left, Variable | Constant) and isinstance(right, Variable | Constant)
        case Assignment(_, expression):
            return isinstance(expression, Variable | Constant)
        case Condition():
            return False
        case _:
            return False


def kept_arguments(stratum: Stratum) -> dict[str, int] | None:
    """An argument of each predicate that every recursive rule passes on unchanged, None if there is none.

    Invariant: the instances of recursive rules combine facts of equal arguments only, and their head has the
    same one: so each value of the argument can be closed by itself.
    """
    rules = recursive_rules(stratum)
    arities = {atom.predicate: len(atom.terms) for rule in rules for atom in (rule.head, *rule.positive)}
    names = stratum.predicates
    choices = product(*(range(arities.get(name, 0)) for name in names))
    for places in islice(choices, MOST_TRIED):
        kept = dict(zip(names, places, strict=True))
        if all(_keeps(rule, kept) for rule in rules):
            return kept
    return None


def _keeps(rule: Rule, kept: Mapping[str, int]) -> bool:
    """Whether a rule's head and recursive atoms have the same variable where they are partitioned."""
    terms = set(_partitioning(rule, kept))
    return len(terms) == 1 and isinstance(terms.pop(), Variable)


def _partitioning(rule: Rule, kept: Mapping[str, int]) -> Iterator[object]:
    yield rule.head.terms[kept[rule.head.predicate]]
    for atom in rule.positive:
        if atom.predicate in kept:
            yield atom.terms[kept[atom.predicate]]


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
