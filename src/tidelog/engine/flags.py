"""The state of a fact during an update: flags, counters and marks, and how plans set them."""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag

from tidelog.plan.algebra import Part
from tidelog.records import dataclass


class Flag(IntFlag):
    """The flags of a fact, one bit each."""

    NONE = 0
    ALIVE = 1  # true now
    EXPLICIT = 2  # inserted by the user, not only derived
    BEFORE = 4  # true before the transaction
    DELTA = 8  # of the set that drives the current round
    PENDING = 16  # found by a plan, waiting for its turn
    TOUCHED = 32  # in the journal: only the engine uses it
    PROVED = 64
    CHECKED = 128


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on facts: their flags under the mask equal `want`."""

    mask: Flag
    want: Flag


# Which facts belong to the parts of a relation, as far as flags decide it.
PARTS = {
    Part.BEFORE: Where(Flag.BEFORE, Flag.BEFORE),
    Part.NOW: Where(Flag.ALIVE, Flag.ALIVE),
    Part.KEPT: Where(Flag.BEFORE | Flag.ALIVE, Flag.BEFORE | Flag.ALIVE),
    Part.SETTLED: Where(Flag.ALIVE | Flag.DELTA, Flag.ALIVE),
    Part.CHECKED: Where(Flag.ALIVE | Flag.CHECKED, Flag.ALIVE | Flag.CHECKED),
    Part.UNCHECKED: Where(Flag.ALIVE | Flag.CHECKED, Flag.ALIVE),
    Part.PROVED: Where(Flag.PROVED | Flag.CHECKED, Flag.PROVED | Flag.CHECKED),
    Part.PROVED_SETTLED: Where(Flag.PROVED | Flag.CHECKED | Flag.DELTA, Flag.PROVED | Flag.CHECKED),
}
# A negation holds where no fact has one of these flags.
PRESENT = {
    Part.BEFORE: Flag.BEFORE,
    Part.NOW: Flag.ALIVE,
    Part.EITHER: Flag.BEFORE | Flag.ALIVE,
}


class CounterKind(Enum):
    """The counters of each derived fact: two numbers, `founded` and `hidden`.

    An explicit fact has one more in `founded`.
    """

    NONE = "none"
    CLASS = "class"  # founded: instances of nonrecursive rules; hidden: of recursive rules
    RANK = "rank"  # founded: those, and instances whose own facts all rank below the head; hidden: the others


class Role(IntEnum):
    """The role of an instance for its head, if marks or links are recorded."""

    NONE = 0
    ORIGIN = 1  # it is new, and makes the head true unless that is
    PROOF = 2  # it proves the head
    LOSS = 3  # it is broken


class MarkKind(IntEnum):
    """The records of derived facts for the next update.

    Marks: an origin or a proof with a marked fact in its body marks the head. Where positive marks are kept,
    a head is noted as returning if it is deleted with an instance whose facts all return, or are explicit,
    true and not marked. Links: a fact is supported by its origin or last proof, which is known by one
    explicit fact in it, the first in the rule. A fact supported by an instance that is still whole is not
    selected when other instances break; one that was derived by one instance, and by no other since, has a
    single support.
    """

    NONE = 0
    MARKS = 1
    LINKS = 2


@dataclass(frozen=True, slots=True)
class MarkConfig:
    """Which marks or links are recorded, of which facts."""

    kind: MarkKind = MarkKind.NONE
    sources: frozenset[str] = frozenset()  # the relations whose marks are passed on, or that are linked to
    heads: frozenset[str] = frozenset()  # those whose facts get marks or links
    staying: frozenset[str] = frozenset()  # for positive marks: relations without rules, whose facts stay


UNMARKED = MarkConfig()


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of each instance that a plan finds on its head.

    First the head's counters change by `count`. Then, if its flags satisfy `where` (and, if `unfounded`, its
    `founded` is now 0), the flags `set` are set and the head is returned: `set` must make it fail `where`, so
    that each head is returned once.
    """

    where: Where
    set: Flag = Flag.PENDING
    create: bool = False  # whether a head that does not exist is inserted, without flags, or skipped
    count: int = 0  # -1, 0 or 1
    unfounded: bool = False
    role: Role = Role.NONE
