"""Where a stream's objects are, and the columns that they have: nothing above knows which format they are of."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
from pyarrow import types as t

from lake_assets.base.errors import SchemaError, SourceChangedError, SourceError
from lake_assets.base.texts import visible_name
from lake_assets.config.formats import (
    PARQUET,
    AutoFormat,
    FileFormat,
    JsonFormat,
    LandedFormat,
    ParquetFormat,
    TextFormat,
    format_by_name,
)
from lake_assets.config.storages import AnyStorage
from lake_assets.schema.arrow_types import joined_columns, with_types_of, without_columns
from lake_assets.schema.column_rules import STRICT, ColumnVerdict, Rules
from lake_assets.schema.misfits import refuse_places, shared_columns, united_columns, wider_type
from lake_assets.schema.partition_values import AddedColumns, with_added_columns
from lake_assets.storage.formats.avro import LandedAvro
from lake_assets.storage.formats.csv_text import LandedCsv
from lake_assets.storage.formats.json_lines import LandedJson
from lake_assets.storage.formats.landed_rows import ExpectedObject, LandedRows
from lake_assets.storage.formats.orc import LandedOrc
from lake_assets.storage.formats.parquet_files import ParquetReader, opened_object, read_footer
from lake_assets.storage.overlapping import AT_ONCE, requested
from lake_assets.storage.store import Store

_READERS: Mapping[str, Callable[[pa.NativeFile, str, ExpectedObject], LandedRows]] = MappingProxyType(
    {"orc": LandedOrc, "avro": LandedAvro, "csv": LandedCsv, "json": LandedJson}
)
NO_COLUMNS = pa.schema([])
SAMPLE = 16  # objects that have types


@dataclass(frozen=True, slots=True)
class LandingZone:
    """The landing zone of a stream."""

    storage: AnyStorage
    form: LandedFormat = PARQUET
    added: AddedColumns | None = None
    rules: Rules = STRICT

    def form_of(self, key: str) -> FileFormat:
        """Return the format of one object."""
        if not isinstance(self.form, AutoFormat):
            return self.form
        if (form := format_by_name(key)) is None:
            raise SourceError(
                f"the name of {self.origin(key)} does not show its format:",
                "give it as the stream's format, or let the stream's files leave it out.",
            )
        return form

    def open(self, file: pa.NativeFile, key: str, table: pa.Schema, parquet: ParquetReader | None = None) -> LandedRows:
        """Open an object of any format.

        `table` has the columns as which a text is read, and aliases of Avro; none if there is no table.
        """
        form, origin = self.form_of(key), self.origin(key)
        if isinstance(form, ParquetFormat):
            return (parquet or ParquetReader()).open(file, origin)
        columns = self.added.without(table) if self.added else table
        columns = self.rules.known(columns) if len(columns) else columns
        expected = ExpectedObject(form, columns, self.rules.of_landed)
        return _READERS[form.type](file, origin, expected)

    def count_rows(self, key: str) -> int:
        """Return the number of rows of an object that tells it; errors are those of `footer`."""
        if isinstance(self.form, ParquetFormat):
            return read_footer(Store(self.storage), key)[0]
        rows, _ = self.footer(key)
        assert rows is not None  # noqa: S101 - see `counts_rows`
        return rows

    def footer(
        self, key: str, known: pa.Schema = NO_COLUMNS, *, as_it_is: bool = False
    ) -> tuple[int | None, pa.Schema]:
        """Return the number of rows of an object if it tells it, and its columns without those that are added.

        `known` has columns whose types are known, for a format that has none. With `as_it_is` the object becomes a lake
        file, so columns that DuckLake cannot read are refused.
        """
        store = Store(self.storage)
        origin, form = self.origin(key), self.form_of(key)
        rows: int | None
        if isinstance(form, ParquetFormat):
            rows, schema = read_footer(store, key, as_it_is=as_it_is)
        else:
            with opened_object(store, key, form.title) as file:
                landed = self.open(file, key, known)
            rows, schema = landed.count, landed.schema
        schema = self.rules.columns_of(schema, origin)
        if self.rules.is_landed:
            refuse_places(schema, known.names, origin)
        if not form.has_types:
            return rows, schema if len(known) else self.rules.read_as(schema)
        return rows, self.rules.with_wider_types(schema)

    def _counted(self, key: str, known: pa.Schema = NO_COLUMNS) -> tuple[int | None, pa.Schema]:
        rows, schema = self.footer(key, known)
        uri = Store(self.storage).uri(key)
        return rows, with_added_columns(schema, self.added.values(key, uri, schema)) if self.added else schema

    def schemas(self, keys: Sequence[str]) -> list[tuple[str, pa.Schema]]:
        """Return the columns of objects, with those that are added, and each object's name; they are read in parallel.

        An object without rows or columns is left out, unless all are such: what it says of them decides nothing.
        """
        facts = requested(self.storage, self._counted, keys)
        counted = [(key, rows, schema) for key, (rows, schema) in zip(keys, facts, strict=True)]
        filled = [(key, rows, schema) for key, rows, schema in counted if rows != 0 and len(schema)]
        return [(self.origin(key), schema) for key, _, schema in filled or counted]

    def sampled(self, keys: Sequence[str]) -> pa.Schema:
        """Return the columns that a table of these objects gets, by the first of them.

        With the policy `evolve` they are those of any object, else those of the first one, in types that hold the
        values of all. A field that an object of JSON lacks is NULL, so there they are those of any object, too.
        """
        count = self.form.sample if isinstance(self.form, TextFormat) else SAMPLE
        return self.of_all(self.schemas(keys[:count]))

    def of_all(self, schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
        """Return the columns that a table of objects with these schemas gets, as `sampled`."""
        (_, first), *others = schemas
        if not others:
            return first
        try:
            columns = united_columns(schemas) if self.form.has_types else _generalized(schemas)
        except SchemaError:
            return first  # the others are refused by their names, or put into quarantine
        if self.rules.grows or isinstance(self.form, JsonFormat):
            return columns
        return pa.schema([columns.field(columns.get_field_index(name)) for name in first.names])

    def inputs(self, keys: Sequence[str], by_path: Collection[str]) -> pa.Schema:
        """Return the columns that a transform reads of objects: of the first one, of any if the table grows, or of all.

        `by_path` are partition columns, which are left out.
        """
        if not (self.rules.grows or (self.form.has_types and self.rules.unknown is ColumnVerdict.LEAVE_OUT)):
            first = self.schemas(keys[:SAMPLE])[0][1] if self.form.has_types else self.sampled(keys)
            return without_columns(with_types_of(first, self.later(keys)), by_path)
        schemas = [(origin, without_columns(schema, by_path)) for origin, schema in self.schemas(keys)]
        if not self.rules.grows:
            return shared_columns(schemas)
        return united_columns(schemas) if self.form.has_types else _generalized(schemas)

    def later(self, keys: Sequence[str]) -> Iterator[pa.Schema]:
        """Yield the columns of the objects behind the first one, which are read in parallel, some at a time."""
        for start in range(1, len(keys), AT_ONCE):
            yield from (schema for _, schema in self.schemas(keys[start : start + AT_ONCE]))

    def unreadable(self, keys: Sequence[str], known: pa.Schema = NO_COLUMNS) -> dict[str, str]:
        """Return why the columns of objects cannot be read, by key; they are read in parallel."""

        def reason(key: str) -> str | None:
            try:
                self._counted(key, known)
            except SourceChangedError:
                raise
            except SourceError as error:
                return str(error)
            return None

        reasons = zip(keys, requested(self.storage, reason, keys), strict=True)
        return {key: text for key, text in reasons if text is not None}

    def origin(self, key: str) -> str:
        """Return the name of an object for errors."""
        return f"the object {visible_name(Store(self.storage).uri(key))}"


def _generalized(schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """Return the columns of all texts, each with the first type that holds the values of all of them.

    Whole numbers and others are doubles, dates and timestamps are timestamps, and what differs else are strings. Each
    schema has its origin.
    """
    columns = NO_COLUMNS
    for _, schema in schemas:
        columns = joined_columns(columns, schema, _general, lambda *_: True)
    return columns


def _general(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the first type that holds the values of both, which are not nested alike."""
    kinds = (kind, other)
    if (widest := wider_type(kind, other)) is not None:
        return widest
    if all(t.is_integer(number) or t.is_floating(number) for number in kinds):
        return pa.float64()
    if all(t.is_date(time) or (t.is_timestamp(time) and time.tz is None) for time in kinds):
        return pa.timestamp("us")
    return pa.string()
