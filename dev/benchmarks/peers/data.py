"""What the peers load: seeded retail rows, and the real flights."""

import datetime as dt
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from dev.benchmarks import retail
from dev.benchmarks.peers.compare import Landed
from lake_assets.wings.templates.demo.demo_run import land, read_flights

RETAIL = {"region": "string", "date": "date"}
FLIGHTS = {"origin": "string", "date": "date"}
OTHERS = 9  # partitions of 1,000 rows that the table has besides the refreshed one
SEED_ROWS = 10  # of a file of the table of many files
_A_PARTITION = 10  # of its files

Values = Mapping[str, str]
PARTITION: Values = {"region": "NW", "date": "2026-02-11"}


def other_partitions(count: int = OTHERS) -> list[Values]:
    """Partitions of other dates."""
    first = dt.date(2026, 3, 1)
    return [{"region": "SE", "date": str(first + dt.timedelta(days=number))} for number in range(count)]


def land_partition(folder: Path, partition: Values, files: int, rows: int, seed: int = 0) -> None:
    """Replace the partition's landed objects by that many."""
    place = folder.joinpath(*(f"{name}={value}" for name, value in partition.items()))
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for number in range(files):
        table = retail.transactions(rows, seed + number)
        pq.write_table(table, place / f"batch_{seed}_{number:03d}.parquet", compression="zstd")


def landed_retail(folder: Path, files: int, rows: int) -> Landed:
    """One partition of that size, and the others; what is there from an earlier run is kept."""
    mark = folder / "_complete"  # a name that no peer reads
    if not mark.exists():
        land_partition(folder, PARTITION, files, rows)
        for number, partition in enumerate(other_partitions()):
            land_partition(folder, partition, 1, 1000, 10_000 + number)
        mark.touch()
    return Landed(folder, RETAIL)


@dataclass(frozen=True, slots=True)
class ManyLanded:
    """Many small files."""

    landed: Landed
    files: Sequence[str]
    partitions: Sequence[Values]  # of each file


def many_files(folder: Path, count: int) -> ManyLanded:
    """Small files, ten in a partition: hard links to one file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    seed = folder / "seed"
    pq.write_table(retail.transactions(SEED_ROWS, 99), seed, compression="zstd")
    first = dt.date(2020, 1, 1)
    files: list[str] = []
    partitions: list[Values] = []
    for number in range(count):
        day = number // _A_PARTITION
        partition = {"region": f"R{day // 1000}", "date": str(first + dt.timedelta(days=day % 1000))}
        place = folder.joinpath(*(f"{name}={value}" for name, value in partition.items()))
        if number % _A_PARTITION == 0:
            place.mkdir(parents=True)
        file = place / f"{number}.parquet"
        os.link(seed, file)
        files.append(str(file))
        partitions.append(partition)
    seed.unlink()
    return ManyLanded(Landed(folder, RETAIL), files, partitions)


def landed_flights(folder: Path, days: int | None) -> tuple[Landed, list[Values]]:
    """The flights of 2013 at three airports, the first days only unless `days` is None; and the partitions."""
    if not folder.exists():
        flights = read_flights()
        if days is not None:
            import pyarrow.compute as pc  # noqa: PLC0415

            last = dt.date(2013, 1, 1) + dt.timedelta(days=days - 1)
            flights = flights.filter(pc.field("date") <= last)
        land(flights, folder, lambda: None)
    paths = sorted(path for path in folder.glob("*/*") if path.is_dir())
    partitions = [dict(part.split("=", 1) for part in path.relative_to(folder).parts) for path in paths]
    return Landed(folder, FLIGHTS), [dict(partition) for partition in partitions]
