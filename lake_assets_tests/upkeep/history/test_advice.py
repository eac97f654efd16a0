"""What report, plan and check advise after other clients changed a lake; who follows it, sees the checks pass."""

import re
from pathlib import Path

import pytest

from lake_assets.base.errors import CatalogError, SourceError
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.history.restore import Restoration
from lake_assets.upkeep.report.html import page, section
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import check
from lake_assets_tests.upkeep.history.test_other_clients import DELETES, EXPIRE, INSERT, begin, run
from lake_assets_tests.world import NW, SW, World, plan, sales


def failing(world: World) -> list[str]:
    """The names of the checks that do not pass."""
    return [name for name in checks_of(world.stream) if not check(world, name).passed]


@pytest.mark.more
def test_a_restored_partition_of_mode_append_has_no_wrong_rows(local_world: World) -> None:
    local_world.options = {"mode": "append"}
    local_world.land(NW, sales(1), "1.parquet")
    first = local_world.ingest(NW).row.snapshot_id
    local_world.land(NW, sales(2), "2.parquet")
    local_world.ingest(NW)
    assert first is not None
    Restoration(local_world.stream, local_world.partition(NW), first).run()

    assert failing(local_world) == []
    assert [str(state.partition) for state in read_stream_state(local_world.stream).in_state("committed")] == [
        local_world.partition(NW).path
    ]
    assert plan(local_world.stream, local_world.partition(NW)).action == "skip: all of its objects have been read"
    local_world.land(NW, sales(3), "3.parquet")
    local_world.ingest(NW)
    assert local_world.totals(NW) == [1, 3]
    assert check(local_world, "row_counts").passed
    run(local_world, "DELETE FROM lake.sales WHERE total = 3")
    assert not check(local_world, "row_counts").passed
    local_world.ingest(NW, force=True)
    assert local_world.totals(NW) == [1, 2, 3]
    assert check(local_world, "row_counts").passed


@pytest.mark.more
def test_rows_that_were_deleted_from_registered_files_come_back_as_the_check_says(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    body = local_world.land(NW, sales(1, 2), "1.parquet")
    local_world.ingest(NW)
    run(local_world, "DELETE FROM lake.sales WHERE total = 1")

    result = check(local_world, "row_counts")
    assert not result.passed
    assert "Delete all rows of these partitions with SQL, land their objects under other names" in result.description
    (said,) = read_stream_state(local_world.stream).edited
    assert "from 2 rows to 1, and no refresh undoes that; to undo it, delete all its rows with SQL" in said
    assert plan(local_world.stream, local_world.partition(NW)).decision.note in said
    run(local_world, "DELETE FROM lake.sales WHERE region = 'NW'")
    Path(body).rename(Path(body).with_name("2.parquet"))
    local_world.ingest(NW)
    assert local_world.totals(NW) == [1, 2]
    assert read_stream_state(local_world.stream).edited == []
    result = check(local_world, "data_files")
    assert (result.passed, "queries of these snapshots fail" in result.description) == (False, True)
    run(local_world, "CALL ducklake_expire_snapshots('lake', older_than => now())")
    assert [r for name in checks_of(local_world.stream) if not (r := check(local_world, name)).passed] == []


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("region, date, id", "region, date, id"),
        ("bucket(4, region), date", r"bucket\(4\) of region, date"),
        *more([("region", "region"), ("region, year(date), month(date)", "region, date, date")]),
    ],
)
def test_a_partitioning_that_the_paths_lack_is_named(local_world: World, keys: str, shown: str) -> None:
    """Of a bucket, DuckLake takes the path's value for the bucket's number: rows were not found, and were doubled."""
    begin(local_world)
    run(local_world, f"ALTER TABLE lake.sales SET PARTITIONED BY ({keys})")

    with pytest.raises(CatalogError, match=f"partitioned by {shown}, and the stream by region, date:") as e:
        local_world.ingest(NW, force=True)

    assert "SET PARTITIONED BY (region, date)" in str(e.value)
    with pytest.raises(CatalogError, match=re.escape(str(e.value))):
        plan(local_world.stream, local_world.partition(NW), force=True)
    run(local_world, "ALTER TABLE lake.sales SET PARTITIONED BY (region, date)")
    assert local_world.ingest(NW, force=True).row.status == "committed"


@pytest.mark.parametrize(
    ("statement", "mode"),
    [
        (DELETES[0], "append"),
        *more([("TRUNCATE TABLE lake.sales", "replace"), (INSERT, "replace"), (INSERT, "append")]),
    ],
)
def test_rows_that_a_client_changed_stay_until_force_and_are_named(
    statement: str, mode: str, local_world: World
) -> None:
    local_world.options = {"mode": mode}
    begin(local_world)
    landed = local_world.totals(NW)
    assert read_stream_state(local_world.stream).edited == []
    run(local_world, statement)

    assert local_world.ingest(NW).row.status == "skipped"
    rows = len(local_world.totals(NW))
    (said,) = [text for text in read_stream_state(local_world.stream).edited if "region=NW" in text]
    undo = f"`lake-assets ingest sales --partition {NW} --force`"
    assert f"from {len(landed)} rows to {rows}, and no refresh undoes that; {undo}" in said
    assert plan(local_world.stream, local_world.partition(NW)).decision.note in said
    assert not check(local_world, "row_counts").passed
    state = read_stream_state(local_world.stream)
    assert said.partition(";")[0] in page([section(local_world.stream, state)], "", state.read_at)

    for text in (NW, SW):
        local_world.ingest(text, force=True)
    assert local_world.totals(NW) == landed
    assert read_stream_state(local_world.stream).edited == []
    assert plan(local_world.stream, local_world.partition(NW)).decision.note == ""
    assert check(local_world, "row_counts").passed


@pytest.mark.parametrize("statements", [DELETES, pytest.param((), id="unchanged", marks=pytest.mark.more)])
def test_an_object_that_a_restore_takes_back_in_another_version_has_changed(
    statements: tuple[str, ...], local_world: World
) -> None:
    local_world.options = {"mode": "append"}
    local_world.land(NW, sales(1), "1.parquet")
    first = local_world.ingest(NW).row.snapshot_id
    local_world.land(NW, sales(2, 3), "1.parquet")
    local_world.ingest(NW, force=True)
    run(local_world, *statements)
    assert first is not None
    restored = Restoration(local_world.stream, local_world.partition(NW), first).run()

    assert restored.next == "The next refresh fails and leaves it as it is: 1 changed object, and on_changed is fail."
    assert [state.partition.path for state in read_stream_state(local_world.stream).in_state("stale")] == [
        local_world.partition(NW).path
    ]
    with pytest.raises(SourceError, match="changed"):
        local_world.ingest(NW)
    assert "1 changed object" in plan(local_world.stream, local_world.partition(NW)).action


@pytest.mark.more
@pytest.mark.parametrize("kept", ["append", "replace", "index"])
def test_a_snapshot_that_a_client_expired_is_no_finding(kept: str, local_world: World) -> None:
    local_world.options = {"mode": kept}
    begin(local_world)
    second = sorted(row.snapshot_id for row in local_world.ledger(NW) if row.snapshot_id is not None)[1]
    run(
        local_world,
        f"CALL ducklake_expire_snapshots('lake', versions => [{second}])",
        EXPIRE[1],
    )

    assert failing(local_world) == []
    assert check(local_world, "ledger").numbers["expired"] == 1


@pytest.mark.more
@pytest.mark.parametrize("deleted", ["total = 3", "region = 'NW'"])
def test_objects_that_are_owned_and_were_deleted_with_their_rows_are_no_finding(
    deleted: str, local_world: World
) -> None:
    local_world.options = {"mode": "index", "owns_source": True}
    local_world.land(NW, sales(1, 2), "1.parquet")
    local_world.ingest(NW)
    local_world.land(NW, sales(3), "2.parquet")
    local_world.ingest(NW)
    run(
        local_world,
        f"DELETE FROM lake.sales WHERE {deleted}",
        *EXPIRE,
    )
    left = local_world.totals(NW)

    assert set(failing(local_world)) <= {"landing_zone"}
    if failing(local_world):
        assert check(local_world, "landing_zone").description.endswith("Refresh these.")
        assert local_world.ingest(NW).row.status == "skipped"
    assert failing(local_world) == []
    assert local_world.totals(NW) == left
