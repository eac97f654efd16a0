"""The footers of landed objects that an ingest would read: their rows and columns, without the ingest."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import types as t

from lake_assets.base.errors import LakeAssetsError, SchemaDriftError, SourceError
from lake_assets.base.events import counted
from lake_assets.base.texts import visible_name
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.index.register import Registrar
from lake_assets.lake.commit.candidates import Candidate
from lake_assets.lake.session import LakeSession
from lake_assets.lake.table_setup import column_changes, created_schema, data_schema, is_never_filled, rules_of_table
from lake_assets.schema.arrow_types import with_null_parts
from lake_assets.schema.column_rules import STRICT, Rules
from lake_assets.schema.ducklake_types import sql_type
from lake_assets.schema.fitter import Fitter, Target
from lake_assets.schema.partition_values import with_added_columns
from lake_assets.storage.formats.any_format import SAMPLE
from lake_assets.storage.manifest import Manifest
from lake_assets.storage.overlapping import requested
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream, list_landed

MOST = 1_000  # objects of a partition whose footers are read


class Footers:
    """The footers of several partitions' objects, read in parallel, each once.

    None is read of a partition with more than `MOST` objects, and none for a stream with a transform, whose rows and
    columns the footers do not tell.
    """

    def __init__(self, stream: OpenStream, reads: Iterable[Manifest], known: pa.Schema) -> None:
        self.stream = stream
        self._store = Store(stream.config.source)
        self._known = known  # the columns of the table, if there is one, for formats that have no types
        few = [manifest.read for manifest in reads if len(manifest.read) <= MOST]
        keys = [] if stream.config.transform is not None else [landed.key for read in few for landed in read]
        footers = requested(self._store.storage, self._read, keys)
        self._by_key = dict(zip(keys, counted(footers, f"read {stream.name}", "footers", len(keys)), strict=True))

    def rows(self, reads: Manifest) -> int | str:
        """Return the number of rows of a partition's objects, or a clause: why the footers do not tell it."""
        if not reads.read:
            return 0
        if self.stream.config.transform is not None:
            return "the stream has a transform"
        if self.stream.config.selects_rows:
            return "a partition column is in the rows"
        if len(reads.read) > MOST:
            return f"there are more than {MOST:,} objects"
        try:
            rows = [self._footer(landed.key)[0] for landed in reads.read]
            return "the objects have to be read for it" if None in rows else sum(filter(None, rows))
        except LakeAssetsError as error:
            return _clause(error)

    def schemas(self, reads: Manifest) -> list[tuple[str, pa.Schema]]:
        """Return the Arrow schemas of a partition's objects, with their paths' columns, each with the object's name.

        An object without rows is left out: what it says of them decides nothing.
        """
        filled = [landed for landed in reads.read if self._footer(landed.key)[0] != 0]
        return [(f"the object {visible_name(landed.uri)}", self._schema(landed.key)) for landed in filled]

    def _schema(self, key: str) -> pa.Schema:
        _, schema = self._footer(key)
        added = self.stream.landed.added
        return with_added_columns(schema, added.values(key, self._store.uri(key), schema)) if added else schema

    def _footer(self, key: str) -> tuple[int | None, pa.Schema]:
        footer = self._by_key[key]
        if isinstance(footer, LakeAssetsError):
            raise footer
        return footer

    def _read(self, key: str) -> tuple[int | None, pa.Schema] | LakeAssetsError:
        try:
            return self.stream.landed.footer(key, self._known, as_it_is=self.stream.config.mode.registers)
        except LakeAssetsError as error:
            return error


@dataclass
class PlannedColumns:
    """The columns of a table, and what the landed objects would change."""

    stream: OpenStream
    footers: Footers
    table: pa.Schema | None = None
    made: pa.Schema | None = None  # without a table, as the first objects that have types make it
    refused: Mapping[str, LakeAssetsError] = field(default_factory=dict)  # in mode index, by the object's URI
    rules: Rules = STRICT

    @classmethod
    def of(
        cls, lake: LakeSession | None, footers: Footers, new: Sequence[Candidate], table: pa.Schema | None
    ) -> "PlannedColumns":
        """Return the columns of the table, and in mode index what it refuses.

        `new` are the objects that the ingest reads, which mode index inspects as its run does; `table` is as
        `OpenStream.table_columns`.
        """
        stream = footers.stream
        if stream.config.mode.registers:
            refused = Registrar(stream, {}, {}).refusals(lake, new) if new else {}
            return cls(stream, footers, table, refused=refused)
        rules = stream.landed.rules
        if lake is None or table is None:
            return cls(stream, footers, rules=rules.of_first)
        return cls(stream, footers, table, rules=rules_of_table(lake, stream.table, rules))

    def refusals(self, partition: Partition, reads: Manifest) -> tuple[str, ...]:
        """Return why the ingest would refuse objects that the partition reads; quarantine leaves them out."""
        if self.stream.config.mode.registers:
            return tuple(_clause(self.refused[obj.uri]) for obj in reads.objects if obj.uri in self.refused)
        return () if self.stream.config.on_bad_object == "quarantine" else self._refusals(partition, reads)

    def misfits(self, partition: Partition, reads: Manifest) -> dict[str, str]:
        """Return why quarantine would leave out objects that the partition reads, by key, as their footers tell it."""
        if self.stream.config.on_bad_object == "fail" or len(reads.read) > MOST:
            return {}
        with suppress(LakeAssetsError):  # of an object that is left out
            self._make(reads)
        texts = {landed.key: self._refusals(partition, Manifest((landed,))) for landed in reads.read}
        return {key: refusals[0] for key, refusals in texts.items() if refusals}

    def _refusals(self, partition: Partition, reads: Manifest) -> tuple[str, ...]:
        config = self.stream.config
        if config.transform is not None or len(reads.read) > MOST:
            return ()
        try:
            landed = self._make(reads)
            if (table := self._with_file_columns) is not None:
                self.rules.evolved(table, landed, config.partition_columns)
        except LakeAssetsError as error:
            return (_clause(error),)
        return tuple(text for origin, schema in landed if (text := self._misfit(partition, origin, schema)))

    def _make(self, reads: Manifest) -> list[tuple[str, pa.Schema]]:
        """Return the columns of objects, of which the first ones make the table if there is none, as `Writer` does."""
        own, landed = self.stream.landed, self.footers.schemas(reads)
        if landed and self.table is None and self.made is None and own.form.has_types:
            columns = own.rules.created(own.of_all(landed[:SAMPLE]), (schema for _, schema in landed), landed[0][0])
            made = created_schema(self.stream.partitioned_table, columns, landed[0][0])
            self.made = with_null_parts(made, columns)
        return landed

    @property
    def _with_file_columns(self) -> pa.Schema | None:
        """The columns of the table, with the file_columns that the run adds to it before it writes."""
        table, added = self.table or self.made, self.stream.landed.added
        return table if table is None or added is None else pa.schema([*table, *added.lacking(table)])

    def _misfit(self, partition: Partition, origin: str, schema: pa.Schema) -> str:
        """Return why an object does not fit the table; empty if it does, or the table would change."""
        table = self._with_file_columns
        if table is None:
            return ""
        try:
            Fitter(schema, Target(table, self.rules), partition, origin)
        except SchemaDriftError:
            return ""
        except LakeAssetsError as error:
            return _clause(error)
        return ""

    def changes(self, reads: Manifest) -> tuple[str, ...]:
        """Return what the objects that the partition reads would change."""
        table, config = self._with_file_columns, self.stream.config
        if len(reads.read) > MOST:
            return ()
        try:
            if self.table is None or table is None:
                return self._inferred(reads)
            landed = self.footers.schemas(reads)
            after = self.rules.evolved(table, landed, config.partition_columns)
        except LakeAssetsError as error:  # of an object that is left out
            return (_clause(error),)
        return tuple(map(str, column_changes(self.table, after)))

    def _inferred(self, reads: Manifest) -> tuple[str, ...]:
        """Return the columns that a new table would get, if their types are inferred."""
        landed, config = self.stream.landed, self.stream.config
        if landed.form.has_types or config.transform is not None or not (schemas := self.footers.schemas(reads)):
            return ()
        created = landed.rules.created(landed.of_all(schemas))
        columns = pa.schema([f for f in created if f.name not in config.partitions])
        return tuple(map(str, column_changes(pa.schema([]), columns)))


def inferred_columns(stream: OpenStream) -> Mapping[str, Mapping[str, Any]]:
    """Return the config's value of `columns` with each column of the table, and with what the config says of it now.

    They are those of the table, or, if it has never had rows, those that the objects of the landing zone would give
    it. A column without a value in any object has no type.
    """
    config, landed, schema = stream.config, stream.landed, None
    with stream.lake.open_if_exists() as lake:
        if lake is not None and lake.exists(stream.table) and not is_never_filled(lake, stream.table):
            schema = data_schema(lake, stream.partitioned_table)
    if schema is None:
        keys = [obj.key for manifest in list_landed(stream)[0].values() for obj in manifest.read]
        if not keys:
            raise SourceError(
                f"nothing has landed in {stream.layout_uri}:", "land an object, or correct the stream's source."
            )
        schema = landed.rules.created(landed.sampled(keys))
    declared = {name.lower(): column for name, column in config.declared.items()}
    others = (*config.partitions, *config.path_columns, *config.file_columns, *filter(None, [config.rescue]))
    decided = {name.lower() for name in others}
    columns: dict[str, dict[str, Any]] = {}
    for column in schema:
        if column.name.lower() in decided:
            continue
        own = declared.get(column.name.lower())
        written = {} if own is None else own.model_dump(by_alias=True, exclude={"type"}, exclude_defaults=True)
        columns[column.name] = (
            {} if t.is_null(column.type) else {"type": sql_type(column.type, column.name)}
        ) | written
    rest = {name: column for name, column in config.declared.items() if column.omit or name.lower() in decided}
    return columns | {name: column.model_dump(by_alias=True, exclude_defaults=True) for name, column in rest.items()}


def _clause(error: LakeAssetsError) -> str:
    return str(error).rstrip(".")
