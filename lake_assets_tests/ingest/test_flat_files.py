"""Objects of one flat folder, with the values of their partitions in their names."""

import datetime as dt

import pytest

from lake_assets.errors import EmptySourceError
from lake_assets.ingest.api import ingest_all
from lake_assets.report.state import read_state
from lake_assets.streams.landing_zone import list_landed
from lake_assets.streams.pending import scan_landing
from lake_assets_tests.checks.checked import check
from lake_assets_tests.ingest.index.indexing import with_partition
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan, sales

FLAT = {"files": "sales_{date}_{region}_*.parquet"}
NWX = "region=NWX,date=2026-02-11"


@pytest.mark.parametrize("mode", ["replace", *more(["append", "index"])])
def test_each_mode_reads_the_partitions_objects_only(world: World, mode: str) -> None:
    world.options = FLAT | {"mode": mode}
    for text in (NW, SW, NWX):
        world.land(text, with_partition(world.partition(text).texts()["region"], rows=2), "a")
    stray = world.land(NW, with_partition("NW"), "a").replace("2026-02-11", "2026-02-30")
    with world.landing.create(stray.rpartition("/")[2]) as file:
        file.write(b"x")
    assert set(scan_landing(world.stream).pending) == {world.partition(text) for text in (NW, SW, NWX)}

    first = world.ingest(NW)

    assert first.row.row_count == 2
    assert first.row.source_glob.endswith("/sales_2026-02-11_NW_*.parquet")
    assert plan(world.stream, world.partition(NW)).decision.action == "skip"
    assert set(scan_landing(world.stream).pending) == {world.partition(SW), world.partition(NWX)}

    world.land(NW, with_partition("NW", rows=3), "b")
    again = world.ingest(NW)

    assert again.row.row_count == {"replace": 5}.get(mode, 3)
    assert world.totals(NW) == [0, 0, 1, 1, 2]
    for outcome in ingest_all(world.stream, [world.partition(text) for text in (SW, NWX)], world.sessions):
        assert outcome.error is None
    assert len(world.totals()) == 9
    assert not scan_landing(world.stream).pending
    assert [(item.uri, item.kind) for item in list_landed(world.stream)[1].objects] == [(stray, "unmatched")]
    assert read_state(world.stream).counts["committed"] == 3


def test_a_column_of_the_rows_beside_the_date_of_the_names(local_world: World) -> None:
    local_world.options = {
        "files": "sales_{date}_*.parquet",
        "partitions": {
            "region": {"values": ["NW", "SW"], "in": "rows"},
            "date": {"type": "date", "start": "2026-02-10"},
        },
    }
    for name, regions in (("a", "NW"), ("b", "SW")):
        local_world.land(NW, with_partition(regions).drop_columns("date"), name)

    for text in (NW, SW):
        assert local_world.ingest(text).row.row_count == 2

    assert local_world.totals(SW) == [0, 1]
    assert not scan_landing(local_world.stream).pending


def test_a_partition_without_objects_is_absent_a_removed_one_is_named_and_a_bad_one_quarantined(
    local_world: World,
) -> None:
    local_world.options = FLAT | {"on_bad_object": "quarantine"}
    local_world.land(NWX, sales(1), "a")

    with pytest.raises(EmptySourceError, match=r"sales_2026-02-11_NW_\*\.parquet"):
        local_world.ingest(NW)

    local_world.land(NW, sales(1), "a")
    bad = local_world.land(NW, b"x" * 100, "b")
    local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        assert set(local_world.stream.quarantined(lake)[local_world.partition(NW)]) == {bad}
    local_world.unland(NW, "a")
    local_world.unland(NW, "b")
    with pytest.raises(EmptySourceError, match=r"sales_2026-02-11_NW_\*\.parquet"):
        local_world.ingest(NW)
    assert local_world.totals(NW) == [1]


def test_an_object_of_the_table_in_no_partition_fails_the_check_and_one_of_another_table_does_not(
    local_world: World,
) -> None:
    local_world.options = FLAT
    local_world.land(NW, sales(1), "a")
    local_world.ingest(NW)
    folder = local_world.landing
    with folder.create(f"stock_{dt.date(2026, 2, 11)}.parquet") as file:
        file.write(b"x")

    assert check(local_world, "landing_zone").passed

    with folder.create("sales_today_NW_0.parquet") as file:
        file.write(b"x")

    result = check(local_world, "landing_zone")
    assert not result.passed
    assert "1 object in no partition" in result.description
