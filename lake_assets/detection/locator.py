"""Which partition an object belongs to, or why it belongs to none that Dagster has."""

import datetime as dt
from collections.abc import Iterable

from lake_assets.config.streams import Stream
from lake_assets.layout.partition import Partition
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.places import Places


class Admission:
    """Tells the partitions of keys, for one look.

    Args:
        stream: whose layout and partition columns they are.
        now: with time zone; a partition of the time that has not come is none yet.
    """

    def __init__(self, stream: Stream, now: dt.datetime) -> None:
        self._columns = stream.columns
        self._places = Places(stream)
        self._calendar = Calendar(stream, now)

    def of(self, key: str) -> Partition:
        """The partition of an object.

        Raises:
            LayoutError: its key is not one of the layout.
            PartitionError: it is, and its values are those of no partition of the stream.
        """
        partition = self._places.of(key)
        self._calendar.check(partition)
        return partition

    def parse(self, paths: Iterable[str]) -> list[Partition]:
        """The partitions with these paths, as `Partition.path` writes them."""
        found = []
        for path in paths:
            texts = dict(part.split("=", 1) for part in path.split("/"))
            found.append(Partition.of(self._columns, texts))
        return found
