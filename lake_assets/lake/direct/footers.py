"""What the footers of Parquet files say, as DuckLake's catalog keeps it of every data file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from lake_assets.lake.direct.bounds import Bounds, duckdb_type, merged
from lake_assets.lake.direct.database import NotDirectError
from lake_assets.lake.direct.table import Column
from lake_assets.lake.engine import glob_literal


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column of one file."""

    size: int  # bytes, compressed
    values: int  # that are not NULL
    nulls: int
    bounds: Bounds

    @property
    def has_unknown_bounds(self) -> bool:
        """Whether there are values, and the file does not say between which."""
        return self.values > 0 and (self.bounds.least is None or self.bounds.greatest is None)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One data file."""

    uri: str
    rows: int
    size: int  # bytes
    footer_size: int  # bytes
    columns: Mapping[int, ColumnFacts]  # by column id


def read_footers(
    engine: duckdb.DuckDBPyConnection, uris: Sequence[str], leaves: Mapping[str, Column]
) -> list[FileFacts]:
    """The facts of these files, in their order.

    Args:
        engine: has the extension and the secret for the files' store.
        uris: the files.
        leaves: the columns that each of them must have, by Parquet's path of them.

    Raises:
        NotDirectError: a file has other columns, or no count of a column's NULLs.
        duckdb.Error: a file is absent or is no Parquet file.
    """
    # One opening of each file; `parquet_metadata` and `parquet_file_metadata` would take one each.
    rows = engine.execute(
        "SELECT f.file_name, f.num_rows, f.file_size_bytes, f.footer_size, c.path_in_schema, c.total_compressed_size, "
        "c.num_values, c.stats_null_count, c.stats_min_value, c.stats_max_value FROM "
        "(SELECT parquet_file_metadata[1] AS f, unnest(parquet_metadata) AS c FROM parquet_full_metadata(?))",
        [[glob_literal(uri) for uri in uris]],
    ).fetchall()
    files = {uri: (num_rows, size, footer_size) for uri, num_rows, size, footer_size, *_ in rows}
    chunks: dict[tuple[str, str], list[_Chunk]] = {}
    for uri, _, _, _, path, *chunk in rows:
        chunks.setdefault((uri, path), []).append(_Chunk(*chunk))
        if chunks[uri, path][-1].nulls is None:
            raise NotDirectError(f"{uri} does not say how often column {path} is NULL")
    expected = {(uri, path) for uri in uris for path in leaves}
    if chunks.keys() != expected:
        odd = min(chunks.keys() ^ expected)
        raise NotDirectError(f"column {odd[1]} is not both in the table and in {odd[0]}")
    columns = _columns(engine, chunks, leaves)
    return [
        FileFacts(uri, *files[uri], {c.column_id: columns[uri, path] for path, c in leaves.items()}) for uri in uris
    ]


class _Chunk(NamedTuple):
    """A column in one row group."""

    size: int
    values: int  # NULLs too
    nulls: int
    least: str | None
    greatest: str | None


def _columns(
    engine: duckdb.DuckDBPyConnection, chunks: Mapping[tuple[str, str], Sequence[_Chunk]], leaves: Mapping[str, Column]
) -> dict[tuple[str, str], ColumnFacts]:
    """The facts by file and path, all row groups together."""
    result = {}
    bounds: dict[tuple[str, str], Bounds] = {}
    for sql_type, paths in _by_type(leaves).items():
        of_type = ((key, Bounds(c.least, c.greatest)) for key in chunks if key[1] in paths for c in chunks[key])
        bounds |= merged(engine, sql_type, of_type)
    for key, found in chunks.items():
        nulls = sum(chunk.nulls for chunk in found)
        known = all(None not in (chunk.least, chunk.greatest) for chunk in found if chunk.values > chunk.nulls)
        result[key] = ColumnFacts(
            size=sum(chunk.size for chunk in found),
            values=sum(chunk.values for chunk in found) - nulls,
            nulls=nulls,
            bounds=bounds[key] if known else Bounds(None, None),
        )
    return result


def _by_type(leaves: Mapping[str, Column]) -> dict[str, set[str]]:
    """The paths of the columns of each of DuckDB's types."""
    result: dict[str, set[str]] = {}
    for path, column in leaves.items():
        sql_type = duckdb_type(column.type)
        assert sql_type is not None  # noqa: S101 - read_table refuses others
        result.setdefault(sql_type, set()).add(path)
    return result
