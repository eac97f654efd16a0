"""How long a tick of the object sensor takes: a million objects in memory, and a folder of some ten thousand files.

python -m dev.benchmarks.sensor [OBJECTS] [FILES]
"""

import datetime as dt
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lake_assets.config.storages import LocalStorage
from lake_assets.config.streams import StreamConfig
from lake_assets.storage.store import Store
from lake_assets.streams.detection.cursor import Cursor
from lake_assets.streams.detection.reading import Listing
from lake_assets.streams.detection.scan import ScanOptions, scan
from lake_assets_tests.streams.detection.bucket import NOW, Bucket
from lake_assets_tests.streams.detection.watch import stream_of

_REGIONS = ("MW", "NE", "NW", "SE", "SW")
_A_DAY = 200  # objects of a region's day
_TICKS = 20


def keys(count: int) -> Iterator[str]:
    """Keys of five regions over as many days as it takes."""
    for number in range(count):
        day, rest = divmod(number, len(_REGIONS) * _A_DAY)
        date = NOW.date() - dt.timedelta(day)
        yield f"region={_REGIONS[rest % len(_REGIONS)]}/date={date}/batch_{rest:04}.parquet"


def main(objects: int = 1_000_000, files: int = 50_000) -> None:
    """Print what the ticks took."""
    bucket = Bucket.of(keys(objects), NOW - dt.timedelta(days=100))
    measure(f"{objects:,} objects in memory", bucket, bucket.put)
    with tempfile.TemporaryDirectory(prefix="lake-assets-bench-") as folder:
        for key in keys(files):
            write(Path(folder, key))
        measure(f"{files:,} files in a folder", Store(LocalStorage(path=folder)), lambda key: write(Path(folder, key)))


def write(path: Path) -> None:
    """A file of one byte."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")


def measure(what: str, listing: Listing, put: Callable[[str], object]) -> None:
    """Read all once, then tick without news, then with a new object each time."""
    stream: StreamConfig = stream_of()
    cursor: str | None = None
    first = []
    while cursor is None or Cursor.load(cursor, stream).first:
        cursor, seconds = ticked(stream, listing, cursor)
        first.append(seconds)
    steady, news = [], []
    for number in range(_TICKS):
        cursor, seconds = ticked(stream, listing, cursor)
        steady.append(seconds)
        put(f"region=NW/date={NOW.date()}/new_{number}.parquet")
        cursor, seconds = ticked(stream, listing, cursor)
        news.append(seconds)
    sys.stdout.write(
        f"{what}: read once in {sum(first):.1f} s over {len(first)} ticks; a tick without news "
        f"{statistics.median(steady):.3f} s ({max(steady):.3f} at most), with news {statistics.median(news):.3f} s; "
        f"cursor {len(cursor) / 1000:.1f} kB\n"
    )


def ticked(stream: StreamConfig, listing: Listing, cursor: str | None) -> tuple[str, float]:
    """The next cursor, and the seconds it took."""
    begun = time.perf_counter()
    result = scan(stream, listing, cursor, ScanOptions(now=NOW))
    return result.cursor, time.perf_counter() - begun


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
