"""What Spark writes down about a stream: which one it is, and which files it has taken."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlparse


def stream_of(checkpoint: Path) -> str:
    """The id of the stream whose checkpoint this is: the same after every restart."""
    found = json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))
    return str(found["id"])


def taken_files(checkpoint: Path) -> set[str]:
    """The files that batches have been made of so far."""
    taken: set[str] = set()
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text(encoding="utf-8").splitlines()[1:]:  # the first one names the layout
            if line.startswith("{"):
                taken.add(unquote(urlparse(json.loads(line)["path"]).path))
    return taken


def next_files(folder: Path, endings: tuple[str, ...], checkpoint: Path, count: int) -> list[Path]:
    """The files that Spark will take next, as far as they are there: the oldest first."""
    taken = taken_files(checkpoint)
    found = []
    for path in folder.iterdir():
        if not path.name.endswith(endings):
            continue
        if not path.name.startswith((".", "_")) and str(path.resolve()) not in taken:
            found.append((path.stat().st_mtime_ns, str(path), path))
    return [path for *_, path in sorted(found)[:count]]
