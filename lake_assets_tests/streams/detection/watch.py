"""A sensor that scans a bucket repeatedly, as in Dagster."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

from lake_assets.config.streams import StreamConfig
from lake_assets.streams.detection.run_plan import MOST_CHANGED, RunTarget, ScanResult
from lake_assets.streams.detection.scan import InLake, ScanOptions, scan
from lake_assets_tests.streams.detection.bucket import NOW, Bucket

PARTITIONS: dict[str, Any] = {"region": {}, "date": {"type": "date", "start": "2020-01-01"}}


def stream_of(
    *, layout: object = None, files: str = "*.parquet", partitions: dict[str, Any] | None = None, **sensor: Any
) -> StreamConfig:
    return StreamConfig.model_validate(
        {
            "source": "s3://bucket",
            "partitions": partitions or PARTITIONS,
            "destination": {"table": "sales"},
            "layout": layout,
            "files": files,
            "sensor": {"type": "objects"} | sensor,
        }
    )


def covered(target: RunTarget) -> list[str]:
    """The partitions of a request over `region` and `date`, as `NW 2026-02-11`."""
    (region, first), (_, last) = target.first.values, target.last.values
    assert isinstance(first, dt.date)
    assert isinstance(last, dt.date)
    return [f"{region} {first + dt.timedelta(days)}" for days in range((last - first).days + 1)]


@dataclass
class Watch:
    """A sensor whose run requests are recorded."""

    stream: StreamConfig
    bucket: Bucket
    now: dt.datetime = NOW
    cursor: str | None = None
    in_lake: InLake = lambda _: ()
    most: int = MOST_CHANGED
    queue: set[str] | None = None  # partitions whose runs have not begun, as of `covered`; None if runs begin at once

    def scan(self) -> ScanResult:
        options = ScanOptions(self.most, self.in_lake, self.now, self.bucket.clock)
        result = scan(self.stream, self.bucket, self.cursor, options)
        self.cursor = result.cursor
        return result

    def tick(self) -> list[str]:
        """Scan once; returns the partitions for which runs start, sorted."""
        started = []
        for target in self.scan().targets:
            started += [each for each in covered(target) if each not in (self.queue or ())]
        if self.queue is not None:
            assert len(self.queue) + len(started) == len(self.queue.union(started))  # one queued run of a partition
            self.queue.update(started)
        return sorted(started)

    def tick_until_quiet(self, ticks: int = 50) -> list[str]:
        """Scan until no run starts any more; returns the partitions for which runs started."""
        started: list[str] = []
        for _ in range(ticks):
            sample = self.tick()
            started += sample
        return sorted(started)
