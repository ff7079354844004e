"""The diagnostics of resolving a program. Mutable: every stage of the resolver adds to one report."""

from __future__ import annotations

from collections.abc import Container, Iterable

from tidelog.errors import Diagnostic, Label, ProgramError, Severity, Span
from tidelog.logic.program import Constant
from tidelog.logic.values import Kind, Value

# Stands for a value that could not be resolved, so that the rest can be: never in a program without errors.
UNRESOLVED = Constant(Value(Kind.BLANK, "unresolved"))


class Report:
    """Errors and warnings found so far, each once."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}

    def error(
        self,
        code: str,
        message: str,
        span: Span | None,
        help: str | None = None,
        labels: Iterable[Label] = (),
    ) -> None:
        """Add an error."""
        self.add(Diagnostic(code, message, span, help, tuple(labels)))

    def warn(self, code: str, message: str, span: Span | None, help: str | None = None) -> None:
        """Add a warning."""
        self.add(Diagnostic(code, message, span, help, severity=Severity.WARNING))

    def add(self, *diagnostics: Diagnostic) -> None:
        """Add diagnostics that another stage made."""
        self._found.update(dict.fromkeys(diagnostics))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors, in the order in which they were found."""
        return tuple(item for item in self._found if item.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings, by place."""
        return by_place(item for item in self._found if item.severity is Severity.WARNING)

    def check(self, ignored: Container[str] = ()) -> None:
        """Raise everything found, by place, if any of it is an error; without what is to be ignored."""
        if self.errors:
            raise ProgramError(by_place(item for item in self._found if item.code not in ignored))


def label(span: Span | None, text: str) -> tuple[Label, ...]:
    """A label for a place, none if the place is not known."""
    return (Label(span, text),) if span is not None else ()


def beginning(span: Span | None, text: str) -> Span | None:
    """The part of a span that is the text at its beginning."""
    return span and Span(span.source, span.start, span.start + len(text))


def ending(span: Span | None, text: str) -> Span | None:
    """The part of a span that is the text at its end."""
    return span and Span(span.source, span.end - len(text), span.end)


def by_place(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The diagnostics in order of their places, file by file as the files first occur."""
    files: dict[str, int] = {}
    diagnostics = tuple(diagnostics)
    for item in diagnostics:
        if item.span is not None:
            files.setdefault(item.span.source.name, len(files))

    def place(item: Diagnostic) -> tuple[int, int]:
        return (files[item.span.source.name], item.span.start) if item.span is not None else (-1, 0)

    return tuple(sorted(diagnostics, key=place))
