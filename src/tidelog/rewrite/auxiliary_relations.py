"""Auxiliary relations: rules that are split for maintenance, and closures that a module computes.

Three parts: the order in which a body passes bindings on (`Passing`), which splitting and magic sets use;
rules that aggregate or have long bodies, split by auxiliary relations (`split`); predicates that a program
makes transitive, or symmetric and transitive (`recognise`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from heapq import heappop, heappush
from typing import Any

from tidelog.logic.program import (
    Assignment,
    Atom,
    Constant,
    Literal,
    Negation,
    Predicate,
    Program,
    Rule,
    Term,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.logic.strata import Stratum
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass
from tidelog.rewrite.renaming import assigned_or_tested

# ---- sideways information passing
#
# Beeri, Ramakrishnan: On the Power of Magic, PODS 1987, section 3. The strategy is: tests and computations as
# soon as they can be made, then the atom that is best bound, then the cheapest. In words, of the literals
# that can come next:
#
# 1. comparisons, conditions and computations whose variables are bound, and negations of given predicates;
# 2. given atoms that share a bound variable, the one with the fewest matches to be expected first;
# 3. derived atoms that share a bound variable: those outside the recursion first, then those with more bound
#    arguments;
# 4. given, then derived atoms that are bound by constants only;
# 5. given, then derived atoms of which nothing is bound;
# 6. negations of derived predicates, last: the fewer bindings are left, the less is demanded.
#
# Ties are broken by the order of the program.
#
# Invariant: each variable is bound before a test, a negation or a computation uses it.

# How many facts of a given predicate are expected for each binding of the variables.
Cost = Callable[[Atom, Collection[Variable]], float]
# Ranks a literal, given the bound variables: the literal of the lowest rank is matched next.
Rank = Callable[[Literal, Collection[Variable]], tuple[Any, ...]]

UNKNOWN_SIZE = 1000.0  # facts assumed of a relation without statistics
REPEATED = 10.0  # of its facts that have the same value in a column


def unknown_sizes(atom: Atom, bound: Collection[Variable]) -> float:
    """Estimate an atom over a relation without statistics: each bound argument leaves a tenth of the rows."""
    bound_count = sum(isinstance(term, Constant) or term in bound for term in atom.terms)
    return UNKNOWN_SIZE / REPEATED**bound_count


@dataclass(frozen=True, slots=True)
class Passing:
    """How bodies are ordered: the derived predicates, those recursive with the head, the cost of atoms."""

    derived: Collection[str]
    recursive: Collection[str] = ()
    cost: Cost = unknown_sizes

    def order(self, body: Sequence[Literal], given: Iterable[Variable]) -> tuple[Literal, ...]:
        """The body in the order in which it is matched, the given variables being bound before.

        A computation of a variable that is bound by then is a test.
        """
        bound = set(given)
        local = _local_variables(body, bound)
        ordered: list[Literal] = []
        for position in arranged(body, bound, local, self._rank):
            literal = assigned_or_tested(body[position], bound)
            ordered.append(literal)
            bound.update(set(literal_variables(literal)) - local)
        return tuple(ordered)

    def _rank(self, literal: Literal, bound: Collection[Variable]) -> tuple[int, float]:
        """Return the rank of a literal that can be matched next; the lowest is matched first."""
        match literal:
            case Atom():
                return self._rank_of_atom(literal, bound)
            case Negation(atom) if atom.predicate in self.derived:
                return _LAST, 0
            case Assignment():
                return _COMPUTATION, 0
            case _:
                return _TEST, 0

    def _rank_of_atom(self, atom: Atom, bound: Collection[Variable]) -> tuple[int, float]:
        is_derived = atom.predicate in self.derived
        bound_count = sum(isinstance(term, Constant) or term in bound for term in atom.terms)
        is_joined = any(term in bound for term in atom.terms) or not _has_variables(atom)
        group = _JOINED if is_joined else _BY_CONSTANTS if bound_count else _UNBOUND
        if not is_derived:
            return group, self.cost(atom, bound)
        free = len(atom.terms) - bound_count
        return group + 1, free + (len(atom.terms) if atom.predicate in self.recursive else 0)


def arranged(
    body: Sequence[Literal],
    given: Iterable[Variable],
    local: Collection[Variable],
    rank: Rank,
    first: int | None = None,
) -> tuple[int, ...]:
    """Return the positions of a body's literals, always the one of least rank next; `first` comes first.

    Atoms may come at any time, other literals once their variables are bound, but for those that are
    `local`. The variables `given` are bound from the beginning.
    """
    search = _Search(body, set(given), local, rank)
    if first is not None:
        search.take(first)
    while (position := search.next()) is not None:
        search.take(position)
    return tuple(search.ordered)


class _Search:
    """A partially ordered body; a literal is ranked again only when one of its variables is bound.

    So a body of thousands of literals is ordered in milliseconds.
    """

    def __init__(
        self, body: Sequence[Literal], bound: set[Variable], local: Collection[Variable], rank: Rank
    ) -> None:
        self.ordered: list[int] = []
        self._body = body
        self._bound = bound
        self._local = local
        self._rank = rank
        self._is_ordered = [False] * len(body)
        self._missing = [self._needed(literal) - bound for literal in body]
        self._waiting: dict[Variable, list[int]] = {}  # the literals with a variable that is not bound yet
        self._heap: list[tuple[Any, int]] = []
        self._ranks: list[Any] = [None] * len(body)  # as they are now
        for position, literal in enumerate(body):
            for variable in set(literal_variables(literal)) - bound:
                self._waiting.setdefault(variable, []).append(position)
            self._update_rank(position)

    def next(self) -> int | None:
        """Return the position of the next literal, None after the last."""
        while self._heap:
            rank, position = heappop(self._heap)
            if not self._is_ordered[position] and rank == self._ranks[position]:
                return position
        return None

    def take(self, position: int) -> None:
        """Choose a literal as the next one."""
        was_empty = not self._bound
        self.ordered.append(position)
        self._is_ordered[position] = True
        new = set(literal_variables(self._body[position])).difference(self._local, self._bound)
        self._bound |= new
        # The first bound variable changes the cost estimates of all atoms.
        affected = range(len(self._body)) if was_empty and new else self._freed(new)
        for affected_position in affected:
            if not self._is_ordered[affected_position]:
                self._missing[affected_position] -= new
                self._update_rank(affected_position)

    def _freed(self, new: set[Variable]) -> list[int]:
        """Return the positions of the literals that have one of these variables, each once."""
        return list(
            dict.fromkeys(position for variable in new for position in self._waiting.pop(variable, ()))
        )

    def _needed(self, literal: Literal) -> set[Variable]:
        """Return the variables that must be bound before a literal can come."""
        if isinstance(literal, Atom):
            return set()
        if isinstance(literal, Assignment):
            return set(variables_of(literal.expression))
        return set(literal_variables(literal)).difference(self._local)

    def _update_rank(self, position: int) -> None:
        """Put the literal into the heap if it can come next."""
        if not self._missing[position]:
            self._ranks[position] = rank = self._rank(self._body[position], self._bound)
            heappush(self._heap, (rank, position))


# The ranks of literals; among atoms, a derived one comes directly after a given one.
_TEST, _COMPUTATION, _JOINED, _BY_CONSTANTS, _UNBOUND, _LAST = 0, 1, 2, 4, 6, 8


def _has_variables(atom: Atom) -> bool:
    return any(isinstance(term, Variable) for term in atom.terms)


def _local_variables(body: Sequence[Literal], given: Collection[Variable]) -> set[Variable]:
    """The variables that occur in negations only: any value matches them."""
    outside, negated = set(given), set[Variable]()
    for literal in body:
        (negated if isinstance(literal, Negation) else outside).update(literal_variables(literal))
    return negated - outside


# ---- split rules
#
# `head :- body` with aggregates becomes a rule that aggregates, whose head is an auxiliary relation of group
# and aggregated values, and a plain rule `head :- auxiliary, computations`. An auxiliary relation depends
# strictly on all it reads, so that it is a stratum of its own. Rules with the same aggregates share one.
#
# Maintenance has a plan for each literal that reads a relation, which matches all the others: the plans of a
# rule of a thousand atoms have a million steps, those of pieces of sixteen seventeen thousand. A piece joins
# the next literals to what the piece before it found; its auxiliary relation has the variables still needed.
#
# Invariant: the program has the same facts as before in every predicate that it had.

SEPARATOR = " #"  # a name with a space is no predicate's
DIGEST_BYTES = 8
LONGEST = 128  # atoms and negations in a body that stays whole
PIECE = 16  # … and in a piece of one that does not


def split(program: Program) -> Program:
    """The program with its rules split, and predicates for the auxiliary relations."""
    rules = split_rules(program.rules)
    if rules == program.rules:
        return program
    heads = (rule.head for rule in rules if is_auxiliary(rule.head.predicate))
    auxiliary = {head.predicate: _predicate(head) for head in heads}
    return replace(program, rules=rules, predicates={**program.predicates, **auxiliary})


def split_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Split the rules and remove duplicates, so that maintainers that count instances count each once."""
    return tuple(dict.fromkeys(split_one for rule in rules for split_one in split_rule(rule)))


def split_rule(rule: Rule) -> tuple[Rule, ...]:
    """The rules by which a rule is maintained; each reads only relations of those before it."""
    if not rule.aggregations:
        return pieces(rule)
    auxiliary = Atom(
        auxiliary_name(rule), (*rule.group, *(aggregation.variable for aggregation in rule.aggregations))
    )
    return (
        *pieces(replace(rule, head=auxiliary, after=(), name=None)),
        replace(rule, body=(auxiliary, *rule.after), group=(), aggregations=(), after=()),
    )


def auxiliary_name(rule: Rule) -> str:
    """The name of a rule's auxiliary relation; rules with the same aggregates share it."""
    return _named(rule, (rule.body, rule.group, rule.aggregations))


def is_auxiliary(relation: str) -> bool:
    """Whether a relation was added for maintenance, and is no predicate of the program."""
    return SEPARATOR in relation


# ---- long bodies


def is_long(literals: int) -> bool:
    """Whether this number of literals, each driven by its own plan, is too large for one body."""
    return literals > LONGEST


def pieces(rule: Rule) -> tuple[Rule, ...]:
    """The rule, if its body is not too long; else its pieces, the last of which has the rule's head."""
    if rule.is_metric or not is_long(sum(map(_reads, rule.body))):
        return (rule,)
    return tuple(_pieces(rule, Passing(()).order(rule.body, ())))


def _pieces(rule: Rule, body: tuple[Literal, ...]) -> Iterator[Rule]:
    """Yield the pieces of a body that is in order."""
    last = {
        variable: position for position, literal in enumerate(body) for variable in literal_variables(literal)
    }
    last.update(dict.fromkeys(_needed(rule), len(body)))  # where each variable is used for the last time
    reads_left = sum(map(_reads, body))
    columns: dict[Variable, None] = {}
    piece: list[Literal] = []
    reads_in_piece = 0
    for position, literal in enumerate(body):
        piece.append(literal)
        if not isinstance(literal, Negation):
            columns.update(dict.fromkeys(literal_variables(literal)))
        reads_in_piece, reads_left = reads_in_piece + _reads(literal), reads_left - _reads(literal)
        if reads_in_piece == PIECE and reads_left:
            columns = {variable: None for variable in columns if last[variable] > position}
            head = Atom(_named(rule, (tuple(piece), tuple(columns))), tuple(columns))
            yield replace(rule, head=head, body=tuple(piece), group=(), aggregations=(), after=(), name=None)
            piece, reads_in_piece = [head], 0
    yield replace(rule, body=tuple(piece))


def _reads(literal: Literal) -> bool:
    return isinstance(literal, Atom | Negation)


def _needed(rule: Rule) -> Iterator[Variable]:
    """Yield the variables that a rule needs of its body."""
    yield from literal_variables(rule.head)
    yield from rule.group
    for aggregation in rule.aggregations:
        yield from (term for term in aggregation.arguments if isinstance(term, Variable))


# ---- auxiliary relations


def _named(rule: Rule, meaning: tuple[object, ...]) -> str:
    try:
        from _blake2 import blake2b  # as `hashlib` has it, without loading OpenSSL
    except ImportError:  # it is not public
        from hashlib import blake2b

    digest = blake2b(repr(meaning).encode(), digest_size=DIGEST_BYTES).hexdigest()
    return f"{rule.head.predicate}{SEPARATOR}{digest}"


def _predicate(head: Atom) -> Predicate:
    columns = tuple(term.name if isinstance(term, Variable) else None for term in head.terms)
    types = (ColumnType.ANY,) * len(columns)
    return Predicate(head.predicate, len(columns), columns, types, head.predicate)


# ---- closure modules
#
# A module owns the rules that close a predicate and is given its *external* facts only, those that are
# explicit or that other rules derive; section 5 of the paper on maintenance with equality asks for such
# algorithms:
#
# Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
# Programs with Equality, IJCAI 2015.
#
# For maintenance the rules that derive external facts get a relation of their own, the module's *source*,
# unless they copy another: then that is the source. All other rules of the predicate give way to one that
# says what it is read from, and that is never run.
#
# Invariant: the predicate's facts are the closure of its external facts.

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
        keys = ((module.predicate, module.kind, module.source, module.is_linear) for module in (self, other))
        return next(keys) == next(keys)

    def rewritten(self) -> dict[Rule, Rule | None]:
        """Map each rule to its replacement: external rules derive the source, owned rules are dropped.

        The first owned rule is replaced by the rule that declares what the predicate reads.
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
    """The module for a stratum whose recursive rules only close its predicate, else None.

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
    owned = tuple(rule for rule in stratum.rules if _rule_reads(rule, predicate))
    external = tuple(rule for rule in stratum.rules if not _rule_reads(rule, predicate))
    shapes = {_shape(rule) for rule in owned}
    if _transitive(predicate) in shapes:
        return _closed(predicate, shapes, external, owned)
    return _closed_by_edges(predicate, shapes, external, owned)


def rewrite(rules: Mapping[Rule, int], modules: Iterable[ClosureModule]) -> dict[Rule, int]:
    """Replace the rules of closed predicates; the modules maintain these closures instead."""
    replacements = {
        rule: replacement for module in modules for rule, replacement in module.rewritten().items()
    }
    rewritten = ((replacements.get(rule, rule), number) for rule, number in rules.items())
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

    Other facts would be composed with edges, on one side, and not with each other.
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


def _rule_reads(rule: Rule, predicate: str) -> bool:
    return any(atom.predicate == predicate for atom in rule.positive)
