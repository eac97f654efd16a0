"""The checks of columns, ledger and data files find what is wrong with the catalog."""

import pyarrow as pa
import pytest

from lake_assets.checks.check_run import checks_of, scope_of_run
from lake_assets.checks.result import Scope
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.storage.store import Store
from lake_assets_tests.checks.checked import NULL, check, sql
from lake_assets_tests.world import NW, SW, World, sales


def test_columns_that_changed_since_the_previous_run_are_reported(filled: World) -> None:
    sql(filled, "ALTER TABLE lake.sales ADD COLUMN note VARCHAR", "ALTER TABLE lake.sales RENAME total TO amount")
    result = check(filled, "schema")
    assert not result.passed
    assert set(result.named) == {"note VARCHAR is new", "amount DOUBLE is new", "total DOUBLE is gone"}


def test_columns_of_another_destination_are_not_compared(filled: World) -> None:
    filled.options |= {"destination": {"table": "other"}}
    filled.ingest(NW)
    assert check(filled, "schema").description == "There is no previous run to compare with."


def test_commits_to_a_dropped_table_are_not_compared_with_the_new_one(filled: World) -> None:
    sql(filled, "DROP TABLE lake.sales")
    for text in (NW, SW):
        filled.ingest(text)
    assert [name for name in checks_of(filled.stream) if not check(filled, name).passed] == []
    assert check(filled, "ledger").numbers["commits"] == 2


def test_the_files_of_a_renamed_table_are_found(filled: World) -> None:
    sql(filled, "ALTER TABLE lake.sales RENAME TO other")
    filled.options |= {"destination": {"table": "other"}}
    filled.land(SW, sales(5), "later.parquet")
    filled.ingest(SW)  # into a folder of the new name

    result = check(filled, "data_files")

    assert result.passed
    assert result.numbers == {"files": 4, "missing": 0, "elsewhere": 0}


def test_a_ledger_that_disagrees_with_its_snapshots_is_reported(filled: World) -> None:
    sql(filled, "UPDATE lake.ingest_runs SET row_count = 5 WHERE run_id = 'second'")
    result = check(filled, "ledger")
    assert not result.passed
    (row,) = (row for row in filled.ledger() if row.run_id == "second")
    assert result.named == [f"region=NW/date=2026-02-11: 3 rows in snapshot {row.snapshot_id}, 5 in the ledger"]


def test_the_ledger_of_registered_files_is_compared_with_its_snapshots(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    for number, totals in enumerate([(1, 2), (3,)]):
        local_world.land(NW, sales(*totals), f"{number}.parquet")
        local_world.ingest(NW, run_id=f"run {number}")
    assert check(local_world, "ledger").numbers == {"commits": 2, "expired": 0, "wrong": 0}

    sql(local_world, "UPDATE lake.ingest_runs SET row_count = 5 WHERE run_id = 'run 1'")
    result = check(local_world, "ledger")
    snapshot = max(row.snapshot_id or 0 for row in local_world.ledger())
    assert result.named == [f"region=NW/date=2026-02-11: 3 rows in snapshot {snapshot}, 7 in the ledger"]


def test_the_ledger_of_repaired_files_is_not_compared_with_old_snapshots(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    local_world.land(NW, sales(1, 2), "a.parquet")
    local_world.ingest(NW)
    local_world.land(NW, sales(1, 2, 3), "a.parquet")
    repair_indexed(local_world.stream)
    assert check(local_world, "ledger").numbers == {"commits": 0, "expired": 0, "wrong": 0}

    local_world.land(NW, sales(4), "b.parquet")
    local_world.ingest(NW)
    assert check(local_world, "ledger").numbers == {"commits": 1, "expired": 0, "wrong": 0}


def test_commits_whose_snapshots_have_expired_are_counted(filled: World) -> None:
    newest = max(row.snapshot_id or 0 for row in filled.ledger())
    sql(filled, f"CALL ducklake_expire_snapshots('lake', versions => range(0, {newest})::BIGINT[])")
    assert check(filled, "ledger").numbers == {"commits": 3, "expired": 2, "wrong": 0}
    assert check(filled, "schema").description == "There is no previous run to compare with."


@pytest.mark.parametrize("statement", ["INSERT INTO lake.sales VALUES (9, 9, 'NW', '2026-02-11')", "VACUUM"])
def test_rows_that_other_clients_inlined_are_counted(filled: World, statement: str) -> None:
    sql(filled, "CALL lake.set_option('data_inlining_row_limit', 10, table_name => 'sales')", statement)
    result = check(filled, "row_counts", scope_of_run(filled.stream, "second"))
    assert result.passed == (statement == "VACUUM")


@pytest.mark.parametrize("limit", [0, 10])
def test_rows_that_other_clients_deleted_are_not_counted(filled: World, limit: int) -> None:
    option = f"CALL lake.set_option('data_inlining_row_limit', {limit}, table_name => 'sales')"
    sql(filled, option, "DELETE FROM lake.sales WHERE total = 2")
    result = check(filled, "row_counts", scope_of_run(filled.stream, "second"))
    assert result.named == ["region=NW/date=2026-02-11: 2 rows instead of 3"]
    assert check(filled, "ledger", scope_of_run(filled.stream, "second")).passed


def test_many_partitions_whose_files_are_read_at_once_are_checked_like_few(
    filled: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(filled, "DELETE FROM lake.sales WHERE total = 2")
    filled.land(NULL, sales(7))
    filled.ingest(NULL)
    scope = Scope(None, tuple(filled.partition(text) for text in (NW, SW, NULL)))
    few = [check(filled, name, each) for each in (scope, Scope()) for name in checks_of(filled.stream)]
    monkeypatch.setattr("lake_assets.lake.catalog.past.SINGLY", 1)
    assert [check(filled, name, each) for each in (scope, Scope()) for name in checks_of(filled.stream)] == few
    assert [result.name for result in few if not result.passed] == ["row_counts", "no_null_partition"] * 2
    assert few[1].numbers == {"partitions": 3, "wrong": 1, "changed_since": 0}


def test_columns_that_changed_since_the_run_before_are_reported_after_a_run(filled: World) -> None:
    assert check(filled, "schema", scope_of_run(filled.stream, "second")).numbers == {"columns": 4, "changes": 0}
    filled.options |= {"schema_policy": "evolve"}
    filled.land(SW, sales(8).append_column("note", pa.array(["new"])))
    filled.ingest(SW, run_id="third")
    assert check(filled, "schema", scope_of_run(filled.stream, "third")).named == ["note VARCHAR is new"]


def test_a_missing_data_file_is_named(filled: World) -> None:
    (key, *_) = sorted(key for key in filled.data_files() if "region=SW" in key)
    storage = Store(filled.config.lakes["test"].own_storage)
    storage.delete((key,))
    result = check(filled, "data_files")
    assert not result.passed
    assert result.named == [storage.uri(key)]
