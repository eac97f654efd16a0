"""Reads Parquet footers, and derives from them the facts that DuckLake's catalog keeps of each data file."""

import datetime as dt
import os
import re
import struct
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.base.duckdb_engine import Engine, all_threads, glob_literal, identifier
from lake_assets.lake.catalog.bounds import MAY_BE_UNKNOWN, Bounds, duckdb_type, in_order, merged
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.table import LakeColumn, Partitioning, Table
from lake_assets.schema.partition_values import ValueSpan
from lake_assets.spark.task.job import DataFile

_PART_OF = ", "  # between the names of a nested column and of its parts, in Parquet's paths as DuckDB shows them
_BYTE = re.compile(r"\\x[0-9A-F]{2}")
_FEW = 8  # files whose footers one thread reads

_PARTS = {("list", ""): "unnest(v)", ("map", "key"): "unnest(map_keys(v))", ("map", "value"): "unnest(map_values(v))"}

# One opening of each file; `parquet_metadata` and `parquet_file_metadata` would take one each.
_FOOTERS = (
    "SELECT f.file_name, f.num_rows, f.file_size_bytes, f.footer_size, shape, c.path_in_schema, c.type, "
    "c.total_compressed_size, c.num_values, c.stats_null_count, c.stats_min_value, c.stats_max_value, "
    "c.compression, string_split(c.encodings, ', '), c.row_group_num_rows, leaf_types[c.column_id + 1] FROM "
    "(SELECT parquet_file_metadata[1] AS f, hash([(e.name, e.type, e.repetition_type, e.num_children, "
    "e.converted_type, e.scale, e.precision, e.logical_type) for e in parquet_schema]) AS shape, "
    "[e.duckdb_type for e in parquet_schema if e.type IS NOT NULL AND coalesce(e.num_children, 0) = 0] AS leaf_types, "
    "unnest(CASE WHEN len(parquet_metadata) = 0 THEN [NULL] ELSE parquet_metadata END) AS c "
    "FROM parquet_full_metadata(?))"
)


class ColumnFacts(NamedTuple):
    """The values of a column in one file, or in one inlined row."""

    size: int  # bytes, compressed
    values: int | None  # that are not NULL; None: unknown
    nulls: int | None
    bounds: Bounds

    @property
    def has_null(self) -> bool | None:
        """Whether a value is NULL; None if that is unknown."""
        return None if self.nulls is None else self.nulls > 0

    @property
    def has_unknown_bounds(self) -> bool:
        """Whether there may be values, but their bounds are not known."""
        return self.values != 0 and None in self.bounds


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One data file."""

    uri: str
    rows: int
    size: int  # bytes
    footer_size: int  # bytes
    columns: Mapping[int, ColumnFacts]  # by column id
    row_groups: int
    untyped: frozenset[int] = frozenset()  # nested columns that are NULL in all rows, and have no parts in the file


class Chunk(NamedTuple):
    """A column in one row group."""

    type: str  # Parquet's physical type
    size: int
    values: int  # with NULLs
    nulls: int | None  # None: unknown
    least: str | None
    greatest: str | None
    codec: str
    encodings: Sequence[str]
    rows: int  # of the row group

    @property
    def span(self) -> ValueSpan:
        """The texts that it may have."""
        return ValueSpan(self.least, self.greatest, self.nulls != 0, self.nulls != self.values)

    @property
    def has_whole_texts(self) -> bool:
        r"""Whether DuckDB certainly shows bounds of texts as they are; those that are not UTF-8 have `\xF0` for a byte.

        See `lake_assets.schema.partition_values.has_whole_texts`.
        """
        return not any(text is not None and _BYTE.search(text) for text in (self.least, self.greatest))

    @property
    def miscounts(self) -> bool:
        """See `lake_assets.schema.partition_values.has_wrong_counts`."""
        values = 1 if self.nulls is None else self.values - self.nulls
        return values < 0 or (values == 0 and self.least is not None)


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of one file."""

    uri: str
    rows: int
    size: int  # bytes
    footer_size: int  # bytes
    shape: int  # a hash of the names, types and nesting of all columns
    chunks: Mapping[str, Sequence[Chunk]]  # by Parquet's path of the column; empty if there are no rows
    untyped: frozenset[int] = frozenset()  # as of `FileFacts`

    @property
    def stored_rows(self) -> int:
        """The number of rows, by the row groups; see `lake_assets.storage.formats.parquet_files.ParquetRows.count`."""
        return sum(chunk.rows for chunks in list(self.chunks.values())[:1] for chunk in chunks)

    @property
    def row_groups(self) -> int:
        """The number of row groups."""
        return max(map(len, self.chunks.values()), default=0)

    def column_difference(self, leaves: Collection[str], ignored: Collection[str] = ()) -> str | None:
        """Return a sentence about the first column that only the table or only the file has; None if there is none.

        `leaves` are Parquet's paths of the columns that the file must have, and `ignored` of others that it may have.
        """
        if columns := (self.chunks.keys() ^ leaves) - set(ignored):
            return f"column {min(columns)} is not both in the table and in {self.uri}"
        return None

    def is_always(self, path: str, text: str | None) -> bool:
        """Return whether the statistics prove that every value of a column is this one."""
        for chunk in self.chunks[path]:
            if text is None:
                if chunk.nulls != chunk.values:
                    return False
            elif chunk.nulls != 0 or (chunk.least, chunk.greatest) != (text, text):
                return False
        return True


def read_footers(
    engine: Engine, files: Sequence[DataFile], table: Table, partitioning: Partitioning
) -> list[FileFacts]:
    """Return the facts of new files of a table, in their order.

    The engine reads the files whose footer is not known. A file that was copied may have the partition columns too;
    readers take these from its path. Raises NotDirectError if a file has other columns, and duckdb.Error if it is
    absent or is not a Parquet file.
    """
    keys, leaves = {column.name.lower() for column in partitioning.columns}, partitioning.stored_leaves(table)
    parsed = {file.uri: footer for file in files if (footer := _parsed(file, leaves)) is not None}
    others = [file for file in files if file.uri not in parsed]
    with _at_hand(others) as copies:
        read = open_footers(engine(), [copies.get(file.uri, file.uri) for file in others]) if others else []
    for file, footer in zip(others, read, strict=True):
        parsed[file.uri] = replace(footer, uri=file.uri, size=file.size) if file.uri in copies else footer
    footers = [parsed[file.uri] for file in files]
    for footer in footers:
        in_path = {path for path in footer.chunks if path.lower() in keys}
        if difference := footer.column_difference(leaves, in_path):
            raise NotDirectError(difference)
    return file_facts(engine, footers, leaves, table.columns)


def _parsed(file: DataFile, leaves: Collection[str]) -> Footer | None:
    """Return a footer that a task of this package has written, with the texts that DuckDB would give.

    That takes a tenth of DuckDB's time. None if only DuckDB can read it: it is unknown or another's, or a column has a
    type that Arrow and DuckDB show in different ways.
    """
    if file.footer is None or file.is_copy:
        return None
    metadata = pq.read_metadata(pa.BufferReader(file.footer))
    paths = {path.replace(_PART_OF, "."): path for path in leaves}  # as Arrow writes them
    if len(paths) < len(leaves):
        return None
    chunks: dict[str, list[Chunk]] = {}
    try:
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                name = column.path_in_schema
                path = paths[name] if "." in name else paths.get(name, name)
                chunks.setdefault(path, []).append(_chunk(column, group.num_rows))
    except (KeyError, OverflowError):  # a date or time that Python does not have
        return None
    return Footer(file.uri, metadata.num_rows, file.size, metadata.serialized_size, 0, chunks)


def _chunk(column: pq.ColumnChunkMetaData, rows: int) -> Chunk:
    """Return a column in one row group.

    Raises KeyError for bounds of a type that `_TEXTS` lacks, and OverflowError for those that Python lacks.
    """
    statistics = column.statistics
    least = greatest = nulls = None
    if statistics is not None:
        nulls = statistics.null_count if statistics.has_null_count else None
        if statistics.has_min_max:
            text = _single if column.physical_type == "FLOAT" else _TEXTS[type(statistics.min)]
            least, greatest = text(statistics.min), text(statistics.max)
    size, values = column.total_compressed_size, column.num_values
    return _storable(Chunk(column.physical_type, size, values, nulls, least, greatest, column.compression, (), rows))


def _single(value: float) -> str:
    """Return the text of a number in single precision, with as few digits as tell it from others."""
    return repr(float(str(np.float32(value))))


def _moment(value: dt.datetime | dt.time) -> str:
    whole, _, fraction = value.replace(tzinfo=None).isoformat().replace("T", " ").partition(".")
    return f"{whole}{f'.{fraction}'.rstrip('0').rstrip('.')}{'' if value.tzinfo is None else '+00'}"


# By the exact type: pandas has a subclass of datetime, for nanoseconds.
_TEXTS: Mapping[type, Callable[[Any], str]] = {
    bool: lambda value: str(value).lower(),
    int: str,
    float: repr,
    str: str,
    dt.date: dt.date.isoformat,
    dt.time: _moment,
    dt.datetime: _moment,
    Decimal: "{:f}".format,
}


@contextmanager
def _at_hand(files: Sequence[DataFile]) -> Iterator[dict[str, str]]:
    """Yield the paths of temporary files with the known footers alone, by URI; DuckDB reads files only."""
    paths: dict[str, str] = {}
    known = [(file.uri, file.footer) for file in files if file.footer is not None]
    with ExitStack() as stack:
        with suppress(OSError):  # a temporary folder that is full: DuckDB reads the data files
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lake-assets-")) if known else ""
            for number, (uri, footer) in enumerate(known):
                path = Path(folder, f"{number}.parquet")
                path.write_bytes(footer)
                paths[uri] = os.fspath(path)
        yield paths


def open_footers(engine: duckdb.DuckDBPyConnection, uris: Sequence[str]) -> list[Footer]:
    """Return the footers of these files, in their order, without bounds of which the least is the greater one.

    A file that is absent or is none is a duckdb.Error.
    """
    with all_threads(engine) if len(uris) > _FEW else nullcontext():
        rows = engine.execute(_FOOTERS, [[glob_literal(uri) for uri in uris]]).fetchall()
    files: dict[str, Footer] = {}
    for uri, num_rows, size, footer_size, shape, path, *chunk, sql_type in rows:
        chunks: dict[str, list[Chunk]]
        if uri not in files:
            files[uri] = Footer(uri, num_rows, size, footer_size, shape, chunks := {})
        if path is not None:
            of_group = _storable(Chunk(*chunk))
            is_cut = sql_type == "VARCHAR" and not of_group.has_whole_texts
            is_ordered = is_cut or in_order(sql_type, Bounds(of_group.least, of_group.greatest))
            chunks.setdefault(path, []).append(of_group if is_ordered else of_group._replace(least=None, greatest=None))
    return [files[uri] for uri in uris]


def with_parts(footer: Footer, table: Table) -> Footer:
    """Return the footer with the parts of the table's nested columns that have no type in the file: all are NULL."""
    untyped = {path: column.column_id for path, column in table.nested.items() if path in footer.chunks}
    if not untyped:
        return footer
    chunks = {path: of_column for path, of_column in footer.chunks.items() if path not in untyped}
    for path, column in table.leaves.items():
        for around in untyped.keys() & {table.parquet_path(part) for part in table.with_outer(column)}:
            chunks[path] = [chunk._replace(size=0) for chunk in footer.chunks[around]]
    return replace(footer, chunks=chunks, untyped=frozenset(untyped.values()))


def _storable(chunk: Chunk) -> Chunk:
    """Return the chunk without bounds that contain a zero byte, which a text of a PostgreSQL catalog cannot hold."""
    least, greatest = (None if text is None or "\0" in text else text for text in (chunk.least, chunk.greatest))
    return chunk._replace(least=least, greatest=greatest)


def file_facts(
    engine: Engine,
    footers: Sequence[Footer],
    leaves: Mapping[str, LakeColumn],
    columns: Mapping[int, LakeColumn],
) -> list[FileFacts]:
    """Return the facts that the catalog keeps of files without a `column_difference`, by the same `leaves`.

    Bounds and counts that a footer lacks are read from the data, once; `columns` are all of the table, by id.
    """
    chunks: dict[tuple[str, str], Sequence[Chunk]] = {}
    for footer in footers:
        for path, column in leaves.items():
            of_column = footer.chunks[path]
            if column.type == "float64" and of_column[0].type == "FLOAT":
                of_column = [_as_double(chunk) for chunk in of_column]
            if column.type == "varchar":
                of_column = [c if c.has_whole_texts else c._replace(least=None, greatest=None) for c in of_column]
            chunks[footer.uri, path] = of_column
    facts = _columns(chunks, leaves)
    for (uri, path), fact in facts.items():
        column = leaves[path]
        if fact.nulls is None or (fact.has_unknown_bounds and column.type not in MAY_BE_UNKNOWN):
            facts[uri, path] = _facts_of_data(engine(), uri, column, columns, chunks[uri, path])
    return [
        FileFacts(
            f.uri,
            f.rows,
            f.size,
            f.footer_size,
            {c.column_id: facts[f.uri, p] for p, c in leaves.items()},
            f.row_groups,
            f.untyped,
        )
        for f in footers
    ]


def _facts_of_data(
    engine: duckdb.DuckDBPyConnection,
    uri: str,
    column: LakeColumn,
    columns: Mapping[int, LakeColumn],
    chunks: Sequence[Chunk],
) -> ColumnFacts:
    """Return the facts of a column, or of a part of a nested one, by the values in a file."""
    parts = [column]
    while (parent := parts[0].parent) is not None:
        parts.insert(0, columns[parent])
    values = f"SELECT {identifier(parts[0].name)} AS v FROM read_parquet(?, hive_partitioning = false)"
    for outer, inner in pairwise(parts):
        part = _PARTS.get((outer.type, inner.name if outer.type == "map" else ""))
        values = f"SELECT {part or f'v.{identifier(inner.name)}'} AS v FROM ({values})"
    # The extension for time zones writes times of far years as others than it reads.
    text = (
        "CASE WHEN isfinite({0}) THEN make_timestamp(epoch_us({0}))::VARCHAR || '+00' ELSE {0}::VARCHAR END"
        if column.type == "timestamptz"
        else "{0}::VARCHAR"
    )
    ((least, greatest, count),) = engine.execute(
        f"SELECT {text.format('min(v)')}, {text.format('max(v)')}, count(v) "
        f"FROM (SELECT v::{duckdb_type(column.type)} AS v FROM ({values}))",
        [glob_literal(uri)],
    ).fetchall()
    bounds = Bounds(None, None) if column.type in MAY_BE_UNKNOWN else Bounds(least, greatest)
    return ColumnFacts(sum(c.size for c in chunks), count, sum(c.values for c in chunks) - count, bounds)


def _as_double(chunk: Chunk) -> Chunk:
    """Return the chunk with bounds in double precision: a FLOAT of 0.1 is 0.10000000149011612."""
    least, greatest = (
        None if text is None else repr(struct.unpack("f", struct.pack("f", float(text)))[0])
        for text in (chunk.least, chunk.greatest)
    )
    return chunk._replace(least=least, greatest=greatest)


def _columns(
    chunks: Mapping[tuple[str, str], Sequence[Chunk]], leaves: Mapping[str, LakeColumn]
) -> dict[tuple[str, str], ColumnFacts]:
    """Return the facts of all row groups together, by file and path."""
    result = {}
    split = {key: of_column for key, of_column in chunks.items() if len(of_column) > 1}
    bounds = merged(
        (key, leaves[key[1]].type, Bounds(chunk.least, chunk.greatest))
        for key, of_column in split.items()
        for chunk in of_column
    )
    for key, of_column in chunks.items():
        facts = [_facts(chunk) for chunk in of_column]
        if key not in split:
            result[key] = facts[0]
            continue
        result[key] = ColumnFacts(
            size=sum(fact.size for fact in facts),
            values=_sum(fact.values for fact in facts),
            nulls=_sum(fact.nulls for fact in facts),
            bounds=Bounds(None, None) if any(fact.has_unknown_bounds for fact in facts) else bounds[key],
        )
    return result


def _facts(chunk: Chunk) -> ColumnFacts:
    values = None if chunk.nulls is None else chunk.values - chunk.nulls
    known = values == 0 or (chunk.least is not None and chunk.greatest is not None)
    bounds = Bounds(chunk.least, chunk.greatest) if known else Bounds(None, None)
    return ColumnFacts(chunk.size, values, chunk.nulls, bounds)


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None if a count is unknown."""
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)
