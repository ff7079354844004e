"""Rows of texts that a transaction looks up all at once: the same facts as one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

import tidelog as tl
from tests.changes.oracle import held

PROGRAM = """
    @declare word(text: string) .
    pair(a, b) .
    both(?x, ?y) :- pair(?x, ?y), word(?y) .
"""
# Names, numbers, strings of all kinds; few of each, so that rows are given twice and deleted.
TEXTS = some.sampled_from(
    ["a", "b", "1", "-2.5", "two words", "", "é", "日本", "http://e.org/x", "true", "_"]
)
WORDS = some.lists(some.tuples(TEXTS), max_size=12)
PAIRS = some.lists(some.tuples(TEXTS, TEXTS), max_size=12)


def made_of(words: list[tuple[str]], pairs: list[tuple[str, str]], together: bool) -> tl.Reasoner:
    """A reasoner to which rows were given in one transaction, or each row in one of its own, as data."""
    reasoner = tl.Reasoner(tl.parse(PROGRAM))
    reasoner.materialise()
    if together:
        with reasoner.change() as change:
            change.insert("word", words)
            change.insert("pair", pairs)
            change.insert("pair", pairs[:3])
        assert change.inserted == len(set(words)) + len({*pairs} - {("a", "b")})
    else:
        for row in words:
            reasoner.insert("word", iter([row]))
        for pair in pairs:
            reasoner.insert("pair", iter([pair]))
    return reasoner


@given(words=WORDS, pairs=PAIRS)
def test_texts_that_are_looked_up_together_are_those_that_are_looked_up_alone(
    words: list[tuple[str]], pairs: list[tuple[str, str]]
) -> None:
    together, alone = made_of(words, pairs, together=True), made_of(words, pairs, together=False)
    assert held(together, list(together)) == held(alone, list(alone))
    with together.change() as change:
        change.delete("word", words)
        change.delete("pair", [pair for pair in pairs if pair != ("a", "b")])
    empty = made_of([], [], together=False)
    assert held(together, list(together)) == held(empty, list(empty))
