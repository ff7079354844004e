"""Snapshots and journals that somebody has changed, with checksums that are right."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

from tidelog.store import store as superblock
from tidelog.store.forms import packed
from tidelog.store.journal import BEGIN, HEADER, Position
from tidelog.store.snapshot import END, TRAILER, Snapshot, SnapshotPart
from tidelog.store.store import StoreFolder, Superblock


def forge(store: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the index of a snapshot; the superblock believes it."""
    folder = StoreFolder(store)
    root = superblock.read(folder.superblock)
    path = folder.snapshot(root.snapshot)
    snapshot, data = Snapshot(path), path.read_bytes()
    index = snapshot.index
    change(index)
    _write_index(store, index, TRAILER.unpack(data[-TRAILER.size :])[0])


def _write_index(store: Path, index: dict[str, Any], place: int) -> None:
    """Write another index at a place of the snapshot, up to its end; the superblock has its checksum."""
    folder = StoreFolder(store)
    root = superblock.read(folder.superblock)
    path = folder.snapshot(root.snapshot)
    told = json.dumps(index, ensure_ascii=False).encode(errors="surrogatepass")
    fields = struct.pack("<QQI", place, len(told), crc32(told))
    trailer = TRAILER.pack(place, len(told), crc32(told), crc32(fields), END)
    path.write_bytes(path.read_bytes()[:place] + told + trailer)
    Superblock.create(folder.superblock, replace(root, checksum=crc32(told))).close()


def forge_section(store: Path, part: SnapshotPart, change: Callable[[Any], Any]) -> None:
    """Change the numbers of a section; they are put at the end of the file."""
    folder = StoreFolder(store)
    root = superblock.read(folder.superblock)
    path = folder.snapshot(root.snapshot)
    snapshot, data = Snapshot(path), path.read_bytes()
    place = TRAILER.unpack(data[-TRAILER.size :])[0]
    told = part.section.to_json()
    section, numbers = packed(change(snapshot.array(told, str(part))), place)
    path.write_bytes(data[:place] + bytes(numbers) + data[place:])
    text = json.dumps(snapshot.index, ensure_ascii=False)
    index = json.loads(text.replace(json.dumps(told), json.dumps(section.to_json())))
    _write_index(store, index, place + len(numbers))


def forge_record(store: Path, content: bytes) -> None:
    """Write a journal of one record with this content."""
    folder = StoreFolder(store)
    root = superblock.read(folder.superblock)
    path = folder.journal(root.journal)
    header = path.read_bytes()[: HEADER.size]
    chain, number = HEADER.unpack(header)[-1], HEADER.unpack(header)[3]
    fields = struct.pack("<4sIQI", BEGIN, len(content), number, crc32(content))
    data = header + fields + struct.pack("<I", crc32(fields)) + content
    path.write_bytes(data)
    confirmed = Position(number, len(data), crc32(fields, chain))
    Superblock.create(folder.superblock, replace(root, confirmed=confirmed)).close()
