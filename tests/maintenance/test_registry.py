"""Maintainers by name."""

from __future__ import annotations

import pytest

import tidelog as tl
from tidelog.errors import ProgramError


@pytest.mark.parametrize("name", ["forward-backward-forward", "forward-backward-forward:0", "rank-counting"])
def test_a_maintainer_is_chosen_by_name(name: str) -> None:
    reasoner = tl.Reasoner(tl.parse("q(?x) :- p(?x) . p(1) ."), maintainer=name)
    with reasoner.change() as change:
        change.insert("p", [(2,)])
    assert str(change.delta) == "+2 −0"


@pytest.mark.parametrize(
    "name", ["forward-backward-forward:", "forward-backward-forward:x", "dred:3", "ranks"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ProgramError, match="unknown maintainer"):
        tl.Reasoner(maintainer=name)
