"""The command line as a process of its own: pipes, terminals, interrupts and start-up."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Write

COMMAND = [sys.executable, "-m", "tidelog"]
ENDLESS = "number(0) .\nnumber(?n + 1) :- number(?n) .\n"
PAIRS = "n(0) . n(?x + 1) :- n(?x), ?x < 600 . pair(?x, ?y) :- n(?x), n(?y) . @output pair ."


def test_module_and_script_are_the_same() -> None:
    script = Path(sys.executable).with_name("tidelog")
    for command in (COMMAND, [str(script)]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert re.fullmatch(r"tidelog \d+\.\d+\.\d+\n", done.stdout)


def test_version_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tidelog", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = ("numpy", "pyarrow", "rich", "tidelog.logic", "tidelog.syntax")
    assert not [line for line in done.stderr.splitlines() if line.endswith(heavy)]


def test_checking_needs_no_engine() -> None:
    show = "import sys; from tidelog.__main__ import main; main(['check', 'family.rls']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert {"pyarrow", "rich"}.isdisjoint(done.stdout.split())


def test_a_reader_that_stops_reading_is_no_error(write: Write) -> None:
    write("p.rls", PAIRS)
    with subprocess.Popen(
        [*COMMAND, "run", "p.rls"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b"pair")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_everything_is_utf8_whatever_the_language() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [*COMMAND, "format", "-"]
    given = 'p("é…日") .\n'.encode()
    done = subprocess.run(command, input=given, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, given)
    bad = 'p("é") .'.encode("latin-1")
    done = subprocess.run(command, input=bad, env=environment, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"E101]: the byte E9 is not UTF-8" in done.stderr


def test_a_name_that_is_not_utf8_is_escaped_in_json() -> None:
    done = subprocess.run([*COMMAND, "check", "--format", "json", b"\xf5"], capture_output=True, check=False)
    assert done.returncode == 1
    (fault,) = json.loads(done.stdout)
    assert (fault["code"], fault["file"]) == ("E501", "\udcf5")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
def test_a_full_disk_is_an_error(write: Write) -> None:
    write("p.rls", PAIRS)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "run", "p.rls", "--format", "csv"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "tidelog: error: No space left on device\n")


# ---- the end of the process

ENDING = """
import atexit, os, sys, threading
import tidelog.__main__ as command
sys.argv = ["tidelog", *{arguments}]
atexit.register(lambda: print("at the end", flush=True))
quick = os._exit
os._exit = lambda code: (print("quick", flush=True), quick(code))
{before}
command.process()
"""


def ending(*arguments: str, before: str = "") -> tuple[list[str], int]:
    """What a process says last, and its exit code."""
    source = ENDING.format(arguments=list(arguments), before=before)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[-3:], done.returncode


def test_a_process_ends_quickly_once_everything_is_done(write: Write) -> None:
    write("p.rls", "p(1) .")
    assert ending("check", "p.rls") == (["at the end", "quick"], 0)
    assert ending("run", "none.rls") == (["at the end", "quick"], 1)
    assert ending("run", "--none") == (["at the end", "quick"], 2)


@pytest.mark.parametrize(
    "before",
    [
        "threading.Thread(target=lambda: threading.main_thread().join() or print('a thread')).start()",
        "sys.setprofile(lambda *_: None)",
    ],
    ids=["thread", "profile"],
)
def test_a_process_ends_slowly_if_something_is_left_to_do(before: str, write: Write) -> None:
    write("p.rls", "p(1) .")
    said, _ = ending("run", "p.rls", before=before)
    assert "quick" not in said
    assert ("a thread" in said) == ("a thread" in before)


# ---- terminals


def on_terminal(*arguments: str, colours: bool = True, until: bytes = b"") -> tuple[str, int]:
    """What a command shows on a terminal, and its exit code; interrupted once it has shown `until`."""
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    environment.pop("NO_COLOR", None)
    if not colours:
        environment["NO_COLOR"] = "1"
    master, slave = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as process:
        os.close(slave)
        shown = b""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if not select.select([master], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(master, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            shown += piece
            if until and until in shown:
                process.send_signal(signal.SIGINT)
                until = b""
        try:
            code = process.wait(60)
        finally:
            process.kill()  # else leaving the block would wait for ever
    os.close(master)
    return shown.decode().replace("\r\n", "\n"), code


def test_tables_and_errors_are_coloured_on_terminals_only(write: Write) -> None:
    shown, code = on_terminal("run", "family.rls")
    assert code == 0
    assert "\x1b[1mancestor\x1b[0m" in shown
    write("bad.rls", "p(?x) .")
    shown, code = on_terminal("check", "bad.rls")
    assert code == 1
    assert re.search(r"\x1b\[[\d;]*mp?error\[E302\]", shown) or "\x1b[1;31merror[E302]\x1b[0m" in shown
    plain, _ = on_terminal("check", "bad.rls", colours=False)
    assert "\x1b" not in plain
    assert "error[E302]" in plain


def test_tables_are_cut_on_terminals(write: Write) -> None:
    write("p.rls", PAIRS)
    shown, _ = on_terminal("run", "p.rls")
    assert "… 361,101 more; `--rows 0` shows all" in shown
    assert shown.count("\n") == 104


def test_binary_formats_are_not_for_terminals() -> None:
    shown, code = on_terminal("run", "family.rls", "--format", "parquet")
    assert code == 2
    assert "parquet cannot be written to a terminal" in shown


def test_progress_is_shown_and_an_interrupt_leaves_nothing_behind(write: Write, folder: Path) -> None:
    write("p.rls", ENDLESS)
    shown, code = on_terminal("run", "p.rls", "--output", "out", until=b"stratum 1 of 1")
    assert code == 130
    assert re.search(r"stratum 1 of 1 · round [\d,]+ · [\d,]+ facts · \d\.\d s · number", shown)
    assert shown.index("\r\x1b[2K") < shown.index("interrupted")
    assert "error[E612]" in shown.replace("\x1b[1;31m", "")
    assert "it reached stratum 1 of 1 (number), round" in shown
    assert not (folder / "out").exists()
