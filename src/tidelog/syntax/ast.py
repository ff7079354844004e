"""The tree of a program as it is written: frozen nodes, equal when they are written alike.

Spans and comments do not take part in comparison, so that `parse(print(tree)) == tree`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tidelog.errors import Diagnostic, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What every node has: the place it was read from, if it was read."""

    span: Span | None = field(default=None, compare=False, repr=False)


# ---- terms and expressions


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """`?x`; `name` is without the question mark."""

    name: str


@dataclass(frozen=True, slots=True)
class Anonymous(Node):
    """`_`, a variable that is used nowhere else."""


@dataclass(frozen=True, slots=True)
class Existential(Node):
    """`!x`: reserved, rejected by the resolver with its own error."""

    name: str


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """`$limit`; `name` is without the dollar sign."""

    name: str


@dataclass(frozen=True, slots=True)
class Name(Node):
    """`alice`: a predicate, a function or a constant, by where it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class PrefixedName(Node):
    """`ex:alice`, `:alice`."""

    prefix: str
    local: str


@dataclass(frozen=True, slots=True)
class Iri(Node):
    """`<https://example.org/>`; `text` is without the brackets."""

    text: str


Symbol = Name | PrefixedName | Iri


@dataclass(frozen=True, slots=True)
class Text(Node):
    """`"chat"`, `"chat"@en`, `"2"^^xsd:int`; `value` has its escapes resolved."""

    value: str
    language: str | None = None
    datatype: PrefixedName | Iri | None = None


@dataclass(frozen=True, slots=True)
class FormatString(Node):
    """`f"a {?x} b"`: the texts and the expressions between them, in turn."""

    parts: tuple[str | Expression, ...]


@dataclass(frozen=True, slots=True)
class Boolean(Node):
    """`true` or `false`."""

    value: bool


class NumberKind(Enum):
    """How a number is written."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    DOUBLE = "double"
    BASED = "based"


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A number as it is written, sign included: `42`, `-2.5`, `1e6`, `0xff`."""

    lexical: str
    kind: NumberKind


@dataclass(frozen=True, slots=True)
class Duration(Node):
    """`5m`, `1.5h`, as written."""

    lexical: str


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`p(a, ?x)`: an atom or a function, the resolver decides by name."""

    symbol: Symbol
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Negative(Node):
    """`- e`, the arithmetic sign."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Operation(Node):
    """`left operator right`; the operator is one of `+ - * /`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """`#sum(?amount, ?order)`; the function's name is in lower case."""

    function: str
    arguments: tuple[Expression, ...]


Expression = (
    Variable
    | Anonymous
    | Existential
    | Parameter
    | Name
    | PrefixedName
    | Iri
    | Text
    | FormatString
    | Boolean
    | Number
    | Duration
    | Call
    | Negative
    | Operation
    | Aggregate
)


# ---- time


@dataclass(frozen=True, slots=True)
class Fraction(Node):
    """`1/3` as an interval's bound."""

    numerator: Number
    denominator: Number


@dataclass(frozen=True, slots=True)
class Infinity(Node):
    """`inf`, `+inf` or `-inf`, as written."""

    lexical: str


Bound = Number | Fraction | Duration | Infinity | Text | Parameter


@dataclass(frozen=True, slots=True)
class Interval(Node):
    """`[0, 10)`."""

    left_closed: bool
    left: Bound
    right: Bound
    right_closed: bool


@dataclass(frozen=True, slots=True)
class Sometime(Node):
    """`during [0, 10]` or `ever`, in a query: at some time of an interval, or of all time."""

    interval: Interval | None = None


At = Interval | Variable | Bound | Sometime


# ---- atoms, literals, heads


@dataclass(frozen=True, slots=True)
class Triple(Node):
    """`[s, p, o]`, sugar for `triple(s, p, o)`."""

    subject: Expression
    predicate: Expression
    object: Expression


@dataclass(frozen=True, slots=True)
class Atom(Node):
    """A call or triple standing as a literal or head, perhaps with its time `@[0, 3)`."""

    call: Call | Triple
    at: At | None = None


@dataclass(frozen=True, slots=True)
class UnaryMetric(Node):
    """`boxminus[0, 5m] p(?x)`; in heads `boxminus` and `boxplus` only."""

    operator: str
    interval: Interval
    operand: Metric


@dataclass(frozen=True, slots=True)
class BinaryMetric(Node):
    """`p(?x) since[0, 1h] q(?x)`; the operator is `since` or `until`."""

    operator: str
    left: Metric
    interval: Interval
    right: Metric


Metric = Atom | UnaryMetric | BinaryMetric


@dataclass(frozen=True, slots=True)
class Negation(Node):
    """`~p(?x)`."""

    operand: Metric


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """`left operator right`; the operator is one of `= != < <= > >=`. `=` compares or binds."""

    operator: str
    left: Expression
    right: Expression


Literal = Metric | Negation | Comparison


@dataclass(frozen=True, slots=True)
class HeadEquality(Node):
    """`?x = ?y` in a head merges the two; `?x != ?y` says that they must not be merged."""

    left: Expression
    right: Expression
    operator: str = "="


Head = Atom | UnaryMetric | HeadEquality


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
class StatementNode(Node):
    """What every statement has: comments on the lines before it, and one behind it on its last line.

    An empty comment stands for an empty line. `notes` are the comments inside the body of a rule or query.
    """

    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    notes: tuple[Note, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PrefixDirective(StatementNode):
    """`@prefix ex: <https://example.org/> .`; `prefix` is without the colon."""

    prefix: str
    iri: Iri


@dataclass(frozen=True, slots=True)
class BaseDirective(StatementNode):
    """`@base <https://example.org/> .`"""

    iri: Iri


@dataclass(frozen=True, slots=True)
class Column(Node):
    """`cost: double`; the name is None for `_`."""

    name: str | None
    type: str


@dataclass(frozen=True, slots=True)
class DeclareDirective(StatementNode):
    """`@declare edge(from: int, to: int) .`"""

    symbol: Symbol
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class ParameterDirective(StatementNode):
    """`@parameter $limit = 200 .`"""

    name: str
    default: Expression | None = None


@dataclass(frozen=True, slots=True)
class Names(Node):
    """`(string, int)` as an option's value."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Option(Node):
    """`resource = "edges.csv"`."""

    name: str
    value: Expression | Names


@dataclass(frozen=True, slots=True)
class Format(Node):
    """`csv{ resource = "edges.csv" }`."""

    name: str
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class ImportDirective(StatementNode):
    """`@import edge :- csv{ … } .`"""

    symbol: Symbol
    format: Format


@dataclass(frozen=True, slots=True)
class ExportDirective(StatementNode):
    """`@export edge :- csv{ … } .`"""

    symbol: Symbol
    format: Format


@dataclass(frozen=True, slots=True)
class OutputDirective(StatementNode):
    """`@output reach, unreachable .`"""

    symbols: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class IncludeDirective(StatementNode):
    """`@include "rdfs.rls" .`"""

    path: str


@dataclass(frozen=True, slots=True)
class TimelineDirective(StatementNode):
    """`@timeline integer .`: the time points are the integers, not the rationals."""

    kind: str


@dataclass(frozen=True, slots=True)
class CommitDirective(StatementNode):
    """`@commit .`, the end of a transaction in a change script."""


@dataclass(frozen=True, slots=True)
class AdvanceDirective(StatementNode):
    """`@advance 500 .`, in a change script: what was before is final when the transaction has ended."""

    to: Bound


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """`#[name("same passport")]` before a rule."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Clause(StatementNode):
    """A fact or rule, perhaps signed `+` or `-` in a change script. A fact's body is empty."""

    heads: tuple[Head, ...]
    body: tuple[Literal, ...] = ()
    sign: str | None = None
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class Query(StatementNode):
    """`?- body .`"""

    body: tuple[Literal, ...]


Statement = (
    PrefixDirective
    | BaseDirective
    | DeclareDirective
    | ParameterDirective
    | ImportDirective
    | ExportDirective
    | OutputDirective
    | IncludeDirective
    | TimelineDirective
    | CommitDirective
    | AdvanceDirective
    | Clause
    | Query
)


@dataclass(frozen=True, slots=True)
class Document(Node):
    """A whole file: its statements, and the comments after the last of them."""

    statements: tuple[Statement, ...]
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    faults: tuple[Diagnostic, ...] = field(default=(), compare=False, repr=False)  # of what is left out
