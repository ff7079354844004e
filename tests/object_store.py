"""A server that speaks S3, in a process of its own, with a bucket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow.fs as pafs

BUCKET = "bucket"
PATIENCE = 60  # seconds for the server to start


@contextmanager
def object_store(requests: int | None = None) -> Iterator[dict[str, str]]:
    """In the block a server runs; gives the storage settings.

    After so many requests, if that is given, it lets nobody in.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Not a thread of this process: clients that hold the interpreter's lock would wait for themselves.
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    limit = {} if requests is None else {"INITIAL_NO_AUTH_ACTION_COUNT": str(requests)}
    environment = {**os.environ, **limit}
    server = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(server, port)
        filesystem = pafs.S3FileSystem(
            access_key="key",
            secret_key="secret",
            region="us-east-1",
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            allow_bucket_creation=True,
        )
        filesystem.create_dir(BUCKET)
        endpoint = f"http://127.0.0.1:{port}"
        yield {"access-key": "key", "secret-key": "secret", "region": "us-east-1", "endpoint": endpoint}
    finally:
        server.kill()
        server.wait()


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the server answers."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if server.poll() is not None:
            raise AssertionError("moto did not start: try `python -m moto.server`")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError("moto did not start in time")
