"""The types of columns as texts."""

import pyarrow as pa
import pytest

from lake_assets.config.column_types import arrow_type
from lake_assets.lake.schema.types import SIMPLE, sql_type

NESTED = 'STRUCT("a, ""b" DECIMAL(3,1)[], "c" MAP(VARCHAR, STRUCT("x" TIMESTAMPTZ)))[]'


def test_each_type_that_a_table_can_get_is_read_as_it_is_named() -> None:
    for sql in (*SIMPLE.values(), "TIMESTAMPTZ", "DECIMAL(38,0)", "INTEGER[][]", NESTED):
        assert sql_type(arrow_type(sql), "c") == sql


def test_a_type_may_be_written_shorter() -> None:
    assert arrow_type("string") == arrow_type("Text") == pa.string()
    assert arrow_type("timestamp  with time zone") == pa.timestamp("us", "UTC")
    assert arrow_type("numeric(5, 1)") == pa.decimal128(5, 1)
    struct = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.float64()))])
    assert arrow_type("struct(x int, y  double[])") == struct


@pytest.mark.parametrize("text", ["", "x", "decimal", "decimal(39,0)", "decimal(2,3)", "struct(x)", "map(int,int"])
def test_another_text_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a column type: use boolean, .*, struct\(name type, …\)"):
        arrow_type(text)


def test_a_type_of_any_depth_ends() -> None:
    with pytest.raises(ValueError, match="more than 20 nested"):
        arrow_type("map(int, " * 5000 + "int" + ")" * 5000)
