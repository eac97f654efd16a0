"""An open stream: its config with its lake, its store, its layout, and its landing zone as it is now."""

import datetime as dt
import json
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from types import MappingProxyType
from typing import Self

import pyarrow as pa

from lake_assets.base.errors import CatalogError, HiddenError, LakeAssetsError
from lake_assets.base.events import counted, counting
from lake_assets.config.formats import PARQUET
from lake_assets.config.lake import Lake
from lake_assets.config.layout.hive import LOGS
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.layout.template import Template
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import Spark
from lake_assets.config.streams import StreamConfig
from lake_assets.lake.backends import catalog_backend
from lake_assets.lake.catalog.table import row_states
from lake_assets.lake.commit.deltas import Export, table_tag
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger import object_history
from lake_assets.lake.ledger.ledger_relation import LedgerScope
from lake_assets.lake.session import LakeSession, PartitionedTable, TableName
from lake_assets.lake.table_setup import declared_schema, is_never_filled, untyped_schema
from lake_assets.schema.column_rules import Rules
from lake_assets.schema.partition_values import AddedColumns
from lake_assets.spark.task.job import CopyRules, LetterFile, LetterRules
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.storage.overlapping import requested
from lake_assets.storage.store import Store
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.left_out import LeftOut, LeftOutObject, refuse_tables
from lake_assets.streams.locator import PartitionLocator, folder_prefixes
from lake_assets.streams.row_values import Holdings, RowValues

AUTO_BATCH = 50  # partitions of a commit; more save little, and an interrupted run loses those of one
Listed = Mapping[str, tuple[LandedObject, ...]]
"""Objects of the landing zone by the prefix below which they are."""

_NONE: Listed = MappingProxyType({})
LETTERS_FOLDER = "_dead_letters"  # folder in the landing zone; listings leave out such names


@dataclass(frozen=True)
class OpenStream:
    """A stream with everything that an ingest of a partition needs."""

    name: str
    config: StreamConfig
    lake: DuckLake
    source: Store
    spark: Spark = field(default_factory=Spark)
    key_prefix: tuple[str, ...] = ()  # before the asset keys in Dagster
    lake_name: str = ""  # in the config
    companions: "tuple[OpenStream, ...]" = ()  # that are released together with this one

    @classmethod
    def of(cls, config: LakeConfig, name: str, lake: DuckLake) -> Self:
        """Open a stream that the config has, on its lake."""
        companions = tuple(OpenStream._alone(config, other, lake) for other in config.released_with(name))
        return replace(cls._alone(config, name, lake), companions=companions)

    @classmethod
    def _alone(cls, config: LakeConfig, name: str, lake: DuckLake) -> Self:
        stream = config.streams[name]
        prefix = config.key_prefix if stream.key_prefix is None else stream.key_prefix
        return cls(name, stream, lake, Store(stream.source), config.spark, prefix, config.lake_name(name))

    @property
    def names(self) -> tuple[str, ...]:
        """Its name, and those that it had before: rows of ledger and manifest with any of them are its own."""
        return (self.name, *self.config.previously)

    @cached_property
    def layout(self) -> Template:
        """The path template of partitions in the landing zone."""
        return self.config.template

    @cached_property
    def _locator(self) -> PartitionLocator:
        return PartitionLocator(self.config)

    @cached_property
    def _holdings(self) -> Holdings:
        return Holdings(self.config)

    @cached_property
    def row_values(self) -> RowValues:
        """Finds the values, in rows, of partition columns for which the config has none."""
        return RowValues(self.config, self.landed, self._holdings)

    @property
    def table(self) -> TableName:
        """The destination table."""
        return TableName(
            self.config.destination.schema_name, self.config.destination.table, catalog_backend(self.lake_config).alias
        )

    @property
    def partitioned_table(self) -> PartitionedTable:
        """The destination table, with its partition columns."""
        return PartitionedTable(self.table, self.config.partition_columns)

    def ledger_scope(self, partitions: Iterable[Partition] | None = None) -> LedgerScope:
        """Return what ledger and manifests have of some partitions, or of all."""
        paths = None if partitions is None else [partition.path for partition in partitions]
        return LedgerScope(self.table, paths, self.names)

    @property
    def lake_config(self) -> Lake:
        """The lake's part of the config."""
        return self.lake.config

    @property
    def commit_batch(self) -> int:
        """The most partitions that a run commits together."""
        if self.config.commit_batch != "auto":
            return self.config.commit_batch
        return 1 if self.lake_config.inserts_only else AUTO_BATCH

    @property
    def export(self) -> Export | None:
        """Where its commits export their changes; None if they do not."""
        deltas = self.config.deltas
        return None if deltas is None else Export(deltas, self.config.target_file_size, self.names)

    @cached_property
    def landed(self) -> LandingZone:
        """The landing zone, and how its objects are read."""
        config = self.config
        of_path = tuple(PartitionColumn(name, column.type, exact=True) for name, column in config.path_columns.items())
        has_added = of_path or config.file_columns or config.rescue
        added = AddedColumns(self.layout, of_path, config.file_columns, config.rescue) if has_added else None
        return LandingZone(config.source, config.format, added, Rules.of(config))

    @property
    def copy_rules(self) -> CopyRules | None:
        """The rules by which landed objects become data files as they are; None if the job encodes all rows.

        They do if rows are transformed, selected, extended or compared one by one, if the lake takes rows by INSERT
        only, and if a web server has the objects, whose versions it does not compare.
        """
        config = self.config
        encodes = self.landed.added or self.landed.rules.adapts
        is_other = not config.format.is_of_lakes
        is_web = not config.source.is_listable
        if config.copying == "never" or encodes or is_other or self.lake_config.inserts_only or is_web:
            return None
        is_sized = config.copying != "always"
        return CopyRules(
            codec=config.compression if config.copying == "auto" else None,
            least=config.target_file_size // 4 if is_sized else 0,
            most=2 * config.target_file_size if is_sized else sys.maxsize,
            reads_pages=config.verify == "pages",
            may_link=config.immutable_source,
        )

    @property
    def letters(self) -> LetterRules | None:
        """Where rows go that are left out one by one; None if they fail their partition."""
        if not self.landed.rules.splits:
            return None
        tag = table_tag(self.lake_config, self.table)
        if self.config.dead_letters is not None:
            return LetterRules(self.config.dead_letters.to, f"{self.name}/", tag)
        return LetterRules(self.config.source, f"{LETTERS_FOLDER}/{self.name}/", tag)

    def quarantined(
        self, lake: LakeSession | None, partitions: Collection[Partition] | None = None
    ) -> dict[Partition, dict[str, str]]:
        """Return why the newest commits left objects out, by their URIs; see `quarantined_objects`."""
        if lake is None or self.config.on_bad_object == "fail":
            return {}
        adds = self.config.mode.reads_new
        by_path = object_history.quarantined_objects(lake, self.ledger_scope(partitions), adds=adds)
        root = f"{self.source.root}/"  # that of the URI which an older version has noted
        objects = {
            path: {self.source.uri(k.removeprefix(root)): why for k, why in o.items()} for path, o in by_path.items()
        }
        return self.config.by_partition(objects)

    def dead_letters(
        self, lake: LakeSession | None, partitions: Collection[Partition] | None = None, at: int | None = None
    ) -> dict[Partition, list[LetterFile]]:
        """Return the files of rows that the lake does not have, in the state of a snapshot (`at`); now when None.

        The other arguments and the errors are as of `quarantined`.
        """
        if lake is None or self.letters is None:
            return {}
        by_path = object_history.dead_letters(lake, self.ledger_scope(partitions), at)
        return self.config.by_partition(by_path)

    @property
    def letters_uri(self) -> str | None:
        """The folder of these rows, ending in a slash; None if they fail their partition."""
        return None if self.letters is None else f"{self.letters.storage.root}/{self.letters.folder}"

    def table_columns(self, lake: LakeSession | None) -> pa.Schema | None:
        """Return the columns of the table's files, with the type null for what has never had a value.

        None if there is no table yet, or a transform makes its columns. Raises SchemaError if the table has other
        columns than the config.
        """
        if lake is None or not lake.exists(self.table) or is_never_filled(lake, self.table):
            return None
        rules = self.landed.rules
        schema = declared_schema(lake, self.partitioned_table, rules)
        return None if self.config.transform else untyped_schema(lake, self.table, schema, rules.types)

    def prefix(self, partition: Partition) -> str:
        """Return the folder of the partition's objects, or their names' beginning, below the landing zone's root."""
        return self.layout.prefix(partition.path_part.texts())

    def source_glob(self, partition: Partition) -> str:
        """Return the objects of the partition, as a glob."""
        if self.layout.file_parts:
            return self.source.uri(self.layout.glob(partition.path_part.texts()))
        return self.source.uri(self.prefix(partition) + self.config.files.lstrip("/"))

    @property
    def layout_uri(self) -> str:
        """The landing zone with the placeholders of its layout."""
        return self.source.uri(self.layout.text.strip("/"))  # a layout may begin with a slash, as OLake's do

    @property
    def files_uri(self) -> str:
        """The landing zone with the placeholders of its layout and the pattern of the files."""
        return self.layout_uri if self.layout.file_parts else f"{self.layout_uri}/{self.config.files.lstrip('/')}"

    def destination_folder(self, partition: Partition) -> str:
        """Return the folder of the partition's data files below the lake's root, in Hive's form, ending in a slash."""
        folders = [f"{name}={_not_null(text)}" for name, text in partition.texts().items()]
        return "/".join([self.table.schema, self.table.table, *folders, ""])

    @property
    def table_uri(self) -> str:
        """The table's folder in the lake's storage, ending in a slash; its name if MotherDuck manages the lake."""
        if self.lake_config.is_managed:
            return f"md:{self.table.lake}.{self.table}"
        return f"{self.lake_config.own_storage.root}/{self.table.schema}/{self.table.table}/"

    def destination_uri(self, partition: Partition) -> str:
        """Return the URI of the folder of the partition's new data files; the table's if DuckLake writes them."""
        if self.lake_config.inserts_only:
            return self.table_uri
        return f"{self.lake_config.own_storage.root}/{self.destination_folder(partition)}"

    def manifest(self, partition: Partition, listed: Listed = _NONE) -> Manifest:
        """List the partition's objects, by its prefix only."""
        return self.holding(self.landed_at(partition, listed), [partition])[partition]

    def holding(self, landed: Manifest, partitions: Sequence[Partition]) -> dict[Partition, Manifest]:
        """Return which objects of a path part each of its partitions has: all, or those that may hold its rows."""
        if not self.config.selects_rows or not landed.objects:
            return dict.fromkeys(partitions, landed)
        return self._holdings.of(landed, partitions)

    def listed_together(self, partitions: Iterable[Partition]) -> Listed:
        """List prefixes of partitions that are neighbours in a bucket by a few requests, for `landed_at`."""
        self.look()
        return self.source.together({prefix for partition in partitions for prefix in self.prefixes(partition)})

    def landed_at(self, partition: Partition, listed: Listed = _NONE) -> Manifest:
        """List the objects of the partition's `Partition.path_part`, unless `listed` has them.

        A table of another format is refused; see `refuse_tables`.
        """
        # In the order of keys, as in a listing of the whole landing zone. One prefix may be within another.
        by_key = {obj.key: obj for p in self.prefixes(partition) for obj in self._listed(p, listed)}
        locations = [(by_key[key], self._locator.find(key)) for key in sorted(by_key)]
        # If the layout has more columns than the partition, the prefix holds other partitions too.
        read = tuple(
            obj for obj, location in locations if location == partition.path_part and not self.source.is_marker(obj)
        )
        others = [obj.key for obj, location in locations if not isinstance(location, Partition)]
        if self.source.storage.is_local:  # in a bucket it would be more requests
            others += [obj.key for log in LOGS for obj in self.source.all(log, hides=self.layout.hides)]
        refuse_tables(self.source.root, [obj.key for obj in read], others)
        return Manifest(read)

    def left_out_of(self, partition: Partition) -> Iterator[tuple[LandedObject, LakeAssetsError]]:
        """Yield the objects in the partition's folders that no refresh reads, but hidden ones, each with the reason."""
        for landed in (obj for prefix in self.prefixes(partition) for obj in self._listed(prefix)):
            location = self._locator.find(landed.key)
            if not isinstance(location, Partition | HiddenError):
                yield landed, location

    def prefixes(self, partition: Partition) -> list[str]:
        """Return the prefixes of the partition's objects, below the landing zone's root; see `folder_prefixes`."""
        return folder_prefixes(self.layout, partition.path_part)

    def _listed(self, prefix: str, listed: Listed = _NONE) -> tuple[LandedObject, ...]:
        if prefix in listed:
            return listed[prefix]
        if self.source.is_listable:
            return self.source.all(prefix, hides=self.layout.hides)
        return self.source.list(prefix, "" if self.layout.file_parts else self.config.files)

    def without_empty(self, manifest: Manifest) -> Manifest:
        """Return the manifest that leaves out objects without bytes, if the stream quarantines bad objects.

        If no object would be left, and a partition without rows fails, the manifest is unchanged; in mode append the
        partition may have rows of other objects.
        """
        if self.config.on_bad_object == "fail" or not self.config.format.has_types:
            return manifest
        others = manifest.without_empty()
        may_be_left = self.config.on_empty != "fail" or self.config.mode.reads_new
        return others if others.read or may_be_left else manifest

    def joined(self, names: Iterable[str] | None = None) -> dict[str, TableName]:
        """Return the tables of the lake that the transform reads, or those of these names, by their names in it."""
        transform, alias = self.config.transform, self.table.lake
        wanted = (transform.tables if transform else ()) if names is None else names
        parts = (name.rpartition(".") for name in wanted)
        return {table: TableName(schema or "main", table, alias) for schema, _, table in parts}

    def refuse_missing(self, lake: LakeSession | None) -> None:
        """Raise CatalogError if the lake lacks a table that the transform reads."""
        for table in self.joined().values():
            if lake is None or not lake.exists(table):
                raise CatalogError(
                    f"the transform of {self.name} reads {table}, which the lake does not have:",
                    "load that table first, or correct transform.tables.",
                )

    def look(self) -> None:
        """Learn the state of the tables on which the transform refreshes. Each listing begins with it."""
        transform = self.config.transform
        if transform is not None and transform.refresh_on:
            with self.lake.open_if_exists() as lake:
                tables = list(self.joined(transform.refresh_on).values())
                self._looked.append(json.dumps({} if lake is None else row_states(lake, tables), sort_keys=True))

    @cached_property
    def _looked(self) -> "deque[str]":
        return deque(maxlen=1)

    @property
    def joined_state(self) -> str:
        """What the last listing has learnt of the tables on which the transform refreshes."""
        if not self._looked:
            self.look()
        return self._looked[0] if self._looked else ""

    @property
    def _job(self) -> str:
        """What decides, besides the objects, which rows they become."""
        state = self.joined_state
        return f"{self._own_job}\n{state}" if state else self._own_job

    @cached_property
    def _own_job(self) -> str:
        transform = self.config.transform
        job = [json.dumps(transform.job if transform else None, sort_keys=True)]
        if self.config.format != PARQUET:
            job.append(self.config.format.model_dump_json())
        if self.config.mode.reads_new:
            job.append(self.config.mode.value)  # its rows may differ from those of a replacement by the same objects
        if self.config.path_columns:
            columns = self.config.path_columns.items()
            job.append(json.dumps({n: [c.type, c.source] if c.source else c.type for n, c in columns}))
        if declared := {name: rules for name, column in self.config.declared.items() if (rules := column.rules)}:
            job.append(json.dumps(declared))
        if self.config.file_columns:
            job.append(json.dumps({"file_columns": self.config.file_columns}))
        if self.config.rescue:
            job.append(json.dumps({"rescue": self.config.rescue}))
        return "\n".join(job)

    def fingerprint(self, manifest: Manifest, *, is_old: bool = False) -> str:
        """Return the fingerprint of these objects and of the stream's job; see `Manifest.fingerprint`."""
        return manifest.fingerprint(self._job, is_old=is_old)

    def has_read(self, manifest: Manifest, fingerprint: str | None) -> bool:
        """Return whether a fingerprint is that of these objects, also if an older version of this package made it."""
        return fingerprint is not None and (
            fingerprint == self.fingerprint(manifest) or fingerprint == self.fingerprint(manifest, is_old=True)
        )


def _not_null(text: str) -> str:
    """Return the value in a folder's name, escaped if DuckDB would read it as NULL: `region=null`, in any case."""
    return f"%{ord(text[0]):02X}{text[1:]}" if text.lower() == "null" else text


def open_streams(config: LakeConfig) -> Mapping[str, OpenStream]:
    """Open all streams of a config. Streams of one lake share its engine. Nothing is connected yet."""
    lakes = {name: DuckLake(lake) for name, lake in config.lakes.items()}
    return {name: OpenStream.of(config, name, lakes[config.lake_name(name)]) for name in config.streams}


def list_landed(
    stream: OpenStream, known: Iterable[Partition] = (), now: dt.datetime | None = None
) -> tuple[dict[Partition, Manifest], LeftOut]:
    """List the whole landing zone: its objects by partition, as `OpenStream.manifest` has them, and those left out.

    Objects of a partition outside the config are in both: by their partition, and left out.

    A web server cannot be listed, so it gets a request for each partition that the config expects. If a partition
    column is in the rows, the path does not have it: of the partitions that the config expects by `now`, and of the
    `known` ones, each then has the objects of its `Partition.path_part` that may hold its rows, by the statistics in
    their footers; the manifest is empty if that has none of them, but others. A table of another format is refused; see
    `refuse_tables`.
    """
    stream.look()
    calendar, known = Calendar(stream.config, now), tuple(known)
    if not stream.source.is_listable:
        wanted = dict.fromkeys([*calendar.expected(known), *known])
        listed = list_landed_in(stream, wanted).items()
        landed = {p: manifest for p, manifest in listed if manifest.objects or manifest.folder}
        return landed, LeftOut(listed=sum(len(manifest.objects) for manifest in landed.values()))
    with counting(f"list {stream.name}", "objects") as count_of:
        objects = stream.source.all(listed=count_of.advance, hides=stream.layout.hides)
    by_path_part, left_out = _by_path_part(stream, objects, calendar)
    if not stream.config.selects_rows:  # a path part is a partition
        return by_path_part, left_out
    sharing = {path_part: list(_partitions_at(stream, path_part, calendar, m)) for path_part, m in by_path_part.items()}
    for partition in known:
        if partition.path_part in sharing:
            sharing[partition.path_part].append(partition)
    held = (stream.holding(manifest, sharing[path_part]) for path_part, manifest in by_path_part.items())
    return {p: manifest for of_path_part in held for p, manifest in of_path_part.items()}, left_out


def list_landed_in(stream: OpenStream, partitions: Iterable[Partition]) -> dict[Partition, Manifest]:
    """Return the objects of some partitions, as `OpenStream.manifest`; each `Partition.path_part` is listed once."""
    wanted = list(partitions)
    path_parts: dict[Partition, list[Partition]] = {}
    for partition in wanted:
        path_parts.setdefault(partition.path_part, []).append(partition)
    landed_at = partial(stream.landed_at, listed=stream.listed_together(path_parts))
    listings = requested(stream.source.storage, landed_at, path_parts)
    manifests = dict(
        zip(path_parts, counted(listings, f"list {stream.name}", "prefixes", len(path_parts)), strict=True)
    )
    held = [stream.holding(manifests[path_part], sharing) for path_part, sharing in path_parts.items()]
    landed = {partition: manifest for of_path_part in held for partition, manifest in of_path_part.items()}
    return {partition: landed[partition] for partition in wanted}


def list_scope(
    stream: OpenStream, partitions: Iterable[Partition] | None
) -> tuple[dict[Partition, Manifest], LeftOut | None]:
    """List the objects of some partitions, by `list_landed_in`; when None, all, as `list_landed` returns them."""
    return list_landed(stream) if partitions is None else (list_landed_in(stream, partitions), None)


def _by_path_part(
    stream: OpenStream, objects: Sequence[LandedObject], calendar: Calendar
) -> tuple[dict[Partition, Manifest], LeftOut]:
    """Return the objects of a listing by the path part of their partition, and those that no refresh reads."""
    by_path_part: dict[Partition, list[LandedObject]] = {}
    left_out = []
    locator = PartitionLocator(stream.config)
    for landed in objects:
        path_part = locator.find(landed.key)
        if isinstance(path_part, Partition):
            if stream.source.is_marker(landed):
                continue
            by_path_part.setdefault(path_part, []).append(landed)
        why = calendar.outside(path_part) if isinstance(path_part, Partition) else path_part
        if why is not None:
            left_out.append(LeftOutObject(landed, why))
    read = (landed.key for of_path_part in by_path_part.values() for landed in of_path_part)
    refuse_tables(stream.source.root, read, (other.key for other in left_out))
    landed_at = {path_part: Manifest(tuple(landed)) for path_part, landed in by_path_part.items()}
    return landed_at, LeftOut(tuple(left_out), len(objects))


def _partitions_at(
    stream: OpenStream, path_part: Partition, calendar: Calendar, landed: Manifest
) -> Iterator[Partition]:
    """Return the partitions that share a path part, given its objects."""
    columns = stream.config.partition_columns
    known = {column: [value] for column, value in zip(path_part.columns, path_part.values, strict=True)}
    known |= {column: list(values) for column, values in stream.row_values.of(landed).items()}
    values = [known[column] if column in known else calendar.values(column) for column in columns]
    return (Partition(columns, combination) for combination in product(*values))
