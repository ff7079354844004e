"""A restart makes no difference: to facts, flags, counters and ranks, over random programs and changes."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.changes.oracle import held
from tests.changes.test_laws import History, begun, carry_out, histories, script
from tests.equality import scripts as equality
from tests.store.imprint import imprint
from tests.temporal import test_changes as temporal
from tidelog.errors import Inconsistent
from tidelog.reasoner.storing import StoredReasoner

NOTHING, CRASH, CLOSE = "nothing", "crash", "close"
ENDINGS = st.lists(st.sampled_from([NOTHING, CRASH, CLOSE]), min_size=5, max_size=5)
fewer = settings(max_examples=settings().max_examples * 2 // 5)


def again(reasoner: StoredReasoner, how: str, path: Path, maintainer: str = "auto") -> StoredReasoner:
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
    endings=ENDINGS,
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


@fewer
@given(script=equality.scripts(rules_change=True), endings=ENDINGS)
def test_a_restart_makes_no_difference_to_classes(script: equality.Script, endings: list[str]) -> None:
    stored = follow(script.text, [change.text for change in script.changes], endings)
    assert stored._program.equality.name == "rewrite"


@fewer
@given(script=temporal.scripts(), endings=ENDINGS)
def test_a_restart_makes_no_difference_to_times(
    script: tuple[list[str], list[list[str]]], endings: list[str]
) -> None:
    have, transactions = script
    text = "\n".join([temporal.DECLARED, *have])
    stored = follow(text, ["\n".join(each) for each in transactions], endings, time=temporal.HORIZON)
    assert stored.time.settings == temporal.HORIZON


def follow(text: str, scripts: list[str], endings: list[str], **settings: Any) -> StoredReasoner:
    """Carry changes out with restarts and without; nothing may differ. Changes may be refused by both."""
    program = tl.parse(text)
    lasting = tl.Reasoner(program, threads=1, **settings)
    with contextlib.suppress(Inconsistent):
        lasting.materialise()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        stored = tl.open(path, program, threads=1, **settings)
        for script, how in zip((*scripts, ""), endings, strict=False):
            stored = again(stored, how, path)
            assert imprint(stored) == imprint(lasting)
            assert outcome(stored, script) == outcome(lasting, script)
            assert imprint(stored) == imprint(lasting)
        stored.close()
    return stored


def outcome(reasoner: tl.Reasoner, script: str) -> object:
    """The net change of a transaction, or what is wrong with it."""
    try:
        delta = reasoner.apply(script, missing="ignore")
    except tl.TidelogError as error:
        return [(each.code, each.message) for each in error.diagnostics]
    return sorted(map(str, delta))
