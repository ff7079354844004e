"""Resolution: from the tree of a program to rules over predicates, values and functions.

All errors of a file and of the files it includes are raised together; warnings stay with the program.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tidelog.errors import (
    DataError,
    Diagnostic,
    ProgramError,
    ProgramWarning,
    SourceText,
    Span,
    codes,
    suggest,
)
from tidelog.logic import clauses
from tidelog.logic.clauses import ClauseContext
from tidelog.logic.conversions import read_any, read_exact
from tidelog.logic.equality_axioms import axioms
from tidelog.logic.expressions import ExpressionContext, Expressions, intervals_of
from tidelog.logic.functions import builtins
from tidelog.logic.import_options import DirectiveReader
from tidelog.logic.program import (
    BOTTOM,
    DIFFERENT,
    EQUAL,
    OPEN,
    TOP,
    Fact,
    Predicate,
    Program,
    Query,
    Rule,
    Sandbox,
    TimedFact,
    Transfer,
)
from tidelog.logic.scopes import (
    UNRESOLVED,
    Includes,
    Report,
    Scope,
    ScopedStatement,
    by_position,
    label,
    reason,
    written,
)
from tidelog.logic.signatures import Signatures, Use
from tidelog.logic.strata import cycles
from tidelog.logic.type_inference import infer
from tidelog.logic.values import Value
from tidelog.syntax import ast
from tidelog.syntax.parser import parse_with_errors

EMPTY = Program({})
SUFFIX = ".rls"
TIMELINES = ("integer", "rational")


def load(
    path: Path | str,
    parameters: Mapping[str, str] | None = None,
    known: Mapping[str, Predicate] | None = None,
    sandbox: Sandbox = OPEN,
) -> Program:
    """The program in a file; relative paths in it are relative to its folder."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        message = f"cannot read the program: {reason(fault)}"
        raise DataError(Diagnostic(codes.NOT_FOUND, message, place=str(path))) from None
    document = parse_with_errors(SourceText(str(path), text))
    return resolve(
        document, parameters=parameters, folder=path.parent, known=known, path=path, sandbox=sandbox
    )


def program_of(source: Program | Path | str | None, sandbox: Sandbox = OPEN) -> Program:
    """Return a program that is given as such, as its text, or as the path of its file.

    One that is given as such keeps the sandbox it was read with, unless there is one to put it into.
    """
    match source:
        case Program():
            return source if sandbox == OPEN else source.confined(sandbox)
        case None:
            return EMPTY.confined(sandbox)
        case str():
            return warned(read_text(source, sandbox=sandbox))
        case Path():
            return warned(load(source, sandbox=sandbox))
    message = f"a program is a Program, its text or the Path of its file, not {type(source).__name__}"
    raise TypeError(message)


def read_text(
    text: str,
    parameters: Mapping[str, str] | None = None,
    folder: Path | str | None = None,
    name: str = "<text>",
    sandbox: Sandbox = OPEN,
) -> Program:
    """Return the program of a text; relative paths in it lie in `folder`."""
    if _is_path(text):
        help = f"write `tl.load({text!r})`, or `Path({text!r})` in its place"
        raise ProgramError(Diagnostic(codes.TEXT_IS_A_PATH, f"{text!r} is a path, not a program", help=help))
    place = None if folder is None else Path(folder)
    document = parse_with_errors(SourceText(name, text))
    return resolve(document, parameters=parameters, folder=place, sandbox=sandbox)


def warned(program: Program) -> Program:
    """Return the program, and issue its warnings as warnings of Python."""
    warn(program.warnings)
    return program


def warn(warned: Iterable[Diagnostic]) -> None:
    """Issue Python warnings for constructs that are probably mistakes."""
    for item in warned:
        if item.code in codes.HARDLY_MEANT:
            warnings.warn(str(item), ProgramWarning, stacklevel=_depth())


def _depth() -> int:
    """How many frames of tidelog lie between a warning and the caller of tidelog."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tidelog"):
        frame, depth = frame.f_back, depth + 1
    return depth


def _is_path(text: str) -> bool:
    """Whether a text is the name of a file: no program is a single word without brackets."""
    if not text or any(character.isspace() or character in "()" for character in text):
        return False
    try:
        return Path(text).suffix == SUFFIX or Path(text).is_file()
    except (OSError, ValueError):
        return False


def resolve(
    document: ast.DocumentNode,
    *,
    parameters: Mapping[str, str] | None = None,
    folder: Path | None = None,
    known: Mapping[str, Predicate] | None = None,
    path: Path | None = None,
    sandbox: Sandbox = OPEN,
) -> Program:
    """Resolve a document to a program.

    `parameters` are texts, `known` the predicates whose facts are not in the program. Relative paths lie in
    `folder`; `path` is the document's own, so that it is not read again if a file that it includes
    includes it.
    """
    resolver = Resolver(EMPTY.confined(sandbox), known or {}, parameters or {})
    if path is not None:
        resolver.includes.scopes[path.resolve()] = resolver.scope
    program = resolver.resolve(document, folder)
    inferred = infer(program).warnings
    return replace(program, warnings=by_position((*program.warnings, *inferred))) if inferred else program


def extend(document: ast.DocumentNode, program: Program, *, folder: Path | None = None) -> Program:
    """The program with the statements of the document added; its warnings are those of the document."""
    resolver = Resolver(program, {}, {})
    return resolver.resolve(document, folder)


def resolve_clause(clause: ast.ClauseNode, program: Program) -> Program:
    """The program with the facts and rules of one clause added."""
    return extend(ast.DocumentNode((clause,)), program)


def resolve_query(
    literals: Sequence[ast.Literal],
    program: Program,
    text: str,
    known: Mapping[str, Predicate] | None = None,
) -> Query:
    """The query that asks the program for the named variables of the literals.

    A predicate that neither the program nor `known` has is an error: such a query is a mistake.
    """
    resolver = Resolver(program, known or {}, {})
    expected = set(resolver.signatures.predicates)
    query = clauses.query(literals, text, None, resolver.context(resolver.scope))
    for name, predicate in resolver.signatures.predicates.items():
        if name not in expected:
            resolver.report_unknown(Use(name, predicate.written, predicate.span), expected)
    resolver.report.check()
    return query


class Resolver:
    """Resolves documents on top of a program. Mutable: it collects rules, facts and directives."""

    def __init__(
        self, program: Program, known: Mapping[str, Predicate], parameters: Mapping[str, str]
    ) -> None:
        self.report = Report()
        self.sandbox = program.sandbox
        self.includes = Includes(self.report, program.sandbox)
        self.scope = Scope(dict(program.prefixes), program.base)
        self.signatures = Signatures(self.report, {**known, **program.predicates})
        self.given = parameters
        self.parameters: dict[str, Value] = dict(program.parameters)
        self.declared: dict[str, Span | None] = {}
        self.rules: list[Rule] = list(program.rules)
        self.facts: list[Fact] = list(program.facts)
        self.imports: list[Transfer] = list(program.imports)
        self.exports: list[Transfer] = list(program.exports)
        self.outputs: list[str] = list(program.outputs)
        self.queries: list[Query] = list(program.queries)
        self.given_times: set[str] = set(program.given_times)
        self.is_integer_time = program.is_integer_time
        self.required: list[Use] = []  # must be known in the end: outputs, imports, exports

    def resolve(self, document: ast.DocumentNode, folder: Path | None) -> Program:
        """The program with the document's statements, or all that is wrong with them."""
        # Trees and programs have no reference cycles: collecting garbage would take longer than resolving.
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return self._resolve(document, folder)
        finally:
            if was_enabled:
                gc.enable()

    def _resolve(self, document: ast.DocumentNode, folder: Path | None) -> Program:
        self.includes.note_faults(document)
        statements = self.includes.gather(document, self.scope, folder)
        self._declare(statements)
        for placed in statements:
            self.statement(placed)
        self.check_whole()
        self.report.check(ignored=() if self.includes.complete else codes.FOLLOW_UPS)
        return self.program()

    def program(self) -> Program:
        """The program of the statements resolved so far."""
        return Program(
            dict(self.signatures.predicates),
            tuple(self.rules),
            tuple(self.facts),
            tuple(self.imports),
            tuple(self.exports),
            tuple(dict.fromkeys(self.outputs)),
            tuple(self.queries),
            dict(self.scope.prefixes),
            self.scope.base,
            dict(self.parameters),
            self.report.warnings,
            frozenset(self.given_times),
            self.is_integer_time,
            self.sandbox,
            tuple(self.includes.scopes),
        )

    def context(self, scope: Scope) -> ClauseContext:
        """The context of a clause in this scope."""
        return ClauseContext(scope, self.parameters, self.report, self.signatures)

    # ---- declarations, which hold for the whole program

    def _declare(self, statements: Iterable[ScopedStatement]) -> None:
        for placed in statements:
            match placed.statement:
                case ast.ParameterDirectiveNode():
                    self._parameter(placed.statement, placed.scope)
                case ast.DeclareDirectiveNode(symbol, columns):
                    use = self._use(symbol, placed.scope, placed.statement.span)
                    if use.name in (TOP, BOTTOM) and columns:
                        use = self.signatures.refuse_arguments(use)
                    self.signatures.declare(use, columns)
        for name in self.given:
            if name not in self.declared:
                message = f"the parameter `{name}` is given, but not declared"
                help = suggest(name, self.declared) or f"declare it: `@parameter ${name} .`"
                self.report.error(codes.UNKNOWN_PARAMETER, message, None, help)

    def _parameter(self, directive: ast.ParameterDirectiveNode, scope: Scope) -> None:
        name = directive.name
        if name in self.declared:
            message = f"the parameter `${name}` is declared twice"
            labels = label(self.declared[name], "declared here first")
            self.report.error(codes.PARAMETER_DECLARED_TWICE, message, directive.span, labels=labels)
            return
        self.declared[name] = directive.span
        self.parameters[name] = UNRESOLVED.value
        if name in self.given:
            self.parameters[name] = read_parameter(self.given[name])
        elif directive.default is not None:
            expressions = Expressions(scope, self.parameters, self.report)
            value = expressions.value(directive.default, ExpressionContext.PARAMETER)
            self.parameters[name] = UNRESOLVED.value if value is None else value
        else:
            message = f"the parameter `${name}` has no value"
            help = f"give it one with `--param {name}=…`, or a default: `@parameter ${name} = … .`"
            self.report.error(codes.PARAMETER_WITHOUT_VALUE, message, directive.span, help)

    # ---- statements

    def statement(self, placed: ScopedStatement) -> None:
        """Process one statement."""
        statement, scope = placed.statement, placed.scope
        match statement:
            case ast.ClauseNode():
                self.clause(statement, scope)
            case ast.QueryNode(body):
                text = statement.span.text if statement.span is not None else ""
                self.queries.append(clauses.query(body, text, statement.span, self.context(scope)))
            case ast.ImportDirectiveNode() | ast.ExportDirectiveNode():
                self._transfer(statement, placed)
            case ast.OutputDirectiveNode(symbols):
                for symbol in symbols:
                    use = self._use(symbol, scope, symbol.span)
                    self.required.append(use)
                    self.outputs.append(use.name)
            case ast.TimelineDirectiveNode(kind):
                self._timeline(kind, statement.span)
            case ast.CommitDirectiveNode():
                self.commit(statement)
            case ast.AdvanceDirectiveNode():
                self.advance(statement)

    def commit(self, directive: ast.CommitDirectiveNode) -> None:
        """Report the end of a transaction: a program has none."""
        help = "move changes to a change script, for `tidelog stream`"
        self.report.error(
            codes.COMMIT_IN_PROGRAM, "a program cannot commit: only change scripts can", directive.span, help
        )

    def advance(self, directive: ast.AdvanceDirectiveNode) -> None:
        """Report that time advances: not in a program."""
        help = "move it to a change script, for `tidelog stream`"
        message = "a program cannot advance time: only change scripts can"
        self.report.error(codes.COMMIT_IN_PROGRAM, message, directive.span, help)

    def _timeline(self, kind: str, span: Span | None) -> None:
        if kind not in TIMELINES:
            help = suggest(kind, TIMELINES) or f"the timelines are {' and '.join(TIMELINES)}"
            self.report.error(codes.BAD_TIME, f"unknown timeline `{kind}`", span, help)
        self.is_integer_time = kind == TIMELINES[0]

    def clause(self, clause: ast.ClauseNode, scope: Scope) -> None:
        """Add the facts or rules of a clause."""
        if clause.sign is not None:
            what = "rule" if clause.body else "fact"
            message = f"a {what} signed `{clause.sign}` belongs in a change script"
            help = "remove the sign, or move it to a change script, for `tidelog stream`"
            self.report.error(codes.CHANGE_IN_PROGRAM, message, clause.span, help)
        elif clause.body:
            self.rules.extend(clauses.rules(clause, self.context(scope)))
        else:
            self.take_facts(clauses.facts(clause, self.context(scope)))

    def take_facts(self, facts: Iterable[Fact]) -> None:
        """Take facts, and note which predicates have times."""
        for fact in facts:
            self.facts.append(fact)
            if isinstance(fact, TimedFact):
                self.given_times.add(fact.predicate)

    def _transfer(
        self, directive: ast.ImportDirectiveNode | ast.ExportDirectiveNode, placed: ScopedStatement
    ) -> None:
        expressions = Expressions(placed.scope, self.parameters, self.report)
        reader = DirectiveReader(
            self.report,
            self.signatures,
            lambda node: expressions.value(node, ExpressionContext.OPTION),
            placed.folder,
            self.sandbox,
        )
        use = self._use(directive.symbol, placed.scope, directive.symbol.span)
        transfer = reader.transfer(use, directive)
        self.required.append(use)
        if isinstance(directive, ast.ImportDirectiveNode):
            self.imports.append(transfer)
            if "time" in transfer.options:
                self.given_times.add(use.name)
            self.signatures.fill(use.name)
        else:
            self.exports.append(transfer)

    def _use(self, symbol: ast.Symbol, scope: Scope, span: Span | None) -> Use:
        """The predicate of a directive."""
        name = scope.predicate(symbol, self.report)
        function = builtins.lookup(name)
        if function is not None and function.boolean:
            message = f"`{written(symbol)}` is a built-in function, so it cannot name a predicate"
            self.report.error(codes.RESERVED_PREDICATE, message, span)
        return Use(name, written(symbol), span)

    # ---- the program as a whole

    def check_whole(self) -> None:
        """Report errors that only the whole program shows."""
        expected = set(self.signatures.predicates)
        for use in self.required if self.includes.complete else ():
            if use.name not in expected:
                self.report_unknown(use, expected)
        if self.includes.complete and not any(item.code in codes.LEFT_OUT for item in self.report.errors):
            self.signatures.warn_of_empty()
        predicates = self.signatures.predicates
        implied = axioms(predicates) if EQUAL in predicates else ()
        self.report.add(*cycles((*self.rules, *implied), predicates))
        self.check_times()

    def check_times(self) -> None:
        """Report aggregates over temporal facts: they would have a value for every time point.

        On the integer timeline, report intervals without an integer.
        """
        if self.is_integer_time:
            intervals = [(fact.interval, fact.span) for fact in self.facts if isinstance(fact, TimedFact)]
            intervals += [(interval, rule.span) for rule in self.rules for interval in intervals_of(rule)]
            for interval, span in intervals:
                if not interval.has_integer:
                    self.report.error(codes.BAD_TIME, f"no integer lies in the interval {interval}", span)
        self.report.add(*misplaced_times(self.program()))

    def report_unknown(self, use: Use, expected: Iterable[str]) -> None:
        """Report an unknown predicate."""
        if use.name in self.signatures.refused:
            return
        names = [self.signatures.predicates[name].written for name in sorted(expected)]
        if any(use.name == transfer.predicate for transfer in self.imports):
            message = f"the number of columns of `{use.written}` is unknown"
            help: str | None = f"declare it, `@declare {use.written}(…) .`, or list their types in `format`"
        else:
            message = f"unknown predicate `{use.written}`"
            help = suggest(use.written, names)
        self.report.error(codes.UNKNOWN_PREDICATE, message, use.span, help)


def giving_times(program: Program, names: Iterable[str]) -> Program:
    """Return the program in which predicates have times; raise ProgramError if a rule cannot read that."""
    timed_program = replace(program, given_times=program.given_times.union(names))
    misplaced = misplaced_times(timed_program)
    if misplaced:
        raise ProgramError(misplaced)
    return timed_program


def misplaced_times(program: Program) -> list[Diagnostic]:
    """Return errors in rules that read or derive temporal facts: aggregates and equality."""
    timed, errors = program.timed, []
    for rule in program.rules if timed else ():
        reads_timed = not rule.read.isdisjoint(timed)
        if rule.aggregations and (reads_timed or rule.is_metric):
            message = "an aggregate over temporal facts"
            help = "aggregate facts without times; summarise over time with metric operators"
            errors.append(Diagnostic(codes.TIMED_AGGREGATE, message, rule.span, help))
        if rule.head.predicate in (EQUAL, DIFFERENT):
            message = "equality in a program with temporal facts"
            help = "equality has no times; derive it in a program without temporal facts"
            errors.append(Diagnostic(codes.TIMED_EQUALITY, message, rule.span, help))
    return errors


def read_parameter(text: str) -> Value:
    """The value of a parameter given as text: a term, or else a value as in a data field."""
    try:
        return read_exact(text)
    except ValueError:
        return read_any(text)


__all__ = [
    "extend",
    "load",
    "program_of",
    "read_parameter",
    "read_text",
    "resolve",
    "resolve_clause",
    "resolve_query",
]
