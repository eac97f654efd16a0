"""The documents of `plan`, `ingest`, `apply` and `index`."""

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lake_assets.base.documented import Documented
from lake_assets.cli.failure import text_of
from lake_assets.cli.outcomes import seconds_of, why_skipped
from lake_assets.ingest.dry_run import Job, StreamPlan
from lake_assets.ingest.index.index_run import NotRegistered
from lake_assets.ingest.index.verify import IndexedState, Repaired
from lake_assets.ingest.outcome import Outcome
from lake_assets.ingest.plan import Action
from lake_assets.lake.commit.deltas import DeltaFile
from lake_assets.lake.commit.strategy import StrategyName
from lake_assets.spark.task.job import LetterFile
from lake_assets.streams.left_out import LeftOut, LeftOutClass, UnmatchedFolder
from lake_assets.streams.stream import OpenStream


class Document(BaseModel, Documented):
    """A document that is made of another value: a field is the attribute of its name, or the one that it names."""

    model_config = ConfigDict(
        **Documented.__pydantic_config__, from_attributes=True, frozen=True, populate_by_name=True
    )


Text = Annotated[str, BeforeValidator(str)]
"""The text of a value, such as the path of a partition."""

Number = Annotated[int, BeforeValidator(len)]
"""The number of the items of a collection."""


class Failure(Document):
    """An error."""

    kind: str
    """Its class, such as `SchemaDriftError`, or `KeyboardInterrupt`."""
    message: str
    """What is wrong, where, and the fix; as on standard error."""

    @model_validator(mode="before")
    @classmethod
    def _of(cls, error: BaseException) -> dict[str, str]:
        message = text_of(error) if isinstance(error, Exception) else "The command was interrupted."
        return {"kind": type(error).__name__, "message": message}


class StreamDocument(Document):
    """A document about a stream."""

    stream: str
    """Its name."""
    table: str
    """With its schema, such as `main.sales`."""

    @classmethod
    def about(cls, stream: OpenStream, **fields: object) -> Self:
        """Return the document with these fields."""
        return cls(stream=stream.name, table=str(stream.table), **fields)


class PlannedObject(Document):
    """A landed object."""

    uri: str
    """Its path or URI."""
    bytes: int = Field(validation_alias="size")
    """Its size in bytes."""
    etag: str
    """Of its storage; a file has one of its size and time."""
    last_modified: dt.datetime
    """When it landed, with a time zone."""


def _if(kind: type, value: object) -> object:
    return value if isinstance(value, kind) else None


class PlanPartition(Document):
    """What an ingest would do with one partition now."""

    partition: Text
    """As a path, such as `region=NW/date=2026-02-11`."""
    action: Action = Field(validation_alias=AliasPath("decision", "action"))
    """The decision."""
    why: str = Field(validation_alias=AliasPath("decision", "why"))
    """The reason; empty if it needs none."""
    fails: Annotated[bool, BeforeValidator(bool)] = Field(validation_alias=AliasPath("decision", "fails"))
    """Whether the partition fails. With `register`, it fails after its new objects were registered."""
    note: str = Field(validation_alias=AliasPath("decision", "note"))
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
    objects: Number = Field(validation_alias=AliasPath("reads", "objects"))
    """The number of objects that would be read."""
    bytes: int = Field(validation_alias=AliasPath("reads", "size"))
    """Their size in bytes."""
    rows_before: int
    """The partition's rows in the lake now."""
    rows_after: Annotated[int | None, BeforeValidator(partial(_if, int))]
    """Its rows after the ingest; null if they stay as they are, or are unknown."""
    rows_unknown: Annotated[str | None, BeforeValidator(partial(_if, str))] = Field(validation_alias="rows_after")
    """Why the footers are not enough to count the rows."""
    job: Job | None
    """What makes the data files; null if nothing is read."""
    commit: StrategyName | None = Field(validation_alias="strategy")
    """The strategy of the commit; null if there is none."""
    columns: list[str]
    """What the table's columns would become, or why objects do not fit, each in one clause."""
    files: int = Field(validation_alias="files_written")
    """The estimated number of data files."""
    files_copied: int
    """Of them, those that are copies of objects, at most."""
    destination: str
    """Path or URI of the folder of the data files."""


class LeftOutCounts(Document):
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

    @model_validator(mode="before")
    @classmethod
    def _of(cls, left_out: LeftOut) -> object:
        return left_out.counts | {"listed": left_out.listed}


class LeftOutEntry(Document):
    """An object that no refresh reads."""

    object: str = Field(validation_alias="key")
    """Its path below the source."""
    kind: LeftOutClass
    """Its class, as in `LeftOutCounts`."""
    why: Text
    """The reason, and the fix."""


class LeftOutDocument(Document):
    """The objects that no refresh reads: the document of `plan --left-out`."""

    stream: str
    """Its name."""
    left_out: LeftOutCounts
    """Their numbers."""
    objects: list[LeftOutEntry]
    """Sorted by path."""


class PlanDocument(StreamDocument):
    """What an ingest would do now."""

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
    """The number of landed objects whose folder is not of a partition; 0 if the selection is listed by its folders."""
    left_out: LeftOutCounts
    """All landed objects that no refresh reads; `listed` and all others are 0 if the selection is listed so."""
    partitions: list[PlanPartition]
    """In the order of the selection."""

    @classmethod
    def of(cls, stream: OpenStream, made: StreamPlan, *, left_out: LeftOut, outside: bool) -> "PlanDocument":
        """Return the document of a plan.

        `left_out` is of nothing if only some folders were listed. `outside`: partitions outside the config are
        accepted.
        """
        return cls.about(
            stream,
            lake=stream.lake_name,
            mode=stream.config.mode,
            on_empty=stream.config.on_empty,
            schema_policy=stream.config.schema_policy,
            force=made.force,
            outside=outside,
            seconds=None if made.seconds is None else round(made.seconds, 1),
            objects_in_no_partition=len(left_out.unmatched),
            left_out=left_out,
            partitions=made.partitions,
        )


class LeftOutObject(Document):
    """A landed object that was not read, with `on_bad_object: quarantine`."""

    object: str
    """Its path below the source."""
    why: str
    """What is wrong with it, and the fix."""


def _of_row(name: str) -> Any:  # noqa: ANN401 - a field of any type
    """Return a field with what the ledger's row has, null for a partition of which nothing was read or written."""
    return Field(None, validation_alias=AliasPath("result", "row", name))


def _in_milliseconds(seconds: Mapping[str, float]) -> dict[str, float]:
    return {step: round(time, 3) for step, time in seconds.items()}


def _left_out(reasons: Mapping[str, str]) -> list[LeftOutObject]:
    return [LeftOutObject(object=key, why=why) for key, why in sorted(reasons.items())]


def _why_skipped(result: Outcome | None) -> str:
    return "" if result is None or result.row.status == "committed" else why_skipped(result)


class IngestedPartition(Document):
    """The result of one partition. A number is null where nothing was read or written."""

    partition: Text
    """As a path, such as `region=NW/date=2026-02-11`."""
    status: Annotated[
        Literal["committed", "skipped", "failed"],
        BeforeValidator(lambda status: status if status in ("committed", "skipped") else "failed"),
    ]
    """A skipped partition has no new objects. A failed one keeps its rows; `index` may have registered some objects."""
    snapshot: int | None = _of_row("snapshot_id")
    """The number of the commit's snapshot."""
    rows: int | None = _of_row("row_count")
    """Rows that the commit wrote; in the modes append and index, those that it added."""
    rows_before: int | None = _of_row("rows_before")
    """The partition's rows before the commit."""
    rows_after: int | None = _of_row("rows_after")
    """The partition's rows after the commit."""
    objects: int | None = _of_row("source_files")
    """The number of landed objects."""
    object_bytes: int | None = _of_row("source_bytes")
    """Their size in bytes."""
    files: int | None = _of_row("files_written")
    """Data files that the commit added; null in a lake that MotherDuck manages."""
    files_copied: int | None = _of_row("files_copied")
    """Of them, those that are copies of objects."""
    bytes: int | None = _of_row("bytes_written")
    """The size of the data files in bytes."""
    seconds: Annotated[float | None, BeforeValidator(lambda result: result and seconds_of(result))] = Field(
        None, validation_alias="result"
    )
    """The sum of `steps` without `start`, the start of Spark."""
    steps: Annotated[dict[str, float], BeforeValidator(_in_milliseconds)] = Field(
        default_factory=dict, validation_alias=AliasPath("result", "seconds")
    )
    """Seconds by step. A job that partitions share counts for each of them in full."""
    columns: list[Text] = Field(default_factory=list, validation_alias=AliasPath("result", "changes"))
    """What the partition changed in the table's columns, each in one clause."""
    left_out: Annotated[list[LeftOutObject], BeforeValidator(_left_out)] = Field(
        default_factory=list, validation_alias=AliasPath("result", "manifest", "left_out")
    )
    """Landed objects that were not read."""
    dead_letters: Sequence[LetterFile] = Field((), validation_alias=AliasPath("result", "letters"))
    """Files of landed rows that are not in the lake."""
    exported: Sequence[DeltaFile] | None = Field(None, validation_alias=AliasPath("result", "deltas"))
    """The exported changes of the commit; null if the stream exports none."""
    held: bool = Field(default=False, validation_alias=AliasPath("result", "row", "is_held"))
    """Whether a restore holds the partition, so that refreshes skip it."""
    note: Annotated[str, BeforeValidator(_why_skipped)] = Field("", validation_alias="result")
    """Why the partition was skipped; otherwise empty."""
    error: Failure | None
    """Why it failed."""


class IngestDocument(StreamDocument):
    """What a run did. It is printed after an interrupt too, with the partitions that have ended by then."""

    run: str
    """The run's id, as in the ledger."""
    selected: int
    """The number of partitions that were selected."""
    committed: int
    """The number of partitions with a commit."""
    skipped: int
    """The number of skipped partitions."""
    failed: int
    """The number of failed partitions."""
    files: int
    """Data files that the commits added."""
    rows: int
    """Rows that the commits wrote; in the modes append and index, those that they added."""
    partitions: list[IngestedPartition]
    """In the order in which they ended."""
    error: Failure | None
    """What ended the run before all partitions had ended."""

    @classmethod
    def of(
        cls,
        stream: OpenStream,
        run: str,
        selected: int,
        outcomes: Sequence[Outcome],
        error: BaseException | None,
        **others: object,
    ) -> Self:
        """Return the document of a run; `others` are the fields of a subclass."""
        ended = [IngestedPartition.model_validate(outcome) for outcome in outcomes if outcome.result or outcome.error]
        return cls.about(
            stream,
            run=run,
            selected=selected,
            committed=sum(partition.snapshot is not None for partition in ended),
            skipped=sum(partition.status == "skipped" for partition in ended),
            failed=sum(partition.status == "failed" for partition in ended),
            files=sum(partition.files or 0 for partition in ended),
            rows=sum(partition.rows or 0 for partition in ended),
            partitions=ended,
            error=error,
            **others,
        )


class IndexIgnored(Document):
    """What is not registered. Objects are looked for if no partitions are selected."""

    objects_in_no_partition: Number = Field(validation_alias=AliasPath("left_out", "unmatched"))
    """The number of landed objects that are in no partition."""
    left_out: LeftOutCounts
    """All landed objects that nothing registers."""
    folders: list[UnmatchedFolder] = Field(validation_alias=AliasPath("left_out", "unmatched_folders"))
    """Where they are."""
    outside: Sequence[NotRegistered]
    """Partitions outside the config, unless `--outside` is given."""


class IndexRunDocument(IngestDocument):
    """What a run registered. It is printed after an interrupt too, with the partitions that have ended by then."""

    action: Literal["index"] = "index"
    """Tells this document from those of `--dry-run`, `--check` and `--repair`."""
    ignored: IndexIgnored
    """What was not registered."""


class IndexPlanPartition(Document):
    """What an index would do with one partition now."""

    partition: Text
    """As a path, such as `region=NW/date=2026-02-11`."""
    objects: Number = Field(validation_alias=AliasPath("landed", "objects"))
    """The number of landed objects."""
    new: list[PlannedObject]
    """Those that would be registered."""
    changed: list[PlannedObject]
    """Those that have changed since they were registered."""


class IndexPlanDocument(StreamDocument):
    """What an index would register now, by `--dry-run`."""

    action: Literal["dry_run"] = "dry_run"
    """Tells this document from the others."""
    partitions: list[IndexPlanPartition]
    """Those that were selected, or have landed."""
    ignored: IndexIgnored
    """What would not be registered."""


class VanishedObject(Document):
    """A registered object that has vanished from the landing zone."""

    partition: str = Field(validation_alias="load_partition")
    """As a path, such as `region=NW/date=2026-02-11`."""
    uri: str
    """Its path or URI."""


class ChangedObject(Document):
    """A registered object that was replaced by another one of the same name."""

    partition: Text
    """As a path, such as `region=NW/date=2026-02-11`."""
    uri: str
    """Its path or URI."""
    repairable: bool
    """Whether `--repair` updates the lake to the object that is there now."""
    error: Failure
    """What is wrong, and the fix."""


class IndexCheckDocument(StreamDocument):
    """The registered objects compared with the landing zone, by `--check`."""

    action: Literal["check"] = "check"
    """Tells this document from the others."""
    registered: int
    """The number of registered objects."""
    vanished: list[VanishedObject]
    """Those that have vanished."""
    changed: list[ChangedObject]
    """Those that have changed."""

    @classmethod
    def of(cls, stream: OpenStream, state: IndexedState) -> "IndexCheckDocument":
        """Return the document of a comparison."""
        changed = [
            ChangedObject(
                partition=obj.partition, uri=obj.now.uri, repairable=obj.is_live, error=obj.error(stream.name)
            )
            for obj in state.changed
        ]
        return cls.about(stream, registered=state.registered, vanished=state.vanished, changed=changed)


class RepairedPartition(Document):
    """A partition that was updated to the objects that are there now."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    rows_before: int
    """Its rows before."""
    rows_updated: int
    """The rows of its changed files now."""
    snapshot: int | None
    """The number of the commit's snapshot."""


class IndexRepairDocument(StreamDocument):
    """What `--repair` did."""

    action: Literal["repair"] = "repair"
    """Tells this document from the others."""
    partitions: list[RepairedPartition]
    """Those that were updated."""
    files_removed: int
    """The number of files that were removed from the table."""
    files_updated: int
    """The number of changed files that were described again."""
    errors: list[Failure]
    """Of the objects that could not be repaired."""

    @classmethod
    def of(cls, stream: OpenStream, repaired: Repaired) -> "IndexRepairDocument":
        """Return the document of a repair."""
        partitions = [
            RepairedPartition(
                partition=row.load_partition,
                rows_before=row.rows_before or 0,
                rows_updated=repaired.updated[row.load_partition],
                snapshot=row.snapshot_id,
            )
            for row in repaired.rows
        ]
        files = {"files_removed": repaired.ended, "files_updated": repaired.renewed}
        return cls.about(stream, partitions=partitions, errors=repaired.errors, **files)
