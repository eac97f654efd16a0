"""One partition refreshed in a table that has others, warm and in turns."""

import os
from collections.abc import Mapping, Sequence

from dev.benchmarks.peers.bench import CALL, Bench, Running
from dev.benchmarks.peers.data import PARTITION, landed_retail, other_partitions
from dev.benchmarks.peers.results import Failure, Refresh

LARGE = 1_000_000  # rows; after a larger refresh the peers give back memory, or all of them together need too much


def timed(peer: Running, times: Refresh) -> Refresh:
    """One more round. What others have written is on disk before it begins."""
    os.sync()
    before = peer.process.processor_seconds()
    _, wall = peer.process.call("refresh", CALL, partition=PARTITION)
    used = peer.process.processor_seconds() - before
    return times.model_copy(update={"wall": [*times.wall, wall], "processor": [*times.processor, used]})


def _watched(peer: Running, times: Refresh, pause: float) -> Refresh:
    """One more round with the peak of the memory, after which the process gives back what it does not need."""
    with peer.process.peak_memory(pause) as peak:
        found = timed(peer, times)
    peer.process.call("rest", CALL)
    return found.model_copy(update={"memory": max(round(peak[0]), times.memory or 0)})


def refresh(
    bench: Bench, part: str, names: Sequence[str], files: int, rows: int, rounds: int
) -> Mapping[str, Refresh | Failure]:
    """All peers have their tables; then they refresh the partition in turns.

    Args:
        bench: the run.
        part: names the folders.
        names: the peers.
        files: objects of the partition.
        rows: of each object.
        rounds: timed refreshes of each peer, after two that are not timed. One more measures the memory. Of a large
            partition the load is the only one that is not timed, and the memory is read in the timed ones.
    """
    with bench.part(f"{part}: {files:,} x {rows:,} rows, {rounds} rounds") as failures:
        landed = landed_retail(bench.folder / f"landing-{part}-{files}-{rows}", files, rows)
        running: dict[str, Running] = {}
        results: dict[str, Refresh] = {}
        for name in names:
            bench.say(f"  {name}: loading")
            with bench.surviving(name):
                running[name] = bench.start(name, landed, bench.new_folder(part, name), "create")
                for partition in (*other_partitions(), PARTITION):
                    running[name].process.call("refresh", CALL, partition=partition)
        empty = Refresh(wall=[], processor=[])
        large = files * rows > LARGE
        for number in range(1 if large else 0, rounds + 1):
            bench.say(f"  round {number} of {rounds}" if number else "  warm-up")
            for name in bench.remaining(list(running)):
                with bench.surviving(name):
                    before = results.get(name, empty)
                    after = _watched(running[name], before, 0.2) if large else timed(running[name], before)
                    results[name] = after if number else empty
        bench.say("  the rows")
        for name in bench.remaining(list(running)):
            with bench.surviving(name):
                if not large:
                    memory = _watched(running[name], results[name], 0.02).memory
                    results[name] = results[name].model_copy(update={"memory": memory})
                bench.verify(running[name], landed)
        for peer in running.values():
            peer.process.close()
        for name in bench.remaining(list(results)):
            found = results[name]
            bench.say(f"  {name}: {found.median:.2f} s, processor {found.processor_median:.2f} s, {found.memory} MB")
        return {name: failures.get(name) or results[name] for name in names}
