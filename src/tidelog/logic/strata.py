"""Stratification of rules, so that negated and aggregated predicates are complete when they are read; order
of literals in bodies, so that variables are bound before they are used.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from tidelog.errors import Diagnostic, Label, ProgramError, codes
from tidelog.logic.expressions import binding_variables
from tidelog.logic.program import (
    EQUAL,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Expression,
    Literal,
    Metric,
    MetricNegation,
    Negation,
    Predicate,
    Rule,
    Throughout,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.records import dataclass

# ---- strata
#
# Tarjan: Depth-First Search and Linear Graph Algorithms, SIAM Journal on Computing 1972, for the components.
#
# Invariant: the predicates of a stratum depend on each other positively only, and on earlier strata.

Graph = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Stratum:
    """Predicates that depend on each other, and all rules that derive them."""

    predicates: tuple[str, ...]
    rules: tuple[Rule, ...]
    recursive: bool


@dataclass(frozen=True, slots=True)
class Dependency:
    """The head of `rule` depends on `predicate`; strictly if that must be complete first."""

    rule: Rule
    predicate: str
    strict: str = ""  # `~` under negation, `#` in a rule that aggregates

    @property
    def head(self) -> str:
        """The predicate that depends."""
        return self.rule.head.predicate


def strata(rules: Sequence[Rule], predicates: Mapping[str, Predicate] | None = None) -> tuple[Stratum, ...]:
    """The strata of the rules, each after those it depends on; raise ProgramError if there are none.

    `predicates` gives the names in messages their written form.
    """
    faults = cycles(rules, predicates or {})
    if faults:
        raise ProgramError(faults)
    graph = dependency_graph(rules)
    rules_of: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        rules_of.setdefault(rule.head.predicate, []).append(number)
    return tuple(
        Stratum(
            predicates=component,
            rules=tuple(rules[number] for number in sorted(chain(*map(rules_of.__getitem__, component)))),
            recursive=len(component) > 1 or component[0] in graph[component[0]],
        )
        for component in components(graph)
    )


def cycles(rules: Sequence[Rule], predicates: Mapping[str, Predicate]) -> tuple[Diagnostic, ...]:
    """A diagnostic for each negation or aggregate that takes part in a cycle."""
    inner = _inner(rules)
    return tuple(_describe(_cycle(item, inner), predicates) for item in _offending(inner))


def entangled(rules: Sequence[Rule]) -> tuple[Dependency, ...]:
    """Each negation or aggregate that takes part in a cycle."""
    return _offending(_inner(rules))


def _inner(rules: Sequence[Rule]) -> list[Dependency]:
    """The dependencies within components."""
    graph = dependency_graph(rules)
    component_of = {name: number for number, names in enumerate(components(graph)) for name in names}
    return [
        dependency
        for dependency in _dependencies(rules)
        if component_of[dependency.head] == component_of.get(dependency.predicate)
    ]


def _offending(inner: Sequence[Dependency]) -> tuple[Dependency, ...]:
    """The strict dependencies, one between any two predicates."""
    offending = {(item.head, item.predicate): item for item in reversed(inner) if item.strict}
    return tuple(reversed(offending.values()))


def dependency_graph(rules: Iterable[Rule]) -> dict[str, tuple[str, ...]]:
    """The derived predicates that each derived predicate depends on, in order of appearance."""
    rules = tuple(rules)
    graph: dict[str, dict[str, None]] = {rule.head.predicate: {} for rule in rules}
    for dependency in _dependencies(rules):
        if dependency.predicate in graph:
            graph[dependency.head][dependency.predicate] = None
    return {head: tuple(body) for head, body in graph.items()}


def components(graph: Graph) -> list[tuple[str, ...]]:
    """The strongly connected components, each after those it has edges to."""
    search = _Search(graph)
    for root in graph:
        search.visit(root)
    return search.components


class _Search:
    """Tarjan's depth-first search with an explicit stack, so that long chains do not exhaust Python's."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.place = {node: number for number, node in enumerate(graph)}
        self.index: dict[str, int] = {}
        self.lowest: dict[str, int] = {}  # of the nodes whose component is still open, in order of entry
        self.components: list[tuple[str, ...]] = []

    def visit(self, root: str) -> None:
        """Find the components reached from `root` that are not found yet."""
        path = [(root, self.enter(root))] if root not in self.index else []
        while path:
            node, successors = path[-1]
            unvisited = next((successor for successor in successors if successor not in self.index), None)
            if unvisited is not None:
                path.append((unvisited, self.enter(unvisited)))
            else:
                path.pop()
                self.leave(node)

    def enter(self, node: str) -> Iterator[str]:
        """Number a node and give its successors."""
        self.index[node] = self.lowest[node] = len(self.index)
        return iter(self.graph[node])

    def leave(self, node: str) -> None:
        """Complete the component of `node` if none of its nodes reaches an earlier one."""
        reached = [self.lowest[successor] for successor in self.graph[node] if successor in self.lowest]
        self.lowest[node] = min([self.lowest[node], *reached])
        if self.lowest[node] < self.index[node]:
            return
        component = [self.lowest.popitem()[0]]
        while component[-1] != node:
            component.append(self.lowest.popitem()[0])
        self.components.append(tuple(sorted(component, key=self.place.__getitem__)))


def _dependencies(rules: Iterable[Rule]) -> Iterator[Dependency]:
    """Every dependency of every rule, in order of appearance."""
    for rule in rules:
        for atom in rule.positive:
            yield Dependency(rule, atom.predicate, "#" if rule.aggregations else "")
        for atom in rule.negated:
            yield Dependency(rule, atom.predicate, "~")


def _cycle(offending: Dependency, inner: Sequence[Dependency]) -> list[Dependency]:
    """A shortest cycle of dependencies that begins with `offending`."""
    came_from: dict[str, Dependency] = {}
    waiting = deque([offending.predicate])
    while waiting and offending.head not in came_from and offending.head != offending.predicate:
        name = waiting.popleft()
        for dependency in inner:
            if dependency.head == name and dependency.predicate not in came_from:
                came_from[dependency.predicate] = dependency
                waiting.append(dependency.predicate)
    path: list[Dependency] = []
    name = offending.head
    while name != offending.predicate:
        path.append(came_from[name])
        name = came_from[name].head
    return [offending, *reversed(path)]


def _describe(cycle: Sequence[Dependency], predicates: Mapping[str, Predicate]) -> Diagnostic:
    """The diagnostic that shows a cycle, with a label for each of its further rules."""

    def written(name: str) -> str:
        return predicates[name].written if name in predicates else name

    first = cycle[0]
    steps = [written(first.head), *(step.strict + written(step.predicate) for step in cycle)]
    labels = tuple(
        Label(step.rule.span, f"`{written(step.head)}` depends on `{written(step.predicate)}`")
        for step in cycle[1:]
        if step.rule.span is not None
    )
    kind = "negation" if first.strict == "~" else "aggregation"
    return Diagnostic(
        codes.NOT_STRATIFIED,
        f"recursion through {kind}: {' -> '.join(steps)}",
        first.rule.span,
        help=_advice(kind, EQUAL in (step.predicate for step in cycle)),
        labels=labels,
    )


def _advice(kind: str, is_merging: bool) -> str:
    """How to break a cycle."""
    if is_merging:
        return f"merging constants may change every predicate, so equality cannot depend on {kind}"
    return f"a predicate must be complete before {kind} reads it: break the cycle"


# ---- safety
#
# Positive atoms bind their variables, and an equality binds a variable that is one of its sides once the
# other side is bound. A variable in any other literal must be bound by one of these.

MATCHING = (Atom, Metric, Throughout)  # literals that give their variables values


@dataclass(frozen=True, slots=True)
class Ordered:
    """The ordered literals, with those that cannot be evaluated last, and the unbound variables."""

    body: tuple[Literal, ...]
    unbound: tuple[Variable, ...]


def order(body: Sequence[Literal], outside: Iterable[Variable] = ()) -> Ordered:
    """The body in an order in which every variable is bound before it is used.

    `outside` are the variables used outside the body, which must be bound as well. An equality becomes an
    assignment where it binds. Literals keep their order as far as that allows.
    """
    needed = tuple(outside)
    local = local_variables(body, needed)
    matched = {
        name for literal in body if isinstance(literal, MATCHING) for name in literal_variables(literal)
    }
    waiting, ordered, bound = list(body), list[Literal](), set(local)
    while (ready := _first_ready(waiting, bound, matched)) is not None:
        position, literal = ready
        del waiting[position]
        ordered.append(literal)
        bound.update(
            binding_variables(literal) if isinstance(literal, Metric) else literal_variables(literal)
        )
    return Ordered((*ordered, *waiting), _unbound(waiting, needed, bound))


def bound_by(literal: Literal) -> Iterable[Variable]:
    """The variables that have values once a literal is matched."""
    return binding_variables(literal) if isinstance(literal, Metric) else literal_variables(literal)


def local_variables(body: Iterable[Literal], outside: Iterable[Variable]) -> frozenset[Variable]:
    """The variables that occur in one negation and nowhere else: any value will do for them."""
    homes = Counter(outside)
    negated: set[Variable] = set()
    for literal in body:
        variables = set(literal_variables(literal))
        homes.update(variables)
        if isinstance(literal, Negation | MetricNegation):
            negated |= variables
    return frozenset(variable for variable in negated if homes[variable] == 1)


def _first_ready(
    waiting: Sequence[Literal], bound: Collection[Variable], matched: Collection[Variable]
) -> tuple[int, Literal] | None:
    """The first literal that can be evaluated now, in its final form, with its position."""
    for position, literal in enumerate(waiting):
        ready = _ready(literal, bound, matched)
        if ready is not None:
            return position, ready
    return None


def _ready(literal: Literal, bound: Collection[Variable], matched: Collection[Variable]) -> Literal | None:
    match literal:
        case Atom() | Metric() | Throughout():
            return literal
        case Comparison("=", Variable() as variable, expression) if _binds(
            variable, expression, bound, matched
        ):
            return Assignment(variable, expression)
        case Comparison("=", expression, Variable() as variable) if _binds(
            variable, expression, bound, matched
        ):
            return Assignment(variable, expression)
        case Assignment(_, expression):
            used = variables_of(expression)
        case Negation() | MetricNegation() | Comparison() | Condition():
            used = literal_variables(literal)
    return literal if all(variable in bound for variable in used) else None


def _binds(
    variable: Variable, expression: Expression, bound: Collection[Variable], matched: Collection[Variable]
) -> bool:
    """Whether an equality assigns the variable; a variable that atoms match is compared instead."""
    if variable in bound or variable in matched:
        return False
    return all(other in bound for other in variables_of(expression))


def _unbound(
    waiting: Iterable[Literal], needed: Iterable[Variable], bound: Collection[Variable]
) -> tuple[Variable, ...]:
    """The variables that are used but never bound, without those that binding others would bind."""
    waiting = tuple(waiting)
    used = (*needed, *(variable for literal in waiting for variable in literal_variables(literal)))
    missing = dict.fromkeys(variable for variable in used if variable not in bound)
    causes = tuple(variable for variable in missing if not _follows(variable, waiting, missing))
    return causes or tuple(missing)


def _follows(variable: Variable, waiting: Iterable[Literal], missing: Collection[Variable]) -> bool:
    """Whether some equality would bind the variable if other variables were bound."""
    for literal in waiting:
        match literal:
            case Assignment(target) if target == variable:
                return True
            case Comparison("=", left, right):
                sides = (left, right) if left == variable else (right, left)
                others = set(variables_of(sides[1])) - {variable}
                if sides[0] == variable and not others.isdisjoint(missing):
                    return True
    return False
