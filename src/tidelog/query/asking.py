"""What is asked of tables, and the answers as they are found."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, replace

from tidelog.logic.program import Atom, Constant, Literal, Negation, Rule, Term, Variable
from tidelog.logic.values import Value
from tidelog.query.strategy import Answers
from tidelog.rewrite.magic_sets import substituted

GIVEN = "given "  # what the names of variables begin with that stand for constants


@dataclass(frozen=True, slots=True)
class Asked:
    """A query without its constants, and these."""

    rule: Rule
    values: tuple[Value, ...]

    @staticmethod
    def of(query: Rule) -> Asked:
        """The query: each constant of an atom in it becomes a variable, which is bound.

        >>> from tidelog.logic.values import integer
        >>> one, x = Constant(integer(1)), Variable("x")
        >>> asked = Asked.of(Rule(Atom("?", (x,)), (Atom("edge", (one, x)),)))
        >>> asked.rule.head.terms
        (Variable(name='given 0'), Variable(name='x'))
        """
        query = substituted(query)
        given: dict[Value, Variable] = {}

        def bound(literal: Literal) -> Literal:
            match literal:
                case Atom(predicate, terms):
                    return Atom(predicate, tuple(map(variable, terms)))
                case Negation(Atom(predicate, terms)):
                    return Negation(Atom(predicate, tuple(map(variable, terms))))
                case _:
                    return literal

        def variable(term: Term) -> Term:
            if isinstance(term, Constant):
                return given.setdefault(term.value, Variable(f"{GIVEN}{len(given)}"))
            return term

        body = tuple(map(bound, query.body))
        head = Atom(query.head.predicate, (*given.values(), *query.head.terms))
        return Asked(replace(query, head=head, body=body), tuple(given))


class Stream:
    """The answers to a query, as they are found."""

    def __init__(self, source: Generator[Answers]) -> None:
        self._source = source
        self._found: deque[Answers] = deque()

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Answers:
        return self._found.popleft() if self._found else next(self._source)

    def settle(self) -> None:
        """Find all answers that are left now."""
        self._found.extend(self._source)

    def close(self) -> None:
        """Look for no more answers."""
        self._source.close()
