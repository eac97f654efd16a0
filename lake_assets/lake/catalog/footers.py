"""What the footers of Parquet files say, as DuckLake's catalog keeps it of every data file."""

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from lake_assets.duckdb_engine import all_threads, glob_literal
from lake_assets.lake.catalog.bounds import Bounds, duckdb_type, merged
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.catalog.table import Column

_FEW = 8  # files whose footers one thread reads

# One opening of each file; `parquet_metadata` and `parquet_file_metadata` would take one each.
_FOOTERS = (
    "SELECT f.file_name, f.num_rows, f.file_size_bytes, f.footer_size, shape, c.path_in_schema, c.type, "
    "c.total_compressed_size, c.num_values, c.stats_null_count, c.stats_min_value, c.stats_max_value FROM "
    "(SELECT parquet_file_metadata[1] AS f, hash([(e.name, e.type, e.num_children, e.converted_type, e.scale, "
    "e.precision, e.logical_type) for e in parquet_schema]) AS shape, "
    "unnest(CASE WHEN len(parquet_metadata) = 0 THEN [NULL] ELSE parquet_metadata END) AS c "
    "FROM parquet_full_metadata(?))"
)


class Addition(NamedTuple):
    """What is known of the new values of one column: for the statistics of the whole table."""

    has_null: bool | None  # None: nobody says
    is_unknown: bool  # there are values, and nobody says between which
    bounds: Bounds


class ColumnFacts(NamedTuple):
    """A column of one file."""

    size: int  # bytes, compressed
    values: int | None  # that are not NULL; None: the file does not say
    nulls: int | None
    bounds: Bounds

    @property
    def addition(self) -> Addition:
        """The same, without the numbers."""
        is_unknown = self.values != 0 and (self.bounds.least is None or self.bounds.greatest is None)
        return Addition(None if self.nulls is None else self.nulls > 0, is_unknown, self.bounds)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One data file."""

    uri: str
    rows: int
    size: int  # bytes
    footer_size: int  # bytes
    columns: Mapping[int, ColumnFacts]  # by column id


class _Chunk(NamedTuple):
    """A column in one row group."""

    type: str  # Parquet's physical one
    size: int
    values: int  # NULLs too
    nulls: int | None  # None: the file does not say
    least: str | None
    greatest: str | None


@dataclass(frozen=True, slots=True)
class Footer:
    """What the footer of one file says."""

    uri: str
    rows: int
    size: int  # bytes
    footer_size: int  # bytes
    shape: int  # equal where names, types and nesting of all columns are
    chunks: Mapping[str, Sequence[_Chunk]]  # by Parquet's path of the column; empty where there are no rows

    def oddity(self, leaves: Collection[str], ignored: Collection[str] = ()) -> str | None:
        """Why this strategy cannot say what the catalog must know of the file; None if it can.

        Args:
            leaves: the columns that the file must have, by Parquet's path of them.
            ignored: those that it may have besides.
        """
        if other := self.other_columns(leaves, ignored):
            return other
        for path in leaves:
            if any(chunk.nulls is None for chunk in self.chunks[path]):
                return f"{self.uri} does not say how often column {path} is NULL"
        return None

    def other_columns(self, leaves: Collection[str], ignored: Collection[str] = ()) -> str | None:
        """Which column is not both in the table and in the file; None if there is none such."""
        if odd := (self.chunks.keys() ^ leaves) - set(ignored):
            return f"column {min(odd)} is not both in the table and in {self.uri}"
        return None

    def is_always(self, path: str, text: str | None) -> bool:
        """Whether it is sure of a column, by the bounds alone, that all of its values are this one."""
        for chunk in self.chunks[path]:
            if text is None:
                if chunk.nulls != chunk.values:
                    return False
            elif chunk.nulls != 0 or (chunk.least, chunk.greatest) != (text, text):
                return False
        return True


def read_footers(
    engine: duckdb.DuckDBPyConnection, uris: Sequence[str], leaves: Mapping[str, Column]
) -> list[FileFacts]:
    """The facts of these files, in their order.

    Args:
        engine: has the extension and the secret for the files' store.
        uris: the files.
        leaves: the columns that each of them must have, by Parquet's path of them.

    Raises:
        NotDirectError: a file has other columns.
        duckdb.Error: a file is absent or is no Parquet file.
    """
    footers = open_footers(engine, uris)
    for footer in footers:
        if other := footer.other_columns(leaves):
            raise NotDirectError(other)
    return file_facts(engine, footers, leaves)


def open_footers(engine: duckdb.DuckDBPyConnection, uris: Sequence[str]) -> list[Footer]:
    """The footers of these files, in their order.

    Raises:
        duckdb.Error: a file is absent or is no Parquet file.
    """
    with all_threads(engine) if len(uris) > _FEW else nullcontext():
        rows = engine.execute(_FOOTERS, [[glob_literal(uri) for uri in uris]]).fetchall()
    files: dict[str, Footer] = {}
    for uri, num_rows, size, footer_size, shape, path, *chunk in rows:
        chunks: dict[str, list[_Chunk]]
        if uri not in files:
            files[uri] = Footer(uri, num_rows, size, footer_size, shape, chunks := {})
        if path is not None:
            chunks.setdefault(path, []).append(_storable(_Chunk(*chunk)))
    return [files[uri] for uri in uris]


def _storable(chunk: _Chunk) -> _Chunk:
    """The chunk without a bound that no text of a PostgreSQL catalog can hold."""
    least, greatest = (None if text is None or "\0" in text else text for text in (chunk.least, chunk.greatest))
    return chunk._replace(least=least, greatest=greatest)


def file_facts(
    engine: duckdb.DuckDBPyConnection, footers: Sequence[Footer], leaves: Mapping[str, Column]
) -> list[FileFacts]:
    """What the catalog keeps of these files.

    Args:
        engine: compares values.
        footers: of files without an `oddity`.
        leaves: the columns that each of them has, by Parquet's path of them.
    """
    chunks: dict[tuple[str, str], Sequence[_Chunk]] = {}
    for footer in footers:
        for path, column in leaves.items():
            found = footer.chunks[path]
            widened = column.type == "float64" and found[0].type == "FLOAT"
            chunks[footer.uri, path] = [_as_double(chunk) for chunk in found] if widened else found
    columns = _columns(engine, chunks, leaves)
    return [
        FileFacts(f.uri, f.rows, f.size, f.footer_size, {c.column_id: columns[f.uri, p] for p, c in leaves.items()})
        for f in footers
    ]


def _as_double(chunk: _Chunk) -> _Chunk:
    """The bounds of single precision as those of double: 0.1 is 0.10000000149011612 there."""
    least, greatest = (
        None if text is None else repr(struct.unpack("f", struct.pack("f", float(text)))[0])
        for text in (chunk.least, chunk.greatest)
    )
    return chunk._replace(least=least, greatest=greatest)


def _columns(
    engine: duckdb.DuckDBPyConnection, chunks: Mapping[tuple[str, str], Sequence[_Chunk]], leaves: Mapping[str, Column]
) -> dict[tuple[str, str], ColumnFacts]:
    """The facts by file and path, all row groups together."""
    result = {}
    several = {key: found for key, found in chunks.items() if len(found) > 1}
    bounds: dict[tuple[str, str], Bounds] = {}
    for sql_type, paths in _by_type(leaves).items():
        of_type = ((key, Bounds(c.least, c.greatest)) for key in several if key[1] in paths for c in several[key])
        bounds |= merged(engine, sql_type, of_type)
    for key, found in chunks.items():
        if key not in several:
            result[key] = _fact(found[0])
            continue
        facts = [_fact(chunk) for chunk in found]
        result[key] = ColumnFacts(
            size=sum(fact.size for fact in facts),
            values=_sum(fact.values for fact in facts),
            nulls=_sum(fact.nulls for fact in facts),
            bounds=Bounds(None, None) if any(fact.addition.is_unknown for fact in facts) else bounds[key],
        )
    return result


def _fact(chunk: _Chunk) -> ColumnFacts:
    """The fact of a column of one row group."""
    values = None if chunk.nulls is None else chunk.values - chunk.nulls
    known = values == 0 or (chunk.least is not None and chunk.greatest is not None)
    bounds = Bounds(chunk.least, chunk.greatest) if known else Bounds(None, None)
    return ColumnFacts(chunk.size, values, chunk.nulls, bounds)


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum; None where one is not known."""
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


def _by_type(leaves: Mapping[str, Column]) -> dict[str, set[str]]:
    """The paths of the columns of each of DuckDB's types."""
    result: dict[str, set[str]] = {}
    for path, column in leaves.items():
        sql_type = duckdb_type(column.type)
        assert sql_type is not None  # noqa: S101 - read_table refuses others
        result.setdefault(sql_type, set()).add(path)
    return result
