"""The formats of files: their names and extensions, and the files that are named after a predicate."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from tidelog.errors import DataError, Diagnostic
from tidelog.io import codes

# The first extension of a format is the one that files are written with.
EXTENSIONS: dict[str, tuple[str, ...]] = {
    "csv": (".csv",),
    "tsv": (".tsv",),
    "dsv": (".dsv",),
    "json": (".json",),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".arrows", ".ipc"),
    "ntriples": (".nt",),
    "turtle": (".ttl",),
    "nquads": (".nq",),
    "trig": (".trig",),
    "rdfxml": (".rdf", ".owl", ".xml"),
    "jsonld": (".jsonld",),
}
DELIMITED = frozenset({"csv", "tsv", "dsv"})
JSON = frozenset({"json", "jsonl"})
RDF = frozenset({"ntriples", "turtle", "nquads", "trig", "rdfxml", "jsonld"})
ALIASES = {"nt": "ntriples", "ttl": "turtle", "nq": "nquads"}

_FORMAT_OF_EXTENSION = {extension: name for name, known in EXTENSIONS.items() for extension in known}


def canonical_format(name: str, path: Path | None = None) -> str:
    """The one name of a format; `rdf` is whichever RDF format the path's extension means.

    >>> canonical_format("nt")
    'ntriples'
    >>> canonical_format("rdf", Path("data.ttl.gz"))
    'turtle'
    """
    if name == "rdf":
        found = format_of(path) if path is not None else None
        return found if found in RDF else "ntriples"
    return ALIASES.get(name, name)


def format_of(path: Path) -> str | None:
    """The format that the path's extension means, `.gz` apart, or None.

    >>> format_of(Path("edge.csv.gz"))
    'csv'
    """
    bare = path.with_suffix("") if is_compressed(path) else path
    return _FORMAT_OF_EXTENSION.get(bare.suffix.lower())


def is_compressed(path: Path) -> bool:
    """Whether the path's extension means gzip."""
    return path.suffix.lower() == ".gz"


def stem_of(path: Path) -> str:
    """The predicate that a file is named after: the inverse of `file_name`.

    >>> stem_of(Path("data/ex%3Aedge.csv.gz"))
    'ex:edge'
    """
    bare = path.with_suffix("") if is_compressed(path) else path
    return unquote(bare.stem if bare.suffix.lower() in _FORMAT_OF_EXTENSION else bare.name)


def file_name(written: str, name: str, arity: int | None = None) -> str:
    """The name of the file of a predicate: letters, digits, `_`, `-` and `.` stay, the rest is escaped.

    With four columns, N-Triples are N-Quads and Turtle is TriG.

    >>> file_name("ex:edge", "csv")
    'ex%3Aedge.csv'
    """
    safe = re.sub(r"[^\w.-]", lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), written)
    name = canonical_format(name)
    if arity == 4:  # statements with a graph
        name = {"ntriples": "nquads", "turtle": "trig"}.get(name, name)
    return safe + EXTENSIONS[name][0]


def data_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The files named by `--data`: each file itself, and the files of known formats in each folder."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(child for child in path.iterdir() if child.is_file())
            files += [child for child in inside if format_of(child) and not child.name.startswith(".")]
        else:
            files.append(path)
    return tuple(files)


def unknown_format(shown: str) -> DataError:
    """The error for a file whose format is not known."""
    known = ", ".join(sorted(_FORMAT_OF_EXTENSION))
    message = f"the format of `{shown}` is not known by its extension"
    return DataError(
        Diagnostic(codes.NOT_OF_FORMAT, message, place=shown, help=f"known extensions: {known}, and .gz")
    )
