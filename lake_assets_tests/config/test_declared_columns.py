"""The columns that a stream declares, as the config has them."""

import pytest

from lake_assets.config.streams import Stream
from lake_assets.errors import ConfigError
from lake_assets_tests.config.test_load import GOOD, parsed


def stream(columns: str, more: str = "") -> Stream:
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
        ("{a: {kind: text}}", "", "columns.a.kind: unknown key"),
        ("{a: x, A: y}", "", "columns.a and columns.A differ only in the case of their letters: remove one"),
        ("{a: {omit: true, type: int, from: b}}", "", "columns.a: omit leaves the column out: remove from, type"),
        ("{a: {from: X}, b: {from: x}}", "", "columns.a and columns.b are both from 'x': remove one of them"),
        ("{a: {from: b}}", "    mode: index\n", "columns.a: mode: index registers files as they are: remove from, or"),
        ("{Region: {type: string}}", "", "can have a description only, because partitions decides the rest: remove t"),
        ("{a: {type: time}}", "    format: csv\n", "columns.a.type: time is not read from csv: declare string, and"),
        ('{a: {type: "int[]"}}', "    format: csv\n", r"columns.a.type: int\[\] is not read from csv"),
        ('{a: {type: "struct(x uuid)"}}', "    format: json\n", "is not read from json"),
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


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("{default: 1}", "columns.a: default needs the column's type: add type"),
        ("{format: '0,0'}", "columns.a: format needs the column's type: add type"),
        ("{type: integer, default: x}", "columns.a: default 'x' is no int32"),
        ("{type: 'decimal(4,2)', default: 123.456}", r"default 123.456 is no decimal128\(4, 2\)"),
        ("{type: date, default: 11.02.2026}", "default '11.02.2026' is no date32"),
        ("{type: date, format: dd.mm.yyyy}", "format 'dd.mm.yyyy' has no directive of strptime: write one such as"),
        ("{type: double, format: '%d'}", "'%d' is no format of numbers: write one such as '#,##0.00'"),
        ("{type: varchar, format: '0.0'}", "as a number or a time, not as varchar: remove format"),
    ],
)
def test_a_default_or_a_format_that_is_not_of_the_type_is_refused(column: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stream(f"{{a: {column}}}")


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
