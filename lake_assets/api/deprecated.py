"""The functions that `lake_assets` had before a stream had verbs; it warns of them by a table, old and new."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa

from lake_assets.api.stream import *  # noqa: F403
from lake_assets.api.stream import HistoryEntry, Outcome, PartitionLike, Stream, StreamPartition

P = ParamSpec("P")
T = TypeVar("T")
OpenStream = Stream


def _of_partition(
    verb: Callable[Concatenate[StreamPartition, P], T],
) -> Callable[Concatenate[Stream, PartitionLike, P], T]:
    def function(stream: Stream, partition: PartitionLike, *args: P.args, **kwargs: P.kwargs) -> T:
        return verb(stream.partition(partition), *args, **kwargs)

    return function  # type: ignore[return-value] # takes the first two by keyword too


diff_partition = _of_partition(StreamPartition.diff)
ingest_partition = _of_partition(StreamPartition.ingest)
plan_partition = _of_partition(StreamPartition.plan)
read_partition = _of_partition(StreamPartition.read)
release_partition = _of_partition(StreamPartition.release)
restore_partition = _of_partition(StreamPartition.restore)


def ingest_partitions(stream: Stream, partitions: Iterable[PartitionLike], **options: Any) -> list[Outcome]:  # noqa: ANN401
    """Call `Stream.ingest`."""
    return stream.ingest([stream.partition(partition) for partition in partitions], **options)


def read_changes(
    stream: Stream, since: int, until: int | None = None, *, partition: PartitionLike | None = None
) -> AbstractContextManager[pa.RecordBatchReader]:
    """Call `changes` of the stream or partition."""
    return (stream if partition is None else stream.partition(partition)).changes(since, until)


def read_history(stream: Stream, partition: PartitionLike | None = None, *, limit: int = 20) -> list[HistoryEntry]:
    """Call `history` of the stream or partition."""
    return (stream if partition is None else stream.partition(partition)).history(limit=limit)
