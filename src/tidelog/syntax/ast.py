"""The tree of a program as it is written: frozen nodes, equal when they are written alike.

Spans and comments do not take part in comparison, so that `parse(print(tree)) == tree`.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from tidelog.errors import Diagnostic, Span
from tidelog.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxNode:
    """What every node has: the place it was read from, if it was read."""

    span: Span | None = field(default=None, compare=False, repr=False)


# ---- terms and expressions


@dataclass(frozen=True, slots=True)
class VariableNode(SyntaxNode):
    """`?x`; `name` is without the question mark."""

    name: str


@dataclass(frozen=True, slots=True)
class AnonymousNode(SyntaxNode):
    """`_`, a variable that is used nowhere else."""


@dataclass(frozen=True, slots=True)
class ExistentialNode(SyntaxNode):
    """`!x`: reserved, rejected by the resolver with its own error."""

    name: str


@dataclass(frozen=True, slots=True)
class ParameterNode(SyntaxNode):
    """`$limit`; `name` is without the dollar sign."""

    name: str


@dataclass(frozen=True, slots=True)
class NameNode(SyntaxNode):
    """`alice`: a predicate, a function or a constant, by where it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class PrefixedNameNode(SyntaxNode):
    """`ex:alice`, `:alice`."""

    prefix: str
    local: str


@dataclass(frozen=True, slots=True)
class IriNode(SyntaxNode):
    """`<https://example.org/>`; `text` is without the brackets."""

    text: str


Symbol = NameNode | PrefixedNameNode | IriNode


@dataclass(frozen=True, slots=True)
class TextNode(SyntaxNode):
    """`"chat"`, `"chat"@en`, `"2"^^xsd:int`; `value` has its escapes resolved."""

    value: str
    language: str | None = None
    datatype: PrefixedNameNode | IriNode | None = None


@dataclass(frozen=True, slots=True)
class FormatStringNode(SyntaxNode):
    """`f"a {?x} b"`: texts and expressions, alternating."""

    parts: tuple[str | Expression, ...]


@dataclass(frozen=True, slots=True)
class BooleanNode(SyntaxNode):
    """`true` or `false`."""

    value: bool


class NumberKind(Enum):
    """How a number is written."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    DOUBLE = "double"
    BASED = "based"


@dataclass(frozen=True, slots=True)
class NumberNode(SyntaxNode):
    """A number as it is written, sign included: `42`, `-2.5`, `1e6`, `0xff`."""

    lexical: str
    kind: NumberKind


@dataclass(frozen=True, slots=True)
class DurationNode(SyntaxNode):
    """`5m`, `1.5h`, as written."""

    lexical: str


@dataclass(frozen=True, slots=True)
class CallNode(SyntaxNode):
    """`p(a, ?x)`: an atom or a function, the resolver decides by name."""

    symbol: Symbol
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class NegativeNode(SyntaxNode):
    """`- e`, the arithmetic sign."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class OperationNode(SyntaxNode):
    """`left operator right`; the operator is one of `+ - * /`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class AggregateNode(SyntaxNode):
    """`#sum(?amount, ?order)`; the function's name is in lower case."""

    function: str
    arguments: tuple[Expression, ...]


Expression = (
    VariableNode
    | AnonymousNode
    | ExistentialNode
    | ParameterNode
    | NameNode
    | PrefixedNameNode
    | IriNode
    | TextNode
    | FormatStringNode
    | BooleanNode
    | NumberNode
    | DurationNode
    | CallNode
    | NegativeNode
    | OperationNode
    | AggregateNode
)


# ---- time


@dataclass(frozen=True, slots=True)
class FractionNode(SyntaxNode):
    """`1/3` as an interval's bound."""

    numerator: NumberNode
    denominator: NumberNode


@dataclass(frozen=True, slots=True)
class InfinityNode(SyntaxNode):
    """`inf`, `+inf` or `-inf`, as written."""

    lexical: str


Bound = NumberNode | FractionNode | DurationNode | InfinityNode | TextNode | ParameterNode


@dataclass(frozen=True, slots=True)
class IntervalNode(SyntaxNode):
    """`[0, 10)`."""

    left_closed: bool
    left: Bound
    right: Bound
    right_closed: bool


@dataclass(frozen=True, slots=True)
class SometimeNode(SyntaxNode):
    """`during [0, 10]` or `ever`, in a query: at some time of an interval, or of all time."""

    interval: IntervalNode | None = None


At = IntervalNode | VariableNode | Bound | SometimeNode


# ---- atoms, literals, heads


@dataclass(frozen=True, slots=True)
class TripleNode(SyntaxNode):
    """`[s, p, o]`, sugar for `triple(s, p, o)`."""

    subject: Expression
    predicate: Expression
    object: Expression


@dataclass(frozen=True, slots=True)
class AtomNode(SyntaxNode):
    """A call or triple standing as a literal or head, perhaps with its time `@[0, 3)`."""

    call: CallNode | TripleNode
    at: At | None = None


@dataclass(frozen=True, slots=True)
class UnaryMetricNode(SyntaxNode):
    """`boxminus[0, 5m] p(?x)`; in heads `boxminus` and `boxplus` only."""

    operator: str
    interval: IntervalNode
    operand: Metric


@dataclass(frozen=True, slots=True)
class BinaryMetricNode(SyntaxNode):
    """`p(?x) since[0, 1h] q(?x)`; the operator is `since` or `until`."""

    operator: str
    left: Metric
    interval: IntervalNode
    right: Metric


Metric = AtomNode | UnaryMetricNode | BinaryMetricNode


@dataclass(frozen=True, slots=True)
class NegationNode(SyntaxNode):
    """`~p(?x)`."""

    operand: Metric


@dataclass(frozen=True, slots=True)
class ComparisonNode(SyntaxNode):
    """`left operator right`; the operator is one of `= != < <= > >=`. `=` compares or binds."""

    operator: str
    left: Expression
    right: Expression


Literal = Metric | NegationNode | ComparisonNode


@dataclass(frozen=True, slots=True)
class HeadEqualityNode(SyntaxNode):
    """`?x = ?y` in a head merges the two; `?x != ?y` says that they must not be merged."""

    left: Expression
    right: Expression
    operator: str = "="


Head = AtomNode | UnaryMetricNode | HeadEqualityNode


# ---- statements


@dataclass(frozen=True, slots=True)
class Note:
    """A comment in a body: on lines of its own before literal `index`, or behind it on its line.

    Behind literal -1 is behind the `:-` or `?-`.
    """

    index: int
    text: str
    is_behind: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementNode(SyntaxNode):
    """What every statement has: comments on the lines before it, and one behind it on its last line.

    An empty comment is an empty line. `notes` are the comments inside the body of a rule or query.
    """

    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    notes: tuple[Note, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PrefixDirectiveNode(StatementNode):
    """`@prefix ex: <https://example.org/> .`; `prefix` is without the colon."""

    prefix: str
    iri: IriNode


@dataclass(frozen=True, slots=True)
class BaseDirectiveNode(StatementNode):
    """`@base <https://example.org/> .`"""

    iri: IriNode


@dataclass(frozen=True, slots=True)
class ColumnNode(SyntaxNode):
    """`cost: double`; the name is None for `_`."""

    name: str | None
    type: str


@dataclass(frozen=True, slots=True)
class DeclareDirectiveNode(StatementNode):
    """`@declare edge(from: int, to: int) .`"""

    symbol: Symbol
    columns: tuple[ColumnNode, ...]


@dataclass(frozen=True, slots=True)
class ParameterDirectiveNode(StatementNode):
    """`@parameter $limit = 200 .`"""

    name: str
    default: Expression | None = None


@dataclass(frozen=True, slots=True)
class NamesNode(SyntaxNode):
    """`(string, int)` as an option's value."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OptionNode(SyntaxNode):
    """`resource = "edges.csv"`."""

    name: str
    value: Expression | NamesNode


@dataclass(frozen=True, slots=True)
class FormatNode(SyntaxNode):
    """`csv{ resource = "edges.csv" }`."""

    name: str
    options: tuple[OptionNode, ...]


@dataclass(frozen=True, slots=True)
class ImportDirectiveNode(StatementNode):
    """`@import edge :- csv{ … } .`"""

    symbol: Symbol
    format: FormatNode


@dataclass(frozen=True, slots=True)
class ExportDirectiveNode(StatementNode):
    """`@export edge :- csv{ … } .`"""

    symbol: Symbol
    format: FormatNode


@dataclass(frozen=True, slots=True)
class OutputDirectiveNode(StatementNode):
    """`@output reach, unreachable .`"""

    symbols: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class IncludeDirectiveNode(StatementNode):
    """`@include "rdfs.rls" .`"""

    path: str


@dataclass(frozen=True, slots=True)
class TimelineDirectiveNode(StatementNode):
    """`@timeline integer .`: the time points are the integers, not the rationals."""

    kind: str


@dataclass(frozen=True, slots=True)
class CommitDirectiveNode(StatementNode):
    """`@commit .`, the end of a transaction in a change script."""


@dataclass(frozen=True, slots=True)
class AdvanceDirectiveNode(StatementNode):
    """`@advance 500 .`, in a change script: what was before is final when the transaction has ended."""

    to: Bound


@dataclass(frozen=True, slots=True)
class AttributeNode(SyntaxNode):
    """`#[name("same passport")]` before a rule."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ClauseNode(StatementNode):
    """A fact or rule, perhaps signed `+` or `-` in a change script. A fact's body is empty."""

    heads: tuple[Head, ...]
    body: tuple[Literal, ...] = ()
    sign: str | None = None
    attributes: tuple[AttributeNode, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryNode(StatementNode):
    """`?- body .`"""

    body: tuple[Literal, ...]


Statement = (
    PrefixDirectiveNode
    | BaseDirectiveNode
    | DeclareDirectiveNode
    | ParameterDirectiveNode
    | ImportDirectiveNode
    | ExportDirectiveNode
    | OutputDirectiveNode
    | IncludeDirectiveNode
    | TimelineDirectiveNode
    | CommitDirectiveNode
    | AdvanceDirectiveNode
    | ClauseNode
    | QueryNode
)


@dataclass(frozen=True, slots=True)
class DocumentNode(SyntaxNode):
    """A whole file: its statements, and the comments after the last of them."""

    statements: tuple[Statement, ...]
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    faults: tuple[Diagnostic, ...] = field(default=(), compare=False, repr=False)  # of what is left out
