"""The data pipeline: jobs from sources to published versions, in runs and in streams.

`Job` and its like are imported when they are first used: the processes of Spark need only the readers.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidelog.pipeline.job import Job, Run, Step
    from tidelog.pipeline.job_settings import Engine, Settings, Sink, Source, Stream
    from tidelog.pipeline.version_folder import Store
    from tidelog.pipeline.versions import Version, difference, read

__all__ = [
    "Engine",
    "Job",
    "Run",
    "Settings",
    "Sink",
    "Source",
    "Step",
    "Store",
    "Stream",
    "Version",
    "difference",
    "read",
]

_HOMES = {
    "job": ("Job", "Run", "Step"),
    "job_settings": ("Engine", "Settings", "Sink", "Source", "Stream"),
    "version_folder": ("Store",),
    "versions": ("Version", "difference", "read"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f"tidelog.pipeline.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
