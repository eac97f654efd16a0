"""Partition columns that come from another column, as the config has them."""

from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.streams import Stream

DATE = {"type": "date", "from": "ts", "start": "2025-01-01"}
NOW = "{now(),,YY}-{now(),,MM}-{now(),,DD}"


def stream(partitions: dict[str, Any], **more: Any) -> Stream:
    made = Stream.model_validate({"source": "in", "partitions": partitions, "destination": {"table": "t"}} | more)
    assert Stream.model_validate_json(made.model_dump_json(by_alias=True)) == made
    return made


@pytest.mark.parametrize(
    ("partitions", "layout"),
    [
        ({"date": DATE}, "date={ts,,YY}-{ts,,MM}-{ts,,DD}"),
        ({"date": DATE | {"type": "day"}}, "date={ts,,YY}-{ts,,MM}-{ts,,DD}"),
        ({"y": DATE | {"type": "year"}}, "y={ts,,YY}"),
        ({"m": DATE | {"type": "month"}}, "m={ts,,YY}-{ts,,MM}"),
        ({"h": DATE | {"type": "hour", "from": "Zeit, lokal"}}, "h={'Zeit, lokal',,YY}-{'Zeit, lokal',,MM}"),
        (
            {"region": {"from": "store_region"}, "date": {"type": "date", "start": "2025-01-01"}},
            "region={store_region}",
        ),
        (
            {"region": {"from": "store", "values": ["NW"]}, "date": DATE},
            "region={store}/date={ts,,YY}-{ts,,MM}-{ts,,DD}",
        ),
    ],
)
def test_without_a_layout_its_folders_are_hives(partitions: dict[str, Any], layout: str) -> None:
    made = stream(partitions)

    assert made.template.text.startswith(layout)
    assert made.template.columns == tuple(partitions)


def test_the_paths_are_matched_and_listed_by_the_tables_names() -> None:
    made = stream(
        {"region": {"from": "store_region"}, "date": DATE}, layout="{store_region}/{ts,,YY}/{ts,,MM}/{ts,,DD}"
    )

    assert made.template.match("NW/2025/02/18/a.parquet") == {"region": "NW", "date": "2025-02-18"}
    assert made.template.prefix(made.partition("region=NW,date=2025-02-18").texts()) == "NW/2025/02/18/"
    assert made.template.render_row({"store_region": "NW", "ts": "2025-02-18T10:00:00"}) == "NW/2025/02/18"
    assert [(d.name, d.column) for d in made.derived] == [("region", "store_region"), ("date", "ts")]


def test_the_time_of_the_run_may_have_another_name_and_is_made_of_no_column() -> None:
    arrival = {"type": "date", "from": "date", "start": "2025-01-01"}
    made = stream({"arrival_date": arrival}, layout=f"date={NOW}")
    bare = stream({"arrival_date": arrival | {"from": "now()"}}, layout="in/{now(),,YY}/{now(),,MM}/{now(),,DD}")

    assert made.template.match("date=2025-02-18/a.parquet") == {"arrival_date": "2025-02-18"}
    assert bare.template.match("in/2025/02/18/a.parquet") == {"arrival_date": "2025-02-18"}
    assert made.derived == bare.derived == ()


def test_the_dates_of_hives_folders_are_those_of_the_streams_clock() -> None:
    assert stream({"date": DATE}, time_zone="Europe/Berlin").template.time_zone == "Europe/Berlin"
    assert stream({"date": DATE | {"type": "hour"}}, time_zone="Europe/Berlin").template.time_zone == "UTC"
    rows = stream({"date": DATE | {"in": "rows"}}, time_zone="Europe/Berlin")
    assert (rows.template.text, rows.derived[0].template.time_zone) == ("", "Europe/Berlin")


def test_a_path_column_may_have_another_name_too() -> None:
    made = stream(
        {"date": DATE},
        layout="{ts,,YY}-{ts,,MM}-{ts,,DD}/{h}/{n}",
        path_columns={"hour_of": {"from": "h", "type": "integer"}, "n": "integer"},
    )

    assert made.template.columns == ("date", "hour_of", "n")
    assert [column.type for column in made.path_columns.values()] == ["integer", "integer"]


@pytest.mark.parametrize(
    ("partitions", "more", "message"),
    [
        (
            {"date": DATE},
            {"layout": "{x}"},
            r"partitions.date.from is 'ts': .* has no column 'ts': it has x",
        ),
        ({"region": {}}, {"layout": "region={store_region}"}, r"has no {region}.*: write region: {from: store_region}"),
        ({"x": {}}, {"layout": f"day={NOW}/x={{y}}"}, r"has no {x}.*: write x: {from: y}"),
        ({"region": {}}, {"layout": "{a}/{b}"}, r"has no {region}.*: name a column of the layout with `from` \(a, b\)"),
        (
            {"date": DATE},
            {"layout": "{ts,,YY}/{date}"},
            r"partitions.date.from is 'ts': .* has two columns named 'date': take another name",
        ),
        (
            {"date": DATE, "day": {"from": "ts"}},
            {"layout": "{ts,,YY}-{ts,,MM}-{ts,,DD}"},
            r"partitions.day.from is 'ts', which another column has already",
        ),
        ({"date": DATE | {"type": "month"}}, {"layout": "{ts,,YY}"}, r"partitions.date.type is month, and the paths"),
        (
            {"date": DATE | {"in": "rows"}},
            {"layout": "{date}"},
            r"partitions.date is in: rows, and the layout '{date}' has {date}",
        ),
        ({"date": DATE | {"from": ""}}, {}, "at least 1 character"),
    ],
)
def test_what_does_not_fit_is_refused(partitions: dict[str, Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        stream(partitions, **more)
