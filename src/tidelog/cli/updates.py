"""The updates of a stream: change scripts from files, folders that are being filled, standard input."""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import sleep
from typing import IO, Final, Protocol

from tidelog.cli.options import UsageError
from tidelog.errors import DataError, Diagnostic, SourceText, codes, suggest
from tidelog.io.data_file import is_compressed
from tidelog.syntax.lexer import END, Lexer

# ---- change scripts from files and streams of lines

SUFFIXES = (".rls", ".rls.gz")
_COMMIT = re.compile(r"@commit\s*\.")
_MAY_SPAN_LINES = re.compile(r'"""|/\*')


def split_scripts(lines: Iterable[str], name: str) -> Iterator[SourceText]:
    """The parts of a script up to each line with a commit, and what remains behind the last.

    >>> lines = ["+ p(1) .\\n", "@commit .\\n", "- p(1) .\\n"]
    >>> [(part.text, part.first_line) for part in split_scripts(lines, "<lines>")]
    [('+ p(1) .\\n@commit .\\n', 1), ('- p(1) .\\n', 3)]
    """
    waiting: list[str] = []
    first = 1
    for number, line in enumerate(lines, 1):
        waiting.append(line)
        if "@commit" in line and _COMMIT.search(line):
            text = "".join(waiting)
            if not _is_open(text):
                yield SourceText(name, text, first)
                waiting, first = [], number + 1
    text = "".join(waiting)
    if text.strip():
        yield SourceText(name, text, first)


def read_scripts(path: Path) -> Iterator[SourceText]:
    """The parts of a script in a file, which may be compressed; raises DataError if it cannot be read."""
    try:
        with _open(path) as stream:
            yield from split_scripts(stream, str(path))
    except UnicodeDecodeError as fault:
        message = f"cannot read the changes: it is not UTF-8 (byte {fault.start + 1})"
        raise DataError(Diagnostic(codes.NOT_UTF_8, message, place=str(path))) from None
    except (OSError, EOFError, zlib.error) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        message = f"cannot read the changes: {reason.lower()}"
        raise DataError(Diagnostic(codes.NOT_FOUND, message, place=str(path))) from None


def _open(path: Path) -> IO[str]:
    if is_compressed(path):
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8-sig")


def _is_open(text: str) -> bool:
    """Whether the text ends inside a string or a comment, so that its last commit is none."""
    if not _MAY_SPAN_LINES.search(text):
        return False
    lexer = Lexer(SourceText("<changes>", text))
    while lexer.read().kinds[-1] != END:
        pass
    unterminated = {codes.UNTERMINATED_COMMENT, codes.UNTERMINATED_STRING}
    return any(item.code in unterminated for item in lexer.diagnostics)


# ---- sources of a stream
#
# Files are read one after the other, so that a look ahead sees the same in every run. Standard input is
# read by a thread: a look ahead there sees what has arrived by then.

STANDARD_INPUT: Final = "-"
POLL_SECONDS: Final = 0.1


class ScriptSource(Protocol):
    """A source of scripts that knows without waiting whether there is one."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing will come any more."""

    def __next__(self) -> SourceText:
        """The next one, waited for if need be."""

    def ready(self) -> bool:
        """Whether there is one now."""


class Updates(Iterator[SourceText]):
    """The scripts of all sources, one source after the other."""

    def __init__(self, names: Sequence[str], follow: bool = False) -> None:
        check_sources(names, follow)
        self._parts: deque[ScriptSource] = deque(_part(name, follow) for name in names)

    def __next__(self) -> SourceText:
        while self._parts:
            try:
                return next(self._parts[0])
            except StopIteration:
                self._parts.popleft()
        raise StopIteration

    def __length_hint__(self) -> int:
        """How many are to come, where that is known: in the end."""
        return 0 if all(part.has_ended for part in self._parts) else NotImplemented

    def ready(self) -> bool:
        """Whether there is one now, without waiting."""
        for part in self._parts:
            if part.ready():
                return True
            if not part.has_ended:
                return False
        return False


def check_sources(names: Sequence[str], follow: bool) -> None:
    """Raise UsageError if the sources are incompatible, and DataError if some do not exist."""
    if names.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read only once", "name `-` once")
    paths = [Path(name) for name in names if name != STANDARD_INPUT]
    if follow and not any(path.is_dir() for path in paths):
        raise UsageError("--follow requires a folder that is being filled", "name one among the updates")
    missing = []
    for path in paths:
        if not path.exists():
            near = [str(child) for child in path.parent.iterdir()] if path.parent.is_dir() else []
            message = f"no such file or folder: `{path}`"
            missing.append(
                Diagnostic(codes.NOT_FOUND, message, place=str(path), help=suggest(str(path), near))
            )
    if missing:
        raise DataError(missing)


def _part(name: str, follow: bool) -> ScriptSource:
    path = Path(name)
    if name == STANDARD_INPUT:
        return ThreadedScripts(split_scripts(iter(sys.stdin.readline, ""), "<stdin>"))
    if path.is_dir():
        return ScriptFolder(path, follow)
    if path.is_file():
        return ScriptFiles([path])
    return ThreadedScripts(read_scripts(path))  # a pipe, which may make its reader wait


class ScriptFiles(Iterator[SourceText]):
    """The scripts in files, the next one read ahead."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._scripts = (script for path in paths for script in read_scripts(path))
        self._next: SourceText | None = None
        self._fault: DataError | None = None
        self._advance()

    def _advance(self) -> None:
        try:
            self._next = next(self._scripts, None)
        except DataError as fault:
            self._next, self._fault = None, fault

    @property
    def has_ended(self) -> bool:
        """Whether all have been taken."""
        return self._next is None and self._fault is None

    def ready(self) -> bool:
        """Whether there is one more."""
        return self._next is not None

    def __next__(self) -> SourceText:
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        if self._next is None:
            raise StopIteration
        script = self._next
        self._advance()
        return script


class ScriptFolder(Iterator[SourceText]):
    """The scripts in the files of a folder in the order of their names, and in those that come later.

    A file counts when its size has stayed the same for a moment, or when it was there to begin with.
    """

    def __init__(self, path: Path, follow: bool, wait: Callable[[float], None] = sleep) -> None:
        self._path = path
        self._follow = follow
        self._wait = wait
        self._sizes = dict.fromkeys(self._present(), -1)
        self._seen: set[Path] = set(self._sizes)
        self._files = ScriptFiles(sorted(self._seen))

    def _present(self) -> list[Path]:
        """The change scripts in the folder; hidden files are still being written."""
        return [
            path
            for path in self._path.iterdir()
            if path.name.endswith(SUFFIXES) and not path.name.startswith(".") and path.is_file()
        ]

    @property
    def has_ended(self) -> bool:
        """Whether all have been returned, and no more are awaited."""
        return not self._follow and self._files.has_ended

    def ready(self) -> bool:
        """Whether there is one now."""
        if self._files.has_ended and self._follow:
            self._poll()
        return self._files.ready()

    def _poll(self) -> None:
        """Take the files that are complete and were not taken before."""
        sizes = {path: path.stat().st_size for path in self._present() if path not in self._seen}
        complete = sorted(path for path, size in sizes.items() if self._sizes.get(path) == size)
        self._sizes = sizes
        if complete:
            self._seen.update(complete)
            self._files = ScriptFiles(complete)

    def __next__(self) -> SourceText:
        while self._files.has_ended and self._follow:
            self._poll()
            if self._files.has_ended:
                self._wait(POLL_SECONDS)
        return next(self._files)


class ThreadedScripts(Iterator[SourceText]):
    """Scripts read by a thread, as they arrive."""

    def __init__(self, scripts: Iterator[SourceText]) -> None:
        self._queue: SimpleQueue[SourceText | DataError | None] = SimpleQueue()
        self._next: deque[SourceText | DataError | None] = deque()
        self.has_ended = False
        Thread(target=self._receive, args=(scripts,), daemon=True).start()

    def _receive(self, scripts: Iterator[SourceText]) -> None:
        try:
            for script in scripts:
                self._queue.put(script)
        except DataError as fault:
            self._queue.put(fault)
        except UnicodeDecodeError as fault:
            message = f"cannot read the changes: they are not UTF-8 (byte {fault.start + 1})"
            self._queue.put(DataError(Diagnostic(codes.NOT_UTF_8, message, place="<stdin>")))
        finally:
            self._queue.put(None)

    def ready(self) -> bool:
        """Whether one has arrived."""
        if not self._next:
            try:
                self._next.append(self._queue.get_nowait())
            except Empty:
                return False
        self.has_ended = self._next[0] is None
        return isinstance(self._next[0], SourceText)

    def __next__(self) -> SourceText:
        item = self._next.popleft() if self._next else self._queue.get()
        if item is None:
            self.has_ended = True
            self._next.append(None)  # for the next call, which ends as well
            raise StopIteration
        if isinstance(item, DataError):
            raise item
        return item
