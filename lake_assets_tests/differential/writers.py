"""The writers of landed files: pyarrow, DuckDB's COPY, polars and Spark, each with settings of its own."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as t

Write = Callable[[random.Random, pa.Table, Path], None]


def by_pyarrow(chosen: random.Random, table: pa.Table, file: Path) -> None:
    """With settings that change the physical types, the statistics and the pages."""
    # DuckDB reads nanoseconds of INT96 as microseconds, and version 1.0 has none but of INT96.
    has_nanoseconds = "[ns" in str(table.schema)
    of_microseconds: list[dict[str, Any]] = [
        {"flavor": "spark"},
        {"use_deprecated_int96_timestamps": True, "store_schema": False},
        {"version": "1.0"},
    ]
    options: dict[str, Any] = chosen.choice(
        [
            {},
            {},
            *([] if has_nanoseconds else of_microseconds),
            {"write_statistics": False},
            {"use_dictionary": False, "data_page_version": "2.0", "store_schema": False},
            {"store_decimal_as_integer": True, "use_compliant_nested_type": False},
            {"write_page_index": True, "data_page_size": 64},
        ]
    )
    codec = chosen.choice(["snappy", "zstd", "gzip", "none", "lz4"])
    pq.write_table(table, file, **options, row_group_size=row_group(chosen, table), compression=codec)


def row_group(chosen: random.Random, table: pa.Table) -> int | None:
    """The rows of a row group; None for all."""
    sizes: list[int | None] = [None, None, 2, max(1, table.num_rows // 2)]
    has_views = any("_view" in str(f.type) and t.is_nested(f.type) for f in table.schema)
    return None if has_views else chosen.choice(sizes)  # Arrow cannot slice a view within another type


def by_duckdb(chosen: random.Random, table: pa.Table, file: Path) -> None:
    """A COPY, in the two versions of pages, which have other encodings."""
    version, codec = chosen.choice(["V1", "V2"]), chosen.choice(["snappy", "zstd", "gzip", "uncompressed"])
    with duckdb.connect(config={"threads": 1}) as client:
        client.execute("SET TimeZone = 'UTC'")
        client.register("landed", table)
        client.execute(f"COPY landed TO '{file}' (FORMAT parquet, PARQUET_VERSION {version}, COMPRESSION {codec})")


def by_polars(chosen: random.Random, table: pa.Table, file: Path) -> None:
    """With statistics of some kinds."""
    statistics: list[bool | str | dict[str, bool]]
    statistics = [True, True, "full", False, {"min": True, "max": True, "null_count": False}]
    pl.DataFrame(pl.from_arrow(table)).write_parquet(
        file,
        compression=chosen.choice(["snappy", "zstd", "uncompressed"]),
        statistics=chosen.choice(statistics),
        row_group_size=row_group(chosen, table),
        use_pyarrow=False,
    )


WRITERS: Mapping[str, Write] = {"pyarrow": by_pyarrow, "duckdb": by_duckdb, "polars": by_polars}


def can_write(writer: str, kind: pa.DataType) -> bool:
    """Whether a writer has a type."""
    if t.is_nested(kind) and not t.is_dictionary(kind):
        children = [kind.field(number).type for number in range(kind.num_fields)]
        item = kind.item_type if t.is_map(kind) else kind.value_type if t.is_list(kind) else None
        if writer == "pyarrow" and item is not None and t.is_struct(item) and "_view" in str(item):
            return False  # Arrow slices a struct within a list or a map, and cannot slice a view
        if writer == "duckdb" and any(map(t.is_dictionary, children)):
            return False  # DuckDB cannot scan one without values
        return (writer != "polars" or not t.is_map(kind)) and all(can_write(writer, child) for child in children)
    if writer == "duckdb":
        return not (t.is_float16(kind) or t.is_decimal256(kind) or kind == pa.bool8())
    if writer == "polars":
        return not (isinstance(kind, pa.BaseExtensionType) or t.is_decimal256(kind) or t.is_fixed_size_binary(kind))
    return True
