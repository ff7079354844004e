"""Finding and loading the shared object of kernels, and the digest of what it was made from."""

from __future__ import annotations

import ast
import json
import os
import stat
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any, TypeVar

from tidelog.compiled import DEBUG
from tidelog.errors import Diagnostic, TidelogError, codes
from tidelog.records import dataclass

# ---- What kernels are made from: a digest that changes when a kernel does, and with nothing else.
#
# It covers the functions that are compiled, the constants that they read, in whichever modules those are, and
# the build itself. Docstrings, comments and layout do not count, nor does other code of the same files.

PACKAGE = Path(__file__).parent.parent
BUILD = ("compiled/jit.py", "compiled/build.py", "compiled/lowering.py", "compiled/caller.c")
Node = TypeVar("Node", bound=ast.AST)

DECORATORS = {"kernel", "subroutine", "inlined"}


@dataclass(frozen=True, slots=True)
class Sources:
    """The modules that define kernels, the files they depend on, relative to the package, and a digest."""

    modules: tuple[str, ...]
    files: tuple[str, ...]
    digest: str


def find_sources() -> Sources:
    """Read the sources of all kernels."""
    modules = dict(_modules_with_kernels())
    known = {name: _Module(tree) for name, tree in modules.items()}
    waiting = [(name, function) for name, module in known.items() for function in module.compiled]
    met: dict[tuple[str, str], str] = {}
    while waiting:
        place = waiting.pop()
        if place in met:
            continue
        owner, name = place
        if owner not in known:
            known[owner] = _Module(ast.parse(_path(owner).read_bytes()))
        node = known[owner].defined.get(name)
        met[place] = "" if node is None else ast.dump(node)
        for used in _names(node):
            if used in known[owner].defined:
                waiting.append((owner, used))
            elif used in known[owner].imported:
                waiting.append(known[owner].imported[used])
    import hashlib  # with OpenSSL

    digest = hashlib.sha256()
    for place, text in sorted(met.items()):
        digest.update(f"{place} {text}\n".encode())
    for name in BUILD:
        content = (PACKAGE / name).read_bytes()
        is_python = name.endswith(".py")
        digest.update(ast.dump(_without_docstrings(ast.parse(content))).encode() if is_python else content)
    files = {*BUILD, *(str(_path(name).relative_to(PACKAGE)) for name in known)}
    return Sources(tuple(sorted(modules)), tuple(sorted(files)), digest.hexdigest()[:32])


def _modules_with_kernels() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        if b"from tidelog.compiled import" in text and path.parent != PACKAGE / "compiled":
            tree = ast.parse(text)
            if _Module(tree).compiled:
                yield ".".join(("tidelog", *path.relative_to(PACKAGE).with_suffix("").parts)), tree


def _path(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


class _Module:
    """What a module defines at its top, without docstrings, and what it imports from the package."""

    def __init__(self, tree: ast.Module) -> None:
        self.defined: dict[str, ast.stmt] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        self.compiled: list[str] = []
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidelog."):
                if node.module != "tidelog.compiled":
                    for one in node.names:
                        self.imported[one.asname or one.name] = (node.module or "", one.name)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.defined[node.name] = _without_docstrings(node)
                if isinstance(node, ast.FunctionDef) and DECORATORS & {
                    _decorator(one) for one in node.decorator_list
                }:
                    self.compiled.append(node.name)
            else:
                for target in ast.walk(node):
                    if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                        self.defined[target.id] = node


def _decorator(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return called.id if isinstance(called, ast.Name) else ""


def _without_docstrings(node: Node) -> Node:
    for one in ast.walk(node):
        if isinstance(one, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(one):
            one.body = one.body[1:]
    return node


def _names(node: ast.stmt | None) -> set[str]:
    """The names that a definition reads; those of annotations do not matter, but do no harm either."""
    if node is None:
        return set()
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


# ---- Finding and loading the shared object of kernels.
#
# It is next to this file, put there by a wheel or by the set-up of a source tree. An object that is damaged,
# or that others could have written, is not loaded but built again in a private folder. The kernels of debug
# mode are built there too. In a source tree kernels that have changed are built in place.
#
# Behind its machine code the file carries what it was built from, and a checksum over everything before.

HERE = Path(__file__).parent
NAME = "_kernels.abi3.so"
MAGIC = b"tidelog kernels\n"
FOOT = len(MAGIC) + 8  # the checksum, the length of the description, and the magic bytes end the file


@dataclass(frozen=True, slots=True)
class Loaded:
    """The kernels of an object: the function and the signature of each, by module and name."""

    path: Path
    entries: Mapping[str, tuple[Callable[..., Any] | None, str]]


@cache
def loaded() -> Loaded:
    """Load the kernels, once in a process."""
    path = find()
    name = f"{__package__}._kernels"
    loader = ExtensionFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    try:
        module = module_from_spec(spec)
    except ImportError as error:
        raise _error(str(error), "build them for this machine: `pip install` from the sources") from error
    loader.exec_module(module)
    return Loaded(path, {key: pair for key, pair in vars(module).items() if isinstance(pair, tuple)})


def find() -> Path:
    """The object to load; it is built if there is none that can be trusted."""
    path = HERE / NAME
    if DEBUG:
        return private(is_debug=True)
    if not path.exists():
        return private() if not is_source_tree() else _built(path)
    fault = fault_of(path, owners=frozenset({Path(__file__).stat().st_uid}))
    if fault is not None:
        warnings.warn(f"the kernels in {path} are not used: {fault}", RuntimeWarning, stacklevel=2)
        return private()
    if is_source_tree() and is_outdated(path):
        return _built(path)
    return path


def is_source_tree() -> bool:
    """Whether the package is used from a checkout, where sources change."""
    return (HERE.parents[2] / "pyproject.toml").exists()


def is_outdated(path: Path) -> bool:
    """Whether an object was built from other kernels than those of now; files that are older are not read."""
    built = path.stat().st_mtime_ns
    known = description(path)
    names = [HERE.parent / name for name in known["files"]]
    if all(name.exists() and name.stat().st_mtime_ns < built for name in names):
        return False

    if find_sources().digest != known["digest"]:
        return True
    with suppress(OSError):  # of a source tree that belongs to another user
        os.utime(path)
    return False


def private(is_debug: bool = False) -> Path:
    """An object in a folder that only this user can write; it is built if it is not there."""

    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    debug = "-debug" if is_debug else ""
    path = root / f"kernels{debug}-{find_sources().digest}.abi3.so"
    if root.stat().st_uid != os.geteuid() or root.stat().st_mode & 0o022:
        raise _error(f"others can write {root}", "take that right away from them, or set XDG_CACHE_HOME")
    if path.exists() and fault_of(path) is None:
        return path
    return _built(path, is_debug)


def _built(path: Path, is_debug: bool = False) -> Path:
    try:
        from tidelog.compiled.build import build

        build(path, is_debug=is_debug)
    except ImportError as error:
        help = "install tidelog again, or what builds them: `pip install 'tidelog[build]'`"
        raise _error(f"they are not there, and {error.name} is missing to build them", help) from None
    except (OSError, RuntimeError) as error:
        raise _error(f"they were not built: {error}", "see README.md, or install a wheel") from error
    return path


def _error(message: str, help: str) -> TidelogError:
    return TidelogError(Diagnostic(codes.NO_KERNELS, f"no kernels can be loaded: {message}", help=help))


def fault_of(path: Path, owners: frozenset[int] = frozenset()) -> str | None:
    """Why an object is not to be loaded; None if it can be. It may belong to this user, root, or `owners`."""
    try:
        status = path.stat()
        content = path.read_bytes()
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if status.st_uid not in {0, os.geteuid(), *owners}:
        return "it belongs to another user"
    if status.st_mode & stat.S_IWOTH:
        return "everybody can write it"
    if _foot(content) is None:
        return "it is damaged"
    return None


def description(path: Path) -> dict[str, Any]:
    """The description that an object contains."""
    found = _foot(path.read_bytes())
    return {"digest": "", "files": []} if found is None else found


def with_foot(code: bytes, about: Mapping[str, Any]) -> bytes:
    """Machine code followed by what is said of it and a checksum."""
    text = json.dumps(about, sort_keys=True).encode()
    whole = code + text
    return whole + zlib.crc32(whole).to_bytes(4, "little") + len(text).to_bytes(4, "little") + MAGIC


def _foot(content: bytes) -> dict[str, Any] | None:
    """The description that an object contains; None if it is incomplete."""
    if len(content) < FOOT or not content.endswith(MAGIC):
        return None
    whole, foot = content[:-FOOT], content[-FOOT:]
    if zlib.crc32(whole) != int.from_bytes(foot[:4], "little"):
        return None
    found: dict[str, Any] = json.loads(whole[len(whole) - int.from_bytes(foot[4:8], "little") :])
    return found


def tell(text: str) -> None:
    """Print a message about the build."""
    print(text, file=sys.stderr, flush=True)
