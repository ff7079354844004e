"""Jobs on Spark: each says in our language what it is for, can be stopped, and fails with our errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from itertools import count
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import Observation, SparkSession

from tidelog.engine.spark import terms
from tidelog.engine.spark.markers import OUT_OF_RANGE, OVERFLOW, TOO_MANY
from tidelog.errors import Diagnostic, EvaluationError, TidelogError
from tidelog.logic.program import Rule
from tidelog.logic.time import beyond_range

T = TypeVar("T")

PATIENCE = 0.05  # seconds between two looks at the limits
FAILED = "E683"
_numbers = count(1)


class ManyFacts(Exception):  # noqa: N818 - no error: the limit on facts says what it means
    """An executor has derived more facts than are allowed in all."""


class Jobs:
    """Runs jobs one after the other, looking at the limits while they run."""

    def __init__(self, session: SparkSession, check: Callable[[], None]) -> None:
        self.session = session
        self.check = check
        self.count = 0  # jobs so far
        self.rules: Mapping[int, Rule] = {}  # by their numbers, for errors
        self._thread = ThreadPoolExecutor(1, "tidelog-spark")

    def run(self, description: str, action: Callable[[], T]) -> T:
        """What an action gives, which runs Spark jobs; they are cancelled if a limit is reached."""
        tag = f"tidelog-{id(self)}-{next(_numbers)}"
        self.count += 1
        running = self._thread.submit(self._tagged, tag, description, action)
        try:
            return self._wait(running)
        except (PySparkException, Py4JError) as error:
            raise self._translated(error) from error
        except BaseException:
            self._cancel(tag, running)
            raise

    def _wait(self, running: Future[T]) -> T:
        while True:
            try:
                return running.result(PATIENCE)
            except NotYet:
                if running.done():
                    raise
            self.check()

    def _tagged(self, tag: str, description: str, action: Callable[[], T]) -> T:
        context = self.session.sparkContext
        context.addJobTag(tag)
        context.setJobDescription(f"tidelog: {description}")
        try:
            return action()
        finally:
            context.removeJobTag(tag)
            context.setJobDescription("")

    def _cancel(self, tag: str, running: Future[Any]) -> None:
        """Stop the jobs of an action, and wait until it has noticed."""
        while not running.done():
            self.session.sparkContext.cancelJobsWithTag(tag)
            try:
                running.exception(PATIENCE)
            except NotYet:
                continue

    def _translated(self, error: BaseException) -> TidelogError | ManyFacts:
        """What an error of Spark means."""
        found = terms.collision(error)
        if found is not None:
            return found
        text = str(error)
        if TOO_MANY in text:
            return ManyFacts()
        if OUT_OF_RANGE in text:
            return beyond_range()
        if OVERFLOW in text:
            number, _, message = text.partition(OVERFLOW)[2].partition("\n")[0].strip().partition(": ")
            rule = self.rules.get(int(number))
            return EvaluationError(Diagnostic("E603", message, rule.span if rule else None))
        lines = [line for line in text.splitlines() if line.strip()]
        first = lines[0] if lines else type(error).__name__
        reason = lines[-1] if isinstance(error, PythonException) and len(lines) > 1 else first
        help = "the Spark UI and the log of the executors say more"
        return EvaluationError(Diagnostic(FAILED, f"a Spark job failed: {reason}", help=help))


def observed(observation: Observation, names: Sequence[str]) -> tuple[int, ...]:
    """What was counted while a job ran: 0 where Spark saw beforehand that there is nothing to count."""
    try:
        counted = observation.get
    except Py4JJavaError:  # its plan was found to be empty, and the observation went with it
        return (0,) * len(names)
    return tuple(int(counted[name] or 0) for name in names)
