"""Maintenance of ledger and manifest: the flush keeps all rows, retention those by which later runs decide."""

from collections import Counter

import pytest

from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.described import inlined_rows
from lake_assets.lake.catalog.table import read_folder
from lake_assets.lake.commit import strategy as commit
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.ledger import flush
from lake_assets.lake.ledger.read import last_runs
from lake_assets.lake.ledger.tables import LEDGER, MANIFEST
from lake_assets.lake.session import TableName
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.lake.worlds import EACH_CATALOG
from lake_assets_tests.tiers import soak
from lake_assets_tests.world import NW, SW, World, sales


def inlined(world: World, table: TableName) -> int:
    with world.stream.lake.open(read_only=True) as lake, lake.read() as database:
        return inlined_rows(database, read_folder(database, table)[0])


def current(world: World) -> int:
    with world.stream.lake.open(read_only=True) as lake:
        return lake.current_snapshot()


@pytest.mark.more
@EACH_CATALOG
def test_the_rows_are_the_same_at_every_snapshot_and_the_next_commits_are_direct(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush, "MANY", 3)
    lake = world.config.lakes["test"]
    for total in (1, 2):
        world.commit(NW, total)
    early = current(world)
    world.commit(SW, 4)
    before, read = world.ledger(), world.query("FROM lake.ingest_files ORDER BY ALL")
    at = f"SELECT count(*) FROM lake.ingest_runs AT (VERSION => {early})"

    would = world.tidy(dry_run=True)
    assert inlined(world, LEDGER.name(lake)) == 3
    done = world.tidy()

    assert would.flushed == done.flushed == 6
    assert (inlined(world, LEDGER.name(lake)), inlined(world, MANIFEST.name(lake))) == (0, 0)
    assert world.ledger() == before
    assert world.query("FROM lake.ingest_files ORDER BY ALL") == read
    assert world.query(at) == [(2,)]
    assert world.tidy().flushed == 0
    assert world.ingest(NW).row.status == "skipped"
    world.land(NW, sales(5))
    monkeypatch.setattr(commit, "STRATEGIES", (replace_directly,))  # which would say that it cannot
    row = world.ingest(NW).row
    assert (row.status, row.rows_before) == ("committed", 1)
    assert [r.status for r in world.ledger()] == ["committed", "skipped", *(r.status for r in before)]
    assert inlined(world, LEDGER.name(lake)) == 2
    assert world.tidy().flushed == 0  # few


def sorted_files(world: World) -> dict[str, list[str]]:
    """The files of ledger and manifest, whose rows are sorted."""
    orders = {"ingest_runs": LEDGER.order, "ingest_files": MANIFEST.order}
    files = {table: [f for f, *_ in world.query(f"FROM ducklake_list_files('lake', '{table}')")] for table in orders}
    for table, order in orders.items():
        for file in files[table]:
            rows = world.query(f"SELECT {', '.join(order)} FROM read_parquet(?)", file)
            assert rows == sorted(rows)
    return files


@pytest.mark.more
def test_an_encrypted_lakes_ledger_is_flushed_too(local_encrypted: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    local_encrypted.commit(NW, 1)
    before = local_encrypted.ledger()

    assert local_encrypted.tidy().flushed == 2
    assert local_encrypted.ledger() == before


@pytest.mark.more
@EACH_CATALOG
def test_files_of_several_flushes_are_merged_and_rewritten_in_order(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    monkeypatch.setattr(flush, "MOST_SMALL_FILES", 3)
    before, at = [], []
    for number in range(3):
        for text in (SW, NW):
            world.commit(text, number, name=f"{number}.parquet")
        before, rows = world.ledger(), world.query("FROM lake.ingest_files ORDER BY ALL")
        at.append((current(world), len(before)))
        world.tidy()

    assert world.ledger() == before
    assert world.query("FROM lake.ingest_files ORDER BY ALL") == rows
    assert {table: len(files) for table, files in sorted_files(world).items()} == {"ingest_runs": 1, "ingest_files": 1}
    for snapshot, count in at:
        assert world.query(f"SELECT count(*) FROM lake.ingest_runs AT (VERSION => {snapshot})") == [(count,)]
    with world.stream.lake.open(read_only=True) as lake:
        few = last_runs(lake, world.stream.table, [world.partition(NW), world.partition(SW)])
        assert few == last_runs(lake, world.stream.table)
    world.execute(
        "DELETE FROM lake.ingest_runs WHERE source_files = 1 AND load_partition LIKE '%SW%'",
        "DELETE FROM lake.ingest_files WHERE uri LIKE '%SW%/0.parquet'",
    )
    before = world.ledger()
    world.tidy()
    counts = {
        table: world.query("SELECT count(*) FROM read_parquet(?, union_by_name = true)", files)
        for table, files in sorted_files(world).items()
    }
    assert counts == {"ingest_runs": [(5,)], "ingest_files": [(9,)]}
    assert world.ledger() == before
    assert world.commit(NW, 9).status == "committed"


@pytest.mark.more
def test_files_have_small_row_groups_and_large_ones_are_not_merged(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    monkeypatch.setattr(flush, "MOST_SMALL_FILES", 2)
    monkeypatch.setattr(flush, "LARGE", 1)
    for total in (1, 2):
        local_world.commit(NW, total)
        local_world.tidy()

    assert [len(files) for files in sorted_files(local_world).values()] == [2, 2]
    sizes = "SELECT value FROM ducklake_options('lake') WHERE option_name = ? AND scope = 'TABLE'"
    assert local_world.query(sizes, "parquet_row_group_size") == [(str(flush.ROW_GROUP),)] * 2
    assert local_world.query(sizes, "target_file_size") == [("64000000",)] * 2


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


@EACH_CATALOG
@pytest.mark.parametrize("flushed_from", [1, *soak([10_000])])
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


@pytest.mark.more
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
    assert again.is_done
    assert again.row.status == "skipped"
