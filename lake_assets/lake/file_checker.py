"""Checks that every reader of the lake can read a landed file as it is, because a registered file is not rewritten."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
from pyarrow import types as t

from lake_assets.base.duckdb_engine import glob_literal, identifier
from lake_assets.base.errors import LakeAssetsError, SchemaError
from lake_assets.base.texts import visible_name
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.config.layout.template import Template
from lake_assets.lake.catalog.file_entries import Folders
from lake_assets.lake.catalog.file_facts import Chunk, Footer
from lake_assets.lake.failures import one_line, translated, without_statement
from lake_assets.lake.session import LakeSession
from lake_assets.schema.annotations import has_map
from lake_assets.schema.arrow_types import (
    data_file_schema,
    exceeded,
    has_limits,
    has_nanoseconds,
    is_text,
    leaf_types,
    shown_type,
)
from lake_assets.schema.ducklake_types import PARTITION_ARROW_TYPES, is_read_as
from lake_assets.schema.fitter import Fitter, Target
from lake_assets.schema.misfits import widens
from lake_assets.schema.partition_values import DerivedValue, derived_values, other_value
from lake_assets.spark.task.copying import unread_form
from lake_assets.storage.manifest import LandedObject

_CORRECT = "correct the value where it is written."
_ROWS = 131_072  # of a batch
_TOO_EARLY = "5877642-06-23 (BC)"  # a day that DuckDB writes and cannot read
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?")  # DuckDB writes others too

_FEW_YEARS = re.compile(r"(1[7-9]|2[01])\d\d-")  # of nanoseconds

SchemaOf = Callable[[LandedObject], pa.Schema]
"""Reads the Arrow schema of a landed object; raises SourceError."""


@dataclass(frozen=True, slots=True)
class ColumnPlaces:
    """Where readers find a file's partition columns."""

    inside: frozenset[str]  # columns that they read from the file, in lower case; the others are in its path
    folders: Folders  # those others whose folder has another name than the column
    ignored: frozenset[str]  # names in the file of columns that they read from the path nevertheless
    untyped: str | None = None  # a column without a type, which DuckLake's extension takes for another than the table's


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The partition columns of landed files."""

    columns: Sequence[PartitionColumn]
    layout: Template = field(default_factory=Template.root)  # the landing zone's


class FileChecker:
    """Checks the files of one table. Files of the same shape share the check of their columns.

    `target` has the table's other columns, and `schema_of` is called once for all files of a shape.
    """

    def __init__(self, session: LakeSession, keys: PartitionKeys, target: Target, schema_of: SchemaOf) -> None:
        self.session = session
        self._columns = keys.columns
        self._folder_names = {column.name: keys.layout.folder(column.name) for column in keys.columns}
        self._target = target
        self._rules = target.rules
        self._schema_of = schema_of
        self._schemas: dict[int, pa.Schema] = {}
        self._untyped: dict[int, str | None] = {}  # as of `ColumnPlaces`, by the shapes that were checked
        self._folders: dict[tuple[str, Partition], Folders] = {}

    def columns(self, landed: LandedObject) -> Sequence[str] | None:
        """Return the columns of a file that DuckDB does not read; None if Arrow does not read it either."""
        try:
            return list(self._schema_of(landed).names)
        except LakeAssetsError:
            return None

    def check(self, landed: LandedObject, partition: Partition, footer: Footer) -> ColumnPlaces:
        """Check a file; returns where readers find its partition columns.

        A SchemaError names a column, a day or a row's partition that does not fit; a file that cannot be read is a
        SourceError.
        """
        _check_count(landed, footer)
        if not footer.rows:  # it is not registered, and what it says of its columns decides nothing
            return ColumnPlaces(frozenset(), frozenset(), frozenset())
        _check_chunks(landed, footer)
        schema = self._schemas.get(footer.shape)
        if schema is None or _may_be_old(schema, footer):
            schema = self._schemas[footer.shape] = self._schema_of(landed)
        if footer.shape not in self._untyped:
            self._untyped[footer.shape] = self._check_columns(landed, partition, schema)
        self._check_times(landed, schema, footer)
        names = {name.lower(): name for name in schema.names}
        for name in (names[name] for name in sorted(self._rules.not_null & names.keys())):
            self._check_not_null(landed, name, footer)
        in_path = self._in_path(landed, partition)
        own = {(column.name.lower(), column.name) for column in self._columns}
        by_path = {name for name, _ in in_path & own}
        # Readers get these values from the catalog.
        folders = frozenset(pair for pair in in_path - own if pair[0] not in by_path and pair[0] not in names)
        inside = frozenset(name for name, _ in own) - by_path - {name for name, _ in folders}
        for column, value in zip(self._columns, partition.values, strict=True):
            name = names.get(column.name.lower())
            if column.name.lower() in inside:
                self._check_inside(landed, column, schema, name)
            text = None if value is None else str(value)
            if name is None or (name in footer.chunks and footer.is_always(name, text)):
                continue
            for batch in self._read(landed, name):
                if (wrong := other_value(batch.column(0), name, column, value)) is not None:
                    row, fix = wrong
                    raise SchemaError(
                        f"the object {landed.shown} has a row with {row}, and belongs to {partition}:", fix
                    )
        for made in derived_values(self._rules.derived, partition, names, f"the object {landed.shown}"):
            self._check_made(landed, made, schema, footer)
        ignored = frozenset(names[name] for name in by_path if name in names)
        return ColumnPlaces(inside, folders, ignored, self._untyped[footer.shape])

    def _check_columns(self, landed: LandedObject, partition: Partition, schema: pa.Schema) -> str | None:
        fitter = Fitter(schema, self._target, partition, f"the object {landed.shown}")
        as_stored, untyped = data_file_schema(schema), None
        for name, wanted in zip(fitter.columns, self._target.columns, strict=True):
            given = schema.field(name).type
            untyped = untyped if widens(as_stored.field(name).type, wanted.type) else name
            if not is_read_as(given, wanted.type):
                why = f"which DuckLake does not read as the table's {wanted.type}"
                if any(map(t.is_float32, leaf_types(given))):
                    why = (
                        f"and conditions on the table's {wanted.type} would miss rows of it, because DuckDB compares "
                        "it in single precision"
                    )
                raise SchemaError(
                    f"column {name!r} of the object {landed.shown} is {shown_type(given)}, {why}:",
                    "land it with the table's type, or use mode: replace, which rewrites it.",
                )
        return untyped

    def _check_not_null(self, landed: LandedObject, name: str, footer: Footer) -> None:
        is_proved = name in footer.chunks and all(chunk.nulls == 0 for chunk in footer.chunks[name])
        if is_proved or not footer.rows:
            return
        sql = f"SELECT 1 FROM read_parquet(?, hive_partitioning => false) WHERE {identifier(name)} IS NULL LIMIT 1"  # noqa: S608 - a quoted name
        if self.session.rows(sql, [glob_literal(landed.uri)]):
            raise SchemaError(
                f"column {name!r} of the object {landed.shown} has a row without a value, and the table has it NOT "
                "NULL:",
                "correct the row where it is written.",
            )

    def _in_path(self, landed: LandedObject, partition: Partition) -> Folders:
        """Return the partition columns with a folder in the path, under their own name or the layout's."""
        folder = landed.uri.rpartition("/")[0]
        if (folder, partition) not in self._folders:
            self._folders[folder, partition] = frozenset(
                (column.name.lower(), name)
                for column, value in zip(self._columns, partition.values, strict=True)
                for name in {column.name, self._folder_names[column.name] or column.name}
                if is_in_path(folder.split("/"), column, value, name)
            )
        return self._folders[folder, partition]

    def _check_inside(self, landed: LandedObject, column: PartitionColumn, schema: pa.Schema, name: str | None) -> None:
        if name is None:
            raise SchemaError(
                f"the partition column {column.name!r} of the object {landed.shown} is neither in the file nor in its "
                f"path, as a folder {column.name}=… that readers of the lake understand:",
                "land the column in the file too (landing: keep_path_columns: true), or use mode: replace.",
            )
        given, wanted = schema.field(name).type, PARTITION_ARROW_TYPES[column.type]
        if not (widens(given, wanted) and is_read_as(given, wanted)):
            raise SchemaError(
                f"the partition column {name!r} of the object {landed.shown} is {given}, and the table's is {wanted}:",
                "land it with the table's type, or use mode: replace.",
            )

    def _check_made(self, landed: LandedObject, made: DerivedValue, schema: pa.Schema, footer: Footer) -> None:
        """Check that every row belongs to the file's partition, by the column that its value is derived from."""
        chunks = footer.chunks.get(made.name, ())
        kind = schema.field(made.name).type
        if chunks and all(made.is_proved(chunk.span, kind) for chunk in chunks):
            return
        for batch in self._read(landed, made.name):
            made.check(batch)

    def _check_times(self, landed: LandedObject, schema: pa.Schema, footer: Footer) -> None:
        """Check that DuckDB can hold all times and texts, which mostly the footer proves, and maps, which are read."""
        names = [field.name for field in schema for _ in leaf_types(field.type)]
        kinds = [kind for field in schema for kind in leaf_types(field.type)]
        in_nanoseconds = {
            field.name.lower(): field.type for field in self._target.columns if has_nanoseconds(field.type)
        }
        unproved = {
            name
            for name, kind, chunks in zip(names, kinds, footer.chunks.values(), strict=False)  # none without rows
            if has_limits(kind)
            and not all(_is_held(kind, chunk, are_few=name.lower() in in_nanoseconds) for chunk in chunks)
        }
        if footer.chunks:
            unproved |= {field.name for field in schema if has_map(field.type)}
        for name in sorted(unproved):
            if error := not_held_in(self.session, landed.uri, name, in_nanoseconds.get(name.lower())):
                raise error

    def _read(self, landed: LandedObject, name: str) -> Iterator[pa.RecordBatch]:
        with translated(self.session.config):
            yield from _column(self.session, landed.uri, name)


def not_held_in(
    session: LakeSession, uri: str, name: str, in_nanoseconds: pa.DataType | None = None
) -> SchemaError | None:
    """Read a column of a file; returns the error for a value that DuckDB cannot hold, or None.

    The session's engine has the secret of the landing zone. The last argument is the table's type, if it has times in
    nanoseconds.
    """
    column = f"column {name!r} of the object {visible_name(uri)}"
    with translated(session.config):
        try:
            for batch in _column(session, uri, name):
                values = batch.column(0) if in_nanoseconds is None else batch.column(0).cast(in_nanoseconds)
                if held := exceeded(values):
                    return SchemaError(f"{column} has {held.misfit}:", _CORRECT)
        except pa.ArrowInvalid:
            return SchemaError(
                f"{column} has a time outside of 1677-09-22 to 2262-04-11, which the table's TIMESTAMP_NS cannot hold:",
                _CORRECT,
            )
        except (duckdb.ConversionException, duckdb.InvalidInputException) as error:  # also of texts that are not UTF-8
            why = one_line(without_statement(error), 200)
            return SchemaError(f"{column} has a value that DuckDB cannot hold ({why}):", _CORRECT)
    return None


def _column(session: LakeSession, uri: str, name: str) -> Iterator[pa.RecordBatch]:
    sql = f"SELECT {identifier(name)} FROM read_parquet(?, hive_partitioning => false)"  # noqa: S608 - a quoted name
    with session.engine.cursor() as cursor:
        cursor.execute("SET TimeZone = 'UTC'")
        yield from cursor.execute(sql, [glob_literal(uri)]).to_arrow_reader(_ROWS)


def _check_count(landed: LandedObject, footer: Footer) -> None:
    if footer.rows != footer.stored_rows:
        raise SchemaError(
            f"the object {landed.shown} has {footer.stored_rows:,} rows, and its footer says {footer.rows:,}, which "
            "DuckDB would count:",
            "let its writer land it again, or use mode: replace, which rewrites it.",
        )


def _check_chunks(landed: LandedObject, footer: Footer) -> None:
    """Refuse what DuckDB cannot read in any column, by the footer."""
    for path, chunks in footer.chunks.items():
        for chunk in chunks:
            if form := unread_form(chunk.type, chunk.codec, chunk.encodings):
                raise SchemaError(
                    f"column {path!r} of the object {landed.shown} is {form}, which DuckDB cannot read:",
                    "let its writer write it in another form, or use mode: replace, which rewrites it.",
                )
            if chunk.miscounts:
                raise SchemaError(
                    f"column {path!r} of the object {landed.shown} has {chunk.nulls:,} NULLs of {chunk.values:,} by "
                    "its footer, which has bounds of other values too: DuckDB would not find these.",
                    "Let its writer land it again, or use mode: replace, which rewrites it.",
                )


def _may_be_old(schema: pa.Schema, footer: Footer) -> bool:
    """Return whether a file may have days that are another one in an old calendar, which only its own keys tell."""
    kinds = [kind for field in schema for kind in leaf_types(field.type)]
    times = (t.is_date(kind) or t.is_timestamp(kind) for kind in kinds)
    chunks = [c for is_time, chunks in zip(times, footer.chunks.values(), strict=False) if is_time for c in chunks]
    return any(c.nulls != c.values and (c.least is None or c.least < "1900" or "(BC)" in c.least) for c in chunks)


def _is_held(kind: pa.DataType, chunk: Chunk, *, are_few: bool) -> bool:
    """Return whether the statistics prove that DuckDB can hold all values of a column of times.

    Nanoseconds are `are_few`: DuckDB casts other units to them where it reads the table.
    """
    if chunk.nulls == chunk.values:
        return True
    if is_text(kind):
        return chunk.has_whole_texts
    if are_few and not all(_FEW_YEARS.match(text or "") for text in (chunk.least, chunk.greatest)):
        return False
    if not t.is_time(kind):  # DuckDB makes no text of another time that it cannot hold
        # Beside an infinity, which is beyond all, there may be values between it and those that DuckDB can hold.
        return chunk.least not in (None, _TOO_EARLY, "-infinity") and chunk.greatest != "infinity"
    return all(text is not None and _TIME_OF_DAY.fullmatch(text) for text in (chunk.least, chunk.greatest))


# DuckDB ends a value at one of these, or does not read the folder as `name=value`.
_ENDS = re.compile(r"[=\\?\n]")


def is_in_path(folders: Sequence[str], column: PartitionColumn, value: PartitionValue, name: str) -> bool:
    """Return whether readers find this value of the column in a folder of this name, as Hive writes it.

    `folders` are all of the file's URI, with those of the storage's root, as written. The layout reads the value from
    the same path.
    """
    pairs = [folder.partition("=") for folder in folders]
    texts = [text for folder_name, equals, text in pairs if folder_name == name and equals]
    if len(texts) != 1 or _ENDS.search(texts[0]):
        return False
    (text,) = texts
    if text == HIVE_NULL or value is None:
        return text == HIVE_NULL and value is None
    if text.lower() == "null":  # DuckDB reads it as NULL
        return False
    try:
        return column.parse(text) == value
    except LakeAssetsError:
        return False
