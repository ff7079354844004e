"""From a plan to the words that the interpreter runs.

Each node of the plan's chain becomes one step. A step's outputs are the variables that later steps need,
in the last step the head's terms: nothing is copied that is not read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.steps import (
    GIVEN_ROW,
    HIGHEST_RANK,
    LINKED_ROW,
    STATED,
    PythonStep,
    Store,
    scan_of,
    step_of,
)
from tidelog.errors import Diagnostic, EvaluationError, Span
from tidelog.logic.program import Term, Variable, literal_variables, variables_of
from tidelog.plan.algebra import (
    AntiJoin,
    Extend,
    Filter,
    Join,
    Node,
    Part,
    Project,
    Scan,
    Support,
    Witness,
)
from tidelog.plan.algebra import chain as nodes_of

LOOKING_UP = (layout.MEMBER, layout.ABSENT)
INDEXED = (layout.PROBE, layout.ABSENT_INDEX)


@dataclass(frozen=True, slots=True)
class Noted:
    """What a plan hands on for notes of heads, and the scans that it comes from."""

    column: Variable  # LINKED_ROW or HIGHEST_MARK
    scans: tuple[Scan, ...]
    staying: frozenset[str] = frozenset()  # of marks: the relations whose facts stay by themselves
    returns: bool = False  # whether heads may return


@dataclass(frozen=True, slots=True)
class Assembled:
    """A plan as words, and what Python must know of it."""

    words: tuple[int, ...]
    relation: str
    width: int
    steps: int
    pivot: int | None  # the table that is scanned, None for a body without atoms
    part: Part
    tables: frozenset[int] = frozenset()  # all that it reads or writes
    own: frozenset[int] = frozenset()  # those of its stratum, if its rule is recursive
    looked_up: frozenset[int] = frozenset()  # those in whose sets of rows it looks facts up
    indexes: tuple[int, ...] = ()
    python: dict[int, PythonStep] = field(default_factory=dict)


def assemble(
    relation: str,
    root: Project | Support,
    store: Store,
    ranked: bool = False,
    noted: Noted | None = None,
    span: Span | None = None,
) -> Assembled:
    """The words of a plan whose heads are facts of a relation; `ranked` if ranks are compared.

    `span` is where the rule is written.
    """
    chain = nodes_of(root.input)
    if len(chain) > layout.MOST_STEPS:
        message = f"a body of more than {layout.MOST_STEPS} literals for `{relation}`"
        raise EvaluationError(Diagnostic("E604", message, span, help="let another rule derive a part of it"))
    is_recursive = any(_is_own(node) for node in chain)
    terms = _results(root, ranked and is_recursive, noted)
    numbered = _numbered(chain, root, noted)
    needed = _needed_after(chain, terms, numbered)
    layout_now: list[Term] = []
    steps: list[list[int]] = []
    python: dict[int, PythonStep] = {}
    for level, node in enumerate(chain):
        outputs = list(terms) if level == len(chain) - 1 else needed[level]
        step, python_step = step_of(node, layout_now, outputs, store, numbered.get(level))
        if GIVEN_ROW in layout_now:
            step[layout.S_GIVEN] = layout_now.index(GIVEN_ROW)
        steps.append(step)
        if python_step is not None:
            python[level] = python_step
        layout_now = outputs
    first = scan_of(chain[0])
    widths = [len(terms), *map(len, needed), 1]
    return Assembled(
        tuple(_joined(relation, root, steps, _rank_word(root, is_recursive, ranked), noted, store)),
        relation,
        max(widths),
        len(steps),
        store.table_number(first.relation) if first is not None else None,
        first.part if first is not None else Part.ALL,
        frozenset((store.table_number(relation), *(step[layout.S_TABLE] for step in steps))),
        _own_tables(relation, chain, store) if is_recursive else frozenset(),
        frozenset(step[layout.S_TABLE] for step in steps if step[layout.S_KIND] in LOOKING_UP),
        tuple({step[layout.S_INDEX] for step in steps if _has_index(step)}),
        python,
    )


def _joined(
    relation: str,
    root: Project | Support,
    steps: list[list[int]],
    rank: int,
    noted: Noted | None,
    store: Store,
) -> Iterator[int]:
    """The words of the whole plan: what stands before the steps, the steps, the tables of the support."""
    atoms = root.atoms if isinstance(root, Support) else ()
    offset = layout.P_OFFSETS + len(steps)
    offsets = []
    for step in steps:
        offsets.append(offset)
        offset += len(step)
    note = (-1, 0)
    if noted is not None and isinstance(root, Project):
        is_link = noted.column == LINKED_ROW
        about = store.table_number(noted.scans[0].relation) if is_link else int(noted.returns)
        note = len(root.terms) + (rank >= 0), about
    yield from (store.table_number(relation), len(steps), rank, *note, len(atoms), offset, *offsets)
    for step in steps:
        yield from step
    yield from (store.table_number(atom.relation) for atom in atoms)


def _rank_word(root: Project | Support, is_recursive: bool, ranked: bool) -> int:
    """The output with the highest rank; -1 for a nonrecursive rule, -2 where ranks are not compared."""
    if not is_recursive:
        return -1
    return len(root.terms) if ranked and isinstance(root, Project) else -2


def _has_index(step: list[int]) -> bool:
    return step[layout.S_KIND] in INDEXED or step[layout.S_UNLESS] != 0


def _is_own(node: Node) -> bool:
    scan = scan_of(node)
    return scan is not None and scan.own


def _own_tables(relation: str, chain: list[Node], store: Store) -> frozenset[int]:
    scans = [scan for node in chain if (scan := scan_of(node)) is not None and scan.own]
    return frozenset(store.table_number(name) for name in (relation, *(scan.relation for scan in scans)))


def _results(root: Project | Support, ranked: bool, noted: Noted | None) -> tuple[Term, ...]:
    """What the last step hands to what becomes of heads."""
    if isinstance(root, Project):
        ranks = (HIGHEST_RANK,) if ranked else ()
        return (*root.terms, *ranks, *(() if noted is None else (noted.column,)))
    return (GIVEN_ROW, *(_number_of(place) for place in range(len(root.atoms))))


def _number_of(place: int) -> Variable:
    return Variable(f"number of own fact {place}")


def _numbered(
    chain: list[Node], root: Project | Support, noted: Noted | None
) -> dict[int, tuple[Variable, ...]]:
    """The steps whose row numbers or marks are asked for, and what they are called."""
    if isinstance(root, Project):
        scans = () if noted is None else noted.scans
        levels = (level for level, node in enumerate(chain) if _matches_one_of(node, scans))
        return {level: _noted_columns(chain[level], noted) for level in levels if noted is not None}
    numbered: dict[int, tuple[Variable, ...]] = {0: (GIVEN_ROW,)}
    matched = [scan_of(node) for node in chain]
    for place, atom in enumerate(root.atoms):
        level = matched.index(atom, 1)
        numbered[level] = (*numbered.get(level, ()), _number_of(place))
    return numbered


def _noted_columns(node: Node, noted: Noted) -> tuple[Variable, ...]:
    scan = scan_of(node)
    return (noted.column, STATED) if scan is not None and scan.relation in noted.staying else (noted.column,)


def _matches_one_of(node: Node, scans: tuple[Scan, ...]) -> bool:
    """Whether a node matches facts that notes are made of; a negation's witness is none."""
    return isinstance(node, Scan | Join) and scan_of(node) in scans


def _reads(node: Node) -> Iterable[Variable]:
    """The variables that a node needs or binds."""
    match node:
        case Scan() | Witness() | Join():
            scan = scan_of(node)
            return [term for term in scan.terms if isinstance(term, Variable)] if scan is not None else ()
        case AntiJoin(_, scan):
            return [term for term in scan.terms if isinstance(term, Variable)]
        case Filter(_, test):
            return literal_variables(test)
        case Extend(_, _, expression):
            return variables_of(expression)
        case _:
            return ()


def _needed_after(
    chain: list[Node], terms: tuple[Term, ...], numbered: dict[int, tuple[Variable, ...]]
) -> list[list[Term]]:
    """For each node, the variables bound by then that later nodes or the head read."""
    since = _bound_since(chain, numbered)
    later: list[Variable] = [term for term in terms if isinstance(term, Variable)]
    needed: list[list[Term]] = []
    for level in range(len(chain) - 2, -1, -1):
        read = dict.fromkeys((*_reads(chain[level + 1]), *later))
        later = [variable for variable in read if since.get(variable, len(chain)) <= level]
        needed.append(list(later))
    return needed[::-1]


def _bound_since(chain: list[Node], numbered: dict[int, tuple[Variable, ...]]) -> dict[Variable, int]:
    """For each variable, the first level whose rows have it."""
    since: dict[Variable, int] = {}
    for level, node in enumerate(chain):
        bound: list[Variable] = [*numbered.get(level, ())]
        if isinstance(node, Extend):
            bound.append(node.variable)
        elif isinstance(node, Scan | Witness | Join):
            bound += _reads(node)
        if _is_own(node):
            bound.append(HIGHEST_RANK)
        for variable in bound:
            since.setdefault(variable, level)
    return since
