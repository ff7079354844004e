"""Every case of the corpus on Spark, by every strategy: the same facts and the same errors.

A representative part runs always, all of it in `make test-slow`.
"""

from __future__ import annotations

from typing import Any

import pytest

import tidelog as tl
from tests.corpus import Case, cases, run_engine, run_reference
from tidelog.errors import TidelogError

pytest.importorskip("pyspark")

CASES = cases()
REPRESENTATIVE = 36  # of so many cases one runs always, another one by each strategy
STRATEGIES = ("iterated-joins", "executor-fixpoint,iterated-joins", "driver-closure", "auto")


def parameters() -> list[Any]:
    return [
        pytest.param(
            case,
            strategy,
            id=f"{case.name}-{strategy}",
            marks=() if (number + 9 * shift) % REPRESENTATIVE == 0 else (pytest.mark.slow,),
        )
        for number, case in enumerate(CASES)
        for shift, strategy in enumerate(STRATEGIES)
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
