"""`tidelog repl`: facts and rules are inserted and deleted, and queries answered, as they are typed."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidelog import __version__
from tidelog.cli.output import show
from tidelog.cli.program_sources import existing_data, read_source
from tidelog.cli.results import Form, Result, by_predicate, duration, print_result, query_name
from tidelog.cli.statistics import print_statistics
from tidelog.cli.work import HEADERS, LoadedProgram
from tidelog.data.relation import column_names
from tidelog.errors import Diagnostic, SourceText, TidelogError, codes, counted, suggest
from tidelog.errors.codes import EMPTY_PREDICATE
from tidelog.logic.resolve import SUFFIX
from tidelog.plan.rule_text import Writing
from tidelog.reasoner.delta import Delta
from tidelog.syntax import ast
from tidelog.syntax.lexer import ANONYMOUS, END, VARIABLE, Lexer, Tokens
from tidelog.syntax.parser import parse, parse_literals

COMMANDS: Final = {
    ":help": "this list",
    ":predicates": "the predicates, their columns, and how many facts they have",
    ":rules": "the rules",
    ":stats": "what each rule did, or how the last change was applied",
    ":load": "FILE   add a program, or the facts in a data file",
    ":quit": "leave; so does Ctrl-D",
}
# Commands of other prompts.
_OTHER_NAMES: Final = {
    "help": ":help",
    "?": ":help",
    "quit": ":quit",
    "exit": ":quit",
    ":q": ":quit",
    ":exit": ":quit",
}
_HELP: Final = """\
A fact or rule adds it:      parent(alice, bob) .
                             ancestor(?x, ?y) :- parent(?x, ?y) .
A `-` deletes it:            - parent(alice, bob) .
A query asks:                ?- ancestor(alice, ?x) .      or just  ancestor(alice, ?x)
A statement may take several lines; it ends with a full stop.
"""
PROMPT, CONTINUED = "tidelog> ", "     ... "

Texts = Iterator[str]


def repl(options: Namespace) -> int:
    """The exit code of `tidelog repl`: 0 from a terminal, else that of the worst that happened."""
    is_terminal = sys.stdin.isatty()
    with LoadedProgram(options) as work:
        work.reasoner.runtime.started = None  # the timeout is for each question, not for the session
        session = Session(work, is_terminal)
        session.begin()
        for text in _texts(session, is_terminal):
            if not session.take(text):
                break
    return 0 if is_terminal else session.worst


class Session:
    """What has been said so far. Mutable: every text changes it."""

    def __init__(self, work: LoadedProgram, is_talkative: bool) -> None:
        self.work = work
        self.worst = 0
        self.form = Form("table", rows=work.options.rows)
        self._is_talkative = is_talkative and not work.messages.quiet
        self._commands: dict[str, Callable[[str], None]] = {
            ":help": self._help,
            ":predicates": self._predicates,
            ":rules": self._rules,
            ":stats": self._statistics,
            ":load": self._load,
        }

    def begin(self) -> None:
        """Greet, and read what the command line names."""
        if self._is_talkative:
            self.work.messages.say(f"tidelog {__version__}: `:help` for help, `:quit` to leave")
        self.work.warn(about_unused=False)
        with self.work.showing_progress():
            self.work.read()

    def take(self, text: str) -> bool:
        """Do what a text says; false if it says to leave."""
        word, _, argument = text.strip().partition(" ")
        word = _OTHER_NAMES.get(word, word)
        if word == ":quit":
            return False
        try:
            if is_command(text):
                self._command(word, argument.strip())
            elif is_question(text):
                self._ask(text.strip())
            else:
                self._statements(SourceText("<repl>", text))
        except TidelogError as error:
            self.work.messages.diagnose(error.diagnostics)
            self.worst = max(self.worst, error.exit_code)
        except KeyboardInterrupt:
            self.work.messages.say("interrupted")
        return True

    # ---- statements

    def _statements(self, source: SourceText, folder: Path | None = None) -> None:
        """Add the statements of a text and answer its queries, in order."""
        waiting: list[ast.Statement] = []
        for statement in parse(source).statements:
            if isinstance(statement, ast.QueryNode):
                self._add(waiting, folder)
                waiting = []
                self._ask(_text(source, statement))
            else:
                waiting.append(statement)
        self._add(waiting, folder)

    def _add(self, statements: list[ast.Statement], folder: Path | None) -> None:
        """Apply the insertions and deletions of statements as one transaction."""
        if not statements:
            return
        document = ast.DocumentNode(tuple(statements))
        with self.work.showing_progress(), self.work.reasoner.change() as change:
            change.take(document, unsigned="+", folder=folder or Path())
        # Here rules often come before their facts.
        warned = [item for item in change.program.warnings if item.code != EMPTY_PREDICATE]
        self.work.messages.diagnose(warned)
        self._print_delta(change.delta)

    def _print_delta(self, delta: Delta) -> None:
        if self._is_talkative:
            summary = f"  ({by_predicate(delta)})" if delta else ""
            self.work.messages.say(f"{delta}{summary}  {duration(delta.seconds)}")

    def _ask(self, text: str) -> None:
        with self.work.showing_progress():
            answers = self.work.reasoner.query(text)
        print_result(Result(query_name(text), len(answers.columns), lambda: answers, "query"), self.form)

    # ---- commands

    def _command(self, word: str, argument: str) -> None:
        command = self._commands.get(word)
        if command is None:
            help = suggest(word, COMMANDS) or "`:help` lists the commands"
            raise TidelogError(Diagnostic(codes.UNKNOWN_COMMAND, f"unknown command `{word}`", help=help))
        command(argument)

    def _help(self, _: str) -> None:
        print(_HELP)
        for name, meaning in COMMANDS.items():
            print(f"  {name:<13}{meaning}")

    def _predicates(self, _: str) -> None:
        reasoner = self.work.reasoner
        with self.work.showing_progress():
            reasoner.materialise()
        for predicate in reasoner.program.predicates.values():
            count = reasoner.sizes.size(predicate.name)
            columns = ", ".join(column_names(predicate))
            show(f"{predicate.written}({columns})  {counted(count, 'fact')}")

    def _rules(self, _: str) -> None:
        program = self.work.program
        writing = Writing.of(program)
        for number, rule in enumerate(program.rules, 1):
            show(f"{number:>3}  {writing.rule(rule)}")

    def _statistics(self, _: str) -> None:
        print_statistics(self.work)

    def _load(self, name: str) -> None:
        if not name:
            message = "`:load` needs the name of a file"
            raise TidelogError(Diagnostic(codes.UNKNOWN_COMMAND, message, help="such as `:load family.rls`"))
        path = Path(name).expanduser()
        if path.suffix == SUFFIX:
            self._statements(read_source(str(path)), path.parent)
            return
        with self.work.showing_progress():
            new = self.work.reasoner.read(
                *existing_data([path]), header=HEADERS[self.work.options.input_header]
            )
        if self._is_talkative:
            self.work.messages.say(f"added {counted(new, 'fact')}")


def _text(source: SourceText, statement: ast.Statement) -> str:
    """The text of a statement, on the lines on which it stands in the source."""
    assert statement.span is not None
    line, column = source.position(statement.span.start)
    return "\n" * (line - 1) + " " * (column - 1) + statement.span.text


# ---- the source of texts


def is_command(text: str) -> bool:
    """Whether a text is a command, not a statement about a name with an empty prefix.

    >>> is_command(":rules"), is_command(":p(:a) .")
    (True, False)
    """
    word = text.strip().partition(" ")[0]
    return (
        text.strip() in _OTHER_NAMES
        or word in COMMANDS
        or (word.startswith(":") and word[1:].isalpha() and "." not in text)
    )


def is_question(text: str) -> bool:
    """Whether a text is literals with variables and nothing else, which can only be a query.

    >>> is_question("ancestor(ada, ?x)"), is_question("ancestor(ada, bruno) ."), is_question("p(?x) :-")
    (True, False, False)
    """
    source = SourceText("<repl>", text)
    try:
        parse_literals(source)
    except TidelogError:
        return False
    kinds = Lexer(source).read().kinds
    return VARIABLE in kinds or ANONYMOUS in kinds


def is_ready(text: str) -> bool:
    """Whether Enter at a prompt hands a text in: it is complete, or a query without its signs."""
    return is_complete(text) or is_question(text)


def is_complete(text: str) -> bool:
    """Whether a text is a command, or statements that all have their full stop.

    >>> is_complete("p(a) ."), is_complete("p(?x) :-")
    (True, False)
    """
    if is_command(text):
        return True
    lexer = Lexer(SourceText("<repl>", text))
    tokens = Tokens(kinds=["."])
    while tokens.kinds[-1] != END:
        tokens = lexer.read()
    fault_codes = {item.code for item in lexer.diagnostics}
    is_open = codes.UNTERMINATED_COMMENT in fault_codes
    is_open |= codes.UNTERMINATED_STRING in fault_codes and text.count('"""') % 2 == 1
    return not is_open and (bool(fault_codes) or len(tokens.kinds) == 1)


def _texts(session: Session, is_terminal: bool) -> Texts:
    """The texts to take, each a command or whole statements."""
    if not is_terminal:
        return _gathered(iter(sys.stdin.readline, ""))
    try:
        from tidelog.cli.commands.prompt import prompted
    except ImportError:
        return _typed()
    return prompted(session)


def _gathered(lines: Iterator[str]) -> Texts:
    """Lines put together until they are complete."""
    text = ""
    for line in lines:
        text += line
        if is_complete(text):
            yield text
            text = ""
    if text.strip():
        yield text


def _typed() -> Texts:
    """What is typed at a plain prompt."""
    with suppress(ImportError):
        import readline  # noqa: F401 - editing and history for `input`
    text = ""
    while True:
        try:
            text += input(CONTINUED if text else PROMPT) + "\n"
        except EOFError:
            print(file=sys.stderr)
            return
        except KeyboardInterrupt:
            print(file=sys.stderr)
            text = ""
            continue
        if is_ready(text) or not text.splitlines()[-1].strip():
            yield text
            text = ""
