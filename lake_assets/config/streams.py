"""A stream: landed files, and how they become a table of the lake."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self, TypeVar

import pyarrow as pa
from pydantic import TypeAdapter, ValidationInfo, model_validator

from lake_assets.base.errors import LakeAssetsError, LayoutError, PartitionError
from lake_assets.config.automation import check_time_zone
from lake_assets.config.column_types import arrow_schema
from lake_assets.config.columns import column_problems, overridden
from lake_assets.config.contract import read_contract
from lake_assets.config.contradictions import contradictions
from lake_assets.config.fields import FolderPath
from lake_assets.config.formats import FormatOrName, LandedFormat
from lake_assets.config.layout.derived import check_time_type
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.config.partitions import (
    DIMENSIONS,
    PartitionField,
    missing_column,
    name_clash,
    path_misfit,
    stream_template,
)
from lake_assets.config.sections import Destination, Layout, LayoutOptions
from lake_assets.config.stream_fields import StreamFields
from lake_assets.config.uris import folder_globs, has_query, is_glob, split_glob

_Value = TypeVar("_Value")

_LAYOUT: TypeAdapter[LayoutOptions | None] = TypeAdapter(Layout | None)
_PARTITIONS = TypeAdapter(dict[str, PartitionField])
_FORMAT: TypeAdapter[LandedFormat] = TypeAdapter(FormatOrName)
_PATH: TypeAdapter[str] = TypeAdapter(FolderPath)
_DESTINATION = TypeAdapter(Destination)


class StreamConfig(StreamFields):
    """Landed files, and the table that they fill."""

    @model_validator(mode="before")
    @classmethod
    def _clock_of_the_layout(cls, data: object) -> object:
        """Return the keys with the layout's time zone as the stream's, if the stream has none."""
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
        """Return the keys with the contract's columns, checks and description; the stream's own count more.

        They take the contract's place, so that a config that is sent to another machine is whole.
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
        """Return the keys with the defaults that the format decides."""
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
        for column in self.partition_columns:
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
            taken.add(name.lower())
        return self

    @model_validator(mode="after")
    def _declared_columns_fit(self) -> Self:
        keys = ("partitions", "path_columns", "file_columns")
        decided_by = {name.lower(): key for key in keys for name in getattr(self, key)}
        decided_by |= {self.rescue.lower(): "rescue"} if self.rescue else {}
        sources = {derived.column.lower() for derived in self.derived}
        sources |= {column.name.lower() for column in self.partition_columns if column.in_rows}
        for problem in column_problems(self.declared, decided_by, sources):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        for problem in contradictions(self):
            raise ValueError(problem)
        if self.landing is not None and self.landing.columns is not None:
            schema = arrow_schema(self.landing.columns)
            if (text := self.records_misfit(schema)) is not None:
                raise ValueError(f"landing.columns: {' '.join(text).rstrip('.')}")
        return self

    def records_misfit(self, schema: pa.Schema) -> tuple[str, str] | None:
        """Return why records with these columns can never be landed, and how to fix it; None if they may."""
        return name_clash(self.template, self.partitions, schema) or path_misfit(self.template, self.path_typed, schema)

    def partition(self, text: str) -> Partition:
        """Return the partition that `region=NW,date=2026-02-11` names."""
        return Partition.parse(self.partition_columns, text)

    def partition_at(self, path: str) -> Partition | None:
        """Return the partition that the ledger writes as `region=NW/date=2026-02-11`.

        None for a path with other columns, which the stream may have had earlier, or with decomposed letters.
        """
        try:
            partition = Partition.at(self.partition_columns, path)
        except PartitionError:
            return None
        return partition if partition.path == path else None

    def by_partition(self, by_path: Mapping[str, _Value], known: Iterable[Partition] = ()) -> dict[Partition, _Value]:
        """Return the values by partition instead of by path, without those of earlier partition columns.

        The paths of `known` partitions are not parsed again.
        """
        at = {partition.path: partition for partition in known}
        partitions = ((at.get(path) or self.partition_at(path), value) for path, value in by_path.items())
        return {partition: value for partition, value in partitions if partition is not None}
