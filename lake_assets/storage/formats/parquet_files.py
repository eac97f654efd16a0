"""Parquet files read by Arrow, with exact INT96 timestamps.

INT96 is an old form of a timestamp in Spark and Hive: a day, and nanoseconds of that day. Arrow reads it as 64 bits of
nanoseconds, which hold the years 1677 to 2262 only, and silently wraps all others. Microseconds hold all values that
DuckDB has. So INT96 is read as microseconds, and values that these cannot hold are refused: finer ones, and days after
the year 294247. A column in nanoseconds gets nanoseconds, within its own years.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as t

from lake_assets.base.errors import SchemaError, SourceError
from lake_assets.base.texts import visible_name
from lake_assets.config.formats import PARQUET
from lake_assets.config.secrets import mask_error, masking
from lake_assets.config.storages import AnyStorage
from lake_assets.schema.annotations import is_opaque
from lake_assets.schema.arrow_types import FIRST_NANOSECOND, dictionary_columns, leaf_count, leaf_types, leaves
from lake_assets.schema.bad_rows import BadRows
from lake_assets.schema.calendars import WRITE_NEW, OldCalendar
from lake_assets.schema.casts import cast
from lake_assets.schema.fitter import Fitter
from lake_assets.schema.partition_values import Box, ValueSpan, span_of
from lake_assets.storage.formats.landed_rows import BATCH_ROWS, DECODED, LandedBatch, Part
from lake_assets.storage.formats.parquet_footers import (
    ENTRIES,
    LIMITS,
    only_logical,
    readable_footer,
    with_foreign_types,
    without_wide_integers,
)
from lake_assets.storage.server_answers import Meaning, meaning_of
from lake_assets.storage.storage_errors import StorageRequest, changed_object, storage_error
from lake_assets.storage.store import Store

TAIL = 8  # bytes behind the footer: its length, and PAR1
_MICROS = 1000  # nanoseconds of one
_FIRST, _LAST = FIRST_NANOSECOND // _MICROS, 9_223_372_036_854_774  # microseconds of DuckDB's TIMESTAMP_NS
_SECONDS = 2**63 // 10**6 - 1  # that 64 bits of microseconds hold, before and after 1970
_NAME = r"\.[^.]*"
_NEW_LISTS = (
    "write it without spark.sql.parquet.writeLegacyFormat (parquet.avro.write-old-list-structure in Avro's writer)"
)
_REWRITE = "write it as TIMESTAMP_MICROS (in Spark: spark.sql.parquet.outputTimestampType)"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a file, by its footer."""

    parquet: pq.ParquetSchema  # Parquet's schema
    keys: Mapping[bytes, bytes] | None  # the footer's texts by their keys; some of them change Arrow's types
    schema: pa.Schema  # Arrow's schema, without metadata, as of `with_foreign_types`
    int96: frozenset[str]  # the columns that are INT96, or have such a part
    cast: frozenset[str]  # the columns that Arrow reads as another type than this schema's
    calendar: OldCalendar  # of days and times
    old: frozenset[str]  # the columns that may have values of an old calendar
    # Arrow's comparison of two schemas sees all of these columns. It compares neither the groups of nested ones, nor
    # all that tells a time of day from one with a time zone.
    is_comparable: bool

    @classmethod
    def of(cls, file: pq.ParquetFile, footer: Callable[[], bytes], unreadable: Mapping[str, str]) -> Self:
        """Return the columns of an open file; the others are as in `with_foreign_types`."""
        schema = with_foreign_types(file, footer, unreadable)
        others = (f for own, f in zip(file.schema_arrow, schema, strict=True) if not own.type.equals(f.type))
        is_comparable = not any(t.is_nested(kind) or t.is_time(kind) or is_opaque(kind) for kind in schema.types)
        cast = frozenset(f.name for f in others if not is_opaque(f.type))
        int96, calendar = _int96_columns(file.schema, schema), OldCalendar.of(file.metadata.metadata)
        old = frozenset(f.name for f in schema if calendar.is_old(f.type, is_int96=f.name in int96))
        return cls(file.schema, file.metadata.metadata, schema, int96, cast, calendar, old, is_comparable)

    def are_of(self, file: pq.ParquetFile) -> bool:
        """Return whether an open file certainly has the same columns."""
        return self.is_comparable and self.parquet.equals(file.schema) and self.keys == file.metadata.metadata


class ParquetRows:
    """An open Parquet file; ArrowInvalid or OSError if it is none, or cannot be read."""

    def __init__(
        self, file: "pa.NativeFile | str", origin: str, *, pre_buffer: bool = False, like: "Columns | None" = None
    ) -> None:
        self._file = file
        self.origin = origin
        self._pre_buffer = pre_buffer  # read the columns of a row group by few requests
        self._dictionaries: tuple[Sequence[str], pq.ParquetFile] | None = None
        self._metadata: pq.FileMetaData | None = None
        self._unreadable: Mapping[str, str] = {}
        try:
            self.parquet = self._opened("us")
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, OSError) as error:
            self._make_readable(error)
            self.parquet = self._opened("us")
        # If another file has the same columns, they are not worked out again.
        if like is None or not like.are_of(self.parquet):
            like = Columns.of(self.parquet, self.footer, self._unreadable)
        self.columns = like
        self.schema: pa.Schema = self.columns.schema
        self.int96 = self.columns.int96  # its columns that are INT96, or have such a part

    def _make_readable(self, error: Exception) -> None:
        """Let the file be opened by a footer that Arrow can read."""
        try:
            is_of_arrow = isinstance(error, pa.ArrowNotImplementedError)
            footer, self._unreadable = (without_wide_integers if is_of_arrow else readable_footer)(self.footer())
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError):
            raise error from None
        self._metadata = pq.ParquetFile(pa.BufferReader(footer), **LIMITS).metadata

    @property
    def converted(self) -> frozenset[str]:
        """The columns whose values are not read as they are stored."""
        columns = self.columns
        return columns.int96 | columns.cast | columns.old | self._unreadable.keys()

    def footer(self) -> bytes:
        """Return the bytes between the row groups and the footer's length."""
        return self._footer

    @cached_property
    def _footer(self) -> bytes:
        with nullcontext(self._file) if isinstance(self._file, pa.NativeFile) else pa.OSFile(self._file) as file:
            end = file.size() - TAIL
            file.seek(max(end, 0))
            if (length := int.from_bytes(file.read(4), "little")) > end:
                raise pa.ArrowInvalid("the file is shorter than its footer")
            file.seek(end - length)
            return bytes(file.read(length))

    @cached_property
    def count(self) -> int:
        """The number of rows, by the row groups; some writers that add one do not correct the file's own number."""
        metadata = self.parquet.metadata
        return sum(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))

    def _old_columns(self) -> Iterator[str]:
        """Yield the columns of which no statistics prove that all values are the same in each calendar."""
        first, metadata = 0, self.parquet.metadata
        # Arrow aborts the process if a column of it is encrypted, and then the footer is signed.
        is_signed = bool(self.columns.old) and len(self.footer()) != metadata.serialized_size
        groups = [] if is_signed else [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        for field in self.schema if self.columns.old else ():
            for place, kind in enumerate(leaf_types(field.type), first):
                limit = self.columns.calendar.first(kind, is_int96=field.name in self.int96)
                is_late = limit is None or all(_begins(group.column(place).statistics, limit) for group in groups)
                if not is_late or (is_signed and limit is not None):
                    yield field.name
            first += leaf_count(field.type)

    def batches(
        self, group: int, columns: Sequence[str], *, nanos: Collection[str] = (), dictionaries: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one row group, in batches of at most `BATCH_ROWS`.

        Columns of `nanos` are read in nanoseconds if they are INT96; texts or bytes of `dictionaries` stay such. Arrow
        ends at an empty page of lists, so a group that is not read whole is an ArrowInvalid.
        """
        exact = self._checked(group, [name for name in columns if name in self.int96], nanos)
        start = 0
        parquet = self._with_dictionaries(dictionaries)
        for batch in parquet.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False):
            own = {name: column.slice(start, batch.num_rows).combine_chunks() for name, column in exact.items()}
            own |= {name: self._cast(name, batch.column(name)) for name in columns if name in self.columns.cast}
            for name in self.columns.old.intersection(columns):
                values, where = own.get(name, batch.column(name)), f"column {name!r} of {self.origin}"
                own[name] = self.columns.calendar.converted(values, where, is_int96=name in self.int96)
            yield _with_columns(batch, own)
            start += batch.num_rows
        if columns and start != (stored := self.parquet.metadata.row_group(group).num_rows):
            raise pa.ArrowInvalid(f"Arrow reads {start:,} of the {stored:,} rows of row group {group}")

    def refuse_misread(self) -> None:
        """Refuse a file that is to become a lake file if it has a column of `misread`."""
        for name, problem, fix in self.misread():
            raise SchemaError(
                f"column {name!r} of {self.origin} {problem}:", f"{fix}, or use mode: replace, which rewrites it."
            )

    def misread(self) -> Iterator[tuple[str, str, str]]:
        """Yield the columns that DuckLake would misread in a lake file, each with what is wrong and a fix."""
        for name in sorted(self.int96):
            yield name, "is an INT96 timestamp, which DuckLake cannot register", _REWRITE
        for field in self.parquet.schema_arrow:
            if ENTRIES in str(field.type):
                problem = "has a map whose keys are optional, and DuckLake reads no key that is NULL"
                yield field.name, problem, "let its writer declare the keys as required"
        for name in only_logical(self.footer()):
            problem = "has a logical type of Parquet and no converted one, so DuckLake reads it as another type"
            yield name, problem, "let its writer write both"
        for name in self._old_columns():
            problem = "has days before 1582-10-15 or times before 1900 by the old calendar: DuckLake reads others"
            yield name, problem, WRITE_NEW
        parquet, first = self.parquet.schema, 0
        for field in self.schema:
            forms = _forms(re.escape(field.name), field.type) if t.is_nested(field.type) else []
            paths = [parquet.column(first + number).path for number in range(len(forms))]
            first += leaf_count(field.type)
            for path in (path for path, form in zip(paths, forms, strict=True) if not re.fullmatch(form, path)):
                yield field.name, f"has a list in Parquet's old form ({path}), which DuckLake reads as NULL", _NEW_LISTS

    def _cast(self, name: str, values: pa.Array) -> pa.Array:
        try:
            return cast(values, self.schema.field(name).type)
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"column {name!r} of {self.origin} has a value that is none of its type ({error}):",
                "correct it where it is written, or leave the column out: omit: true in `columns`.",
            ) from error

    def _opened(self, unit: str, **options: Any) -> pq.ParquetFile:  # noqa: ANN401 - those of pyarrow
        return pq.ParquetFile(
            self._file,
            pre_buffer=self._pre_buffer,
            coerce_int96_timestamp_unit=unit,
            page_checksum_verification=True,
            **LIMITS | {"metadata": self._metadata} | options,
        )

    def _with_dictionaries(self, names: Sequence[str]) -> pq.ParquetFile:
        """Return the file, which reads these columns as dictionaries; the footer is not read again."""
        if not names:
            return self.parquet
        if self._dictionaries is None or self._dictionaries[0] != names:
            parquet = self._opened("us", metadata=self.parquet.metadata, read_dictionary=list(names))
            self._dictionaries = names, parquet
        return self._dictionaries[1]

    def _checked(self, group: int, names: Sequence[str], nanos: Collection[str]) -> dict[str, pa.ChunkedArray]:
        """Refuse INT96 values that the columns' new types cannot hold; returns the columns in nanoseconds."""
        if not names:
            return {}
        units = {
            unit: self._opened(unit).read_row_group(group, columns=names, use_threads=False)
            for unit in ("s", "us", "ns")
        }
        for name in names:
            chunks = zip(*(leaves(table.column(name)) for table in units.values()), strict=True)
            for seconds, micros, nanoseconds in chunks:
                if seconds.type == micros.type:  # not INT96
                    continue
                self._check(name, seconds, micros, nanoseconds, is_nanos=name in nanos)
        return {name: units["ns"].column(name) for name in names if name in nanos}

    def _check(self, name: str, *readings: pa.Array, is_nanos: bool) -> None:
        """Refuse values that microseconds, or nanoseconds, cannot hold."""
        seconds, micros, nanoseconds = (reading.view(pa.int64()) for reading in readings)
        if pc.any(pc.greater(pc.abs(seconds), _SECONDS)).as_py():
            raise self._refused(name, "of a year that no timestamp can hold", "correct the value where it is written.")
        if is_nanos:
            if pc.any(pc.or_(pc.less(micros, _FIRST), pc.greater(micros, _LAST))).as_py():
                raise self._refused(
                    name,
                    "outside the years 1677 to 2262, which the table's TIMESTAMP_NS cannot hold",
                    "correct the value, or let the stream fill another table with a TIMESTAMP column.",
                )
            return
        # Both have wrapped in the same way, so their difference is right.
        finer = pc.not_equal(pc.subtract(nanoseconds, pc.multiply(micros, _MICROS)), 0)
        if pc.any(finer).as_py():
            raise self._refused(
                name,
                "of less than a microsecond, which TIMESTAMP cannot hold",
                f"{_REWRITE}, or declare type: TIMESTAMP_NS in `columns` for a new table.",
            )

    def _refused(self, name: str, problem: str, fix: str) -> SchemaError:
        return SchemaError(f"column {name!r} of {self.origin} is INT96 and has a value {problem}:", fix)


def _int96_columns(parquet: pq.ParquetSchema, schema: pa.Schema) -> frozenset[str]:
    """Return the columns with an INT96 leaf, by counting leaves: a dot in a path may be part of a name."""
    columns, first = set(), 0
    for field in schema:
        last = first + leaf_count(field.type)
        if any(parquet.column(index).physical_type == "INT96" for index in range(first, last)):
            columns.add(field.name)
        first = last
    return frozenset(columns)


def _begins(statistics: pq.Statistics | None, least: int) -> bool:
    """Return whether statistics prove that no stored value is less than this one."""
    if statistics is None:
        return False
    return bool(statistics.min_raw >= least if statistics.has_min_max else statistics.num_values == 0)


def _with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    for name, column in columns.items():
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


def _forms(path: str, data_type: pa.DataType) -> list[str]:
    """Return patterns of the leaves' paths that DuckLake understands, for a column or a part of one with this path."""
    if isinstance(data_type, pa.BaseExtensionType):
        return _forms(path, data_type.storage_type)
    if t.is_struct(data_type):
        return [form for f in data_type for form in _forms(rf"{path}\.{re.escape(f.name)}", f.type)]
    if t.is_map(data_type):
        parts = (data_type.key_type, data_type.item_type)
        return [form for part in parts for form in _forms(f"{path}{_NAME * 2}", part)]
    if not t.is_nested(data_type):
        return [path]
    value = data_type.value_type
    # The oldest form has no group between a list and its elements. It works if the elements are not groups.
    oldest = "" if t.is_struct(value) or t.is_map(value) else f"|{_NAME}"
    return _forms(rf"{path}(?:\.list{_NAME}{oldest})", value)


def read_schema(store: Store, key: str, *, as_it_is: bool = False) -> pa.Schema:
    """Return the Arrow schema of one object, as `read_footer`."""
    return read_footer(store, key, as_it_is=as_it_is)[1]


def read_footer(store: Store, key: str, *, as_it_is: bool = False) -> tuple[int, pa.Schema]:
    """Return the number of rows of one object, and the Arrow schema of its columns, from its footer.

    With `as_it_is`, the object becomes a lake file, so DuckLake must be able to read it.
    """
    with opened_object(store, key) as file:
        rows = ParquetRows(file, f"the object {visible_name(store.uri(key))}")
        if as_it_is:
            rows.refuse_misread()
        return rows.count, rows.schema


@contextmanager
def opened_object(store: Store, key: str, title: str = PARQUET.title) -> Iterator[pa.NativeFile]:
    """Open an object of the format with this title; errors in the block name it, as those of `readable_object`."""
    with masking(store.storage), readable_object(store.storage, store.uri(key), title), store.open(key) as file:
        yield file


@contextmanager
def readable_object(storage: AnyStorage, uri: str, title: str = PARQUET.title) -> Iterator[None]:
    """Turn errors of Arrow into errors that name the object, or the store if that failed."""
    try:
        yield
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        means, key = meaning_of(error), uri.removeprefix(f"{storage.root}/")
        if means is Meaning.NOT_FOUND:
            raise changed_object(uri, "vanished") from error
        if getattr(error, "errno", None) is not None or means is not None:
            mask_error(error, storage)
            refusal = Store(storage).refusal(key)
            raise (refusal or storage_error(error, StorageRequest(storage, "read", uri))) from error
        ours = None if storage.is_local else Store(storage).redirection_error(key)
        raise (ours or _damaged(uri, title, error)) from error


def _damaged(uri: str, title: str, error: Exception) -> SourceError:
    why = " ".join(str(error).split()).rstrip(".")
    if why.startswith("Parquet magic bytes not found in footer"):  # Arrow's text is two sentences that guess
        why = "it has no Parquet footer"
    problem = f"the object {visible_name(uri)} cannot be read as {title}: {why}:"
    if "requires too much memory" in why:  # zstd's
        return SourceError(problem, "let its writer compress it with a window of 128 MiB at most (zstd --long=27).")
    if "out of range for nanosecond" in why:  # of ORC, whose timestamps Arrow reads in nanoseconds
        return SourceError(problem, "let its writer land times of 1677 to 2262, or leave the column out by omit: true.")
    return SourceError(problem, "remove it, or let its writer land it again.")


def read_spans(file: pa.NativeFile, names: Sequence[str]) -> set[Box] | None:
    """Return the values of some columns in the row groups of an object, from its footer; None if it lacks a column.

    Names are in lower case; columns of the object may have others of it.
    """
    rows = ParquetRows(file, "")
    footer, old = rows.parquet.metadata, {name.lower() for name in rows.columns.old}
    paths = [footer.schema.column(index).path.lower() for index in range(len(footer.schema))]
    if not set(names) <= set(paths):
        return None
    indexes = [(paths.index(name), name in old) for name in names]
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    return {
        tuple(span_of(group.column(index).statistics, is_old=is_old) for index, is_old in indexes)
        for group in groups
        if group.num_rows
    }


_KEYS = (b"description", b"comment")  # of a field's metadata; the first that it has counts
_SPARK = b"org.apache.spark.sql.parquet.row.metadata"


def column_descriptions(store: Store, key: str) -> dict[str, str]:
    """Return the descriptions of an object's columns, by their names in small letters; only the footer is read."""
    with opened_object(store, key) as file:
        parquet = ParquetRows(file, key).parquet
        described = _of_spark((parquet.metadata.metadata or {}).get(_SPARK))
        return described | _of_arrow(parquet.schema_arrow)


def _of_arrow(schema: pa.Schema) -> dict[str, str]:
    return {field.name.lower(): text for field in schema if (text := _text(field.metadata or {}))}


def _text(metadata: dict[bytes, bytes]) -> str:
    text = next((metadata[key] for key in _KEYS if key in metadata), b"")
    return text.decode(errors="replace").strip()


def _of_spark(schema: bytes | None) -> dict[str, str]:
    """Return the comments in the JSON that Spark writes to the footer; none if it is not of this form."""
    try:
        fields = json.loads(schema)["fields"] if schema else []
        comments = {str(field["name"]).lower(): field["metadata"].get("comment") for field in fields}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
    return {name: text.strip() for name, text in comments.items() if isinstance(text, str) and text.strip()}


class LandedParquet:
    """The rows of a Parquet object, which is divided into shares by its row groups."""

    def __init__(self, rows: ParquetRows, *, dictionaries: bool) -> None:
        self.schema: pa.Schema = rows.schema
        self.count: int | None = rows.count
        self._rows = rows
        self._dictionaries = dictionaries  # columns that the object stores as such may stay dictionaries of texts

    @property
    def footer(self) -> pq.FileMetaData:
        """The object's footer."""
        return self._rows.parquet.metadata

    def has_converted(self, names: Collection[str]) -> bool:
        """Return whether `read` gives another type or value than is stored, of any of these columns."""
        return not self._rows.converted.isdisjoint(names)

    @property
    def is_small(self) -> bool:
        """See `LandedRows`."""
        metadata = self._rows.parquet.metadata
        if self._rows.count > BATCH_ROWS:
            return False
        size: int = sum(metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))
        return size <= DECODED

    def read(
        self, part: Part, columns: Sequence[str], fitter: Fitter, *, numbered: bool
    ) -> Iterator[LandedBatch | BadRows]:
        """See `LandedRows`."""
        rows = self._rows
        own = part.span(rows.parquet.num_row_groups)
        dictionaries = dictionary_columns(rows.parquet, own, fitter.unchanged) if self._dictionaries else []
        # One row group at a time, because pre-buffering takes memory for all that are requested.
        for group in own:
            if not _may_have_rows(rows, group, fitter):
                continue
            first = _first_row(rows.parquet, group) if numbered or fitter.splits else 0
            for batch in rows.batches(group, columns, nanos=fitter.nanos, dictionaries=dictionaries):
                yield LandedBatch(batch, first)
                first += batch.num_rows


@dataclass(slots=True)
class ParquetReader:
    """Opens Parquet objects one after the other: most have the columns of the one before."""

    # Columns that an object stores as dictionaries of texts may stay dictionaries
    dictionaries: bool = False
    _columns: Columns | None = None  # of the object before

    def open(self, file: pa.NativeFile, origin: str) -> LandedParquet:
        """Open an object; of one that was not fetched whole, few requests read the columns of a row group."""
        is_fetched = isinstance(file, pa.BufferReader)
        rows = ParquetRows(file, origin, pre_buffer=not is_fetched, like=self._columns)
        self._columns = rows.columns
        return LandedParquet(rows, dictionaries=self.dictionaries)


def _first_row(parquet: pq.ParquetFile, group: int) -> int:
    """Return the number of a row group's first row in the file, from 0."""
    return sum(parquet.metadata.row_group(number).num_rows for number in range(group))


def _may_have_rows(rows: ParquetRows, group: int, fitter: Fitter) -> bool:
    """Return whether a row group may have rows of the partition, by its statistics."""
    if not (fitter.selecting_values or fitter.selecting_derived):
        return True
    parquet, old = rows.parquet, rows.columns.old
    names = [parquet.schema.column(index).path for index in range(len(parquet.schema))]
    conditions: list[tuple[int, Callable[[ValueSpan], bool]]]
    conditions = [
        (names.index(name), partial(ValueSpan.may_hold, value=value.as_py()))
        for name, value in fitter.selecting_values.items()
    ]
    conditions += [(names.index(made.name), made.may_be_in) for made in fitter.selecting_derived if made.name in names]
    facts = parquet.metadata.row_group(group)
    return all(
        may_be_in(span_of(facts.column(index).statistics, is_old=names[index] in old))
        for index, may_be_in in conditions
    )
