"""Tokens to the tree of a program, by recursive descent; plain facts by one pattern, and where comments
belong.
"""

from __future__ import annotations

import gc
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, TypedDict, TypeVar

from tidelog.errors import Diagnostic, ProgramError, SourceText, Span, codes, suggest
from tidelog.syntax.ast import (
    AdvanceDirectiveNode,
    AtomNode,
    AttributeNode,
    BaseDirectiveNode,
    BooleanNode,
    CallNode,
    ClauseNode,
    ColumnNode,
    CommitDirectiveNode,
    DeclareDirectiveNode,
    DocumentNode,
    ExportDirectiveNode,
    Expression,
    FormatNode,
    ImportDirectiveNode,
    IncludeDirectiveNode,
    IntervalNode,
    IriNode,
    Literal,
    NameNode,
    NamesNode,
    Note,
    NumberKind,
    NumberNode,
    OptionNode,
    OutputDirectiveNode,
    ParameterDirectiveNode,
    PrefixDirectiveNode,
    PrefixedNameNode,
    QueryNode,
    Statement,
    TextNode,
    TimelineDirectiveNode,
)
from tidelog.syntax.clause_parser import LiteralParser
from tidelog.syntax.lexer import (
    ANONYMOUS,
    ARROW,
    ATTRIBUTE,
    DIRECTIVE,
    DIRECTIVES,
    END,
    INTEGER,
    IRI,
    METRIC_WORDS,
    NAME,
    NAMESPACE,
    PARAMETER,
    PREFIXED,
    QUERY,
    STRING,
    WORDS,
    Comment,
    Lexer,
    Tokens,
)
from tidelog.syntax.syntax_errors import ATTRIBUTE_HELP, ATTRIBUTE_MESSAGE, SyntaxFault

# ---- which comment belongs to what


class StatementParts(TypedDict):
    """What all statements have: their span, and the comments before, inside and behind them."""

    span: Span
    comments: tuple[str, ...]
    notes: tuple[Note, ...]
    remark: str | None


def place(span: Span, tokens: Tokens, literals: list[int]) -> StatementParts:
    """The place of a statement whose body's literals begin at these tokens."""
    text = span.source.text
    if not tokens.comments and tokens.remark is None and text.count("\n", tokens.before, span.start) < 2:
        return {"span": span, "comments": (), "notes": (), "remark": None}
    before = comments_before(text, tokens)
    remark = None if tokens.remark is None else tokens.remark.rstrip()
    notes: list[Note] = []
    for comment in tokens.comments:
        written = text[comment.start : comment.end].rstrip()
        if not comment.index:
            continue
        if not literals or comment.index < literals[0]:
            before.append(written)
        elif comment.index == len(tokens.kinds) - 1 and remark is None and "\n" not in written:
            remark = written
        else:
            notes.append(_note(text, tokens, literals, comment, written, notes))
    return {"span": span, "comments": tuple(before), "notes": tuple(notes), "remark": remark}


def comments_before(text: str, tokens: Tokens) -> list[str]:
    """The comments before the first token; several empty lines count as one, at the top as none."""
    written: list[str] = []
    position = tokens.before
    for comment in tokens.comments:
        if comment.index:
            break
        if position and text.count("\n", position, comment.start) > 1:
            written.append("")
        written.append(text[comment.start : comment.end].rstrip())
        position = comment.end
    if position and text.count("\n", position, tokens.starts[0]) > 1:
        written.append("")
    return written


def _note(
    text: str, tokens: Tokens, literals: list[int], comment: Comment, written: str, notes: list[Note]
) -> Note:
    """The comment as a note on the literal around it, behind the literal before it, or before the next."""
    literal = bisect_right(literals, comment.index - 1) - 1
    is_last = literal + 1 == len(literals)
    following = len(tokens.kinds) if is_last else literals[literal + 1]
    is_behind = (
        not is_last
        and comment.index >= following - 1
        and "\n" not in text[tokens.ends[comment.index - 1] : comment.end]
        and "\n" in text[comment.end : tokens.starts[following]]
        and not (notes and notes[-1].is_behind and notes[-1].index == literal)
    )
    if is_behind:
        return Note(literal, written, is_behind=True)
    return Note(literal + (comment.index == following), written, is_behind=False)


# ---- plain facts
#
# A plain fact is a name and constants, perhaps with a time: `edge(1, 2) .`, `+ name(alice, "Alice") .`,
# `hot(s1)@[0, 10) .` What the patterns do not match takes the slow path through lexer and parser, which gives
# the same tree for what they do match.

_NAME = r"[A-Za-z][A-Za-z0-9_]*"
_TERMS: Final = (
    _NAME,
    r"[+-]?[0-9]+",
    r"[+-]?[0-9]+\.[0-9]+",
    r'"[^"\\\n]*"',
    rf"{_NAME}:[A-Za-z0-9_]+",
    r"""<[^\s<>"{}|^`\\]*>""",
)
_ANY_TERM: Final = "(?:" + "|".join(_TERMS) + ")"
_BOUND: Final = r"[+-]?[0-9]+(?:\.[0-9]+)?"
_FACT: Final = re.compile(
    rf"\s*(?:([+-])\s+)?({_NAME})\(\s*({_ANY_TERM}(?:\s*,\s*{_ANY_TERM})*)\s*(\))"
    rf"(?:@(\[|\()\s*({_BOUND})\s*,\s*({_BOUND})\s*(\]|\)))?\s*\.(?=\r?\n)"
)
_TERM: Final = re.compile("|".join(rf"({term})(?=\s*[,)])" for term in _TERMS))


def read_fact(source: SourceText, position: int) -> ClauseNode | None:
    """The next plain fact if nothing else is on the rest of its line, else None."""
    found = _FACT.match(source.text, position)
    if found is None or found[2] in METRIC_WORDS:
        return None
    name_start, name_end = found.span(2)
    close, end = found.end(4), found.end()
    terms = tuple([_term(source, term) for term in _TERM.finditer(source.text, found.start(3), close)])
    name = NameNode(found[2], span=Span(source, name_start, name_end))
    span = Span(source, name_start, close)
    call = CallNode(name, terms, span=span)
    head = AtomNode(call, span=span)
    if found[5] is not None:
        head = AtomNode(call, _interval(source, found), span=Span(source, name_start, found.end(8)))
    sign = found[1]
    start = name_start if sign is None else found.start(1)
    is_apart = position and start - position > 1 and source.text.count("\n", position, start) > 1
    return ClauseNode((head,), (), sign, span=Span(source, start, end), comments=("",) if is_apart else ())


def _interval(source: SourceText, found: re.Match[str]) -> IntervalNode:
    bounds = []
    for group in (6, 7):
        kind = NumberKind.DECIMAL if "." in found[group] else NumberKind.INTEGER
        bounds.append(NumberNode(found[group], kind, span=Span(source, *found.span(group))))
    span = Span(source, found.start(5), found.end(8))
    return IntervalNode(found[5] == "[", bounds[0], bounds[1], found[8] == "]", span=span)


def _term(source: SourceText, found: re.Match[str]) -> Expression:
    text = found[0]
    span = Span(source, *found.span())
    match found.lastindex:
        case 1:
            return (
                BooleanNode(text == "true", span=span)
                if text in ("true", "false")
                else NameNode(text, span=span)
            )
        case 2:
            return NumberNode(text, NumberKind.INTEGER, span=span)
        case 3:
            return NumberNode(text, NumberKind.DECIMAL, span=span)
        case 4:
            return TextNode(text[1:-1], span=span)
        case 5:
            prefix, _, local = text.partition(":")
            return PrefixedNameNode(prefix, local, span=span)
        case _:
            return IriNode(text[1:-1], span=span)


# ---- tokens to the tree of a program
#
# An error ends the parsing of its statement only; `parse` raises all errors of a text together.
#
# Stricter than the grammar: metric words are reserved before `[` and `(` everywhere, an equality in a head
# cannot be under a box, a bound is no Boolean and no format string, and the escapes and braces of strings are
# checked. Beyond the grammar: `!x` gives an `Existential`, for the resolver to reject, and the space in
# `@prefix ex: <…>` may be missing.

Result = TypeVar("Result")
_MOST_READ_AGAIN: Final = 200_000
"""How many tokens may be read a second time: a text without any full stops is not read over and over."""


def parse(source: SourceText) -> DocumentNode:
    """Return the tree of a program; raise `ProgramError` with all its syntax errors."""
    document = parse_with_errors(source)
    if document.faults:
        raise ProgramError(document.faults)
    return document


def parse_with_errors(source: SourceText) -> DocumentNode:
    """The tree of what can be read of a program, and its syntax errors, for callers that check further.

    A statement that only lacks its full stop is included.
    """
    # Trees have no cycles: looking for some while a large one grows takes a third of the time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return Parser(source).document()
    finally:
        if was_enabled:
            gc.enable()


def parse_text(text: str, name: str = "<text>") -> DocumentNode:
    """The tree of a program given as text.

    >>> parse_text("parent(alice, bob) .").statements[0].heads[0].call.symbol.text
    'parent'
    """
    return parse(SourceText(name, text))


def parse_literals(source: SourceText) -> tuple[Literal, ...]:
    """The literals of a query, written with or without its `?-` and full stop.

    >>> len(parse_literals(SourceText("<query>", "parent(?x, ?y), parent(?y, ?z)")))
    2
    """
    return Parser(source).query_literals()


class Parser(LiteralParser):
    """Reads the statements of a source."""

    def __init__(self, source: SourceText) -> None:
        self.lexer = Lexer(source)
        self.diagnostics: list[Diagnostic] = []
        self._read_again = 0
        self._is_ended = True  # the statement that is read has its full stop
        super().__init__(source, Tokens())

    def document(self) -> DocumentNode:
        """All statements, and the comments behind the last."""
        statements: list[Statement] = []
        tokens = Tokens()
        while tokens.kinds[:1] != [END]:
            self._read_facts(statements)
            tokens = self.lexer.read()
            if not tokens.broken and tokens.kinds[0] != END:
                self._try_statement(tokens, statements)
        comments = comments_before(self.text, tokens)
        behind = tuple(comments[:-1] if comments[-1:] == [""] else comments)
        return DocumentNode(tuple(statements), behind, self._faults())

    def query_literals(self) -> tuple[Literal, ...]:
        """The literals of a text that is one query."""
        self.begin(self.lexer.read())
        literals = None if self.tokens.broken else self._attempt(self._only_literals)
        if faults := self._faults():
            raise ProgramError(faults)
        return literals or ()

    def _attempt(self, read: Callable[[], Result]) -> Result | None:
        """What `read` gives, or None if it finds a fault, which is kept for later."""
        try:
            return read()
        except SyntaxFault as fault:
            self.diagnostics.append(fault.diagnostic)
        except RecursionError:
            # Nesting is limited, but the caller may have used up most of the stack already.
            self.diagnostics.append(self.too_deep().diagnostic)
        return None

    def _read_facts(self, statements: list[Statement]) -> None:
        """Read the plain facts that stand next."""
        position = self.lexer.position
        while (fact := read_fact(self.source, position)) is not None:
            assert fact.span is not None
            position = fact.span.end
            statements.append(fact)
        if position > self.lexer.position:
            self.lexer.restart(position)

    def _try_statement(self, tokens: Tokens, statements: list[Statement]) -> None:
        self.begin(tokens)
        self.literals = []
        self._is_ended = True
        statement = self._attempt(self.statement)
        if statement is not None:
            statements.append(statement)
        if not self._is_ended and self._read_again < _MOST_READ_AGAIN:
            # Where only the full stop is missing, the next statement begins at the token that was found.
            self._read_again += len(self.kinds) - self.index
            self.lexer.restart(self.starts[self.index])

    def _faults(self) -> tuple[Diagnostic, ...]:
        """All that was wrong, by place."""
        found = self.lexer.diagnostics + self.diagnostics
        return tuple(sorted(found, key=lambda fault: fault.span.start if fault.span else 0))

    def _only_literals(self) -> tuple[Literal, ...]:
        if self.kinds[0] == QUERY:
            self.index += 1
        literals = self.body()
        if self.kinds[self.index] == ".":
            self.begin(self.lexer.read())
        if self.kinds[self.index] != END:
            raise self.fault("`,`", "the end of the query")
        return literals

    # ---- statements

    def statement(self) -> Statement:
        """A directive, a query or a clause, with the full stop that ends it."""
        kind = self.kinds[0]
        if kind == DIRECTIVE:
            return self._directive()
        if kind == QUERY:
            return self._query()
        return self._clause()

    def end(self, *expected: str) -> StatementParts:
        """Read the full stop; what all statements have: their place and comments."""
        if self.kinds[self.index] == ".":
            self.index += 1
            return place(self.span(0), self.tokens, self.literals)
        fault = self.fault(*expected, "`.`")
        if fault.diagnostic.code != codes.MISSING_FULL_STOP:
            raise fault
        self.diagnostics.append(fault.diagnostic)
        self._is_ended = False
        return {"span": self.span(0), "comments": (), "notes": (), "remark": None}

    def _clause(self) -> ClauseNode:
        attributes = self._attributes()
        sign = self._sign()
        heads = [self.head()]
        while self.kinds[self.index] == ",":
            self.index += 1
            heads.append(self.head())
        body: tuple[Literal, ...] = ()
        if self.kinds[self.index] == ARROW:
            self.index += 1
            body = self.body()
        expected = ("`,`",) if body else ("`,`", "`:-`")
        return ClauseNode(tuple(heads), body, sign, attributes, **self.end(*expected))

    def _query(self) -> QueryNode:
        self.index += 1
        body = self.body()
        return QueryNode(body, **self.end("`,`"))

    def _sign(self) -> str | None:
        """The sign of a change: `+` or `-` before a space."""
        kind = self.kinds[self.index]
        if kind in ("+", "-") and self.text[self.ends[self.index] : self.ends[self.index] + 1].isspace():
            self.index += 1
            return kind
        return None

    def _attributes(self) -> tuple[AttributeNode, ...]:
        attributes: list[AttributeNode] = []
        while self.kinds[self.index] == ATTRIBUTE:
            first = self.index
            self.index += 1
            name = self.word("the name of an attribute")
            arguments = self.arguments()
            self.expect("]")
            attributes.append(AttributeNode(name, arguments, span=self.span(first)))
        if attributes and self.kinds[self.index] in (DIRECTIVE, QUERY, "."):
            self.index = 0
            raise self.mistake(codes.MISPLACED_ATTRIBUTE, ATTRIBUTE_MESSAGE, ATTRIBUTE_HELP)
        return tuple(attributes)

    # ---- directives

    def _directive(self) -> Statement:
        word = self.token_text()
        read = _DIRECTIVES.get(word)
        if read is None:
            known = ", ".join(f"`{name}`" for name in DIRECTIVES)
            help_line = suggest(word, DIRECTIVES) or f"the directives are {known}"
            raise self.mistake(codes.UNKNOWN_DIRECTIVE, f"unknown directive `{word}`", help_line)
        self.index += 1
        return read(self)

    def _prefix(self) -> PrefixDirectiveNode:
        prefix = self._namespace()
        return PrefixDirectiveNode(prefix, self._iri(), **self.end())

    def _namespace(self) -> str:
        """The prefix before a colon, which a space should follow, but need not."""
        first = self.index
        is_name = self.kinds[first] == NAME and self.ends[first] == self.starts[first + 1]
        self.index += is_name
        if self.kinds[self.index] not in ((":",) if is_name else (":", NAMESPACE)):
            self.index = first
            raise self.fault("a prefix and a colon")
        self.index += 1
        return self.text[self.starts[first] : self.ends[self.index - 1] - 1]

    def _base(self) -> BaseDirectiveNode:
        iri = self._iri()
        return BaseDirectiveNode(iri, **self.end())

    def _declare(self) -> DeclareDirectiveNode:
        symbol = self.symbol()
        self.expect("(")
        columns: list[ColumnNode] = []
        if self.kinds[self.index] != ")":
            columns.append(self._column())
            while self.kinds[self.index] == ",":
                self.index += 1
                columns.append(self._column())
            if self.kinds[self.index] != ")":
                raise self.fault("`,`", "`)`")
        self.index += 1
        return DeclareDirectiveNode(symbol, tuple(columns), **self.end())

    def _column(self) -> ColumnNode:
        """`name: type`, however the spaces let the lexer read its colon."""
        first = self.index
        name, colon, kind = self._column_name().partition(":")
        if not colon:
            written = self.token_text()
            if not written.startswith(":") or self.kinds[self.index] not in (":", PREFIXED, NAMESPACE):
                raise self.fault("`:`")
            self.index += 1
            kind = written[1:]
        if not kind:
            kind = self.word("the type of a column")
        if kind[0].isdigit():
            self.index -= 1
            raise self.fault("the type of a column")
        return ColumnNode(None if name == "_" else name, kind + self._size(), span=self.span(first))

    def _size(self) -> str:
        """`(12, 2)` behind the type of a column, or nothing."""
        if self.kinds[self.index] != "(":
            return ""
        self.index += 1
        numbers = [self._whole_number()]
        while self.kinds[self.index] == ",":
            self.index += 1
            numbers.append(self._whole_number())
        self.expect(")")
        return f"({', '.join(numbers)})"

    def _whole_number(self) -> str:
        if self.kinds[self.index] != INTEGER or not self.token_text().isdigit():
            raise self.fault("a number of digits")
        self.index += 1
        return str(int(self.text[self.starts[self.index - 1] : self.ends[self.index - 1]]))

    def _column_name(self) -> str:
        written = self.token_text()
        kind = self.kinds[self.index]
        is_name = kind in WORDS or kind == ANONYMOUS
        if not is_name and (kind not in (PREFIXED, NAMESPACE) or written.startswith(":")):
            raise self.fault("the name of a column", "`_`")
        self.index += 1
        return written

    def _parameter(self) -> ParameterDirectiveNode:
        if self.kinds[self.index] != PARAMETER:
            raise self.fault("a parameter, such as `$limit`")
        name = self.token_text()[1:]
        self.index += 1
        default: Expression | None = None
        if self.kinds[self.index] == "=":
            self.index += 1
            default = self.expression()
        expected = () if default else ("`=`",)
        return ParameterDirectiveNode(name, default, **self.end(*expected))

    def _import(self) -> ImportDirectiveNode:
        symbol = self.symbol()
        options = self._format()
        return ImportDirectiveNode(symbol, options, **self.end())

    def _export(self) -> ExportDirectiveNode:
        symbol = self.symbol()
        options = self._format()
        return ExportDirectiveNode(symbol, options, **self.end())

    def _format(self) -> FormatNode:
        if self.kinds[self.index] != ARROW:
            raise self.fault("`:-`")
        self.index += 1
        first = self.index
        name = self.word("a format, such as `csv`")
        self.expect("{")
        options: list[OptionNode] = []
        if self.kinds[self.index] != "}":
            options.append(self._option())
            while self.kinds[self.index] == ",":
                self.index += 1
                options.append(self._option())
            if self.kinds[self.index] != "}":
                raise self.fault("`,`", "`}`")
        self.index += 1
        return FormatNode(name, tuple(options), span=self.span(first))

    def _option(self) -> OptionNode:
        first = self.index
        name = self.word("the name of an option")
        self.expect("=")
        kinds = self.kinds[self.index : self.index + 3]
        is_list = kinds[:2] == ["(", NAME] and (
            kinds[2:] == [","] or (name == "format" and kinds[2:] == ["("])
        )
        value = self._names() if is_list else self.expression()
        return OptionNode(name, value, span=self.span(first))

    def _names(self) -> NamesNode:
        """`(string, decimal(12, 2))`, perhaps with a comma behind the last."""
        first = self.index
        self.index += 1
        names = [self.word("a name") + self._size()]
        while self.kinds[self.index] == ",":
            self.index += 1
            if self.kinds[self.index] == ")":
                break
            names.append(self.word("a name") + self._size())
        if self.kinds[self.index] != ")":
            raise self.fault("`,`", "`)`")
        self.index += 1
        return NamesNode(tuple(names), span=self.span(first))

    def _output(self) -> OutputDirectiveNode:
        symbols = [self.symbol()]
        while self.kinds[self.index] == ",":
            self.index += 1
            symbols.append(self.symbol())
        return OutputDirectiveNode(tuple(symbols), **self.end("`,`"))

    def _include(self) -> IncludeDirectiveNode:
        if self.kinds[self.index] != STRING:
            raise self.fault("the path of a file, as a string")
        path = self.string_value(self.index)
        self.index += 1
        return IncludeDirectiveNode(path, **self.end())

    def _timeline(self) -> TimelineDirectiveNode:
        return TimelineDirectiveNode(self.word("`integer` or `rational`"), **self.end())

    def _commit(self) -> CommitDirectiveNode:
        return CommitDirectiveNode(**self.end())

    def _advance(self) -> AdvanceDirectiveNode:
        return AdvanceDirectiveNode(self._bound(), **self.end())

    def _iri(self) -> IriNode:
        if self.kinds[self.index] != IRI:
            raise self.fault("an IRI")
        symbol = self.symbol()
        assert isinstance(symbol, IriNode)
        return symbol


_DIRECTIVES: Final[dict[str, Callable[[Parser], Statement]]] = {
    "@prefix": Parser._prefix,
    "@base": Parser._base,
    "@declare": Parser._declare,
    "@parameter": Parser._parameter,
    "@import": Parser._import,
    "@export": Parser._export,
    "@output": Parser._output,
    "@include": Parser._include,
    "@timeline": Parser._timeline,
    "@commit": Parser._commit,
    "@advance": Parser._advance,
}
