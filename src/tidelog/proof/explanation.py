"""Explanations: the proofs of a fact, or of the answers to a query, as people and programs read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.errors import counted
from tidelog.plan.rule_text import Writing
from tidelog.proof.node import Node
from tidelog.proof.words import Words


@dataclass(frozen=True)
class Explanation:
    """Why a fact holds, or why the answers to a query are answers.

    Each proof is a `Node`; `str` and notebooks show them whole, the methods take a `depth` to stop at.
    """

    query: str
    proofs: tuple[Node, ...]
    writing: Writing
    omitted: int = 0  # answers that are not explained, for there are more than were asked for

    def to_text(self, depth: int | None = None) -> str:
        """The proofs as trees, drawn with lines."""
        from tidelog.show import proof_draw

        return "\n".join(proof_draw.text_lines(self.proofs, self.words, depth)) + "\n" + self._omission

    def to_json(self) -> dict[str, object]:
        """The proofs as plain JSON values: nodes by number, each with the numbers of its children."""
        from tidelog.show import proof_draw

        return {"query": self.query, **proof_draw.records(self.proofs, self.words), "omitted": self.omitted}

    def to_html(self, depth: int | None = None) -> str:
        """A page of its own; steps below the depth are folded."""
        from tidelog.plan.page import document

        count = f"{len(self.proofs):,} proof{'' if len(self.proofs) == 1 else 's'}"
        summary = [count, f"height {', '.join(f'{height:,}' for height in self.heights)}"]
        footer = f"<footer>{self._omission}</footer>\n" if self.omitted else ""
        return document(self.query, summary, self.to_html_fragment(depth) + footer)

    def to_html_fragment(self, depth: int | None = None) -> str:
        """The same without the page around it."""
        from tidelog.show import proof_draw

        return proof_draw.folding_lists(self.proofs, self.words, depth)

    def to_dot(self, depth: int | None = None) -> str:
        """A graph for Graphviz: a fact that is used twice is there once."""
        from tidelog.show import proof_draw

        return proof_draw.dot_text(self.proofs, self.words, depth)

    @property
    def words(self) -> Words:
        """How nodes are written."""
        return Words(self.writing)

    @property
    def heights(self) -> Sequence[int]:
        """The heights of the proofs."""
        return tuple(proof.height for proof in self.proofs)

    @property
    def _omission(self) -> str:
        if not self.omitted:
            return ""
        return f"… and {counted(self.omitted, 'more answer')}\n"

    def __str__(self) -> str:
        return self.to_text().rstrip("\n")

    def __repr__(self) -> str:
        return f"<Explanation of {self.query}: {counted(len(self.proofs), 'proof')}>\n{self}"

    def _repr_html_(self) -> str:
        return self.to_html_fragment()
