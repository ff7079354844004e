"""The reasoner: a program, its facts, and everything derived from them.

Begin with `reasoner.py`; `transaction.py` and `commit.py` say how facts and rules change. May import
`pipeline` and `cli`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.reasoner.reasoner import Reasoner

__all__ = ["Reasoner"]


def __getattr__(name: str) -> Any:
    """Import the reasoner when it is first asked for: its neighbours are imported without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tidelog.reasoner import reasoner

    return getattr(reasoner, name)
