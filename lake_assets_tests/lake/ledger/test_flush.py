"""The flush of ledger and manifest keeps all rows, and later commits are unaffected."""

import pytest

from lake_assets.lake.catalog.table_files import inlined_rows
from lake_assets.lake.commit import strategy as commit
from lake_assets.lake.commit.direct.replace import replace_directly
from lake_assets.lake.ledger import flush
from lake_assets.lake.ledger.last_runs import last_runs
from lake_assets.lake.ledger.tables import ledger_table, manifest_table
from lake_assets.lake.session import TableName
from lake_assets_tests.maintenance.test_run import newest_snapshot, tidy
from lake_assets_tests.world import NW, SW, World, sales

COMBINATIONS = [("sqlite", "local"), ("duckdb", "local"), ("postgres", "s3")]


def inlined(world: World, table: TableName) -> int:
    with world.stream.lake.open(read_only=True) as lake:
        return inlined_rows(lake, table)


@pytest.mark.parametrize("world", COMBINATIONS, indirect=True, ids="-".join)
def test_the_rows_are_the_same_at_every_snapshot(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 3)
    lake = world.config.lakes["test"]
    for total in (1, 2):
        world.land(NW, sales(total))
        world.ingest(NW)
    early = newest_snapshot(world)
    world.land(SW, sales(4))
    world.ingest(SW)
    before, read = world.ledger(), world.query("FROM lake.ingest_files ORDER BY ALL")
    at = f"SELECT count(*) FROM lake.ingest_runs AT (VERSION => {early})"

    would = tidy(world, dry_run=True)
    assert inlined(world, ledger_table(lake)) == 3
    done = tidy(world)

    assert would.flushed == done.flushed == 6
    assert (inlined(world, ledger_table(lake)), inlined(world, manifest_table(lake))) == (0, 0)
    assert world.ledger() == before
    assert world.query("FROM lake.ingest_files ORDER BY ALL") == read
    assert world.query(at) == [(2,)]
    assert tidy(world).flushed == 0


@pytest.mark.parametrize("world", COMBINATIONS, indirect=True, ids="-".join)
def test_the_next_commits_are_direct_and_inlined(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    world.land(NW, sales(1))
    world.ingest(NW)
    tidy(world)

    assert world.ingest(NW).row.status == "skipped"
    world.land(NW, sales(2))
    monkeypatch.setattr(commit, "STRATEGIES", (replace_directly,))  # which would say that it cannot
    row = world.ingest(NW).row

    assert (row.status, row.rows_before) == ("committed", 1)
    assert inlined(world, ledger_table(world.config.lakes["test"])) == 2
    assert [r.status for r in world.ledger()] == ["committed", "skipped", "committed"]
    assert len(world.query("FROM ducklake_list_files('lake', 'ingest_runs')")) == 1


def test_few_rows_are_not_flushed(local_world: World) -> None:
    local_world.land(NW, sales(1))
    local_world.ingest(NW)

    assert tidy(local_world).flushed == 0
    assert inlined(local_world, ledger_table(local_world.config.lakes["test"])) == 1


def test_an_encrypted_lakes_ledger_is_flushed_too(local_encrypted: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    local_encrypted.land(NW, sales(1))
    local_encrypted.ingest(NW)
    before = local_encrypted.ledger()

    assert tidy(local_encrypted).flushed == 2
    assert local_encrypted.ledger() == before


@pytest.mark.parametrize("world", COMBINATIONS, indirect=True, ids="-".join)
def test_the_files_of_several_flushes_are_merged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    monkeypatch.setattr(flush, "FILES", 3)
    before, at, order = [], [], "SELECT uri FROM lake.ingest_files ORDER BY rowid"
    for number in range(3):
        for text in (SW, NW):
            world.land(text, sales(number), f"{number}.parquet")
            world.ingest(text)
        before, rows, uris = world.ledger(), world.query("FROM lake.ingest_files ORDER BY ALL"), world.query(order)
        at.append((newest_snapshot(world), len(before)))
        tidy(world)

    assert world.ledger() == before
    assert (world.query("FROM lake.ingest_files ORDER BY ALL"), world.query(order)) == (rows, uris)
    for table in ("ingest_runs", "ingest_files"):
        ((file, *_),) = world.query(f"FROM ducklake_list_files('lake', '{table}')")
    ((file, *_),) = world.query("FROM ducklake_list_files('lake', 'ingest_runs')")
    partitions = [path for (path,) in world.query("SELECT load_partition FROM read_parquet(?)", file)]
    assert partitions == sorted(partitions)
    for snapshot, count in at:
        assert world.query(f"SELECT count(*) FROM lake.ingest_runs AT (VERSION => {snapshot})") == [(count,)]
    with world.stream.lake.open(read_only=True) as lake:
        few = last_runs(lake, world.stream.table, [world.partition(NW), world.partition(SW)])
        assert few == last_runs(lake, world.stream.table)
    world.land(NW, sales(9))
    assert world.ingest(NW).row.status == "committed"
