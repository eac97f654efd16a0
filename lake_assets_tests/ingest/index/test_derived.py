"""Registration in place with a partition column that is derived from another column of the files or the layout."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.config.streams import Stream
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.landing.retail import Retail
from lake_assets.landing.writer import LandingWriter
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.ingest.test_derived import ARRIVAL_CLOCK, FEB_18, FEB_19, LAYOUT, RECORDS, at, land, options
from lake_assets_tests.ingest.test_in_rows import TWO_WORLDS, put
from lake_assets_tests.tiers import more
from lake_assets_tests.world import World

REGIONS = ("NW", "NE", "MW", "SE", "SW")
NOW = "{now(),,YY}-{now(),,MM}-{now(),,DD}"
ARRIVAL: dict[str, Any] = {
    "mode": "index",
    "layout": f"region={{store_region}}/date={NOW}",
    "partitions": {
        "region": {"from": "store_region"},
        "arrival_date": {"type": "date", "from": "date", "start": "2025-01-01"},
    },
}
STATEMENT = "SELECT id, ts, date::VARCHAR FROM lake.sales ORDER BY id"


def rows(*days: int, ids: int = 0) -> pa.Table:
    return pa.table({"id": range(ids, ids + len(days)), "ts": [at(10, day) for day in days]})


@pytest.mark.usefixtures("strategy")
def test_landed_records_are_registered_with_both_columns(local_world: World) -> None:
    local_world.options = options(mode="index")
    land(local_world, *RECORDS)

    done = index(local_world)

    assert {path: one.error for path, one in done.items()} == {FEB_18: None, FEB_19: None}
    assert [row[::2] for row in local_world.query(STATEMENT)] == [
        (1, "2025-02-18"),
        (2, "2025-02-18"),
        (3, "2025-02-19"),
    ]
    assert local_world.query("SELECT id FROM lake.sales WHERE date = DATE '2025-02-19'") == [(3,)]


@pytest.mark.parametrize(
    ("zone", "kind"),
    [("Europe/Berlin", pa.timestamp("ms", "UTC")), *more([("UTC", pa.timestamp("us")), ("UTC", pa.string())])],
)
def test_a_row_of_another_day_is_found_by_statistics_or_by_reading(
    local_world: World, zone: str, kind: pa.DataType
) -> None:
    local_world.options = options(mode="index", layout={"template": LAYOUT, "time_zone": zone})
    for name, *days in (("good", 18, 18), ("bad", 18, 19), ("worse", 19, 19)):
        table = rows(*days)
        put(local_world, f"{FEB_18}/{name}.parquet", table.set_column(1, "ts", table["ts"].cast(kind)))

    error = str(index(local_world)[FEB_18].error)

    assert error.startswith("2 of 3 new objects of date=2025-02-18 were not registered")
    for name in ("bad", "worse"):
        assert f"{name}.parquet has a row with ts='2025-02-19 10:00:00" in error
    assert f"which is date=2025-02-19 in the time zone {zone}, and belongs to date=2025-02-18" in error
    assert local_world.query("SELECT count(*) FROM lake.sales") == [(2,)]


def test_nulls_are_of_the_null_partition(local_world: World) -> None:
    local_world.options = options(mode="index")
    nulls = pa.table({"id": [1], "ts": pa.nulls(1, pa.timestamp("us"))})
    put(local_world, "date=default_ts-default_ts-default_ts/a.parquet", nulls)
    put(local_world, f"{FEB_18}/a.parquet", nulls)

    done = index(local_world, outside=True)

    assert "is neither in the file nor" in str(done["date=__HIVE_DEFAULT_PARTITION__"].error)
    assert "has a row with ts=NULL, which is date=NULL" in str(done[FEB_18].error)


def test_folders_without_names_need_the_columns_in_the_files(local_world: World) -> None:
    unnamed = {"mode": "index", "layout": "{ts,,YY}/{ts,,MM}/{ts,,DD}"}
    local_world.options = options(**unnamed)
    land(local_world, *RECORDS)

    errors = [str(outcome.error) for outcome in index(local_world).values()]

    assert all("land the column in the file too (landing: keep_path_columns: true)" in error for error in errors)

    local_world.options = options(landing={"keep_path_columns": True}, **unnamed)
    land(local_world, *RECORDS)
    index(local_world)

    result = local_world.query("SELECT id, date::VARCHAR FROM lake.sales ORDER BY id")
    assert result == [(1, "2025-02-18"), (2, "2025-02-18"), (3, "2025-02-19")]


@TWO_WORLDS
def test_a_folder_of_another_name_is_mapped_to_the_column_beside_one_of_its_own_name(world: World) -> None:
    world.options = ARRIVAL
    table = pa.table({"id": [1], "date": [dt.date(2020, 1, 1)]})
    for day in (18, 19):
        put(world, f"region=NW/date=2025-02-{day}/a.parquet", table)
    kept = table.append_column("arrival_date", pa.array([dt.date(2025, 2, 20)]))
    put(world, "region=NW/date=2025-02-20/a.parquet", kept)

    done = index(world)

    assert [item.error for item in done.values()] == [None] * 3
    assert world.query("SELECT region, date::VARCHAR, arrival_date::VARCHAR FROM lake.sales ORDER BY ALL") == [
        ("NW", "2020-01-01", f"2025-02-{day}") for day in (18, 19, 20)
    ]
    assert world.query("SELECT count(*) FROM lake.sales WHERE arrival_date = DATE '2025-02-19'") == [(1,)]


def test_a_repair_keeps_the_folders_name(local_world: World) -> None:
    local_world.options = ARRIVAL
    for number in (1, 99):
        table = pa.table({"id": range(number), "date": [dt.date(2020, 1, 1)] * number})
        put(local_world, "region=NW/date=2025-02-18/a.parquet", table)
        index(local_world)

    assert repair_indexed(local_world.stream).renewed == 1

    result = local_world.query("SELECT arrival_date::VARCHAR, date::VARCHAR, count(*) FROM lake.sales GROUP BY ALL")
    assert result == [("2025-02-18", "2020-01-01", 99)]
    mappings = "SELECT count(*) FROM __ducklake_metadata_lake.ducklake_column_mapping"
    assert local_world.query(mappings) == [(1,)]


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("strategy", ["extension"], indirect=True)
def test_the_extension_strategy_refuses_such_a_folder(local_world: World) -> None:
    local_world.options = ARRIVAL
    put(local_world, "region=NW/date=2025-02-18/a.parquet", pa.table({"id": [1], "date": [dt.date(2020, 1, 1)]}))

    (outcome,) = index(local_world).values()

    reason = "has arrival_date in a folder date=…, and DuckLake's extension reads only arrival_date=…"
    assert reason in str(outcome.error)


@pytest.mark.parametrize(
    ("mode", "keep"), [("index", False), *more([("index", True), ("replace", False), ("replace", True)])]
)
def test_the_reference_pipelines_own_paths_run_from_end_to_end(local_world: World, mode: str, *, keep: bool) -> None:
    local_world.options = ARRIVAL | {"mode": mode, "landing": {"keep_path_columns": keep}}
    retail = Retail(stores=5, regions=REGIONS, days=2, seed=1, per_store=20)
    records = pa.concat_tables([block.rename_columns({"region": "store_region"}) for block in retail.blocks()])
    stream: Stream = local_world.config.streams["sales"]
    with LandingWriter("sales", stream, clock=lambda: ARRIVAL_CLOCK) as writer:
        writer.write(records)

    if mode == "index":
        assert all(outcome.error is None for outcome in index(local_world).values())
    else:
        for region in REGIONS:
            local_world.ingest(f"region={region},arrival_date=2025-02-20")

    assert local_world.query("SELECT count(*), count(DISTINCT region) FROM lake.sales") == [(records.num_rows, 5)]
    assert local_world.query("SELECT DISTINCT arrival_date::VARCHAR FROM lake.sales") == [("2025-02-20",)]
    assert local_world.query("SELECT count(DISTINCT date) FROM lake.sales WHERE region = 'NW'") == [(2,)]
