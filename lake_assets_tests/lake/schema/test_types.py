"""Every type of the table, from a Parquet file through the lake, read by a plain client."""

import datetime as dt
import decimal
import uuid
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.errors import SchemaError
from lake_assets.lake.schema.types import check_columns, is_read_as, sql_type
from lake_assets_tests.world import NW, World

ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
INSTANT = dt.datetime(2026, 2, 11, 12, 30, tzinfo=dt.UTC)
NAIVE = dt.datetime(2026, 2, 11, 12, 30, 1)  # noqa: DTZ001 - a timestamp without a zone is what is tested
STRUCT = pa.struct([("a", pa.int8()), ("b c", pa.string())])
NESTED = pa.struct([("at", pa.timestamp("us", "UTC"))])

VALUES: list[tuple[pa.DataType, Any, str, Any]] = [
    (pa.bool_(), True, "BOOLEAN", True),
    (pa.int8(), -8, "TINYINT", -8),
    (pa.int16(), -16, "SMALLINT", -16),
    (pa.int32(), -32, "INTEGER", -32),
    (pa.int64(), -64, "BIGINT", -64),
    (pa.uint8(), 8, "UTINYINT", 8),
    (pa.uint16(), 16, "USMALLINT", 16),
    (pa.uint32(), 2**32 - 1, "UINTEGER", 2**32 - 1),
    (pa.uint64(), 2**64 - 1, "UBIGINT", 2**64 - 1),
    (pa.float16(), 1.5, "FLOAT", 1.5),
    (pa.float32(), 1.5, "FLOAT", 1.5),
    (pa.float64(), 1.1, "DOUBLE", 1.1),
    (pa.decimal128(9, 2), decimal.Decimal("1.25"), "DECIMAL(9,2)", decimal.Decimal("1.25")),
    (pa.decimal128(38, 10), decimal.Decimal("1.5"), "DECIMAL(38,10)", decimal.Decimal("1.5")),
    (pa.string(), "ü", "VARCHAR", "ü"),
    (pa.large_string(), "x", "VARCHAR", "x"),
    (pa.binary(), b"\0x", "BLOB", b"\0x"),
    (pa.binary(2), b"xy", "BLOB", b"xy"),
    (pa.date32(), dt.date(2026, 2, 11), "DATE", dt.date(2026, 2, 11)),
    (pa.date64(), dt.date(2026, 2, 11), "DATE", dt.date(2026, 2, 11)),
    (pa.time32("ms"), dt.time(1, 2, 3), "TIME", dt.time(1, 2, 3)),
    (pa.time64("us"), dt.time(1, 2, 3, 4), "TIME", dt.time(1, 2, 3, 4)),
    (pa.timestamp("ms"), NAIVE, "TIMESTAMP", NAIVE),
    (pa.timestamp("us"), NAIVE, "TIMESTAMP", NAIVE),
    (pa.timestamp("ns"), NAIVE, "TIMESTAMP_NS", NAIVE),
    (pa.timestamp("us", "UTC"), INSTANT, "TIMESTAMP WITH TIME ZONE", INSTANT),
    (pa.timestamp("ms", "Europe/Berlin"), INSTANT, "TIMESTAMP WITH TIME ZONE", INSTANT),
    (pa.uuid(), ID.bytes, "UUID", ID),
    (pa.dictionary(pa.int8(), pa.string()), "x", "VARCHAR", "x"),
    (pa.list_(pa.int32()), [1, None], "INTEGER[]", [1, None]),
    (pa.list_(pa.int32(), 2), [1, 2], "INTEGER[]", [1, 2]),
    (STRUCT, {"a": 1, "b c": "x"}, 'STRUCT(a TINYINT, "b c" VARCHAR)', {"a": 1, "b c": "x"}),
    (pa.map_(pa.string(), pa.int64()), [("k", 1)], "MAP(VARCHAR, BIGINT)", {"k": 1}),
    (pa.list_(NESTED), [{"at": INSTANT}], 'STRUCT("at" TIMESTAMP WITH TIME ZONE)[]', [{"at": INSTANT}]),
    (pa.null(), None, "INTEGER", None),
]  # fmt: skip


@pytest.mark.parametrize("encrypted", [False, True], ids=["registered", "inserted"])
def test_every_type_of_the_table_reaches_the_lake_and_is_read_back(local_world: World, *, encrypted: bool) -> None:
    local_world.lake_options = {"attach_options": {"encrypted": encrypted}}
    columns = {
        f"c{i}": pa.array([value, None], data_type) if data_type != pa.uuid() else uuids(value)
        for i, (data_type, value, *_) in enumerate(VALUES)
    }
    local_world.land(NW, pa.table(columns))
    local_world.ingest(NW)
    local_world.land(NW, pa.table(columns), "again.parquet")
    local_world.ingest(NW)

    described = {name: kind for name, kind, *_ in local_world.query("DESCRIBE lake.sales")}
    assert [described[name] for name in columns] == [sql for *_, sql, _ in VALUES]
    names = ", ".join(columns)
    first, *_ = local_world.query(f"SELECT {names} FROM lake.sales ORDER BY c4")
    assert list(first) == [read for *_, read in VALUES]


def uuids(value: bytes) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([value, None], pa.binary(16)))


@pytest.mark.parametrize("data_type", [pa.decimal256(50, 2), pa.duration("us"), pa.month_day_nano_interval()], ids=str)
def test_a_type_that_the_lake_lacks_is_refused_by_column(data_type: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="column 'x' has the type"):
        sql_type(data_type, "x")
    with pytest.raises(SchemaError, match="column 'x' has the type"):
        sql_type(pa.list_(data_type), "x")


NS = pa.timestamp("ns")


@pytest.mark.parametrize(
    ("source", "target", "registered"),
    [
        (NS, NS, True),
        (NS, pa.timestamp("us"), False),
        (pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC"), False),
        (pa.timestamp("ms"), pa.timestamp("us"), True),
        (pa.float16(), pa.float32(), False),
        (pa.float32(), pa.float64(), False),
        (pa.time32("ms"), pa.time64("us"), False),
        (pa.time64("ns"), pa.time64("us"), False),
        (pa.time64("us"), pa.time64("us"), True),
        (pa.json_(), pa.string(), False),
        (pa.uuid(), pa.binary(16), False),
        (pa.uuid(), pa.uuid(), True),
    ],
    ids=str,
)
def test_a_type_that_readers_truncate_or_refuse_is_not_registered(
    source: pa.DataType, target: pa.DataType, *, registered: bool
) -> None:
    assert is_read_as(source, target) == registered
    assert is_read_as(pa.list_(source), pa.list_(target)) == registered
    assert is_read_as(pa.struct([("a", source)]), pa.struct([("a", target)])) == registered
    assert is_read_as(pa.map_(pa.string(), source), pa.map_(pa.string(), target)) == registered


@pytest.mark.parametrize(("names", "match"), [(["a\0b"], "SQL cannot have"), (["a", "A"], "'a' and 'A'")])
def test_names_that_cannot_be_columns_are_refused(names: list[str], match: str) -> None:
    with pytest.raises(SchemaError, match=match):
        check_columns(pa.schema([(name, pa.int8()) for name in names]), "the file f")


def test_a_reserved_word_may_be_a_column(local_world: World) -> None:
    local_world.land(NW, pa.table({"at": [1], "select": ["x"]}))
    local_world.ingest(NW)

    assert local_world.query('SELECT "at", "select" FROM lake.sales') == [(1, "x")]
