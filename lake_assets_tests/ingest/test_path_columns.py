"""Columns of the layout that are not partition columns: the rows keep the values of their path."""

import datetime as dt

import pyarrow as pa
import pytest

from lake_assets.errors import SourceError
from lake_assets_tests.ingest.landed_as import columns_of
from lake_assets_tests.ingest.test_in_rows import TWO_WORLDS, put
from lake_assets_tests.world import NW, SW, World, sales

HOURS = {
    "layout": "region={region}/date={date}/hour={hour}/on={day}",
    "path_columns": {"hour": "integer", "day": "date"},
}
DAY = dt.date(2026, 2, 12)


def land(world: World, folder: str, rows: pa.Table, name: str = "a.parquet") -> None:
    put(world, f"region=NW/date=2026-02-11/{folder}/{name}", rows)


@TWO_WORLDS
def test_the_rows_get_the_values_of_their_path(world: World) -> None:
    world.options = HOURS
    land(world, "hour=07/on=2026-02-12", sales(1, 2))
    land(world, "hour=8/on=__HIVE_DEFAULT_PARTITION__", sales(4), "b.parquet")
    land(world, "hour=8/on=2026-02-12", sales(5).append_column("HOUR", pa.array([9])))  # the file's own column

    row = world.ingest(NW).row

    assert (row.status, row.row_count) == ("committed", 4)
    assert columns_of(world, "total, hour, day") == [(1, 7, DAY), (2, 7, DAY), (4, 8, None), (5, 9, DAY)]
    assert columns_of(world, "DISTINCT typeof(hour), typeof(day)") == [("BIGINT", "DATE")]
    assert world.ingest(NW).row.status == "skipped"


@pytest.mark.more
def test_a_transform_sees_them(local_world: World) -> None:
    local_world.options = HOURS | {"transform": {"sql": "SELECT id, total, hour + 1 AS next, region, date FROM source"}}
    land(local_world, "hour=7/on=2026-02-12", sales(1))

    local_world.ingest(NW)

    assert columns_of(local_world, "next, total") == [(8, 1)]


def test_without_them_the_columns_are_left_out_and_a_table_that_evolves_gets_them(local_world: World) -> None:
    local_world.options = {"layout": HOURS["layout"], "schema_policy": "evolve"}
    land(local_world, "hour=7/on=2026-02-12", sales(1))
    local_world.ingest(NW)
    assert [name for name, *_ in local_world.query("DESCRIBE lake.sales")] == ["id", "total", "region", "date"]
    local_world.options |= HOURS

    row = local_world.ingest(NW).row

    assert (row.status, row.rows_before) == ("committed", 1)  # for a fingerprint holds what is made of the objects
    assert columns_of(local_world, "hour, day, total") == [(7, DAY, 1)]


def test_a_folder_that_is_no_value_of_the_type_fails_its_partition_alone(local_world: World) -> None:
    local_world.options = HOURS
    land(local_world, "hour=noon/on=2026-02-12", sales(1))
    put(local_world, "region=SW/date=2026-02-11/hour=1/on=2026-02-12/a.parquet", sales(2))

    with pytest.raises(SourceError, match=r"hour=noon.*does not fit path_columns.*'noon' is not of type integer"):
        local_world.ingest(NW)

    assert local_world.ingest(SW).row.status == "committed"


def test_they_are_those_of_the_rows_that_a_partition_chooses(local_world: World) -> None:
    local_world.options = {
        "layout": "hour={hour}",
        "path_columns": {"hour": "integer"},
        "partitions": {"region": {"in": "rows"}, "date": {"type": "date", "start": "2026-01-01", "in": "rows"}},
    }
    rows = pa.table({"total": [1.0, 2], "region": ["NW", "SW"], "date": [dt.date(2026, 2, 11)] * 2})
    put(local_world, "hour=7/a.parquet", rows)

    local_world.ingest(SW)

    assert columns_of(local_world, "hour, total") == [(7, 2)]
