"""What a sensor and a run pay for the objects of a landing zone: in memory, so that a store's own time is not in it."""

import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from dev.benchmarks.scale.results import Grown
from dev.benchmarks.sensor import keys, ticked
from lake_assets.streams.detection.cursor import Cursor
from lake_assets_tests.streams.detection.bucket import NOW, Bucket
from lake_assets_tests.streams.detection.watch import stream_of

SIZES = (10_000, 100_000, 1_000_000)
QUICK = (1_000, 2_000)


def objects(folder: Path, say: Callable[[str], None], *, quick: bool) -> list[Grown]:
    """Each size: the first reading of all, and a tick without news and with a new object."""
    del folder
    grown = []
    for size in QUICK if quick else SIZES:
        stream, bucket = stream_of(), Bucket.of(keys(size), NOW - dt.timedelta(days=100))
        cursor, first, start = None, 0.0, time.perf_counter()
        while cursor is None or Cursor.load(cursor, stream).first:
            cursor, _ = ticked(stream, bucket, cursor)
        first = time.perf_counter() - start
        still, news = [], []
        for number in range(2 if quick else 9):
            cursor, seconds = ticked(stream, bucket, cursor)
            still.append(seconds)
            bucket.put(f"region=NW/date={NOW.date()}/new_{number}.parquet")
            cursor, seconds = ticked(stream, bucket, cursor)
            news.append(seconds)
        seconds_of = {"first reading": first, "tick without news": median(still), "tick with news": median(news)}
        grown.append(Grown(size=size, seconds=seconds_of))
        figures = ", ".join(f"{name}: {took:.3f} s" for name, took in seconds_of.items())
        say(f"{size:,} objects: {figures}; cursor {len(cursor) / 1000:.1f} kB")
    return grown
