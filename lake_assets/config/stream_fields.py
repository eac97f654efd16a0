"""The keys of a stream of the config, and what follows from them."""

from collections.abc import Mapping
from functools import cached_property

from pydantic import Field

from lake_assets.config.automation import AutomationOrCron, Freshness, ScheduleOrCron, TimeZone
from lake_assets.config.columns import DeclaredColumns
from lake_assets.config.fields import CommitBatch, FileSize, FolderPath, Identifier, KeyPrefix, Model, Owner, TextsByKey
from lake_assets.config.formats import PARQUET, FormatOrName
from lake_assets.config.layout.derived import Derived
from lake_assets.config.layout.partition import PartitionColumn
from lake_assets.config.layout.template import Template
from lake_assets.config.modes import (
    Compression,
    CopyPolicy,
    FileFact,
    Mode,
    OnBadObject,
    OnBadRow,
    OnChanged,
    OnEmpty,
    SchemaPolicy,
    Verify,
)
from lake_assets.config.partitions import FilePattern, PartitionField, PathColumns, derived_columns, stream_template
from lake_assets.config.sections import (
    AfterLoad,
    Checks,
    DeadLetters,
    Deltas,
    Destination,
    Landing,
    Layout,
    ReportOrStorage,
    Sensor,
    Transform,
)
from lake_assets.config.storages import Source


class StreamFields(Model):
    """Landed files, and the table that they fill."""

    lake: str | None = Field(None, description="Name of the lake; optional if there is only one.")
    source: Source = Field(description="A folder or bucket, or a glob of the layout's folders and the files in them.")
    layout: Layout | None = Field(None, description="Path template; Hive's name=value folders when absent.")
    format: FormatOrName = Field(
        PARQUET, description="Of landed files: `parquet`, `csv`, `json`, `orc`, `avro`, or `auto`, by their names."
    )
    files: FilePattern = Field(
        "*.parquet",
        description="Pattern of file names, which may have columns as `layout` has: `sales_{date}_*.parquet`; other "
        "files are ignored. With another `format`, `*.csv*`, `*.*json*`, `*.orc`, `*.avro` or `*.*` when absent.",
    )
    partitions: dict[Identifier, PartitionField] = Field(
        description="The partition columns by name, in the order of the path; `{}` for a table without partitions."
    )
    path_columns: PathColumns = Field(
        default_factory=dict, description="Other columns of the layout that become columns of the table."
    )
    file_columns: dict[Identifier, FileFact] = Field(
        default_factory=dict,
        description="Columns that say where a row came from: the `uri` of its object, its `row_number` there from 1, "
        "when the object was `modified`, when the row was written (`written_at`), and the `run_id`.",
    )
    destination: Destination = Field(description="The table that the stream fills.")
    mode: Mode = Field(
        Mode.REPLACE,
        description="`replace`: a partition's rows are replaced. `append`: the rows of new objects are added. `index`: "
        "landed files become lake files as they are.",
    )
    on_changed: OnChanged = Field(
        "fail",
        description="With `mode: append`: a changed object of a partition fails it, or refreshes the whole partition.",
    )
    after_load: AfterLoad = Field(
        "keep",
        description="Landed objects whose rows are in the lake: `keep` them, `tag` them in S3 as `lake_assets=loaded`, "
        "or with `mode: append` `delete` them or `move` them to another storage.",
    )
    owns_source: bool = Field(
        default=False,
        description="With `mode: index`: maintenance may delete registered objects that no snapshot needs.",
    )
    transform: Transform | None = Field(None, description="Transformation of the rows.")
    schema_policy: SchemaPolicy = Field(
        "strict",
        description="New, wider and missing columns of landed files: `strict` refuses all, `evolve` changes the table, "
        "`ignore_extra` leaves out new columns and refuses the others.",
    )
    rescue: Identifier | None = Field(
        None,
        description="A column of JSON with what does not fit: values that their columns cannot hold, and with "
        "`schema_policy: strict` the fields that no column takes. The other values of the row are in their columns.",
    )
    on_bad_object: OnBadObject = Field(
        "fail",
        description="An object that is damaged or does not fit the table: `fail` the partition, or `quarantine` the "
        "object, so that the others are read.",
    )
    on_bad_row: OnBadRow = Field(
        "fail",
        description="A row of another partition, or with a value that its column cannot hold: `fail` the partition, or "
        "write the row as a `dead_letter`, so that the others are committed.",
    )
    dead_letters: DeadLetters | None = Field(
        None,
        description="With `on_bad_row: dead_letter`: where these rows go; `_dead_letters` in the landing zone when "
        "absent.",
    )
    on_empty: OnEmpty = Field(
        "fail", description="A source partition without rows: fail, keep the lake's partition, or clear it."
    )
    record_skipped: bool = Field(
        default=True, description="Whether a run that finds nothing new writes a ledger row, and so makes a snapshot."
    )
    commit_batch: CommitBatch = Field(
        "auto",
        description="Partitions that a run commits together, as one snapshot. Each is whole, and one that fails "
        "keeps no other from its commit. `auto`: up to 50; 1 in a lake that takes rows by INSERT only.",
    )
    compression: Compression = Field("zstd", description="Codec of the data files.")
    target_file_size: FileSize = Field(
        default="256MiB", validate_default=True, description="Target size of data files, 1 MiB to 4 GiB."
    )
    copying: CopyPolicy = Field(
        "auto",
        alias="copy",
        description="Landed files that become data files as they are. `auto`: those of the stream's codec, and of a "
        "quarter to twice `target_file_size`; `any`: of any codec; `always`: of any codec and size; `never`: none.",
    )
    verify: Verify = Field(
        "footer", description="What of a file is read before it is copied: its `footer`, or all its `pages` too."
    )
    immutable_source: bool = Field(
        default=False,
        description="Files of a local landing zone are never changed in place, so a data file may be a hard link.",
    )
    time_zone: TimeZone = Field("UTC", description="Time zone of today's date; the layout's when absent.")
    schedule: ScheduleOrCron | None = Field(None, description="Refreshes the newest partitions at fixed times.")
    automation: AutomationOrCron | None = Field(
        None, description="Refreshes changed partitions with Dagster's automation."
    )
    report: ReportOrStorage | None = Field(
        None, description="The report as an HTML page, which Dagster makes again after each run; none when absent."
    )
    freshness: Freshness | None = Field(
        None, description="The allowed age of the newest refresh, and of the newest partition."
    )
    checks: Checks = Field(Checks(), description="Checks that run, and your own ones.")
    max_partitions_per_run: int | None = Field(
        None, ge=1, le=1_000_000, description="Partitions in one run of a backfill; no limit when absent."
    )
    tags: TextsByKey = Field(default_factory=dict, description="Tags of the asset in Dagster.")
    deltas: Deltas | None = Field(
        None, description="Export of what each commit inserts and removes, as Parquet; none when absent."
    )
    landing: Landing | None = Field(None, description="How `lake-assets land` writes records.")
    sensor: Sensor | None = Field(None, description="Sensor that requests runs for new objects; none when absent.")
    description: str | None = Field(None, description="Text about the asset, shown by Dagster.")
    contract: FolderPath | None = Field(
        None,
        description="A data contract (Open Data Contract Standard, YAML), relative to the config: its table has the "
        "columns and checks that the stream does not give itself.",
    )
    declared: DeclaredColumns = Field(
        default_factory=dict, alias="columns", description="Columns of the table: their descriptions, and types."
    )
    owners: tuple[Owner, ...] = Field((), description="E-mail addresses or `team:NAME`, shown by Dagster.")
    kinds: tuple[str, ...] = Field(
        ("ducklake", "spark", "parquet"),
        max_length=3,
        description="Labels of the asset in Dagster, three at most; the last one is the `format` when absent.",
    )
    group: Identifier | None = Field(None, description="The asset's group in Dagster.")
    key_prefix: KeyPrefix | None = Field(
        None, description="The first parts of the keys of its assets; the config's when absent."
    )

    previously: tuple[Identifier, ...] = Field(
        (),
        description="Names that the stream had before. Rows of the ledger under them are its own, and in Dagster the "
        "state of their sensors and schedules, and their values of partitions.",
    )

    @cached_property
    def template(self) -> Template:
        """The layout of the landing zone, with the table's column names."""
        return stream_template(self.layout, self.partitions, self.path_columns, self.time_zone, self.files)

    @cached_property
    def derived(self) -> tuple[Derived, ...]:
        """The partition columns that are derived from another column of the rows."""
        return tuple(derived_columns(self.template, self.partitions, self.time_zone))

    @cached_property
    def partition_columns(self) -> tuple[PartitionColumn, ...]:
        """The partition columns in the order of the config and of the path."""
        of_files = self.mode.registers  # DuckLake reads a registered file's values from its path
        return tuple(
            PartitionColumn(
                n, field.type, field.where == "rows", field.empty, field.exact or field.where == "rows" or of_files
            )
            for n, field in self.partitions.items()
        )

    @property
    def column_descriptions(self) -> Mapping[str, str]:
        """Texts about columns of the table, by their names."""
        return {n: column.description for n, column in self.declared.items() if column.description is not None}

    @property
    def path_typed(self) -> tuple[PartitionColumn, ...]:
        """All columns whose values are in the path: those of partitions, and `path_columns`."""
        others = (PartitionColumn(name, column.type, exact=True) for name, column in self.path_columns.items())
        return (*(column for column in self.partition_columns if not column.in_rows), *others)

    @property
    def empties_source(self) -> bool:
        """Whether objects are taken out of the landing zone, and their rows stay."""
        return self.owns_source or self.after_load not in ("keep", "tag")

    @property
    def selects_rows(self) -> bool:
        """Whether an object may have rows of several partitions, which a column of the rows distinguishes."""
        return any(column.in_rows for column in self.partition_columns)
