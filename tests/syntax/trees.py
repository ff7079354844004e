"""How hypothesis draws trees: every kind of node, each as the parser could have made it."""

from __future__ import annotations

import re
from typing import TypeVar

import hypothesis.strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tidelog.syntax import ast
from tidelog.syntax.ast import Expression, NumberKind
from tidelog.syntax.lexer import AGGREGATES, METRIC_WORDS

Item = TypeVar("Item")


def short(strategy: SearchStrategy[Item]) -> SearchStrategy[Item]:
    """The strategy under a short text, for hypothesis warns of long ones."""

    @st.composite
    def drawn(draw: DrawFn) -> Item:
        return draw(strategy)

    return drawn()


# Sampling is many times faster than drawing from regular expressions, and these are the cases that matter.
WORDS = st.sampled_from(
    [
        "a",
        "bob",
        "X",
        "_a",
        "a_",
        "__",
        "a-b",
        "a-",
        "a1",
        "trueish",
        "falsely",
        "e1",
        "x0",
        "box",
        "f",
        "inf_",
    ]
)
AWKWARD_WORDS = st.sampled_from([*METRIC_WORDS, "inf", "inf-1", "not", "if", "is"])
VARIABLE_NAMES = st.sampled_from(["x", "Y", "_", "_1", "long_name"])
PREFIXES = st.sampled_from(["", "ex", "a-b", "true", "f", "since"])
LOCALS = st.sampled_from(["a", "_", "1", "1-a", "a-", "true", "B_2"])
IRI_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters='<>"{}|^`\\'), max_size=6).filter(
    lambda text: not re.search(r"\s", text)
)
TEXTS = st.text(max_size=6) | st.sampled_from(
    ['"', "\\", '"""', "{", "}", "{{}}", "\n", "a\rb", "% no", "/*"]
)

# ---- terms

NAMES = st.builds(ast.NameNode, WORDS | AWKWARD_WORDS)
CALLABLE_NAMES = st.builds(ast.NameNode, WORDS | st.sampled_from(["true", "inf", "f", "a-"]))
PREFIXED_NAMES = st.builds(ast.PrefixedNameNode, PREFIXES, LOCALS)
IRIS = st.builds(ast.IriNode, IRI_TEXTS)
SYMBOLS = short(CALLABLE_NAMES | PREFIXED_NAMES | IRIS)
LANGUAGES = st.sampled_from(["en", "de-AT", "x-1-a"])
STRINGS = short(
    st.builds(ast.TextNode, TEXTS)
    | st.builds(ast.TextNode, TEXTS, LANGUAGES)
    | st.builds(ast.TextNode, TEXTS, st.none(), PREFIXED_NAMES | IRIS)
)
VARIABLES = st.builds(ast.VariableNode, VARIABLE_NAMES)
PARAMETERS = st.builds(ast.ParameterNode, VARIABLE_NAMES)


def _numbers(kind: NumberKind, lexical: str) -> SearchStrategy[ast.NumberNode]:
    return st.sampled_from([ast.NumberNode(number, kind) for number in lexical.split()])


INTEGERS = _numbers(NumberKind.INTEGER, "0 1 007 -1 +2 -0 123456789012345678901234567890")
NUMBERS = short(
    INTEGERS
    | _numbers(NumberKind.DECIMAL, "0.0 1.50 -2.5 +3.25")
    | _numbers(NumberKind.DOUBLE, "1e5 1.e5 -1.5E-3 +2E+0")
    | _numbers(NumberKind.BASED, "0b101 0o17 0xfF 0x0")
)
DURATIONS = st.sampled_from([ast.DurationNode(text) for text in ("5m", "-1.5h", "10ms", "0s", "7d", "2w")])
TERMS: SearchStrategy[Expression] = short(
    st.one_of(
        VARIABLES,
        st.builds(ast.AnonymousNode),
        PARAMETERS,
        NAMES,
        PREFIXED_NAMES,
        IRIS,
        STRINGS,
        st.builds(ast.BooleanNode, st.booleans()),
        NUMBERS,
        DURATIONS,
    )
)

# ---- expressions


def _tuples(items: SearchStrategy[Item], least: int = 0, most: int = 3) -> SearchStrategy[tuple[Item, ...]]:
    return st.lists(items, min_size=least, max_size=most).map(tuple)


def _compound(inner: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
    return st.one_of(
        st.builds(ast.OperationNode, st.sampled_from("+-*/"), inner, inner),
        st.builds(ast.NegativeNode, inner),
        st.builds(ast.CallNode, SYMBOLS, _tuples(inner)),
        st.builds(ast.AggregateNode, st.sampled_from(AGGREGATES), _tuples(inner, 1)),
    )


def _format_strings(inner: SearchStrategy[Expression]) -> SearchStrategy[ast.FormatStringNode]:
    """Format strings: no two texts in a row, for the parser would have made one of them."""
    texts = _tuples(TEXTS.filter(bool), 0, 1)
    pairs = _tuples(st.tuples(texts, inner))
    return st.builds(
        lambda pairs, last: ast.FormatStringNode(
            tuple(p for text, part in pairs for p in (*text, part)) + last
        ),
        pairs,
        texts,
    )


PLAIN = short(st.recursive(TERMS, _compound, max_leaves=4))
# A format string in the braces of another is as deep as quotes can be told apart.
FORMATTED = short(_format_strings(PLAIN | _format_strings(PLAIN)))
EXPRESSIONS = short(st.recursive(TERMS | FORMATTED, _compound, max_leaves=5))

# ---- time

BOUNDS = st.one_of(
    NUMBERS,
    st.builds(ast.FractionNode, NUMBERS, INTEGERS),
    DURATIONS,
    st.builds(ast.InfinityNode, st.sampled_from(["inf", "+inf", "-inf"])),
    STRINGS,
    PARAMETERS,
)
INTERVALS = short(st.builds(ast.IntervalNode, st.booleans(), BOUNDS, BOUNDS, st.booleans()))

# ---- heads and bodies

CALLS = st.builds(ast.CallNode, SYMBOLS, _tuples(EXPRESSIONS))
TRIPLES = st.builds(ast.TripleNode, EXPRESSIONS, EXPRESSIONS, EXPRESSIONS)
ATOMS = short(st.builds(ast.AtomNode, CALLS | TRIPLES, st.none() | INTERVALS | VARIABLES | NUMBERS))
BOXES = st.sampled_from(["boxminus", "boxplus"])
DIAMONDS = st.sampled_from(["diamondminus", "diamondplus"])


def _under(
    operators: SearchStrategy[str], operands: SearchStrategy[ast.AtomNode | ast.UnaryMetricNode]
) -> SearchStrategy[ast.AtomNode | ast.UnaryMetricNode]:
    return st.recursive(
        operands, lambda inner: st.builds(ast.UnaryMetricNode, operators, INTERVALS, inner), max_leaves=3
    )


UNARY = short(_under(BOXES | DIAMONDS, ATOMS))
METRIC = short(
    UNARY | st.builds(ast.BinaryMetricNode, st.sampled_from(["since", "until"]), UNARY, INTERVALS, UNARY)
)
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
LITERALS = short(
    st.one_of(
        METRIC,
        st.builds(ast.NegationNode, METRIC),
        st.builds(ast.ComparisonNode, OPERATORS, EXPRESSIONS, EXPRESSIONS),
    )
)
HEADS = short(
    _under(BOXES, ATOMS)
    | st.builds(ast.HeadEqualityNode, EXPRESSIONS, EXPRESSIONS, st.sampled_from(("=", "!=")))
)

# ---- statements

NAMES_ONLY = st.builds(ast.NamesNode, _tuples(WORDS, 1))
OPTIONS = st.builds(ast.OptionNode, WORDS | AWKWARD_WORDS, EXPRESSIONS | NAMES_ONLY)
FORMATS = short(st.builds(ast.FormatNode, WORDS, _tuples(OPTIONS)))
COLUMNS = st.builds(ast.ColumnNode, st.none() | WORDS | AWKWARD_WORDS, WORDS)
ATTRIBUTES = st.builds(ast.AttributeNode, WORDS, _tuples(EXPRESSIONS))
CLAUSES = st.builds(
    ast.ClauseNode,
    _tuples(HEADS, 1, 2),
    _tuples(LITERALS),
    st.none() | st.sampled_from("+-"),
    _tuples(ATTRIBUTES, 0, 1),
)
DIRECTIVES: SearchStrategy[ast.Statement] = st.one_of(
    st.builds(ast.PrefixDirectiveNode, PREFIXES, IRIS),
    st.builds(ast.BaseDirectiveNode, IRIS),
    st.builds(ast.DeclareDirectiveNode, SYMBOLS, _tuples(COLUMNS)),
    st.builds(ast.ParameterDirectiveNode, VARIABLE_NAMES, st.none() | EXPRESSIONS),
    st.builds(ast.ImportDirectiveNode, SYMBOLS, FORMATS),
    st.builds(ast.ExportDirectiveNode, SYMBOLS, FORMATS),
    st.builds(ast.OutputDirectiveNode, _tuples(SYMBOLS, 1)),
    st.builds(ast.IncludeDirectiveNode, TEXTS),
    st.builds(ast.TimelineDirectiveNode, st.sampled_from(["integer", "rational"])),
    st.just(ast.CommitDirectiveNode()),
)
STATEMENTS: SearchStrategy[ast.Statement] = (
    CLAUSES | DIRECTIVES | st.builds(ast.QueryNode, _tuples(LITERALS, 1))
)
DOCUMENTS = st.builds(ast.DocumentNode, _tuples(STATEMENTS))
