"""Storages that fail: an S3 server that goes away in the middle of a test and comes back, and a disk that gets full."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dev.servers.absent import absent
from dev.servers.postgres_proxy import PostgresProxy
from dev.servers.proxy import Request, Rule, S3Proxy

# Of a storage whose outage does not end: how a run fails is the same after two retries as after eight.
HURRIED = {"requests": {"retries": 2, "first_wait": 0.05}}


@dataclass
class Outage:
    """The proxy goes away when a request of this kind comes, for that one and all that follow."""

    proxy: S3Proxy | PostgresProxy
    when: Callable[[Request], bool]
    seconds: float
    begun: bool = False
    _down: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _back: threading.Event = field(default_factory=threading.Event)

    def __call__(self, request: Request) -> bool:
        if self.begun or not self.when(request):
            return False
        self.begun = True
        threading.Thread(target=self._away, daemon=True).start()
        return True

    def begin(self) -> None:
        """Go away now; returns when the proxy has gone."""
        self.begun = True
        threading.Thread(target=self._away, daemon=True).start()
        assert self._down.wait(60)

    def _away(self) -> None:
        with self.proxy.down():
            self._down.set()
            self._over.wait(self.seconds)
        self._back.set()

    def end(self) -> None:
        """Let the proxy come back; returns when it has."""
        self._over.set()
        if self.begun:
            assert self._back.wait(60)


@pytest.fixture
def outage(s3_proxy: S3Proxy) -> Iterator[Callable[..., Outage]]:
    """Lets the proxy go away at a request, for so many seconds or until it is `over`."""
    outages: list[Outage] = []

    def begin(when: Callable[[Request], bool], seconds: float) -> Outage:
        outages.append(Outage(s3_proxy, when, seconds))
        s3_proxy.inject(Rule("hang_up", when=outages[-1]))
        return outages[-1]

    yield begin
    for item in outages:
        item.end()


def is_written(request: Request) -> bool:
    return request.method in {"PUT", "POST"} and request.key.endswith(".parquet")


def is_read(request: Request) -> bool:
    return request.method == "GET" and request.key.endswith(".parquet")


def is_looked_at(request: Request) -> bool:
    return request.method in {"GET", "HEAD"} and request.key.endswith(".parquet")


def is_listed(request: Request) -> bool:
    return request.method == "GET" and not request.key


@contextmanager
def small_disk(folder: Path, size: str = "100k") -> Iterator[Path]:
    """A file system in memory at this place; the default is less than `noise` takes."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        absent("no small file system that gets full: run as root, who may mount one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def noise() -> pa.Table:
    """320 kB that nothing compresses."""
    return pa.table({"total": np.random.default_rng(1).random(40_000)})
