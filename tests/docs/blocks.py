"""The fenced blocks of the documentation, and what each kind of them promises.

- `python`: runs; with `>>>`, the output is compared. The blocks of a page share their names.
- `console`: each command after `$` runs in a shell and prints what follows it. `console timed` compares lines
  in whatever order and numbers with a fraction not at all, for statistics.
- `rls`: a program without errors; `rls E301` one with that error, and no other.
- `facts`: all facts of the predicates it names, after the program before it.
- `changes`: a change script for the program before it; every transaction changes something.

`slow` after the kind, as in `console slow`, leaves the block to `make test-slow`: it starts Spark.

`…` in an expected output stands for anything, on a line of its own for any lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = tuple(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in sorted(ROOT.glob(pattern))
    if path.name != "CHANGELOG.md"
)
FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#[^)]*)?\)")
COMMAND = re.compile(r"^\$ (?P<command>.*\n)(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its place, the word after the fence, a further word, and what is inside."""

    place: str
    kind: str
    argument: str
    text: str
    is_slow: bool = False


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        kind, *words = match["kind"].split() or [""]
        argument = " ".join(word for word in words if word != "slow")
        place = f"{page.relative_to(ROOT)}:{line}"
        found.append(Block(place, kind, argument, match["text"], "slow" in words))
    return found


def links(page: Path) -> list[str]:
    """The files of this repository that a page links to, without the places in them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [link for link in LINK.findall(text) if link and "://" not in link]


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that follows it.

    >>> commands("$ echo a\\na\\n$ true\\n")
    [('echo a', 'a\\n'), ('true', '')]
    """
    return [(match["command"].rstrip("\n"), match["output"]) for match in COMMAND.finditer(text)]


def matches(expected: str, output: str) -> bool:
    """Whether the output is the expected one, `…` standing for anything.

    >>> matches("a\\n…\\nb … c", "a\\n1\\n2\\nb 3.5 c")
    True
    """
    lines = expected.strip("\n").split("\n")
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in lines
    )
    return re.fullmatch(pattern, output.strip("\n") + "\n") is not None


def matches_timed(expected: str, output: str) -> bool:
    """Whether both have the same lines, times, versions and memory apart.

    >>> matches_timed("b 0.1 s\\na", "a\\nb 12.5 ms")
    True
    """
    return _untimed(expected) == _untimed(output)


def _untimed(text: str) -> list[str]:
    lines = (re.sub(r"\d+(?:\.\d+)+(?: m?s\b)?|[\d,]+ MB", "#", line).split() for line in text.splitlines())
    return sorted(" ".join(words) for words in lines)
