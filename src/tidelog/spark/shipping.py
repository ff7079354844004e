"""Send the package and tasks to executors; raise errors of tasks as errors of tidelog."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tidelog
from tidelog import errors
from tidelog.compiled import objects
from tidelog.engine.exchange import Lost
from tidelog.errors import DataError, Diagnostic, ProgramError, TidelogError, codes
from tidelog.errors.codes import NOT_SHIPPED
from tidelog.logic.scopes import bundled_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CLASSES: Final = {
    name: getattr(errors, name)
    for name in ("ProgramError", "DataError", "EvaluationError", "Inconsistent", "Stopped")
} | {"Lost": Lost}
# The code is part of the pattern: a traceback before the message may show the line that raises it.
_ERROR: Final = re.compile(rf"({'|'.join(_CLASSES)}): (?=error\[[A-Z]\d+\])(.*)", re.DOTALL)
_END: Final = re.compile(r"\s*(SQLSTATE: \w+|\n\s*at org\.apache\.spark).*", re.DOTALL)
_PYTHON: Final = re.compile(
    r"Python in worker has different version: ([\d.]+) than that in driver: (\d+\.\d+)"
)
_CAUSE: Final = re.compile(r"Caused by: [\w.$]+: (.*?)(?=\n\s+at |\n\s*\.\.\. |\Z)", re.DOTALL)
_RAISED: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_DIAGNOSTIC: Final = re.compile(
    r"error\[(?P<code>\w+)\]: (?P<message>.*?)"
    r"(?:\n +--> (?P<place>[^\n]*))?(?P<excerpt>(?:\n[ \d]*\|[^\n]*)*)(?:\n  help: (?P<help>.*))?",
    re.DOTALL,
)


@contextmanager
def translated_errors() -> Iterator[None]:
    """In the block, raise errors of tasks, and other failures of Spark, as errors of tidelog."""
    try:
        yield
    except Exception as error:
        from py4j.protocol import Py4JError  # imported here, as commands without Spark import this module
        from pyspark.errors import PySparkException

        # Py4JError: a barrier stage failed in all attempts.
        if not isinstance(error, PySparkException | Py4JError):
            raise
        raise error_of(error) from error


def error_of(error: Exception) -> TidelogError:
    """Return the error of tidelog in an exception of Spark.

    >>> text = "[X] DataError: error[E504]: bad\\n  --> p\\n  help: fix it SQLSTATE: P0001"
    >>> error = error_of(RuntimeError(text))
    >>> type(error).__name__, error.diagnostics[0].place, error.diagnostics[0].help
    ('DataError', 'p', 'fix it')
    """
    python = _PYTHON.search(str(error))
    if python is not None:
        message = f"a worker of Spark has Python {python[1]}, the driver {python[2]}"
        help = f"let PYSPARK_PYTHON, or spark.pyspark.python, name a Python {python[2]} on all machines"
        return ProgramError(Diagnostic(codes.NOT_SHIPPED, message, help=help))
    match = _ERROR.search(str(error))
    if match is None:
        return DataError(Diagnostic(codes.FAILED, f"Spark failed: {_reason(str(error))}"))
    kind: type[TidelogError] = _CLASSES[match[1]]
    return kind(_diagnostic(text) for text in _END.sub("", match[2]).split("\n\n") if text.strip())


def _reason(text: str) -> str:
    """Return why Java failed: the exception of a task, else the last cause, else the first line.

    >>> _reason("x failed\\n\\tat A.b(C)\\nCaused by: java.io.IOException: no file\\nf.csv\\n\\tat D.e(F)\\n")
    'no file f.csv'
    >>> _reason("x: Traceback (most recent call last):\\n  File a, line 1\\nOSError: full\\n SQLSTATE: 38000")
    'OSError: full'
    """
    causes = _RAISED.findall(text) or _CAUSE.findall(text)
    reason = " ".join(causes[-1].split()) if causes else text.strip().splitlines()[0]
    return _END.sub("", reason)


def _diagnostic(text: str) -> Diagnostic:
    match = _DIAGNOSTIC.fullmatch(text.strip())
    if match is None:
        return Diagnostic(codes.FAILED, text.strip())
    return Diagnostic(match["code"], match["message"], place=match["place"], help=match["help"])


# The package is sent to executors as one file, which `python -m tidelog.spark.shipping FILE` writes. A shared
# object cannot be loaded from an archive. So the archive unpacks itself when it is imported, once on each
# machine, into a folder that is named after its content, and the package is imported from there, kernels
# included. Executors must have numpy and pyarrow themselves, and processors of the same kind as the driver.

SHIP: Final = "spark.tidelog.ship"
_PACKAGE: Final = Path(__file__).parents[1]
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same files make the same archive
_UNPACKING: Final = '''\
"""tidelog as it was sent here: unpacked once, and imported from where it was unpacked."""

import importlib
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path


def unpacked(archive, name):
    """The folder with the package, below the user's cache, or below that for temporary files."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for root in (Path(home, "tidelog"), Path(tempfile.gettempdir(), f"tidelog-{os.getuid()}")):
        folder = root / name
        if root.exists() and root.stat().st_uid != os.getuid():
            continue  # who owns it could have put anything there
        if folder.exists():
            return folder
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside = tempfile.mkdtemp(dir=root)
        except OSError:
            continue
        with zipfile.ZipFile(archive) as members:
            members.extractall(beside, [each for each in members.namelist() if each.startswith("package/")])
        try:
            os.rename(Path(beside, "package"), folder)
        except OSError:
            pass  # another process was faster
        shutil.rmtree(beside, ignore_errors=True)
        return folder
    raise ImportError("tidelog was sent here, but there is no folder to unpack it in")


sys.path.insert(0, str(unpacked(Path(__file__).parents[1], "package-@digest@")))
del sys.modules["tidelog"]
importlib.invalidate_caches()
importlib.import_module("tidelog")
'''
_shipped: set[str] = set()  # applications, and sessions of Connect, to which the package has been sent


def ship(session: SparkSession, folder: Path) -> None:
    """Send the package to the executors of a session, once; the archive is written into `folder`.

    Does nothing if they run here, or if `spark.tidelog.ship` is false.
    """
    _name_python(session)
    if is_sent() or not _is_wanted(session):
        return
    is_remote = is_on_connect(session)
    key = session.session_id if is_remote else session.sparkContext.applicationId  # type: ignore[attr-defined]
    if key in _shipped:
        return
    # Connect refuses two files of one name: named by its content, another process may send it again.
    path = write_archive(folder / "tidelog.zip")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    archive = str(path.rename(path.with_name(f"tidelog-{digest}.zip")))
    if is_remote:
        session.addArtifacts(archive, pyfile=True)
    else:
        session.sparkContext.addPyFile(archive)
    _shipped.add(key)


def _name_python(session: SparkSession) -> None:
    """Run workers on this machine with this process's Python, unless the user has set one.

    A session started without `PYSPARK_PYTHON` uses the first `python3` on the path.
    """
    if is_on_connect(session) or "PYSPARK_PYTHON" in os.environ:
        return
    context = session.sparkContext
    is_set = session.conf.get("spark.pyspark.python", None) is not None
    if str(context.master).startswith("local") and not is_set and context.pythonExec == "python3":
        context.pythonExec = sys.executable


def _is_wanted(session: SparkSession) -> bool:
    """Whether the processes of a session are remote and need the package."""
    if is_on_connect(session):
        is_here = "SPARK_LOCAL_REMOTE" in os.environ
    else:
        is_here = str(session.sparkContext.master).startswith("local")
    return not is_here and session.conf.get(SHIP, "true") != "false"


def is_on_connect(session: SparkSession) -> bool:
    """Whether a session belongs to Spark Connect, and so has no context."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def is_sent() -> bool:
    """Whether this package is from an archive: then `spark-submit --py-files` has sent it to all."""
    return _PACKAGE.parent.name.startswith("package-")


def write_archive(path: Path) -> Path:
    """Write the package, with its rule sets, as an archive that can be imported anywhere."""
    members = dict(_members())
    digest = hashlib.sha256()
    for name, content in members.items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    unpacking = _UNPACKING.replace("@digest@", digest.hexdigest()[:16])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("tidelog/__init__.py", _EPOCH), unpacking)
        for name, content in members.items():
            archive.writestr(
                zipfile.ZipInfo(f"package/tidelog/{name}", _EPOCH), content, zipfile.ZIP_DEFLATED
            )
    return path


def _members() -> Iterator[tuple[str, bytes]]:
    """Yield the files of the package, by their paths in it."""
    for path in sorted(_PACKAGE.rglob("*.py")):
        yield path.relative_to(_PACKAGE).as_posix(), path.read_bytes()
    yield f"compiled/{objects.NAME}", objects.find().read_bytes()
    for path in sorted(bundled_rules().glob("*.rls")):
        yield f"rules/{path.name}", path.read_bytes()


class Shipped:
    """A task for a worker, which checks that it has everything that the task needs.

    Pickled, it is a function that needs only Python, and the bytes that it unpickles.
    """

    def __init__(self, task: Callable[..., Any]) -> None:
        self.task = task

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the task."""
        return self.task(*arguments, **keywords)

    def __reduce__(self) -> tuple[Any, ...]:
        return _sealed(self.task)


def carried(value: Any, folder: Path) -> tuple[Any, ...]:
    """Return how an object is pickled for the process in which a server of Connect runs `foreachBatch`.

    That process has no artifacts of the session, which are for tasks. So the package is included, unless the
    server belongs to this process. The session is unknown here.
    """
    is_here = "SPARK_LOCAL_REMOTE" in os.environ
    return _sealed(value, b"" if is_here else write_archive(folder / "tidelog.zip").read_bytes())


def _sealed(value: Any, archive: bytes = b"") -> tuple[Any, ...]:
    from pyspark import cloudpickle

    data = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return _opener(), (data, tidelog.__version__, NOT_SHIPPED, archive)


def _opener() -> Callable[[bytes, str, str, bytes], Any]:
    """Return a function that is pickled by value: it is local, and uses no module of ours."""

    def opened(data: bytes, version: str, code: str, archive: bytes) -> Any:
        import pickle
        import sys
        import tempfile
        from contextlib import suppress
        from importlib import metadata
        from importlib.util import find_spec
        from pathlib import Path

        def fail(what: str, help: str) -> None:
            python = f"{sys.executable}, Python {sys.version_info[0]}.{sys.version_info[1]}"
            raise RuntimeError(f"ProgramError: error[{code}]: {what}\n  --> {python}\n  help: {help}")

        least = {"numpy": 2, "pyarrow": 18}  # major versions, as in pyproject.toml
        absent = [name for name in least if find_spec(name) is None]
        if absent:
            fail(
                f"a worker of Spark has no {' and no '.join(absent)}",
                "install it there, or let PYSPARK_PYTHON, or spark.pyspark.python, name a Python that has it",
            )
        for name, first in least.items():
            with suppress(metadata.PackageNotFoundError):
                installed = metadata.version(name)
                if int(installed.split(".")[0]) < first:
                    fail(
                        f"a worker of Spark has {name} {installed}, and tidelog needs {first} or later",
                        "install that there, or let PYSPARK_PYTHON name a Python that has it",
                    )
        if archive and "tidelog" not in sys.modules:
            with tempfile.TemporaryDirectory() as folder:  # importing the archive unpacks it
                path = Path(folder, "tidelog.zip")
                path.write_bytes(archive)
                sys.path.insert(0, str(path))
                __import__("tidelog")
                sys.path.remove(str(path))
        if find_spec("tidelog") is None:
            fail(
                "a worker of Spark has no tidelog",
                "let it be sent, with spark.tidelog.ship=true, or install it there",
            )
        import tidelog as package

        if package.__version__ != version:
            fail(
                f"a worker of Spark has tidelog {package.__version__}, the driver {version}",
                "install the same version there, or let it be sent, with spark.tidelog.ship=true",
            )
        return pickle.loads(data)

    return opened


if __name__ == "__main__":
    print(write_archive(Path(sys.argv[1])))
