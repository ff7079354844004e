"""Tables of Apache Iceberg, by the package `pyiceberg`, with a catalogue in SQLite inside the folder.

The catalogue is `_catalog.sqlite` with the namespaces `published`, which has the tables and `_versions`, and
`changes`, which has a table of changes for each table that was changed in part: Iceberg has no change feed. A
table of changes only grows; it is partitioned by `_version`, which its files do not contain. Iceberg names
files by absolute paths: a folder that is moved cannot be read.
"""

from __future__ import annotations

import importlib
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.errors import DataError, Diagnostic, codes
from tidelog.publish import published_schemas
from tidelog.publish import table_files as files
from tidelog.publish.object_storage import StorageFolder, folder_name, iceberg_options
from tidelog.publish.published_schemas import NUMBER, SCHEMA, VERSIONS, PublishedVersion, TableVersion
from tidelog.publish.table_files import BOTH, CHANGES, ChangeFile, Range, TableFile, TablePlan

CATALOG: Final = "_catalog.sqlite"
PUBLISHED: Final = "published"
METADATA: Final = "metadata"
_NUMBER: Final = "tidelog.version"  # of a snapshot
_FILES: Final = "tidelog.changes"  # the change files of a snapshot
_RANGE: Final = "tidelog.versions"  # that the file of a snapshot of `_versions` has
_FILE: Final = "tidelog.file"
_SCHEMA: Final = "tidelog.schema"  # of a table, as we write it
_MAPPING: Final = "schema.name-mapping.default"  # files have no field ids: columns are found by name
_PROPERTIES: Final = {
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "commit.retry.num-retries": "0",  # there is one writer
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}


def package(module: str) -> Any:
    """Return a module of `pyiceberg`; raise a diagnostic if it is not installed."""
    try:
        return importlib.import_module(f"pyiceberg.{module}")
    except ImportError as error:
        message = "Iceberg tables need the package `pyiceberg`, with SQLite"
        help_line = "pip install 'tidelog[publish]'"
        raise DataError(Diagnostic(codes.PUBLISH_PACKAGE_MISSING, message, help=help_line)) from error


class IcebergTables:
    """The tables of a folder as Iceberg tables."""

    format = "iceberg"
    metadata = METADATA
    needs_a_file = False

    def __init__(self, folder: StorageFolder) -> None:
        self._folder = folder
        uri = folder.storage.get("catalog")
        if uri is None and not folder.is_local:
            message = f"Iceberg tables at `{folder.address}` need an external catalogue"
            help_line = "set `catalog` in the storage settings, such as sqlite:////path/catalog.sqlite"
            raise DataError(Diagnostic(codes.STORAGE, message, help=help_line))
        self._uri = uri or f"sqlite:///{folder.path(CATALOG)}"
        self._package = package("catalog.sql")

    @cached_property
    def catalog(self) -> Any:
        """The catalogue; created with its namespaces if it does not exist."""
        options = iceberg_options(self._folder.storage)
        catalog = self._package.SqlCatalog(
            "tidelog", uri=self._uri, warehouse=self._folder.address, **options
        )
        for namespace in (PUBLISHED, "changes"):
            catalog.create_namespace_if_not_exists(namespace)
        return catalog

    def changes_folder(self, table: str) -> StorageFolder:
        """Return the folder of change files of a table."""
        return self._folder.below(f"{CHANGES}/{folder_name(table)}")

    # ---- tables

    def commit(self, plan: TablePlan, base: TableVersion | None, number: int) -> int:
        """Commit the files of a table as a snapshot; see `TableFormat`."""
        properties = {_NUMBER: str(number)}
        if plan.changes is not None:
            properties[_FILES] = json.dumps([file.path for file in plan.changes])
            self._append_changes(plan, plan.changes, number)
        table = self._load(plan.table)
        if table is None:
            table = self._created((PUBLISHED, _called(plan.table)), plan.schema, self._folder_of(plan.table))
        folder = self._folder_of(plan.table)
        before = {folder.relative(file.file_path): file for file in self._data_files(table)}
        paths = {file.path for file in plan.files}
        with table.transaction() as transaction:
            self._evolve(transaction, table, plan.schema)
            removed = [file for path, file in before.items() if path not in paths]
            added = [file.path for file in plan.files if file.path not in before]
            self._snapshot(transaction, folder, removed, added, properties)
        return int(table.current_snapshot().snapshot_id)

    def restore(self, table: str, base: TableVersion | None, number: int) -> None:
        """Make the snapshot before a version the current one again; see `TableFormat`."""
        self._remove_changes(table, lambda found: found == number)
        found = self._load(table)
        if found is None:
            return
        snapshot = found.current_snapshot()
        while snapshot is not None and int(snapshot.summary[_NUMBER]) >= number:
            snapshot = (
                found.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
            )
        if base is not None and (snapshot is None or snapshot.snapshot_id != base.format_version):
            snapshot = found.snapshot_by_id(base.format_version)
            if snapshot is None:
                raise self._damaged(table, f"snapshot {base.format_version} is missing")
        if snapshot is None:
            self.catalog.drop_table(
                (PUBLISHED, _called(table))
            )  # it did not exist before; `vacuum` deletes its files
            return
        current = found.current_snapshot()
        if current is not None and current.snapshot_id == snapshot.snapshot_id:
            return
        updates = package("table.update")
        with found.transaction() as transaction:
            if snapshot.schema_id is not None and snapshot.schema_id != found.metadata.current_schema_id:
                transaction._stage((updates.SetCurrentSchemaUpdate(schema_id=snapshot.schema_id),))
            schema = found.schemas()[snapshot.schema_id]
            transaction.set_properties(self._schema_properties(base.schema if base else None, schema))
            manage = package("table.update.snapshot").ManageSnapshots(transaction)
            manage.set_current_snapshot(snapshot.snapshot_id).commit()

    def files(self, version: TableVersion) -> tuple[TableFile, ...]:
        """Return the data files of a version."""
        table = self._load(version.name)
        snapshot = table.snapshot_by_id(version.format_version) if table else None
        if table is None or snapshot is None:
            raise self._damaged(version.name, f"snapshot {version.format_version} is missing")
        folder = self._folder_of(version.name)
        schema = table.schemas()[snapshot.schema_id]
        return tuple(_file_of(folder, file, schema) for file in self._data_files(table, snapshot))

    def changes(self, version: TableVersion, before: TableVersion | None) -> tuple[ChangeFile, ...]:
        """Return the files with the changes of one version: its change files, or else the replaced files."""
        table = self._load(version.name)
        snapshot = table.snapshot_by_id(version.format_version) if table else None
        if snapshot is None:
            raise self._damaged(version.name, f"snapshot {version.format_version} is missing")
        number = version.changed_in
        if snapshot.summary is not None and _FILES in snapshot.summary.additional_properties:
            folder = self.changes_folder(version.name)
            paths = json.loads(snapshot.summary[_FILES])
            return tuple(ChangeFile(folder.location(path), BOTH, number) for path in paths)
        folder = self._folder_of(version.name)
        new = {file.path for file in self.files(version)}
        old = {file.path for file in self.files(before)} if before else set()
        return files.files_of_difference(folder, new, old, number)

    # ---- versions

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of all published versions."""
        return tuple(sorted(self._version_paths()))

    def version(self, number: int | None) -> PublishedVersion | None:
        """Return a published version; reads the one file that has it."""
        paths = self._version_paths()
        if number is None:
            number = max(paths, default=0)
        return next(iter(self._versions(paths, number, number)), None)

    def versions(self, first: int, last: int) -> tuple[PublishedVersion, ...]:
        """Return the published versions in a range."""
        return self._versions(self._version_paths(), first, last)

    def _versions(self, paths: Mapping[int, str], first: int, last: int) -> tuple[PublishedVersion, ...]:
        folder = self._folder.below(VERSIONS)
        paths_read = {path for number, path in paths.items() if first <= number <= last}
        rows = [row for path in paths_read for row in files.read_file(folder, path, SCHEMA).to_pylist()]
        versions = [PublishedVersion.from_record(row) for row in rows if first <= row["number"] <= last]
        return tuple(sorted(versions, key=lambda version: version.number))

    def _version_paths(self) -> Mapping[int, str]:
        """Return the file of each published version, from snapshots of the table of versions."""
        table = self._load_versions()
        paths: dict[int, str] = {}
        snapshot = table.current_snapshot() if table else None
        while snapshot is not None and table is not None:
            first, last = map(int, snapshot.summary[_RANGE].split("-"))
            paths |= dict.fromkeys(range(first, last + 1), snapshot.summary[_FILE])
            parent = snapshot.parent_snapshot_id
            snapshot = (
                table.snapshot_by_id(parent) if parent and first > 1 and not _begins(snapshot) else None
            )
        return paths

    def version_files(self) -> Collection[str]:
        """Return the data files of the table of versions."""
        return set(self._version_paths().values())

    def publish(self, version: PublishedVersion) -> None:
        """Add a row to the table of versions."""
        folder = self._folder.below(VERSIONS)
        (path,) = files.written(folder, f"version-{version.number}", version.to_arrow())
        folder.sync([path])
        table = self._load_versions() or self._created((PUBLISHED, VERSIONS), SCHEMA, folder)
        properties = {_RANGE: f"{version.number}-{version.number}", _FILE: path}
        with table.transaction() as transaction:
            self._snapshot(transaction, folder, [], [path], properties)

    # ---- keeping the folder small

    def settle(self) -> None:
        """Do nothing: metadata are written whole with each commit."""

    def forget(self, kept: tuple[PublishedVersion, ...]) -> None:
        """Forget old versions, and the snapshots that only these name; see `TableFormat`."""
        self._forget_rows(kept)
        named: dict[str, set[int]] = {}
        for version in kept:
            for name, table in version.all_tables.items():
                named.setdefault(name, set()).add(table.format_version)
        names = {_called(name): name for name in named}
        for _, called in self.catalog.list_tables(PUBLISHED):
            if called == VERSIONS:
                continue
            if called not in names:
                self.catalog.drop_table((PUBLISHED, called))
            else:
                name = names[called]
                self._expire(self._load(name), named[name], self._folder_of(name))
        for _, called in self.catalog.list_tables("changes"):
            if called not in names:
                self.catalog.drop_table(("changes", called))
            else:
                name = names[called]
                self._remove_changes(name, lambda number: number <= kept[0].number)
                self._expire(self._load(name, "changes"), set(), self.changes_folder(name))

    def _forget_rows(self, kept: tuple[PublishedVersion, ...]) -> None:
        """Write the rows of these versions to one file, and forget the others."""
        folder = self._folder.below(VERSIONS)
        table = self._load_versions()
        if table is None:
            return
        if kept[0].number != min(self._version_paths()):
            rows = pa.concat_tables([version.to_arrow() for version in kept])
            (path,) = files.written(folder, "versions", rows)
            folder.sync([path])
            properties = {
                _RANGE: f"{kept[0].number}-{kept[-1].number}",
                _FILE: path,
                "tidelog.begins": "true",
            }
            with table.transaction() as transaction:
                self._snapshot(transaction, folder, self._data_files(table), [path], properties)
        named = set()
        snapshot = table.current_snapshot()
        while snapshot is not None:
            named.add(snapshot.snapshot_id)
            parent = snapshot.parent_snapshot_id
            snapshot = table.snapshot_by_id(parent) if parent and not _begins(snapshot) else None
        self._expire(table, named, folder)

    def _expire(self, table: Any, named: set[int], folder: StorageFolder) -> None:
        """Remove snapshots that are not named from a table's metadata, and metadata that it does not name."""
        current = table.current_snapshot()
        keep = named | ({current.snapshot_id} if current else set())
        expired = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in keep]
        if expired:
            table.maintenance.expire_snapshots().by_ids(expired).commit()
            table.refresh()
        wanted = {table.metadata_location}
        for snapshot in table.metadata.snapshots:
            wanted.add(snapshot.manifest_list)
            wanted |= {manifest.manifest_path for manifest in snapshot.manifests(table.io)}
        paths = {folder.relative(location) for location in wanted}
        for stored in folder.below(METADATA).listed():
            if f"{METADATA}/{stored.path}" not in paths:
                folder.remove(f"{METADATA}/{stored.path}")

    # ---- tables of changes

    def _append_changes(self, plan: TablePlan, changes: tuple[TableFile, ...], number: int) -> None:
        """Add change files to the table of changes of a table."""
        folder = self.changes_folder(plan.table)
        schema = published_schemas.columns_of_changes(plan.schema)
        table = self._load(plan.table, "changes")
        if table is None:
            table = self._created(("changes", _called(plan.table)), schema, folder, is_partitioned=True)
        if not changes:
            return
        with table.transaction() as transaction:
            self._evolve(transaction, table, schema, is_partitioned=True)
            paths = [file.path for file in changes]
            self._snapshot(transaction, folder, [], paths, {_NUMBER: str(number)}, partition=number)

    def _remove_changes(self, name: str, is_removed: Any) -> None:
        """Remove the files of some versions from a table of changes."""
        table = self._load(name, "changes")
        if table is None:
            return
        removed = [file for file in self._data_files(table) if is_removed(file.partition[0])]
        if removed:
            with table.transaction() as transaction:
                self._snapshot(transaction, self.changes_folder(name), removed, [], {_NUMBER: "0"})

    # ---- metadata

    def _folder_of(self, table: str) -> StorageFolder:
        return self._folder.below(folder_name(table))

    def _load(self, name: str, namespace: str = PUBLISHED) -> Any:
        """Return a table, or its table of changes; None where there is none."""
        folder = self._folder_of(name) if namespace == PUBLISHED else self.changes_folder(name)
        return self._loaded(_called(name), namespace, folder)

    def _load_versions(self) -> Any:
        """Return the table of versions, None where there is none."""
        return self._loaded(VERSIONS, PUBLISHED, self._folder.below(VERSIONS))

    def _loaded(self, called: str, namespace: str, folder: StorageFolder) -> Any:
        """Return a table of the catalogue, None where there is none; creates no catalogue."""
        if "catalog" not in self._folder.storage and not self._folder.local.joinpath(CATALOG).exists():
            return None
        errors = package("exceptions")
        try:
            table = self.catalog.load_table((namespace, called))
        except errors.NoSuchTableError:
            return None
        except FileNotFoundError as error:
            raise files.damaged_table(folder, f"{error}; Iceberg tables cannot be moved or copied") from error
        if table.location() != folder.address:
            reason = f"its files are in `{table.location()}`; Iceberg tables cannot be moved or copied"
            raise files.damaged_table(folder, reason)
        return table

    def _created(
        self,
        identifier: tuple[str, str],
        schema: pa.Schema,
        folder: StorageFolder,
        is_partitioned: bool = False,
    ) -> Any:
        converted = self._converted(schema, itertools.count(1), is_partitioned)
        properties = {**_PROPERTIES, **self._schema_properties(schema, converted)}
        comment = published_schemas.comment_of(schema.metadata)
        if comment:
            properties["comment"] = comment
        spec = package("partitioning").UNPARTITIONED_PARTITION_SPEC
        if is_partitioned:
            spec = self._partitioned(converted)
        return self.catalog.create_table(
            identifier, converted, location=folder.address, partition_spec=spec, properties=properties
        )

    def _partitioned(self, schema: Any) -> Any:
        partitioning, transforms = package("partitioning"), package("transforms")
        source = schema.find_field(NUMBER).field_id
        field = partitioning.PartitionField(
            source_id=source, field_id=1000, transform=transforms.IdentityTransform(), name=NUMBER
        )
        return partitioning.PartitionSpec(field)

    def _converted(self, schema: pa.Schema, ids: Iterator[int], is_partitioned: bool) -> Any:
        """Return a schema for Iceberg, with ids for its fields."""
        fields = [_documented(field) for field in schema]
        if is_partitioned:
            fields.append(pa.field(NUMBER, pa.int64(), nullable=False))
        without = package("catalog").Catalog._convert_schema_if_needed(pa.schema(fields))
        return package("schema").assign_fresh_schema_ids(without, next_id=lambda: next(ids))

    def _schema_properties(self, schema: pa.Schema | None, converted: Any) -> dict[str, str]:
        own = {_SCHEMA: published_schemas.to_json(schema)} if schema is not None else {}
        return {_MAPPING: converted.name_mapping.model_dump_json(), **own}

    def _evolve(self, transaction: Any, table: Any, schema: pa.Schema, is_partitioned: bool = False) -> None:
        """Give a table other columns; those with the same name and type keep their ids."""
        text = table.properties.get(_SCHEMA)
        comment = published_schemas.comment_of(schema.metadata) or ""
        if text == published_schemas.to_json(schema):
            if comment != table.properties.get("comment", ""):
                transaction.set_properties({"comment": comment})
            return
        types = {field.name: field.type for field in published_schemas.from_json(text)} if text else {}
        current = table.schema()
        ids = itertools.count(table.metadata.last_column_id + 1)
        fresh = self._converted(schema, ids, is_partitioned)
        fields = []
        for field in fresh.fields:
            is_kept = field.name == NUMBER and is_partitioned
            if is_kept or (field.name in types and types[field.name] == schema.field(field.name).type):
                old = current.find_field(field.name)
                update = {"field_id": old.field_id, "field_type": old.field_type}
                fields.append(field.model_copy(update=update))
            else:
                fields.append(field)
        updates = package("table.update")
        number = max(each.schema_id for each in table.metadata.schemas) + 1
        new = package("schema").Schema(*fields, schema_id=number)
        transaction._stage(
            (updates.AddSchemaUpdate(schema=new), updates.SetCurrentSchemaUpdate(schema_id=-1))
        )
        transaction.set_properties({**self._schema_properties(schema, new), "comment": comment})

    def _data_files(self, table: Any, snapshot: Any = None) -> list[Any]:
        """Return the data files of a snapshot, the current one by default."""
        snapshot = snapshot or table.current_snapshot()
        if snapshot is None:
            return []
        entries: Iterable[Any] = (
            entry
            for manifest in snapshot.manifests(table.io)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        )
        return [entry.data_file for entry in entries]

    def _snapshot(
        self,
        transaction: Any,
        folder: StorageFolder,
        removed: list[Any],
        added: list[str],
        properties: dict[str, str],
        partition: int | None = None,
    ) -> None:
        """Add a snapshot to a transaction: removed files, and added ones."""
        update = transaction.update_snapshot(snapshot_properties=properties)
        with update.overwrite() if removed or not added else update.merge_append() as snapshot:
            for file in removed:
                snapshot.delete_data_file(file)
            for path in added:
                snapshot.append_data_file(_data_file(transaction.table_metadata, folder, path, partition))

    def _damaged(self, table: str, reason: str) -> DataError:
        return files.damaged_table(self._folder_of(table), reason)


def _called(table: str) -> str:
    """Return a table's name in the catalogue, which has a table `_versions` of its own."""
    return folder_name(table) if table.startswith("_") else table


def _begins(snapshot: Any) -> bool:
    """Return whether a snapshot of the table of versions has all remaining versions."""
    return snapshot.summary is not None and "tidelog.begins" in snapshot.summary.additional_properties


def _documented(field: pa.Field) -> pa.Field:
    comment = published_schemas.comment_of(field.metadata)
    return field.with_metadata({b"doc": comment.encode()} if comment else None)


def _data_file(metadata: Any, folder: StorageFolder, path: str, partition: int | None) -> Any:
    """Return Iceberg's metadata for a Parquet file."""
    arrow, manifest = package("io.pyarrow"), package("manifest")
    record = package("typedef").Record
    with folder.filesystem.open_input_file(folder.path(path)) as stream:
        size = stream.size()
        footer = pq.read_metadata(stream)
    schema = metadata.schema()
    statistics = arrow.data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer,
        stats_columns=arrow.compute_statistics_plan(schema, metadata.properties),
        parquet_column_mapping=arrow.parquet_path_to_id_mapping(schema),
    )
    return manifest.DataFile.from_args(
        content=manifest.DataFileContent.DATA,
        file_path=folder.location(path),
        file_format=manifest.FileFormat.PARQUET,
        partition=record() if partition is None else record(partition),
        file_size_in_bytes=size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _file_of(folder: StorageFolder, file: Any, schema: Any) -> TableFile:
    """Return a data file with bounds of the columns for which all writers agree on them."""
    conversions, types = package("conversions"), package("types")
    names = ("Integer", "Long", "String", "Date", "Timestamp", "Timestamptz", "Decimal")
    compared = tuple(getattr(types, f"{name}Type") for name in names)
    columns = {}
    for field in schema.fields:
        bounds: list[Any] = []
        for found in (file.lower_bounds, file.upper_bounds):
            raw = (found or {}).get(field.field_id)
            is_known = raw is not None and isinstance(field.field_type, compared)
            bounds.append(conversions.from_bytes(field.field_type, raw) if is_known else None)
        low, high = bounds
        columns[field.name] = Range(low, high, (file.null_value_counts or {}).get(field.field_id))
    return TableFile(folder.relative(file.file_path), file.record_count, file.file_size_in_bytes, columns)
