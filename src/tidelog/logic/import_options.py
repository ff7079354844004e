"""Imports and exports: their formats and options, checked and as plain values."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from urllib.parse import unquote

from tidelog.errors import DataError, codes, suggest
from tidelog.logic.program import OptionValue, Sandbox, Transfer
from tidelog.logic.scopes import Report, beginning, label
from tidelog.logic.signatures import Signatures, Use, read_type
from tidelog.logic.values import ColumnType, Kind, Value
from tidelog.records import dataclass
from tidelog.syntax import ast


class Nulls(Enum):
    """How missing values are treated."""

    REJECT = "reject"  # the row cannot be read
    DROP_ROW = "drop-row"  # the row is left out, and counted
    VALUE = "value"  # `NULL`, a value that equals only itself and is counted


def null_counter(predicate: str, column: str, action: str) -> str:
    """Return the name of the counter of rows that lack the value of a column, by their treatment."""
    return f"{predicate}.{column} {action}"


def is_counted_apart(treatment: str) -> bool:
    """Return whether rows treated this way are counted separately from unreadable ones."""
    return treatment != Nulls.REJECT.value


ALIASES = {"nt": "ntriples", "ttl": "turtle", "nq": "nquads", "ndjson": "jsonl"}
TABLES = ("csv", "tsv", "dsv")
TRIPLES = ("ntriples", "turtle", "rdfxml")
QUADS = ("nquads", "trig", "jsonld", "rdf")  # with or without the graph
RECORDS = ("json", "jsonl", "parquet", "arrow")
FORMATS = (*TABLES, *RECORDS, *TRIPLES, *QUADS)

_KINDS: dict[str, tuple[type, str]] = {
    "resource": (str, "text"),
    "compression": (str, "text"),
    "limit": (int, "a whole number"),
    "header": (bool, "true or false"),
    "ignore_headers": (bool, "true or false"),
    "quoting": (bool, "true or false"),
    "escape_formulas": (bool, "true or false"),
    "delimiter": (str, "text"),
    "base": (str, "an IRI"),
}
EXPORT_ONLY = ("escape_formulas",)
NULLS = ("reject", "drop-row", "value")
_COMMON = ("resource", "format", "compression", "limit", "time")

Evaluate = Callable[[ast.Expression], Value | None]


@dataclass(frozen=True, slots=True)
class DirectiveReader:
    """Reads the directives of one file; `evaluate` gives the value of a constant expression."""

    report: Report
    signatures: Signatures
    evaluate: Evaluate
    folder: Path | None
    sandbox: Sandbox

    def transfer(self, use: Use, directive: ast.ImportDirectiveNode | ast.ExportDirectiveNode) -> Transfer:
        """The import or export that a directive means."""
        tree = directive.format
        name = ALIASES.get(tree.name, tree.name)
        is_import = isinstance(directive, ast.ImportDirectiveNode)
        if name not in FORMATS:
            span = beginning(tree.span, tree.name)
            self.report.error(codes.UNKNOWN_FORMAT, f"unknown format `{name}`", span, _format_help(name))
        options, types = self._options(tree, name, is_import)
        if is_import and name in FORMATS and _lacks_resource(tree, name):
            message = f"the import of `{use.written}` has no resource"
            help = f'add the file: `{tree.name}{{ resource = "{use.written}.{tree.name}" }}`'
            self.report.error(codes.MISSING_RESOURCE, message, tree.span, help)
        self._use(use, name, types)
        transfer = Transfer(use.name, name, options, types, self.folder, directive.span, self.sandbox)
        if is_import:
            self._check_readable(transfer)
        return transfer

    def _check_readable(self, transfer: Transfer) -> None:
        """Report an import from a file that the program may not read."""
        path = resource_path(transfer, self.folder)
        try:
            if path is not None:
                self.sandbox.to_read(path, transfer.span)
        except DataError as error:
            self.report.add(*error.diagnostics)

    def _use(self, use: Use, name: str, types: tuple[ColumnType, ...] | None) -> None:
        """Use the predicate with the arity that the directive implies, if it implies one."""
        if types is not None:
            self.signatures.use(use, sum(column is not ColumnType.SKIP for column in types))
        elif name in TRIPLES:
            self.signatures.use(use, 3)

    def _options(
        self, tree: ast.FormatNode, name: str, is_import: bool
    ) -> tuple[dict[str, OptionValue], tuple[ColumnType, ...] | None]:
        """The values of the options, and the column types of `format=(…)`."""
        values: dict[str, OptionValue] = {}
        types: tuple[ColumnType, ...] | None = None
        first: dict[str, ast.OptionNode] = {}
        for option in tree.options:
            if not self._is_option(option, options_of(name, is_import), name, first):
                continue
            if option.name == "format":
                types = self._types(option, is_import)
            elif option.name == "time":
                values["time"] = self._time(option)
            elif option.name == "nulls":
                values["nulls"] = self._nulls(option)
            else:
                value = self._value(option)
                if value is not None:
                    values[option.name] = value
        return values, types

    def _is_option(
        self, option: ast.OptionNode, known: tuple[str, ...], name: str, first: dict[str, ast.OptionNode]
    ) -> bool:
        """Whether the option is known and was not given before."""
        if option.name not in known:
            help = suggest(option.name, known) or f"the options are {', '.join(known)}"
            message = f"`{name}` has no option `{option.name}`"
            if name in FORMATS:
                self.report.error(codes.UNKNOWN_OPTION, message, option.span, help)
            return False
        if option.name in first:
            labels = label(first[option.name].span, "given here first")
            message = f"the option `{option.name}` is given twice"
            self.report.error(codes.OPTION_GIVEN_TWICE, message, option.span, labels=labels)
            return False
        first[option.name] = option
        return True

    def _types(self, option: ast.OptionNode, is_import: bool) -> tuple[ColumnType, ...] | None:
        """The column types that `format=(string, int)`, or `format=int` for one column, lists."""
        match option.value:
            case ast.NamesNode(names):
                pass
            case ast.NameNode(text):
                names = (text,)
            case _:
                message = "`format` expects column types in parentheses"
                help = "write them like `format = (string, int)`"
                self.report.error(codes.BAD_OPTION_VALUE, message, option.value.span, help)
                return None
        span = option.value.span
        return tuple(read_type(name, span, self.report, skip=is_import) for name in names)

    def _time(self, option: ast.OptionNode) -> tuple[str, ...]:
        """The columns with the time of a fact."""
        match option.value:
            case ast.NameNode(text):
                names: tuple[str, ...] = (text,)
            case ast.NamesNode(names):
                pass
            case _:
                names = ()
        if len(names) not in (1, 2, 4):
            message = "`time` expects the time columns"
            help = "`time = interval`, `time = start`, `time = (start, end)` or `time = (start, duration)`; "
            help += "two more columns say which bounds are open: `(start, end, start_open, end_open)`"
            self.report.error(codes.BAD_OPTION_VALUE, message, option.value.span, help)
        return names

    def _nulls(self, option: ast.OptionNode) -> tuple[str, ...]:
        """The treatment of missing values: one for all columns, or one for each."""
        match option.value:
            case ast.NameNode(text) | ast.TextNode(text):
                names: tuple[str, ...] = (text,)
            case ast.NamesNode(names):
                pass
            case _:
                names = ("",)
        treatments = tuple(name.replace("_", "-") for name in names)
        if not set(treatments) <= set(NULLS):
            message = "`nulls` expects how to treat missing values"
            help = '`nulls = reject`, `"drop-row"` or `value`; for each column `(reject, drop_row, value)`'
            self.report.error(codes.BAD_OPTION_VALUE, message, option.value.span, help)
        return treatments

    def _value(self, option: ast.OptionNode) -> OptionValue | None:
        """The option's value in Python; None, with the fault reported, if it has the wrong kind."""
        expected, described = _KINDS[option.name]
        if isinstance(option.value, ast.NamesNode):
            value: OptionValue | None = None
        elif isinstance(option.value, ast.NameNode):
            value = option.value.text
        else:
            evaluated = self.evaluate(option.value)
            if evaluated is None:
                return None
            value = _plain(evaluated)
        fault = _fault(option.name, value) if type(value) is expected else f"expects {described}"
        if fault:
            message = f"the option `{option.name}` {fault}"
            self.report.error(codes.BAD_OPTION_VALUE, message, option.value.span)
            return None
        return value


def resource_path(transfer: Transfer, folder: Path | None) -> Path | None:
    """The file of an import or export, in `folder` if it is relative; None if it is none on this machine."""
    text = str(transfer.options.get("resource", ""))
    if not text or ("://" in text and not text.startswith("file://")):
        return None
    path = Path(unquote(text.removeprefix("file://")) if text.startswith("file://") else text)
    return folder / path if folder else path


def options_of(name: str, is_import: bool = True) -> tuple[str, ...]:
    """The options of a format."""
    common = (*_COMMON, "nulls") if is_import and name in TABLES + RECORDS else _COMMON
    if name in TABLES:
        specific: tuple[str, ...] = (
            "header",
            "ignore_headers",
            "quoting",
            *(() if is_import else EXPORT_ONLY),
        )
        return (*common, *specific, "delimiter") if name == "dsv" else (*common, *specific)
    return (*common, "base") if name in TRIPLES + QUADS else common


def _lacks_resource(tree: ast.FormatNode, name: str) -> bool:
    """Whether there is no resource, and none under a misspelt name."""
    return all(option.name != "resource" and option.name in options_of(name) for option in tree.options)


def _format_help(name: str) -> str:
    """Suggest a format; swapped letters are common in words as short as `csv`."""
    shuffled = next((known for known in FORMATS if sorted(known) == sorted(name)), None)
    if shuffled is not None:
        return f"did you mean `{shuffled}`?"
    return suggest(name, (*FORMATS, *ALIASES)) or f"the formats are {', '.join(FORMATS)}"


def _plain(value: Value) -> OptionValue | None:
    """The value in Python, if an option can be it."""
    match value.kind:
        case Kind.BOOLEAN:
            return bool(value.content)
        case Kind.INTEGER | Kind.STRING | Kind.IRI | Kind.LANGUAGE_STRING:
            return value.content
    return None


def _fault(name: str, value: OptionValue | None) -> str | None:
    """Describe the error in the value of an option, which has the right kind."""
    if name == "limit" and isinstance(value, int) and value < 0:
        return "cannot be negative"
    if name == "resource" and "\0" in str(value):
        return "names no file: it has a null character"
    if name == "delimiter" and isinstance(value, str) and len(value) != 1:
        return "expects a single character"
    if name == "compression" and value not in ("gzip", "none"):
        return "is `gzip` or `none`"
    return None
