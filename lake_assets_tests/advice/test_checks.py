"""What checks advise: who does it, sees them pass."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from lake_assets.base.errors import CatalogError, SourceError
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.advice.cases import Case, Cases, Steps, command, follow
from lake_assets_tests.upkeep.checks.checked import check
from lake_assets_tests.world import NW, SW, World, plan, sales

case = Cases()
OF_NW = NW.replace(",", "/")
MAINTAINED = {"maintenance": {"expire_older_than": 1e-6, "delete_older_than": 0, "orphans_older_than": 3}}


def checked(world: World, name: str) -> None:
    """Run a check, and raise what it says if it does not pass."""
    result = check(replace(world, _opened=None), name)
    if not result.passed:
        raise CatalogError(f"{name}:", result.description)


@case
def a_commit_that_the_ledger_has_with_other_rows_is_replaced_and_expires(local_world: World) -> Steps:
    local_world.lake_options = MAINTAINED
    local_world.commit(NW, 1, 2)
    local_world.execute("UPDATE lake.ingest_runs SET row_count = 9")
    yield partial(checked, local_world, "ledger"), "Ingest these partitions with --force, and let"
    local_world.ingest(NW, force=True)
    local_world.tidy(days=1)
    checked(local_world, "ledger")
    return [1, 2]


@case
def a_data_file_that_is_gone_is_written_again(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    local_world.commit(SW, 5)
    (file,) = (file for file in local_world.live_files() if "NW" in file)
    Path(file).unlink()
    yield partial(checked, local_world, "data_files"), "queries of their partitions fail: ingest with --force"
    command(local_world, "ingest", "sales", "--partition", NW, "--force")
    assert local_world.totals() == [1, 5]
    local_world.lake_options = MAINTAINED
    yield partial(checked, local_world, "data_files"), "Let `lake-assets maintain` expire them"
    local_world.tidy(days=1)
    checked(local_world, "data_files")
    return [1, 5]


@case
def registered_objects_that_vanished_or_changed_are_repaired(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(NW, 1)
    local_world.commit(NW, 2, name="b.parquet")
    local_world.unland(NW)
    yield partial(checked, local_world, "data_files"), "queries of their partitions fail: run `lake-assets index sales"
    local_world.land(NW, sales(3, 4), "b.parquet")
    yield partial(checked, local_world, "indexed_objects"), " --repair` updates the lake"
    command(local_world, "index", "sales", "--repair")
    checked(local_world, "indexed_objects")
    return [3, 4]


@case
def bounds_that_another_client_wrote_are_corrected_by_maintenance(local_world: World) -> Steps:
    local_world.lake_options = MAINTAINED
    local_world.commit(NW, 1, 2)
    bounds = "__ducklake_metadata_lake.ducklake_table_column_stats"
    local_world.execute(f"UPDATE {bounds} SET max_value = '0' WHERE (min_value, max_value) = ('0', '1')")  # of id
    yield partial(checked, local_world, "data_files"), "so queries answer wrong. Run `lake-assets maintain`"
    command(local_world, "maintain")
    checked(local_world, "data_files")
    return [1, 2]


@case
def landed_objects_that_are_not_in_the_lake_are_refreshed(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    yield partial(checked, local_world, "landing_zone"), "are not in the lake. Refresh these"
    command(local_world, "ingest", "sales", "--waiting")
    checked(local_world, "landing_zone")
    return [1, 5]


@case
def an_object_that_no_run_can_read_is_corrected(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.land(NW, b"no Parquet", name="a.parquet")
    with pytest.raises(SourceError):
        local_world.ingest(NW)
    yield (
        partial(checked, local_world, "landing_zone"),
        "The last run of 1 partition failed: correct what its error names",
    )
    local_world.land(NW, sales(1), name="a.parquet")
    command(local_world, "ingest", "sales", "--waiting")
    checked(local_world, "landing_zone")
    return [1, 5]


@case
def rows_of_a_hold_that_another_client_changed_are_restored(local_world: World) -> Steps:
    local_world.commit(NW, 1, 2)
    (first,) = (row.snapshot_id for row in local_world.ledger(NW))
    local_world.commit(NW, 3)
    restore = ("restore", "sales", "--partition", NW, "--hold", "--snapshot")
    command(local_world, *restore, str(first))
    local_world.execute("DELETE FROM lake.sales WHERE total = 2")
    kept = local_world.ledger(NW)[0].snapshot_id
    yield partial(checked, local_world, "row_counts"), "Restore them from the snapshot that is named"
    assert check(local_world, "row_counts").named == [f"{OF_NW}: 1 row instead of 2, as in snapshot {kept}"]
    (edited,) = read_stream_state(local_world.stream).edited
    assert f"`lake-assets {' '.join(restore[:4])} --snapshot {kept} --hold` does" in edited
    assert edited.endswith(plan(local_world.stream, local_world.partition(NW)).decision.note)
    command(local_world, *restore, str(kept))
    checked(local_world, "row_counts")
    assert read_stream_state(local_world.stream).edited == []
    return [1, 2]


def without_a_total(world: World) -> None:
    world.land(NW, pa.table({"id": [0, 1], "total": [1.0, None]}))
    world.ingest(NW)


@case
def dead_letters_are_landed_again_or_removed(local_world: World) -> Steps:
    columns = {"total": {"type": "double", "nullable": False}}
    local_world.options = {"columns": columns, "on_bad_row": "dead_letter"}
    for total in (2, None):
        without_a_total(local_world)
        yield partial(checked, local_world, "dead_letters"), "Correct and land them again, or remove them"
        local_world.land(NW, sales(1, total) if total else sales(1))
        local_world.ingest(NW)
        checked(local_world, "dead_letters")
    return [1]


@case
def quarantined_objects_are_landed_again_or_removed(local_world: World) -> Steps:
    local_world.options = {"on_bad_object": "quarantine"}
    local_world.land(NW, sales(1))
    for is_right in (True, False):
        local_world.land(NW, b"no Parquet", "bad.parquet")
        local_world.ingest(NW)
        yield partial(checked, local_world, "quarantine"), "Land them again, or remove them"
        if is_right:
            local_world.land(NW, sales(2), "bad.parquet")
        else:
            local_world.unland(NW, "bad.parquet")
        local_world.ingest(NW)
        checked(local_world, "quarantine")
    return [1]


@pytest.mark.parametrize("steps", case)
def test_a_check_whose_advice_is_followed_passes(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
