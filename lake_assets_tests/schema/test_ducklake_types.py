"""The type of a new column, the types of a file that a reader takes for the table's, and names that no column has."""

import pyarrow as pa
import pytest

from lake_assets.base.errors import SchemaError
from lake_assets.schema.annotations import is_foreign
from lake_assets.schema.ducklake_types import check_columns, is_read_as, sql_type

NS = pa.timestamp("ns")
STRUCT = pa.struct([("a", pa.int8()), ("b c", pa.string()), ("at", pa.date64())])

SQL_TYPES = {
    "BOOLEAN": [pa.bool_()],
    "TINYINT": [pa.int8(), pa.bool8()],
    "SMALLINT": [pa.int16()],
    "INTEGER": [pa.int32(), pa.null()],
    "BIGINT": [pa.int64()],
    "UTINYINT": [pa.uint8()],
    "USMALLINT": [pa.uint16()],
    "UINTEGER": [pa.uint32()],
    "UBIGINT": [pa.uint64()],
    "FLOAT": [pa.float16(), pa.float32()],
    "DOUBLE": [pa.float64()],
    "DECIMAL(5,1)": [pa.decimal32(5, 1), pa.decimal64(5, 1), pa.decimal128(5, 1), pa.decimal256(5, 1)],
    "DECIMAL(38,10)": [pa.decimal128(38, 10), pa.decimal256(38, 10)],
    "VARCHAR": [pa.string(), pa.large_string(), pa.string_view(), pa.json_(), pa.dictionary(pa.int8(), pa.string())],
    "BLOB": [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)],
    "UUID": [pa.uuid()],
    "DATE": [pa.date32(), pa.date64(), pa.dictionary(pa.int32(), pa.date32())],
    "TIME": [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    "TIMESTAMP": [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us")],
    "TIMESTAMP_NS": [NS],
    "TIMESTAMPTZ": [pa.timestamp("s", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns", "UTC")],
    "TINYINT[]": [list_of(pa.int8()) for list_of in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)]
    + [pa.list_(pa.int8(), 2)],
    'STRUCT("a" TINYINT, "b c" VARCHAR, "at" DATE)': [STRUCT],
    "MAP(VARCHAR, FLOAT)[]": [pa.list_(pa.map_(pa.large_string(), pa.float16()))],
}


@pytest.mark.parametrize(("text", "kind"), [(text, kind) for text, kinds in SQL_TYPES.items() for kind in kinds])
def test_every_type_of_the_table_is_the_type_of_a_new_column(kind: pa.DataType, text: str) -> None:
    assert sql_type(kind, "x") == text
    assert not is_foreign(kind)


@pytest.mark.parametrize(
    "kind",
    [pa.decimal128(5, -1), pa.decimal256(39, 2), pa.duration("us"), pa.month_day_nano_interval()],
)
def test_a_type_that_the_lake_lacks_is_refused_by_column(kind: pa.DataType) -> None:
    for nested in (kind, pa.list_(kind), pa.struct([("a", kind)]), pa.map_(pa.string(), kind)):
        with pytest.raises(SchemaError, match="column 'x' has the type"):
            sql_type(nested, "x")
        assert is_foreign(nested)


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
