"""The driver's ids of terms by Spark's, held against a dictionary of Python's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.engine.spark import directory
from tidelog.engine.spark.directory import Directory

IDS = st.lists(st.integers(0, 40), max_size=12)


@given(steps=st.lists(IDS, max_size=8), asked=IDS, least=st.integers(0, 6))
def test_it_finds_what_was_taken_in(steps: list[list[int]], asked: list[int], least: int) -> None:
    known: dict[int, int] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(directory, "LEAST", least)
        found = Directory()
        for step in steps:
            found.add(np.array(step, np.int64), np.array([wide + 100 for wide in step], np.int32))
            known |= {wide: wide + 100 for wide in step}
    assert found.find(np.array(asked, np.int64)).tolist() == [known.get(wide, -1) for wide in asked]
