"""Cases of the corpus as functions of frames, on classic sessions and on Connect: what they must put out."""

from __future__ import annotations

import csv
import datetime
import io
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.corpus import Case, cases
from tidelog import spark as ts
from tidelog.errors import TidelogError
from tidelog.io.data_file import file_name
from tidelog.logic.conversions import from_python, plain
from tidelog.spark.shipping import translated_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALWAYS, SLOWLY = 18, 4  # one case of so many is run
NOT_IN_PYTHON = {"dates/DATE"}  # years before 1, which Spark cannot collect


def parameters() -> list[Any]:
    found = [case for case in cases() if not case.path.with_suffix(".data").exists()]
    chosen = [case for case in found if case.name not in NOT_IN_PYTHON]
    return [
        pytest.param(case, id=case.name, marks=() if number % ALWAYS == 0 else (pytest.mark.slow,))
        for number, case in enumerate(chosen)
        if number % ALWAYS == 0 or number % SLOWLY == 0
    ]


@pytest.mark.parametrize("case", parameters())
def test_case(case: Case, session: SparkSession) -> None:
    if case.error is not None:
        with pytest.raises(TidelogError) as caught, translated_errors():
            ts.derive(case.program(), {}).facts.collect()
        assert caught.value.diagnostics[0].code == case.error
        return
    program = case.program()
    derived = ts.derive(program, {})
    with derived.persist():
        found = {file_name(name, "csv"): texts(frame) for name, frame in derived.items()}
    assert found == {name: rows(text) for name, text in case.expected.items()}
    for number, query in enumerate(program.queries, 1):
        body = query.text.strip().removeprefix("?-").removesuffix(".")
        assert texts(ts.query(program, body, {})) == rows(case.answers[f"{number}.csv"])


def texts(frame: DataFrame) -> tuple[list[str], set[tuple[str, ...]]]:
    return frame.columns, {tuple(map(text, row)) for row in frame.collect()}


def text(value: Any) -> str:
    if isinstance(value, Decimal):  # a whole one is an integer in rules
        value = int(value) if value == value.to_integral_value() else value.normalize()
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        value = value.astimezone(datetime.UTC)
    return value if isinstance(value, str) else plain(from_python(value))


def rows(text: str) -> tuple[list[str], set[tuple[str, ...]]]:
    header, *found = csv.reader(io.StringIO(text))
    return header, set(map(tuple, found))
