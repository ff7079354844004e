"""The session of Spark that a job runs in, or an error that names the way without Spark. Imports no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from tidelog.errors import DataError, Diagnostic, TidelogError, suggest
from tidelog.pipeline import codes
from tidelog.pipeline.settings import Engine
from tidelog.spark.java import NO_JAVA
from tidelog.spark.session import NO_PYSPARK, NOT_STARTED, SessionSettings, load_pyspark
from tidelog.spark.strategies import SETTINGS

WITHOUT_SPARK = (
    'or run the job without Spark: name = "columnar" in the [engine] of its file, or --engine columnar'
)


def check_pyspark(engine: Engine) -> None:
    """Raise `TidelogError` if pyspark is not installed. Nothing is started."""
    with _naming_the_other_engine(engine):
        load_pyspark()


def start_session(engine: Engine, session: Any = None) -> Any:
    """Return the given session, the one that runs already, or a new one.

    Raises `TidelogError` if there is no pyspark, no Java, or no session that fits the job: no other engine
    takes over.
    """
    for key in engine.conf:
        if key.startswith("tidelog.") and key not in SETTINGS:
            message = f"there is no setting `{key}` of a program on Spark"
            help = suggest(key, SETTINGS) or f"there are {', '.join(SETTINGS)}"
            raise DataError(Diagnostic(codes.BAD_VALUE, message, help=help))
    with _naming_the_other_engine(engine):
        load_pyspark()
        started = SessionSettings(session, engine.master, engine.conf).start()
    for key, value in engine.conf.items():
        if key.startswith("tidelog."):  # a session that ran already has them, too
            started.conf.set(key, value)
    return started


@contextmanager
def _naming_the_other_engine(engine: Engine) -> Iterator[None]:
    """In the block, errors about a Spark that cannot be had say which engine needs none."""
    try:
        yield
    except TidelogError as error:
        if engine.name != "spark":
            raise
        raise type(error)(map(_with_way_out, error.diagnostics)) from error


def _with_way_out(fault: Diagnostic) -> Diagnostic:
    if fault.code not in (NO_PYSPARK, NO_JAVA, NOT_STARTED):
        return fault
    return replace(fault, help=f"{fault.help}; {WITHOUT_SPARK}" if fault.help else WITHOUT_SPARK)


def stages_of(session: Any) -> str:
    """Return how far the stages are that run now; nothing if none does, or if Spark Connect does not tell."""
    if is_on_connect(session):
        return ""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):  # Java may have ended
        tracker = session.sparkContext.statusTracker()
        known = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage]
        return ", ".join(
            f"stage {stage.stageId}: {stage.numCompletedTasks} of {stage.numTasks} tasks" for stage in known
        )
    return ""


def description_of(session: Any) -> str:
    """Return the version of Spark, its master, and the address of its UI if it has one."""
    if is_on_connect(session):
        return f"{session.version} by Spark Connect"
    context = session.sparkContext
    ui = f", UI at {context.uiWebUrl}" if context.uiWebUrl else ""
    return f"{session.version} on {context.master}{ui}"


def is_on_connect(session: Any) -> bool:
    """Whether a session is one of Spark Connect, which has no context."""
    return type(session).__module__.startswith("pyspark.sql.connect")
