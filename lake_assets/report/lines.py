"""The partitions of a report as lines of a table: state, rows, age, error, and a preview of the newest ones."""

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lake_assets.errors import LakeAssetsError
from lake_assets.ingest.view import view_partition
from lake_assets.lake.catalog.preview import PartitionView
from lake_assets.lake.session import LakeSession
from lake_assets.layout.texts import age
from lake_assets.report.state import PartitionState, StreamState
from lake_assets.streams.stream import OpenStream

PREVIEWS = 20  # partitions: each costs the reading of a data file
LINES = 1_000
_NEVER = dt.datetime.min.replace(tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Line:
    """A partition that has landed, or is in the ledger.

    Attributes:
        partition: its state.
        age: of its newest commit; empty without one.
        preview: the first rows; None if they were not read.
        unread: why they could not be read; empty otherwise.
    """

    partition: PartitionState
    age: str
    preview: PartitionView | None = None
    unread: str = ""


def lines(stream: OpenStream, state: StreamState) -> list[Line]:
    """The lines of a stream's partitions: the newest run first, then those that were never run.

    Absent partitions are left out. Those of an encrypted lake have no preview, because the page is a plain file.
    """
    present = [partition for partition in state.partitions if partition.state != "absent"]
    newest = sorted(present, key=lambda partition: partition.finished_at or _NEVER, reverse=True)[:LINES]
    with _lake(stream) as lake:
        return list(_lines(stream, state, newest, lake))


@contextmanager
def _lake(stream: OpenStream) -> Iterator[LakeSession | None]:
    if stream.lake_config.is_encrypted:
        yield None
        return
    with stream.lake.open_if_exists() as lake:
        yield lake


def _lines(
    stream: OpenStream, state: StreamState, newest: Sequence[PartitionState], lake: LakeSession | None
) -> Iterator[Line]:
    previews = 0
    for partition in newest:
        when = partition.committed_at
        text = age((state.read_at - when).total_seconds()) if when is not None else ""
        if lake is None or when is None or previews == PREVIEWS:
            yield Line(partition, text)
            continue
        previews += 1
        try:
            view = view_partition(lake, stream.table, partition.partition, partition.rows)
        except LakeAssetsError as error:
            yield Line(partition, text, unread=str(error))
        else:
            yield Line(partition, text, view)
