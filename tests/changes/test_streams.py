"""Streams and subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

import tidelog as tl
from tidelog.maintenance.maintainer import LookAhead, NetChange, Update
from tidelog.maintenance.recompute import Recompute
from tidelog.reasoner.delta import PredicateDelta

PATHS = "path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?x, ?y), edge(?y, ?z) ."


@pytest.fixture
def paths() -> tl.Reasoner:
    """Paths in a graph without edges."""
    return tl.Reasoner(tl.parse(f"@declare edge(x: any, y: any) . {PATHS}"))


def test_scripts_in_deltas_out(paths: tl.Reasoner) -> None:
    scripts = [
        "+ edge(1, 2) . @commit . + edge(2, 3) . - edge(1, 2) .",
        "@commit .",
        "+ edge(3, 1) . @commit .",
    ]
    deltas = list(paths.stream(scripts))
    assert [str(delta) for delta in deltas] == ["+2 −0", "+2 −2", "no change", "+3 −0"]
    assert [delta.number for delta in deltas] == [1, 2, 3, 4]


def test_deltas_are_updates(paths: tl.Reasoner) -> None:
    copy = tl.Reasoner()
    sizes = ["+ edge(1, 2) . + edge(2, 3) .", "- edge(1, 2) .", "+ edge(a, 3) ."]
    for delta in copy.stream(paths.stream(sizes)):
        assert delta
    assert set(copy["path"]) == set(paths["path"])
    assert next(paths.stream([[("-", "edge", ("a", 3))]]))["edge"].removed
    with pytest.raises(tl.ProgramError, match="is not a sign"):
        next(paths.stream([[("*", "edge", (1, 2))]]))


def test_a_stream_goes_on_after_a_transaction_that_failed(paths: tl.Reasoner) -> None:
    stream = paths.stream(["+ edge(1, 2) .", "- edge(7, 7) .", "+ edge(", "+ edge(2, 3) ."])
    assert len(next(stream)) == 2
    for code in ("E630", "E1"):
        with pytest.raises(tl.ProgramError) as caught:
            next(stream)
        assert caught.value.diagnostics[0].code.startswith(code)
    assert len(next(stream)) == 3
    with pytest.raises(StopIteration):
        next(stream)


class Looking(Recompute):
    """A maintainer that looks ahead."""

    lookahead: LookAhead

    def apply(self, update: Update, *programs: object) -> NetChange:
        """Note what comes next."""
        ahead = self.lookahead.peek()
        self.seen.append(None if ahead is None else {n: r.count for n, r in ahead.removed.items()})
        return super().apply(update, *programs)  # type: ignore[arg-type]

    seen: list[object]


@pytest.fixture
def looking(paths: tl.Reasoner) -> Looking:
    """A maintainer that looks ahead, at work."""
    maintainer = Looking(paths._engine, paths.runtime.tell, paths.runtime.check)
    maintainer.seen, maintainer.lookahead = [], LookAhead()
    paths._applier.maintainer = maintainer
    return maintainer


def test_what_has_come_is_looked_at(paths: tl.Reasoner, looking: Looking) -> None:
    scripts = [
        "+ edge(1, 2) . + new(1) .",
        "- edge(1, 2) . - new(1) . - edge(1, 2) .",
        "+ edge(1, 2) . @commit . - edge(1, 2) .",
        "+ edge(",
        "+ p(?x) :- edge(?x, _) .",
    ]
    stream = paths.stream(scripts)
    for _ in range(4):
        next(stream)
    assert looking.seen == [{"edge": 1, "new": 1}, {}, {"edge": 1}, None]
    with pytest.raises(tl.ProgramError):
        next(stream)
    next(stream)
    paths.apply("+ edge(5, 6) .")
    assert looking.seen[4:] == [None, None]


def test_nobody_waits_for_what_has_not_come(paths: tl.Reasoner, looking: Looking) -> None:
    taken: list[str] = []

    def updates() -> Iterator[str]:
        for number in range(3):
            script = f"+ edge({number}, {number + 1}) ."
            taken.append(script)
            yield script

    stream = paths.stream(updates())
    next(stream)
    assert len(taken) == 1
    assert len(list(stream)) == 2
    assert looking.seen == [None, None, None]


def test_a_look_ahead_at_a_program_that_did_not_come_is_forgotten(
    paths: tl.Reasoner, looking: Looking
) -> None:
    paths.add("bottom() :- wrong(_) . @declare wrong(x: any) .")
    looking.seen.clear()
    stream = paths.stream(["+ wrong(1) . + n(1, 2) .", "+ n(1) ."])
    with pytest.raises(tl.Inconsistent):
        next(stream)
    assert str(next(stream)) == "+1 −0"


def test_asynchronous_streams(paths: tl.Reasoner, looking: Looking) -> None:
    async def updates() -> AsyncIterator[str]:
        for number in range(4):
            yield f"+ edge({number}, {number + 1}) ."
            if number:
                await asyncio.sleep(0.001)

    async def run() -> list[str]:
        return [str(delta) async for delta in paths.stream_async(updates())]

    assert asyncio.run(run()) == ["+2 −0", "+3 −0", "+4 −0", "+5 −0"]


def test_an_asynchronous_source_may_fail(paths: tl.Reasoner) -> None:
    async def updates() -> AsyncIterator[str]:
        yield "+ edge(1, 2) ."
        raise OSError("gone")

    async def run() -> None:
        async for _ in paths.stream_async(updates()):
            pass

    with pytest.raises(OSError, match="gone"):
        asyncio.run(run())
    assert len(paths["path"]) == 1

    async def plain() -> int:
        return len([delta async for delta in paths.stream_async(["+ edge(2, 3) .", "- edge(2, 3) ."])])

    assert asyncio.run(plain()) == 2


# ---- subscriptions


def test_subscribers_hear_of_their_predicate_only(paths: tl.Reasoner) -> None:
    heard: list[str] = []
    handle = paths.subscribe("path", lambda delta: heard.append(str(delta)))
    paths.apply("+ edge(1, 2) .")
    paths.apply("+ other(1) .")
    paths.apply("+ edge(2, 3) . - edge(1, 2) .")
    handle.cancel()
    handle.cancel()
    paths.apply("+ edge(7, 8) .")
    assert heard == ["+1 −0", "+1 −1"]
    with pytest.raises(tl.ProgramError):
        paths.subscribe("pth", print)


def test_a_subscription_ends_with_its_block(paths: tl.Reasoner) -> None:
    heard: list[PredicateDelta] = []
    with paths.subscribe("path", heard.append):
        paths.insert("edge", [(1, 2)])
    paths.insert("edge", [(2, 3)])
    assert [sorted(delta.added) for delta in heard] == [[(1, 2)]]


def test_a_subscriber_may_change_things_and_all_hear_in_order(paths: tl.Reasoner) -> None:
    heard: list[tuple[str, list[tuple[object, ...]]]] = []

    def extend(delta: PredicateDelta) -> None:
        heard.append(("first", sorted(delta.added)))
        if len(paths["edge"]) < 3:
            number = len(paths["edge"])
            paths.apply(f"+ edge({number}, {number + 1}) .")

    paths.subscribe("edge", extend)
    paths.subscribe("edge", lambda delta: heard.append(("second", sorted(delta.added))))
    paths.apply("+ edge(0, 1) .")
    expected = [[(0, 1)], [(1, 2)], [(2, 3)]]
    assert heard == [(who, rows) for rows in expected for who in ("first", "second")]


def test_an_exception_of_a_subscriber_undoes_nothing(paths: tl.Reasoner) -> None:
    heard: list[PredicateDelta] = []

    def fail(delta: PredicateDelta) -> None:
        raise ValueError("no")

    first = paths.subscribe("edge", fail)
    paths.subscribe("edge", heard.append)
    with pytest.raises(ValueError, match="no") as caught, paths.change() as change:
        change.insert("edge", [(1, 2)])
    assert "the change is made" in caught.value.__notes__[0]
    assert str(change.delta) == "+2 −0"
    assert len(heard) == 1
    paths.subscribe("edge", fail)
    with pytest.raises(ExceptionGroup):
        paths.apply("+ edge(2, 3) .")
    first.cancel()
    assert len(paths["edge"]) == 2


def test_deltas_can_be_awaited(paths: tl.Reasoner) -> None:
    async def run() -> list[str]:
        deltas = paths.deltas("path")
        paths.apply("+ edge(1, 2) .")

        async def write() -> None:
            await asyncio.sleep(0.001)
            await asyncio.to_thread(paths.apply, "+ edge(2, 3) .")
            paths.apply("+ nothing(1) .")
            deltas.cancel()

        writing = asyncio.create_task(write())
        found = [str(delta) async for delta in deltas]
        await writing
        return found

    assert asyncio.run(run()) == ["+1 −0", "+2 −0"]
