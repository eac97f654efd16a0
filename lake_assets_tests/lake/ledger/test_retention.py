"""Old rows of the ledger are deleted with those of the manifest, and every later run decides as before."""

from collections import Counter

import pytest

from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.ledger import flush
from lake_assets.lake.ledger.read import last_runs
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.world import NW, SW, World, sales

COMBINATIONS = [("sqlite", "local"), ("duckdb", "local"), ("postgres", "s3")]
DAYS = 40.0  # from now, when maintenance runs


def statuses(world: World) -> Counter[tuple[str, str]]:
    rows = world.query("SELECT load_partition, status FROM lake.ingest_runs")
    return Counter((partition.split("/")[0], status) for partition, status in rows)


def history(world: World) -> None:
    """Three commits of a partition, two looks at it that found nothing new, and one commit of another."""
    world.lake_options["maintenance"] = {"ledger_retention": 30, "expire_older_than": 1}
    for total in (1, 2, 3):
        world.commit(NW, total)
    world.ingest(NW)
    world.ingest(NW)
    world.commit(SW, 10)


@pytest.mark.parametrize("world", COMBINATIONS, indirect=True, ids="-".join)
@pytest.mark.parametrize("flushed_from", [1, 10_000])
def test_the_newest_rows_of_each_partition_stay_and_decide_as_before(
    world: World, flushed_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush, "MANY", flushed_from)
    history(world)
    world.tidy()  # flushes the rows, or not
    before = statuses(world)
    rules = world.lake_options.pop("maintenance")
    assert world.tidy(36_000, dry_run=True).forgotten == 0
    world.lake_options["maintenance"] = rules

    assert world.tidy(29).forgotten == 0
    assert world.tidy(DAYS, dry_run=True).forgotten == 3
    assert statuses(world) == before
    assert world.tidy(DAYS).forgotten == 3

    assert statuses(world) == {
        ("region=NW", "committed"): 1,
        ("region=NW", "skipped"): 1,
        ("region=SW", "committed"): 1,
    }
    newest = world.query("SELECT row_count FROM lake.ingest_runs WHERE status = 'committed' ORDER BY ALL")
    assert newest == [(1,), (1,)]
    runs = "SELECT run_id FROM lake.ingest_runs WHERE status = 'committed'"
    assert world.query(f"SELECT count(*) FROM lake.ingest_files WHERE run_id NOT IN ({runs})") == [(0,)]
    assert world.query("SELECT count(DISTINCT run_id) FROM lake.ingest_files") == [(2,)]
    assert world.tidy(DAYS).forgotten == 0

    # Later runs decide as before, and find the rows without a full read.
    monkeypatch.setattr("lake_assets.lake.ledger.lookup.relation_of_lake", refuse)
    with world.stream.lake.open(read_only=True) as session:
        partitions = [world.partition(NW), world.partition(SW)]
        found = last_runs(session, world.stream.table, partitions)
    assert [found[p.path].rows for p in partitions] == [1, 1]
    assert world.ingest(NW).row.status == "skipped"
    assert world.commit(NW, 4).status == "committed"
    assert world.totals() == [4, 10]


def refuse(*_: object) -> None:
    raise NotDirectError("the whole ledger was read")


def test_rows_of_registrations_in_place_stay_with_their_objects(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    local_world.lake_options["maintenance"] = {"ledger_retention": 30}
    for name in ("a", "b"):
        local_world.land(NW, sales(1), name=f"{name}.parquet")
        index(local_world, NW)
    index(local_world, NW)
    index(local_world, NW)

    assert local_world.tidy(DAYS).forgotten == 1
    assert statuses(local_world) == {("region=NW", "committed"): 2, ("region=NW", "skipped"): 1}
    assert local_world.query("SELECT count(*) FROM lake.ingest_files") == [(2,)]
    (again,) = index(local_world, NW).values()
    assert again.result is not None
    assert again.result.row.status == "skipped"
