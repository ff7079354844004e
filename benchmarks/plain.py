"""Numbers as people read them."""

from __future__ import annotations


def seconds_text(seconds: float) -> str:
    """Seconds with two figures that matter, in the unit that suits them.

    >>> seconds_text(0.0000081), seconds_text(0.084), seconds_text(0.25), seconds_text(12.3)
    ('8.1 µs', '84 ms', '0.25 s', '12 s')
    """
    if seconds < 1e-3:
        return f"{two_figures(seconds * 1e6)} µs"
    return f"{two_figures(seconds * 1e3)} ms" if seconds < 0.1 else f"{two_figures(seconds)} s"


def ratio_text(ratio: float) -> str:
    """How many times as much.

    >>> ratio_text(0.834), ratio_text(15.2), ratio_text(1234.5)
    ('0.83', '15', '1,234')
    """
    return f"{ratio:,.0f}" if ratio >= 1000 else two_figures(ratio)


def two_figures(number: float) -> str:
    if number >= 10:
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 1 else f"{number:.2f}"
