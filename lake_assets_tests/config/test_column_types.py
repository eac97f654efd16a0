"""The types of columns as texts."""

import pyarrow as pa
import pytest

from lake_assets.config.column_types import arrow_type
from lake_assets.lake.schema.types import SIMPLE, sql_type

NESTED = 'STRUCT("a, ""b" DECIMAL(3,1)[], "c" MAP(VARCHAR, STRUCT("x" TIMESTAMPTZ)))[]'


@pytest.mark.parametrize("sql", [*SIMPLE.values(), "TIMESTAMPTZ", "DECIMAL(38,0)", "INTEGER[][]", NESTED])
def test_each_type_that_a_table_can_get_is_read_as_it_is_named(sql: str) -> None:
    assert sql_type(arrow_type(sql), "c") == sql


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("string", pa.string()),
        ("Text", pa.string()),
        ("timestamp  with time zone", pa.timestamp("us", "UTC")),
        ("numeric(5, 1)", pa.decimal128(5, 1)),
        ("struct(x int, y  double[])", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.float64()))])),
    ],
)
def test_a_type_may_be_written_shorter(text: str, kind: pa.DataType) -> None:
    assert arrow_type(text) == kind


@pytest.mark.parametrize(
    "text", ["", "x", "decimal", "decimal(39,0)", "decimal(2,3)", "struct()", "struct(x)", "map(int)", "map(int,int"]
)
def test_another_text_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a column type: use boolean, .*, struct\(name type, …\)"):
        arrow_type(text)


def test_a_type_of_any_depth_ends() -> None:
    with pytest.raises(ValueError, match="more than 20 nested"):
        arrow_type("map(int, " * 5000 + "int" + ")" * 5000)
