"""Programs as functions of Spark's DataFrames.

    from tidelog import spark as ts

    derived = ts.derive("net.rls", {"flight": flights})     # lazy: nothing runs yet
    derived["reach"].groupBy("from").count().show()         # plain DataFrames

`tl.spark(…)`, the settings of `Reasoner(engine=…)`, is this module when it is called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.engine.spark.settings import SparkSettings
    from tidelog.spark.functions import Derived, check, derive, rules
    from tidelog.spark.maintaining import Changes, Maintained, differences, maintain

__all__ = ["Changes", "Derived", "Maintained", "check", "derive", "differences", "maintain", "rules"]


def __getattr__(name: str) -> Any:
    """Import what needs pyspark when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "maintaining" if name in ("Changes", "Maintained", "differences", "maintain") else "functions"
    return getattr(import_module(f"tidelog.spark.{module}"), name)


class _Module(ModuleType):
    def __call__(self, session: object = None, **settings: Any) -> SparkSettings:
        """Return the settings of the Spark engine.

        Use them as `Reasoner(program, engine=tl.spark(session, strategy="iterated-joins"))`.
        """
        from tidelog.engine.spark.settings import SparkSettings

        return SparkSettings(session, **settings)


sys.modules[__name__].__class__ = _Module
