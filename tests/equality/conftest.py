"""What tests of equality share."""

from __future__ import annotations

import pytest

from tidelog.equality.rewriting import TREATMENTS


@pytest.fixture(params=[name for name in TREATMENTS if name != "off"])
def treatment(request: pytest.FixtureRequest) -> str:
    """Each treatment of equality."""
    name: str = request.param
    return name
