"""Published folders: versions of many tables at once, as Delta, Iceberg or Parquet.

    published = Published("published")
    with published.writing() as publication:
        publication.change("reach", inserted=rows)
        publication.commit({"inputs": ["edges.csv"]}, reason="first run")
    published.read("reach")

Begin with `published_folder`, then `publication`, whose docstring has the protocol of a commit. `delta_lake`,
`iceberg` and `plain_parquet` are the formats, each a `TableFormat` of `table_files`. `foreign_tables` reads
tables of other writers; `published_schemas` has types and versions, `object_storage` folders by address.

Knows Arrow and files, neither Spark nor programs; may import `durable` and `errors` only.
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
