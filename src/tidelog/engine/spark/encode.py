"""Columns of users' frames to ids and back, inside the executors, as the driver would read and write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from tidelog.engine.columnar import decode
from tidelog.engine.columnar.arrow import numbers_of
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.spark.arrivals import Encoder, once
from tidelog.engine.spark.compute import batch_of, local_ids
from tidelog.engine.spark.terms import Hashing
from tidelog.io.objects import from_python
from tidelog.logic.values import ColumnType


@dataclass(frozen=True, slots=True)
class Encoding:
    """Rows as `Reasoner.insert` reads Arrow data, as arrivals of one relation."""

    types: tuple[ColumnType, ...]
    names: tuple[str | None, ...]
    hashing: Hashing
    once: str = field(default_factory=once)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        encoder = Encoder(len(self.types), self.hashing)
        for batch in batches:
            if batch.num_rows:
                for part in from_python(pa.Table.from_batches([batch]), self.types, self.names):
                    yield from encoder.encode(0, part)


@dataclass(frozen=True, slots=True)
class Decoding:
    """Ids with their texts as texts of a form, `plain` or `exact`."""

    names: tuple[str, ...]
    form: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            dictionary = Dictionary()
            decoded = []
            for place, name in enumerate(self.names):
                identities = numbers_of(batch.column(f"c{place}"), "int64")
                ids = local_ids(dictionary, identities, batch.column(f"t{place}"))
                decoded.append((name, decode.to_texts(dictionary, ids, self.form).cast(pa.string())))
            yield batch_of(decoded)
