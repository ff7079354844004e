"""The interface of engines: the contract between algorithms and the storage of facts.

Algorithms are written once, over sets of facts, and import only this module and `flags`, never a concrete
engine. An engine consists of parts, each with a separate protocol; optional parts are optional fields.
Algorithms record bits and counters of facts (`flags`); the engine keeps a journal of every fact that a
transaction changes, from which the net change is computed at the end, or the transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Rows
from tidelog.engine.events import PlanListener, PlanOutcome, RoundsRan
from tidelog.engine.flags import CounterKind, Effect, Flag, MarkConfig, Where
from tidelog.engine.interrupts import ActiveLimits
from tidelog.logic.program import Atom, Rule
from tidelog.logic.strata import Stratum
from tidelog.logic.values import Value
from tidelog.plan.algebra import ChangePlan, Part, RulePlan
from tidelog.plan.join_order import Statistics
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import ClosureModule

Runnable = Callable[[], PlanOutcome]


Watched = tuple[str, int, Value | None]  # a relation, and a value in a column; -1 and None: any fact


class Storage(Statistics, Protocol):
    """Relations, their facts, and the dictionary of values."""

    dictionary: Dictionary

    def define(
        self, relation: str, arity: int, dense_bytes: int | None = None, is_large: bool = True
    ) -> None:
        """Create an empty relation, unless it exists; `dense_bytes` bound what its set may take for speed.

        One that `is_large` begins with room for rows over all values.
        """

    def define_temporary(self, relation: str, arity: int) -> None:
        """Create an empty relation whose facts have no journal, unless it exists."""

    def drop(self, relation: str) -> None:
        """Drop a relation."""

    def rename(self, relation: str, name: str) -> None:
        """Rename a relation to an unused name; prepared plans continue to read it."""

    def relations(self) -> Collection[str]:
        """Return the names of all relations."""

    def load(self, relation: str, batch: Any) -> int:
        """Insert a batch of explicit facts; return how many were new."""

    def add(self, relation: str, columns: Sequence[Any], count: int) -> int:
        """Insert rows of ids as explicit facts; return how many were new."""

    def remove(self, relation: str, columns: Sequence[Any], count: int) -> None:
        """Delete the facts given as rows of ids; the remaining rows are renumbered."""

    def clear(self, relation: str) -> None:
        """Delete all facts of a relation; prepared plans continue to read and fill it."""

    def rows(self, relation: str) -> Rows:
        """Return the facts of a relation, in the order in which rows were inserted."""

    def explicit(self, relation: str, without: Sequence[Any] = (), count: int = 0) -> Rows:
        """Return the explicit facts of a relation, without the given rows."""

    def row_flags(self, relation: str, columns: Sequence[Any], count: int) -> Any:
        """Return the flags ALIVE and EXPLICIT of each given row; 0 where it is no fact."""

    def standing(self, given: Mapping[str, tuple[Any, int]]) -> tuple[int, int]:
        """Return those flags that all rows of some relations have, and those that any has."""

    def bytes_of(self, relation: str) -> int:
        """Return the memory that a relation and its indexes hold."""

    def has_tombstones(self, relation: str) -> bool:
        """Return whether some rows of a relation are deleted facts."""


class Rounds(Protocol):
    """Which facts scans see as old and new while rules run in rounds.

    Facts that plans insert become visible to scans when `advance` is called: as NEW until the next `advance`,
    then as OLD.
    """

    def begin(self, relations: Collection[str]) -> None:
        """Make all facts of the relations visible, none of them as NEW."""

    def advance(self, relations: Collection[str]) -> Mapping[str, int]:
        """End a round; return how many facts are now NEW, by relation, of those that have any."""

    def mark_all_old(self, relations: Collection[str]) -> None:
        """Make all facts of the relations visible, none of them as NEW, without restarting their rounds."""

    def extend_new(self, relation: str) -> None:
        """Make facts inserted in this round NEW too, next to those that already are."""

    def new_rows(self, relation: str) -> Rows:
        """Return the facts that are NEW."""

    def rows_since(self, relation: str, first: int) -> Rows:
        """Return the facts of a relation from a row on."""

    def visible(self, relation: str, part: Part) -> range:
        """Return the numbers of the facts that are visible, or of those that are NEW."""

    def occurs(self, relation: str, column: int, value: Value, rows: range) -> bool:
        """Return whether a value may occur in a column of the facts with these numbers."""

    def group(self, relations: Collection[str]) -> Group:
        """Return the relations as a group whose rounds end together."""

    def new_in(self, group: Any) -> Mapping[str, int]:
        """Return how many facts are NEW, by relation of a group, of those that have any."""

    def advance_group(self, group: Any) -> Sequence[str]:
        """End a round of each relation; return those that have NEW facts."""

    def sizes(self, group: Any) -> Any:
        """Return how many facts each relation of a group has."""

    def clear_group(self, group: Any) -> None:
        """Delete all facts of a group's relations, which are temporary."""

    def fill(self, given: Mapping[str, tuple[Any, int]]) -> None:
        """Insert these rows into empty temporary relations; none of them is NEW yet."""


class Group(Protocol):
    """Relations whose rounds end together; none of them is dropped."""


@dataclass(frozen=True, slots=True)
class ManyRounds:
    """Plans driven by NEW facts of a group, to be run round after round while there is nothing to plan."""

    stratum: int
    plans: Sequence[Runnable]
    rules: Sequence[int]  # the number of the rule of each
    limits: Sequence[int]  # by relation of the group: the number of facts up to which the plans fit
    watched: Collection[Watched]  # what other plans wait for
    many: int  # the number of new facts from which a round is run plan by plan


class Plans(Protocol):
    """Rules' plans, prepared and run over whole relations."""

    @property
    def catalog_version(self) -> int:
        """A number that changes when cached plans must be prepared again."""

    def pin(self, relations: Collection[str]) -> None:
        """Record that cached plans read the relations: `catalog_version` changes when one is dropped."""

    def prepare(self, plan: RulePlan) -> Runnable:
        """Return the plan ready to run, any number of times, until relations change a lot in size."""

    def prepare_with_tombstones(self, plan: RulePlan) -> Runnable:
        """Return the plan ready to run, whether or not its relations have tombstones by then."""

    def run_together(self, prepared: Sequence[Runnable]) -> list[int]:
        """Run prepared plans in turn; return how many new facts each has found."""

    def close_group(self, group: Any, prepared: Sequence[Runnable]) -> bool:
        """Run prepared plans in rounds until the group's relations have no new facts.

        The derived facts are not NEW yet. Return whether that is possible; if not, there is no effect.
        """

    def run_rounds(
        self, group: Any, rounds: ManyRounds, first: int, report: Callable[[RoundsRan], None]
    ) -> int | None:
        """Run rounds, the first with this number, until nothing is new or one is to be run plan by plan.

        Such a round has many new facts, relations of more facts than the limits, or what is watched. Return
        how many rounds have ended; None if it cannot, with nothing done. `report` is called now and then,
        and may raise to stop.
        """

    def answer(self, rule: Rule) -> Rows:
        """Return the heads of a rule's instances."""


class Facts(Protocol):
    """A set of facts of one or more relations, as an engine holds it. It is a value: never changed."""

    def __len__(self) -> int:
        """Return how many they are."""

    def __or__(self, other: Any) -> Facts:
        """Return the facts of both; no fact is in both."""

    @property
    def relations(self) -> Collection[str]:
        """The relations that have facts in it."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of facts of each relation."""


class FactChanges(Protocol):
    """One transaction: its journal, and sets of facts.

    The flags ALIVE and BEFORE agree between transactions. `begin`, then for each stratum any of the others
    and `end_stratum`, then `commit` or `roll_back`.
    """

    def begin(self) -> None:
        """Begin a transaction."""

    def commit(self) -> tuple[Facts, Facts]:
        """End the transaction; return the deleted and inserted facts of all relations."""

    def roll_back(self) -> None:
        """Restore flags and counters as they were when the transaction began."""

    def start_second_phase(self) -> None:
        """Set BEFORE to ALIVE; `commit` and `roll_back` still refer to the beginning."""

    def end_stratum(self, relations: Collection[str]) -> tuple[Facts, Facts]:
        """Clear DELTA, PENDING, PROVED and CHECKED; return the facts deleted and inserted in the stratum."""

    def compact_if_sparse(self, relations: Iterable[str]) -> None:
        """Compact the relations in which most rows are tombstones; sets of facts become invalid."""

    def facts(self, relation: str, columns: Any, count: int, create: bool) -> Facts:
        """Return the facts with these ids; those that do not exist are created without flags, or left out."""

    def all_facts(self, given: Mapping[str, tuple[Any, int]], create: bool) -> Mapping[str, Facts]:
        """Return the facts of many relations in one call; no entry is empty."""

    def ids(self, facts: Facts) -> Mapping[str, tuple[Any, int]]:
        """Return the ids of the facts, as columns and their length, by relation."""

    def every(self, relation: str) -> Facts:
        """Return all facts of a relation that are true now."""

    def none(self) -> Facts:
        """Return the empty set."""

    def unite(self, sets: Iterable[Facts]) -> Facts:
        """Return all facts of sets that have no relation in common."""

    def select(self, facts: Facts, where: Where) -> Facts:
        """Return the facts whose flags match."""

    def of(self, facts: Facts, relations: Collection[str]) -> Facts:
        """Return those of these relations."""

    def mark(self, facts: Facts, set: Flag = Flag.NONE, clear: Flag = Flag.NONE) -> None:
        """Clear flags, then set flags."""


class ChangePlans(Protocol):
    """Plans over the changes of a transaction."""

    plan_listener: PlanListener | None

    @property
    def instances(self) -> int:
        """The number of rule instances that plans have found; it only grows."""

    def prepare(self, plan: ChangePlan) -> Any:
        """Return the plan ready to run, any number of times."""

    def run(self, plans: Iterable[Any], given: Facts, effect: Effect) -> Facts:
        """Run each prepared plan over the given facts of its pivot's relation, or over all if it has none.

        Return the heads that the effect selects.
        """

    def run_support(self, plans: Iterable[Any], given: Facts) -> tuple[Facts, Facts]:
        """Find the first instance of each given head by plans of `ChangePlanMaker.support`.

        Return the facts in those instances that were not CHECKED, and now are, and the heads that have one.
        """


@dataclass(frozen=True, slots=True)
class Aggregated:
    """A rule that aggregates, whose head is the group and the results, and its temporary relations."""

    rule: Rule
    touched: Atom  # groups
    collected: Atom  # all rows to aggregate of these groups
    changed: tuple[Atom, ...]  # for each aggregation, distinct rows of group and arguments that changed


class Aggregates(Protocol):
    """What the groups of rules that aggregate came to, from one transaction to the next.

    A group is known if its facts can be told from the rows that it loses and gains. A rule's rows are
    exchanged whenever what it reads has changed. Facts that do not exist are inserted without flags.
    """

    def exchange(self, aggregated: Aggregated, lost: Facts, gained: Facts) -> tuple[Facts, Facts, Facts]:
        """Take lost rows out of their groups, and put gained ones in; rows are facts of `changed`.

        Return the facts of known groups that no longer hold, those that hold in their place, and the
        groups that are not known, as facts of `touched`.
        """

    def fold(self, aggregated: Aggregated, keep: bool) -> Facts:
        """Return one fact for each group of the collected rows; `keep` says that it is known from now on."""

    def forget(self, relation: str) -> None:
        """Forget the groups of the rule whose head this relation is."""


class Counters(Protocol):
    """How many instances of rules derive each fact."""

    @property
    def kind(self) -> CounterKind:
        """The current kind of counters."""

    @property
    def counts(self) -> int:
        """How often all instances have been counted."""

    def instances_of(self, rule: Rule) -> int:
        """Return how many instances of a rule were counted last; 0 if that is not known."""

    def rounds_of(self, predicates: Collection[str]) -> int:
        """Return how many rounds it took to derive these predicates; 1 if that is not known."""

    def count(self, facts: Facts, founded: int) -> None:
        """Add to `founded` of each fact, if its relation has counters."""

    def select_unfounded(self, facts: Facts) -> Facts:
        """Return those whose `founded` is 0."""

    def select_supported(self, facts: Facts) -> Facts:
        """Return those whose `founded` or `hidden` is above 0."""

    def assign_next_rank(self, facts: Facts) -> None:
        """Give the facts the highest rank: hidden instances become founded, and the clock advances."""

    def rebuild(self, kind: CounterKind, strata: Iterable[Stratum]) -> Facts:
        """Count all instances of the strata's rules again; return true facts that are unfounded.

        Within a transaction `roll_back` undoes it. With `CounterKind.NONE` counting stops.
        """

    def forget(self) -> None:
        """Stop counting: facts have changed and were not counted."""


class Marks(Protocol):
    """Marks on facts, or links to the facts that support them, from one update to the next."""

    def configure(self, config: MarkConfig) -> None:
        """Record marks or links in the present transaction.

        Records of the last transaction remain if it had the same configuration and was committed.
        """

    def is_linked(self, relations: Collection[str]) -> bool:
        """Return whether the support of every derived fact of these relations is known."""

    def linked(self, facts: Facts, relations: Collection[str], effect: Effect) -> Facts:
        """Return the facts of these relations that the given ones support and that the effect selects."""

    def split_single_support(self, facts: Facts) -> tuple[Facts, Facts]:
        """Return those with a single support, and the others."""

    def set_marks(self, facts: Facts, marked: bool) -> None:
        """Set or clear the mark of the facts."""

    def select_marked(self, facts: Facts) -> Facts:
        """Return those that are marked."""

    def set_returning(self, facts: Facts, returning: bool) -> None:
        """Record that the facts return, or no longer."""

    def select_returning(self, facts: Facts) -> Facts:
        """Return those that are recorded as returning."""


class StructureTooLarge(Exception):  # noqa: N818 – no error: the update is applied by rules
    """A closure structure would become too large for its pairs."""

    def __init__(self, relation: str) -> None:
        super().__init__(relation)
        self.relation = relation


class Closures(Protocol):
    """Structures that compute closures and maintain them. A relation that they keep has no counters."""

    @property
    def closed(self) -> Mapping[str, object]:
        """The relations that structures keep."""

    def module_of(self, relation: str) -> ClosureModule | None:
        """Return the module by which a relation is closed, None if it is not."""

    def build(self, module: ClosureModule, given: str) -> int | None:
        """Close a predicate, whose external facts are its own and those of the relation `given`.

        Return the number of new facts; None, without an effect, if rules are more suitable.
        """

    def adopt(self, module: ClosureModule) -> bool:
        """Return whether a structure keeps the relation from now on; its facts and its source's are right."""

    def release(self, relation: str) -> None:
        """Drop the closure structure of the relation."""

    def maintain(self, relation: str, removed: Facts, added: Facts, deleted: Facts, inserted: Facts) -> None:
        """Update the facts of a closed relation to the closure of its changed external pairs.

        `removed` and `added` are its facts that are no longer, or newly, explicit; `deleted` and `inserted`
        are the facts deleted and inserted below. Raises StructureTooLarge.
        """


class Family(Enum):
    """The families of plans that rank counting runs, created by `ChangePlanMaker`."""

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
    # Maintains it in place of plans, given the facts that were deleted and inserted in what it reads; called
    # if facts of predicates change from which it is reached.
    custom_handler: Callable[[Any, Any], None] | None = None
    read: frozenset[str] = frozenset()
    reached_from: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """The outcome of maintaining a stratum."""

    overdeleted: int
    deleted: int
    inserted: int
    instances: int
    seconds: float

    @property
    def has_changes(self) -> bool:
        """Whether the stratum had changes."""
        return bool(self.overdeleted or self.deleted or self.inserted or self.instances)


class CompiledLoop(Protocol):
    """The loop of rank counting over all strata of a program in one call."""

    @property
    def is_valid(self) -> bool:
        """Whether the relations are still those that it was made for."""

    def run(
        self,
        removed: Mapping[str, Rows],
        added: Mapping[str, Rows],
        tell: Callable[[int, LoopOutcome], None] | None = None,
    ) -> tuple[int, int]:
        """Delete and insert explicit facts; return the total numbers of deleted and inserted facts.

        `tell` is called after each stratum, with its position among all; the loop pauses for it.
        """


class RankLoop(Protocol):
    """The maker of compiled loops of rank counting."""

    @property
    def is_available(self) -> bool:
        """Whether a compiled loop may run: it does not report single plans."""

    def compile(self, sections: Sequence[LoopSection]) -> CompiledLoop:
        """Return the compiled loop over these strata."""


class ChangeLog(Protocol):
    """A log of changes in relations, for readers that poll it."""

    def poll(self, relation: str) -> tuple[Rows, Rows] | None:
        """Return the rows deleted and inserted since the last call, None if that is not known."""


class Replacement(Protocol):
    """Whole relations, exchanged or compared."""

    def replace_explicit(self, relation: str, backup: str, removed: Rows, added: Rows) -> None:
        """Rename a relation to `backup`, and create a new one with its explicit facts, changed."""

    def difference(self, relation: str, other: str) -> Rows:
        """Return the facts of a relation that another does not have."""

    def forget_derived(self, relations: Collection[str]) -> None:
        """Keep only the explicit facts of these relations."""

    def restore(self, derived: Mapping[str, tuple[Sequence[Any], int]]) -> None:
        """Insert rows of ids that do not exist yet as facts that were derived before; all are visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """An engine: its parts and capabilities."""

    storage: Storage
    rounds: Rounds
    plans: Plans
    changes: FactChanges
    change_plans: ChangePlans
    aggregates: Aggregates
    counters: Counters
    replacement: Replacement
    limits: ActiveLimits
    marks: Marks | None = None
    closures: Closures | None = None
    rank_loop: RankLoop | None = None
    change_log: ChangeLog | None = None
    name: str = "columnar"
    threads: int = 1
