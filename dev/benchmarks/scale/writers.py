"""How many commits a second one PostgreSQL catalog takes, from several processes at once."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
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

# Writers, lakes and partitions of a commit.
CASES = [(writers, 1, batch) for batch in (1, 10, 50) for writers in (8, 32, 64)] + [(32, 4, 1)]
QUICK = [(2, 1, 1), (2, 1, 5), (2, 2, 1)]


def writers(folder: Path, say: Callable[[str], None], *, quick: bool) -> list[Rate]:
    """Each case for some seconds, in a new catalog of a server whose commits wait for the disk."""
    rates = []
    with server() as running:
        for number, (processes, lakes, batch) in enumerate(QUICK if quick else CASES):
            places = [(catalog_on(running), folder / f"writers-{number}-{lake}") for lake in range(lakes)]
            for catalog, place in places:
                make_table(stream_on(catalog, place))
            rates.append(_rate(places, processes, batch, 1.0 if quick else 10.0))
            what = f"{processes} writers, {lakes} lakes, {batch} partitions a commit"
            say(f"{what}: {rates[-1].rate:.1f} commits a second")
    return rates


@dataclass(frozen=True)
class _Writer:
    """One process, and what it does."""

    catalog: dict[str, Any]
    folder: Path
    number: int
    batch: int
    seconds: float

    def run(self, results: Connection, barrier: Barrier) -> None:
        """Replace partitions of its own again and again; send when it began and ended, and what each commit took."""
        stream = stream_on(self.catalog, self.folder)
        files = Files(stream)
        texts = [text_of(f"W{self.number}", day) for day in range(self.batch)]
        with stream.lake.open() as lake:
            commit_all(lake, files.replacements(texts))
            barrier.wait(600)
            begun = now = time.monotonic()
            taken = []
            while now < begun + self.seconds:
                prepared = files.replacements(texts)
                start = time.monotonic()
                commit_all(lake, prepared)
                now = time.monotonic()
                taken.append(now - start)
        results.send((begun, now, taken))


def _rate(places: Sequence[tuple[dict[str, Any], Path]], processes: int, batch: int, seconds: float) -> Rate:
    # A server of forks imports once for all; a fork of this process would inherit the threads of DuckDB and Arrow.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    barrier = context.Barrier(processes)
    receivers = []
    children = []
    for number in range(processes):
        receiver, sender = context.Pipe(duplex=False)
        writer = _Writer(*places[number % len(places)], number, batch, seconds)
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
        writers=processes,
        lakes=len(places),
        batch=batch,
        commits=len(each),
        seconds=ended - began,
        median=median(each),
    )
