"""RDF."""

from collections.abc import Iterator

from tidelog.io.columns import Batch
from tidelog.io.faults import Faults
from tidelog.io.source import DataFile


def read_rdf(file: DataFile, faults: Faults, threads: int) -> Iterator[Batch]:
    raise NotImplementedError
