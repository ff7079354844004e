"""The data pipeline: jobs from sources to published versions, in runs and in streams.

Begin with `job_run`: `run_job` is a run step by step, on the columnar engine and on Spark. Around it:

- `job` has what users call; `job_settings` and `job_file` describe a job; `operating` adds attempts, reports
  and events.
- `inputs`, `source_files` and `spark_run` read sources; `versions` reads published versions and writes sinks.
- `contents` and `publishing` turn the facts of a reasoner into published tables; `version_folder` has the
  manifests of versions and the state next to them.
- `guards` decides whether a version may be published; `run_reports` says what a run did.
- `micro_batches`, `stream_sources` and `stream_records` make a version of each batch of a stream.

May import everything but `cli`. Only `spark_run`, `stream_sources` and what they call need pyspark, which is
imported when a job first needs it; so are the public names, as the processes of Spark need only the readers.
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
