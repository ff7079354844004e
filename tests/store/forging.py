"""Snapshots and journals that somebody has changed, with checksums that are right."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

from tidelog.store import superblock
from tidelog.store.folder import Folder
from tidelog.store.journal import BEGIN, HEADER, Position
from tidelog.store.snapshot import END, TRAILER, Snapshot
from tidelog.store.superblock import Superblock


def forge(store: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the index of a snapshot; the superblock believes it."""
    folder = Folder(store)
    root = superblock.read(folder.superblock)
    path = folder.snapshot(root.snapshot)
    snapshot, data = Snapshot(path), path.read_bytes()
    index = snapshot.index
    change(index)
    place = TRAILER.unpack(data[-TRAILER.size :])[0]
    told = json.dumps(index, ensure_ascii=False).encode(errors="surrogatepass")
    fields = struct.pack("<QQI", place, len(told), crc32(told))
    trailer = TRAILER.pack(place, len(told), crc32(told), crc32(fields), END)
    path.write_bytes(data[:place] + told + trailer)
    Superblock.create(folder.superblock, replace(root, checksum=crc32(told))).close()


def forge_record(store: Path, content: bytes) -> None:
    """Let the journal hold one record, with this content."""
    folder = Folder(store)
    root = superblock.read(folder.superblock)
    path = folder.journal(root.journal)
    header = path.read_bytes()[: HEADER.size]
    chain, number = HEADER.unpack(header)[-1], HEADER.unpack(header)[3]
    fields = struct.pack("<4sIQI", BEGIN, len(content), number, crc32(content))
    data = header + fields + struct.pack("<I", crc32(fields)) + content
    path.write_bytes(data)
    confirmed = Position(number, len(data), crc32(fields, chain))
    Superblock.create(folder.superblock, replace(root, confirmed=confirmed)).close()
