"""Mode append, on every catalog and storage: each object enters its partition once, and no run takes rows away."""

import pytest

from lake_assets.errors import EmptySourceError, SourceError
from lake_assets.streams.pending import scan_landing
from lake_assets_tests.world import NW, SW, World, sales

APPEND = {"mode": "append"}


def statuses(world: World, text: str | None = None) -> list[tuple[str, str]]:
    """Mode and status of the ledger's rows, the newest first."""
    return [(row.mode, row.status) for row in world.ledger(text)]


def test_a_run_adds_the_rows_of_new_objects_and_reads_no_known_one(world: World) -> None:
    world.options = APPEND
    world.land(NW, sales(1, 2), "a.parquet")
    world.land(SW, sales(7))
    first = world.ingest(NW)
    world.ingest(SW)
    new = world.land(NW, sales(3), "b.parquet")

    second = world.ingest(NW)

    assert world.totals(NW) == [1, 2, 3]
    assert world.totals(SW) == [7]
    assert (first.row.mode, first.row.status, first.row.rows_before, first.row.row_count) == (
        "append",
        "committed",
        0,
        2,
    )
    assert (second.row.rows_before, second.row.row_count, second.row.source_files) == (2, 1, 1)
    assert world.query("SELECT uri FROM lake.ingest_files WHERE snapshot_id = ?", second.row.snapshot_id) == [(new,)]
    assert not scan_landing(world.stream).pending
    assert world.ingest(NW).row.status == "skipped"
    assert world.totals(NW) == [1, 2, 3]


def test_a_changed_object_fails_its_partition_by_name_and_nothing_is_added(local_world: World) -> None:
    local_world.options = APPEND
    changed = local_world.land(NW, sales(1), "a.parquet")
    local_world.ingest(NW)
    local_world.land(NW, sales(2, 3), "a.parquet")
    local_world.land(NW, sales(4), "b.parquet")

    with pytest.raises(SourceError, match="on_changed: refresh") as error:
        local_world.ingest(NW)

    assert changed in str(error.value)
    assert local_world.totals() == [1]
    assert statuses(local_world) == [("append", "failed"), ("append", "committed")]


def test_on_changed_refresh_replaces_the_partition_in_one_commit(world: World) -> None:
    world.options = APPEND | {"on_changed": "refresh"}
    for name, total in (("a", 1), ("b", 2)):
        world.land(NW, sales(total), f"{name}.parquet")
        world.ingest(NW)
    world.land(NW, sales(10, 11), "a.parquet")
    world.land(NW, sales(3), "c.parquet")

    row = world.ingest(NW).row

    assert world.totals() == [2, 3, 10, 11]
    assert (row.mode, row.status, row.rows_before, row.row_count) == ("replace", "committed", 2, 4)
    assert world.ingest(NW).row.status == "skipped"
    world.land(NW, sales(20), "d.parquet")
    assert world.ingest(NW).row.mode == "append"
    assert world.totals() == [2, 3, 10, 11, 20]


def test_the_rows_of_vanished_objects_stay_and_an_object_that_returns_is_known(world: World) -> None:
    world.options = APPEND
    world.land(NW, sales(1), "a.parquet")
    world.land(NW, sales(2), "b.parquet")
    world.ingest(NW)
    world.unland(NW, "a.parquet")

    assert world.ingest(NW).row.status == "skipped"
    assert not scan_landing(world.stream).pending
    world.land(NW, sales(3), "c.parquet")
    assert world.ingest(NW).row.row_count == 1
    for name in ("b", "c"):
        world.unland(NW, f"{name}.parquet")
    assert world.ingest(NW).row.status == "skipped"

    assert world.totals() == [1, 2, 3]


def test_force_replaces_the_partition_by_what_is_there_now(local_world: World) -> None:
    local_world.options = APPEND
    for name, total in (("a", 1), ("b", 2)):
        local_world.land(NW, sales(total), f"{name}.parquet")
        local_world.ingest(NW)
    local_world.unland(NW, "a.parquet")

    row = local_world.ingest(NW, force=True).row

    assert (row.mode, row.rows_before, row.row_count) == ("replace", 2, 1)
    assert local_world.totals() == [2]


def test_on_empty_is_for_partitions_that_never_had_an_object(local_world: World) -> None:
    local_world.options = APPEND
    local_world.landing  # noqa: B018 - makes the folder
    with pytest.raises(EmptySourceError, match="on_empty to keep"):
        local_world.ingest(NW)
    local_world.land(NW, sales(), "a.parquet")
    with pytest.raises(EmptySourceError, match="on_empty to keep"):
        local_world.ingest(NW)
    local_world.land(NW, sales(1), "b.parquet")
    assert local_world.ingest(NW).row.row_count == 1


def test_an_object_without_rows_is_noted_and_not_read_again(world: World) -> None:
    world.options = APPEND
    world.land(NW, sales(1), "a.parquet")
    world.ingest(NW)
    world.land(NW, sales(), "b.parquet")

    row = world.ingest(NW).row

    assert (row.status, row.row_count, row.rows_before) == ("committed", 0, 1)
    assert world.ingest(NW).row.status == "skipped"


def test_objects_are_known_without_a_ledger_row_of_files_and_after_a_dropped_table_they_are_new(
    local_world: World,
) -> None:
    local_world.options = APPEND
    local_world.land(NW, sales(1), "a.parquet")
    local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        lake.rows("DROP TABLE lake.sales")

    assert local_world.ingest(NW).row.row_count == 1
    assert local_world.totals() == [1]
