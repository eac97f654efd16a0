"""Read partitions and changes of a lake as Arrow. Spark is not needed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from lake_assets.api.partitions import PartitionLike, partition_like
from lake_assets.duckdb_engine import identifier
from lake_assets.errors import CatalogError
from lake_assets.lake.catalog.past import where
from lake_assets.lake.changes import feed
from lake_assets.lake.failures import translated
from lake_assets.streams.stream import OpenStream


def read_partition(stream: OpenStream, partition: PartitionLike, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a partition of the lake as it is now, from one snapshot. Spark is not needed.

    Args:
        stream: the stream, from `open_stream`.
        partition: which partition, in any form of `PartitionLike`.
        columns: the columns to read, in this order; all columns of the table when None.

    Returns:
        The rows as a `pyarrow.Table` in memory, partition columns included, in no particular order. A partition
        without rows has the table's columns and no rows.

    Raises:
        PartitionError: the partition does not fit the stream's partition columns.
        NoLakeError: there is no lake yet.
        CatalogError: the lake cannot be read, or has no such table or column.
    """
    condition, parameters = where(partition_like(stream, partition))
    selected = "*" if columns is None else ", ".join(map(identifier, columns))
    with stream.lake.open(read_only=True) as lake:
        if not lake.exists(stream.table):
            raise CatalogError(f"the lake has no table {stream.table} yet:", "ingest a partition first.")
        with translated(lake.config):
            return lake.connection.execute(
                f"SELECT {selected} FROM {stream.table.sql} WHERE {condition}",  # noqa: S608 - quoted names
                parameters,
            ).to_arrow_table()


@contextmanager
def read_changes(
    stream: OpenStream, since: int, until: int | None = None, *, partition: PartitionLike | None = None
) -> Iterator[pa.RecordBatchReader]:
    """Read the rows that snapshots inserted into the stream's table and deleted from it. Spark is not needed.

    The rows are read while they are taken from the reader, so any number of them fits into memory. The lake is open
    until the block ends.

    Args:
        stream: the stream, from `open_stream`.
        since: the first snapshot; to continue after changes up to snapshot `n`, it is `n + 1`.
        until: the last snapshot; the newest when None.
        partition: only the changes of this partition, in any form of `PartitionLike`.

    Yields:
        The changes, in the order of snapshots, with the columns of the table in the last snapshot and `_change`
        (`insert` or `delete`), `_snapshot`, `_run_id` (of a run of this package, else NULL) and `_committed_at`. Of
        each snapshot the deletes come first. A row that a snapshot deleted and inserted again, with all values the
        same, is no change; neither is a compaction.

    Raises:
        PartitionError: the partition does not fit the stream's partition columns.
        ExpiredSnapshotError: some of the snapshots, or the one before them, have expired.
        NoLakeError: there is no lake yet.
        CatalogError: the lake cannot be read, or has no such table or snapshot.
    """
    wanted = None if partition is None else partition_like(stream, partition)
    with stream.lake.open(read_only=True) as lake:
        yield feed.read_changes(lake, stream.table, since, until, wanted).reader
