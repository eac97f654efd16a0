"""Ours and OLake's paths side by side: each cell of the table of docs/layout.md."""

import datetime as dt
import json

import pytest

from lake_assets.base.errors import LayoutError
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.config.layout.template import Compat, Template
from lake_assets_tests.config.layout.olake_cells import CELLS

NOW = dt.datetime(2026, 2, 11, 9, 30, tzinfo=dt.UTC)


def rendered(text: str, values: dict[str, object], compat: Compat | None) -> str:
    try:
        return Template.parse(text, compat=compat).render_row(values, now=NOW)
    except LayoutError:
        return "error"


@pytest.mark.parametrize(("text", "value", "ours", "theirs"), CELLS, ids=str)
def test_a_row_of_the_table_holds(text: str, value: str, ours: str, theirs: str) -> None:
    values = {} if value == "missing" else {"v": json.loads(value)}
    assert [rendered(text, values, compat) for compat in (None, "olake")] == [ours, theirs]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (dt.datetime(2026, 2, 11, 9, 30, 0, 120_000, tzinfo=dt.UTC), "2026-02-11 09:30:00.12 +0000 UTC"),
        (dt.datetime(2026, 2, 11, 9, 30), "2026-02-11 09:30:00 +0000 UTC"),  # noqa: DTZ001
        (1e21, "1e+21"),
        (0.0001, "0.0001"),
        (0.0, "0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Inf"),
    ],
)
def test_a_value_is_printed_as_go_prints_it(value: object, text: str) -> None:
    assert Template.parse("{v,,}", compat="olake").render_row({"v": value}) == text


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (0, "1970-01-01"),
        (-1, "1969-12-31"),
        (1770800000000, "9999-06-01"),  # milliseconds taken for seconds: year 58084, which becomes 9999
        (-(10**15), "1970-01-01"),
        (True, "true-true-true"),
        ("999-01-01", "999-01-01-999-01-01-999-01-01"),
        ("0999-01-01", "999-01-01"),
        ("2026-02-11 soon", "1970-01-01"),
    ],
)
def test_the_parts_of_a_value_are_those_of_the_reference(value: object, path: str) -> None:
    assert Template.parse("{v,,YYYY}-{v,,MM}-{v,,DD}", compat="olake").render_row({"v": value}) == path


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ("/{a,,}/{b,,}", "x/y/part.parquet", {"a": "x", "b": "y"}),
        ("{a,,}", "Hi/my name is / priyansh/part.parquet", {"a": "Hi%2Fmy name is %2F priyansh"}),
        ("age={a,,}", "age=default_a/part.parquet", {"a": HIVE_NULL}),
        ("{t,,YYYY}-{t,,MM}", "999-01/part.parquet", {"t": "0999-01"}),
        ("{t,,YYYY}/{t,,WW}", "2021/53/part.parquet", {"t": "2021-W53"}),
        ("/dt={now(),,YY}-{now(),06,MM}/c={a,,}", "dt=2026-02/c=x/part.parquet", {"dt": "2026-02", "a": "x"}),
        ("dt={now(),,YY}/dt={now(),,MM}", "dt=2026/dt=02/part.parquet", {"dt": "2026"}),
        ("a={a,,}", "a=%41/part.parquet", {"a": "%2541"}),
        ("{t,,YYYY}-{t,,MM}", "soon-soon/part.parquet", None),
        ("{a,,}/{b,,}", "x/part.parquet", {"a": "x", "b": ""}),
        ("{a,,}/{t,,YY}-{t,,MM}/{b,,}", "2026-02/y/part.parquet", {"a": "", "t": "2026-02", "b": "y"}),
        ("{a,,}/{t,,YY}-{t,,MM}/{b,,}", "part.parquet", None),
        ("/c={a,,}/s={b,,}", "c=/s=/part.parquet", {"a": "", "b": ""}),
    ],
)
def test_a_path_of_the_reference_is_read(text: str, path: str, found: dict[str, str] | None) -> None:
    assert Template.parse(text, compat="olake").match(path) == found


@pytest.mark.parametrize(
    ("text", "texts", "prefix"),
    [
        ("/age={a,unknown,}/{b,,}", {"a": HIVE_NULL, "b": "x"}, "age=unknown/x/"),
        ("{t,,YYYY}/{t,,MM}", {"t": "0999-02"}, "999/02/"),
        ("{t,,YYYY}/{t,,WW}", {"t": "2021-01-01"}, "2021/53/"),
        ("a//{a,,}", {"a": "b%2Fc"}, "a/b/c/"),
        ("{a,,}-{b,,}", {"a": "x"}, ""),
        ("/c={a,,}/s={b,,}", {"a": "", "b": "x"}, "c=/s=x/"),
        ("{a,,}/{b,,}", {"a": "", "b": "x"}, "x/"),
    ],
)
def test_a_partition_of_the_reference_is_listed(text: str, texts: dict[str, str], prefix: str) -> None:
    assert Template.parse(text, compat="olake").prefix(texts) == prefix


def test_a_prefix_outside_the_source_is_refused() -> None:
    with pytest.raises(LayoutError, match="outside the source"):
        Template.parse("{a,,}", compat="olake").prefix({"a": "%2E%2E%2Fb"})


def test_a_text_that_is_no_time_is_written_where_another_placeholder_has_the_whole_value() -> None:
    template = Template.parse("{ts,,YY}/{ts,,}", compat="olake")
    assert template.prefix({"ts": "abc"}).rstrip("/") == "abc/abc"
