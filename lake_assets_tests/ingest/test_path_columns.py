"""Columns of the layout that are not partition columns: the rows keep the values of their path."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.errors import LakeAssetsError, SourceError
from lake_assets_tests.ingest.test_in_rows import put
from lake_assets_tests.world import NW, SW, World, sales

HOURS = {
    "layout": "region={region}/date={date}/hour={hour}/on={day}",
    "path_columns": {"hour": "integer", "day": "date"},
}


def land(world: World, folder: str, rows: pa.Table, name: str = "a.parquet") -> str:
    return put(world, f"region=NW/date=2026-02-11/{folder}/{name}", rows)


def found(world: World, columns: str = "hour, day, total") -> list[tuple[Any, ...]]:
    return world.query(f"SELECT {columns} FROM lake.sales ORDER BY total")


@pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "s3")], indirect=True, ids="-".join)
def test_the_rows_get_the_values_of_their_path(world: World) -> None:
    world.options = HOURS
    land(world, "hour=07/on=2026-02-12", sales(1, 2))
    land(world, "hour=8/on=__HIVE_DEFAULT_PARTITION__", sales(4), "b.parquet")

    row = world.ingest(NW).row

    assert (row.status, row.row_count) == ("committed", 3)
    day = dt.date(2026, 2, 12)
    assert found(world) == [(7, day, 1), (7, day, 2), (8, None, 4)]
    assert world.query("SELECT typeof(hour), typeof(day) FROM lake.sales LIMIT 1") == [("BIGINT", "DATE")]
    assert world.ingest(NW).row.status == "skipped"


def test_a_column_that_the_file_has_is_the_files(local_world: World) -> None:
    local_world.options = HOURS
    land(local_world, "hour=7/on=2026-02-12", sales(1).append_column("HOUR", pa.array([9])))
    land(local_world, "hour=8/on=2026-02-12", sales(2))

    local_world.ingest(NW)

    assert found(local_world, "hour, total") == [(9, 1), (8, 2)]


def test_a_transform_sees_them(local_world: World) -> None:
    local_world.options = HOURS | {"transform": {"sql": "SELECT id, total, hour + 1 AS next, region, date FROM source"}}
    land(local_world, "hour=7/on=2026-02-12", sales(1))

    local_world.ingest(NW)

    assert found(local_world, "next, total") == [(8, 1)]


def test_a_table_that_evolves_gets_them(local_world: World) -> None:
    local_world.options = {"layout": HOURS["layout"], "schema_policy": "evolve"}
    land(local_world, "hour=7/on=2026-02-12", sales(1))
    local_world.ingest(NW)
    local_world.options |= HOURS

    row = local_world.ingest(NW).row

    assert (row.status, row.rows_before) == ("committed", 1)  # for a fingerprint holds what is made of the objects
    assert found(local_world) == [(7, dt.date(2026, 2, 12), 1)]


def test_a_folder_that_is_no_value_of_the_type_fails_its_partition_alone(local_world: World) -> None:
    local_world.options = HOURS
    land(local_world, "hour=noon/on=2026-02-12", sales(1))
    put(local_world, "region=SW/date=2026-02-11/hour=1/on=2026-02-12/a.parquet", sales(2))

    with pytest.raises(SourceError, match=r"hour=noon.*does not fit path_columns.*'noon' is not of type integer"):
        local_world.ingest(NW)

    assert local_world.ingest(SW).row.status == "committed"


def test_without_them_the_paths_other_columns_are_left_out(local_world: World) -> None:
    local_world.options = {"layout": HOURS["layout"]}
    land(local_world, "hour=7/on=2026-02-12", sales(1))

    local_world.ingest(NW)

    assert [name for name, *_ in local_world.query("DESCRIBE lake.sales")] == ["id", "total", "region", "date"]


def test_they_are_those_of_the_rows_that_a_partition_chooses(local_world: World) -> None:
    local_world.options = {
        "layout": "hour={hour}",
        "path_columns": {"hour": "integer"},
        "partitions": {"region": {"in": "rows"}, "date": {"type": "date", "start": "2026-01-01", "in": "rows"}},
    }
    rows = pa.table({"total": [1.0, 2], "region": ["NW", "SW"], "date": [dt.date(2026, 2, 11)] * 2})
    put(local_world, "hour=7/a.parquet", rows)

    local_world.ingest(SW)

    assert found(local_world, "hour, total") == [(7, 2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path_columns": {"hour": "integer"}}, "has no {hour}, which path_columns names"),
        (HOURS | {"path_columns": {"Region": "string"}}, "path_columns.Region is a partition column"),
        (HOURS | {"mode": "index"}, "mode: index registers files as they are, without path_columns"),
        (HOURS | {"path_columns": {"hour": "float"}}, "path_columns.hour"),
        (
            {"layout": "{region}/{date}/{ts,,HH}", "path_columns": {"ts": "date"}},
            "path_columns.ts is date, and the paths",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_the_job(
    local_world: World, options: dict[str, Any], message: str
) -> None:
    local_world.options = options

    with pytest.raises((ValueError, LakeAssetsError), match=message):
        _ = local_world.config
