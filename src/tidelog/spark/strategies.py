"""Where a program runs, and why. Imports no Spark."""

from __future__ import annotations

from typing import Final

TASK: Final = "task"
REASON: Final = "one task derives everything: its facts have to fit the memory of a worker"
