"""What a reader sees while a partition is being refreshed."""

import threading
import time
from collections.abc import Mapping, Sequence

from dev.benchmarks.peers.bench import CALL, Bench, Running
from dev.benchmarks.peers.compare import Landed
from dev.benchmarks.peers.data import PARTITION, RETAIL, land_partition
from dev.benchmarks.peers.process import PeerFailedError
from dev.benchmarks.peers.results import Failure, Readers
from dev.benchmarks.peers.writers import Tally

FILES, ROWS = 20, 1000


def readers(bench: Bench, names: Sequence[str], seconds: float) -> Mapping[str, Readers | Failure]:
    """Each peer in turn: one process refreshes a partition by the same rows, another counts them all the time."""

    def describe(found: Readers) -> str:
        return (
            f"{found.reads} reads beside {found.refreshes} refreshes, {found.others} of other numbers of rows,"
            f" {found.failed} failed"
        )

    with bench.part(f"readers: one beside refreshes, for {seconds:g} s"):
        landed = Landed(bench.folder / "landing-readers", RETAIL)
        land_partition(landed.folder, PARTITION, FILES, ROWS)
        return bench.each(names, lambda name: _readers(bench, name, landed, seconds), describe)


def _readers(bench: Bench, name: str, landed: Landed, seconds: float) -> Readers:
    folder = bench.new_folder("readers", name)
    peers = [bench.start(name, landed, folder, "create")]
    try:
        peers[0].process.call("refresh", CALL, partition=PARTITION)
        peers.append(bench.start(name, landed, folder, "open"))
        peers[1].process.call("count", CALL, partition=PARTITION)
        seen: dict[int, int] = {}
        tally, done = Tally(), threading.Event()
        reader = threading.Thread(target=_read, args=(peers[1], done, seen, tally))
        reader.start()
        try:
            refreshes, refused = 0, 0
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                try:
                    peers[0].process.call("refresh", CALL, partition=PARTITION)
                    refreshes += 1
                except PeerFailedError:
                    refused += 1
                    if refused > refreshes + 10:
                        raise
        finally:
            done.set()
            reader.join()
        others = {str(count): times for count, times in sorted(seen.items()) if count != FILES * ROWS}
        return Readers(
            reads=sum(seen.values()), refreshes=refreshes, refused=refused, counts=others, errors=tally.errors
        )
    finally:
        for peer in peers:
            peer.process.close()


def _read(peer: Running, done: threading.Event, seen: dict[int, int], tally: Tally) -> None:
    while not done.is_set():
        try:
            count, _ = peer.process.call("count", CALL, partition=PARTITION)
        except PeerFailedError as error:
            tally.failed(str(error))
            time.sleep(0.01)
        else:
            seen[count] = seen.get(count, 0) + 1
