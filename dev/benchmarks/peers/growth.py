"""A table of many files, and a table of many partitions."""

import shutil
from collections.abc import Mapping, Sequence

from dev.benchmarks.peers.bench import CALL, Bench
from dev.benchmarks.peers.compare import Landed
from dev.benchmarks.peers.data import (
    PARTITION,
    RETAIL,
    ManyLanded,
    Values,
    land_partition,
    landed_flights,
    many_files,
)
from dev.benchmarks.peers.process import PeerFailedError
from dev.benchmarks.peers.refresh import timed
from dev.benchmarks.peers.results import Backfill, Failure, ManyFiles, Refresh


def files(
    bench: Bench, names: Sequence[str], count: int, rounds: int, landed_files: int = 100
) -> Mapping[str, ManyFiles | Failure]:
    """Each peer in turn: refreshes of a partition in a table of its own, then in the same table with many files more.

    Args:
        bench: the run.
        names: the peers.
        count: files of ten rows, ten in a partition, that the peer adds in the cheapest way that it has.
        rounds: timed refreshes of each.
        landed_files: objects of the refreshed partition, of 1,000 rows.
    """

    def describe(found: ManyFiles) -> str:
        return (
            f"{found.few.median:.2f} s, with {count:,} files {found.many.median:.2f} s;"
            f" adding them took {found.fill:.0f} s"
        )

    with bench.part(f"files: one refresh in a table of {count:,} files"):
        landed = Landed(bench.folder / "landing-files", RETAIL)
        land_partition(landed.folder, PARTITION, landed_files, 1000)
        added = many_files(bench.folder / "landing-many-files", count)
        return bench.each(names, lambda name: _files(bench, name, landed, added, rounds), describe)


def _files(bench: Bench, name: str, landed: Landed, added: ManyLanded, rounds: int) -> ManyFiles:
    peer = bench.start(name, landed, bench.new_folder("files", name), "create")
    try:
        few = many = Refresh(wall=[], processor=[])
        for number in range(rounds + 2):
            found = timed(peer, few)
            few = found if number > 1 else few
        _, fill = peer.process.call("fill", CALL, files=added.files, partitions=added.partitions)
        for number in range(rounds + 1):
            found = timed(peer, many)
            many = found if number else many
        bench.verify(peer, landed, [added.landed])
        return ManyFiles(files=len(added.files), few=few, many=many, fill=fill)
    finally:
        peer.process.close()
        shutil.rmtree(peer.folder, ignore_errors=True)


def backfill(bench: Bench, names: Sequence[str], days: int | None, limit: float) -> Mapping[str, Backfill | Failure]:
    """Each peer in turn loads the flights of 2013, region by date: each partition in its own commit, and all together.

    Args:
        bench: the run.
        names: the peers.
        days: of the year; None: all.
        limit: seconds, after which no partition is begun.
    """

    def describe(found: Backfill) -> str:
        at_once = found.why_not if found.at_once is None else f"{found.at_once:.1f} s"
        return f"{found.each:,} of {found.partitions:,} partitions in {found.each_seconds:.1f} s; together: {at_once}"

    with bench.part("backfill"):
        landed, partitions = landed_flights(bench.folder / f"landing-flights-{days or 365}", days)
        return bench.each(names, lambda name: _backfill(bench, name, landed, partitions, limit), describe)


def _backfill(bench: Bench, name: str, landed: Landed, partitions: Sequence[Values], limit: float) -> Backfill:
    peer = bench.start(name, landed, bench.new_folder("backfill-each", name), "create")
    try:
        # What a session does once is not part of the backfill.
        peer.process.call("refresh", CALL, partition=partitions[0])
        each, seconds = peer.process.call("refresh_each", CALL, partitions=partitions, seconds=limit)
        if each == len(partitions):
            bench.verify(peer, landed)
    finally:
        peer.process.close()
    found = Backfill(partitions=len(partitions), each=each, each_seconds=seconds)
    peer = bench.start(name, landed, bench.new_folder("backfill-once", name), "create")
    try:
        peer.process.call("refresh", CALL, partition=partitions[0])
        _, at_once = peer.process.call("refresh_all", CALL, partitions=partitions, how="whole")
        bench.verify(peer, landed)
    except PeerFailedError as error:
        if not error.cannot:
            raise
        return found.model_copy(update={"why_not": str(error).partition(": ")[2]})
    else:
        return found.model_copy(update={"at_once": at_once})
    finally:
        peer.process.close()
