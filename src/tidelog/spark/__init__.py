"""Programs as functions of Spark's DataFrames.

from tidelog import spark as ts

derived = ts.derive("net.rls", {"flight": flights})     # lazy: nothing runs yet
derived["reach"].groupBy("from").count().show()         # plain DataFrames
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from tidelog.spark.derivation import Checked, Derived, check, derive, explain, query, rules
    from tidelog.spark.maintenance import Changes, Maintained, differences, maintain
    from tidelog.spark.sql import register

_MODULES = dict.fromkeys(("Changes", "Maintained", "differences", "maintain"), "maintenance")
_MODULES |= {"register": "sql"}
__all__ = [
    "Changes",
    "Checked",
    "Derived",
    "Maintained",
    "check",
    "derive",
    "differences",
    "explain",
    "maintain",
    "query",
    "register",
    "rules",
]


def __getattr__(name: str) -> Any:
    """Import what needs pyspark when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"tidelog.spark.{_MODULES.get(name, 'derivation')}"), name)


class _Module(ModuleType):
    def __call__(self, *arguments: object, **settings: object) -> NoReturn:
        """Say what to use instead of the settings of an engine, which this module was when it was called."""
        from tidelog.engine.registry import retired

        raise retired()


sys.modules[__name__].__class__ = _Module
