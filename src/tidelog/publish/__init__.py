"""Published folders: versions of many tables at once, as Delta, Iceberg or Parquet.

    published = Published("published")
    with published.writing() as publication:
        publication.change("reach", inserted=rows)
        publication.commit({"inputs": ["edges.csv"]}, reason="first run")
    published.read("reach")

Knows Arrow and files, neither Spark nor programs.
"""

from tidelog.publish.foreign_tables import (
    SourceFile,
    SourceTable,
    delta_changes,
    delta_table,
    iceberg_changes,
    iceberg_table,
)
from tidelog.publish.publication import Pending, Publication, Recovered
from tidelog.publish.published_folder import Published
from tidelog.publish.published_schemas import PublishedVersion, TableVersion
from tidelog.publish.table_files import ChangeFile

__all__ = [
    "ChangeFile",
    "Pending",
    "Publication",
    "Published",
    "PublishedVersion",
    "Recovered",
    "SourceFile",
    "SourceTable",
    "TableVersion",
    "delta_changes",
    "delta_table",
    "iceberg_changes",
    "iceberg_table",
]
