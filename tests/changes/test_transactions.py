"""Transactions: what they take, what they refuse, and that a failure leaves everything as before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog as tl
from tests.changes.oracle import held
from tidelog.engine.events import Event, Notice
from tidelog.maintenance.maintainer import NetChange, Update

FAMILY = """
    parent(ada, bruno) .
    parent(bruno, dora) .
    #[name("direct")] ancestor(?x, ?y) :- parent(?x, ?y) .
    ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .
"""


@pytest.fixture
def family() -> tl.Reasoner:
    """A small family, everything derived."""
    reasoner = tl.Reasoner(tl.parse(FAMILY))
    reasoner.materialise()
    return reasoner


def state_of(reasoner: tl.Reasoner) -> object:
    """All that a failed transaction must leave as it was."""
    program = reasoner.program
    return (
        held(reasoner, list(reasoner)),
        program,
        reasoner.statistics.loaded,
        reasoner.statistics.derived,
        reasoner.commits,
    )


def codes_of(error: tl.TidelogError) -> list[str]:
    return [item.code for item in error.diagnostics]


# ---- what a transaction does


def test_facts_and_rules_change_together(family: tl.Reasoner) -> None:
    with family.change() as change:
        change.insert("parent", [("dora", "greta")])
        change.delete("parent", [("ada", "bruno")])
        change.add("elder(?x) :- ancestor(?x, _) .")
        change.remove("ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .")
    delta = change.delta
    assert sorted(delta["ancestor"].added) == [("dora", "greta")]
    assert sorted(delta["ancestor"].removed) == [("ada", "bruno"), ("ada", "dora")]
    assert sorted(delta["elder"].added) == [("bruno",), ("dora",)]
    assert (delta.added, delta.removed, str(delta)) == (4, 3, "+4 −3")
    assert delta.predicates == ("parent", "ancestor", "elder")
    assert delta.number == 1
    assert delta.seconds > 0


def test_a_fact_both_stated_and_derived_survives(family: tl.Reasoner) -> None:
    family.insert("ancestor", [("ada", "dora")])
    delta = family.apply("- ancestor(ada, dora) .")
    assert not delta
    assert str(delta) == "no change"
    assert ("ada", "dora") in family["ancestor"]
    with pytest.raises(tl.ProgramError) as caught:
        family.apply("- ancestor(ada, dora) .")
    assert codes_of(caught.value) == ["E631"]


def test_removals_come_before_additions_in_whatever_order(family: tl.Reasoner) -> None:
    assert not family.apply("+ parent(ada, bruno) . - parent(ada, bruno) .")
    assert ("ada", "bruno") in family["parent"]
    with pytest.raises(tl.ProgramError):
        family.apply("+ parent(x, y) . - parent(x, y) .")
    assert not family.apply(
        "+ anc(?x) :- parent(?x, _) . - ancestor(?x, ?y) :- parent(?x, ?y) . "
        "+ ancestor(?x, ?y) :- parent(?x, ?y) ."
    )["ancestor"]


def test_rules_removed_and_added_by_several_texts_count_once(family: tl.Reasoner) -> None:
    direct = "ancestor(?x, ?y) :- parent(?x, ?y) ."
    with family.change() as change:
        change.remove(direct)
        change.add("elder(?x) :- ancestor(?x, _) .")
        change.add(direct)
        change.insert("parent", [("dora", "greta")])
    assert change.delta["ancestor"].removed.columns
    assert not change.delta["ancestor"].removed
    assert [rule.name for rule in family.program.rules] == ["direct", None, None]


@pytest.mark.parametrize(
    "text",
    [
        "ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .",
        "ancestor(?a, ?b) :- ancestor(?a, ?c), parent(?c, ?b) .",
        "ancestor(?z, ?x) :- parent(?y, ?x), ancestor(?z, ?y) .",
        '#[name("other")]\nancestor(?x,?z):-ancestor(?x,?y),parent(?y,?z).',
    ],
)
def test_a_rule_is_found_by_its_meaning(text: str, family: tl.Reasoner) -> None:
    with family.change() as change:
        change.remove(text)
    assert list(change.delta) == [("-", "ancestor", ("ada", "dora"))]
    assert [rule.name for rule in family.program.rules] == ["direct"]


@pytest.mark.parametrize(
    "text",
    [
        "ancestor(?x, ?z) :- ancestor(?y, ?x), parent(?y, ?z) .",
        "ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z), parent(?y, ?z) .",
        "ancestor(?x, ?x) :- ancestor(?x, ?y), parent(?y, ?x) .",
        "ancestor(?x, ada) :- ancestor(?x, ?y), parent(?y, ada) .",
    ],
)
def test_another_rule_is_not_found(text: str, family: tl.Reasoner) -> None:
    before = state_of(family)
    with pytest.raises(tl.ProgramError) as caught:
        family.apply(f"- {text}")
    assert codes_of(caught.value) == ["E632"]
    assert state_of(family) == before


def test_a_rule_that_is_there_is_not_added_again(family: tl.Reasoner) -> None:
    assert not family.apply("+ ancestor(?b, ?a) :- parent(?b, ?a) .")
    assert len(family.program.rules) == 2


def test_a_rule_with_two_heads_goes_as_a_whole() -> None:
    reasoner = tl.Reasoner(tl.parse("p(1) . q(?x), r(?x) :- p(?x) ."))
    assert sorted(reasoner.apply("- q(?y), r(?y) :- p(?y) .")) == [("-", "q", (1,)), ("-", "r", (1,))]
    assert reasoner.program.rules == ()


def test_all_that_is_missing_is_reported_at_once_with_places(family: tl.Reasoner) -> None:
    before = state_of(family)
    with pytest.raises(tl.ProgramError) as caught:
        family.apply(
            "- parent(ada, nobody) .\n- ancestor(ada, dora) .\n- p(?x) :- parent(?x, _) .\n- parnt(a, b) .\n"
            "+ parent(x, y) .\n"
        )
    assert codes_of(caught.value) == ["E630", "E631", "E632", "E630"]
    assert [item.location for item in caught.value.diagnostics] == [
        f"<changes>:{line}:1" for line in (1, 2, 3, 4)
    ]
    assert caught.value.diagnostics[3].help == "did you mean `parent`?"
    assert state_of(family) == before


def test_missing_rows_of_data_are_reported_together(family: tl.Reasoner) -> None:
    with pytest.raises(tl.ProgramError) as caught, family.change() as change:
        change.delete("parent", [(str(number), "x") for number in range(7)])
        change.delete("ancestor", [("ada", "dora")])
    messages = [item.message for item in caught.value.diagnostics]
    assert messages[0].endswith('`parent("4", x) .` and 2 more do not exist, so they cannot be deleted')
    assert messages[1] == "`ancestor(ada, dora) .` is derived, not explicit, so it cannot be deleted"


def test_what_is_missing_may_be_ignored() -> None:
    notices: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    reasoner = tl.Reasoner(tl.parse(FAMILY), listeners=[listen])
    reasoner.materialise()
    notices.clear()
    script = "- parent(a, b) .\n- parent(ada, bruno) .\n- p(?x) :- parent(?x, _) ."
    delta = reasoner.apply(script, missing="ignore")
    assert delta["parent"].removed
    assert [item.code for item in delta.notices] == ["E630", "E632"]
    assert notices[0] == "<changes>:1:1: `parent(a, b) .` does not exist, so it cannot be deleted"


def test_missing_is_checked() -> None:
    with pytest.raises(ValueError, match="missing"):
        tl.Reasoner().change(missing="whatever")


def test_a_program_is_no_change_script(family: tl.Reasoner) -> None:
    with pytest.raises(tl.TidelogError) as caught:
        family.apply("@output parent .\nparent(a, b) .\nparent(b, c) .\nchild(?y) :- parent(_, ?y) .\n")
    (fault,) = caught.value.diagnostics
    assert fault.code == "E640"
    assert "none of these 4 statements has a sign" in fault.message
    assert fault.help is not None and "`tidelog run`" in fault.help


# ---- roll-back


FAULTS = {
    "E107": "+ p( .",
    "E301": "+ p(?x) :- parent(?y, _) .",
    "E310": "+ p(?x) :- parent(?x, _), ~q(?x) . + q(?x) :- p(?x) .",
    "E210": "+ parent(a) .",
    "E640": "parent(a, b) .",
    "E641": "@output parent .",
    "E642": "+ parent(a, b) . @commit . + parent(b, c) .",
    "E603": "+ p(?n) :- parent(_, _), ?n = 9223372036854775807 + ?m, m(?m) . + m(1) .",
    "E601": "+ parent(a, a) . + bottom() :- parent(?x, ?x) .",
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_leaves_everything_as_before(code: str, family: tl.Reasoner) -> None:
    before = state_of(family)
    with pytest.raises(tl.TidelogError) as caught:
        family.apply(f"+ parent(dora, greta) .\n- parent(ada, bruno) .\n+ new(1) .\n{FAULTS[code]}")
    assert code in codes_of(caught.value)
    assert state_of(family) == before
    # A predicate of another arity than the failed transaction gave it can be made.
    assert len(family.apply("+ new(1, 2, 3) .")) == 1


def test_an_exception_in_the_block_applies_nothing(family: tl.Reasoner) -> None:
    before = state_of(family)
    with pytest.raises(RuntimeError), family.change() as change:
        change.insert("parent", [("x", "y")])
        raise RuntimeError
    assert state_of(family) == before
    with pytest.raises(tl.TidelogError) as caught:
        _ = change.delta
    assert codes_of(caught.value) == ["E633"]


def test_types_are_checked(family: tl.Reasoner) -> None:
    family.add("@declare age(who: any, years: int) . old(?x) :- age(?x, ?n), ?n > 80 .")
    before = state_of(family)
    with pytest.raises(tl.DataError), family.change() as change:
        change.insert("age", [("ada", "many")])
    with pytest.raises(tl.ProgramError):
        family.apply('+ age(ada, "many") .')
    assert state_of(family) == before


def test_limits_undo_a_transaction() -> None:
    reasoner = tl.Reasoner(tl.parse(FAMILY), max_facts=100)
    reasoner.materialise()
    before = state_of(reasoner)
    with pytest.raises(tl.Stopped) as caught, reasoner.change() as change:
        change.insert("parent", [(number, number + 1) for number in range(40)])
    assert codes_of(caught.value) == ["E611"]
    assert state_of(reasoner) == before
    for number in range(30):  # the limit is for what is there, not for all that ever was
        reasoner.apply(f"+ parent(x, {number}) .")
        reasoner.apply(f"- parent(x, {number}) .")
    assert state_of(reasoner)[:4] == before[:4]  # type: ignore[index]


class StopError(Exception):
    """What a listener raises."""


def test_a_stop_at_any_event_leaves_everything_as_before() -> None:
    left = [0]

    def listen(event: Event) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise StopError

    reasoner = tl.Reasoner(tl.parse(FAMILY), listeners=[listen])
    reasoner.materialise()
    before = state_of(reasoner)
    script = "- parent(ada, bruno) . + parent(dora, greta) . + elder(?x) :- ancestor(?x, _) ."
    stops = 0
    while True:
        left[0] = stops + 1
        try:
            reasoner.apply(script)
            break
        except StopError:
            stops += 1
            assert state_of(reasoner) == before
    assert stops > 5
    assert len(reasoner["elder"]) == 2


def test_an_interrupt_leaves_everything_as_before(
    family: tl.Reasoner, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    import signal

    # Where tests are run in the background, Ctrl-C is passed over unless somebody wants it.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, handler))
    before = state_of(family)
    apply = family._applier.maintainer.apply

    def interrupted(update: Update, *programs: Any) -> NetChange:
        change = apply(update, *programs)
        signal.raise_signal(signal.SIGINT)  # too late for any check of the maintainer
        monkeypatch.undo()
        return change

    monkeypatch.setattr(family._applier.maintainer, "apply", interrupted)
    with pytest.raises(tl.Stopped) as caught:
        family.apply("- parent(ada, bruno) .")
    assert codes_of(caught.value) == ["E612"]
    assert state_of(family) == before


# ---- inconsistency


def test_an_inconsistency_is_rolled_back_and_can_be_put_right() -> None:
    text = "bottom() :- married(?x, ?x) . married(a, a) . single(?x) :- person(?x), ~married(?x, _) ."
    reasoner = tl.Reasoner(tl.parse(f"{text} person(a) . person(b) ."))
    with pytest.raises(tl.Inconsistent):
        reasoner.materialise()
    with pytest.raises(tl.Inconsistent):
        reasoner.apply("+ person(c) .")
    with pytest.raises(tl.Inconsistent):
        reasoner.apply("")
    delta = reasoner.apply("- married(a, a) .")
    assert ("-", "bottom", ()) in list(delta)
    assert sorted(reasoner["single"]) == [("a",), ("b",)]
    before = state_of(reasoner)
    with pytest.raises(tl.Inconsistent):
        reasoner.apply("+ married(b, b) .")
    assert state_of(reasoner) == before


def test_the_facts_that_led_to_an_inconsistency_can_be_looked_at() -> None:
    reasoner = tl.Reasoner(
        tl.parse("bottom() :- married(?x, ?x) . married(?y, ?x) :- wed(?x, ?y) . wed(a, a) .")
    )
    with pytest.raises(tl.Inconsistent):
        _ = reasoner["married"]
    assert list(reasoner["married"]) == [("a", "a")]
    assert list(reasoner.query("wed(?x, _), bottom()")) == [("a",)]
    with pytest.raises(tl.Inconsistent):
        reasoner.materialise()


# ---- the other ways in


def test_insert_read_and_add_are_transactions_once_all_is_derived(
    family: tl.Reasoner, tmp_path: Path
) -> None:
    (tmp_path / "parent.csv").write_text("dora,emil\nada,bruno\n")
    (tmp_path / "age.csv").write_text("ada,90\n")
    assert family.insert("parent", [("ada", "bruno"), ("ada", "clara"), ("ada", "clara")]) == 1
    assert family.read(tmp_path) == 2
    assert sorted(family["age"]) == [("ada", 90)]
    family.add("old(?x) :- age(?x, ?n), ?n > 80 . age(clara, 85) .")
    assert sorted(family["old"]) == [("ada",), ("clara",)]
    assert family.commits == 3
    assert len(family["ancestor"]) == 7


def test_imports_in_added_text_are_read_once(family: tl.Reasoner, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("dora,emil\n")
    family.add('@import parent :- csv{ resource = "more.csv" } .', folder=tmp_path)
    assert ("ada", "emil") in family["ancestor"]
    family.apply("- parent(dora, emil) .")
    family.add("p(1) .")
    assert ("dora", "emil") not in family["parent"]


def test_the_program_states_what_is_still_explicit(family: tl.Reasoner) -> None:
    assert [fact.values[1].content for fact in family.program.facts] == ["bruno", "dora"]
    family.apply("- parent(ada, bruno) . + parent(x, y) .")
    assert [fact.values[1].content for fact in family.program.facts] == ["dora"]
    family.apply("+ parent(ada, bruno) .")
    assert len(family.program.facts) == 2


def test_a_transaction_on_another_program_is_refused(family: tl.Reasoner) -> None:
    with pytest.raises(tl.ProgramError) as caught, family.change() as change:
        change.insert("parent", [("x", "y")])
        family.apply("+ p(?x) :- parent(?x, _) .")
    assert codes_of(caught.value) == ["E634"]
    with family.change() as outer:
        outer.insert("parent", [("x", "y")])
        family.apply("+ parent(x, y) .")
    assert not outer.delta


@pytest.mark.parametrize("count", [3, 500])
def test_many_rows_and_repeated_ones(count: int) -> None:
    reasoner = tl.Reasoner(tl.parse("big(?x, ?y, ?z) :- n(?x, ?y, ?z), ?x > 1 ."))
    rows = [(number, number % 7, -number) for number in range(count)]
    with reasoner.change() as change:
        change.insert("n", rows)
        change.insert("n", pa.table(dict(zip("xyz", zip(*rows, strict=True), strict=True))))
    assert len(change.delta["n"].added) == count
    with reasoner.change() as change:
        change.delete("n", rows + rows[:2])
        change.insert("n", rows[: count // 2])
    assert len(change.delta["n"].removed) == count - count // 2
    assert not change.delta["n"].added
    assert len(reasoner["n"]) == count // 2


def test_predicates_without_columns() -> None:
    reasoner = tl.Reasoner(tl.parse("wet() :- rain() . dry() :- ~rain() ."))
    with reasoner.change() as change:
        change.insert("rain", [()])
    assert list(change.delta) == [("+", "rain", ()), ("+", "wet", ()), ("-", "dry", ())]
    assert list(reasoner.apply("- rain() .")) == [("-", "rain", ()), ("-", "wet", ()), ("+", "dry", ())]


def test_deltas_as_arrow(family: tl.Reasoner) -> None:
    delta = family.apply('- parent(ada, bruno) . + parent(ada, "B. B.") .')
    records = delta.to_arrow().to_pylist()
    assert {"change": "+", "predicate": "ancestor", "row": ["ada", '"B. B."']} in records
    assert delta["parent"].to_arrow().to_pylist() == [
        {"change": "-", "c1": "ada", "c2": "bruno"},
        {"change": "+", "c1": "ada", "c2": "B. B."},
    ]
    assert list(delta["parent"]) == [("-", ("ada", "bruno")), ("+", ("ada", "B. B."))]
    mixed = family.apply("- parent(bruno, dora) . + parent(bruno, 7) .")["parent"].to_arrow()
    assert [row["c2"] for row in mixed.to_pylist()] == ["dora", "7"]
    with pytest.raises(tl.ProgramError, match="unknown predicate"):
        _ = delta["nothing"]


def test_a_transaction_is_carried_out_once(family: tl.Reasoner) -> None:
    change = family.change()
    change.insert("parent", [("dora", "emil")])
    assert change.commit() is change.delta
    with pytest.raises(tl.TidelogError) as caught:
        change.commit()
    assert codes_of(caught.value) == ["E635"]


@pytest.mark.parametrize("count", [2, 300])
def test_the_facts_of_a_predicate_are_replaced(family: tl.Reasoner, count: int) -> None:
    rows = [("ada", "bruno"), *((f"n{number}", f"n{number + 1}") for number in range(count - 1))]
    with family.change() as change:
        change.replace("parent", rows)
    assert set(family["parent"]) == set(rows)
    assert sorted(change.delta["parent"].removed) == [("bruno", "dora")]
    with family.change() as change:
        change.replace("parent", [])
    assert not family["ancestor"]


def test_the_program_is_replaced(family: tl.Reasoner) -> None:
    other = tl.parse("old(?x) :- ancestor(?x, _) . ancestor(?b, ?a) :- parent(?b, ?a) . @output old .")
    with family.change() as change:
        change.become(other)
    assert sorted(change.delta) == [
        ("+", "old", ("ada",)),
        ("+", "old", ("bruno",)),
        ("-", "ancestor", ("ada", "dora")),
    ]
    assert family.program.outputs == ("old",)
    assert [rule.name for rule in family.program.rules] == ["direct", None]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: tl.Reasoner(maintainer="recomput"), "E622"),
        (lambda: tl.Reasoner(marking="some"), "E623"),
        (lambda: tl.Reasoner(maintainer="recompute", marking="linked"), "E623"),
    ],
)
def test_names_of_algorithms_are_checked(make: Callable[[], object], code: str) -> None:
    with pytest.raises(tl.ProgramError) as caught:
        make()
    assert codes_of(caught.value) == [code]
    assert caught.value.diagnostics[0].help
