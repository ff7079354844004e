"""From a plan to the code that the interpreter runs, step by step: a list of integers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.expression_kernels import LONGEST
from tidelog.engine.columnar.storage.table import IndexKey
from tidelog.engine.flags import PARTS, PRESENT, MarkConfig, MarkKind
from tidelog.errors import Diagnostic, EvaluationError, Span
from tidelog.logic.functions.builtins import lookup
from tidelog.logic.program import (
    Apply,
    Comparison,
    Condition,
    Constant,
    Expression,
    Term,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.logic.values import Value
from tidelog.plan.algebra import (
    AntiJoin,
    ChangePlan,
    Extend,
    Filter,
    Join,
    Node,
    Part,
    Project,
    Scan,
    Support,
    Unit,
    Witness,
    chain,
)
from tidelog.plan.algebra import chain as nodes_of
from tidelog.records import dataclass

# ---- the code of one step

# The functions that kernels compute, by the number of operands; chains take two or more.
OF_ONE = {
    "NOT": layout.X_NOT,
    "ISINTEGER": layout.X_IS_INTEGER,
    "NEG": layout.X_NEGATE,
    "ABS": layout.X_ABS,
    "ROUND": layout.X_ROUND,
    "CEIL": layout.X_CEIL,
    "FLOOR": layout.X_FLOOR,
    "SQRT": layout.X_SQRT,
    "INT": layout.X_TO_INTEGER,
    "DECIMAL": layout.X_TO_DECIMAL,
    "DOUBLE": layout.X_TO_DOUBLE,
    "BOOLEAN": layout.X_TO_BOOLEAN,
    "YEAR": layout.X_YEAR,
    "MONTH": layout.X_MONTH,
    "DAY": layout.X_DAY,
    "HOURS": layout.X_HOURS,
    "MINUTES": layout.X_MINUTES,
    "SECONDS": layout.X_SECONDS,
    "DATE": layout.X_TO_DATE,
    "DATETIME": layout.X_TO_DATETIME,
}
OF_TWO = {
    "+": layout.X_ADD,
    "-": layout.X_SUBTRACT,
    "*": layout.X_MULTIPLY,
    "/": layout.X_DIVIDE,
    "REM": layout.X_REMAINDER,
    "POW": layout.X_POWER,
    "LOG": layout.X_LOG,
    "BITSHL": layout.X_SHIFT_LEFT,
    "BITSHR": layout.X_SHIFT_RIGHT,
    "BITSHRU": layout.X_SHIFT_RIGHT_UNSIGNED,
    "=": layout.X_EQUAL,
    "!=": layout.X_UNEQUAL,
    "<": layout.X_LESS,
    "<=": layout.X_LESS_EQUAL,
    ">": layout.X_GREATER,
    ">=": layout.X_GREATER_EQUAL,
}
OF_THREE = {"IF": layout.X_IF}
CHAINS = {
    "BITAND": layout.X_BIT_AND,
    "BITOR": layout.X_BIT_OR,
    "BITXOR": layout.X_BIT_XOR,
    "AND": layout.X_AND,
    "OR": layout.X_OR,
    "MIN": layout.X_LEAST,
    "MAX": layout.X_GREATEST,
    "COALESCE": layout.X_COALESCE,
}
LIMITS = {Part.ALL: layout.CURRENT_ROWS, Part.OLD: layout.OLD_ROWS}

# What a step hands on in addition to the variables of a rule: numbers that are no ids.
HIGHEST_RANK = Variable("highest rank of own facts")  # no variable of a rule has a space
GIVEN_ROW = Variable("number of the given row")
LINKED_ROW = Variable("number of the supporting fact")
HIGHEST_MARK = Variable("marks in the body")
STAYING = Variable("whether facts stay")  # marks columns next to HIGHEST_MARK: never handed on


class PlanCatalog(Protocol):
    """What the assembler needs of a catalogue."""

    def table_number(self, relation: str) -> int:
        """Return the row of T that describes a relation."""

    def index_number(self, key: IndexKey) -> int:
        """Return the row of X that describes an index, created now if it does not exist."""

    def identity(self, value: Value) -> int:
        """Return the id of a value."""

    def has_tombstones(self, relation: str) -> bool:
        """Return whether some rows of a relation are deleted facts."""


@dataclass(frozen=True, slots=True)
class PythonStep:
    """A step whose expression Python computes for the rows that kernels leave to it."""

    expression: Expression | Comparison | Condition
    slots: tuple[tuple[Variable, int], ...]  # the input column of each variable


def scan_of(node: Node) -> Scan | None:
    """Return the scan by which a node reads a relation, None if it reads none."""
    match node:
        case Scan():
            return node
        case Witness(scan) | Join(_, scan):
            return scan
        case _:
            return None


def step_of(
    node: Node,
    given: list[Term],
    outputs: list[Term],
    catalog: PlanCatalog,
    numbers: tuple[Variable, ...] | None,
) -> tuple[list[int], PythonStep | None]:
    """Return the code of one step, and what Python computes of it; `numbers` name its rows' numbers."""
    match node:
        case Unit():
            return _code(layout.UNIT, outputs=_outputs(outputs, given, (), None, catalog)), None
        case Scan() | Witness():
            return _first(node, given, _row_outputs(node, given, outputs, catalog, numbers), catalog), None
        case Join(_, scan):
            return _join(scan, given, _row_outputs(node, given, outputs, catalog, numbers), catalog), None
        case AntiJoin(_, scan):
            return _absent(scan, given, outputs, catalog), None
        case Filter(_, test):
            return _expression_step(layout.SELECT, test, None, given, outputs, catalog)
        case Extend(_, variable, expression):
            return _expression_step(layout.COMPUTE, expression, variable, given, outputs, catalog)
        case _:
            raise AssertionError(node)


def _row_outputs(
    node: Node,
    given: list[Term],
    outputs: list[Term],
    catalog: PlanCatalog,
    numbers: tuple[Variable, ...] | None,
) -> list[tuple[int, int]]:
    """Return where each output of a step that matches rows comes from."""
    scan = scan_of(node)
    assert scan is not None
    sources = []
    inputs, columns = _places(given), _places(scan.terms)
    for output in outputs:
        if output == HIGHEST_RANK and scan.own:
            sources.append((layout.FROM_RANK, inputs.get(output, -1)))
        elif output == HIGHEST_MARK and numbers is not None:
            origin = layout.FROM_STATED_MARK if STAYING in numbers else layout.FROM_MARK
            sources.append((origin, inputs.get(output, -1)))
        elif numbers is not None and output in numbers:
            sources.append((layout.FROM_NUMBER, 0))
        else:
            sources.append(_output(output, inputs, columns, None, catalog))
    return sources


def _first(
    node: Scan | Witness, given: list[Term], outputs: list[tuple[int, int]], catalog: PlanCatalog
) -> list[int]:
    """Return the code of the step that scans rows, or reads those that drive the plan."""
    scan = node if isinstance(node, Scan) else node.scan
    table = catalog.table_number(scan.relation)
    mask, want = _required_flags(scan, catalog)
    if isinstance(node, Witness):
        wild = {scan.terms[column] for column in range(len(scan.terms)) if column not in node.bound}
        checks = _filters(scan.terms, [], catalog)
        columns = tuple(
            c for c, term in enumerate(scan.terms) if isinstance(term, Variable) and term not in wild
        )
        index = catalog.index_number(IndexKey(table, columns, tuple(checks)))
        unless = int(PRESENT[node.unless])
        peer = layout.ALIVE if node.unless is Part.BEFORE else layout.BEFORE
    else:
        checks, index, unless, peer = _filters(scan.terms, given, catalog), 0, 0, 0
    keys = [word for column, wanted in checks for word in (column, -1 - wanted)]
    step = _code(layout.SCAN, table=table, index=index, keys=keys, key_count=len(checks), outputs=outputs)
    step[layout.S_MASK], step[layout.S_WANT] = mask, want
    step[layout.S_UNLESS], step[layout.S_PEER] = unless, peer
    return step


def _required_flags(scan: Scan, catalog: PlanCatalog) -> tuple[int, int]:
    """Return the mask of the flags that a scan checks, and what they must be."""
    where = PARTS.get(scan.part)
    if where is not None:
        return int(where.mask), int(where.want)
    if scan.part is not Part.GIVEN and catalog.has_tombstones(scan.relation):
        return layout.ALIVE, layout.ALIVE
    return 0, 0


def _code(
    kind: int,
    *,
    table: int = 0,
    index: int = 0,
    limit: int = layout.ALL_ROWS,
    keys: Iterable[int] = (),
    key_count: int | None = None,
    outputs: Iterable[tuple[int, int]] = (),
    expression: Iterable[int] = (),
) -> list[int]:
    keys, outputs, expression = list(keys), list(outputs), list(expression)
    count = len(keys) if key_count is None else key_count
    head = [kind, table, index, limit, 0, 0, 0, 0, -1, count, len(outputs), len(expression)]
    return [*head, *keys, *(word for pair in outputs for word in pair), *expression]


def _filters(terms: tuple[Term, ...], given: list[Term], catalog: PlanCatalog) -> list[tuple[int, int]]:
    """Return (column, id) for constants, (column, -1 - earlier column) for variables that occur twice."""
    first: dict[Variable, int] = {}
    bound = frozenset(given)
    filters = []
    for column, term in enumerate(terms):
        if isinstance(term, Constant):
            filters.append((column, catalog.identity(term.value)))
        elif term not in bound:
            if term in first:
                filters.append((column, -1 - first[term]))
            first.setdefault(term, column)
    return filters


def _outputs(
    outputs: list[Term],
    given: list[Term],
    terms: tuple[Term, ...],
    computed: Variable | None,
    catalog: PlanCatalog,
) -> list[tuple[int, int]]:
    """Return where each output comes from."""
    inputs, columns = _places(given), _places(terms)
    return [_output(output, inputs, columns, computed, catalog) for output in outputs]


def _output(
    output: Term,
    inputs: Mapping[Term, int],
    columns: Mapping[Term, int],
    computed: Variable | None,
    catalog: PlanCatalog,
) -> tuple[int, int]:
    """Return where an output comes from: the input, the matched row, a constant, or the computed column."""
    if isinstance(output, Constant):
        return layout.FROM_CONSTANT, catalog.identity(output.value)
    if output == computed:
        return layout.FROM_RESULT, 0
    if output in inputs:
        return layout.FROM_INPUT, inputs[output]
    return layout.FROM_ROW, columns[output]


def _places(terms: Sequence[Term]) -> dict[Term, int]:
    """Return the first position of each term: there may be thousands, too many to search for each."""
    return {term: position for position, term in reversed(list(enumerate(terms)))}


def _source(term: Term, given: list[Term], catalog: PlanCatalog) -> int:
    """Return an input column, or -1 - id for a constant."""
    return -1 - catalog.identity(term.value) if isinstance(term, Constant) else given.index(term)


def _join(scan: Scan, given: list[Term], outputs: list[tuple[int, int]], catalog: PlanCatalog) -> list[int]:
    table = catalog.table_number(scan.relation)
    if all(isinstance(term, Constant) or term in given for term in scan.terms):
        limit = LIMITS.get(scan.part, layout.ALL_ROWS)
        keys = [_source(term, given, catalog) for term in scan.terms]
        step = _code(layout.MEMBER, table=table, limit=limit, keys=keys, outputs=outputs)
    else:
        index, keys = _lookup(scan, table, given, catalog)
        # An index holds the rows up to the current round: row numbers are compared for the older part only.
        limit = layout.OLD_ROWS if scan.part is Part.OLD else layout.ALL_ROWS
        step = _code(layout.PROBE, table=table, index=index, limit=limit, keys=keys, outputs=outputs)
    step[layout.S_MASK], step[layout.S_WANT] = _required_flags(scan, catalog)
    return step


def _absent(scan: Scan, given: list[Term], outputs: list[Term], catalog: PlanCatalog) -> list[int]:
    table = catalog.table_number(scan.relation)
    outs = _outputs(outputs, given, (), None, catalog)
    if all(isinstance(term, Constant) or term in given for term in scan.terms):
        limit = LIMITS.get(scan.part, layout.ALL_ROWS)
        keys = [_source(term, given, catalog) for term in scan.terms]
        step = _code(layout.ABSENT, table=table, limit=limit, keys=keys, outputs=outs)
    else:
        index, keys = _lookup(scan, table, given, catalog)
        step = _code(layout.ABSENT_INDEX, table=table, index=index, keys=keys, outputs=outs)
    present = PRESENT.get(scan.part)
    step[layout.S_MASK] = int(present) if present is not None else _required_flags(scan, catalog)[0]
    return step


def _lookup(scan: Scan, table: int, given: list[Term], catalog: PlanCatalog) -> tuple[int, list[int]]:
    """Return the index for a scan in which the variables in `given` are bound, and the key to look up."""
    columns = tuple(column for column, term in enumerate(scan.terms) if term in given)
    filters = tuple(_filters(scan.terms, given, catalog))
    index = catalog.index_number(IndexKey(table, columns, filters))
    return index, [_source(scan.terms[column], given, catalog) for column in columns]


# ---- expressions


def _expression_step(
    kind: int,
    expression: Expression | Comparison | Condition,
    computed: Variable | None,
    given: list[Term],
    outputs: list[Term],
    catalog: PlanCatalog,
) -> tuple[list[int], PythonStep]:
    words = _compiled(expression, given, catalog) or [layout.X_PYTHON, 0]
    variables: Iterable[Variable] = (
        literal_variables(expression)
        if isinstance(expression, Comparison | Condition)
        else variables_of(expression)
    )
    slots = tuple((variable, given.index(variable)) for variable in dict.fromkeys(variables))
    step = _code(kind, outputs=_outputs(outputs, given, (), computed, catalog), expression=words)
    return step, PythonStep(expression, slots)


def _compiled(
    expression: Expression | Comparison | Condition, given: list[Term], catalog: PlanCatalog
) -> list[int] | None:
    """Return the expression as postfix code; None if kernels cannot compute it."""
    match expression:
        case Comparison(operator, left, right):
            words = _postfix(Apply(operator, (left, right)), given, catalog)
            test = [layout.X_TEST, 0]
        case Condition(applied, negated):
            words = _postfix(applied, given, catalog)
            test = [layout.X_TEST, int(negated)]
        case _:
            words = _postfix(expression, given, catalog)
            test = []
    return [*words, *test] if words is not None and len(words) < LONGEST else None


def _postfix(expression: Expression, given: list[Term], catalog: PlanCatalog) -> list[int] | None:
    match expression:
        case Variable():
            return [layout.X_LOAD, given.index(expression)]
        case Constant(value):
            return [layout.X_CONSTANT, catalog.identity(value)]
        case Apply(name, arguments):
            operation = _operation(name, len(arguments))
            if operation is None:
                return None
            operands: list[list[int]] = []
            for argument in arguments:
                words = _postfix(argument, given, catalog)
                if words is None:
                    return None
                operands.append(words)
            if operation[0] in CHAINS.values():
                first, *others = operands
                return [*first, *(word for words in others for word in (*words, *operation))]
            return [word for words in (*operands, operation) for word in words]


def _operation(name: str, count: int) -> list[int] | None:
    """Return the words of a function of so many operands, None if kernels do not compute it."""
    function = lookup(name)
    assert function is not None, f"{name} is built in"
    if function.kinds is not None:
        return [layout.X_IS_KIND, sum(1 << kind for kind in function.kinds)]
    by_count = {1: OF_ONE, 2: OF_TWO, 3: OF_THREE}.get(count, {})
    if function.name in by_count:
        return [by_count[function.name], 0]
    return [CHAINS[function.name], 0] if count > 1 and function.name in CHAINS else None


# ---- from a plan to the code that the interpreter runs
#
# Each node of the plan's chain becomes one step. A step's outputs are the variables that later steps need,
# in the last step the head's terms: nothing is copied that is not read again.

LOOKING_UP = (layout.MEMBER, layout.ABSENT)
INDEXED = (layout.PROBE, layout.ABSENT_INDEX)


@dataclass(frozen=True, slots=True)
class HeadMarks:
    """What a plan passes on for marks of its heads, and the scans that it comes from."""

    column: Variable  # LINKED_ROW or HIGHEST_MARK
    scans: tuple[Scan, ...]
    staying: frozenset[str] = frozenset()  # of marks: the relations whose facts stay unless they are deleted
    returns: bool = False  # whether heads may return


@dataclass(frozen=True, slots=True)
class Assembled:
    """A plan as code, and what Python must know of it."""

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
    catalog: PlanCatalog,
    ranked: bool = False,
    marked: HeadMarks | None = None,
    span: Span | None = None,
) -> Assembled:
    """Return the code of a plan whose heads are facts of a relation; `ranked` if ranks are compared.

    `span` is the position of the rule in its source.
    """
    chain = nodes_of(root.input)
    if len(chain) > layout.MOST_STEPS:
        message = f"a body of more than {layout.MOST_STEPS} literals for `{relation}`"
        raise EvaluationError(Diagnostic("E604", message, span, help="let another rule derive a part of it"))
    is_recursive = any(_is_own(node) for node in chain)
    terms = _results(root, ranked and is_recursive, marked)
    numbered = _numbered(chain, root, marked)
    needed = _needed_after(chain, terms, numbered)
    layout_now: list[Term] = []
    steps: list[list[int]] = []
    python: dict[int, PythonStep] = {}
    for level, node in enumerate(chain):
        outputs = list(terms) if level == len(chain) - 1 else needed[level]
        step, python_step = step_of(node, layout_now, outputs, catalog, numbered.get(level))
        if GIVEN_ROW in layout_now:
            step[layout.S_GIVEN] = layout_now.index(GIVEN_ROW)
        steps.append(step)
        if python_step is not None:
            python[level] = python_step
        layout_now = outputs
    first = scan_of(chain[0])
    widths = [len(terms), *map(len, needed), 1]
    return Assembled(
        tuple(_joined(relation, root, steps, _rank_word(root, is_recursive, ranked), marked, catalog)),
        relation,
        max(widths),
        len(steps),
        catalog.table_number(first.relation) if first is not None else None,
        first.part if first is not None else Part.ALL,
        frozenset((catalog.table_number(relation), *(step[layout.S_TABLE] for step in steps))),
        _own_tables(relation, chain, catalog) if is_recursive else frozenset(),
        frozenset(step[layout.S_TABLE] for step in steps if step[layout.S_KIND] in LOOKING_UP),
        tuple({step[layout.S_INDEX] for step in steps if _has_index(step)}),
        python,
    )


def _joined(
    relation: str,
    root: Project | Support,
    steps: list[list[int]],
    rank: int,
    marked: HeadMarks | None,
    catalog: PlanCatalog,
) -> Iterator[int]:
    """Yield the code of the whole plan: its header, the steps, the tables of the support."""
    atoms = root.atoms if isinstance(root, Support) else ()
    offset = layout.P_OFFSETS + len(steps)
    offsets = []
    for step in steps:
        offsets.append(offset)
        offset += len(step)
    note = (-1, 0)
    if marked is not None and isinstance(root, Project):
        is_link = marked.column == LINKED_ROW
        about = catalog.table_number(marked.scans[0].relation) if is_link else int(marked.returns)
        note = len(root.terms) + (rank >= 0), about
    yield from (catalog.table_number(relation), len(steps), rank, *note, len(atoms), offset, *offsets)
    for step in steps:
        yield from step
    yield from (catalog.table_number(atom.relation) for atom in atoms)


def _rank_word(root: Project | Support, is_recursive: bool, ranked: bool) -> int:
    """Return the output with the highest rank; -1 for a nonrecursive rule, -2 without ranks."""
    if not is_recursive:
        return -1
    return len(root.terms) if ranked and isinstance(root, Project) else -2


def _has_index(step: list[int]) -> bool:
    return step[layout.S_KIND] in INDEXED or step[layout.S_UNLESS] != 0


def _is_own(node: Node) -> bool:
    scan = scan_of(node)
    return scan is not None and scan.own


def _own_tables(relation: str, chain: list[Node], catalog: PlanCatalog) -> frozenset[int]:
    scans = [scan for node in chain if (scan := scan_of(node)) is not None and scan.own]
    return frozenset(catalog.table_number(name) for name in (relation, *(scan.relation for scan in scans)))


def _results(root: Project | Support, ranked: bool, marked: HeadMarks | None) -> tuple[Term, ...]:
    """Return the outputs of the last step: the head's terms, or the facts of the support."""
    if isinstance(root, Project):
        ranks = (HIGHEST_RANK,) if ranked else ()
        return (*root.terms, *ranks, *(() if marked is None else (marked.column,)))
    return (GIVEN_ROW, *(_number_of(position) for position in range(len(root.atoms))))


def _number_of(position: int) -> Variable:
    return Variable(f"number of own fact {position}")


def _numbered(
    chain: list[Node], root: Project | Support, marked: HeadMarks | None
) -> dict[int, tuple[Variable, ...]]:
    """Return the steps whose row numbers or marks are needed, with the names of these columns."""
    if isinstance(root, Project):
        scans = () if marked is None else marked.scans
        levels = (level for level, node in enumerate(chain) if _matches_one_of(node, scans))
        return {level: _marked_columns(chain[level], marked) for level in levels if marked is not None}
    numbered: dict[int, tuple[Variable, ...]] = {0: (GIVEN_ROW,)}
    matched = [scan_of(node) for node in chain]
    for position, atom in enumerate(root.atoms):
        level = matched.index(atom, 1)
        numbered[level] = (*numbered.get(level, ()), _number_of(position))
    return numbered


def _marked_columns(node: Node, marked: HeadMarks) -> tuple[Variable, ...]:
    scan = scan_of(node)
    return (
        (marked.column, STAYING) if scan is not None and scan.relation in marked.staying else (marked.column,)
    )


def _matches_one_of(node: Node, scans: tuple[Scan, ...]) -> bool:
    """Return whether a node matches facts that notes refer to; a negation's witness does not."""
    return isinstance(node, Scan | Join) and scan_of(node) in scans


def _reads(node: Node) -> Iterable[Variable]:
    """Return the variables that a node needs or binds."""
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
    """Return for each node the variables bound by then that later nodes or the head read."""
    since = _bound_since(chain, numbered)
    later: list[Variable] = [term for term in terms if isinstance(term, Variable)]
    needed: list[list[Term]] = []
    for level in range(len(chain) - 2, -1, -1):
        read = dict.fromkeys((*_reads(chain[level + 1]), *later))
        later = [variable for variable in read if since.get(variable, len(chain)) <= level]
        needed.append(list(later))
    return needed[::-1]


def _bound_since(chain: list[Node], numbered: dict[int, tuple[Variable, ...]]) -> dict[Variable, int]:
    """Return for each variable the first level whose rows have it."""
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


# ---- support of heads, for marks


def marked_heads(plan: ChangePlan, config: MarkConfig) -> HeadMarks | None:
    """Return what a plan passes on for marks of its heads, None if it has nothing."""
    if plan.relation not in config.heads or isinstance(plan.root, Support):
        return None
    if config.kind is MarkKind.LINKS:
        source = first_source(plan, config)
        return None if source is None else HeadMarks(LINKED_ROW, (source,))
    passing = tuple(_passing_marks(plan, plan.root, config))
    if not passing:
        return None
    # A negation that broke, or may break, is not known to hold next time.
    returns = bool(config.staying) and not plan.rule.negated
    return HeadMarks(HIGHEST_MARK, passing, config.staying, returns)


def first_source(plan: ChangePlan, config: MarkConfig) -> Scan | None:
    """Return the scan of the first atom in the rule's body whose facts support heads."""
    atom = next((atom for atom in plan.rule.positive if atom.predicate in config.sources), None)
    if atom is None:
        return None
    matched = matched_in(plan.root.input)
    return next(scan for scan in matched if scan.relation == atom.predicate and scan.terms == atom.terms)


def _passing_marks(plan: ChangePlan, root: Project, config: MarkConfig) -> Iterator[Scan]:
    """Yield the scans of body facts whose marks are passed on: not that of given heads."""
    for scan in matched_in(root.input):
        is_head = scan.part is Part.GIVEN and scan.relation == plan.relation and not scan.own
        if scan.relation in config.sources and not is_head:
            yield scan


def matched_in(node: Node) -> Iterator[Scan]:
    """Yield the scans below a node that match facts, rather than test their absence."""
    for item in reversed(chain(node)):
        if isinstance(item, Scan | Join):
            yield item if isinstance(item, Scan) else item.scan
