"""Time that advances in a pipeline: tables keep what the reasoner forgets, as if nothing were forgotten."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidelog as tl
from tidelog.pipeline import Job, Step, read
from tidelog.pipeline.guards import Expectation, Guards, GuardSeverity, resolve
from tidelog.pipeline.job_settings import Stream
from tidelog.pipeline.micro_batches import watermark
from tidelog.pipeline.version_folder import StreamProgress
from tidelog.reasoner.transaction import Change
from tidelog.rewrite.dropped_rows import tables_of, with_drops

RULES = """\
@declare hot(sensor: string) . @declare quiet(sensor: string) . @declare room(sensor: string) .
alarm(?s) :- boxminus[0, 3] hot(?s), room(?s) .
lately(?s) :- diamondminus[0, 5] alarm(?s), ~quiet(?s) .
any() :- lately(_) .
false(?s) :- quiet(?s), hot(?s) .
hot("z")@-9 . quiet("z")@-9 . room("a") . room("b") .
"""
LEFT_OUT = Guards(expectations=(Expectation("false", GuardSeverity.DROP, None, "hot", ("sensor",)),))
# Facts of intervals that begin at least so much after the last watermark, and how far that moves then.
FACT = st.tuples(
    st.sampled_from(["hot", "hot", "quiet"]), st.sampled_from("abc"), st.integers(0, 6), st.integers(0, 8)
)
SCRIPT = st.tuples(st.lists(st.tuples(st.booleans(), FACT), max_size=4), st.sampled_from([0, 1, 3, 2.5, 9]))


def written(folder: Path) -> dict[str, set[tuple[str, ...]]]:
    """All facts of the current version, as texts."""
    version = read(str(folder / "published"))
    return {name: {tuple(map(str, row)) for row in version[name]} for name in version}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8, deadline=None)
@given(
    scripts=st.lists(SCRIPT, max_size=5),
    stopped=st.integers(0, 12),
    is_closed=st.booleans(),
    guards=st.sampled_from([Guards(), LEFT_OUT]),
)
def test_tables_keep_what_is_forgotten(
    tmp_path_factory: pytest.TempPathFactory,
    scripts: list[tuple[list[tuple[bool, tuple[str, str, int, int]]], float]],
    stopped: int,
    is_closed: bool,
    guards: Guards,
) -> None:
    folder = tmp_path_factory.mktemp("job")
    job = Job(rules_in(folder), publish="published", engine="columnar", folder=folder, guards=guards)
    job.run()
    program = tl.parse(RULES)
    program = with_drops(program, resolve(guards, program).drops, ())
    tables = {name: each.name for name, each in tables_of(program).items()}
    whole = tl.Reasoner(program)
    whole.materialise()
    mark, steps = 0.0, [stopped]

    def stop(step: Step) -> None:
        if step.name in ("maintained", "table alarm", "published", "time advanced"):
            steps[0] -= 1
            if steps[0] == 0:
                raise InterruptedError

    job.listeners.append(stop)
    with job:
        for number, (facts, by) in enumerate(scripts):
            text = "".join(
                f'{"+" if comes else "-"} {name}("{sensor}")@[{mark + start}, {mark + start + length}] .\n'
                for comes, (name, sensor, start, length) in facts
            )
            before = job.store.number
            while job.store.number == before:
                try:
                    advance = str(mark) if number else None
                    job.transact(partial(fill, text), "stream", missing="ignore", advance=advance)
                except InterruptedError:
                    if is_closed:
                        job.close()
                    job.refresh_sinks()  # what was committed is published by whoever comes next
            whole.apply(text, missing="ignore")
            expected = {
                table: {tuple(map(str, row)) for row in whole[name]} for table, name in tables.items()
            }
            assert written(folder) == expected
            if is_closed:
                job.close()
            mark += by


def fill(text: str, change: Change) -> None:
    change.apply(text)


def rules_in(folder: Path) -> str:
    (folder / "rules.rls").write_text(RULES)
    return "rules.rls"


def test_the_watermark() -> None:
    one, other = Stream(event_time="at", delay=10.0), Stream(event_time="at", idle=60.0)
    late, early = StreamProgress(event="100", seen=0.0), StreamProgress(event="30", seen=50.0)
    assert watermark([one], [late], 0, None) == "90"
    assert watermark([one, other], [late, early], 100, None) == "30"
    assert watermark([one, other], [late, early], 111, None) == "90"  # the other one is idle
    assert watermark([one, other], [late, early], 100, "70") == "70"  # it never goes back
    assert watermark([one, other], [late, StreamProgress(seen=99.0)], 100, None) is None
    assert watermark([other], [early], 500, "7") == "7"
    moment = StreamProgress(event="2026-01-01T00:10:00Z")
    assert watermark([one], [moment], 0, None) == "2026-01-01T00:09:50Z"
    assert watermark([], [], 0, None) is None


@pytest.mark.slow
def test_rules_over_time_run_for_ever(tmp_path: Path) -> None:
    """Two hundred batches: what the reasoner keeps is bounded, and tables have all that ever held."""
    job = Job(rules_in(tmp_path), publish="published", engine="columnar", folder=tmp_path)
    job.run()
    weights = []
    with job:
        for number in range(200):
            text = "".join(f'+ hot("{one}")@[{at}, {at + 4}] .\n' for at, one in events(number))
            job.transact(partial(fill, text), "stream", missing="ignore", advance=str(number * 100 - 10))
            store = job.reasoner().time.store
            weights.append(sum(table.weight for table in (*store.explicit.values(), *store.tables.values())))
    # Something is forgotten when twice as much as before has come, and some thousands more.
    assert max(weights) < 2 * 4096 < 3 * 20 * 200
    facts = read(str(tmp_path / "published"))
    assert len(facts["hot"]) == 1 + 20 * 200 and len(facts["alarm"]) == 10 * 200


def events(number: int) -> list[tuple[int, str]]:
    """Sensors that are hot for a while in a batch, half of them in rooms."""
    return [(number * 100 + 10 * place, one) for place in range(10) for one in ("a", "c")]
