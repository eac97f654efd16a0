"""What the names of folders and files say: columns, types, layouts, patterns."""

import pytest

from lake_assets.config.layout.template import Template
from lake_assets.wings.importers import folders
from lake_assets.wings.importers.folders import are_partitions, columns_of_paths


@pytest.mark.parametrize(
    ("paths", "layout", "expected"),
    [
        (["region=NW/date=2026-02-11"], "region={region}/date={date}", {"region": "string", "date": "date"}),
        (["store=7", "store=-12"], "store={store}", {"store": "integer"}),
        (["store=007", "store=12"], "store={store}", {"store": "string"}),
        (["year=2024", "year=2026"], "year={year}", {"year": "year"}),
        (["number=2024"], "number={number}", {"number": "integer"}),
        (["2024", "2026"], "{year}", {"year": "year"}),
        (["m=2026-02", "m=2026-12"], "m={m}", {"m": "month"}),
        (["week=2026-W07"], "week={week}", {"week": "week"}),
        (["2026-W07", "2026-W53"], "{week}", {"week": "week"}),
        (["2026W07"], "{week,,YYYY}W{week,,WW}", {"week": "week"}),
        (["wk=202607"], "wk={wk,,YYYY}{wk,,WW}", {"wk": "week"}),
        (["week=2026-07"], "week={week,,YYYY}-{week,,WW}", {"week": "week"}),
        (["2026/W07", "2027/W01"], "{week,,YYYY}/W{week,,WW}", {"week": "week"}),
        (["year=2026/week=07"], "year={week,,YYYY}/week={week,,WW}", {"week": "week"}),
        (["year=2026/week=7"], "year={year}/week={week}", {"year": "year", "week": "integer"}),
        (["year=2025/week=53"], "year={year}/week={week}", {"year": "year", "week": "integer"}),
        (["2026/07"], "{month,,YYYY}/{month,,MM}", {"month": "month"}),
        (["2025-W53"], "2025-W53", {}),
        (["at=2026-02-11-13"], "at={at}", {"at": "hour"}),
        (["dt=20260211"], "dt={dt,,YYYY}{dt,,MM}{dt,,DD}", {"dt": "date"}),
        (["dt=2026021105"], "dt={dt,,YYYY}{dt,,MM}{dt,,DD}{dt,,HH}", {"dt": "hour"}),
        (["month=202602"], "month={month,,YYYY}{month,,MM}", {"month": "month"}),
        (["store=202602"], "store={store}", {"store": "integer"}),
        (
            ["date=2026-02-11/hour=05", "date=2026-02-12/hour=23"],
            "date={hour,,YYYY}-{hour,,MM}-{hour,,DD}/hour={hour,,HH}",
            {"hour": "hour"},
        ),
        (["dt=20260211/05"], "dt={hour,,YYYY}{hour,,MM}{hour,,DD}/{hour,,HH}", {"hour": "hour"}),
        (["date=2026-02-11/hour=5"], "date={date}/hour={hour}", {"date": "date", "hour": "integer"}),
        (["date=2026-02-11/store=05"], "date={date}/store={store}", {"date": "date", "store": "string"}),
        (["d=2026-02-30"], "d={d}", {"d": "string"}),
        (["2026/02/11"], "{date,,YYYY}/{date,,MM}/{date,,DD}", {"date": "date"}),
        (
            ["year=2026/month=02/day=11/hour=05"],
            "year={hour,,YYYY}/month={hour,,MM}/day={hour,,DD}/hour={hour,,HH}",
            {"hour": "hour"},
        ),
        (["year=2026/month=2"], "year={year}/month={month}", {"year": "year", "month": "integer"}),
        (["raw/NW/2026-02-11", "raw/SW/2026-02-11"], "raw/{folder_2}/{date}", {"folder_2": "string", "date": "date"}),
        (["store-id=1"], "store-id={store_id}", {"store_id": "integer"}),
        (["city=New%20York"], "city={city}", {"city": "string"}),
        (["region=__HIVE_DEFAULT_PARTITION__", "region=1"], "region={region}", {"region": "integer"}),
    ],
)
def test_folders_are_columns_with_types_and_the_layout_reads_them(
    paths: list[str], layout: str, expected: dict[str, str]
) -> None:
    found, text = columns_of_paths([path.split("/") for path in paths])

    assert (text, {column.name: column.type for column in found}) == (layout, expected)
    for path in paths:
        assert Template.parse(text).match(f"{path}/part-0.parquet", file=True) is not None


def test_values_are_decoded_and_null_is_none_of_them() -> None:
    (city,), _ = columns_of_paths([["city=New%20York"], ["city=__HIVE_DEFAULT_PARTITION__"]])

    assert (city.values, city.has_null) == (("New York",), True)


def test_the_start_is_the_first_of_the_dates() -> None:
    (parts,), _ = columns_of_paths([["2026", "02", "12"], ["2025", "12", "31"]])
    (month,), _ = columns_of_paths([["month=2026-03"], ["month=2026-02"]])

    (hour,), _ = columns_of_paths([["date=2026-02-12", "hour=00"], ["date=2026-02-11", "hour=23"]])

    assert (str(parts.start), str(month.start), str(hour.start)) == ("2025-12-31", "2026-02-01", "2026-02-11")
    assert hour.values == ("2026-02-11-23", "2026-02-12-00")


def test_a_column_without_a_name_gets_one_that_no_other_has() -> None:
    found, layout = columns_of_paths([["2026-02-11", "date=x"], ["2026-02-12", "date=y"]], taken=["Date"])

    assert [column.name for column in found] == ["date_of_path", "date"]
    assert layout == "{date_of_path}/date={date}"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["region=NW", "region=SW"], True),
        (["2026-02-11"], True),
        (["2026", "2027"], True),
        (["sales", "returns"], False),
        (["region=NW", "sales"], False),
    ],
)
def test_names_of_tables_are_no_partitions(names: list[str], *, expected: bool) -> None:
    assert are_partitions(names) is expected


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
    found = folders.columns_of_names([f"{name}.parquet" for name in names], 0, ["id"])

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
    assert folders.columns_of_names([f"{name}.parquet" for name in names], 0, []) is None
