"""A stream: landed files, and how they become a table of the lake."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

import pyarrow as pa
from pydantic import Field, TypeAdapter, ValidationInfo, field_validator, model_validator

from lake_assets.base.errors import LakeAssetsError, LayoutError, PartitionError
from lake_assets.config.automation import AutomationOrCron, Freshness, ScheduleOrCron, TimeZone, check_time_zone
from lake_assets.config.column_types import arrow_type
from lake_assets.config.columns import Columns, column_problems, overridden
from lake_assets.config.contract import read_contract
from lake_assets.config.fields import CommitBatch, FileSize, FolderPath, Identifier, KeyPrefix, Model, Texts
from lake_assets.config.formats import PARQUET, Format, LandedFormat, ParquetFormat
from lake_assets.config.layout.derived import Derived, check_time_type
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.layout.template import Template
from lake_assets.config.layout.times import TIME_TYPES
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
from lake_assets.config.partitions import (
    PartitionField,
    PathColumns,
    clash,
    derived_columns,
    has_values,
    misfit,
    missing_column,
    stream_template,
)
from lake_assets.config.sections import (
    LETTER_COLUMNS,
    READABLE,
    AfterLoad,
    Checks,
    DeadLetters,
    Deltas,
    Landing,
    Layout,
    LayoutOptions,
    ReportOrStorage,
    Sensor,
    SqsSensor,
    ending_of,
    unread,
)
from lake_assets.config.storages import Source
from lake_assets.config.uris import folder_globs, has_query, is_glob, split_glob

Value = TypeVar("Value")

DIMENSIONS = 2  # of Dagster's keys, at most

_LAYOUT: TypeAdapter[LayoutOptions | None] = TypeAdapter(Layout | None)
_PARTITIONS = TypeAdapter(dict[str, PartitionField])
_FORMAT: TypeAdapter[LandedFormat] = TypeAdapter(Format)
_PATH: TypeAdapter[str] = TypeAdapter(FolderPath)


class Destination(Model):
    """The table that the stream fills."""

    schema_name: Identifier = Field("main", alias="schema", description="Schema of the table.")
    table: Identifier = Field(description="Name of the table; the first run creates it.")


_DESTINATION = TypeAdapter(Destination)


class Transform(Model):
    """A transformation of the rows between landing zone and lake: Spark SQL, or a function."""

    sql: str | None = Field(None, min_length=1, description="Spark SQL over the view `source`.")
    function: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="`package.module:name` of a function from DataFrame to DataFrame.",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.sql is None) == (self.function is None):
            raise ValueError("give either sql or function")
        return self


class Stream(Model):
    """Landed files, and the table that they fill."""

    lake: str | None = Field(None, description="Name of the lake; optional if there is only one.")
    source: Source = Field(description="A folder or bucket, or a glob of the layout's folders and the files in them.")
    layout: Layout | None = Field(None, description="Path template; Hive's name=value folders when absent.")
    format: Format = Field(
        PARQUET, description="Of landed files: `parquet`, `csv`, `json`, `orc`, `avro`, or `auto`, by their names."
    )
    files: str = Field(
        "*.parquet",
        min_length=1,
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
        "replace",
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
    tags: Texts = Field(default_factory=dict, description="Tags of the asset in Dagster.")
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
    declared: Columns = Field(
        default_factory=dict, alias="columns", description="Columns of the table: their descriptions, and types."
    )
    owners: tuple[str, ...] = Field((), description="E-mail addresses or `team:NAME`, shown by Dagster.")
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

    @model_validator(mode="before")
    @classmethod
    def _clock_of_the_layout(cls, data: object) -> object:
        """Return the layout's time zone is the default of the stream's."""
        if not isinstance(data, dict) or "time_zone" in data:
            return data
        layout = data.get("layout")
        zone = layout.get("time_zone") if isinstance(layout, dict) else getattr(layout, "time_zone", None)
        try:
            return data | {"time_zone": check_time_zone(zone)} if isinstance(zone, str) else data
        except ValueError:
            return data  # reported at its own key

    @model_validator(mode="before")
    @classmethod
    def _of_its_contract(cls, data: object, info: ValidationInfo) -> object:
        """Return the columns, checks and description of the contract, below those of the stream.

        They take its place, so that a config that is sent to another machine is whole.
        """
        if not isinstance(data, dict) or not isinstance(written := data.get("contract"), str):
            return data
        try:
            path = Path(_PATH.validate_python(written, context=info.context))
            to = _DESTINATION.validate_python(data.get("destination"))
        except ValueError:
            return data  # reported at their own keys
        others = (data.get(key) for key in ("partitions", "path_columns", "file_columns"))
        taken = {name.lower() for names in others if isinstance(names, dict) for name in names}
        try:
            contract = read_contract(path, to.schema_name, to.table, taken)
        except LakeAssetsError as error:
            raise ValueError(str(error).rstrip(".")) from error
        own, checks = data.get("columns", {}), data.get("checks", {})
        if not isinstance(own, dict) or not isinstance(checks, dict):
            return data
        described = {} if contract.description is None else {"description": contract.description}
        rest = {key: value for key, value in data.items() if key != "contract"}
        columns, sql = overridden(contract.columns, own), {**contract.checks, **checks.get("sql", {})}
        return described | rest | {"columns": columns, "checks": checks | {"sql": sql}}

    @model_validator(mode="before")
    @classmethod
    def _files_of_the_format(cls, data: object) -> object:
        """Return the defaults that the format decides."""
        if not isinstance(data, dict) or "format" not in data:
            return data
        try:
            form = _FORMAT.validate_python(data["format"])
        except ValueError:
            return data  # reported at its own key
        glob = data.get("source")
        files = {} if isinstance(glob, str) and is_glob(glob) else {"files": form.files}
        return files | {"kinds": ("ducklake", "spark", form.type)} | data

    @model_validator(mode="before")
    @classmethod
    def _split_source_glob(cls, data: object) -> object:
        if not isinstance(data, dict) or not isinstance(glob := data.get("source"), str) or not is_glob(glob):
            return data
        if has_query(glob):
            return data  # refused as a URL, without repeating it
        try:
            layout = _LAYOUT.validate_python(data.get("layout"))
            partitions = _PARTITIONS.validate_python(data["partitions"])
            folders = folder_globs(stream_template(layout, partitions, {}, "UTC"))
        except (ValueError, LookupError, TypeError, LayoutError):
            above = split_glob(glob, ())
            return data if above is None else data | {"source": above[0]}  # reported at their own keys, and not here
        folder_and_files = split_glob(glob, folders)
        if folder_and_files is None and not folders:
            raise ValueError(
                f"source {glob!r} has no folder before its first wildcard, or no files: write it as a folder and "
                "/*.parquet, or /**/*.parquet for everything below it"
            )
        if folder_and_files is None:
            raise ValueError(
                f"source {glob!r} has other folders than the layout: write it as "
                f"…/{'/'.join(folders)}/{cls.model_fields['files'].default}, or write the folder as source, the "
                "folders below it as layout, and the file names as files"
            )
        source, files = folder_and_files
        if data.get("files", files) != files:
            raise ValueError(f"source ends in {files!r} and files is {data['files']!r}: remove one of them")
        # Pydantic does not validate the models again.
        valid = {"partitions": partitions} | ({"layout": layout} if "layout" in data else {})
        return data | valid | {"source": source, "files": files}

    @field_validator("files")
    @classmethod
    def _names_parse(cls, files: str) -> str:
        try:
            if has_values(files):
                Template.root().with_files(files)
        except LayoutError as error:
            raise ValueError(str(error)) from error
        return files

    @field_validator("owners")
    @classmethod
    def _owner_form(cls, owners: tuple[str, ...]) -> tuple[str, ...]:
        for owner in owners:
            if not owner.startswith("team:") and "@" not in owner:
                raise ValueError(f"owner {owner!r} is neither an e-mail address nor of the form team:name")
        return owners

    @model_validator(mode="after")
    def _lookback_has_a_clock(self) -> Self:
        if any(field.type in TIME_TYPES for field in self.partitions.values()):
            return self
        for name, trigger in (("schedule", self.schedule), ("automation", self.automation)):
            if trigger is not None and "lookback" in trigger.model_fields_set and trigger.lookback is not None:
                raise ValueError(
                    f"{name}.lookback counts days or hours, and no partition column of the stream is a time: remove it"
                )
        return self

    @model_validator(mode="after")
    def _freshness_has_a_clock(self) -> Self:
        limit = self.freshness and self.freshness.newest_partition_hours
        if any(field.type in TIME_TYPES for field in self.partitions.values()):
            if limit is None and "freshness" in self.checks.blocking:
                raise ValueError("checks.blocking names freshness: set freshness.newest_partition_hours, or remove it")
        elif self.freshness is not None and limit is not None:
            name = "freshness" if self.freshness.fail_hours is None else "it"
            raise ValueError(
                "freshness.newest_partition_hours is the age of a time, and no partition column of the stream is one: "
                f"remove {name}"
            )
        elif "freshness" in self.checks.blocking:
            raise ValueError(
                "checks.blocking names freshness, a check of times, and no partition column of the stream is one: "
                "remove it"
            )
        return self

    @model_validator(mode="after")
    def _partition_columns(self) -> Self:
        if len({name.lower() for name in self.partitions}) < len(self.partitions):
            raise ValueError("two partition columns differ only in the case of their letters: rename one of them")
        times = [name for name, field in self.partitions.items() if field.type in TIME_TYPES]
        if (late := [name for name in times[1:] if self.partitions[name].keys]) and len(self.partitions) > DIMENSIONS:
            raise ValueError(
                f"partitions.{late[0]}.keys: with more than two columns only the first time, {times[0]}, is a "
                "dimension of its own in Dagster: remove it"
            )
        try:
            template = self.template
        except LayoutError as error:
            raise ValueError(str(error)) from error
        for column in self.columns:
            if column.in_rows and column.name in template.columns:
                raise ValueError(
                    f"partitions.{column.name} is in: rows, and the layout {template.text!r} has {{{column.name}}}: "
                    "remove one of them"
                )
            if not column.in_rows:
                if column.name not in template.columns:
                    raise ValueError(missing_column(template, column.name))
                check_time_type(template, column, f"partitions.{column.name}.type")
            for value in self.partitions[column.name].values or ():
                try:
                    column.parse(column.text(value))
                except PartitionError as error:
                    raise ValueError(str(error)) from error
        return self

    @model_validator(mode="after")
    def _added_columns_fit(self) -> Self:
        template, partitions = self.template, {name.lower() for name in self.partitions}
        for name, column in self.path_columns.items():
            if name.lower() in partitions:
                raise ValueError(f"path_columns.{name} is a partition column, which the table always has: remove it")
            if name not in template.columns:
                raise ValueError(f"the layout {template.text!r} has no {{{name}}}, which path_columns names: remove it")
            check_time_type(template, PartitionColumn(name, column.type), f"path_columns.{name}")
        taken = {*partitions, *(name.lower() for name in self.path_columns)}
        added = {f"file_columns.{name}": name for name in self.file_columns}
        for key, name in (added | ({f"rescue: {self.rescue}": self.rescue} if self.rescue else {})).items():
            if name.lower() in taken:
                raise ValueError(f"{key} is the name of another column of the table: choose another name")
            if self.on_bad_row == "dead_letter" and name.lower() in LETTER_COLUMNS:
                raise ValueError(f"{key} is a name of the dead letters' own columns: choose another name")
            taken.add(name.lower())
        return self

    @model_validator(mode="after")
    def _declared_columns_fit(self) -> Self:
        others = {name.lower(): "partitions" for name in self.partitions}
        others |= {name.lower(): "path_columns" for name in self.path_columns}
        others |= {name.lower(): "file_columns" for name in self.file_columns}
        others |= {self.rescue.lower(): "rescue"} if self.rescue else {}
        sources = {derived.column.lower() for derived in self.derived}
        sources |= {column.name.lower() for column in self.columns if column.in_rows}
        for problem in column_problems(self.declared, others, sources, self.format, self.mode):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _fits_partitions_in_rows(self) -> Self:
        if "/" in self.files and self.template.parts:
            raise ValueError(
                f"files {self.files!r} has a slash, and the layout has the folders: write only the files' names"
            )
        name = next((column.name for column in self.columns if column.in_rows), None)
        for key in ("sensor", "automation"):
            if name is not None and getattr(self, key) is not None:
                raise ValueError(
                    f"partitions.{name} is in: rows, so an object's path does not name its partitions, and {key} "
                    "cannot find what to refresh: use schedule"
                )
        return self

    @model_validator(mode="after")
    def _fits_its_mode(self) -> Self:
        for problem in (*self._problems_of_mode(), *self._problems_of_policies()):
            raise ValueError(problem)
        return self

    def _problems_of_mode(self) -> Iterator[str]:
        if self.mode == "append" and self.on_empty == "clear":
            yield "mode: append takes no rows away, so on_empty cannot be clear: use fail or keep"
        if self.mode != "append" and self.on_changed == "refresh":
            yield f"on_changed: refresh is for mode: append; remove it from this stream of mode: {self.mode}"
        if self.mode == "index":
            yield from self._problems_of_index()
        elif self.owns_source:
            yield f"owns_source is for mode: index, and in mode: {self.mode} the lake has files of its own: remove it"
        if self.after_load != "keep":
            yield from self._problems_of_after_load()

    def _problems_of_after_load(self) -> Iterator[str]:
        if self.mode == "index":
            yield "mode: index makes landed objects the files of the table, so after_load must be keep"
        elif self.source.read_only is not None:
            yield f"the source {self.source.read_only} and so is read-only, so after_load must be keep"
        elif self.selects_rows:
            yield "an object may have rows of several partitions (in: rows), so after_load must be keep"
        elif self.after_load == "tag" and not self.source.has_tags:
            way = "use delete or move" if self.mode == "append" else "remove it"
            yield f"after_load: tag is for objects in S3, and source is another storage: {way}"
        elif self.empties_source and self.mode == "replace":
            tag = ", or after_load: tag" if self.source.has_tags else ""
            yield (
                "mode: replace makes a partition of all objects that are there, so after_load cannot take them away: "
                f"use mode: append{tag}"
            )

    def _problems_of_index(self) -> Iterator[str]:
        if not isinstance(self.format, ParquetFormat):
            yield (
                "mode: index registers landed files as they are, and a lake reads Parquet only, not "
                f"{self.format.type}: use mode: replace or mode: append"
            )
        for name, field in self.partitions.items():
            if field.where == "rows":
                yield (
                    f"partitions.{name} is in: rows, and mode: index registers whole files, each of one partition: use "
                    "mode: replace"
                )
            if field.empty == "null":
                yield (
                    f"partitions.{name} is empty: null, and a registered file has the value of its folder, an empty "
                    "text: write empty: value, or use mode: replace"
                )
        added = [name for name in ("path_columns", "file_columns", "rescue") if getattr(self, name)]
        yield from (f"mode: index registers files as they are, without {name}: use mode: replace" for name in added)
        if "commit_batch" in self.model_fields_set:
            yield "mode: index registers the files of all partitions in one commit already: remove commit_batch"
        if self.transform is not None:
            yield "mode: index registers files as they are, untransformed: use mode: replace"
        for name in ("compression", "target_file_size", "verify", "immutable_source", "copying"):
            if name in self.model_fields_set:  # also with the default value
                key = type(self).model_fields[name].alias or name
                yield f"{key} is for written files, and mode: index writes none: remove it"
        if self.schema_policy != "strict":
            yield (
                f"schema_policy: {self.schema_policy} is for tables that a refresh writes, and mode: index registers "
                "only files that fit the table: remove it, or use mode: replace"
            )
        if self.on_empty == "clear":
            yield "mode: index only adds files, so on_empty cannot be clear: use fail or keep"
        if self.deltas is not None:
            yield (
                "deltas are of rows that a commit writes and removes. mode: index registers landed files, and the old "
                "rows of a file that changed or vanished are gone, so its deletes cannot be exported: remove deltas, "
                "or use mode: replace"
            )

    def _problems_of_policies(self) -> Iterator[str]:
        if self.mode == "index" and self.on_bad_object == "quarantine":
            yield (
                "on_bad_object: quarantine is for mode: replace and mode: append, and mode: index leaves an object "
                "that it cannot register out by itself: remove on_bad_object"
            )
        if self.mode == "index" and self.on_bad_row == "dead_letter":
            yield (
                "on_bad_row: dead_letter is for modes that write rows, and mode: index registers whole files: remove "
                "it, or use mode: replace"
            )
        if self.on_bad_row == "fail" and self.dead_letters is not None:
            way = "remove it" if self.mode == "index" else "remove it, or set on_bad_row"
            yield f"dead_letters is for on_bad_row: dead_letter: {way}"
        for name in ("copying", "verify", "immutable_source"):
            if not isinstance(self.format, ParquetFormat) and name in self.model_fields_set:
                key = type(self).model_fields[name].alias or name
                yield (
                    f"{key} is for landed Parquet files that become data files, and format is {self.format.type}: "
                    "remove it"
                )
        for name in ("verify", "immutable_source"):
            if self.copying == "never" and name in self.model_fields_set:
                yield f"{name} is for copied files, and copy: never copies none: remove one of them"
        for check, key, value in (
            ("appended_objects", "mode", "append"),
            ("indexed_objects", "mode", "index"),
            ("quarantine", "on_bad_object", "quarantine"),
            ("dead_letters", "on_bad_row", "dead_letter"),
        ):
            if check in self.checks.blocking and getattr(self, key) != value:
                way = "remove it" if "index" in (self.mode, value) or key == "mode" else f"remove it, or set {key}"
                yield f"checks.blocking names {check}, which is a check of {key}: {value}: {way}"

    @model_validator(mode="after")
    def _fits_its_source(self) -> Self:
        if self.landing is not None and self.landing.columns is not None:
            schema = pa.schema([(name, arrow_type(kind)) for name, kind in self.landing.columns.items()])
            if problem := clash(self.template, self.partitions, schema) or misfit(
                self.template, self.path_typed, schema
            ):
                raise ValueError(f"landing.columns: {' '.join(problem).rstrip('.')}")
        for text in () if self.source.is_listable else self._problems_of_web_source():
            raise ValueError(text)
        if isinstance(self.sensor, SqsSensor) and not self.source.notifies_sqs:
            raise ValueError("sensor type sqs reads the notifications of an S3 bucket: use type objects here")
        if self.landing is not None and not isinstance(self.format, ParquetFormat):
            raise ValueError(f"landing writes Parquet files, and format is {self.format.type}: remove one of them")
        if self.landing is not None and ending_of(self.files) is None:
            raise ValueError(f"{unread(self.files)}: {READABLE}")
        if self.on_bad_row == "dead_letter" and self.dead_letters is None and self.source.read_only is not None:
            raise ValueError(
                f"on_bad_row: dead_letter writes below the source, which {self.source.read_only} and so is read-only: "
                "name another storage in dead_letters.to"
            )
        return self

    def _problems_of_web_source(self) -> Iterator[str]:
        """Yield what a web server cannot do: files are requested by name, nothing is listed, and nothing written."""
        why, hint = "a web server cannot be listed", "or name the bucket behind it as source (s3://bucket/prefix)"
        if is_glob(self.files):
            yield f"{why}, and files is a pattern: give the name of a partition's one file, {hint}, which can be"
        in_path = [name for name, field in self.partitions.items() if field.where == "path"]
        if any(placeholder.name not in in_path for placeholder in self.template.placeholders):
            folders = f"folders of the layout {self.template.text!r} are in no partition"
            yield f"{why}, and {folders}: leave them out, {hint}, which can be"
        for name in in_path:
            if self.partitions[name].values is None and self.partitions[name].start is None:
                yield f"{why}, so partitions.{name} needs its values"
        if self.mode == "index":
            yield "mode: index registers the files of a bucket or folder, not a web server's: use mode: replace"
        if self.sensor is not None:
            yield f"{why}, so a sensor finds nothing there: use schedule or automation"
        if self.landing is not None:
            yield "landing writes files, and a web server is read-only: remove landing"

    @cached_property
    def template(self) -> Template:
        """The layout of the landing zone, with the table's column names."""
        return stream_template(self.layout, self.partitions, self.path_columns, self.time_zone, self.files)

    @cached_property
    def derived(self) -> tuple[Derived, ...]:
        """The partition columns that are derived from another column of the rows."""
        return tuple(derived_columns(self.template, self.partitions, self.time_zone))

    @cached_property
    def columns(self) -> tuple[PartitionColumn, ...]:
        """The partition columns in the order of the config and of the path."""
        of_files = self.mode == "index"  # DuckLake reads a registered file's values from its path
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
        return (*(column for column in self.columns if not column.in_rows), *others)

    @property
    def empties_source(self) -> bool:
        """Whether objects are taken out of the landing zone, and their rows stay."""
        return self.owns_source or self.after_load not in ("keep", "tag")

    @property
    def selects_rows(self) -> bool:
        """Whether an object may have rows of several partitions, which a column of the rows distinguishes."""
        return any(column.in_rows for column in self.columns)

    def partition(self, text: str) -> Partition:
        """Return the partition that `region=NW,date=2026-02-11` names."""
        return Partition.parse(self.columns, text)

    def partition_at(self, path: str) -> Partition | None:
        """Return the partition that the ledger writes as `region=NW/date=2026-02-11`.

        None for a path with other columns, which the stream may have had earlier, or with decomposed letters.
        """
        try:
            partition = Partition.at(self.columns, path)
        except PartitionError:
            return None
        return partition if partition.path == path else None

    def by_partition(self, by_path: Mapping[str, Value]) -> dict[Partition, Value]:
        """Return the values by partition instead of by path, without those of earlier partition columns."""
        partitions = ((self.partition_at(path), value) for path, value in by_path.items())
        return {partition: value for partition, value in partitions if partition is not None}
