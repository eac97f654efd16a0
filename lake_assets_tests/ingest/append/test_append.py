"""Mode append, on every catalog and storage: each object enters its partition once, and no run takes rows away."""

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
