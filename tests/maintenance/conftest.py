"""The engines and algorithms that maintenance is tried with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.maintenance.laboratory import BENCHES, Bench, Facts
from tidelog.logic.program import Program


@pytest.fixture(params=sorted(BENCHES), scope="session")
def bench(request: pytest.FixtureRequest) -> Callable[[Program, Facts], Bench]:
    """Makes benches of an engine."""
    made: Callable[[Program, Facts], Bench] = BENCHES[request.param]
    return made
