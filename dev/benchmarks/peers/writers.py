"""Several processes refresh different partitions of one table at the same time."""

import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from dev.benchmarks.peers.bench import CALL, Bench, DifferentRowsError, Running
from dev.benchmarks.peers.compare import Landed
from dev.benchmarks.peers.data import RETAIL, Values, land_partition, other_partitions
from dev.benchmarks.peers.process import PeerFailedError
from dev.benchmarks.peers.results import Failure, Writers

WRITERS = 8
TRIES = 10  # of one refresh, with a pause of up to 0.1 s times the number of tries
FILES, ROWS = 5, 1000  # of each partition
LONGEST = 160  # characters of an error


@dataclass
class Tally:
    """What all writers have done together."""

    committed: int = 0
    retries: int = 0
    refused: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # by type: the first text
    lock: threading.Lock = field(default_factory=threading.Lock)

    def failed(self, text: str) -> None:
        """Count an error by its type; the first text of a type is kept."""
        with self.lock:
            kind = text.partition(":")[0]
            shown = self.texts.setdefault(kind, " ".join(text.split())[:LONGEST])
            self.errors[shown] = self.errors.get(shown, 0) + 1


def writers(bench: Bench, names: Sequence[str], rounds: int, count: int = WRITERS) -> Mapping[str, Writers | Failure]:
    """Each peer in turn: its writers make `rounds` refreshes of the landed rows, and as many after these have changed.

    A refresh that fails is repeated by the benchmark, beside what the peer itself repeats. At the end the table is
    compared with the landing zone, so a commit that was reported and lost, or made twice, is a difference.
    """

    def describe(found: Writers) -> str:
        difference = f", {found.difference}" if found.difference else ""
        return f"{found.rate:.1f} commits a second, {found.retries} retries, {found.refused} refused{difference}"

    with bench.part(f"writers: {count} processes, {2 * rounds} refreshes each"):
        return bench.each(names, lambda name: _writers(bench, name, rounds, count), describe)


def _writers(bench: Bench, name: str, rounds: int, count: int) -> Writers:
    landed = Landed(bench.folder / "landing-writers", RETAIL)
    first, *partitions = other_partitions(count + 1)
    for number, partition in enumerate((first, *partitions)):
        land_partition(landed.folder, partition, FILES, ROWS, 100 * number)
    folder = bench.new_folder("writers", name)
    running = [bench.start(name, landed, folder, "create")]
    try:
        running[0].process.call("refresh", CALL, partition=first)
        with ThreadPoolExecutor(count) as pool:
            running += pool.map(lambda _: bench.start(name, landed, folder, "open"), range(count - 1))
            # What a session does once is not measured, nor is the first load of a partition.
            list(pool.map(lambda peer, call: write(peer, call, Tally()), running, map(_refresh, partitions)))
            tally, seconds = Tally(), 0.0
            for version in range(2):
                if version:
                    for number, partition in enumerate(partitions, 1):
                        land_partition(landed.folder, partition, FILES, ROWS, 5000 + 100 * number)
                begun = time.perf_counter()
                list(pool.map(lambda peer, call: write(peer, call, tally, rounds), running, map(_refresh, partitions)))
                seconds += time.perf_counter() - begun
        return Writers(
            writers=count,
            committed=tally.committed,
            seconds=seconds,
            retries=tally.retries,
            refused=tally.refused,
            errors=tally.errors,
            difference=_difference(bench, running[0], landed),
        )
    finally:
        for peer in running:
            peer.process.close()


def _refresh(partition: Values) -> Mapping[str, Any]:
    return {"name": "refresh", "partition": partition}


def write(peer: Running, call: Mapping[str, Any], tally: Tally, rounds: int = 1) -> None:
    """Let the peer make a call, and repeat it when it fails."""
    for _ in range(rounds):
        for number in range(TRIES):
            try:
                peer.process.call(timeout=CALL, **call)
            except PeerFailedError as error:
                tally.failed(str(error))
                with tally.lock:
                    if number + 1 < TRIES:
                        tally.retries += 1
                    else:
                        tally.refused += 1
                time.sleep(random.uniform(0, 0.1 * (number + 1)))
            else:
                with tally.lock:
                    tally.committed += 1
                break


def _difference(bench: Bench, peer: Running, landed: Landed) -> str | None:
    try:
        bench.verify(peer, landed)
    except (DifferentRowsError, PeerFailedError) as error:
        return " ".join(str(error).split())[:LONGEST]
    return None
