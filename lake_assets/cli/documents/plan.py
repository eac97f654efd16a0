"""The document of `plan`, which `apply` reads."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lake_assets.cli.documents.base import Documented

if TYPE_CHECKING:
    from lake_assets.ingest.dry_run import Plan, StreamPlan
    from lake_assets.storage.manifest import LandedObject
    from lake_assets.streams.left_out import LeftOut
    from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class PlannedObject(Documented):
    """A landed object."""

    uri: str
    """Its path or URI."""
    bytes: int
    """Its size in bytes."""
    etag: str
    """Of its storage; a file has one of its size and time."""
    last_modified: dt.datetime
    """When it landed, with a time zone."""

    @classmethod
    def list_of(cls, objects: "Iterable[LandedObject]") -> "list[PlannedObject]":
        """The objects as a document has them."""
        return [cls(obj.uri, obj.size, obj.etag, obj.last_modified) for obj in objects]


@dataclass(frozen=True, slots=True)
class PlanPartition(Documented):
    """What an ingest would do with one partition now."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    action: Literal["replace", "append", "register", "skip", "keep", "clear", "fail", "leave_out"]
    """The decision."""
    why: str
    """Its reason; empty if it needs none."""
    fails: bool
    """Whether the partition fails. With `register`, it fails after its new objects were registered."""
    note: str
    """For a partition of which nothing has landed: the values that exist; for one with a changed object that fails it:
    how to fix it; otherwise empty."""
    fingerprint: str
    """Of its landed objects, in hexadecimal digits."""
    new: list[PlannedObject]
    """Objects that no commit has read."""
    changed: list[PlannedObject]
    """Objects that have changed since a commit read them."""
    vanished: list[str]
    """URIs of objects that the lake has rows of, and that are gone."""
    objects: int
    """The number of objects that would be read."""
    bytes: int
    """Their size in bytes."""
    rows_before: int
    """The partition's rows in the lake now."""
    rows_after: int | None
    """Its rows after the ingest; null if they stay as they are, or are unknown."""
    rows_unknown: str | None
    """Why the footers do not tell the rows."""
    job: Literal["copy", "encode", "copy and encode", "transform", "register"] | None
    """What makes the data files; null if nothing is read."""
    commit: Literal["direct", "extension", "INSERT"] | None
    """The strategy of the commit; null if there is none."""
    columns: list[str]
    """What the table's columns would become, or why objects do not fit, each in one clause."""
    files: int
    """The estimated number of data files."""
    files_copied: int
    """Of them, those that are copies of objects, at most."""
    destination: str
    """Path or URI of the folder of the data files."""

    @classmethod
    def of(cls, plan: "Plan") -> "PlanPartition":
        """The partition as the document has it."""
        after = plan.rows_after
        return cls(
            partition=str(plan.partition),
            action=plan.decision.action,
            why=plan.decision.why,
            fails=bool(plan.decision.fails),
            note=plan.decision.note,
            fingerprint=plan.fingerprint,
            new=PlannedObject.list_of(plan.new),
            changed=PlannedObject.list_of(plan.changed),
            vanished=list(plan.vanished),
            objects=len(plan.reads.objects),
            bytes=plan.reads.size,
            rows_before=plan.rows_before,
            rows_after=after if isinstance(after, int) else None,
            rows_unknown=after if isinstance(after, str) else None,
            job=plan.job,
            commit=plan.strategy,
            columns=list(plan.columns),
            files=plan.files_written,
            files_copied=plan.files_copied,
            destination=plan.destination,
        )


@dataclass(frozen=True, slots=True)
class LeftOutCounts(Documented):
    """The objects below the source that no refresh reads, each in one class."""

    listed: int
    """The number of all objects below the source."""
    unmatched: int
    """In no partition: the path does not fit the layout, or a value its column's type."""
    spelling: int
    """In a folder that has the values of a partition, in a spelling that no writer has."""
    outside: int
    """In a partition that the config does not have."""
    not_data: int
    """Not data files, by `files`."""
    hidden: int
    """Hidden by the name, or by that of a folder."""

    @classmethod
    def of(cls, left_out: "LeftOut") -> "LeftOutCounts":
        """The counts as the document has them."""
        return cls(left_out.listed, **left_out.counts)


@dataclass(frozen=True, slots=True)
class LeftOutEntry(Documented):
    """An object that no refresh reads."""

    object: str
    """Its path below the source."""
    kind: Literal["unmatched", "spelling", "outside", "not_data", "hidden"]
    """Its class, as in `LeftOutCounts`."""
    why: str
    """The reason, and the fix."""


@dataclass(frozen=True, slots=True)
class LeftOutDocument(Documented):
    """The objects that no refresh reads: the document of `plan --left-out`."""

    stream: str
    """Its name."""
    left_out: LeftOutCounts
    """Their numbers."""
    objects: list[LeftOutEntry]
    """Sorted by path."""

    @classmethod
    def of(cls, stream: str, left_out: "LeftOut") -> "LeftOutDocument":
        """The document of a listing."""
        entries = [LeftOutEntry(item.key, item.kind, str(item.why)) for item in left_out.objects]
        return cls(stream, LeftOutCounts.of(left_out), entries)


@dataclass(frozen=True, slots=True)
class PlanDocument(Documented):
    """What an ingest would do now."""

    stream: str
    """Its name."""
    table: str
    """With its schema, such as `main.sales`."""
    lake: str
    """Its name in the config."""
    mode: Literal["replace", "append", "index"]
    """Of the stream."""
    on_empty: Literal["fail", "keep", "clear"]
    """Of the stream."""
    schema_policy: Literal["strict", "evolve", "ignore_extra"]
    """Of the stream."""
    force: bool
    """Whether unchanged partitions would be read too."""
    outside: bool
    """Whether partitions outside the config are accepted."""
    seconds: float | None
    """The estimated time in seconds; null without earlier runs, or if nothing is read."""
    objects_in_no_partition: int
    """The number of landed objects whose folder is not of a partition."""
    left_out: LeftOutCounts
    """All landed objects that no refresh reads."""
    partitions: list[PlanPartition]
    """In the order of the selection."""

    @classmethod
    def of(cls, stream: "OpenStream", made: "StreamPlan", *, left_out: "LeftOut", outside: bool) -> "PlanDocument":
        """The document of a plan.

        Args:
            stream: of the plan.
            made: the plan.
            left_out: what a listing of the whole landing zone left out.
            outside: whether partitions outside the config are accepted.
        """
        return cls(
            stream=made.stream,
            table=made.table,
            lake=stream.lake_name,
            mode=stream.config.mode,
            on_empty=stream.config.on_empty,
            schema_policy=stream.config.schema_policy,
            force=made.force,
            outside=outside,
            seconds=None if made.seconds is None else round(made.seconds, 1),
            objects_in_no_partition=len(left_out.unmatched),
            left_out=LeftOutCounts.of(left_out),
            partitions=[PlanPartition.of(planned) for planned in made.partitions],
        )
