"""A partition column that is derived from another column of the files, end to end."""

import datetime as dt
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lake_assets.base.errors import SchemaError
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets.wings.land.read_records import RecordSource, read_records
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.ingest.landed_as import columns_of
from lake_assets_tests.ingest.test_in_rows import EITHER_LAKE, TWO_WORLDS, put
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import World, plan

LAYOUT = "date={ts,,YY}-{ts,,MM}-{ts,,DD}"
DATE = {"type": "date", "from": "ts", "start": "2025-02-17", "end": "2025-02-20"}
ARRIVAL_CLOCK = dt.datetime(2025, 2, 20, 12, tzinfo=dt.UTC).timestamp()
FEB_18 = "date=2025-02-18"
FEB_19 = "date=2025-02-19"


def options(**more: Any) -> dict[str, Any]:
    return {"layout": LAYOUT, "partitions": {"date": DATE}} | more


def land(world: World, *records: dict[str, Any]) -> None:
    """Land records as the command does."""
    text = "".join(json.dumps(record) + "\n" for record in records).encode()
    with LandingWriter("sales", world.config.streams["sales"]) as writer:
        for item in read_records(RecordSource("-", "jsonl", io.BytesIO(text)), writer.schema):
            writer.accept(item)


def at(hour: int, day: int = 18) -> dt.datetime:
    return dt.datetime(2025, 2, day, hour)  # noqa: DTZ001 - a clock's face


RECORDS = (
    {"id": 1, "ts": "2025-02-18T10:00:00"},
    {"id": 2, "ts": "2025-02-18T23:30:00"},
    {"id": 3, "ts": "2025-02-19T00:00:00"},
)


@TWO_WORLDS
def test_landed_records_are_ingested_with_both_columns_and_found_by_date(world: World) -> None:
    world.options = options()
    land(world, *RECORDS)

    done = [world.ingest(text).row for text in (FEB_18, FEB_19)]

    assert [row.row_count for row in done] == [2, 1]
    day, next_day = dt.date(2025, 2, 18), dt.date(2025, 2, 19)
    assert columns_of(world, "id, ts, date") == [
        (1, at(10), day),
        (2, at(23) + dt.timedelta(minutes=30), day),
        (3, at(0, 19), next_day),
    ]
    assert world.query("SELECT id FROM lake.sales WHERE date = DATE '2025-02-19'") == [(3,)]
    (plan_text,) = world.query("EXPLAIN ANALYZE SELECT id FROM lake.sales WHERE date = DATE '2025-02-19'")
    assert "Total Files Read: 1" in plan_text[1]
    assert world.ingest(FEB_18).row.status == "skipped"
    assert [s.state for s in read_stream_state(world.stream).partitions if s.state != "absent"] == [
        "committed",
        "committed",
    ]
    for check in ("row_counts", "no_null_partition"):
        assert run_check(world.stream, check, Scope()).passed


def test_a_row_of_another_day_fails_its_partition_and_the_error_has_the_time_zone(local_world: World) -> None:
    local_world.options = options(layout={"template": LAYOUT, "time_zone": "Europe/Berlin"})
    instants = pa.array([at(10), at(23)], pa.timestamp("us", "UTC"))
    put(local_world, f"{FEB_18}/a.parquet", pa.table({"id": [1, 2], "ts": instants}))

    with pytest.raises(SchemaError, match=r"ts='2025-02-18 23.*is date=2025-02-19 in the time zone Europe/Berlin"):
        local_world.ingest(FEB_18)


@pytest.mark.more
def test_a_transform_sees_both_columns_and_compaction_keeps_the_one_that_it_made(local_world: World) -> None:
    sql = "SELECT id, timestamp_ntz '2030-01-01' AS ts, hour(ts) AS hour, date, date_add(date, 1) AS next FROM source"
    local_world.options = options(transform={"sql": sql})
    land(local_world, *RECORDS)
    local_world.ingest(FEB_18)
    insert = "INSERT INTO lake.sales (id, ts, date) VALUES ({}, TIMESTAMP '2030-01-01', DATE '2025-02-18')"
    local_world.execute(*map(insert.format, range(7, 10)))

    (done,) = compact(local_world.stream, 3, local_world.sessions)

    assert (done.why, done.files_before, done.files_after) == (None, 4, 1)
    rows = columns_of(local_world, "id, hour, date::VARCHAR, next::VARCHAR", "id < 7")
    assert rows == [(1, 10, "2025-02-18", "2025-02-19"), (2, 23, "2025-02-18", "2025-02-19")]
    assert local_world.query("SELECT count(*), max(date)::VARCHAR FROM lake.sales") == [(5, "2025-02-18")]


@EITHER_LAKE
@pytest.mark.parametrize("transform", [None, *more([{"sql": "SELECT id, ts FROM source"}])])
def test_rows_of_any_folder_are_selected_by_the_derived_value(
    either_lake: World, transform: dict[str, str] | None
) -> None:
    either_lake.options = {"partitions": {"date": DATE | {"in": "rows"}}, "transform": transform}
    rows = pa.table({"id": [1, 2, 3], "ts": [at(10), at(23), at(0, 19)]})
    put(either_lake, "any/a.parquet", rows, row_group_size=1)
    put(either_lake, "b.parquet", rows)

    done = [either_lake.ingest(text).row.row_count for text in (FEB_18, FEB_19)]

    assert done == [4, 2]
    assert columns_of(either_lake, "DISTINCT id, ts, date::VARCHAR") == [
        (1, at(10), "2025-02-18"),
        (2, at(23), "2025-02-18"),
        (3, at(0, 19), "2025-02-19"),
    ]


def test_the_plan_names_both_folders_and_a_table_that_evolves_keeps_both_columns(local_world: World) -> None:
    local_world.options = options(layout="{ts,,YY}/{ts,,MM}/{ts,,DD}", schema_policy="evolve")
    put(local_world, "2025/02/18/a.parquet", pa.table({"id": [1], "ts": [at(10)]}))
    planned = plan(local_world.stream, local_world.partition(FEB_18))
    assert planned.source_glob.endswith("/landing/2025/02/18/*.parquet")
    assert planned.destination.endswith(f"/main/sales/{FEB_18}/")
    local_world.ingest(FEB_18)
    put(local_world, "2025/02/18/b.parquet", pa.table({"id": [2], "ts": [at(11)], "new": ["x"]}))

    assert local_world.ingest(FEB_18).row.row_count == 2
    rows = columns_of(local_world, "id, ts, new, date::VARCHAR")
    assert rows == [(1, at(10), None, "2025-02-18"), (2, at(11), "x", "2025-02-18")]


def test_files_of_pyarrow_partitioned_by_a_derived_column(local_world: World) -> None:
    local_world.options = {"partitions": {"region": {"from": "store_region"}, "date": DATE}}
    table = pa.table(
        {
            "id": [1, 2],
            "store_region": ["NW", "NW"],
            "ts": pa.array([at(10), at(11)], pa.timestamp("ns")),
            "region": ["NW", "NW"],
            "date": ["2025-02-18"] * 2,
        }
    )
    by = ds.partitioning(pa.schema([("region", pa.string()), ("date", pa.string())]), flavor="hive")
    ds.write_dataset(table, local_world.source["path"], format="parquet", partitioning=by)

    local_world.ingest("region=NW,date=2025-02-18")

    rows = columns_of(local_world, "id, store_region, region, ts, date::VARCHAR")
    assert rows == [(n, "NW", "NW", at(9 + n), "2025-02-18") for n in (1, 2)]


def test_files_under_olakes_own_names(local_world: World) -> None:
    template = "/{ts,default,YYYY}/{ts,default,MM}/{ts,default,DD}"
    local_world.options = options(layout={"template": template, "compat": "olake"})
    instants = pa.array([at(10), None], pa.timestamp("us", "UTC"))
    put(local_world, "2025/02/18/01JM_a.parquet", pa.table({"id": [1], "ts": instants[:1]}))
    put(local_world, "default/default/default/01JM_b.parquet", pa.table({"id": [2], "ts": instants[1:]}))

    local_world.ingest(FEB_18)
    local_world.ingest("date=__HIVE_DEFAULT_PARTITION__", outside=True)

    assert columns_of(local_world, "id, date::VARCHAR") == [(1, "2025-02-18"), (2, None)]


def test_the_time_of_arrival_is_a_partition_beside_a_column_of_its_folders_name(local_world: World) -> None:
    arrival = {"type": "date", "from": "date", "start": "2025-01-01"}
    local_world.options = {
        "layout": "date={now(),,YY}-{now(),,MM}-{now(),,DD}",
        "partitions": {"arrival_date": arrival},
    }
    rows = pa.table({"id": [1], "date": [dt.date(2020, 1, 1)]})
    put(local_world, f"{FEB_18}/a.parquet", rows)

    local_world.ingest("arrival_date=2025-02-18")

    assert local_world.query("SELECT id, date::VARCHAR, arrival_date::VARCHAR FROM lake.sales") == [
        (1, "2020-01-01", "2025-02-18")
    ]
