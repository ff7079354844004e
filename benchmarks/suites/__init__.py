"""The suites: a new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.suites import (
    equality,
    explain,
    maintain,
    materialise,
    ontology,
    query,
    spark,
    store,
    stream,
    temporal,
    values,
)
from benchmarks.suites.suite import Suite

SUITES: Mapping[str, Suite] = {
    "materialise": materialise.SUITE,
    "maintain": maintain.SUITE,
    "stream": stream.SUITE,
    "query": query.SUITE,
    "spark": spark.SUITE,
    "equality": equality.SUITE,
    "store": store.SUITE,
    "ontology": ontology.SUITE,
    "temporal": temporal.SUITE,
    "explain": explain.SUITE,
    "values": values.SUITE,
}
