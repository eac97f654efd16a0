"""Pending partitions: those whose landed objects differ from the ones that were ingested last; and the newest ones."""

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lake_assets.config.streams import Stream
from lake_assets.lake.ledger.last_runs import last_runs
from lake_assets.layout.partition import Partition
from lake_assets.layout.times import TIME_TYPES, TimeType
from lake_assets.streams.calendar import Calendar, Span
from lake_assets.streams.landing_zone import list_scope
from lake_assets.streams.left_out import LeftOut
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class LandingScan:
    """The partitions and objects that a listing of the landing zone found."""

    landed: Mapping[Partition, str]  # the fingerprint of each partition that has objects
    pending: Mapping[Partition, str]  # of these, the ones that a refresh would read
    left_out: LeftOut | None  # the objects that no refresh reads; None if only some folders were listed

    @property
    def version(self) -> str:
        """A digest of everything that has landed; it changes when a partition's objects change."""
        lines = sorted(f"{partition.path} {fingerprint}" for partition, fingerprint in self.landed.items())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def scan_landing(stream: OpenStream, partitions: Iterable[Partition] | None = None) -> LandingScan:
    """List some partitions one by one, or the whole landing zone at once, and find the pending partitions.

    Raises:
        LakeAssetsError: the landing zone cannot be listed, or the lake cannot be read.
    """
    landed, left_out = list_scope(stream, partitions)
    with stream.lake.open_if_exists() as lake:
        # Of the whole landing zone the ledger is read at once.
        wanted = (
            None if partitions is None else [partition for partition, manifest in landed.items() if manifest.objects]
        )
        runs = {} if lake is None else last_runs(lake, stream.table, wanted, holds=True)
    fingerprints = {
        partition: stream.fingerprint(manifest) for partition, manifest in landed.items() if manifest.objects
    }
    ingested = {path: last.fingerprint for path, last in runs.items()}
    held = {path for path, last in runs.items() if last.is_held}
    pending = {p: text for p, text in fingerprints.items() if p.path not in held and ingested.get(p.path) != text}
    return LandingScan(fingerprints, pending, left_out)


def recent_texts(stream: Stream, at: dt.datetime, lookback: int) -> dict[str, tuple[str, str] | None]:
    """The first and the last value of each time column in the window that ends at a moment.

    Years, months and days are in the stream's time zone, and hours in UTC, where no hour occurs twice.

    Args:
        stream: the config.
        at: the moment, with a time zone.
        lookback: the number of partitions before the current one in the window.

    Returns:
        The two values as a path has them, by the column's name, within the column's start and end; None if the window
        is outside of these.
    """
    return {
        name: _window(TIME_TYPES[stream.partitions[name].type], span, lookback)
        for name, span in Calendar(stream, at).spans.items()
    }


def _window(kind: TimeType, span: Span, lookback: int) -> tuple[str, str] | None:
    # Counted in calendar days: the day before is 23 or 25 hours ago when daylight saving begins or ends.
    start, present = (kind.number(kind.start(text)) for text in (span.first, span.present))
    first = kind.text(kind.at(max(present - lookback, start)))
    return None if first > span.last else (first, span.last)
