"""What an engine is: the contract between algorithms and the places where facts live."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag
from typing import Any, Protocol

from tidelog.logic.program import Rule
from tidelog.logic.values import Value
from tidelog.plan.algebra import Aggregate, ChangePlan, Part, RulePlan
from tidelog.plan.join_order import Statistics
from tidelog.rewrite.auxiliary_relations import ClosureModule

# ---- What an engine is: the contract between algorithms and the places where facts live.
#
# Algorithms are written once, over sets of facts, and import this module only, never a concrete engine.


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of a plan did: instances matched, facts new, instances dropped for want of a value."""

    matches: int
    new: int
    no_value: int = 0


NOTHING = Outcome(0, 0)
Runnable = Callable[[], Outcome]


class Engine(Statistics, Protocol):
    """A place where facts live and plans run.

    Rounds: what `run` adds becomes visible to scans when `advance` is called: as NEW until the next
    `advance`, then as OLD.
    """

    def define(self, relation: str, arity: int) -> None:
        """Make an empty relation, unless it is there."""

    def load(self, relation: str, batch: Any) -> int:
        """Add a batch of explicit facts; returns how many were new."""

    def begin(self, relations: Collection[str]) -> None:
        """Make all facts of the relations visible, none of them as NEW."""

    def occurs(self, relation: str, column: int, value: Value, part: Part) -> bool:
        """Whether a value may occur in a column of the visible facts, or of those that are NEW."""

    def prepare(self, plan: RulePlan) -> Runnable:
        """The plan ready to run, any number of times, until relations change a lot in size."""

    def advance(self, relations: Collection[str]) -> int:
        """End a round: returns how many facts are now NEW."""

    def drop(self, relation: str) -> None:
        """Forget a relation."""


class Closing(Engine, Protocol):
    """An engine that has structures for closures."""

    def close(self, module: ClosureModule, given: str) -> int | None:
        """Close a predicate, its external facts being its own and those of the relation `given`.

        Returns how many facts are new; None, with nothing done, if rules serve better.
        """


# ---- What an engine offers to maintenance algorithms: sets of facts, what is known of each, plans run over
# them.
#
# Algorithms are written once, over sets of facts, against `Maintainable`. What an algorithm notes of a fact
# is a bit or a counter beside it; the engine keeps a journal of every fact it touches, from which the net
# change is read at the end, or everything put back as it was.


class Flag(IntFlag):
    """What is known of a fact, one bit each."""

    NONE = 0
    ALIVE = 1  # true now
    EXPLICIT = 2  # stated, not only derived
    BEFORE = 4  # true before the transaction
    DELTA = 8  # of the set that drives the current round
    PENDING = 16  # found by a plan, waiting for its turn
    TOUCHED = 32  # in the journal: the engine's own
    PROVED = 64
    CHECKED = 128


@dataclass(frozen=True, slots=True)
class Where:
    """Facts whose flags under the mask are those wanted."""

    mask: Flag
    want: Flag


# What the parts of a relation mean, as far as flags decide it.
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


class Counters(Enum):
    """What is counted for each derived fact: two numbers, `founded` and `hidden`.

    An explicit fact counts one more in `founded`.
    """

    NONE = "none"
    CLASS = "class"  # founded: instances of nonrecursive rules; hidden: of recursive rules
    RANK = "rank"  # founded: those, and instances whose own facts all rank below the head; hidden: the others


class Role(IntEnum):
    """What an instance that a plan finds is for its head, to those who keep notes."""

    NONE = 0
    ORIGIN = 1  # it is new, and makes the head true unless that is
    PROOF = 2  # it proves the head
    LOSS = 3  # it is broken


class Notes(IntEnum):
    """What is noted of derived facts for the sake of the next update.

    Marks: an origin or a proof with a marked fact in its body marks the head. Where positive marks are kept,
    a head returns that is taken away with an instance whose facts all return, or are stated, true and not
    marked. Links: a fact leans on its
    origin or last proof, which is known by one stated fact in it, the first in the rule. What leans on an
    instance that stands is not selected when others break; and whatever was born to one instance, and won no
    other since, is *sole*.
    """

    NONE = 0
    MARKS = 1
    LINKS = 2


@dataclass(frozen=True, slots=True)
class Noting:
    """What is noted of which facts."""

    notes: Notes = Notes.NONE
    sources: frozenset[str] = frozenset()  # the relations whose marks are passed on, or that are leant on
    heads: frozenset[str] = frozenset()  # those of whose facts it is noted
    staying: frozenset[str] = (
        frozenset()
    )  # of positive marks: those without rules, whose facts stay by themselves


@dataclass(frozen=True, slots=True)
class Effect:
    """What becomes of the head of each instance that a plan finds.

    First the head's counters change by `count`. Then, if its flags are as `where` says (and, if `unfounded`,
    its `founded` is now 0), it gets the flags `set` and belongs to the facts that are returned: `set` must
    make it fail `where`, so that each is returned once.
    """

    where: Where
    set: Flag = Flag.PENDING
    create: bool = False  # a head that is not there is entered, without flags; else it is passed over
    count: int = 0  # -1, 0 or 1
    unfounded: bool = False
    role: Role = Role.NONE


class Facts(Protocol):
    """A set of facts of one or more relations, as an engine holds it. It is a value: never changed."""

    def __len__(self) -> int:
        """How many they are."""

    def __or__(self, other: Any) -> Facts:
        """Both; no fact is in both."""

    @property
    def relations(self) -> Collection[str]:
        """The relations that have facts in it."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many facts there are of each relation."""


class Family(Enum):
    """The plans that rank counting runs, by what they find; `plan.change_plans.Changes` makes them."""

    LOST = "lost"
    LOST_UNDER_NEGATION = "lost under negation"
    OVERDELETE = "overdelete"
    GAINED = "gained"
    GAINED_UNDER_NEGATION = "gained under negation"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class LoopSection:
    """A stratum as a compiled loop sees it: its prepared plans by family."""

    predicates: tuple[str, ...]
    plans: Mapping[Family, Sequence[Any]]
    # Maintains it in place of plans, given what went and came of what it reads; called if facts of predicates
    # change from which it is reached.
    by_hand: Callable[[Any, Any], None] | None = None
    read: frozenset[str] = frozenset()
    reached_from: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """What was done in a section."""

    overdeleted: int
    went: int
    came: int
    instances: int
    seconds: float

    @property
    def is_touched(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.overdeleted or self.went or self.came or self.instances)


class CompiledRanks(Protocol):
    """The loop of rank counting over all strata of a program in one call."""

    @property
    def is_valid(self) -> bool:
        """Whether the relations are still those that it was made for."""

    def run(
        self, removed: Any, added: Any, tell: Callable[[int, LoopOutcome], None] | None = None
    ) -> tuple[int, int]:
        """Work in the removal and addition of explicit facts; returns how many facts went and came.

        `tell` is called after each section, with its place among all; the loop pauses for it.
        """


class Outgrown(Exception):  # noqa: N818 – no error: the update is worked in by rules
    """A structure would become too large for what it holds."""

    def __init__(self, relation: str) -> None:
        super().__init__(relation)
        self.relation = relation


class MaintainedClosures(Closing, Protocol):
    """An engine whose structures keep closures right. A relation that they keep has no counters."""

    @property
    def closed(self) -> Collection[str]:
        """The relations that structures keep."""

    def module_of(self, relation: str) -> ClosureModule | None:
        """The module by which a relation is closed, None if it is not."""

    def close_later(self, module: ClosureModule) -> bool:
        """Whether a structure keeps the relation from now on; it and its source are as they should be."""

    def open(self, relation: str) -> None:
        """Drop the closure structure of the relation."""

    def maintain_closure(self, relation: str, removed: Facts, added: Facts, went: Facts, came: Facts) -> None:
        """Update the facts of a closed relation to the closure of its changed external pairs.

        `removed` and `added` are its facts that are no longer, or newly, explicit; `went` and `came` are the
        facts deleted and inserted below. Raises Outgrown if the structure would become too large.
        """


class Maintainable(Engine, Protocol):
    """An engine whose facts come and go.

    Flags ALIVE and BEFORE agree between transactions. `begin_transaction`, then for each stratum any of the
    others and `settle`, then `commit` or `roll_back`.
    """

    @property
    def counters(self) -> Counters:
        """What is counted at present."""

    @property
    def instances(self) -> int:
        """How many instances of rules plans have found so far; it only grows."""

    @property
    def counts(self) -> int:
        """How often instances have been counted."""

    def instances_of(self, rule: Rule) -> int:
        """How many instances of a rule there were when they were last counted; 0 if that is not known."""

    def rounds_of(self, predicates: Collection[str]) -> int:
        """How many rounds it took to derive these predicates; 1 if that is not known."""

    def relations(self) -> Collection[str]:
        """The relations that are there."""

    def begin_transaction(self) -> None:
        """Begin a journal."""

    def commit(self) -> tuple[Facts, Facts]:
        """End the transaction: what went and what came, in all relations; BEFORE is ALIVE again."""

    def tidy(self, relations: Iterable[str]) -> None:
        """Free what these relations no longer need; sets of facts become invalid."""

    def rebase(self) -> None:
        """Set BEFORE to ALIVE for a second pass; `commit` and `roll_back` still refer to the beginning."""

    def roll_back(self) -> None:
        """Put flags and counters back as they were when the transaction began."""

    # ---- sets of facts

    def facts(self, relation: str, columns: Any, count: int, create: bool) -> Facts:
        """The facts with these ids; those that are not there are entered without flags, or left out."""

    def all_facts(self, given: Mapping[str, tuple[Any, int]], create: bool) -> Mapping[str, Facts]:
        """The same for many relations at once, by their columns and how many rows; none is without facts."""

    def ids(self, facts: Facts) -> Mapping[str, tuple[Any, int]]:
        """The columns of ids of the facts, and how many they are, by relation."""

    def every(self, relation: str) -> Facts:
        """All facts of a relation that are true now."""

    def none(self) -> Facts:
        """No facts."""

    def unite(self, sets: Iterable[Facts]) -> Facts:
        """All facts of sets that have no relation in common."""

    def select(self, facts: Facts, where: Where) -> Facts:
        """Those whose flags are as wanted."""

    def of(self, facts: Facts, relations: Collection[str]) -> Facts:
        """Those of these relations."""

    def mark(self, facts: Facts, set: Flag = Flag.NONE, clear: Flag = Flag.NONE) -> None:
        """Clear flags, then set flags."""

    # ---- counters

    def count(self, facts: Facts, founded: int) -> None:
        """Add to `founded` of each fact, if its relation has counters."""

    def select_unfounded(self, facts: Facts) -> Facts:
        """Those whose `founded` is 0."""

    def select_supported(self, facts: Facts) -> Facts:
        """Those whose `founded` or `hidden` is above 0."""

    def raise_ranks(self, facts: Facts) -> None:
        """Give the facts the highest rank: hidden instances become founded, and the clock advances."""

    def recount(self, counters: Counters, strata: Iterable[Any]) -> Facts:
        """Count all instances of the strata's rules anew; returns the facts that are true and unfounded.

        Inside a transaction `roll_back` undoes it. Of `Counters.NONE`: nothing is counted from now on.
        """

    # ---- notes

    def keep_notes(self, noting: Noting) -> None:
        """In this transaction, let what is noted of facts be this.

        Notes of the last transaction are still there if it kept the same, and was not rolled back.
        """

    def is_linked(self, relations: Collection[str]) -> bool:
        """Whether it is known of every derived fact of these relations what it leans on."""

    def linked(self, facts: Facts, relations: Collection[str], effect: Effect) -> Facts:
        """The facts of these relations that lean on the given ones and that the effect selects."""

    def divide_sole(self, facts: Facts) -> tuple[Facts, Facts]:
        """Those that are sole, and the others."""

    def note_marks(self, facts: Facts, marked: bool) -> None:
        """Mark the facts, or let them be unmarked."""

    def select_marked(self, facts: Facts) -> Facts:
        """Those that are marked."""

    def note_returning(self, facts: Facts, returning: bool) -> None:
        """Set or clear the note that the facts return."""

    def select_returning(self, facts: Facts) -> Facts:
        """Those that return."""

    # ---- plans

    def prepare_change(self, plan: ChangePlan) -> Any:
        """The plan ready to run, any number of times."""

    def run(self, plans: Iterable[Any], given: Facts, effect: Effect) -> Facts:
        """Run each prepared plan over the given facts of its pivot's relation, or over all if it has none.

        Returns the heads that the effect selects.
        """

    def run_support(self, plans: Iterable[Any], given: Facts) -> tuple[Facts, Facts]:
        """For each given head the first instance that a plan of `Changes.support` finds.

        Returns the facts in those instances that were not CHECKED, and now are, and the heads that have one.
        """

    @property
    def closing(self) -> MaintainedClosures | None:
        """The engine itself, if it has structures for closures."""

    @property
    def has_compiled_ranks(self) -> bool:
        """Whether the engine has a compiled loop of rank counting."""

    def compile_ranks(self, sections: Sequence[LoopSection]) -> CompiledRanks:
        """The compiled loop of rank counting over these sections."""

    def aggregate(self, root: Aggregate, relation: str) -> Facts:
        """One fact of the relation per group of the rows that are true in the root's input.

        Those that are not there are entered without flags.
        """

    def scratch(self, relation: str, arity: int) -> None:
        """Make an empty relation of whose facts no journal is kept, unless it is there."""

    def clear(self, relation: str) -> None:
        """Forget all facts of a relation that `scratch` has made."""

    def settle(self, relations: Collection[str]) -> tuple[Facts, Facts]:
        """End a stratum: clear DELTA, PENDING, PROVED and CHECKED; what went and what came in it."""


# ---- What tables need of an engine.

Rows = tuple[tuple[Any, ...], int]  # columns of ids, and how many rows


class Group(Protocol):
    """Relations whose rounds end together; none of them is dropped."""


class TabledEngine(Engine, Protocol):
    """An engine that can keep tables."""

    def add(self, relation: str, columns: Sequence[Any], rows: int) -> int:
        """Add rows of ids; returns how many were new."""

    def rows(self, relation: str) -> tuple[tuple[Any, ...], int]:
        """The columns of a relation, in the order in which rows came, and how many rows it has."""

    def identity(self, value: Value) -> int:
        """The id of a value."""

    def clear(self, relation: str) -> None:
        """Forget all facts of a relation; plans that were prepared go on reading and filling it."""

    def group(self, relations: Collection[str]) -> Group:
        """Relations whose rounds end together."""

    def advance_group(self, group: Group) -> Sequence[str]:
        """End a round of each relation: what came is NEW; gives those of which something is."""

    def run_together(self, prepared: Sequence[Runnable]) -> list[int]:
        """Run what is ready to run, in turn; how many new facts each has found."""

    def reveal(self, relation: str) -> None:
        """Make facts inserted in this round NEW too, besides those that already are."""

    def new_rows(self, relation: str) -> tuple[tuple[Any, ...], int]:
        """The columns of what is NEW of a relation, and how many rows these are."""

    def show(self, relations: Collection[str]) -> None:
        """Make all facts of the relations visible, none of them as NEW."""

    def define(self, relation: str, arity: int, dense_bytes: int | None = None) -> None:
        """Make an empty relation, unless it is there; `dense_bytes` bound what its set may take for speed."""

    def plan_to_keep(self, relations: Collection[str]) -> None:
        """Mark the relations as used by cached plans: `generation` changes when one is dropped."""

    @property
    def generation(self) -> int:
        """Changes when plans that are kept must be prepared anew."""

    def follow(self, relation: str) -> tuple[Rows, Rows] | None:
        """What has gone from a relation, and come to it, since this was last asked; None if not known."""

    def remove(self, relation: str, columns: Sequence[Any], rows: int) -> None:
        """Delete the facts given as rows of ids."""

    def standing(self, relation: str, columns: Sequence[Any], rows: int) -> Any:
        """The flags of each given row; 0 where it is no fact."""

    def appended(self, relation: str, first: int) -> tuple[tuple[Any, ...], int]:
        """The facts of a relation from a row on."""

    def has_dead(self, relation: str) -> bool:
        """Whether some rows of a relation are no facts."""

    def bytes_of(self, relation: str) -> int:
        """The memory that a relation and its indexes hold."""

    def relations(self) -> Collection[str]:
        """The relations that are there."""
