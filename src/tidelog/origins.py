"""Where the facts of predicates have come from, as far as that is known of all of them. Mutates itself."""

from __future__ import annotations


class Origins:
    """The places that the facts of each predicate were loaded from."""

    def __init__(self) -> None:
        self._places: dict[str, set[str | None]] = {}

    def note(self, predicate: str, place: str | None) -> None:
        """Some facts of a predicate come from a place, None if it has no name."""
        self._places.setdefault(predicate, set()).add(place)

    def of(self, predicate: str) -> str | None:
        """The one place that all facts of a predicate come from but those that the program states.

        >>> origins = Origins()
        >>> origins.note("edge", "edges.csv")
        >>> origins.of("edge")
        'edges.csv'
        >>> origins.note("edge", None)
        >>> origins.of("edge")
        """
        places = self._places.get(predicate, set())
        return next(iter(places)) if len(places) == 1 else None
