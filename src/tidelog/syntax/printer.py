"""Trees to text, in the one layout of the formatter; the classes of tokens, for colours.

One statement a line; a rule longer than `WIDTH` has one line for each literal of its body. Parentheses are
written only where the tree needs them. Comments stay where they were.

Invariant: `parse(print(tree)) == tree`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, assert_never

from tidelog.errors import SourceText
from tidelog.syntax.ast import (
    AdvanceDirectiveNode,
    AggregateNode,
    AnonymousNode,
    At,
    AtomNode,
    AttributeNode,
    BaseDirectiveNode,
    BinaryMetricNode,
    BooleanNode,
    CallNode,
    ClauseNode,
    ColumnNode,
    CommitDirectiveNode,
    ComparisonNode,
    DeclareDirectiveNode,
    DocumentNode,
    DurationNode,
    ExistentialNode,
    ExportDirectiveNode,
    Expression,
    FormatNode,
    FormatStringNode,
    FractionNode,
    HeadEqualityNode,
    ImportDirectiveNode,
    IncludeDirectiveNode,
    InfinityNode,
    IntervalNode,
    IriNode,
    NameNode,
    NamesNode,
    NegationNode,
    NegativeNode,
    Note,
    NumberNode,
    OperationNode,
    OptionNode,
    OutputDirectiveNode,
    ParameterDirectiveNode,
    ParameterNode,
    PrefixDirectiveNode,
    PrefixedNameNode,
    QueryNode,
    SometimeNode,
    Statement,
    SyntaxNode,
    TextNode,
    TimelineDirectiveNode,
    TripleNode,
    UnaryMetricNode,
    VariableNode,
)
from tidelog.syntax.lexer import (
    AGGREGATE,
    ANONYMOUS,
    ARROW,
    ATTRIBUTE,
    BOOLEAN,
    COMPARISON,
    DIRECTIVE,
    DURATION,
    END,
    ERROR,
    EXISTENTIAL,
    FORMAT,
    IRI,
    LANGUAGE,
    METRIC,
    NAME,
    NAMESPACE,
    NUMBERS,
    PARAMETER,
    PREFIXED,
    QUERY,
    STRING,
    SYMBOLS,
    VARIABLE,
    Lexer,
    Tokens,
    escape,
    quote,
)

WIDTH: Final = 100
_INDENT: Final = "    "
# How tightly an expression binds: a looser one stands in parentheses inside a tighter one.
_SUM, _PRODUCT, _OPERAND = 1, 2, 3


def print_document(document: DocumentNode) -> str:
    """The program in the formatter's layout, with its comments.

    >>> from tidelog.syntax.parser import parse_text
    >>> print(print_document(parse_text("p(?x):-q(?x,1).%why")), end="")
    p(?x) :- q(?x, 1) . %why
    """
    lines: list[str] = []
    for statement in document.statements:
        lines += statement.comments
        remark = f" {statement.remark}" if statement.remark else ""
        lines.append(print_node(statement) + remark)
    lines += document.comments
    return "".join(f"{line}\n" for line in lines)


def print_node(node: SyntaxNode) -> str:
    """The text of a node, without the comments before and behind a statement.

    >>> total = OperationNode("+", VariableNode("x"), VariableNode("y"))
    >>> print_node(OperationNode("*", total, NameNode("z")))
    '(?x + ?y) * z'
    """
    if isinstance(node, Expression):
        return _expression(node, _SUM)
    if isinstance(node, Statement):
        return _statement(node)
    return print_document(node) if isinstance(node, DocumentNode) else _part(node)


# ---- statements


def _statement(node: Statement) -> str:
    match node:
        case ClauseNode():
            return _clause(node)
        case QueryNode():
            return _with_body("?-", node)
        case PrefixDirectiveNode(prefix, iri):
            return f"@prefix {prefix}: {print_node(iri)} ."
        case BaseDirectiveNode(iri):
            return f"@base {print_node(iri)} ."
        case DeclareDirectiveNode(symbol, columns):
            return f"@declare {print_node(symbol)}({_listed(columns)}) ."
        case ParameterDirectiveNode(name, default):
            return f"@parameter ${name}{'' if default is None else ' = ' + print_node(default)} ."
        case ImportDirectiveNode(symbol, format_):
            return _transfer(f"@import {print_node(symbol)}", format_)
        case ExportDirectiveNode(symbol, format_):
            return _transfer(f"@export {print_node(symbol)}", format_)
        case OutputDirectiveNode(symbols):
            return f"@output {_listed(symbols)} ."
        case IncludeDirectiveNode(path):
            return f"@include {quote(path)} ."
        case TimelineDirectiveNode(kind):
            return f"@timeline {kind} ."
        case CommitDirectiveNode():
            return "@commit ."
        case AdvanceDirectiveNode(to):
            return f"@advance {print_node(to)} ."
        case _:
            assert_never(node)


def _clause(node: ClauseNode) -> str:
    attributes = "".join(f"{print_node(attribute)}\n" for attribute in node.attributes)
    sign = f"{node.sign} " if node.sign else ""
    heads = sign + _listed(node.heads)
    return attributes + (_with_body(f"{heads} :-", node) if node.body else f"{heads} .")


def _with_body(before: str, node: ClauseNode | QueryNode) -> str:
    """A rule or query, its body on the same line if it fits there and holds no comments."""
    literals = [print_node(literal) for literal in node.body]
    line = f"{before} {', '.join(literals)} ."
    if len(line) <= WIDTH and not node.notes:
        return line
    ends = [","] * (len(literals) - 1) + [" ."]
    lines = [before + _notes_behind(node.notes, -1)]
    for index, (literal, end) in enumerate(zip(literals, ends, strict=True)):
        lines += [_INDENT + note.text for note in node.notes if note.index == index and not note.is_behind]
        lines.append(_INDENT + literal + end + _notes_behind(node.notes, index))
    return "\n".join(lines)


def _notes_behind(notes: tuple[Note, ...], index: int) -> str:
    return "".join(f" {note.text}" for note in notes if note.is_behind and note.index == index)


def _transfer(before: str, format_: FormatNode) -> str:
    line = f"{before} :- {print_node(format_)} ."
    if len(line) <= WIDTH or not format_.options:
        return line
    options = ",\n".join(_INDENT + print_node(option) for option in format_.options)
    return f"{before} :- {format_.name}{{\n{options}\n}} ."


# ---- parts of statements


def _part(node: SyntaxNode) -> str:
    match node:
        case AtomNode(call, at):
            return print_node(call) + _time(at)
        case TripleNode(subject, predicate, object_):
            return f"[{_listed((subject, predicate, object_))}]"
        case UnaryMetricNode(operator, interval, operand):
            return f"{operator}{print_node(interval)} {print_node(operand)}"
        case BinaryMetricNode(operator, left, interval, right):
            return f"{print_node(left)} {operator}{print_node(interval)} {print_node(right)}"
        case NegationNode(operand):
            return f"~{print_node(operand)}"
        case ComparisonNode(operator, left, right):
            return f"{print_node(left)} {operator} {print_node(right)}"
        case HeadEqualityNode(left, right, operator):
            return f"{print_node(left)} {operator} {print_node(right)}"
        case IntervalNode():
            return _interval(node)
        case FractionNode(numerator, denominator):
            return f"{numerator.lexical}/{denominator.lexical}"
        case InfinityNode(lexical):
            return lexical
        case AttributeNode(name, arguments):
            return f"#[{name}({_listed(arguments)})]"
        case ColumnNode(name, kind):
            return f"{name or '_'}: {kind}"
        case FormatNode(name, options):
            return f"{name}{{ {_listed(options)} }}" if options else f"{name}{{}}"
        case OptionNode(name, value):
            return f"{name} = {print_node(value)}"
        case NamesNode(names):
            # One name in parentheses is an expression: the comma makes it a list of names.
            return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"
        case _:
            raise TypeError(f"no text for {type(node).__name__}")


def _time(at: At | None) -> str:
    if at is None:
        return ""
    if isinstance(at, SometimeNode):
        return " ever" if at.interval is None else f" during {print_node(at.interval)}"
    return f"@{print_node(at)}"


def _interval(node: IntervalNode) -> str:
    opening = "[" if node.left_closed else "("
    closing = "]" if node.right_closed else ")"
    return f"{opening}{print_node(node.left)}, {print_node(node.right)}{closing}"


def _listed(nodes: tuple[SyntaxNode, ...]) -> str:
    return ", ".join(print_node(node) for node in nodes)


# ---- expressions


def _expression(node: Expression, binding: int, is_nested: bool = False) -> str:
    """The expression in a place that binds this tightly, perhaps inside a format string."""
    match node:
        case VariableNode(name):
            return f"?{name}"
        case AnonymousNode():
            return "_"
        case ExistentialNode(name):
            return f"!{name}"
        case ParameterNode(name):
            return f"${name}"
        case NameNode(text):
            return text
        case PrefixedNameNode(prefix, local):
            return f"{prefix}:{local}"
        case IriNode(text):
            return f"<{text}>"
        case TextNode():
            return _text(node)
        case BooleanNode(value):
            return "true" if value else "false"
        case NumberNode(lexical) | DurationNode(lexical):
            return lexical
        case FormatStringNode():
            return _format_string(node, is_nested)
        case CallNode(symbol, arguments):
            return f"{_expression(symbol, _OPERAND)}({_arguments(arguments, is_nested)})"
        case AggregateNode(function, arguments):
            return f"#{function}({_arguments(arguments, is_nested)})"
        case NegativeNode(operand):
            return _negative(operand, is_nested)
        case OperationNode():
            return _operation(node, binding, is_nested)
        case _:
            assert_never(node)


def _arguments(arguments: tuple[Expression, ...], is_nested: bool) -> str:
    return ", ".join(_expression(argument, _SUM, is_nested) for argument in arguments)


def _operation(node: OperationNode, binding: int, is_nested: bool) -> str:
    own = _SUM if node.operator in ("+", "-") else _PRODUCT
    left = _expression(node.left, own, is_nested)
    right = _expression(node.right, own + 1, is_nested)
    text = f"{left} {node.operator} {right}"
    return f"({text})" if own < binding else text


def _negative(operand: Expression, is_nested: bool) -> str:
    text = _expression(operand, _OPERAND, is_nested)
    # Without parentheses the sign would become part of the number.
    return f"-({text})" if text[0].isdigit() else f"-{text}"


def _text(node: TextNode) -> str:
    if node.language is not None:
        return f"{quote(node.value)}@{node.language}"
    if node.datatype is not None:
        return f"{quote(node.value)}^^{print_node(node.datatype)}"
    return quote(node.value)


def _format_string(node: FormatStringNode, is_nested: bool) -> str:
    """Triple quotes where strings stand inside the braces: the grammar has single ones end at the first."""
    expressions = [_expression(part, _SUM, True) for part in node.parts if not isinstance(part, str)]
    is_triple = not is_nested and any('"' in expression for expression in expressions)
    remaining = iter(expressions)
    content = "".join(
        _format_text(part, is_triple) if isinstance(part, str) else f"{{{next(remaining)}}}"
        for part in node.parts
    )
    return f'f"""{content}"""' if is_triple else f'f"{content}"'


def _format_text(text: str, is_triple: bool) -> str:
    written = escape(text).replace("{", "{{").replace("}", "}}")
    # Triple quotes end at the next three, whether a backslash stands before them or not.
    return written.replace('\\"', "\\u0022") if is_triple else written


# ---- class of each piece of a program's text

# The classes of pieces, as style sheets name them.
PLAIN: Final = "plain"
PREDICATE: Final = "predicate"
COMMENT: Final = "comment"
CLASSES: Final = {
    NAME: "name",
    PREFIXED: "name",
    NAMESPACE: "name",
    IRI: "name",
    VARIABLE: "variable",
    ANONYMOUS: "variable",
    PARAMETER: "variable",
    EXISTENTIAL: "variable",
    STRING: "string",
    FORMAT: "string",
    LANGUAGE: "string",
    BOOLEAN: "number",
    DURATION: "number",
    **dict.fromkeys(NUMBERS, "number"),
    DIRECTIVE: "keyword",
    METRIC: "keyword",
    AGGREGATE: "keyword",
    ATTRIBUTE: "keyword",
    ARROW: "operator",
    QUERY: "operator",
    COMPARISON: "operator",
    **dict.fromkeys("~=+-*/", "operator"),
    ERROR: "error",
}

_COMMENT: Final = re.compile(r"%[^\n]*|/\*[\s\S]*?(?:\*/|\Z)")


def highlight(text: str) -> Iterator[tuple[str, str]]:
    """The pieces of the text in order, each with its class; together they are the text.

    >>> list(highlight("p(?x) ."))
    [('predicate', 'p'), ('plain', '('), ('variable', '?x'), ('plain', ')'), ('plain', ' '), ('plain', '.')]
    """
    lexer = Lexer(SourceText("<text>", text))
    position = 0
    tokens = Tokens()
    while tokens.kinds[-1:] != [END]:
        tokens = lexer.read()
        read = zip(tokens.kinds, tokens.starts, tokens.ends, strict=True)
        for place, (kind, start, end) in enumerate(read):
            if start < position or kind == END:
                continue
            yield from _between(text[position:start])
            is_predicate = kind in SYMBOLS and tokens.kinds[place + 1 : place + 2] == ["("]
            yield PREDICATE if is_predicate else CLASSES.get(kind, PLAIN), text[start:end]
            position = end
    yield from _between(text[position:])


def _between(text: str) -> Iterator[tuple[str, str]]:
    """The pieces of a text between two tokens: space and comments."""
    position = 0
    for found in _COMMENT.finditer(text):
        if found.start() > position:
            yield PLAIN, text[position : found.start()]
        yield COMMENT, found[0]
        position = found.end()
    if position < len(text):
        yield PLAIN, text[position:]
