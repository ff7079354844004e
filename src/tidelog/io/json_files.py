"""JSON."""

from collections.abc import Iterator

from tidelog.io.columns import Batch
from tidelog.io.faults import Faults
from tidelog.io.source import DataFile


def read_json(file: DataFile, faults: Faults, threads: int) -> Iterator[Batch]:
    raise NotImplementedError


def read_json_lines(file: DataFile, faults: Faults, threads: int) -> Iterator[Batch]:
    raise NotImplementedError
