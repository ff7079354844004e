"""The prompt of the repl with completion, colours and history; needs the extra `repl`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from tidelog.cli.commands.repl import COMMANDS, CONTINUED, PROMPT, Session, is_ready
from tidelog.logic.functions.builtins import FUNCTIONS
from tidelog.syntax.lexer import AGGREGATES, DIRECTIVES
from tidelog.syntax.printer import highlight

_STYLE: Final = Style.from_dict(
    {
        "prompt": "bold ansicyan",
        "predicate": "ansicyan",
        "variable": "ansiblue",
        "string": "ansigreen",
        "number": "ansiyellow",
        "keyword": "ansimagenta",
        "operator": "bold",
        "comment": "italic ansibrightblack",
        "error": "ansired",
    }
)
_WORD: Final = re.compile(r"[@:#?]?[A-Za-z_][\w:-]*$|[@:#?]$")


def prompted(session: Session) -> Iterator[str]:
    """What is typed, each time a command or whole statements."""
    prompt: PromptSession[str] = PromptSession(
        [("class:prompt", PROMPT)],
        lexer=Highlighting(),
        completer=Completing(session),
        complete_while_typing=False,
        history=_history(),
        style=_STYLE,
        prompt_continuation=CONTINUED,
        multiline=Condition(lambda: not _is_ready(prompt.default_buffer.text)),
    )
    while True:
        try:
            text = prompt.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.strip():
            yield text


def _is_ready(text: str) -> bool:
    """Whether Enter hands the text in: it is ready, or an empty line says so."""
    return is_ready(text) or text.endswith("\n")


def _history() -> History:
    """The history of earlier sessions; none is kept where the file cannot be."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "tidelog" / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


class Highlighting(Lexer):
    """Colours by the language's own lexer."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """The pieces of each line, with their styles."""
        lines: list[StyleAndTextTuples] = [[]]
        for name, piece in highlight(document.text):
            first, *others = piece.split("\n")
            lines[-1].append((f"class:{name}", first))
            for part in others:
                lines.append([(f"class:{name}", part)])
        return lambda number: lines[number] if number < len(lines) else []


class Completing(Completer):
    """Completes predicates, variables of the text, directives, aggregates, functions and commands."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The words that begin like the one before the cursor."""
        match = _WORD.search(document.text_before_cursor)
        if match is None:
            return
        word = match[0]
        for text, meaning in self._words(document, word):
            if text.lower().startswith(word.lower()) and text != word:
                yield Completion(text, -len(word), display_meta=meaning)

    def _words(self, document: Document, word: str) -> Iterator[tuple[str, str]]:
        if word[0] == "?":
            names = dict.fromkeys(re.findall(r"\?[A-Za-z_]\w*", document.text))
            yield from ((name, "variable") for name in names)
        elif word[0] == "@":
            yield from ((name, "directive") for name in DIRECTIVES)
        elif word[0] == "#":
            yield from ((f"#{name}", "aggregate") for name in AGGREGATES)
        else:
            if document.text.lstrip() == word:
                yield from ((name, meaning) for name, meaning in COMMANDS.items())
            predicates = self.session.work.program.predicates.values()
            yield from ((item.written, f"predicate of {item.arity}") for item in predicates)
            yield from ((name, item.signature) for name, item in FUNCTIONS.items() if name.isalpha())
