"""Folders on a disk or in an object store, and the one mapping of settings that all libraries share.

A disk has what a writer needs to be safe from crashes: files that are forced to the disk, and a file that
is created only if its name is free. Object stores replace whole objects; which of two writers comes first is
decided there by the libraries of the table formats, if at all.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pafs

from tidelog import durable
from tidelog.errors import DataError, Diagnostic, codes, suggest
from tidelog.records import dataclass

SCHEMES: Final = ("s3", "s3a")
KEYS: Final = ("access-key", "secret-key", "session-token", "endpoint", "region", "catalog")
ENVIRONMENT: Final = {
    "access-key": ("AWS_ACCESS_KEY_ID",),
    "secret-key": ("AWS_SECRET_ACCESS_KEY",),
    "session-token": ("AWS_SESSION_TOKEN",),
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
_CREDENTIALS: Final = ("access-key", "secret-key", "session-token")
_SAFE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")


def folder_name(table: str) -> str:
    """Return the name of a table's folder: other names for other tables, and plain for all readers.

    Percent signs and spaces are avoided, as some readers of Delta take them for escapes.

    >>> folder_name("reach"), folder_name("http://ex.org/a b"), folder_name("_versions")
    ('reach', 'http~3A~2F~2Fex.org~2Fa~20b', '~5Fversions')
    """
    parts = [letter if letter in _SAFE else _escaped(letter) for letter in table]
    if table[:1] in ("_", "."):  # readers skip such names, and the folder has some of its own
        parts[0] = _escaped(table[0])
    return "".join(parts)


def _escaped(letter: str) -> str:
    return "".join(f"~{byte:02X}" for byte in letter.encode("utf-8", "surrogatepass"))


def checked(storage: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return storage settings, or raise a diagnostic for a key that does not exist."""
    for key in storage or {}:
        if key not in KEYS:
            help_keys = f"the keys are {', '.join(KEYS)}"
            help_line = suggest(key, KEYS) or help_keys
            message = f"`{key}` is not a storage setting"
            raise DataError(Diagnostic(codes.STORAGE, message, help=help_line))
    return dict(storage or {})


def with_environment(storage: Mapping[str, str]) -> Mapping[str, str]:
    """Return storage settings, completed from the environment, for all libraries.

    An explicit access key is not combined with a secret from the environment.
    """
    settings = dict(storage)
    for key, names in ENVIRONMENT.items():
        if key in settings or (key in _CREDENTIALS and "access-key" in storage):
            continue
        value = next((os.environ[name] for name in names if os.environ.get(name)), None)
        if value is not None:
            settings[key] = value
    return settings


def s3a_options(storage: Mapping[str, str]) -> dict[str, str]:
    """Return storage settings by their names in Hadoop's file system `s3a`."""
    names = {
        "access-key": "fs.s3a.access.key",
        "secret-key": "fs.s3a.secret.key",
        "session-token": "fs.s3a.session.token",
        "endpoint": "fs.s3a.endpoint",
        "region": "fs.s3a.endpoint.region",
    }
    options = {names[key]: value for key, value in storage.items() if key in names}
    if "session-token" in storage:
        provider = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        options["fs.s3a.aws.credentials.provider"] = provider
    if "endpoint" in storage:
        options["fs.s3a.path.style.access"] = "true"
        is_plain = storage["endpoint"].startswith("http://")
        options["fs.s3a.connection.ssl.enabled"] = "false" if is_plain else "true"
    return options


def delta_options(storage: Mapping[str, str]) -> dict[str, str]:
    """Return storage settings by their names in the package `deltalake`."""
    names = {
        "access-key": "AWS_ACCESS_KEY_ID",
        "secret-key": "AWS_SECRET_ACCESS_KEY",
        "session-token": "AWS_SESSION_TOKEN",
        "endpoint": "AWS_ENDPOINT_URL",
        "region": "AWS_REGION",
    }
    options = {names[key]: value for key, value in storage.items() if key in names}
    if storage.get("endpoint", "").startswith("http://"):
        options["AWS_ALLOW_HTTP"] = "true"
    return options


def iceberg_options(storage: Mapping[str, str]) -> dict[str, str]:
    """Return storage settings by their names in the package `pyiceberg`."""
    names = {
        "access-key": "s3.access-key-id",
        "secret-key": "s3.secret-access-key",
        "session-token": "s3.session-token",
        "endpoint": "s3.endpoint",
        "region": "s3.region",
    }
    return {names[key]: value for key, value in storage.items() if key in names}


@dataclass(frozen=True)
class Stored:
    """A file in a folder, by its path below the folder."""

    path: str
    size: int
    written: int = 0  # when, in nanoseconds


@dataclass(frozen=True)
class StorageFolder:
    """A folder by its address: an absolute path, or `s3://bucket/key`."""

    address: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @staticmethod
    def at(path: str | Path, storage: Mapping[str, str] | None = None) -> StorageFolder:
        """Return the folder at a path or an address."""
        text = str(path)
        scheme, mark, location = text.partition("://")
        if mark and scheme == "file":
            text, mark = location, ""
        if not mark:
            address = str(Path(text).absolute())
            if "%" in address:
                message = f"`{address}` has a percent sign, which readers of Delta take for an escape"
                raise DataError(Diagnostic(codes.STORAGE, message, help="choose another folder"))
            return StorageFolder(address, checked(storage))
        if scheme not in SCHEMES:
            message = f"`{scheme}://` is not an address that tables are published at"
            raise DataError(Diagnostic(codes.STORAGE, message, help="use a path, or s3://bucket/key"))
        return StorageFolder(f"s3://{location.rstrip('/')}", with_environment(checked(storage)))

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a disk."""
        return not self.address.startswith("s3://")

    @property
    def local(self) -> Path:
        """The path of a folder on a disk."""
        return Path(self.address)

    @cached_property
    def filesystem(self) -> Any:
        """The folder's file system in Arrow."""
        if self.is_local:
            return pafs.LocalFileSystem()
        endpoint = self.storage.get("endpoint")
        scheme, _, host = endpoint.partition("://") if endpoint else ("https", "", None)
        try:
            return pafs.S3FileSystem(
                access_key=self.storage.get("access-key"),
                secret_key=self.storage.get("secret-key"),
                session_token=self.storage.get("session-token"),
                region=self.storage.get("region"),
                endpoint_override=host,
                scheme=scheme,
                retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=3),
            )
        except (OSError, ValueError, pa.ArrowException) as error:
            message = f"`{self.address}` cannot be reached: {error}"
            raise DataError(Diagnostic(codes.STORAGE, message)) from error

    def check(self) -> None:
        """Raise a diagnostic if the object store cannot be reached, or denies access with these settings."""
        if self.is_local:
            return
        bucket = self.address.removeprefix("s3://").partition("/")[0]
        try:
            # Listing is what all libraries do first; a missing bucket shows in no other way.
            if self.filesystem.get_file_info(bucket).type == pafs.FileType.NotFound:
                message = f"no such bucket: `{bucket}`"
                raise DataError(Diagnostic(codes.STORAGE, message, help=_STORAGE_HELP, place=self.address))
            self.filesystem.get_file_info(pafs.FileSelector(self.path(), allow_not_found=True))
        except OSError as error:
            message = f"`{self.address}` cannot be reached: {_reason(error)}"
            fault = Diagnostic(codes.STORAGE, message, help=_STORAGE_HELP, place=self.address)
            raise DataError(fault) from error

    def path(self, name: str = "") -> str:
        """Return the path of a file below the folder, for the file system."""
        base = self.address.removeprefix("s3://")
        return f"{base}/{name}" if name else base

    def location(self, name: str = "") -> str:
        """Return the address of a file below the folder, for tasks and readers."""
        return f"{self.address}/{name}" if name else self.address

    def below(self, name: str) -> StorageFolder:
        """Return a folder in this one."""
        return StorageFolder(self.location(name), self.storage)

    def relative(self, location: str) -> str:
        """Return a file's path below this folder; a relative path is unchanged."""
        text = location.removeprefix("file://").replace("s3a://", "s3://")
        base = self.address + "/"
        if text.startswith(base):
            return text.removeprefix(base)
        if "://" in text or text.startswith("/"):
            message = f"`{location}` is not in the folder `{self.address}`"
            raise DataError(Diagnostic(codes.WRONG_FILE, message, help="write it where `folder_of` says"))
        return text

    # ---- small files

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if it does not exist."""
        try:
            if self.is_local:
                return Path(self.path(name)).read_bytes()
            with self.filesystem.open_input_file(self.path(name)) as stream:
                content: bytes = stream.read()
                return content
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            message = f"`{self.location(name)}` cannot be read: {error}"
            raise DataError(Diagnostic(codes.STORAGE, message)) from error

    def has(self, name: str) -> bool:
        """Return whether there is a file."""
        if self.is_local:
            return Path(self.path(name)).exists()
        return bool(self.filesystem.get_file_info(self.path(name)).type == pafs.FileType.File)

    def write(self, name: str, data: bytes) -> None:
        """Replace the content of a file atomically."""
        if self.is_local:
            path = Path(self.path(name))
            durable.make_folders(path.parent)
            durable.write_bytes(path, data)
            return
        with self.filesystem.open_output_stream(self.path(name)) as stream:
            stream.write(data)

    def create(self, name: str, data: bytes) -> None:
        """Create a file atomically; raise `FileExistsError` if it exists.

        On object stores the check and the writing are two steps: there is one writer.
        """
        if not self.is_local:
            if self.read(name) is not None:
                raise FileExistsError(self.location(name))
            self.write(name, data)
            return
        path = Path(self.path(name))
        durable.make_folders(path.parent)
        temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
        descriptor = durable.create(temporary)
        try:
            durable.write_all(descriptor, data)
            durable.sync(descriptor)
            link(temporary, path)  # fails where the name is taken, on all systems with hard links
        finally:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)
        durable.sync_folder(path.parent)

    def remove(self, name: str) -> None:
        """Delete a file if it exists."""
        if self.is_local:
            durable.remove(Path(self.path(name)))
            return
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(self.path(name))

    def sync(self, names: Iterable[str]) -> None:
        """Force files that other processes have written to the disk, and their names."""
        if not self.is_local:
            return
        folders = set()
        for name in names:
            path = Path(self.path(name))
            durable.sync_file(path)
            folders.add(path.parent)
        for folder in sorted(folders):
            durable.sync_folder(folder)

    def listed(self) -> tuple[Stored, ...]:
        """Return all files below the folder."""
        selector = pafs.FileSelector(self.path(), allow_not_found=True, recursive=True)
        base = self.path() + "/"
        return tuple(
            Stored(info.path.removeprefix(base), info.size, info.mtime_ns or 0)
            for info in self.filesystem.get_file_info(selector)
            if info.type == pafs.FileType.File
        )

    def folders(self) -> tuple[str, ...]:
        """Return the names of the folders directly in this one."""
        selector = pafs.FileSelector(self.path(), allow_not_found=True)
        return tuple(
            info.base_name
            for info in self.filesystem.get_file_info(selector)
            if info.type == pafs.FileType.Directory
        )


_STORAGE_HELP: Final = "check the keys, endpoint and region in [storage], or AWS_ACCESS_KEY_ID and so on"


def _reason(error: OSError) -> str:
    """Return why an object store fails, without the client's report of its attempts."""
    text = str(error).splitlines()[0]
    return text.partition(": AWS Error ")[2] or text


def link(path: Path, name: Path) -> None:
    """Give a file a second name; raise FileExistsError if the name is taken."""
    os.link(path, name)
