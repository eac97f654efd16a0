"""A partition as a Python program names it."""

from collections.abc import Mapping

from lake_assets.errors import PartitionError
from lake_assets.layout.partition import Partition
from lake_assets.streams.stream import OpenStream

PartitionLike = Partition | Mapping[str, object] | str
"""A partition; its values by column, `{"region": "NW", "date": date(2026, 2, 11)}`; or `region=NW,date=2026-02-11`.

Values of a mapping are plain texts, whole numbers and dates, and None is NULL. In the text they are percent-encoded, as
in a path.
"""


def partition_like(stream: OpenStream, partition: PartitionLike) -> Partition:
    """Parse a partition.

    Raises:
        PartitionError: the partition does not fit the stream's partition columns.
    """
    if isinstance(partition, str):
        return stream.config.partition(partition)
    if isinstance(partition, Mapping):
        return Partition.from_values(stream.config.columns, partition)
    if partition.columns != stream.config.columns:
        names = ", ".join(column.name for column in stream.config.columns)
        raise PartitionError(
            f"partition {partition} is of another stream: the partition columns of {stream.name} are {names}:",
            f"name a partition of {stream.name}.",
        )
    return partition
