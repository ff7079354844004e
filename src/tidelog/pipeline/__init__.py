"""The data pipeline: jobs from sources to published versions, in runs and in streams.

`Job` and its like are imported when they are first used: the processes of Spark need only the readers.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidelog.pipeline.job import Job, Step
    from tidelog.pipeline.job_run import Run
    from tidelog.pipeline.job_settings import Engine, Settings, Sink, Source, Stream
    from tidelog.pipeline.operating import write_report
    from tidelog.pipeline.run_reports import Outcome, PredicateReport, RunReport, log_start, read_log
    from tidelog.pipeline.version_folder import Store
    from tidelog.pipeline.versions import Version, difference, read
    from tidelog.show.column_lineage import lineage

__all__ = [
    "Engine",
    "Job",
    "Outcome",
    "PredicateReport",
    "Run",
    "RunReport",
    "Settings",
    "Sink",
    "Source",
    "Step",
    "Store",
    "Stream",
    "Version",
    "difference",
    "lineage",
    "log_start",
    "read",
    "read_log",
    "write_report",
]

_HOMES = {
    "tidelog.pipeline.job": ("Job", "Step"),
    "tidelog.pipeline.job_run": ("Run",),
    "tidelog.pipeline.job_settings": ("Engine", "Settings", "Sink", "Source", "Stream"),
    "tidelog.pipeline.operating": ("write_report",),
    "tidelog.pipeline.run_reports": ("Outcome", "PredicateReport", "RunReport", "log_start", "read_log"),
    "tidelog.pipeline.version_folder": ("Store",),
    "tidelog.pipeline.versions": ("Version", "difference", "read"),
    "tidelog.show.column_lineage": ("lineage",),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
