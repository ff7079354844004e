"""A restart makes no difference: to facts, flags, counters and ranks, over random programs and changes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.changes.oracle import held
from tests.changes.test_laws import History, begun, carry_out, histories, script
from tests.store.imprint import imprint
from tidelog.opening import StoredReasoner

pytestmark = pytest.mark.usefixtures("kernels")

NOTHING, CRASH, CLOSE = "nothing", "crash", "close"
fewer = settings(max_examples=settings().max_examples * 2 // 5)


def again(reasoner: StoredReasoner, how: str, path: Path, maintainer: str) -> StoredReasoner:
    """The reasoner after a restart, or none."""
    if how == NOTHING:
        return reasoner
    if how == CLOSE:
        reasoner.close()
    else:
        crash(reasoner)
    return tl.open(path, maintainer=maintainer, threads=1)


def crash(reasoner: StoredReasoner) -> None:
    """Let a store be as if the process had ended."""
    assert reasoner._store is not None
    reasoner._store.abandon()


@fewer
@given(
    history=histories(),
    endings=st.lists(st.sampled_from([NOTHING, CRASH, CLOSE]), min_size=5, max_size=5),
    maintainer=st.sampled_from(["auto", "rank-counting", "dred"]),
)
def test_a_restart_makes_no_difference(history: History, endings: list[str], maintainer: str) -> None:
    state = begun(history)
    names = list(state.arities)
    program = tl.parse(state.text)
    lasting = tl.Reasoner(program, maintainer=maintainer, threads=1)
    lasting.materialise()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        stored = tl.open(path, program, maintainer=maintainer, threads=1)
        for transaction, how in zip(history.transactions, endings, strict=False):
            stored = again(stored, how, path, maintainer)
            assert imprint(stored) == imprint(lasting)
            text = script(transaction)
            lasting.apply(text)
            stored.apply(text)
            carry_out(state, transaction)
            assert imprint(stored) == imprint(lasting)
        stored = again(stored, endings[-1], path, maintainer)
        assert imprint(stored) == imprint(lasting)
        assert held(stored, names) == state.expected()
        assert stored.commits <= lasting.commits  # what changes nothing is not recorded
        assert stored.program.rules == lasting.program.rules
        assert stored.program.predicates == lasting.program.predicates
        stored.close()
