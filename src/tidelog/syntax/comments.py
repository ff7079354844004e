"""Which comment belongs to what, so that the formatter can put each back near where it stood."""

from __future__ import annotations

from bisect import bisect_right
from typing import TypedDict

from tidelog.errors import Span
from tidelog.syntax.ast import Note
from tidelog.syntax.tokens import Comment, Tokens


class Place(TypedDict):
    """What all statements have: their span, and the comments before, inside and behind them."""

    span: Span
    comments: tuple[str, ...]
    notes: tuple[Note, ...]
    remark: str | None


def place(span: Span, tokens: Tokens, literals: list[int]) -> Place:
    """The place of a statement whose body's literals begin at these tokens."""
    text = span.source.text
    if not tokens.comments and tokens.remark is None and text.count("\n", tokens.before, span.start) < 2:
        return {"span": span, "comments": (), "notes": (), "remark": None}
    before = comments_before(text, tokens)
    remark = None if tokens.remark is None else tokens.remark.rstrip()
    notes: list[Note] = []
    for comment in tokens.comments:
        written = text[comment.start : comment.end].rstrip()
        if not comment.index:
            continue
        if not literals or comment.index < literals[0]:
            before.append(written)
        elif comment.index == len(tokens.kinds) - 1 and remark is None and "\n" not in written:
            remark = written
        else:
            notes.append(_note(text, tokens, literals, comment, written, notes))
    return {"span": span, "comments": tuple(before), "notes": tuple(notes), "remark": remark}


def comments_before(text: str, tokens: Tokens) -> list[str]:
    """The comments before the first token; several empty lines count as one, at the top as none."""
    written: list[str] = []
    position = tokens.before
    for comment in tokens.comments:
        if comment.index:
            break
        if position and text.count("\n", position, comment.start) > 1:
            written.append("")
        written.append(text[comment.start : comment.end].rstrip())
        position = comment.end
    if position and text.count("\n", position, tokens.starts[0]) > 1:
        written.append("")
    return written


def _note(
    text: str, tokens: Tokens, literals: list[int], comment: Comment, written: str, notes: list[Note]
) -> Note:
    """The comment as a note on the literal around it, behind the literal before it, or before the next."""
    literal = bisect_right(literals, comment.index - 1) - 1
    is_last = literal + 1 == len(literals)
    following = len(tokens.kinds) if is_last else literals[literal + 1]
    is_behind = (
        not is_last
        and comment.index >= following - 1
        and "\n" not in text[tokens.ends[comment.index - 1] : comment.end]
        and "\n" in text[comment.end : tokens.starts[following]]
        and not (notes and notes[-1].is_behind and notes[-1].index == literal)
    )
    if is_behind:
        return Note(literal, written, is_behind=True)
    return Note(literal + (comment.index == following), written, is_behind=False)
