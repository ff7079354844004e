"""Programs as functions of Spark's DataFrames.

from tidelog import spark as ts

derived = ts.derive("net.rls", {"flight": flights})     # lazy: nothing runs yet
derived["reach"].groupBy("from").count().show()         # plain DataFrames

Begin with `derivation.derive`. Its driver's side is `stages` (the program bound to its inputs, and the stage
of Spark that evaluates it), with `strategies` (where it runs), `schemas` (types and columns) and `frames`
(what is returned); its task's side is `worker`. `joins` derives beyond the memory of all workers,
`maintenance` and `table_changes` keep a store up to date with changes. `data_source`, `sql` and `pipelines`
are Spark's own ways in, `reading` has sources, `session`, `shipping` and `daemon` start Spark and send it the
package.

Only this package and `pipeline` import pyspark, and this module none of it before it is needed. It stands on
`reasoner` and all below; only `pipeline` and the command line may import it.
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
    """Import what needs pyspark when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"tidelog.spark.{_MODULES.get(name, 'derivation')}"), name)


class _Module(ModuleType):
    def __call__(self, *arguments: object, **settings: object) -> NoReturn:
        """Say what to use instead of the settings of an engine, which this module was when it was called."""
        from tidelog.engine.columnar.engine import retired

        raise retired()


sys.modules[__name__].__class__ = _Module
