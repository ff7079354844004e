"""Programs as the command line names them: files, folders of them, standard input."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tidelog.errors import (
    DataError,
    Diagnostic,
    ProgramError,
    Severity,
    SourceText,
    TidelogError,
    codes,
    suggest,
)
from tidelog.io.data_file import data_file, data_files, predicate_of
from tidelog.logic.program import OPEN, Predicate, Program, Sandbox
from tidelog.logic.resolve import SUFFIX, resolve
from tidelog.logic.values import ColumnType
from tidelog.syntax.parser import parse_with_errors

STANDARD_INPUT: Final = "-"


def program_files(names: Sequence[str]) -> list[str]:
    """The named programs; a folder means all programs below it."""
    files: list[str] = []
    for name in names:
        folder = Path(name)
        if name != STANDARD_INPUT and folder.is_dir():
            files += [str(path) for path in sorted(folder.rglob(f"*{SUFFIX}"))]
        else:
            files.append(name)
    return files


def read_source(name: str) -> SourceText:
    """Return the text of a program; raise `DataError` if it cannot be read."""
    path = Path(name)
    try:
        if name == STANDARD_INPUT:
            return SourceText("<stdin>", sys.stdin.read())
        return SourceText(name, path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as fault:
        reason, help = f"it is not UTF-8 (byte {fault.start + 1})", None
    except OSError as fault:
        reason, help = (fault.strerror or str(fault)).lower(), _near(path)
    raise DataError(Diagnostic(codes.NOT_FOUND, f"cannot read the program: {reason}", place=name, help=help))


def _near(path: Path) -> str | None:
    """The program in the same folder whose name is nearest to the missing one."""
    try:
        names = [str(child) for child in path.parent.iterdir() if child.suffix == SUFFIX]
    except OSError:
        return None
    return suggest(str(path), names) or suggest(f"{path}{SUFFIX}", names)


def sandbox_of(options: Namespace) -> Sandbox:
    """What the program may read and write: anything, unless the options say; ontologies are the user's."""
    if options.allow_read is None and options.allow_write is None:
        return OPEN
    return Sandbox.of([*(options.allow_read or ()), *getattr(options, "ontology", ())], options.allow_write)


def load_program(
    name: str,
    parameters: Mapping[str, str],
    known: Mapping[str, Predicate] | None = None,
    sandbox: Sandbox = OPEN,
) -> Program:
    """The program that a name on the command line means, if these predicates are known anyway."""
    return resolve_source(read_source(name), name, parameters, known, sandbox)


def resolve_source(
    source: SourceText,
    name: str,
    parameters: Mapping[str, str],
    known: Mapping[str, Predicate] | None = None,
    sandbox: Sandbox = OPEN,
) -> Program:
    """The program of a text that was read under this name."""
    path = None if name == STANDARD_INPUT else Path(name)
    return resolve(
        parse_with_errors(source),
        parameters=parameters,
        folder=Path() if path is None else path.parent,
        known=known,
        path=path,
        sandbox=sandbox,
    )


def load_beside(
    name: str, parameters: Mapping[str, str], files: Sequence[Path], sandbox: Sandbox = OPEN
) -> Program:
    """The program of a name, whose output may be predicates that only the data files provide."""
    source = read_source(name)
    try:
        return resolve_source(source, name, parameters, sandbox=sandbox)
    except ProgramError as error:
        known = provided(files) if outputs_unknown(error) else {}
        if not known:
            raise
    return resolve_source(source, name, parameters, known, sandbox)


def outputs_unknown(error: TidelogError) -> bool:
    """Whether the only errors are output predicates that the program does not mention."""
    errors = [item for item in error.diagnostics if item.severity is Severity.ERROR]
    return all(item.code == codes.UNKNOWN_PREDICATE for item in errors)


def provided(files: Iterable[Path]) -> dict[str, Predicate]:
    """The predicates of data files, by the first rows of these."""
    predicates: dict[str, Predicate] = {}
    for path in files:
        name = predicate_of(path, {})
        from tidelog.io.reader import read  # with all that reads data, which checking a program does not need

        first = next(read(replace(data_file(path, None), limit=1)), None)
        if first is not None:
            arity = len(first.columns)
            predicates[name] = Predicate(name, arity, (None,) * arity, (ColumnType.ANY,) * arity, name)
    return predicates


def shown_name(name: str) -> str:
    """The name of a program in titles."""
    return "<stdin>" if name == STANDARD_INPUT else Path(name).name


# ---- data files given with a program


def existing_data(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files that `--data` names; raise `DataError` with all that do not exist."""
    paths = tuple(paths)
    missing = []
    for path in paths:
        if not path.exists():
            names = [str(child) for child in path.parent.iterdir()] if path.parent.is_dir() else []
            message = f"no such file or folder: `{path}`"
            missing.append(
                Diagnostic(codes.NOT_FOUND, message, place=str(path), help=suggest(str(path), names))
            )
    if missing:
        raise DataError(missing)
    return data_files(paths)


def warnings(program: Program, files: Iterable[Path]) -> tuple[Diagnostic, ...]:
    """The program's warnings; predicates that data files fill are not empty."""
    filled = {predicate_of(path, program.predicates) for path in files}
    spans = [program.predicates[name].span for name in filled if name in program.predicates]
    return tuple(
        item for item in program.warnings if item.code != codes.EMPTY_PREDICATE or item.span not in spans
    )


def unused(program: Program, files: Iterable[Path]) -> dict[Path, Diagnostic]:
    """A warning for each data file whose predicate the program does not use."""
    warnings_by_file: dict[Path, Diagnostic] = {}
    for path in files:
        name = predicate_of(path, program.predicates)
        if name not in program.predicates:
            message = f"the program has no predicate `{name}`, so `{path}` is not read"
            names = [predicate.written for predicate in program.predicates.values()]
            warnings_by_file[path] = Diagnostic(
                codes.UNUSED_DATA,
                message,
                None,
                suggest(name, names),
                severity=Severity.WARNING,
                place=str(path),
            )
    return warnings_by_file
