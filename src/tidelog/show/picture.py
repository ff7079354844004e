"""Pictures as data: boxes, arrows and the sections they are in; plans as trees of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidelog.errors import counted
from tidelog.logic.program import Atom, Constant, Rule, Term, Variable
from tidelog.logic.strata import Stratum
from tidelog.plan.algebra import (
    Aggregate,
    AntiJoin,
    Extend,
    Filter,
    Join,
    Node,
    Project,
    RulePlan,
    Scan,
    chain,
)
from tidelog.plan.compile import aggregate_plans, delta_plans, full_plan
from tidelog.plan.join_order import Statistics
from tidelog.plan.rule_text import Named, Writing, unnamed
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import recognise

# ---- plans as trees

Bound = frozenset[Variable]


@dataclass(frozen=True, slots=True)
class Tree:
    """A node to show: its operator, its subject, remarks, and the trees of its inputs.

    `part` is which facts an operator reads of its relation: `all`, `old` or `new`.
    """

    operator: str
    detail: str = ""
    remarks: tuple[str, ...] = ()
    inputs: tuple[Tree, ...] = ()
    part: str = ""


@dataclass(frozen=True, slots=True)
class ShownRule:
    """A rule and its plans, each with its purpose: `all facts`, `new facts of ancestor`."""

    number: int  # from 1
    text: str
    rule: Rule
    plans: tuple[tuple[str, Tree], ...]


@dataclass(frozen=True, slots=True)
class ShownStratum:
    """A stratum, and its rules with their plans."""

    number: int  # from 1
    predicates: tuple[str, ...]
    recursive: bool
    rules: tuple[ShownRule, ...]
    closed_as: str = (
        ""  # what a structure makes of it in place of rules, if it is neither too small nor too large for one
    )


def show_strata(
    strata: Sequence[Stratum],
    rules: Sequence[Rule],
    writing: Writing,
    statistics: Statistics,
    modules: bool = True,
    timed: frozenset[str] = frozenset(),
) -> tuple[ShownStratum, ...]:
    """The strata with the plans of their rules, in the order in which they run.

    Rules over time, those that derive what is timed, have no plans: their bodies are evaluated as they are.
    """
    numbers = {id(rule): number for number, rule in enumerate(rules)}
    shown_strata = []
    for position, stratum in enumerate(strata, 1):
        planned = tuple(
            ShownRule(
                numbers[id(rule)] + 1,
                writing.rule(rule),
                rule,
                ()
                if rule.head.predicate in timed
                else tuple(_plans(rule, numbers[id(rule)], stratum, writing, statistics)),
            )
            for rule in stratum.rules
        )
        names = tuple(map(writing.predicate, stratum.predicates))
        module = recognise(stratum) if modules and timed.isdisjoint(stratum.predicates) else None
        kind = "" if module is None else module.kind.value
        shown_strata.append(ShownStratum(position, names, stratum.recursive, planned, kind))
    return tuple(shown_strata)


def _plans(
    rule: Rule, number: int, stratum: Stratum, writing: Writing, statistics: Statistics
) -> Iterator[tuple[str, Tree]]:
    """Return the purpose of each plan of a rule, and its tree."""
    if rule.aggregations:
        collect, group = aggregate_plans(rule, number, "rows to aggregate", statistics)
        yield "collect", show_plan(collect, writing, statistics)
        yield "aggregate", show_plan(group, writing, statistics)
        return
    yield "all facts", show_plan(full_plan(rule, number, statistics), writing, statistics)
    recursive = stratum.predicates if stratum.recursive else ()
    own = [position for position, atom in enumerate(rule.positive, 1) if atom.predicate in recursive]
    for position, plan in zip(own, delta_plans(rule, number, recursive, statistics), strict=True):
        assert isinstance(plan.pivot, Scan)
        which = f", atom {position}" if len(own) > 1 else ""
        purpose = f"new facts of {writing.predicate(plan.pivot.relation)}{which}"
        yield purpose, show_plan(plan, writing, statistics)


def show_plan(plan: RulePlan, writing: Writing, statistics: Statistics) -> Tree:
    """The tree of a plan; its root adds the facts."""
    is_collecting = isinstance(plan.root, Project) and plan.relation != plan.rule.head.predicate
    nodes = _Nodes(writing, statistics, unnamed(plan.rule))
    below, _ = nodes.node(plan.root.input, is_collected=isinstance(plan.root, Aggregate))
    if isinstance(plan.root, Aggregate):
        return _aggregate(plan, plan.root, below, writing)
    if is_collecting:
        listed = ", ".join(writing.expression(term) for term in plan.root.terms)
        # A query answers; an aggregate rule sets aside what it will group.
        return Tree(
            "collect" if plan.rule.aggregations else "answer", listed or "true", ("distinct",), (below,)
        )
    return Tree("add", writing.atom(plan.rule.head), (), (below,))


def _aggregate(plan: RulePlan, root: Aggregate, below: Tree, writing: Writing) -> Tree:
    groups = ", ".join(writing.expression(variable) for variable in root.group) or "all rows"
    computed = [
        f"{writing.expression(item.variable)} = {writing.aggregation(item)}" for item in root.aggregations
    ]
    tree = Tree("group", ", ".join(computed), (f"by {groups}",), (below,))
    for assignment in root.after:
        tree = Tree("compute", writing.literal(assignment), (), (tree,))
    return Tree("add", writing.atom(plan.rule.head), (), (tree,))


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Turns the nodes of a plan into trees, knowing at each which variables are bound."""

    writing: Writing
    statistics: Statistics
    named: Named

    def node(self, node: Node, *, is_collected: bool = False) -> tuple[Tree, Bound]:
        """The tree of a node, and the variables bound in its rows."""
        first, *others = chain(node)
        match first:
            case Scan():
                tree, bound = self._scan(first, is_collected), _variables(first.terms)
            case _:
                tree, bound = Tree("start", "one empty row"), frozenset()
        for other in others:
            tree, bound = self._above(other, tree, bound)
        return tree, bound

    def _above(self, node: Node, below: Tree, bound: Bound) -> tuple[Tree, Bound]:
        """The tree of a node over that of its input, and the variables bound in its rows."""
        match node:
            case Join(_, scan):
                return self._join("join", below, bound, scan), bound | _variables(scan.terms)
            case AntiJoin(_, scan):
                return self._join("without", below, bound, scan), bound
            case Filter(_, test):
                return Tree("filter", self.writing.literal(test), (), (below,)), bound
            case Extend(_, variable, expression):
                left, right = self.writing.expression(variable), self.writing.expression(expression)
                return Tree("compute", f"{left} = {right}", (), (below,)), bound | {variable}
            case _:
                raise AssertionError("a root stands above all other nodes; witnesses are of changes only")

    def _scan(self, scan: Scan, is_collected: bool) -> Tree:
        if is_collected:
            listed = ", ".join(self.writing.expression(term) for term in scan.terms)
            return Tree("scan", listed, ("what was collected",))
        return Tree("scan", self._atom(scan), self._size(scan), (), scan.part.value)

    def _join(self, operator: str, below: Tree, bound: Bound, scan: Scan) -> Tree:
        shared = list(dict.fromkeys(term for term in scan.terms if term in bound))
        on = ", ".join(self.writing.expression(variable) for variable in shared)
        remarks = (self._way(scan, bound), *self._size(scan))
        found = Tree("look up", self._atom(scan), remarks, (), scan.part.value)
        return Tree(operator, f"on {on}" if on else "every pair", (), (below, found))

    def _way(self, scan: Scan, bound: Bound) -> str:
        """Return the access path to the facts that match a row."""
        if all(isinstance(term, Constant) or term in bound for term in scan.terms):
            return "member"
        names = self.writing.columns(scan.relation, len(scan.terms))
        keys = [name for name, term in zip(names, scan.terms, strict=True) if term in bound]
        fixed = [
            f"{name} = {self.writing.value(term.value)}"
            for name, term in zip(names, scan.terms, strict=True)
            if isinstance(term, Constant)
        ]
        where = f" where {', '.join(fixed)}" if fixed else ""
        return f"index on {', '.join(keys)}{where}" if keys else f"every fact{where}"

    def _atom(self, scan: Scan) -> str:
        return self.writing.atom(Atom(scan.relation, scan.terms), self.named)

    def _size(self, scan: Scan) -> tuple[str, ...]:
        """Return the number of facts of the relation, if it is counted."""
        is_known = getattr(self.statistics, "is_known", None)
        if is_known is not None and not is_known(scan.relation):
            return ()
        size = self.statistics.size(scan.relation)
        return (counted(size, "fact"),)


def _variables(terms: Sequence[Term]) -> Bound:
    return frozenset(term for term in terms if isinstance(term, Variable))


# ---- text


def tree_lines(tree: Tree) -> Iterator[str]:
    """Return the tree as lines, each node below its consumer.

    >>> scans = Tree("scan", "p(?x)", part="new"), Tree("scan", "q(?x)")
    >>> print("\\n".join(tree_lines(Tree("join", "on ?x", (), scans))))
    join on ?x
    ├─ scan p(?x)  · new
    └─ scan q(?x)
    """
    yield _line(tree)
    for position, below in enumerate(tree.inputs, 1):
        is_last = position == len(tree.inputs)
        for number, line in enumerate(tree_lines(below)):
            lead = "   " if is_last else "│  "
            yield (("└─ " if is_last else "├─ ") if number == 0 else lead) + line


def _line(tree: Tree) -> str:
    head = f"{tree.operator} {tree.detail}".rstrip()
    remarks = (tree.part, *tree.remarks) if tree.part else tree.remarks
    return f"{head}  · {' · '.join(remarks)}" if remarks else head


def stratum_lines(stratum: ShownStratum, count: int) -> Iterator[str]:
    """A stratum with the plans of its rules, as lines."""
    yield stratum_title(stratum, count)
    for rule in stratum.rules:
        yield ""
        yield f"  rule {rule.number}  {rule.text}"
        for purpose, tree in rule.plans:
            yield f"    {purpose}"
            yield from (f"      {line}" for line in tree_lines(tree))


def stratum_title(stratum: ShownStratum, count: int) -> str:
    """Return the title of a stratum: its number, predicates, and whether it is recursive, or a closure."""
    recursive = ", recursive" if stratum.recursive else ""
    closed = f", closed by a structure ({stratum.closed_as}) if that pays" if stratum.closed_as else ""
    return f"stratum {stratum.number} of {count}: {', '.join(stratum.predicates)}{recursive}{closed}"


# ---- pictures as data


@dataclass(frozen=True, slots=True)
class Box:
    """A node: its operator or kind, its subject, and remarks.

    `kind` chooses the colour, `group` the stratum it belongs to.
    """

    key: str
    kind: str
    title: str
    detail: str = ""
    remarks: tuple[str, ...] = ()
    part: str = ""
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow between two boxes, from where facts come to where they go. `kind` is `~`, `#` or empty."""

    source: str
    target: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class PictureGraph:
    """Boxes and the arrows between them; `is_tree` if the root stands above what it is computed from."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    is_tree: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A graph and what it shows."""

    caption: str
    graph: PictureGraph


@dataclass(frozen=True, slots=True)
class PictureEntry:
    """A rule or query in the rule language, with its figures."""

    title: str
    text: str
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class PictureSection:
    """A stratum, or another part of a picture."""

    title: str
    names: tuple[str, ...] = ()
    tag: str = ""
    entries: tuple[PictureEntry, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A whole picture: its title, a summary, and its sections."""

    title: str
    summary: tuple[str, ...]
    sections: tuple[PictureSection, ...]

    @property
    def figures(self) -> tuple[tuple[str, Figure], ...]:
        """All figures in order, each with its title."""
        return tuple(self._figures())

    def _figures(self) -> Iterator[tuple[str, Figure]]:
        for section in self.sections:
            for figure in section.figures:
                yield section.title, figure
            for entry in section.entries:
                for figure in entry.figures:
                    yield f"{entry.title}: {entry.text}", figure


def tree_graph(tree: Tree) -> PictureGraph:
    """The graph of a tree."""
    boxes: list[Box] = []
    arrows: list[Arrow] = []

    def add(node: Tree) -> str:
        key = f"n{len(boxes) + 1}"
        boxes.append(Box(key, node.operator, node.operator, node.detail, node.remarks, node.part))
        for below in node.inputs:
            arrows.append(Arrow(add(below), key))
        return key

    add(tree)
    return PictureGraph(tuple(boxes), tuple(arrows), is_tree=True)


def dependencies(strata: Sequence[Stratum], writing: Writing) -> PictureGraph:
    """The predicates, and which of them are derived from which."""
    boxes: dict[str, Box] = {}
    arrows: dict[Arrow, None] = {}
    stratum_of = {name: position for position, stratum in enumerate(strata, 1) for name in stratum.predicates}
    for stratum in strata:
        for rule in stratum.rules:
            for name in _names(rule):
                number = stratum_of.get(name)
                kind = _kind(strata, number)
                title = f"stratum {number}" if number else kind
                key, label = _key(name, boxes), writing.predicate(name)
                boxes.setdefault(name, Box(key, kind, title, label, group=number))
            target = boxes[rule.head.predicate].key
            for name, arrow in body_predicates(rule):
                arrows[Arrow(boxes[name].key, target, arrow)] = None
    return PictureGraph(tuple(boxes.values()), tuple(arrows))


def rule_graph(rules: Sequence[Rule], writing: Writing) -> PictureGraph:
    """The predicates and the rules between them."""
    derived = {rule.head.predicate for rule in rules}
    predicates: dict[str, Box] = {}
    boxes: list[Box] = []
    arrows: dict[Arrow, None] = {}
    for number, rule in enumerate(rules, 1):
        for name in _names(rule):
            kind = "derived" if name in derived else "given"
            predicates.setdefault(name, Box(_key(name, predicates), kind, kind, writing.predicate(name)))
        boxes.append(Box(f"r{number}", "rule", f"rule {number}", rule.name or ""))
        for name, arrow in body_predicates(rule):
            arrows[Arrow(predicates[name].key, f"r{number}", arrow)] = None
        arrows[Arrow(f"r{number}", predicates[rule.head.predicate].key)] = None
    return PictureGraph((*predicates.values(), *boxes), tuple(arrows))


def body_predicates(rule: Rule) -> tuple[tuple[str, str], ...]:
    """The predicates that a rule reads, each once, with `~` if negated and `#` if aggregated."""
    read = [(atom.predicate, "#" if rule.aggregations else "") for atom in rule.positive]
    negated = [(atom.predicate, "~") for atom in rule.negated]
    return tuple(dict.fromkeys((*read, *negated)))


def _names(rule: Rule) -> tuple[str, ...]:
    return (*(name for name, _ in body_predicates(rule)), rule.head.predicate)


def _key(name: str, boxes: Mapping[str, Box]) -> str:
    return boxes[name].key if name in boxes else f"p{len(boxes) + 1}"


def _kind(strata: Sequence[Stratum], number: int | None) -> str:
    if number is None:
        return "given"
    return "recursive" if strata[number - 1].recursive else "derived"
