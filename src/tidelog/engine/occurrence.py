"""Whether a rule has anything to match: which of its constants occur among the facts. Mutable.

Most rules of a rule set such as OWL 2 RL speak of something that the facts at hand do not mention, and to
plan a rule takes as long as to match thousands of facts.

Invariant: within one stratum facts only come. So a constant that occurs goes on to occur, and one that did
not occur in the last round needs to be looked for among what is new only.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.engine.protocol import Engine
from tidelog.logic.program import Atom, Constant
from tidelog.logic.values import Value
from tidelog.plan.algebra import Part

Place = tuple[str, int, Value]  # a column of a relation, and what is looked for there


class Occurrences:
    """The constants that were looked for while a stratum is derived."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._round = 0
        self._present: set[Place] = set()
        self._absent: dict[Place, int] = {}  # and the last round in which that was so
        self._new: dict[Place, bool] = {}

    def advance(self) -> None:
        """Go on with the next round."""
        self._round += 1
        self._new.clear()

    def may_match(self, atoms: Iterable[Atom]) -> bool:
        """Whether each atom's relation has facts, and its constants occur in them."""
        return all(
            self._engine.size(atom.predicate) > 0 and all(map(self._occurs, _places(atom))) for atom in atoms
        )

    def has_new(self, atom: Atom) -> bool:
        """Whether the atom's constants occur in the facts that the last round added."""
        return all(map(self._is_new, _places(atom)))

    def _occurs(self, place: Place) -> bool:
        if place in self._present:
            return True
        absent = self._absent.get(place)
        if absent == self._round:
            return False
        was_absent = absent is not None and absent == self._round - 1
        found = self._is_new(place) if was_absent else self._looked_for(place, Part.ALL)
        if found:
            self._present.add(place)
        else:
            self._absent[place] = self._round
        return found

    def _is_new(self, place: Place) -> bool:
        found = self._new.get(place)
        if found is None:
            found = self._new[place] = self._looked_for(place, Part.NEW)
        return found

    def _looked_for(self, place: Place, part: Part) -> bool:
        relation, column, value = place
        return self._engine.occurs(relation, column, value, part)


def _places(atom: Atom) -> Iterable[Place]:
    return (
        (atom.predicate, column, term.value)
        for column, term in enumerate(atom.terms)
        if isinstance(term, Constant)
    )
