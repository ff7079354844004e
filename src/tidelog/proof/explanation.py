"""Explanations: the proofs of a fact, or of the answers to a query, as data and in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

from tidelog.errors import Span, counted
from tidelog.logic.intervals import Interval
from tidelog.logic.program import (
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Expression,
    Literal,
    Negation,
    Rule,
    Term,
    Variable,
    literal_variables,
)
from tidelog.logic.values import Value
from tidelog.plan.rule_text import Writing
from tidelog.records import dataclass

# ---- proofs as data
#
# A proof is a graph of nodes without circles, shared where a fact is used more than once. The kind of a node
# says what it is.

Binding = Mapping[Variable, Value]


class NodeKind(Enum):
    """The kind of a node of a proof."""

    EXPLICIT = "explicit"  # a fact of the program or of its data
    RULE = "rule"  # a fact that an instance of a rule derives: the children are the body's literals, in order
    QUERY = "query"  # the same for the answer to a query
    NEGATION = "negation"  # no fact matches
    TEST = "test"  # a comparison or condition that holds
    COMPUTED = "computed"  # a value that was computed
    AGGREGATE = "aggregate"  # values over a group: the children are its rows
    ROW = "row"  # a row of a group: the children are the literals of one instance of the body
    REPLACED = "replaced"  # a fact, by one that differs by equal constants: that, then the equalities
    EQUAL = "equal"  # that two constants are one, by a chain of equalities
    STRETCHES = "stretches"  # a fact throughout a stretch of time: the children are the parts of it
    METRIC = "metric"  # an operator of time: the children are its atoms, at the times at which they matter

    @property
    def is_step(self) -> bool:
        """Whether a node of this kind is higher than its children."""
        return self in (NodeKind.RULE, NodeKind.QUERY)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProofNode:
    """One node of a proof; all uses of a fact share one object."""

    kind: NodeKind
    literal: Literal | None  # what holds, without variables; None of aggregates and rows
    children: tuple[ProofNode, ...] = ()
    height: int = 0  # the number of rule instances on the longest way down
    rule: Rule | None = None
    number: int = -1  # of the rule in the program
    binding: tuple[tuple[Variable, Value], ...] = ()  # what was computed, or distinguishes a row
    origin: object | None = None  # of an explicit fact, if known; shown by `str`
    elided: int = 0  # how many rows of a group, or parts of a stretch, are not among the children
    time: Interval | None = None  # when it holds; None if it holds always, or time does not matter to it

    def __repr__(self) -> str:
        return f"<{self.kind.value} {self.literal}, height {self.height}>"


def walk(roots: Iterable[ProofNode]) -> Iterator[ProofNode]:
    """Every node of proofs once, each before its children."""
    visited: set[int] = set()
    waiting = list(roots)[::-1]
    while waiting:
        node = waiting.pop()
        if id(node) not in visited:
            visited.add(id(node))
            yield node
            waiting.extend(reversed(node.children))


def grounded(literal: Literal, binding: Binding) -> Literal:
    """The literal with bound variables replaced by their values."""
    match literal:
        case Atom():
            return ground_atom(literal, binding)
        case Negation(atom):
            return Negation(ground_atom(atom, binding))
        case Comparison(operator, left, right):
            return Comparison(operator, _expression(left, binding), _expression(right, binding))
        case Assignment(variable, expression):
            return Assignment(variable, _expression(expression, binding))
        case Condition(Apply(function, arguments), negated):
            replaced = tuple(_expression(argument, binding) for argument in arguments)
            return Condition(Apply(function, replaced), negated)
    raise TypeError(literal)


def ground_atom(atom: Atom, binding: Binding) -> Atom:
    """The atom with bound variables replaced by their values."""
    return Atom(atom.predicate, tuple(_term(term, binding) for term in atom.terms))


def _term(term: Term, binding: Binding) -> Term:
    if isinstance(term, Variable) and term in binding:
        return Constant(binding[term])
    return term


def _expression(expression: Expression, binding: Binding) -> Expression:
    if isinstance(expression, Apply):
        arguments = tuple(_expression(argument, binding) for argument in expression.arguments)
        return Apply(expression.function, arguments)
    return _term(expression, binding)


# ---- nodes of proofs in words


class Words:
    """How the nodes of proofs are written."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def statement(self, node: ProofNode) -> str:
        """The statement of a node, with its time."""
        text = self._statement(node)
        if node.time is None:
            return text
        return f"{text} at {node.time}" if node.kind is NodeKind.METRIC else f"{text}@{node.time}"

    def _statement(self, node: ProofNode) -> str:
        writing = self._writing
        match node.kind:
            case NodeKind.AGGREGATE:
                return self._aggregate(node)
            case NodeKind.ROW:
                return ", ".join(f"?{name.name} = {writing.value(value)}" for name, value in node.binding)
            case NodeKind.QUERY:
                return "the query"
        literal = node.literal
        assert literal is not None
        if isinstance(literal, Assignment):
            (_, value), *_ = node.binding
            expression = writing.expression(literal.expression)
            return f"{_variable(literal.variable)}{expression} = {writing.value(value)}"
        if isinstance(literal, Comparison | Condition):
            return writing.literal(literal)
        return writing.literal(literal, dict.fromkeys(literal_variables(literal), "_"))

    def reason(self, node: ProofNode) -> str:
        """Why a node holds."""
        match node.kind:
            case NodeKind.EXPLICIT:
                return ", ".join(filter(None, ("explicit", origin_of(node))))
            case NodeKind.RULE:
                assert node.rule is not None
                return named_rule(node.rule, node.number)
            case NodeKind.NEGATION:
                return "no such fact"
            case NodeKind.AGGREGATE:
                rows = len(node.children) + node.elided
                return f"over {counted(rows, 'row')}"
            case NodeKind.COMPUTED:
                return "computed"
            case NodeKind.TEST:
                return "holds"
            case NodeKind.REPLACED:
                return "equals replaced"
            case NodeKind.EQUAL:
                steps = len(node.children)
                return "the other way round" if steps == 1 else f"by a chain of {steps} equalities"
            case NodeKind.STRETCHES:
                return f"in {counted(len(node.children) + node.elided, 'part')}"
            case NodeKind.ROW | NodeKind.QUERY | NodeKind.METRIC:
                return ""

    def _aggregate(self, node: ProofNode) -> str:
        rule = node.rule
        assert rule is not None
        values = {name: f" = {self._writing.value(value)}" for name, value in node.binding}
        return ", ".join(
            self._writing.aggregation(item) + values.get(item.variable, "") for item in rule.aggregations
        )


def omission(node: ProofNode) -> str:
    """How many rows of a group, or parts of a stretch, are left out."""
    return f"… {node.elided:,} more {'rows' if node.kind is NodeKind.AGGREGATE else 'parts'}"


def origin_of(node: ProofNode) -> str:
    """The origin of an explicit fact; empty if it is unknown."""
    return "" if node.origin is None else str(node.origin)


def named_rule(rule: Rule, number: int) -> str:
    """The name of a rule, else its number, and its place."""
    name = f"rule “{rule.name}”" if rule.name else f"rule {number + 1}"
    place = place_of(rule.span)
    return f"{name}, {place}" if place else name


def place_of(span: Span | None) -> str | None:
    """`file:line` of a span."""
    if span is None:
        return None
    line, _ = span.source.position(span.start)
    return f"{span.source.name}:{line}"


def _variable(variable: Variable) -> str:
    """A variable of the program followed by `=`; the empty text for variables that the resolver added."""
    return "" if variable.name.startswith("_") else f"?{variable.name} = "


# ---- explanations


@dataclass(frozen=True)
class Explanation:
    """Why a fact holds, or why the answers to a query are answers.

    Each proof is a `ProofNode`; `str` and notebooks show them whole, the methods take a `depth` to stop at.
    """

    query: str
    proofs: tuple[ProofNode, ...]
    writing: Writing
    omitted: int = 0  # answers beyond the limit, which are not explained

    def to_text(self, depth: int | None = None) -> str:
        """The proofs as trees, drawn with lines."""
        from tidelog.show import proof_draw

        return "\n".join(proof_draw.text_lines(self.proofs, self.words, depth)) + "\n" + self._omission

    def to_json(self) -> dict[str, object]:
        """The proofs as plain JSON values: nodes by number, each with the numbers of its children."""
        from tidelog.show import proof_draw

        return {"query": self.query, **proof_draw.records(self.proofs, self.words), "omitted": self.omitted}

    def to_html(self, depth: int | None = None) -> str:
        """A standalone page; steps below the depth are folded."""
        from tidelog.show.picture_formats import document

        count = f"{len(self.proofs):,} proof{'' if len(self.proofs) == 1 else 's'}"
        summary = [count, f"height {', '.join(f'{height:,}' for height in self.heights)}"]
        footer = f"<footer>{self._omission}</footer>\n" if self.omitted else ""
        return document(self.query, summary, self.to_html_fragment(depth) + footer)

    def to_html_fragment(self, depth: int | None = None) -> str:
        """The same without the page around it."""
        from tidelog.show import proof_draw

        return proof_draw.folding_lists(self.proofs, self.words, depth)

    def to_dot(self, depth: int | None = None) -> str:
        """A graph for Graphviz; a fact that is used twice is one node."""
        from tidelog.show import proof_draw

        return proof_draw.dot_text(self.proofs, self.words, depth)

    @property
    def words(self) -> Words:
        """How nodes are written."""
        return Words(self.writing)

    @property
    def heights(self) -> Sequence[int]:
        """The heights of the proofs."""
        return tuple(proof.height for proof in self.proofs)

    @property
    def _omission(self) -> str:
        if not self.omitted:
            return ""
        return f"… and {counted(self.omitted, 'more answer')}\n"

    def __str__(self) -> str:
        return self.to_text().rstrip("\n")

    def __repr__(self) -> str:
        return f"<Explanation of {self.query}: {counted(len(self.proofs), 'proof')}>\n{self}"

    def _repr_html_(self) -> str:
        return self.to_html_fragment()
