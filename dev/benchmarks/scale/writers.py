"""How many commits a second one PostgreSQL catalog takes, from several processes at once."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any

from dev.benchmarks.scale.lake import (
    Files,
    catalog_on,
    commit_all,
    make_table,
    server,
    stream_on,
    text_of,
)
from dev.benchmarks.scale.results import Rate
from dev.servers.proxy import Rule, S3Proxy
from dev.servers.s3 import WEED, seaweedfs

_LATENCY = 0.05  # seconds


@dataclass(frozen=True)
class Case:
    """How many processes commit how many partitions at a time, and where to."""

    writers: int
    batch: int = 1
    tables: int = 1  # of each lake
    lakes: int = 1
    latency: float = 0  # seconds of each request to the storage; 0: a local folder

    @property
    def commits(self) -> int:
        """Those of each writer: fewer of many, of large ones, and where each file takes its time."""
        in_all = 400 if self.latency else 1200
        return max(in_all // self.writers // max(self.batch // 5, 1), 4)

    def __str__(self) -> str:
        where = f", {self.latency * 1000:.0f} ms a request" if self.latency else ""
        return f"{self.writers} writers, {self.lakes} lakes, {self.tables} tables, {self.batch} partitions{where}"


CASES = [
    *(Case(writers, batch) for batch in (1, 10, 50) for writers in (1, 4, 16, 64)),
    *(Case(16, batch, tables=8) for batch in (1, 50)),
    Case(32, lakes=4),
    *(Case(writers, latency=_LATENCY) for writers in (1, 4, 16)),
    *(Case(16, batch, tables=8, latency=_LATENCY) for batch in (1, 50)),
]
QUICK = [Case(2), Case(2, 5), Case(2, tables=2), Case(2, lakes=2), Case(2, latency=_LATENCY)]


def writers(folder: Path, say: Callable[[str], None], *, quick: bool) -> list[Rate]:
    """Each case in a new catalog of a server whose commits wait for the disk, with files that are written before."""
    rates = []
    with server() as running, ExitStack() as stack:
        bucket: Callable[[], dict[str, Any]] | None = None
        for number, case in enumerate(QUICK if quick else CASES):
            if case.latency and bucket is None:
                bucket = stack.enter_context(_slow_storage(case.latency))
            places = []
            for lake in range(case.lakes):
                catalog, storage = catalog_on(running), bucket() if case.latency and bucket else None
                for table in range(case.tables):
                    places.append(_Place(catalog, folder / f"writers-{number}-{lake}", f"sales_{table}", storage))
                    make_table(places[-1].stream)
            rates.append(_rate(places, case, 2 if quick else case.commits))
            say(f"{case}: {rates[-1].rate:.1f} commits a second")
    return rates


@contextmanager
def _slow_storage(seconds: float) -> Iterator[Callable[[], dict[str, Any]]]:
    """An S3 server behind a proxy that delays each request; gives the config of a new bucket."""
    with seaweedfs(WEED) as upstream:
        proxy = S3Proxy(upstream)
        proxy.inject(Rule("slow", times=10**9, seconds=seconds))
        access = {"key_id": upstream.access_key, "secret": upstream.secret_key, "region": upstream.region}
        try:
            yield lambda: {"type": "s3", "bucket": upstream.new_bucket(), "endpoint": proxy.s3.endpoint, **access}
        finally:
            proxy.close()


@dataclass(frozen=True)
class _Place:
    """A table."""

    catalog: dict[str, Any]
    folder: Path
    table: str
    storage: dict[str, Any] | None

    @property
    def stream(self) -> Any:
        """Its stream."""
        return stream_on(self.catalog, self.folder, self.table, self.storage)


@dataclass(frozen=True)
class _Writer:
    """One process, and what it does."""

    place: _Place
    number: int
    batch: int
    commits: int

    def run(self, results: Connection, barrier: Barrier) -> None:
        """Replace partitions of its own again and again; send when it began and ended, and what each commit took."""
        stream = self.place.stream
        files = Files(stream)
        texts = [text_of(f"W{self.number}", day) for day in range(self.batch)]
        first, *others = (files.replacements(texts) for _ in range(self.commits + 1))
        with stream.lake.open() as lake:
            commit_all(lake, first)
            barrier.wait(600)
            begun = now = time.monotonic()
            taken = []
            for replacements in others:
                start = now
                commit_all(lake, replacements)
                now = time.monotonic()
                taken.append(now - start)
        results.send((begun, now, taken))


def _rate(places: Sequence[_Place], case: Case, commits: int) -> Rate:
    # A server of forks imports once for all; a fork of this process would inherit the threads of DuckDB and Arrow.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    barrier = context.Barrier(case.writers)
    receivers = []
    children = []
    for number in range(case.writers):
        receiver, sender = context.Pipe(duplex=False)
        writer = _Writer(places[number % len(places)], number, case.batch, commits)
        child = context.Process(target=writer.run, args=(sender, barrier), daemon=True)
        child.start()
        sender.close()
        receivers.append(receiver)
        children.append(child)
    try:
        found = [receiver.recv() for receiver in receivers]
    except EOFError as error:
        raise RuntimeError("a writer has failed; its error is above") from error
    for child in children:
        child.join()
    began, ended = min(start for start, _, _ in found), max(end for _, end, _ in found)
    each = [one for _, _, taken in found for one in taken]
    return Rate(
        writers=case.writers,
        lakes=case.lakes,
        tables=case.tables,
        batch=case.batch,
        latency=case.latency,
        commits=len(each),
        seconds=ended - began,
        median=median(each),
    )
