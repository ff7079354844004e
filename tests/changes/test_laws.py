"""Laws of transactions, over random programs and random changes of their facts and rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import tidelog as tl
from tests.changes.oracle import Row, State, changed, difference, fact_text, held
from tests.strategies import EVERYTHING, Case, cases, distinct
from tidelog.engine.events import MaintainerChosen
from tidelog.maintenance.registry import MAINTAINERS, MARKED_NAMES, MARKINGS, RANKS, RENTED

Transaction = tuple[tuple[str, str, Row | None], ...]  # sign, predicate or rule, row if fact
Apply = Callable[[Transaction], tl.Delta]


@dataclass(frozen=True)
class History:
    """A program, and transactions of signed facts and rules."""

    case: Case
    transactions: tuple[Transaction, ...]


@st.composite
def histories(draw: DrawFn) -> History:
    """A program to begin with, and what is toggled in each transaction."""
    case = distinct(draw(cases(EVERYTHING)))
    facts = {(name, row) for name, rows in case.facts.items() for row in rows}
    rules = set(case.rules)
    constant = st.sampled_from(EVERYTHING.constants)
    names = st.sampled_from(sorted(case.arities))
    fact = names.flatmap(lambda name: st.tuples(st.just(name), st.tuples(*[constant] * case.arities[name])))
    known = st.sampled_from(sorted(facts)) if facts else fact
    transactions = []
    for _ in range(draw(st.integers(1, 4))):
        one: list[tuple[str, str, Row | None]] = []
        for item in draw(st.lists(st.one_of(fact, known), max_size=4, unique=True)):
            one.append(("-" if item in facts else "+", *item))
            facts ^= {item}
        for rule in draw(st.lists(st.sampled_from(case.rules), max_size=2, unique=True)):
            one.append(("-" if rule in rules else "+", rule, None))
            rules ^= {rule}
        transactions.append(tuple(draw(st.permutations(one))))
    return History(case, tuple(transactions))


def script(transaction: Transaction) -> str:
    """A transaction as a change script."""
    texts = (f"{sign} {what if row is None else fact_text(what, row)}" for sign, what, row in transaction)
    return "\n".join(texts)


def begun(history: History) -> State:
    """The state before the first transaction."""
    facts = {(name, row) for name, rows in history.case.facts.items() for row in rows}
    return State(history.case.arities, facts, set(history.case.rules))


def carry_out(state: State, transaction: Transaction) -> None:
    """Let the state be what it should be after a transaction."""
    for _, what, row in transaction:
        if row is None:
            state.rules ^= {what}
        else:
            state.facts ^= {(what, row)}


@given(history=histories())
def test_a_transaction_is_like_starting_anew(history: History) -> None:
    follow(history, tl.Reasoner(tl.parse(begun(history).text), maintainer="recompute", threads=1))


@given(history=histories(), hands=st.lists(st.sampled_from([RANKS, RENTED, "recompute"]), min_size=4))
def test_whatever_auto_chooses_is_right(history: History, hands: list[str]) -> None:
    reasoner = tl.Reasoner(tl.parse(begun(history).text), maintainer="auto", threads=1)
    chosen = iter(hands)
    choose = "tidelog.maintenance.registry.Auto._choose"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, lambda auto, *update: MaintainerChosen(next(chosen), "drawn"))
        follow(history, reasoner)


@pytest.mark.parametrize("marking", MARKINGS)
@pytest.mark.parametrize("maintainer", MAINTAINERS)
@given(history=histories(), decides=st.booleans(), weighs=st.booleans())
@settings(max_examples=settings().max_examples // 5)
def test_a_stream_is_like_starting_anew(
    maintainer: str, marking: str, history: History, decides: bool, weighs: bool
) -> None:
    """Whatever is marked, by who decides or always, and however little `auto` thinks worth weighing."""
    if marking in ("literal", "linked") and maintainer not in MARKED_NAMES:
        return
    program = tl.parse(begun(history).text)
    with pytest.MonkeyPatch.context() as patch:
        if weighs:
            for name in ("WORTH_WEIGHING", "SEARCHED", "VISITED", "SMALL"):
                patch.setattr(f"tidelog.maintenance.registry.{name}", 0)
        reasoner = tl.Reasoner(program, maintainer=maintainer, marking=marking, threads=1)
        if reasoner._applier.maintainer.lookahead is not None:
            reasoner._applier.maintainer.lookahead.decides = decides
        transactions = tuple(each for each in history.transactions if each)
        stream = reasoner.stream([script(each) for each in transactions])
        follow(replace(history, transactions=transactions), reasoner, lambda transaction: next(stream))


def follow(history: History, reasoner: tl.Reasoner, apply: Apply | None = None) -> None:
    """Carry out all transactions, and compare everything with what follows from scratch."""
    apply = apply or (lambda transaction: reasoner.apply(script(transaction)))
    state = begun(history)
    names = list(state.arities)
    before = state.expected()
    assert held(reasoner, names) == before
    for transaction in history.transactions:
        delta = apply(transaction)
        carry_out(state, transaction)
        after = state.expected()
        assert held(reasoner, names) == after
        assert changed(delta, names) == difference(before, after)
        stated = {fact for fact in begun(history).facts if fact in state.facts}
        program = reasoner.program
        assert len(program.facts) <= len(stated)
        assert len(program.rules) == len(tl.parse(state.text).rules)
        before = after


@given(history=histories())
@settings(max_examples=settings().max_examples // 2)
def test_undoing_a_transaction_undoes_its_delta(history: History) -> None:
    state = begun(history)
    names = list(state.arities)
    reasoner = tl.Reasoner(tl.parse(state.text), threads=1)
    before = held(reasoner, names)
    for transaction in history.transactions:
        done = reasoner.apply(script(transaction))
        opposite = {"+": "-", "-": "+"}
        undone = reasoner.apply(script(tuple((opposite[sign], what, row) for sign, what, row in transaction)))
        assert held(reasoner, names) == before
        removed, added = changed(done, names)
        assert changed(undone, names) == (added, removed)
        reasoner.apply(script(transaction))
        before = held(reasoner, names)


@given(history=histories())
@settings(max_examples=settings().max_examples // 2)
def test_one_transaction_is_like_many(history: History) -> None:
    state = begun(history)
    names = list(state.arities)
    at_once = tl.Reasoner(tl.parse(state.text), threads=1)
    one_by_one = tl.Reasoner(tl.parse(state.text), threads=1)
    for transaction in history.transactions:
        at_once.apply(script(transaction))
        for change in transaction:
            one_by_one.apply(script((change,)))
    assert held(at_once, names) == held(one_by_one, names)
