"""What the Spark engine is to be like: which session, which strategies, what is small. Imports no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidelog.engine.columnar.closing import ClosingEngine
from tidelog.errors import Diagnostic, ProgramError, suggest

AUTO = "auto"
LAZY = "lazy"
DRIVER_CLOSURE = "driver-closure"
EXECUTOR_FIXPOINT = "executor-fixpoint"
ITERATED_JOINS = "iterated-joins"
INTERVAL_ROUNDS = "interval-rounds"  # of rules over time; it goes with each that is not the driver's
STRATEGIES = (LAZY, DRIVER_CLOSURE, EXECUTOR_FIXPOINT, ITERATED_JOINS)
PREFIX = "tidelog."
UNKNOWN_SETTING = "E682"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How programs run on Spark.

    `session` is a SparkSession, or None for the shared one that is started when it is first needed, on
    `master` and with Spark's settings in `conf`. `strategy` is `auto`, or names of strategies in the order of
    preference, with commas between them.
    """

    session: Any = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    strategy: str = AUTO
    salt: int = 0  # of the hash that gives terms their ids
    driver_facts: int = 10_000_000  # a stratum that reads so many facts is closed on the driver
    resident_facts: int = 20_000_000  # so many facts may come to the driver to be maintained there
    fetched_facts: int = 5_000_000  # so many of those that are not resident may be fetched for updates
    broadcast_rows: int = 500_000  # relations of so many facts are sent to all executors
    partitions: int = 0  # of shuffles in rounds and of fixpoints; 0: as many as there are cores
    scratch: str = ""  # a folder that all executors see, for large relations that come from the driver
    name: str = "spark"

    def __post_init__(self) -> None:
        for name in self.preferred:
            if name not in STRATEGIES:
                help = suggest(name, (AUTO, *STRATEGIES)) or f"there are {', '.join((AUTO, *STRATEGIES))}"
                message = f"there is no strategy `{name}` on Spark"
                raise ProgramError(Diagnostic(UNKNOWN_SETTING, message, help=help))

    @property
    def preferred(self) -> tuple[str, ...]:
        """The strategies that are forced, the first choice first; none of them if they are chosen."""
        names = tuple(name.strip() for name in self.strategy.split(","))
        return () if names == (AUTO,) else names

    def configured(self, options: Mapping[str, str]) -> SparkSettings:
        """The settings with these options: those that begin with `tidelog.` are ours, the others Spark's."""
        given: dict[str, Any] = {}
        conf = dict(self.conf)
        for key, value in options.items():
            if key.startswith(PREFIX):
                name = _snake(key.removeprefix(PREFIX))
                given[name] = self._read(key, name, value)
            else:
                conf[key] = value
        return replace(self, conf=conf, **given)

    def _read(self, key: str, name: str, value: str) -> str | int:
        if name in ("strategy", "scratch"):
            return value
        if name not in NUMBERS:
            names = [PREFIX + _camel(other) for other in ("strategy", "scratch", *NUMBERS)]
            help = suggest(key, names) or f"there are {', '.join(names)}"
            raise ProgramError(Diagnostic(UNKNOWN_SETTING, f"there is no setting `{key}`", help=help))
        if not value.isascii() or not value.isdigit():
            message = f"the setting `{key}` is {value!r}: it must be a whole number"
            raise ProgramError(Diagnostic(UNKNOWN_SETTING, message))
        return int(value)

    def start(self) -> Any:
        """The session, started now if none is given and none runs."""
        from tidelog.spark.session import SessionSettings

        return SessionSettings(self.session, self.master, self.conf).start()

    def make(self, threads: int | None, relations: int) -> ClosingEngine:
        """The engine, empty; no session is started yet."""
        from tidelog.spark.session import load_pyspark

        load_pyspark()  # or say what is missing
        from tidelog.engine.spark.engine import SparkEngine

        return SparkEngine(self, threads, relations)


NUMBERS = ("salt", "driver_facts", "resident_facts", "fetched_facts", "broadcast_rows", "partitions")


def _snake(name: str) -> str:
    """`driverFacts` as `driver_facts`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
