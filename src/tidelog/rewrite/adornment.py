"""The relations that a rewritten program adds: what they are, and their names.

Their names hold a space, as no predicate's do; `rewrite.readable` gives them names that a program could have.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a relation is for."""

    ADORNED = "facts that agree with what is asked for"
    MAGIC = "the bindings that are asked for"
    CONTEXT = "what is asked for on behalf of what"
    SUPPLEMENTARY = "a join that several rules read"


@dataclass(frozen=True, slots=True)
class Adorned:
    """A relation for a predicate that is asked for in a pattern: `b` is a bound argument, `f` a free one."""

    kind: Kind
    predicate: str
    adornment: str
    key: str = ""  # tells supplementary relations apart

    @property
    def name(self) -> str:
        """The name of the relation."""
        return relation_name(self.kind, self.predicate, self.adornment, self.key)


def relation_name(kind: Kind, predicate: str, adornment: str, key: str = "") -> str:
    """The name of a relation.

    >>> relation_name(Kind.MAGIC, "tc", "bf")
    'magic tc bf'
    """
    adorned = f"{predicate} {adornment}" if adornment else f"{predicate} ()"
    match kind:
        case Kind.ADORNED:
            return adorned
        case Kind.MAGIC:
            return f"magic {adorned}"
        case Kind.CONTEXT:
            return f"context {adorned}"
        case Kind.SUPPLEMENTARY:
            return f"join {predicate} {key}"
