"""Cases of the corpus on Spark, by every strategy: the same facts and the same errors.

All of them would take a second each, half an hour: a part runs always, a larger one in `make test-slow`.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import tidelog as tl
from tests.corpus import Case, cases, run_engine, run_reference
from tidelog.errors import TidelogError

pytest.importorskip("pyspark")

STRATEGIES = ("iterated-joins", "executor-fixpoint,iterated-joins", "driver-closure", "auto")
SLOWLY = 29  # one of so many pairs of a case and a strategy is run at all; no multiple of the strategies
ALWAYS = 2  # and one of so many of these always


def parameters() -> list[Any]:
    return [
        pytest.param(
            case,
            strategy,
            id=f"{case.name}-{strategy}",
            marks=() if number % ALWAYS == 0 else (pytest.mark.slow,),
        )
        for number, (case, strategy) in enumerate(list(product(cases(), STRATEGIES))[::SLOWLY])
        if not (case.name.startswith("owl/") and "iterated-joins" in strategy)  # takes half an hour
    ]


@pytest.mark.parametrize(("case", "strategy"), parameters())
def test_case(case: Case, strategy: str, spark: Any) -> None:
    engine = tl.spark(spark, strategy=strategy)
    if case.error is not None:
        with pytest.raises(TidelogError) as caught:
            run_engine(case.program(), engine)
        assert caught.value.diagnostics[0].code == case.error
        return
    program = case.program()
    outcome = run_engine(program, engine)
    assert outcome.output == case.expected
    assert outcome.answers == case.answers
    assert outcome.facts == run_reference(program).facts
