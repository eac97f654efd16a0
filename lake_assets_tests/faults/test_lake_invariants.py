"""The check of a lake after a fault finds each thing that can be wrong."""

import shutil
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.history.restore import restore
from lake_assets_tests.faults import catalog_invariants
from lake_assets_tests.faults.independent import Row, catalog_tables
from lake_assets_tests.faults.lake_invariants import assert_sound, complaints, landed_rows
from lake_assets_tests.faults.without_spark import jobs_here, no_session
from lake_assets_tests.world import NW, SW, World, sales

FILE = "(SELECT max(data_file_id) FROM ducklake_data_file)"
# In place of the catalog's tables of their inlined rows.
LEDGER, MANIFEST, DEAD = TABLES = "the_ledger", "the_manifest", "the_dead"
RUN = f"(SELECT run_id FROM {LEDGER} WHERE status = 'committed' LIMIT 1)"
NEWEST = "(SELECT max(snapshot_id) FROM ducklake_snapshot)"

# What breaks the tables of a sound catalog, and a part of what the check says then. The table `sales` is number 3.
STALE = {
    "INSERT INTO ducklake_file_column_stats (data_file_id, table_id, column_id) VALUES (99, 3, 1)": "data_file_id 99",
    "INSERT INTO ducklake_delete_file SELECT 1, 3, 3, NULL, 99, 'x', 1, 'parquet', 1, 1, 1, NULL, NULL": "file_id 99",
    "INSERT INTO ducklake_table_column_stats (table_id, column_id) VALUES (3, 99)": "column 99 that table 3 never had",
    "INSERT INTO ducklake_table_stats VALUES (99, 1, 1, 1)": "table_id 99",
    "INSERT INTO ducklake_file_column_stats SELECT * FROM ducklake_file_column_stats": "column_stats has 2 rows",
    "INSERT INTO ducklake_tag VALUES (99, 1, NULL, 'comment', 'x')": "object 99",
    "INSERT INTO ducklake_name_mapping VALUES (99, 0, 'id', 1, NULL, 0)": "mapping_id 99",
    "UPDATE ducklake_name_mapping SET target_field_id = 99 WHERE column_id = 0": "column 99",
    f"DELETE FROM ducklake_snapshot_changes WHERE snapshot_id = {NEWEST}": "which ducklake_snapshot_changes does not",
    "INSERT INTO ducklake_inlined_data_tables VALUES (3, 'ducklake_inlined_data_3_9', 9)": "there is no such table",
    "CREATE TABLE ducklake_inlined_data_3_9 (row_id BIGINT)": "ducklake_inlined_data_tables does not have",
    "CREATE TABLE ducklake_inlined_delete_3 AS SELECT 99 file_id, 0 row_id, 3 begin_snapshot": "file 99",
    "INSERT INTO ducklake_metadata VALUES ('x', 'y', 'table', 99)": "table 99, which does not exist",
    "INSERT INTO ducklake_schema_versions VALUES (1, 1, 99)": "table 99",
    "INSERT INTO ducklake_partition_column VALUES (99, 3, 0, 3, 'identity')": "partition_id 99",
    "INSERT INTO ducklake_partition_column SELECT partition_id, 3, 2, 1, 'identity' FROM ducklake_partition_info": (
        "has values of the partition keys"
    ),
    "UPDATE ducklake_snapshot SET next_file_id = 1": "next_file_id",
    f"UPDATE ducklake_snapshot SET schema_version = 0 WHERE snapshot_id = {NEWEST}": "smaller schema_version",
    f"UPDATE ducklake_data_file SET begin_snapshot = 99 WHERE data_file_id = {FILE}": "from snapshot 99 on",
    "DELETE FROM ducklake_snapshot WHERE snapshot_id = 3; DELETE FROM ducklake_snapshot_changes "
    "WHERE snapshot_id = 3": "which have all expired",
    "UPDATE ducklake_file_column_stats SET table_id = 2": "is of table 2, not 3",
    "UPDATE ducklake_table_stats SET record_count = 0": "record_count 0",
    "UPDATE ducklake_table_stats SET next_row_id = 0": "next_row_id 0",
    "DELETE FROM ducklake_table_stats": "no row in ducklake_table_stats",
    "UPDATE ducklake_data_file SET row_id_start = 0": "the same row ids",
    "UPDATE ducklake_file_column_stats SET null_count = 1": "has no NULL",
    "INSERT INTO ducklake_files_scheduled_for_deletion SELECT 99, 'main/sales/' || path, 1, '2026-01-01' "
    f"FROM ducklake_data_file WHERE data_file_id = {FILE}": "which a snapshot has",
    "INSERT INTO ducklake_column SELECT 99, 1, NULL, 3, 9, 'ID', 'int64', NULL, NULL, 1, NULL, 'literal', 'duckdb'": (
        "ducklake_column has 2 live rows"
    ),
}
# The same for what a reader sees of rows, files, ledger and manifest.
BROKEN = {
    "UPDATE ducklake_data_file SET record_count = record_count + 1": "rows of",
    "UPDATE ducklake_data_file SET file_size_bytes = 1": "says 1 bytes of",
    "UPDATE ducklake_data_file SET path = 'x'": "x, which is not there",
    f"UPDATE ducklake_data_file SET end_snapshot = {NEWEST} WHERE data_file_id = {FILE}": "the table lacks",
    f"UPDATE ducklake_data_file SET end_snapshot = NULL WHERE data_file_id <> {FILE}": "has too many",
    "UPDATE ducklake_table_column_stats SET min_value = '0', max_value = '0' WHERE column_id = 1": "finds 0 rows",
    f"INSERT INTO {LEDGER} SELECT * FROM {LEDGER}": "the ledger has 2 rows of run and partition",
    f"UPDATE {LEDGER} SET snapshot_id = 99 WHERE run_id = {RUN}": "snapshot 99, which does not exist",
    f"UPDATE {LEDGER} SET run_id = 'of nobody' WHERE run_id = {RUN}": "does not name run of nobody",
    f"DELETE FROM {LEDGER} WHERE run_id = {RUN}": "no ledger row names the snapshots",
    f"UPDATE {LEDGER} SET row_count = 7": "the ledger says 7 rows",
    f"UPDATE {LEDGER} SET rows_before = 7": "found 7 rows, and the one before it left",
    f"UPDATE {LEDGER} SET files_written = 7": "files and bytes of",
    f"INSERT INTO {MANIFEST} SELECT * FROM {MANIFEST}": "an object of run and partition",
    f"UPDATE {MANIFEST} SET run_id = 'x'": "which the ledger did not commit",
    f"DELETE FROM {MANIFEST} WHERE load_partition LIKE '%SW%'": "the manifest lacks 1 landed objects",
    f"UPDATE {MANIFEST} SET uri = 'x' WHERE load_partition LIKE '%SW%'": "objects that are not landed, such as x",
    f"UPDATE {MANIFEST} SET size = 7": "the manifest says 7 bytes",
}


# The same of the manifest of dead letters.
LETTERS = {
    f"DELETE FROM {DEAD}": "dead letters of the commit",
    f"UPDATE {DEAD} SET run_id = 'of nobody'": "is of no committed run",
    f"UPDATE {DEAD} SET rows = 7": "ingest_dead_letters says 7",
    f"UPDATE {DEAD} SET object = 'x'": "which is of x",
    f"INSERT INTO {DEAD} SELECT * FROM {DEAD} LIMIT 1": "is noted 2 times of one commit",
    f"UPDATE {DEAD} SET uri = (SELECT min(uri) FROM {DEAD}), size = (SELECT size FROM {DEAD} ORDER BY uri LIMIT 1)": (
        "a row is a dead letter of the commit"
    ),
}


def lived(world: World) -> World:
    """The world with some commits: a partition of two objects that was replaced, and one of one object."""
    with jobs_here():
        world.land(NW, sales(1, 2))
        world.ingest(NW)
        world.land(NW, sales(3), "batch_2.parquet")
        world.land(SW, sales(4))
        for text in (NW, SW):
            world.ingest(text)
    return world


def lettered(world: World) -> World:
    """The world with a commit of two objects, each with two rows of another partition."""
    world.options = {"on_bad_row": "dead_letter"}
    with jobs_here():
        for number in range(2):
            rows = sales(number, 5, 6).append_column("region", pa.array(["NW", "SW", "SW"]))
            world.land(NW, rows, f"{number}.parquet")
        world.ingest(NW)
    return world


def damaged(world: World, statements: str) -> World:
    """The world with a damaged copy of its catalog."""
    file = Path(world.catalog["path"]).with_name("damaged.sqlite")
    shutil.copyfile(world.catalog["path"], file)
    with closing(sqlite3.connect(file)) as catalog:
        for name, table in zip(TABLES, ("ingest_runs", "ingest_files", "ingest_dead_letters"), strict=True):
            query = "SELECT i.table_name FROM ducklake_inlined_data_tables i JOIN ducklake_table t USING (table_id) "
            found = catalog.execute(f"{query} WHERE t.table_name = ?", [table]).fetchone()
            statements = statements.replace(name, found[0] if found else name)
        catalog.executescript(statements)
    return replace(world, catalog={"type": "sqlite", "path": str(file)}, _opened=None)


def assert_each_is_found(world: World, breaks: Mapping[str, str], rows: Iterable[Row] | None = None) -> None:
    for statements, about in breaks.items():
        found = "\n".join(complaints(damaged(world, statements), rows, landed=rows is None, cleaning=False))
        assert about in found, (statements, found)


def assert_complains(world: World, *about: str) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_sound(world)
    for text in about:
        assert text in str(caught.value)


def files_of(folder: str) -> list[Path]:
    return sorted(Path(folder).rglob("*.parquet"))


def test_each_stale_row_of_the_catalog_is_found(local_world: World) -> None:
    assert_sound(lived(local_world))
    for statements, about in STALE.items():
        found = "\n".join(catalog_invariants.complaints(catalog_tables(damaged(local_world, statements))))
        assert about in found, (statements, found)


@pytest.mark.more
def test_each_break_of_rows_ledger_and_manifest_is_found(local_world: World) -> None:
    assert_each_is_found(lived(local_world), BROKEN)


@pytest.mark.more
def test_data_files_that_are_gone_or_have_other_rows_are_found(local_world: World) -> None:
    (file,) = files_of(f"{lived(local_world).storage['path']}/main/sales/region=SW")
    pq.write_table(sales(8, 9, 10), file)
    size = f"UPDATE ducklake_data_file SET file_size_bytes = {file.stat().st_size} WHERE path LIKE '%=SW/%'"
    assert_complains(damaged(local_world, size), f"1 rows of {file}, which has 3")

    file.unlink()

    assert_complains(local_world, f"{file}, which is not there", "DuckDB cannot read the lake")


@pytest.mark.more
def test_objects_that_come_or_go_later_are_found_unless_other_rows_are_given(local_world: World) -> None:
    rows = landed_rows(lived(local_world))
    local_world.land(SW, sales(5), "later.parquet")
    assert_complains(local_world, "the table lacks 1 rows", "the manifest lacks 1 landed objects")

    for name in ("later.parquet", "batch_1.parquet"):
        local_world.unland(SW, name)

    assert_complains(local_world, "the table has too many of 1 rows", "1 objects that are not landed")
    assert_sound(local_world, rows)
    with pytest.raises(AssertionError, match="the table lacks 1 rows"):
        assert_sound(local_world, [*rows, rows[0]])


@pytest.mark.more
def test_exported_files_and_dead_letters_that_are_gone_or_damaged_are_found(local_world: World, tmp_path: Path) -> None:
    local_world.options = {"deltas": {"to": str(tmp_path / "deltas")}}
    assert_sound(lived(local_world))
    first, second, *_ = files_of(local_world.options["deltas"]["to"])
    first.unlink()
    second.write_bytes(b"")
    assert_complains(local_world, f"{first} has None bytes", f"{second} has 0 bytes")

    (tmp_path / "other").mkdir()
    world = lettered(World.in_folder(tmp_path / "other", no_session))
    rows = [row for row in landed_rows(world) if row["total"] < 5]
    assert_sound(world, rows, landed=True)
    assert_each_is_found(world, LETTERS, rows)
    first, second = files_of(f"{world.source['path']}/_dead_letters")
    pq.write_table(pq.read_table(first).slice(1), first)
    second.unlink()
    assert_complains(world, f"{first} has {first.stat().st_size} bytes", f"{second} has None bytes")


@pytest.mark.more
def test_rows_of_a_restore_are_those_of_its_ledger_row(local_world: World) -> None:
    first = min(row.snapshot_id or 0 for row in lived(local_world).ledger(NW))
    restore(local_world.stream, local_world.partition(NW), first)

    assert_sound(local_world, [row for row in landed_rows(local_world) if row["total"] != 3])
    assert_complains(local_world, "the table lacks 1 rows")


@pytest.mark.more
@pytest.mark.parametrize("world", [("duckdb", "local"), ("postgres", "s3")], indirect=True)
def test_every_catalog_and_storage_is_read(world: World) -> None:
    assert_sound(world)
    assert_sound(lived(world))

    statement = "DELETE FROM ducklake_file_column_stats; INSERT INTO ducklake_table_stats VALUES (99, 1, 1, 1)"
    if world.catalog["type"] == "duckdb":
        with duckdb.connect(world.catalog["path"]) as catalog:
            catalog.execute(statement)
    else:
        names = ("host", "port", "user", "password")
        options = {name: world.catalog[name] for name in names}
        with psycopg.connect(dbname=world.catalog["database"], **options) as database:
            database.execute(statement)
    world.unland(SW)

    assert_complains(world, "table_id 99", "1 objects that are not landed")
