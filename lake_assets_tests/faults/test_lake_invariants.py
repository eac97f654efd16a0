"""The check of a lake after a fault finds each kind of damage: a case of each of its rules."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lake_assets_tests.faults import catalog_invariants
from lake_assets_tests.faults.independent import catalog_tables
from lake_assets_tests.faults.lake_invariants import assert_sound, complaints, landed_rows
from lake_assets_tests.faults.without_spark import jobs_here
from lake_assets_tests.world import NW, SW, World, sales

FILE = "(SELECT max(data_file_id) FROM ducklake_data_file)"
# In place of the catalog's tables of their inlined rows.
LEDGER, MANIFEST, DEAD = TABLES = "the_ledger", "the_manifest", "the_dead"
RUN = f"(SELECT run_id FROM {LEDGER} WHERE status = 'committed' LIMIT 1)"
NEWEST = "(SELECT max(snapshot_id) FROM ducklake_snapshot)"

# What breaks the tables of a sound catalog, and a part of what the check says then. The table `sales` is number 5.
STALE = {
    "INSERT INTO ducklake_file_column_stats (data_file_id, table_id, column_id) VALUES (99, 5, 1)": "data_file_id 99",
    "INSERT INTO ducklake_file_column_stats SELECT * FROM ducklake_file_column_stats": "column_stats has 2 rows",
    "INSERT INTO ducklake_table_column_stats (table_id, column_id) VALUES (5, 99)": "column 99 that table 5 never had",
    "UPDATE ducklake_snapshot SET next_file_id = 1": "next_file_id",
    f"UPDATE ducklake_data_file SET begin_snapshot = 99 WHERE data_file_id = {FILE}": "from snapshot 99 on",
    "UPDATE ducklake_file_column_stats SET table_id = 2": "is of table 2, not 5",
    "UPDATE ducklake_table_stats SET record_count = 0": "record_count 0",
    "UPDATE ducklake_data_file SET row_id_start = 0": "the same row ids",
    "INSERT INTO ducklake_inlined_data_tables VALUES (5, 'ducklake_inlined_data_5_9', 9)": "there is no such table",
    "INSERT INTO ducklake_metadata VALUES ('x', 'y', 'table', 99)": "table 99, which does not exist",
    "INSERT INTO ducklake_files_scheduled_for_deletion SELECT 99, 'main/sales/' || path, 1, '2026-01-01' "
    f"FROM ducklake_data_file WHERE data_file_id = {FILE}": "which a snapshot has",
}
# The same for what a reader sees of rows, files, ledger and manifests.
BROKEN = {
    "UPDATE ducklake_data_file SET record_count = record_count + 1": "rows of",
    "UPDATE ducklake_data_file SET file_size_bytes = 1": "says 1 bytes of",
    "UPDATE ducklake_data_file SET path = 'x'": "x, which is not there",
    f"UPDATE ducklake_data_file SET end_snapshot = {NEWEST} WHERE data_file_id = {FILE}": "the table lacks",
    f"UPDATE ducklake_data_file SET end_snapshot = NULL WHERE data_file_id <> {FILE}": "has too many",
    "UPDATE ducklake_table_column_stats SET min_value = '9', max_value = '9' WHERE table_id = 5 AND column_id = 1": (
        "finds 0 rows"
    ),
    f"UPDATE {LEDGER} SET snapshot_id = 99 WHERE run_id = {RUN}": "snapshot 99, which does not exist",
    f"UPDATE {LEDGER} SET run_id = 'of nobody' WHERE run_id = {RUN}": "does not name run of nobody",
    f"DELETE FROM {LEDGER} WHERE run_id = {RUN}": "no ledger row names the snapshots",
    f"UPDATE {LEDGER} SET row_count = 7": "the ledger says 7 rows",
    f"UPDATE {LEDGER} SET rows_before = 7": "found 7 rows, and the one before it left",
    f"UPDATE {LEDGER} SET files_written = 7": "files and bytes of",
    f"UPDATE {MANIFEST} SET run_id = 'x'": "which the ledger did not commit",
    f"DELETE FROM {MANIFEST} WHERE load_partition LIKE '%SW%'": "the manifest lacks 1 landed objects",
    f"UPDATE {MANIFEST} SET uri = 'x' WHERE load_partition LIKE '%SW%'": "objects that are not landed, such as x",
    f"DELETE FROM {DEAD}": "dead letters of the commit",
    f"UPDATE {DEAD} SET run_id = 'of nobody'": "is of no committed run",
    f"UPDATE {DEAD} SET rows = 7": "ingest_dead_letters says 7",
    f"UPDATE {DEAD} SET uri = (SELECT min(uri) FROM {DEAD}), size = (SELECT size FROM {DEAD} ORDER BY uri LIMIT 1)": (
        "a row is a dead letter of the commit"
    ),
}


@pytest.fixture
def lived(local_world: World, tmp_path: Path) -> World:
    """The world with some commits: a partition that was replaced, with dead letters of two objects, and another one."""
    local_world.options = {"on_bad_row": "dead_letter", "deltas": {"to": str(tmp_path / "deltas")}}
    with jobs_here():
        for number in range(2):
            rows = sales(number, 5).append_column("region", pa.array(["NW", "SW"]))
            local_world.land(NW, rows, f"{number}.parquet")
            local_world.ingest(NW)
        local_world.land(SW, sales(4))
        local_world.ingest(SW)
    return local_world


def damaged(world: World, statements: str) -> World:
    """The world with a damaged copy of its catalog."""
    file = Path(world.catalog["path"]).with_name("damaged.sqlite")
    shutil.copyfile(world.catalog["path"], file)
    with closing(sqlite3.connect(file)) as catalog:
        for name, table in zip(TABLES, ("ingest_runs", "ingest_files", "ingest_dead_letters"), strict=True):
            query = "SELECT i.table_name FROM ducklake_inlined_data_tables i JOIN ducklake_table t USING (table_id) "
            (found,) = catalog.execute(f"{query} WHERE t.table_name = ?", [table]).fetchone()
            statements = statements.replace(name, found)
        catalog.executescript(statements)
    return replace(world, catalog={"type": "sqlite", "path": str(file)}, _opened=None)


def test_each_stale_row_of_the_catalog_is_found(lived: World) -> None:
    for statements, about in STALE.items():
        found = "\n".join(catalog_invariants.complaints(catalog_tables(damaged(lived, statements))))
        assert about in found, (statements, found)


@pytest.mark.more
def test_each_break_of_rows_files_ledger_and_manifests_is_found(lived: World) -> None:
    rows = [row for row in landed_rows(lived) if row["total"] != 5]
    assert_sound(lived, rows, landed=True)
    for statements, about in BROKEN.items():
        found = "\n".join(complaints(damaged(lived, statements), rows, landed=True, cleaning=False))
        assert about in found, (statements, found)
    for file in sorted(Path(lived.options["deltas"]["to"]).rglob("*.parquet"))[:1]:
        file.unlink()
        assert f"{file} has None bytes" in "\n".join(complaints(lived, rows, landed=True, cleaning=False))
