"""Columns in the names of files: the pattern reads each name of which it was made."""

import pytest

from lake_assets.importers.file_names import columns
from lake_assets.layout.template import Template


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["sales_2026-02-11_NW", "sales_2026-02-11_SW"], "sales_{date}_{name_2}"),
        (["sales_2026-02-11_NEW YORK", "sales_2026-02-11_a_b", "sales_2026-02-12_NW"], "sales_{date}_{name_2}"),
        (["NEW_YORK_2026-02-11", "NW_2026-02-12"], "{name_1}_{date,,YYYY}-{date,,MM}-{date,,DD}"),
        (["sales_2026_02_11_0", "sales_2026_02_12_0"], "sales_{date,,YYYY}_{date,,MM}_{date,,DD}_*"),
        (["sales-2026-02-11-NW", "sales-2026-02-11-SW"], "sales-{date,,YYYY}-{date,,MM}-{date,,DD}-{name_2}"),
        (["s_2026-02-11", "s_2026-02-12_2"], "s_{date,,YYYY}-{date,,MM}-{date,,DD}*"),
        (["a8f3-20260211-x", "7c-20260212-x"], "*-{date,,YYYY}{date,,MM}{date,,DD}-x"),
        (["tripdata_2024-01", "tripdata_2024-02"], "tripdata_{month}"),
        (["tripdata_202401", "tripdata_202402"], "tripdata_{month,,YYYY}{month,,MM}"),
        (["s_2026021105", "s_2026021106"], "s_{hour,,YYYY}{hour,,MM}{hour,,DD}{hour,,HH}"),
        (["s_2026-02-11T05", "s_2026-02-11T06"], "s_{hour,,YYYY}-{hour,,MM}-{hour,,DD}T{hour,,HH}"),
        (["s_2026-02-11-05", "s_2026-02-11-06"], "s_{hour}"),
        (["s_20260211093000", "s_20260212093001"], "s_{date,,YYYY}{date,,MM}{date,,DD}*"),
    ],
)
def test_a_pattern_reads_the_names(names: list[str], pattern: str) -> None:
    found = columns([f"{name}.parquet" for name in names], 0, ["id"])

    assert found is not None
    assert found[1] == f"{pattern}.parquet"
    for name in names:
        values = Template.root().with_files(found[1]).match(f"{name}.parquet")
        assert values is not None
        assert all(values[column.name] in column.values for column in found[0])


@pytest.mark.parametrize(
    "names", [["part-0"], ["20260230"], ["s_20261310"], ["s_123420260211"], ["a_2026-02-11", "b", "c"]]
)
def test_names_without_a_time_are_no_columns(names: list[str]) -> None:
    assert columns([f"{name}.parquet" for name in names], 0, []) is None
