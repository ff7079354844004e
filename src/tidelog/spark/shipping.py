"""The package as one file for executors on other machines: `python -m tidelog.spark.shipping FILE`.

A shared object cannot be loaded from an archive. So the archive unpacks itself when it is imported, once on
each machine, into a folder that is named after its content, and the package is imported from there, kernels
included. Executors must have numpy and pyarrow themselves, and processors of the same kind as the driver.
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.compiled import objects
from tidelog.logic.include import bundled_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
_shipped: set[str] = set()  # applications that have been sent the package


def ship(session: SparkSession, folder: Path) -> None:
    """Send the package to the executors of a session, once; the archive is written into `folder`.

    Not if they run here, nor if `spark.tidelog.ship` is false.
    """
    context = session.sparkContext
    wanted = session.conf.get(SHIP, "true") != "false" and not str(context.master).startswith("local")
    if wanted and not is_sent() and context.applicationId not in _shipped:
        context.addPyFile(str(write_archive(folder / "tidelog.zip")))
        _shipped.add(context.applicationId)


def is_sent() -> bool:
    """Whether this very package came in an archive: then `spark-submit --py-files` has sent it to all."""
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
    """The files of the package, by their paths in it."""
    for path in sorted(_PACKAGE.rglob("*.py")):
        yield path.relative_to(_PACKAGE).as_posix(), path.read_bytes()
    yield f"compiled/{objects.NAME}", objects.find().read_bytes()
    for path in sorted(bundled_rules().glob("*.rls")):
        yield f"rules/{path.name}", path.read_bytes()


if __name__ == "__main__":
    print(write_archive(Path(sys.argv[1])))
