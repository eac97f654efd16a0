"""The history of partitions: list, compare and restore their snapshots. Spark is not needed."""

from collections.abc import Sequence

from lake_assets.api.partitions import PartitionLike, partition_like
from lake_assets.history import diff, read, restore
from lake_assets.history.restore import release
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.streams.stream import OpenStream


def read_history(
    stream: OpenStream, partition: PartitionLike | None = None, *, limit: int = 20
) -> list[read.HistoryEntry]:
    """List the newest snapshots that changed a partition, or any partition of the stream's table.

    Args:
        stream: the stream, from `open_stream`.
        partition: its snapshots only, in any form of `PartitionLike`; those of the whole table when None.
        limit: this many at most.

    Returns:
        The snapshots, the newest first, with their rows before and after. `kept` is the number to restore.

    Raises:
        PartitionError: the partition does not fit the stream's partition columns.
        NoLakeError: there is no lake yet.
        CatalogError: the lake cannot be read, or has no such table.
    """
    return read.history(stream, None if partition is None else partition_like(stream, partition), limit)


def diff_partition(
    stream: OpenStream,
    partition: PartitionLike,
    first: int,
    second: int | None = None,
    *,
    keys: Sequence[str] = (),
    sample: int = diff.SAMPLE,
) -> diff.Difference:
    """Compare a partition's rows in two snapshots. The order of rows is no difference, and NULL equals NULL.

    Args:
        stream: the stream, from `open_stream`.
        partition: which partition, in any form of `PartitionLike`.
        first: the earlier snapshot.
        second: the later one; the newest when None.
        keys: columns that name a row, to find the rows with other values; without them such a row is one that was
            deleted and one that was inserted.
        sample: rows of each kind that are returned, at most.

    Raises:
        PartitionError: the partition does not fit the stream's partition columns, or neither snapshot has rows of it.
        CatalogError: a snapshot is unknown or has expired, or a key is no column or not unique in the partition.
    """
    return diff.diff(stream, partition_like(stream, partition), first, second, keys, sample)


def restore_partition(
    stream: OpenStream, partition: PartitionLike, snapshot: int, *, hold: bool = False, dry_run: bool = False
) -> restore.Restored:
    """Put a partition's rows of an earlier snapshot back, as a new snapshot. Readers see the old rows or the new ones.

    Args:
        stream: the stream, from `open_stream`.
        partition: which partition, in any form of `PartitionLike`.
        snapshot: that has the rows.
        hold: keep refreshes off the partition until `release_partition`; a forced ingest still replaces it.
        dry_run: check everything, and change nothing.

    Returns:
        What was done: `row` is the ledger row, and `next` says what the next refresh of the partition does.

    Raises:
        PartitionError: the partition does not fit the stream's partition columns, or was not there in that snapshot.
        CatalogError: the snapshot is unknown or has expired, today's columns cannot hold its rows, or the catalog
            refuses; nothing has changed.
        StorageError: a file of the snapshot cannot be copied; nothing has changed.
    """
    return restore.restore(stream, partition_like(stream, partition), snapshot, hold=hold, dry_run=dry_run)


def release_partition(stream: OpenStream, partition: PartitionLike) -> LedgerRow:
    """End the hold of a partition: refreshes read it again. Its rows stay as they are.

    Args:
        stream: the stream, from `open_stream`.
        partition: which partition, in any form of `PartitionLike`.

    Returns:
        The ledger row.

    Raises:
        PartitionError: the partition does not fit the stream's partition columns, or is not held.
        CatalogError: the catalog refuses; nothing has changed.
    """
    return release(stream, partition_like(stream, partition))
