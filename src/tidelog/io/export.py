"""Where an export of a program goes, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidelog.io.formats import canonical_format, file_name
from tidelog.io.source import Options, transfer_path
from tidelog.io.write import WriteOptions
from tidelog.logic.program import Predicate, Transfer
from tidelog.logic.values import ColumnType


@dataclass(frozen=True)
class Export:
    """A file to write, standard output if there is no path, and which of the predicate's columns it has."""

    path: Path | None
    format: str
    options: WriteOptions
    columns: tuple[int, ...]


def export_file(transfer: Transfer, predicate: Predicate, output: Path | None = None) -> Export:
    """The file that an export writes; a relative one lies in `output` if that is given, else by the program.

    Without a resource the file is named after the predicate; the empty resource is standard output. Nothing
    is written outside of `output`, unless that is allowed.
    """
    options = Options(transfer)
    folder = output or transfer.folder
    if "resource" in transfer.options:
        path = transfer_path(transfer, folder)
    else:
        name = file_name(predicate.written, transfer.format, predicate.arity)
        path = (folder or Path()) / (name + ".gz" if options.compressed(None) else name)
    if path is not None:
        path = transfer.sandbox.to_write(path, transfer.span, output)
    types = transfer.types or (ColumnType.ANY,) * predicate.arity
    wanted = tuple(index for index, column_type in enumerate(types) if column_type is not ColumnType.SKIP)
    return Export(path, canonical_format(transfer.format, path), _write_options(options, path), wanted)


def _write_options(options: Options, path: Path | None) -> WriteOptions:
    return WriteOptions(
        header=options.flag("header", True) and not options.flag("ignore_headers", False),
        delimiter=options.text("delimiter") and options.character("delimiter", ","),
        quoting=options.flag("quoting", True),
        compressed=options.compressed(path),
        limit=options.count("limit"),
        escape_formulas=options.flag("escape_formulas", False),
    )
