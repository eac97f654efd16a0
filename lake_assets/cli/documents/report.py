"""The document of `report`: an array of counts, or with `--partitions` of partitions; then the objects in none."""

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lake_assets.cli.documents.base import Documented
from lake_assets.cli.documents.plan import LeftOutCounts

if TYPE_CHECKING:
    from lake_assets.report.state import PartitionState, StreamState
    from lake_assets.report.summary import Summary
    from lake_assets.streams.left_out import LeftOut


@dataclass(frozen=True, slots=True)
class ReportCounts(Documented):
    """The number of a stream's partitions in each state, for each value of the first column that is no time."""

    stream: str
    """Its name."""
    partitions: str
    """The value, such as `region=NW`; empty for all partitions."""
    committed: int
    """Partitions: the lake has the landed objects."""
    held: int
    """Partitions: restored with a hold, so no refresh changes them."""
    stale: int
    """Partitions: the landed objects have changed since the last commit."""
    failed: int
    """Partitions: the newest run failed."""
    missing: int
    """Partitions: objects have landed and were never committed."""
    absent: int
    """Partitions: nothing has landed."""
    outside: int
    """Partitions that the config does not have."""
    rows: int
    """In the lake."""
    newest_commit: dt.datetime | None
    """Its time, with a time zone; null without a commit."""

    @classmethod
    def of(cls, summary: "Summary") -> "ReportCounts":
        """The counts as the document has them."""
        return cls(
            stream=summary.stream,
            partitions=summary.group,
            rows=summary.rows,
            newest_commit=summary.newest_commit,
            **summary.counts,
        )


@dataclass(frozen=True, slots=True)
class ReportPartition(Documented):
    """The state of one partition, with `--partitions`."""

    stream: str
    """Its stream."""
    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    state: Literal["committed", "held", "stale", "failed", "missing", "absent", "outside"]
    """As `lake-assets report --help` explains."""
    objects: int
    """The number of its landed objects."""
    bytes: int
    """Their size in bytes."""
    rows: int | None
    """In the lake, by the newest commit; null if there never was one."""
    snapshot: int | None
    """The number of the newest commit's snapshot."""
    committed_at: dt.datetime | None
    """Its time, with a time zone."""
    error: str | None
    """Of the newest run, if it failed."""
    outside: str | None
    """Why the config does not have the partition."""
    quarantined: int | None
    """The number of objects that the newest commit left out; null if there are none."""
    held_by: str | None
    """The run that keeps refreshes off the partition, and since when."""
    edited: str | None
    """How another client changed the number of its rows since the newest commit, and how to undo it."""
    dead_letters: int | None
    """The number of landed rows that are not in the lake; null if there are none."""

    @classmethod
    def of(cls, stream: str, state: "PartitionState") -> "ReportPartition":
        """The partition as the document has it."""
        return cls(
            stream=stream,
            partition=str(state.partition),
            state=state.state,
            objects=state.objects,
            bytes=state.size,
            rows=state.rows,
            snapshot=state.snapshot,
            committed_at=state.committed_at,
            error=state.error,
            outside=None if state.outside is None else str(state.outside),
            quarantined=len(state.quarantined) or None,
            held_by=None if state.holder is None else str(state.holder),
            edited=state.edited,
            dead_letters=sum(letter.rows for letter in state.dead_letters) or None,
        )


@dataclass(frozen=True, slots=True)
class ReportFolder(Documented):
    """A folder of the landing zone with objects in no partition."""

    folder: str
    """Its path below the source; empty for the source itself."""
    objects: int
    """The number of these objects."""
    why: str
    """Why they are in no partition, and the fix."""

    @classmethod
    def list_of(cls, left_out: "LeftOut") -> "list[ReportFolder]":
        """The folders of the unmatched objects."""
        return [cls(folder.path, folder.objects, str(folder.why)) for folder in left_out.unmatched_folders]


@dataclass(frozen=True, slots=True)
class ReportUnmatched(Documented):
    """The landed objects of a stream that no refresh reads, unless these are all hidden, or outside the config."""

    stream: str
    """Its name."""
    partitions: None
    """Always null: it tells this object from the others."""
    objects_in_no_partition: int
    """The number of those whose folder is not of a partition."""
    left_out: LeftOutCounts
    """All of them by class."""
    folders: list[ReportFolder]
    """Where they are."""

    @classmethod
    def of(cls, state: "StreamState") -> "ReportUnmatched":
        """The objects as the document has them."""
        return cls(
            state.stream,
            None,
            len(state.left_out.unmatched),
            LeftOutCounts.of(state.left_out),
            ReportFolder.list_of(state.left_out),
        )
