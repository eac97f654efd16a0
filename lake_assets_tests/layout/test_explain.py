"""The words in which a template is explained."""

import datetime as dt

import pyarrow as pa

from lake_assets.layout.explain import explain
from lake_assets.layout.template import Template

NOW = dt.datetime(2026, 2, 11, 9, 30, tzinfo=dt.UTC)


def test_each_part_is_explained() -> None:
    text = "k={region}/{ts,2025,YY}-{ts,,WW}/dt={now(),,HH}/x-{age,,}/{now(),,DD}"
    assert explain(Template.parse(text, time_zone="Europe/Berlin")).split("\n") == [
        text,
        "",
        "  k=            as it is",
        "  {region}      column region; __HIVE_DEFAULT_PARTITION__ if it is NULL or empty",
        "  /             as it is",
        "  {ts,2025,YY}  ISO year of column ts; default_2025 if it is NULL or no timestamp or missing",
        "  -             as it is",
        "  {ts,,WW}      ISO week of column ts; default_ts if it is NULL or no timestamp or missing",
        "  /dt=          as it is",
        "  {now(),,HH}   hour of the time of the run, as partition column dt",
        "  /x-           as it is",
        "  {age,,}       column age; default_age if it is NULL or empty or missing",
        "  /             as it is",
        "  {now(),,DD}   day of the time of the run",
        "",
        "Partition columns: region, ts, dt, age.",
        "Times are in Europe/Berlin; `/` in a value makes no folders.",
    ]


def test_a_samples_paths_are_shown_the_most_frequent_first() -> None:
    sample = pa.table({"region": ["SW", "NW", "NW", None, "a/b"]})
    lines = explain(Template.parse("{region,,}/{now(),,YY}"), sample, now=NOW).split("\n")
    assert lines[-5:] == [
        "Paths of the sample's 5 rows:",
        "             2  NW/2026",
        "             1  SW/2026",
        "             1  default_region/2026",
        "             1  a%2Fb/2026",
    ]


def test_no_more_than_twenty_paths_are_shown() -> None:
    lines = explain(Template.parse("{n}"), pa.table({"n": range(1025)})).split("\n")
    assert lines[-1] == "  and 1,005 more"
    assert len([line for line in lines if line.startswith("             1  ")]) == 20
    assert explain(Template.parse("{n}"), pa.table({"n": pa.array([], pa.string())})).endswith("0 rows:")


def test_the_reference_systems_reading_is_explained() -> None:
    text = explain(Template.parse("/{a,b,YY}/{c}", compat="olake"))
    assert "  {a,b,YY}  year of column a; b if it is NULL or missing" in text
    assert "{c}" not in text.removeprefix("/{a,b,YY}/{c}")
    assert "olake's: UTC, nothing encoded" in text
