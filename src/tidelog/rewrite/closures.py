"""Closure modules: which predicates a program makes transitive, or symmetric and transitive.

A module owns the rules that close a predicate and is told its *external* facts only, those that are explicit
or that other rules derive; section 5 of the paper on maintenance with equality asks for such algorithms:

Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
Programs with Equality, IJCAI 2015.

For maintenance the rules that derive external facts get a relation of their own, the module's *source*,
unless they copy another: then that is the source. All other rules of the predicate give way to one that
says what it is read from, and that is never run.

Invariant: the predicate's facts are the closure of its external facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from tidelog.logic.program import Atom, Rule, Term, Variable
from tidelog.logic.strata import Stratum
from tidelog.rewrite.splitting import SEPARATOR

PAIR = (Variable("x"), Variable("y"))


class ClosureKind(Enum):
    """How a predicate is closed."""

    TRANSITIVE = "transitive"
    EQUIVALENCE = "symmetric and transitive"


@dataclass(frozen=True, slots=True)
class ClosureModule:
    """A predicate, the rules that close it and the rules that do not.

    If an edge predicate is given, the predicate is closed by a linear rule over that one: its external facts
    are closed only as long as all of them are derived by the external rules. An *explicit* fact of the
    predicate composes on one side only, and the module must not be used.
    """

    predicate: str
    kind: ClosureKind
    external_rules: tuple[Rule, ...]
    owned_rules: tuple[Rule, ...]
    edge_predicate: str | None = None
    # The one relation whose facts the external rules copy, if that is all they do.
    copied: str | None = field(init=False)
    source: str = field(init=False)  # the relation of the pairs that external rules derive

    @property
    def is_linear(self) -> bool:
        """Whether explicit facts of the predicate forbid the module."""
        return self.edge_predicate is not None

    def __post_init__(self) -> None:
        edges = {_edge(rule) for rule in self.external_rules}
        copied = edges.pop() if len(edges) == 1 else None
        object.__setattr__(self, "copied", copied)
        object.__setattr__(self, "source", copied or f"{self.predicate}{SEPARATOR}external")

    def is_like(self, other: ClosureModule) -> bool:
        """Whether the same structure serves the other module, whose external rules may differ."""
        mine, others = ((each.predicate, each.kind, each.source, each.is_linear) for each in (self, other))
        return mine == others

    def rewritten(self) -> dict[Rule, Rule | None]:
        """What becomes of each rule: those of external facts derive the source, those owned go.

        The first that is owned gives way to the rule that says what the predicate is read from.
        """
        marker = Rule(Atom(self.predicate, PAIR), (Atom(self.source, PAIR),))
        rules: dict[Rule, Rule | None] = dict.fromkeys((*self.external_rules, *self.owned_rules))
        if self.copied is None:
            rules.update(
                {rule: replace(rule, head=Atom(self.source, rule.head.terms)) for rule in self.external_rules}
            )
        return {**rules, self.owned_rules[0]: marker}


# A rule's shape is its body without regard to names and order: atoms of a predicate and two variables, those
# of the head first and last.
Shape = frozenset[tuple[str, int, int]]
FIRST, LAST, MIDDLE = range(3)


def recognise(stratum: Stratum) -> ClosureModule | None:
    """The module for a stratum whose recursive rules do nothing but close its predicate, else None.

    >>> from tidelog.logic.resolve import resolve
    >>> from tidelog.logic.strata import strata
    >>> from tidelog.syntax.parser import parse_text
    >>> text = "path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?y, ?z), path(?x, ?y) ."
    >>> [stratum] = strata(resolve(parse_text(text)).rules)
    >>> recognise(stratum).kind
    <ClosureKind.TRANSITIVE: 'transitive'>
    """
    if len(stratum.predicates) != 1 or not stratum.recursive:
        return None
    [predicate] = stratum.predicates
    owned = tuple(rule for rule in stratum.rules if _reads(rule, predicate))
    external = tuple(rule for rule in stratum.rules if not _reads(rule, predicate))
    shapes = {_shape(rule) for rule in owned}
    if _transitive(predicate) in shapes:
        return _closed(predicate, shapes, external, owned)
    return _closed_by_edges(predicate, shapes, external, owned)


def rewrite(rules: Mapping[Rule, int], modules: Iterable[ClosureModule]) -> dict[Rule, int]:
    """The numbered rules with the predicates of modules closed by them, not by rules."""
    becomes = {rule: made for module in modules for rule, made in module.rewritten().items()}
    rewritten = ((becomes.get(rule, rule), number) for rule, number in rules.items())
    return {rule: number for rule, number in rewritten if rule is not None}


def _closed(
    predicate: str, shapes: set[Shape | None], external: tuple[Rule, ...], owned: tuple[Rule, ...]
) -> ClosureModule | None:
    """The module of a predicate with a rule of transitivity, if every other rule is implied or symmetry."""
    edges = {edge for rule in external if (edge := _edge(rule)) is not None}
    implied = {_transitive(predicate), *(shape for edge in edges for shape in _linear(predicate, edge))}
    further = shapes - implied
    if not further:
        return ClosureModule(predicate, ClosureKind.TRANSITIVE, external, owned)
    if further == {_symmetric(predicate)}:
        return ClosureModule(predicate, ClosureKind.EQUIVALENCE, external, owned)
    return None


def _closed_by_edges(
    predicate: str, shapes: set[Shape | None], external: tuple[Rule, ...], owned: tuple[Rule, ...]
) -> ClosureModule | None:
    """The module of a predicate that linear rules close, if all its facts begin as edges of the same kind.

    Facts from elsewhere would be composed with edges, on one side, and not with each other.
    """
    edges = {_edge(rule) for rule in external}
    if len(edges) != 1:
        return None
    [edge] = edges
    if edge is None or not shapes <= set(_linear(predicate, edge)):
        return None
    return ClosureModule(predicate, ClosureKind.TRANSITIVE, external, owned, edge)


# ---- shapes


def _transitive(predicate: str) -> Shape:
    return frozenset({(predicate, FIRST, MIDDLE), (predicate, MIDDLE, LAST)})


def _symmetric(predicate: str) -> Shape:
    return frozenset({(predicate, LAST, FIRST)})


def _linear(predicate: str, edge: str) -> Sequence[Shape]:
    """A step along an edge before, and one after, what is known."""
    return (
        frozenset({(edge, FIRST, MIDDLE), (predicate, MIDDLE, LAST)}),
        frozenset({(predicate, FIRST, MIDDLE), (edge, MIDDLE, LAST)}),
    )


def _edge(rule: Rule) -> str | None:
    """The predicate whose facts the rule copies, if that is all it does."""
    shape = _shape(rule)
    if shape is None or len(shape) != 1:
        return None
    [(edge, first, last)] = shape
    return edge if (first, last) == (FIRST, LAST) else None


def _shape(rule: Rule) -> Shape | None:
    """The shape of a rule, if it consists of binary atoms and up to three variables, two in the head."""
    if rule.aggregations or len(rule.positive) < len(rule.body):
        return None
    numbers: dict[Term, int] = {}
    pairs = []
    for atom in (rule.head, *rule.positive):  # the head's variables are numbered first
        if len(atom.terms) != 2 or not all(isinstance(term, Variable) for term in atom.terms):
            return None
        first, last = (numbers.setdefault(term, len(numbers)) for term in atom.terms)
        pairs.append((atom.predicate, first, last))
    if pairs[0][1:] != (FIRST, LAST) or len(numbers) > 3:
        return None
    return frozenset(pairs[1:])


def _reads(rule: Rule, predicate: str) -> bool:
    return any(atom.predicate == predicate for atom in rule.positive)
