"""`tidelog repl`, scripted, and the parts of its prompt."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from tests.cli.conftest import Done, Tidelog, Write
from tidelog.cli.arguments import parse_arguments
from tidelog.cli.commands.prompt import Completing, Highlighting, _history
from tidelog.cli.commands.repl import Session, is_complete, is_ready
from tidelog.cli.work import LoadedProgram


@pytest.fixture
def say(tidelog: Tidelog, monkeypatch: pytest.MonkeyPatch) -> Tidelog:
    """The repl, given a text as its input."""

    def run(text: str, *arguments: str) -> Done:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return tidelog("repl", *arguments)

    return run


def test_facts_and_rules_add_and_queries_ask(say: Tidelog) -> None:
    done = say("p(1) . p(2) .\nq(?x) :-\n  p(?x), % half\n  ?x > 1 .\n?- q(?x) .\np(3) .\n?- q(?x) .\n")
    assert (done.code, done.error) == (0, "")
    assert done.output == ("?- q(?x) .  1 row\n  x\n  ─\n  2\n?- q(?x) .  2 rows\n  x\n  ─\n  2\n  3\n")


def test_it_begins_with_a_program_and_data(say: Tidelog, write: Write) -> None:
    write("parent.csv", "carol,dave\n")
    done = say("?- ancestor(?x, dave) .", "family.rls", "--data", "parent.csv")
    assert done.output.startswith("?- ancestor(?x, dave) .  3 rows\n")
    assert done.output.split()[-3:] == ["alice", "bob", "carol"]


def test_facts_and_rules_are_taken_away(say: Tidelog) -> None:
    changes = "- p(1) .\n?- q(?x) .\n+ p(3) . - q(?y) :- p(?y) .\n?- q(?x) .\n?- p(?x) .\n"
    done = say("p(1) . p(2) . q(?x) :- p(?x) .\n" + changes)
    assert (done.code, done.error) == (0, "")
    assert [line.split("  ")[-1] for line in done.output.splitlines() if "?-" in line] == [
        "1 row",
        "0 rows",
        "2 rows",
    ]


def test_what_is_not_there_cannot_be_taken_away(say: Tidelog) -> None:
    done = say("p(1) . q(?x) :- p(?x) .\n- q(1) .\n- p(2) .\n- q(?x) :- p(?x), p(?x) .\n?- q(?x) .\n")
    assert done.code == 1
    assert [code in done.error for code in ("E631", "E630", "E632")] == [True, True, True]
    assert "q(?x) .  1 row" in done.output


def test_a_fault_does_not_end_it(say: Tidelog) -> None:
    done = say("p(1) .\nq(?x) :- p(?y) .\n?- nothing(?x) .\n?- p(?x) .\n")
    assert done.code == 1
    assert "error[E301]" in done.error
    assert "error[E214]" in done.error
    assert "p(?x) .  1 row" in done.output


def test_the_worst_exit_code_is_returned(say: Tidelog) -> None:
    assert say("bottom() :- p(1) . p(1) .\n?- p(?x) .\np(\n:nonsense\n").code == 3


def test_places_are_those_of_the_input(say: Tidelog) -> None:
    done = say("p(1) . ?- p(?x) . q(?x) :- p(?y) .\n")
    assert "<repl>:1:" in done.error


def test_an_unfinished_statement_at_the_end_is_an_error(say: Tidelog) -> None:
    assert "error[E108]" in say("p(1)").error


def test_commands(say: Tidelog, write: Write) -> None:
    write("edge.csv", "1,2\n2,3\n")
    write("more.rls", "reach(?x, ?y) :- edge(?x, ?y) .\n?- reach(1, ?y) .\n")
    done = say(
        ":load edge.csv\n:load more.rls\n:predicates\n:rules\n:help\n:stats\n:quit\n?- reach(?x, ?y) .\n"
    )
    assert done.code == 0
    assert "edge(c1, c2)  2 facts\n" in done.output
    assert "reach(x, y)  2 facts\n" in done.output
    assert "  1  reach(?x, ?y) :- edge(?x, ?y) .\n" in done.output
    assert ":predicates" in done.output
    assert "2 facts loaded" in done.error
    assert "?- reach(?x, ?y)" not in done.output


def test_statistics_of_the_last_change(say: Tidelog) -> None:
    done = say("q(?x) :- p(?x) . p(1) .\n?- q(?x) .\n:stats\n")
    assert "auto chose rank-counting: 16 facts or fewer change" in done.error
    assert "1 rule" not in done.error


def test_unknown_commands_and_files(say: Tidelog) -> None:
    done = say(":rule\n:load missing.rls\n:load missing.csv\n:load\n")
    assert done.code == 1
    assert "did you mean `:rules`?" in done.error
    assert done.error.count("error[E501]") == 2
    assert "error[E703]: `:load` needs the name of a file" in done.error


def test_names_with_an_empty_prefix_are_no_commands(say: Tidelog) -> None:
    done = say("@prefix : <http://e.org/> .\n:p(:a) .\n?- :p(?x) .\n")
    assert done.code == 0
    assert "http://e.org/a" in done.output


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        ("", True),
        ("% a comment", True),
        ("p(1) .", True),
        ("p(1) . q(2)", False),
        ("p(?x) :-", False),
        ("p(1.5)", False),
        ('p("""one\ntwo', False),
        ('p("""one\ntwo""") .', True),
        ("/* not\n", False),
        ('p("one', True),  # a fault, better told at once
        (":rules", True),
        (":p(1)", False),
    ],
)
def test_whole_texts(text: str, is_whole: bool) -> None:
    assert is_complete(text) is is_whole


# ---- the prompt


@pytest.fixture
def session() -> Session:
    """A session with a program."""
    return Session(LoadedProgram(parse_arguments(["repl", "family.rls"])), is_talkative=True)


def completed(session: Session, text: str) -> list[str]:
    """What the text before the cursor can become."""
    found = Completing(session).get_completions(Document(text), CompleteEvent())
    return [completion.text for completion in found]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("anc", "ancestor"),
        ("p(?who) :- parent(?w", "?who"),
        ("@dec", "@declare"),
        ("p(#co", "#count"),
        ("p(?x) :- q(?x), STRL", "STRLEN"),
        (":pre", ":predicates"),
    ],
)
def test_completion(text: str, word: str, session: Session) -> None:
    assert word in completed(session, text)


def test_nothing_to_complete(session: Session) -> None:
    assert completed(session, "p(1, ") == []
    assert completed(session, "ancestor") == []


def test_highlighting_keeps_lines() -> None:
    line = Highlighting().lex_document(Document("p(?x) :-\n  q(?x) . % why"))
    assert "".join(piece[1] for piece in line(0)) == "p(?x) :-"
    assert ("class:comment", "% why") in line(1)
    assert ("class:predicate", "q") in line(1)
    assert line(7) == []


def test_history_lies_in_the_state_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    _history().append_string("p(1) .")
    assert "p(1) ." in (folder / "state" / "tidelog" / "history").read_text()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "family.rls"))
    _history().append_string("p(1) .")


def test_talkative_sessions_say_what_they_did(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.begin()
    session.take("parent(carol, dave) . child(?y) :- parent(_, ?y) .")
    said = capsys.readouterr().err
    assert "`:help` for help" in said
    assert "+7 −0  (parent +1 −0, ancestor +3 −0, child +3 −0)" in said


def test_a_terminal_without_prompt_toolkit_has_a_plain_prompt(
    tidelog: Tidelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    words: list[str | type[BaseException]] = ["p(1)", KeyboardInterrupt, "p(2)", ".", "?- p(?x) .", "p("]
    typed = iter([*words, EOFError])
    prompts: list[str] = []

    def typing(prompt: str) -> str:
        prompts.append(prompt)
        word = next(typed)
        if isinstance(word, str):
            return word
        raise word

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", typing)
    monkeypatch.setitem(sys.modules, "tidelog.cli.commands.prompt", None)
    done = tidelog("repl")
    assert done.code == 0
    assert done.output == "?- p(?x) .  1 row\n  x\n  ─\n  2\n"
    assert "+1 −0  (p +1 −0)" in done.error
    assert [prompt.strip() for prompt in prompts] == [
        "tidelog>",
        "...",
        "tidelog>",
        "...",
        "tidelog>",
        "tidelog>",
        "...",
    ]


@pytest.mark.parametrize("word", ["help", "?", ":help"])
def test_help_is_found_by_the_words_people_try(word: str, say: Tidelog) -> None:
    assert ":predicates" in say(f"{word}\n").output


def test_literals_with_variables_are_asked(say: Tidelog) -> None:
    asked = say("?- ancestor(alice, ?x) .\n", "family.rls")
    assert asked.output.count("\n") == 5
    assert say("ancestor(alice, ?x) .\n", "family.rls") == asked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ancestor(alice, ?x)", True),
        ("?- ancestor(alice, ?x)", True),
        ("p(?x), ~q(?x)", True),
        ("p(?x),", False),
        ("p(?x) :-", False),
        ("p(a)", False),
        ("p(", False),
    ],
)
def test_enter_hands_in_questions_without_their_signs(text: str, expected: bool) -> None:
    assert is_ready(text) is expected
