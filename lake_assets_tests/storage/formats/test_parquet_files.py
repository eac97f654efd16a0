"""INT96 timestamps are read exactly, or refused."""

import base64
import datetime as dt
import io
import json
import zlib
from collections.abc import Callable, Collection
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import SchemaError
from lake_assets.storage.formats.parquet_files import ParquetRows

MICROS, NANOS = pa.timestamp("us"), pa.timestamp("ns")
TIMES = [
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001 - INT96 has no zone
    dt.datetime(1, 1, 1),  # noqa: DTZ001
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
    dt.datetime(2026, 2, 11, 12, 30, 0, 1),  # noqa: DTZ001
    None,
]
DEEP = pa.struct([("n", pa.int8()), ("x", pa.large_list(MICROS))])


def opened(rows: pa.Table, **writer: Any) -> ParquetRows:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, **{"use_deprecated_int96_timestamps": True} | writer)
    return ParquetRows(pa.BufferReader(buffer.getvalue()), "the object x")


def read(parquet: ParquetRows, *columns: str, nanos: Collection[str] = ()) -> pa.Table:
    groups = range(parquet.parquet.num_row_groups)
    with mock.patch("lake_assets.storage.formats.parquet_files.BATCH_ROWS", 2):
        return pa.Table.from_batches([b for group in groups for b in parquet.batches(group, columns, nanos=nanos)])


NESTED = {
    "plain": pa.array(TIMES, MICROS),
    "with.dot": pa.array(TIMES, MICROS),
    "list": pa.array([[time, None] for time in TIMES], pa.list_(MICROS)),
    "pairs": pa.array([[time, time] for time in TIMES], pa.list_(MICROS, 2)),
    "map": pa.array([[("k", time)] for time in TIMES], pa.map_(pa.string(), MICROS)),
    "deep": pa.array([{"n": 1, "x": [time]} for time in TIMES], DEEP),
}


@pytest.mark.parametrize("writer", [{}, {"flavor": "spark"}, {"store_schema": False}, {"row_group_size": 3}], ids=str)
def test_int96_is_read_as_microseconds_however_far_and_deep(writer: dict[str, Any]) -> None:
    table = pa.table({"id": range(5), **NESTED})
    parquet = opened(table, **writer)

    result = read(parquet, *parquet.schema.names)

    assert result.schema == parquet.schema
    assert len(parquet.int96) == len(NESTED)
    assert "id" not in parquet.int96
    assert result.to_pylist() == table.rename_columns(result.schema.names).to_pylist()


def test_int96_has_no_zone_as_duckdb_reads_it() -> None:
    for zone in (None, "UTC", "America/New_York"):
        rows = pa.table({"t": pa.array(TIMES, pa.timestamp("us", zone))})
        assert opened(rows).schema.field("t").type == MICROS


@pytest.mark.parametrize("name", NESTED)
def test_finer_values_are_refused_by_column(name: str) -> None:
    nested: dict[str, tuple[pa.DataType, Callable[[Any], Any]]] = {
        "list": (pa.list_(NANOS), lambda time: [None, time]),
        "pairs": (pa.list_(NANOS, 2), lambda time: [time, time]),
        "map": (pa.map_(pa.string(), NANOS), lambda time: [("k", time)]),
        "deep": (pa.struct([("n", pa.int8()), ("x", pa.large_list(NANOS))]), lambda time: {"n": 1, "x": [time]}),
    }
    kind, wrapped = nested.get(name, (NANOS, lambda time: time))
    rows = pa.array([wrapped(time) for time in pa.array([1_000, -999], NANOS).to_pylist()], kind)
    parquet = opened(pa.table({"id": [1, 2], name: rows}))

    assert read(parquet, "id").num_rows == 2
    with pytest.raises(SchemaError, match=rf"column '{name}' of the object x is INT96 .* less than a microsecond"):
        read(parquet, name)
    assert read(parquet, name, nanos=[name]).column(name).combine_chunks().cast(rows.type).equals(rows)


def test_a_value_beyond_the_years_of_the_column_or_of_any_is_refused() -> None:
    parquet = opened(pa.table({"t": pa.array(TIMES, MICROS)}))
    with pytest.raises(SchemaError, match="'t' of the object x is INT96 and has a value outside the years 1677 to"):
        read(parquet, "t", nanos=["t"])
    parquet = opened(pa.table({"t": pa.array([2**52], pa.timestamp("s"))}))
    with pytest.raises(SchemaError, match="column 't' of the object x is INT96 and has a value of a year"):
        read(parquet, "t")


def test_a_file_that_is_registered_as_it_is_has_no_int96_and_other_timestamps_are_left_alone() -> None:
    other = opened(pa.table({"t": pa.array([1], NANOS)}), use_deprecated_int96_timestamps=False)
    other.refuse_misread()
    assert read(other, "t").column("t").cast(pa.int64()).to_pylist() == [1]
    with pytest.raises(SchemaError, match=r"column 'deep' of the object x is an INT96 .*outputTimestampType.*replace"):
        opened(pa.table({"id": range(5), "deep": NESTED["deep"]})).refuse_misread()


def renamed(rows: pa.Table, old: bytes, new: bytes) -> ParquetRows:
    """A file in whose schema a group has another name of the same length."""
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, store_schema=False, compression="none")
    return ParquetRows(pa.BufferReader(buffer.getvalue().replace(old, new)), "the object x")


LISTS = {
    "plain": pa.array([[1, None]]),
    "struct": pa.array([{"a.b": 1, "x": [[1]]}]),
    "map": pa.array([[("k", [{"y": 1}])]], pa.map_(pa.string(), pa.list_(pa.struct([("y", pa.int64())])))),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_whose_group_is_not_called_list_are_refused_where_ducklake_reads_them(name: str) -> None:
    rows = pa.table({"a.b": [1], name: LISTS[name]})
    with pytest.raises(SchemaError, match=rf"column '{name}' of the object x has a list in .* old form \(.*bagg"):
        renamed(rows, b"list", b"bagg").refuse_misread()

    renamed(rows, b"element", b"my_item").refuse_misread()
    renamed(rows, b"key_value", b"map_items").refuse_misread()
    opened(rows, use_compliant_nested_type=False).refuse_misread()


# SELECT 1L AS id, array(struct(1 AS y)) AS v, as Spark writes it with writeLegacyFormat, compressed by zlib.
OF_SPARK = (
    "eNqFU81q20AQHm0co0MoKXgXLehgRG1iUIXlP6XGBJpTMSUE01tbyspeuyKS7EiyizF+gdJDDz30kGOPzVv0KXrqpS/QJ+hIcmyXlkaI1ew33/"
    "fN7Cy6fDqwKdBjWqK/ft78eKBTgluVqgCqrkD+IFKmj+jX2/e3JCcUaRHguEcweQDZqqRk/pBwTb2T7YWUcLZJFzJi/slgXkUDrjOVnjPIoj4d"
    "sDz76tlRPBPR1Zt4+FYGghaAFiqgEW8EbdCUBTZTfN5DbrugHYooEktKUIcUZQmMcJ2bVdBpgVdA5amMEkbYGTuvqr1dd7uIwck/UOyJpkMggK"
    "XYR0JL7EahZ5BaE14pAj9VFnl5ZZlVuGCDar+XHzJf0Xlvt+dYS48P7Evq+l2hHWAfFEaqKvuklJBnato0mlhiJnACVjYMayGj2JuG2mHLalg2"
    "aLW/GPG1b2FwPZeJFU3fWYFMxEgkQvtMVkaynEmja8RJNB8mhmmMPemPYqP7cmWEIkhT3gjhDc2fhhPchXPfF66PyFj4sTSNO0uju1qvza10sV"
    "VuC2WDQVj6MpBh8uLP7H/aWO668MJETmR0byOv16YxnIaJ8ML4Apkb1vp+HWj9zcQeB1F5M+KybdmOVS+fuHPPH5XHYlgfOq1Ou9mQdrPpSvdJ"
    "41Q4445wZNtx23bdbTmOsGvc1AHwhW94uZf4j/0G51i+9Q=="
)


def test_a_list_of_structs_without_a_group_between_is_refused_where_ducklake_reads_it() -> None:
    parquet = ParquetRows(pa.BufferReader(zlib.decompress(base64.b64decode(OF_SPARK))), "the object x")

    assert read(parquet, "v").to_pylist() == [{"v": [{"y": 1}]}]
    with pytest.raises(SchemaError, match=r"column 'v' of the object x has a list in .* old form \(v.array.y\)"):
        parquet.refuse_misread()


def test_a_page_that_is_not_that_of_its_checksum_is_damaged() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": ["abc"]}), sink, use_dictionary=False, compression="none", write_page_checksum=True)
    body = sink.getvalue().replace(b"abc", b"abd")
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        list(ParquetRows(pa.BufferReader(body), "it").batches(0, ["x"]))


def test_rows_that_arrow_leaves_out_are_an_error() -> None:
    lists = pa.table({"list": pa.array([[1, 2]], pa.list_(pa.int64()))})

    with pytest.raises(pa.ArrowInvalid, match="reads 0 of the 1 rows of row group 0"):
        read(opened(lists, data_page_size=1), "list")  # the chunk begins with an empty page


def file_of(rows: pa.Table, **writer: Any) -> pa.NativeFile:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, **writer)
    return pa.BufferReader(buffer.getvalue())


def wkb_of(rows: pa.Table) -> pa.Table:
    columns = {"x": {"encoding": "WKB"}}
    return rows.replace_schema_metadata({"geo": json.dumps({"columns": columns})})


X = pa.table({"x": pa.array([b"1"])})
VARIANT = {"metadata": b"1", "value": b"1"}
OTHERS = {
    "the same": (X, X, True),
    "other rows": (X, pa.table({"x": pa.array([None, b"2"], pa.binary())}), True),
    "another name": (X, X.rename_columns(["y"]), False),
    "another type": (X, pa.table({"x": ["1"]}), False),
    "Arrow's type only": (X, X.cast(pa.schema([("x", pa.large_binary())])), False),
    "a further column": (X, X.append_column("y", X["x"]), False),
    "geometries": (X, wkb_of(X), False),
    "not geometries": (wkb_of(X), X, False),
    "structs": (pa.table({"x": [VARIANT]}), pa.table({"x": [VARIANT, None]}), False),
    "times of day": (pa.table({"x": [dt.time(1)]}), pa.table({"x": [dt.time(2)]}), False),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_columns_are_worked_out_again_unless_they_are_certainly_those_of_the_file_before(case: str) -> None:
    before, rows, is_same = OTHERS[case]
    first = ParquetRows(file_of(before), "the object x")

    known = ParquetRows(file_of(rows), "the object y", like=first.columns)
    alone = ParquetRows(file_of(rows), "the object y")

    assert (known.columns is first.columns) == is_same
    assert known.schema == alone.schema
    assert known.int96 == alone.int96


def test_int96_is_seen_behind_a_file_with_plain_timestamps() -> None:
    rows = pa.table({"x": pa.array(TIMES, MICROS)})
    plain = ParquetRows(file_of(rows, store_schema=False), "the object x")

    old = ParquetRows(
        file_of(rows, store_schema=False, use_deprecated_int96_timestamps=True), "the object y", like=plain.columns
    )

    assert old.int96 == {"x"}
    assert read(old, "x")["x"].to_pylist() == TIMES
