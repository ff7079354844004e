"""A server that speaks S3, in this process, with a bucket."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow.fs as pafs
from moto.server import ThreadedMotoServer

BUCKET = "bucket"


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """In the block a server runs; gives the storage settings."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    try:
        filesystem = pafs.S3FileSystem(
            access_key="key",
            secret_key="secret",
            region="us-east-1",
            endpoint_override=f"{host}:{port}",
            scheme="http",
            allow_bucket_creation=True,
        )
        filesystem.create_dir(BUCKET)
        yield {"access-key": "key", "secret-key": "secret", "region": "us-east-1", "endpoint": endpoint}
    finally:
        running.stop()
