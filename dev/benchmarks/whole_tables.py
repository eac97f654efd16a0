"""Commands that look at all partitions of a table: what one partition more costs them, in time and memory.

Each command is a process, once beside 10,000 partitions and once beside 100,000. What both have, such as the start of
Python, cancels out in the difference. A partition has one object, and one in a hundred has changed since its commit.
"""

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import yaml
from pyspark.sql import SparkSession

from dev.benchmarks.measure import Line, Report
from dev.benchmarks.scale.lake import FIRST, ROWS, Files, commit_all, make_table, numbered
from lake_assets.api import open_stream
from lake_assets.ingest.run import chunks
from lake_assets.streams.stream import list_landed

SIZES = (10_000, 100_000)
LINKS = 50_000  # to a file; ext4 allows 65,000
A_COMMIT = 1_000  # partitions
CHANGED = 100  # each so many-th
MICROSECONDS, BYTES = 60.0, 1_000.0  # of a partition
COMMANDS = {
    "plan --waiting": ("plan", "sales", "--waiting"),
    "report": ("report", "sales"),
    "metrics": ("metrics",),
    "check": ("check", "sales"),
}


@dataclass(frozen=True, slots=True)
class _Used:
    """What a process has used."""

    seconds: float
    memory: float  # bytes, at its peak


def whole_tables(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """`spark` is that of the other benchmarks."""
    del spark
    sizes = [max(int(size * scale), CHANGED * 2 * (number + 1)) for number, size in enumerate(SIZES)]
    places = {size: _filled(folder / f"work-whole-{size}", size) for size in sizes}
    few, many = sizes
    for name, arguments in COMMANDS.items():
        used = {size: [_run(place, arguments) for _ in range(max(repeat // 2, 1))] for size, place in places.items()}
        seconds = {size: min(one.seconds for one in runs) for size, runs in used.items()}
        memory = {size: min(one.memory for one in runs) for size, runs in used.items()}
        each = (seconds[many] - seconds[few]) / (many - few) * 1e6
        more = (memory[many] - memory[few]) / (many - few)
        beside = f"{few:,}: {seconds[few]:.2f} s, {memory[few] / 1e6:.0f} MB"
        ours = f"{seconds[many]:.2f} s, {memory[many] / 1e6:.0f} MB"
        report.lines.append(Line(f"{name} of {many:,} partitions, us of each", ours, beside, each, MICROSECONDS))
        report.lines.append(Line(f"{name} of {many:,} partitions, bytes of each", ours, beside, more, BYTES))


def _run(folder: Path, arguments: Sequence[str]) -> _Used:
    """Run a command; one that finds something to complain about ends with 1."""
    program = (
        "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; "
        "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [str(Path(sys.executable).parent / "lake-assets"), "--quiet", *arguments]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *command], cwd=folder, capture_output=True, text=True, timeout=3600, check=True
    )
    seconds = time.perf_counter() - start
    code, kilobytes = map(int, done.stdout.split())
    assert code in (0, 1), done.stderr
    return _Used(seconds, kilobytes * 1024)


def _filled(folder: Path, size: int) -> Path:
    """A config's folder, with a table of that many partitions."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = {
        "lakes": {"bench": {"catalog": {"type": "sqlite", "path": "catalog.sqlite"}, "storage": "lake"}},
        "streams": {
            "sales": {
                "source": "landing",
                "partitions": {"region": {}, "date": {"type": "date", "start": str(FIRST)}},
                "destination": {"table": "sales"},
            }
        },
    }
    (folder / "lake.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    stream = open_stream(folder / "lake.yaml", "sales")
    for number, seed in zip(range(size), _seeds(folder, size), strict=True):
        place = folder / "landing" / numbered(number).replace(",", "/")
        place.mkdir(parents=True)
        os.link(seed, place / "batch.parquet")
    make_table(stream)
    files, landed, run_id = Files(stream), list_landed(stream)[0], str(uuid.uuid4())
    assert len(landed) == size
    with stream.lake.open() as lake:
        for chunk in chunks(landed.items(), A_COMMIT):
            commit_all(lake, [files.replacement(partition, run_id, manifest) for partition, manifest in chunk])
    for number in range(0, size, CHANGED):
        place = folder / "landing" / numbered(number).replace(",", "/")
        pq.write_table(ROWS, place / "more.parquet")
    return folder


def _seeds(folder: Path, size: int) -> Iterator[Path]:
    for number in range(size):
        seed = folder / f"seed-{number // LINKS}.parquet"
        if number % LINKS == 0:
            pq.write_table(ROWS, seed)
        yield seed
