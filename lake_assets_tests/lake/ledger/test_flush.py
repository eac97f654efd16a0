"""The flush of ledger and manifest keeps all rows, and later commits are unaffected."""

import pytest

from lake_assets.lake.catalog.database import catalog_tables
from lake_assets.lake.catalog.inlined import inlined_rows
from lake_assets.lake.catalog.table import read_folder
from lake_assets.lake.commit import strategy as commit
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.ledger import flush, tables
from lake_assets.lake.ledger.read import last_runs
from lake_assets.lake.ledger.tables import LEDGER, MANIFEST
from lake_assets.lake.session import TableName
from lake_assets_tests.maintenance.test_run import newest_snapshot
from lake_assets_tests.world import NW, SW, World, sales

COMBINATIONS = [("sqlite", "local"), ("duckdb", "local"), ("postgres", "s3")]


def inlined(world: World, table: TableName) -> int:
    with world.stream.lake.open(read_only=True) as lake, catalog_tables(lake) as database:
        return inlined_rows(database, read_folder(database, table)[0])


@pytest.mark.parametrize("world", COMBINATIONS, indirect=True, ids="-".join)
def test_the_rows_are_the_same_at_every_snapshot(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 3)
    lake = world.config.lakes["test"]
    for total in (1, 2):
        world.commit(NW, total)
    early = newest_snapshot(world)
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


def sorted_files(world: World) -> dict[str, list[str]]:
    """The files of ledger and manifest, whose rows are sorted."""
    orders = {"ingest_runs": LEDGER.order, "ingest_files": MANIFEST.order}
    files = {table: [f for f, *_ in world.query(f"FROM ducklake_list_files('lake', '{table}')")] for table in orders}
    for table, order in orders.items():
        for file in files[table]:
            rows = world.query(f"SELECT {', '.join(order)} FROM read_parquet(?)", file)
            assert rows == sorted(rows)
    return files


@pytest.mark.parametrize("world", COMBINATIONS, indirect=True, ids="-".join)
def test_the_next_commits_are_direct_and_inlined(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    world.commit(NW, 1)
    world.tidy()

    assert world.ingest(NW).row.status == "skipped"
    world.land(NW, sales(2))
    monkeypatch.setattr(commit, "STRATEGIES", (replace_directly,))  # which would say that it cannot
    row = world.ingest(NW).row

    assert (row.status, row.rows_before) == ("committed", 1)
    assert inlined(world, LEDGER.name(world.config.lakes["test"])) == 2
    assert [r.status for r in world.ledger()] == ["committed", "skipped", "committed"]
    assert len(world.query("FROM ducklake_list_files('lake', 'ingest_runs')")) == 1


def test_few_rows_are_not_flushed(local_world: World) -> None:
    local_world.commit(NW, 1)

    assert local_world.tidy().flushed == 0
    assert inlined(local_world, LEDGER.name(local_world.config.lakes["test"])) == 1


def test_an_encrypted_lakes_ledger_is_flushed_too(local_encrypted: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    local_encrypted.commit(NW, 1)
    before = local_encrypted.ledger()

    assert local_encrypted.tidy().flushed == 2
    assert local_encrypted.ledger() == before


@pytest.mark.parametrize("world", COMBINATIONS, indirect=True, ids="-".join)
def test_the_files_of_several_flushes_are_merged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    monkeypatch.setattr(flush, "FILES", 3)
    before, at = [], []
    for number in range(3):
        for text in (SW, NW):
            world.commit(text, number, name=f"{number}.parquet")
        before, rows = world.ledger(), world.query("FROM lake.ingest_files ORDER BY ALL")
        at.append((newest_snapshot(world), len(before)))
        world.tidy()

    assert world.ledger() == before
    assert world.query("FROM lake.ingest_files ORDER BY ALL") == rows
    assert {table: len(files) for table, files in sorted_files(world).items()} == {"ingest_runs": 1, "ingest_files": 1}
    for snapshot, count in at:
        assert world.query(f"SELECT count(*) FROM lake.ingest_runs AT (VERSION => {snapshot})") == [(count,)]
    with world.stream.lake.open(read_only=True) as lake:
        few = last_runs(lake, world.stream.table, [world.partition(NW), world.partition(SW)])
        assert few == last_runs(lake, world.stream.table)
    assert world.commit(NW, 9).status == "committed"


def test_files_without_deleted_rows_keep_the_order(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    for number in range(2):
        for text in (SW, NW):
            local_world.commit(text, number, name=f"{number}.parquet")
        local_world.tidy()
    local_world.execute("DELETE FROM lake.ingest_runs WHERE source_files = 1 AND load_partition LIKE '%SW%'")
    local_world.execute("DELETE FROM lake.ingest_files WHERE uri LIKE '%SW%/0.parquet'")
    before = local_world.ledger()
    local_world.tidy()

    files = sorted_files(local_world)
    rows = {
        table: local_world.query("FROM read_parquet(?, union_by_name = true)", of_table)
        for table, of_table in files.items()
    }
    assert {table: len(of_table) for table, of_table in rows.items()} == {"ingest_runs": 3, "ingest_files": 4}
    assert local_world.ledger() == before


def test_files_have_small_row_groups_and_large_ones_are_not_merged(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {
        "parquet_row_group_size": flush.ROW_GROUP,
        "target_file_size": f"{flush.LARGE} bytes",
    } == flush._OPTIONS
    # All sizes are a tenth, for the inserts take long.
    monkeypatch.setattr(tables, "INLINED_ROWS", 3_000)
    monkeypatch.setattr(flush, "MANY", 1_000)
    monkeypatch.setattr(flush, "FILES", 2)
    monkeypatch.setattr(flush, "LARGE", 200_000)
    monkeypatch.setattr(flush, "_OPTIONS", {"parquet_row_group_size": 2_048, "target_file_size": "200kB"})
    local_world.commit(NW, 1)
    for _ in range(4):
        with local_world.stream.lake.open() as lake:
            lake.rows(
                "INSERT INTO lake.ingest_runs SELECT * EXCLUDE (n) REPLACE (uuid()::VARCHAR AS source_fingerprint) "
                "FROM (SELECT * FROM lake.ingest_runs LIMIT 1), range(3_000) AS n(n)"
            )
        local_world.tidy()

    files = local_world.query("FROM ducklake_list_files('lake', 'ingest_runs')")
    groups = [
        local_world.query("SELECT DISTINCT row_group_id, row_group_num_rows FROM parquet_metadata(?) ORDER BY 1", file)
        for file, *_ in files
    ]
    assert max(rows for of_file in groups for _, rows in of_file) == 2_048
    assert len(files) > 1
