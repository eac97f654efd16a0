"""The JSON of `--format json`, and its JSON Schema: dataclasses of the product, and those here for what has none."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasPath, BeforeValidator, ConfigDict, Field, TypeAdapter

from lake_assets.base.documented import Documented
from lake_assets.cli.run_documents import (
    Document,
    Failure,
    IndexCheckDocument,
    IndexPlanDocument,
    IndexRepairDocument,
    IndexRunDocument,
    IngestDocument,
    LeftOutCounts,
    LeftOutDocument,
    Number,
    PlanDocument,
    StreamDocument,
    Text,
)
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.after_load import LoadedObject
from lake_assets.ingest.forget import Forgotten
from lake_assets.lake.catalog.backup import Backup, RestoredCatalog
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.streams.left_out import UnmatchedFolder
from lake_assets.streams.stream import OpenStream, open_streams
from lake_assets.upkeep.checks.facts import CheckResult
from lake_assets.upkeep.history.diff import Difference
from lake_assets.upkeep.history.history_entries import HistoryEntry
from lake_assets.upkeep.history.restore import Restored
from lake_assets.upkeep.maintenance.cleaning import KeptObject
from lake_assets.upkeep.maintenance.compaction import CompactedPartition
from lake_assets.upkeep.maintenance.rebuild import LostPartition
from lake_assets.upkeep.report.former import Former
from lake_assets.upkeep.report.metrics import Value
from lake_assets.upkeep.report.objects import FileEntry
from lake_assets.upkeep.report.state import Retry, State, Summary


class ConfigColumn(Document):
    """A partition column."""

    name: str
    """Its name."""
    type: str
    """Such as `date`."""


class ConfigStream(Document):
    """A stream: where its files land, and the table that they become."""

    name: str
    """Its name."""
    source: str = Field(validation_alias="layout_uri")
    """Path or URI of the landing zone with the layout, without secrets."""
    lake: str = Field(validation_alias="lake_name")
    """Its lake."""
    table: Text
    """With its schema, such as `main.sales`."""
    partitions: list[ConfigColumn] = Field(validation_alias=AliasPath("config", "columns"))
    """The partition columns in the order of the layout."""


class ConfigLake(Document):
    """A lake: locations without secrets."""

    name: str
    """Its name."""
    catalog: str
    """The kind of the catalog and its location."""
    storage: str
    """Path or URI of the data files."""


class ValidateDocument(Document):
    """A valid config. The error of another one is on standard error, and the exit code is 1."""

    streams: list[ConfigStream]
    """In the order of the config."""
    lakes: list[ConfigLake]
    """In the order of the config."""
    former: list[Former]
    """What the lakes have of streams that the config does not have; only of lakes in SQLite and folders."""

    @classmethod
    def of(cls, config: LakeConfig, former: list[Former]) -> "ValidateDocument":
        """Return the document of a config."""
        lakes = [
            ConfigLake(name=name, catalog=lake.catalog.location, storage=lake.files_location)
            for name, lake in config.lakes.items()
        ]
        return cls(streams=list(open_streams(config).values()), lakes=lakes, former=former)


class CheckFinding(Document):
    """The result of one check."""

    name: str
    """Of the check."""
    status: Literal["passed", "warning", "failed"]
    """A warning does not change the exit code."""
    description: str
    """What was found, and the fix, in a sentence; empty if the check has an error."""
    named: list[str]
    """The first partitions, files or rows that it found, 10 at most."""
    numbers: dict[str, int]
    """Numbers of rows, partitions, files or objects, by what they are."""
    error: Failure | None
    """Why the check could not be run."""

    @classmethod
    def of(cls, result: CheckResult, *, failed: bool) -> "CheckFinding":
        """Return the finding of a result; `failed` says whether one that did not pass is more than a warning."""
        return cls(
            name=result.name,
            status="passed" if result.passed else "failed" if failed else "warning",
            description=result.description,
            named=list(result.named),
            numbers=dict(result.numbers),
            error=None,
        )

    @classmethod
    def of_error(cls, name: str, error: Exception) -> "CheckFinding":
        """Return a check that could not be run."""
        return cls(name=name, status="failed", description="", named=[], numbers={}, error=error)


class CheckDocument(StreamDocument):
    """The results of a stream's checks."""

    partitions: list[Text] | None
    """The selected partitions, as paths; null for an audit of the whole table."""
    failed: int
    """The number of failed checks."""
    warnings: int
    """The number of checks with a warning."""
    checks: list[CheckFinding]
    """In the order in which they ran; empty if no partition was selected."""

    @classmethod
    def of(
        cls, stream: OpenStream, partitions: Sequence[Partition] | None, findings: list[CheckFinding]
    ) -> "CheckDocument":
        """Return the document of the findings; `partitions` is None for an audit."""
        statuses = [finding.status for finding in findings]
        return cls.about(
            stream,
            partitions=partitions,
            failed=statuses.count("failed"),
            warnings=statuses.count("warning"),
            checks=findings,
        )


class RestoredPartition(Document):
    """What was done with one partition, or would be done."""

    partition: Text
    """As a path, such as `region=NW/date=2026-02-11`."""
    snapshot: int | None
    """The number of the snapshot whose rows are restored; null with `--release`."""
    dry_run: bool = False
    """Whether nothing was changed, and the rest is what would be done."""
    rows: int | None = None
    """The snapshot's rows of the partition; null with `--release`, or if the partition failed."""
    rows_before: int | None = None
    """The number of rows that they replace; null where `rows` is."""
    files_copied: int | None = Field(None, validation_alias="files")
    """Copied data files; null if DuckLake writes the rows instead."""
    differences: list[str] = Field(default_factory=list)
    """How the table's columns differ from those of the snapshot, each in one clause."""
    unchanged: bool = Field(default=False, validation_alias="is_unchanged")
    """Whether the partition has these rows already, so nothing was done."""
    held: bool = Field(default=False, validation_alias="is_held")
    """Whether refreshes skip the partition from now on."""
    released: bool = False
    """Whether `--release` ended a hold."""
    commit: int | None = Field(None, validation_alias=AliasPath("row", "snapshot_id"))
    """The number of the new snapshot; null if nothing was committed."""
    next: str | None = None
    """What the next refresh does with the partition; null with `--release`, or if the partition failed."""
    error: Failure | None = None
    """Why nothing was done."""

    @classmethod
    def of(cls, restored: Restored, *, dry_run: bool) -> "RestoredPartition":
        """Return a restored partition."""
        return cls.model_validate(restored).model_copy(update={"dry_run": dry_run})

    @classmethod
    def of_release(cls, row: LedgerRow) -> "RestoredPartition":
        """Return a partition whose hold has ended, by the ledger's row of that."""
        return cls(partition=row.load_partition, snapshot=None, released=True, commit=row.snapshot_id)

    @classmethod
    def of_error(
        cls, partition: Partition, snapshot: int | None, error: Exception, *, dry_run: bool
    ) -> "RestoredPartition":
        """Return a partition that stays as it is."""
        return cls(partition=partition, snapshot=snapshot, dry_run=dry_run, error=error)


Uri = Annotated[str, BeforeValidator(attrgetter("uri"))]
"""The URI of a file."""


class MaintainedLake(Document):
    """The maintenance of one lake."""

    lake: str
    """Its name."""
    dry_run: bool
    """Whether nothing was changed, and the rest is what would be done."""
    expired: list[int]
    """Numbers of expired snapshots."""
    deleted: list[str] = Field(validation_alias=AliasPath("cleaned", "deleted"))
    """URIs of data files that no snapshot needs."""
    orphans: list[Uri]
    """URIs of deleted files that the catalog did not have."""
    bytes_deleted: int
    """The size of all deleted data files and orphans, in bytes."""
    kept: list[KeptObject] = Field(validation_alias=AliasPath("cleaned", "all_kept"))
    """Files that could have been deleted, and were not."""
    waiting: list[str] = Field(validation_alias=AliasPath("cleaned", "unreachable"))
    """URIs of files in no storage of the config, which were not deleted."""
    ledger_rows_moved: int = Field(validation_alias="flushed")
    """Rows of ledger and manifest that were moved from the catalog into files."""
    ledger_rows_deleted: int = Field(validation_alias="forgotten")
    """Rows of the ledger that were old enough to delete."""
    deltas_deleted: list[Uri] = Field(validation_alias="deltas")
    """URIs of deleted files of exported changes."""
    dead_letters_deleted: list[Uri] = Field(validation_alias="letters")
    """URIs of deleted files of dead letters."""
    loaded: list[LoadedObject]
    """Landed objects whose rows are in the lake, and that a run has left, by the stream's `after_load`."""
    compacted: list[CompactedPartition]
    """The partitions with many small files."""
    corrected: list[str]
    """Columns with their tables, whose least and greatest values in the catalog were not those of the files."""


class ReportPartition(Document):
    """The state of one partition, with `--partitions`."""

    stream: str
    """Its stream."""
    partition: Text
    """As a path, such as `region=NW/date=2026-02-11`."""
    state: State
    """As `lake-assets report --help` explains."""
    objects: int
    """The number of its landed objects."""
    bytes: int = Field(validation_alias="size")
    """Their size in bytes."""
    rows: int | None
    """In the lake, as of the newest commit; null if there never was one."""
    snapshot: int | None
    """The number of the newest commit's snapshot."""
    committed_at: dt.datetime | None
    """Its time, with a time zone."""
    error: str | None
    """Of the newest run, if it failed."""
    retry: Retry | None
    """Of a failed partition, by sensor or schedule: `later`, or when its objects have `changed`; null if by nobody."""
    next_try: dt.datetime | None
    """From when on it is tried again, if `retry` is `later`."""
    outside: Annotated[str | None, BeforeValidator(lambda error: error and str(error))]
    """Why the config does not have the partition."""
    quarantined: Annotated[int | None, BeforeValidator(lambda objects: len(objects) or None)]
    """The number of objects that the newest commit left out; null if there are none."""
    held_by: str | None = Field(validation_alias="holder")
    """The run that holds the partition, and since when."""
    edited: str | None
    """How another client changed the number of its rows since the newest commit, and how to undo it."""
    dead_letters: Annotated[int | None, BeforeValidator(lambda files: sum(file.rows for file in files) or None)]
    """The number of landed rows that are not in the lake; null if there are none."""


class ReportUnmatched(Document):
    """The landed objects of a stream that no refresh reads, unless these are all hidden, or outside the config."""

    stream: str
    """Its name."""
    partitions: Annotated[None, BeforeValidator(lambda _: None)]
    """Always null: it tells this object from the others."""
    objects_in_no_partition: Number = Field(validation_alias=AliasPath("left_out", "unmatched"))
    """The number of those whose folder is not of a partition."""
    left_out: LeftOutCounts
    """All of them by class."""
    folders: list[UnmatchedFolder] = Field(validation_alias=AliasPath("left_out", "unmatched_folders"))
    """Where they are."""


_ANY_COLUMNS: ConfigDict = {**Documented.__pydantic_config__, "extra": "allow"}


@dataclass(frozen=True, slots=True)
class QueryRow(Documented):
    """A row of the result: its columns by name.

    Booleans and numbers are JSON's, and lists, structs and maps are arrays and objects. NULL is null, and so is a
    number that JSON lacks: NaN and the infinities. All other values are texts, as DuckDB casts them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _ANY_COLUMNS


def output_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of a command's `--format json`, draft 2020-12."""
    schema = TypeAdapter(_output(command)).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _output(command: str) -> Any:  # noqa: ANN401 - any type
    """Return the type of a command's document; only what needs more than the others is imported here."""
    if command == "doctor":
        from lake_assets.upkeep.doctor import Findings  # noqa: PLC0415

        return Findings
    if command == "sync-dagster":
        from lake_assets.orchestration.sensors.sync import Synced  # noqa: PLC0415

        return list[Synced]
    return _OUTPUTS[command]


_OUTPUTS: Mapping[str, Any] = MappingProxyType(
    {
        "validate": ValidateDocument,
        "plan": PlanDocument | LeftOutDocument,
        "ingest": IngestDocument,
        "apply": IngestDocument,
        "index": IndexRunDocument | IndexPlanDocument | IndexCheckDocument | IndexRepairDocument,
        "query": list[QueryRow],
        "ledger": list[LedgerRow],
        "history": list[HistoryEntry],
        "diff": Difference,
        "restore": list[RestoredPartition],
        "report": list[Summary | ReportPartition | ReportUnmatched | Former],
        "check": CheckDocument,
        "metrics": list[Value],
        "files": list[FileEntry],
        "maintain": list[MaintainedLake],
        "forget": list[Forgotten],
        "catalog backup": list[Backup],
        "catalog backups": list[Backup],
        "catalog restore": list[RestoredCatalog],
        "catalog rebuild": list[LostPartition],
    }
)
