"""Sideways information passing: in which order a body hands bindings on.

Beeri, Ramakrishnan: On the Power of Magic, PODS 1987, section 3. The strategy is: tests and computations as
soon as they can be made, then the atom that is best bound, then the cheapest. In words, of the literals that
can come next:

1. comparisons, conditions and computations whose variables are bound, and negations of stated predicates;
2. stated atoms that share a bound variable, the one with the fewest matches to be expected first;
3. derived atoms that share a bound variable: those outside the recursion first, then those with more bound
   arguments;
4. stated, then derived atoms that are bound by constants only;
5. stated, then derived atoms of which nothing is bound;
6. negations of derived predicates, last: the fewer bindings are left, the less is demanded.

What is left to choose goes by the order of the program.

Invariant: each variable is bound before a test, a negation or a computation uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Variable,
    literal_variables,
    variables_of,
)

# How many facts of a stated predicate are to be expected for each binding of the variables.
Cost = Callable[[Atom, Collection[Variable]], float]

UNKNOWN_SIZE = 1000.0  # facts of a relation nothing is known of
REPEATED = 10.0  # of its facts that have the same value in a column


def unknown_sizes(atom: Atom, bound: Collection[Variable]) -> float:
    """What to expect of a relation nothing is known of: each bound argument leaves a tenth."""
    given = sum(isinstance(term, Constant) or term in bound for term in atom.terms)
    return UNKNOWN_SIZE / REPEATED**given


@dataclass(frozen=True, slots=True)
class Passing:
    """How bodies are ordered: what is derived, what takes part in the head's recursion, what atoms cost."""

    derived: Collection[str]
    recursive: Collection[str] = ()
    cost: Cost = unknown_sizes

    def order(self, body: Sequence[Literal], given: Iterable[Variable]) -> tuple[Literal, ...]:
        """The body in the order in which it is matched, the given variables being bound before.

        A computation of a variable that is bound by then is a test.
        """
        bound = set(given)
        local = _local_variables(body, bound)
        waiting = list(enumerate(body))
        ordered: list[Literal] = []
        while waiting:
            place, literal = min(waiting, key=lambda item: (self._rank(item[1], bound, local), item[0]))
            waiting.remove((place, literal))
            if isinstance(literal, Assignment) and literal.variable in bound:
                literal = Comparison("=", literal.variable, literal.expression)
            ordered.append(literal)
            bound.update(set(literal_variables(literal)) - local)
        return tuple(ordered)

    def _rank(
        self, literal: Literal, bound: Collection[Variable], local: Collection[Variable]
    ) -> tuple[int, float]:
        """When a literal's turn is, the least first."""
        match literal:
            case Atom():
                return self._rank_of_atom(literal, bound)
            case Negation(atom):
                is_ready = all(each in bound or each in local for each in literal_variables(literal))
                last = atom.predicate in self.derived
                return (_UNREADY if not is_ready else _LAST if last else _TEST), 0
            case Assignment(_, expression):
                used = variables_of(expression)
                return (_COMPUTATION if all(each in bound for each in used) else _UNREADY), 0
            case _:
                is_ready = all(each in bound for each in literal_variables(literal))
                return (_TEST if is_ready else _UNREADY), 0

    def _rank_of_atom(self, atom: Atom, bound: Collection[Variable]) -> tuple[int, float]:
        is_derived = atom.predicate in self.derived
        given = sum(isinstance(term, Constant) or term in bound for term in atom.terms)
        is_joined = any(term in bound for term in atom.terms) or not _has_variables(atom)
        group = _JOINED if is_joined else _BY_CONSTANTS if given else _UNBOUND
        if not is_derived:
            return group, self.cost(atom, bound)
        free = len(atom.terms) - given
        return group + 1, free + (len(atom.terms) if atom.predicate in self.recursive else 0)


# The ranks of literals; of atoms, a derived one comes one place after a stated one.
_TEST, _COMPUTATION, _JOINED, _BY_CONSTANTS, _UNBOUND, _LAST, _UNREADY = 0, 1, 2, 4, 6, 8, 9


def _has_variables(atom: Atom) -> bool:
    return any(isinstance(term, Variable) for term in atom.terms)


def _local_variables(body: Sequence[Literal], given: Collection[Variable]) -> set[Variable]:
    """The variables of negations that occur nowhere else: any value will do for them."""
    elsewhere, negated = set(given), set[Variable]()
    for literal in body:
        (negated if isinstance(literal, Negation) else elsewhere).update(literal_variables(literal))
    return negated - elsewhere
