"""The columns that a stream declares, as the config has them, and their types as texts."""

import pyarrow as pa
import pytest

from lake_assets.base.errors import ConfigError
from lake_assets.config.column_types import arrow_type
from lake_assets.config.streams import StreamConfig
from lake_assets.schema.ducklake_types import SIMPLE, sql_type
from lake_assets_tests.config.test_load import GOOD, parsed


def stream(columns: str, more: str = "") -> StreamConfig:
    return parsed(f"{GOOD}    columns: {columns}\n{more}").streams["sales"]


def test_a_column_is_a_description_or_has_keys() -> None:
    found = stream('{a: Gross, b: 1, c: true, "Total, net": {type: "decimal(12,2)", description: Net}, region: Where}')

    texts = {"a": "Gross", "b": "1", "c": "true", "Total, net": "Net", "region": "Where"}
    assert found.column_descriptions == texts
    assert found.declared["Total, net"].type == "decimal(12,2)"


@pytest.mark.parametrize(
    ("columns", "more", "message"),
    [
        ("{a: {type: money}}", "", "columns.a.type: 'money' is not a column type: use boolean"),
        ("{a: x, A: y}", "", "columns.a and columns.A differ only in the case of their letters: remove one"),
        ("{a: {omit: true, type: int, from: b}}", "", "columns.a: omit leaves the column out: remove from, type"),
        ("{a: {from: X}, b: {from: x}}", "", "columns.a and columns.b are both from 'x': remove one of them"),
        ("{a: {from: b}}", "    mode: index\n", "columns.a: mode: index registers files as they are: remove from, or"),
        ("{Region: {type: string}}", "", "can have a description only, because partitions decides the rest: remove t"),
        ("{a: {type: time}}", "    format: csv\n", "columns.a.type: time is not read from csv: declare string, and"),
        ('{a: {type: "struct(x uuid)"}}', "    format: json\n", "is not read from json"),
        ("{a: {default: 1}}", "", "columns.a: default needs the column's type: add type"),
        ("{a: {format: '0,0'}}", "", "columns.a: format needs the column's type: add type"),
        ("{a: {type: 'decimal(4,2)', default: 123.456}}", "", r"default 123.456 is no decimal128\(4, 2\)"),
        ("{a: {type: date, default: 11.02.2026}}", "", "default '11.02.2026' is no date32"),
        (
            "{a: {type: date, format: dd.mm.yyyy}}",
            "",
            "format 'dd.mm.yyyy' has no directive of a day or an hour: write",
        ),
        ("{a: {type: date, format: '%Y-%j'}}", "", "format '%Y-%j' has %j, which is not read: write %Y, %y"),
        ("{a: {type: timestamptz, format: '%f%z'}}", "", "format '%f%z' has no directive of a day or an hour"),
        ("{a: {type: time, format: '%F %T'}}", "", "has %F, which a TIME has not: declare a TIMESTAMP"),
        ("{a: {type: timestamp, format: '%F %T%z'}}", "", "has %z, an offset from UTC, so only a TIMESTAMPTZ is read"),
        ("{a: {type: timestamp, format: '%T %f %f'}}", "", "format '%T %f %f' has %f and %f: remove one"),
        ("{a: {type: date, format: '%F %d'}}", "", "format '%F %d' has %F and %d: remove one"),
        ("{a: {type: double, format: '%d'}}", "", "'%d' is no format of numbers: write one such as '#,##0.00'"),
        ("{a: {type: varchar, format: '0.0'}}", "", "as a number or a time, not as varchar: remove format"),
    ],
)
def test_what_a_declared_column_cannot_be_is_refused_with_the_fix(columns: str, more: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stream(columns, more)


def test_a_column_that_partitions_come_from_keeps_its_name() -> None:
    text = GOOD.replace("date: {type: date,", "date: {type: date, from: sold, in: rows,")
    told = "partitions reads the landed column sold by its name: remove from and omit"
    for columns in ("{Sold: {omit: true}}", "{at: {from: sold}}"):
        with pytest.raises(ConfigError, match=told):
            parsed(f"{text}    columns: {columns}\n")


def test_a_default_is_a_value_of_its_type() -> None:
    defaults = {
        "integer": 3,
        "boolean": True,
        "decimal(4,2)": 1.5,
        "date": "2026-02-11",
        "varchar": 7,
        "integer[]": [1],
    }
    for kind, value in defaults.items():
        assert stream(f"{{a: {{type: '{kind}', default: {value}}}}}").declared["a"].default is not None, kind


NESTED = 'STRUCT("a, ""b" DECIMAL(3,1)[], "c" MAP(VARCHAR, STRUCT("x" TIMESTAMPTZ)))[]'


def test_each_type_that_a_table_can_get_is_read_as_it_is_named_or_shorter() -> None:
    for sql in (*SIMPLE.values(), "TIMESTAMPTZ", "DECIMAL(38,0)", "INTEGER[][]", NESTED):
        assert sql_type(arrow_type(sql), "c") == sql
    assert arrow_type("string") == arrow_type("Text") == pa.string()
    assert arrow_type("timestamp  with time zone") == pa.timestamp("us", "UTC")
    assert arrow_type("numeric(5, 1)") == pa.decimal128(5, 1)
    struct = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.float64()))])
    assert arrow_type("struct(x int, y  double[])") == struct


@pytest.mark.parametrize("text", ["", "x", "decimal(39,0)", "decimal(2,3)", "struct(x)", "map(int,int"])
def test_another_text_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a column type: use boolean, .*, struct\(name type, …\)"):
        arrow_type(text)


def test_a_type_of_any_depth_ends() -> None:
    with pytest.raises(ValueError, match="more than 20 nested"):
        arrow_type("map(int, " * 5000 + "int" + ")" * 5000)
