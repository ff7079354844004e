"""What tables need of an engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from tidelog.engine.protocol import Engine, Runnable
from tidelog.logic.values import Value

Rows = tuple[tuple[Any, ...], int]  # columns of ids, and how many rows


class Group(Protocol):
    """Relations whose rounds end together; none of them is dropped."""


class TabledEngine(Engine, Protocol):
    """An engine that can keep tables."""

    def add(self, relation: str, columns: Sequence[Any], rows: int) -> int:
        """Add rows of ids; returns how many were new."""

    def rows(self, relation: str) -> tuple[tuple[Any, ...], int]:
        """The columns of a relation, in the order in which rows came, and how many rows it has."""

    def identity(self, value: Value) -> int:
        """The id of a value."""

    def clear(self, relation: str) -> None:
        """Forget all facts of a relation; plans that were prepared go on reading and filling it."""

    def group(self, relations: Collection[str]) -> Group:
        """Relations whose rounds end together."""

    def advance_group(self, group: Group) -> Sequence[str]:
        """End a round of each relation: what came is NEW; gives those of which something is."""

    def run_together(self, prepared: Sequence[Runnable]) -> list[int]:
        """Run what is ready to run, in turn; how many new facts each has found."""

    def reveal(self, relation: str) -> None:
        """Let facts that came be NEW too, together with those that are."""

    def new_rows(self, relation: str) -> tuple[tuple[Any, ...], int]:
        """The columns of what is NEW of a relation, and how many rows these are."""

    def show(self, relations: Collection[str]) -> None:
        """Let all facts of the relations be visible, none of them as NEW."""

    def define(self, relation: str, arity: int, dense_bytes: int | None = None) -> None:
        """Make an empty relation, unless it is there; `dense_bytes` bound what its set may take for speed."""

    def plan_to_keep(self, relations: Collection[str]) -> None:
        """Let `generation` change when one of the relations is dropped."""

    @property
    def generation(self) -> int:
        """Changes when plans that are kept must be prepared anew."""

    def follow(self, relation: str) -> tuple[Rows, Rows] | None:
        """What has gone from a relation, and come to it, since this was last asked; None if not known."""

    def remove(self, relation: str, columns: Sequence[Any], rows: int) -> None:
        """Let rows of ids be no facts any more."""

    def standing(self, relation: str, columns: Sequence[Any], rows: int) -> Any:
        """The flags of each given row; 0 where it is no fact."""

    def appended(self, relation: str, first: int) -> tuple[tuple[Any, ...], int]:
        """The facts of a relation from a row on."""

    def has_dead(self, relation: str) -> bool:
        """Whether some rows of a relation are no facts."""

    def bytes_of(self, relation: str) -> int:
        """The memory that a relation and its indexes hold."""

    def relations(self) -> Collection[str]:
        """The relations that are there."""
