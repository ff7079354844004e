"""Engines by name, and by a description."""

from __future__ import annotations

from typing import ClassVar

import pytest

import tidelog as tl
from tidelog.engine.columnar.engine import ColumnarEngine, ColumnarSettings, make, settings_of


class Counting(ColumnarSettings):
    """Settings of an engine that remembers what it has made."""

    made: ClassVar[list[ColumnarEngine]] = []

    def make(self, threads: int | None, relations: int) -> ColumnarEngine:
        engine = make(threads, relations)
        self.made.append(engine)
        return engine


def test_a_reasoner_runs_on_the_engine_that_its_settings_make() -> None:
    reasoner = tl.Reasoner(tl.parse("q(?x) :- p(?x) . p(1) ."), engine=Counting())
    assert sorted(reasoner["q"]) == [(1,)]
    assert [engine.storage.size("q") for engine in Counting.made] == [1]


def test_an_unknown_engine_is_an_error_with_a_proposal() -> None:
    with pytest.raises(tl.ProgramError) as caught:
        tl.Reasoner(engine="colunmar")
    fault = caught.value.diagnostics[0]
    assert (fault.code, fault.help) == ("E620", "did you mean `columnar`?")
    with pytest.raises(tl.ProgramError):
        settings_of(3)  # type: ignore[arg-type]
