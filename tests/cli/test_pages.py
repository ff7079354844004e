"""The pages of plan, explain, profile and timeline: one look, whole, and readable without a network."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from tests.cli.conftest import Tidelog, Write

BOILER = "hot(s1)@[0, 10) . alarm(?s) :- boxminus[0, 5] hot(?s) ."
COMMANDS = {
    "plan": ("plan", "family.rls"),
    "explain": ("explain", "family.rls", "ancestor(?x, ?y)", "--limit", "2"),
    "profile": ("profile", "family.rls"),
    "timeline": ("timeline", "boiler.rls", "hot(?s)", "alarm(?s)"),
}
VOID = frozenset({"meta", "path", "rect", "circle", "line", "br"})


class Page(HTMLParser):
    """The tags of a page, and which of them are open at its end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture
def pages(tidelog: Tidelog, write: Write) -> dict[str, str]:
    """The pages of the commands."""
    write("boiler.rls", BOILER)
    return {name: tidelog(*words, "--format", "html").output for name, words in COMMANDS.items()}


def test_pages_share_one_style_and_need_nothing_else(pages: dict[str, str]) -> None:
    styles = {re.findall(r"<style>\n(.*?)</style>", page, re.DOTALL)[0] for page in pages.values()}
    assert len(styles) == 1
    for text in pages.values():
        page = Page(text)
        assert page.open == []
        tags = [tag for tag, _ in page.tags]
        assert "script" not in tags and "link" not in tags and "url(" not in text
        assert {"main", "header", "h1", "section"} <= set(tags)


def test_steps_of_a_proof_that_stand_side_by_side_are_of_one_class(pages: dict[str, str]) -> None:
    steps = [attributes["class"] for tag, attributes in Page(pages["explain"]).tags if tag == "details"]
    leaves = [attributes["class"] for tag, attributes in Page(pages["explain"]).tags if tag == "div"]
    assert steps and leaves
    assert all(names is not None and names.startswith("step ") for names in (*steps, *leaves))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_ending_of_the_output_tells_the_format(
    name: str, pages: dict[str, str], tidelog: Tidelog
) -> None:
    words = COMMANDS[name]
    assert tidelog(*words, "-o", "page.html").error.endswith("wrote page.html\n")
    done = tidelog(*words, "-o", "page.png")
    assert done.code == 2 and "the name `page.png` does not tell the format" in done.error
