"""Each check passes on a correct lake, and reports what is wrong with another."""

import pyarrow as pa
import pytest

from lake_assets.checks.result import CheckResult, Scope
from lake_assets.checks.run import Checkup, checks_of, is_by_partition, run_check, scope_of_run
from lake_assets.config.checks import Checks
from lake_assets.errors import CatalogError, SourceError
from lake_assets.ingest.api import ingest_all
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.layout.partition import Partition
from lake_assets.parquet.read import count_rows
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.store import Store
from lake_assets_tests.world import NW, SW, World, sales

NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-11"


def fill(world: World) -> World:
    """Two partitions, one of them ingested twice."""
    world.options = {"checks": {"sql": {"positive": "SELECT * FROM refreshed WHERE total <= 0"}}}
    world.land(NW, sales(1, 2))
    world.land(SW, sales(3))
    partitions = [world.partition(text) for text in (NW, SW)]
    outcomes = list(ingest_all(world.stream, partitions, world.sessions, run_id="first"))
    assert [outcome.error for outcome in outcomes] == [None, None]
    world.land(NW, sales(4), "later.parquet")
    world.ingest(NW, run_id="second")
    return world


@pytest.fixture
def filled(local_world: World) -> World:
    return fill(local_world)


def check(world: World, name: str, scope: Scope = Scope()) -> CheckResult:  # noqa: B008 - frozen
    return run_check(world.stream, name, scope)


def by_partition(world: World, name: str, scope: Scope) -> dict[Partition, bool]:
    """Whether the check of each partition passed."""
    results = Checkup(world.stream, [name], scope, by_partition=True).by_partition(name)
    return {partition: result.passed for partition, result in results.items()}


def sql(world: World, *statements: str) -> None:
    """A change of the lake by another client."""
    with world.stream.lake.open() as lake:
        for statement in statements:
            lake.rows(statement)


def test_every_check_passes_on_a_correct_lake(world: World) -> None:
    filled = fill(world)
    for scope in (Scope(), scope_of_run(filled.stream, "second")):
        results = {name: check(filled, name, scope) for name in checks_of(filled.stream)}
        assert [name for name, result in results.items() if not result.passed] == []
    assert set(results) >= {"row_counts", "landing_zone", "no_null_partition", "schema", "ledger", "data_files"}
    assert check(filled, "row_counts").numbers == {"partitions": 2, "wrong": 0, "changed_since": 0}
    assert check(filled, "ledger").numbers == {"commits": 3, "expired": 0, "wrong": 0}
    assert check(filled, "data_files").numbers["files"] == 3  # one of them of an older snapshot


def test_every_check_passes_without_a_table(local_world: World) -> None:
    local_world.landing  # noqa: B018 - makes the folder
    assert all(check(local_world, name).passed for name in checks_of(local_world.stream))


def test_the_scope_of_a_run_is_its_partitions(filled: World) -> None:
    assert scope_of_run(filled.stream, "second").partitions == (filled.partition(NW),)
    assert scope_of_run(filled.stream, "first").partitions == (filled.partition(NW), filled.partition(SW))
    assert scope_of_run(filled.stream, "none").partitions == ()


def test_deleted_rows_are_reported(filled: World) -> None:
    sql(filled, "DELETE FROM lake.sales WHERE total = 2")

    result = check(filled, "row_counts")

    assert not result.passed
    assert result.named == ["region=NW/date=2026-02-11: 2 rows, and 3 are due"]
    assert result.numbers["wrong"] == 1
    assert check(filled, "row_counts", Scope(None, (filled.partition(SW),))).passed
    # The commits themselves are as they were.
    assert check(filled, "ledger").passed


def test_many_partitions_are_counted_like_few(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sql(filled, "DELETE FROM lake.sales WHERE total = 2")
    filled.land(NULL, sales(7))
    filled.ingest(NULL)
    few = check(filled, "row_counts")
    monkeypatch.setattr("lake_assets.checks.rows.SINGLY", 1)
    assert check(filled, "row_counts") == few
    assert few.numbers == {"partitions": 3, "wrong": 1, "changed_since": 0}


def test_objects_that_changed_are_left_to_the_check_of_the_landing_zone(filled: World) -> None:
    filled.land(NW, sales(9), "more.parquet")

    assert check(filled, "row_counts").numbers == {"partitions": 1, "wrong": 0, "changed_since": 1}
    result = check(filled, "landing_zone")
    assert (result.passed, result.severity) == (False, "warn")
    assert result.named == ["region=NW/date=2026-02-11: stale"]
    of_run = check(filled, "landing_zone", scope_of_run(filled.stream, "second"))
    assert (of_run.passed, of_run.named) == (False, result.named)


def test_objects_that_vanish_during_the_check_are_left_to_the_check_of_the_landing_zone(
    filled: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_it_is_gone(store: ArrowStore, key: str) -> int:
        if "region=SW" in key:
            filled.unland(SW)
        return count_rows(store, key)

    monkeypatch.setattr("lake_assets.checks.rows.count_rows", after_it_is_gone)

    result = check(filled, "row_counts")

    assert result.passed
    assert result.numbers == {"partitions": 1, "wrong": 0, "changed_since": 1}


@pytest.mark.parametrize("policy", ["keep", "clear"])
def test_a_partition_without_objects_has_the_rows_of_its_policy(filled: World, policy: str) -> None:
    filled.options |= {"on_empty": policy}
    filled.unland(SW)
    filled.ingest(SW)
    assert check(filled, "row_counts").passed

    sql(filled, "INSERT INTO lake.sales (total, region, date) VALUES (9, 'SW', '2026-02-11')")
    assert not check(filled, "row_counts").passed


def test_a_partition_that_was_never_ingested_is_reported(filled: World) -> None:
    filled.land("region=NE,date=2026-02-12", sales(9))
    assert check(filled, "landing_zone").named == ["region=NE/date=2026-02-12: missing"]


def test_objects_of_a_failed_run_are_reported(filled: World) -> None:
    filled.land(NW, b"", "empty.parquet")
    with pytest.raises(SourceError):
        filled.ingest(NW, run_id="bad")
    assert check(filled, "landing_zone").named == ["region=NW/date=2026-02-11: failed"]

    filled.land(NW, sales(5), "empty.parquet")
    assert check(filled, "landing_zone").named == ["region=NW/date=2026-02-11: failed"]
    of_both = Scope(None, (filled.partition(NW), filled.partition(SW)))
    assert check(filled, "landing_zone", of_both).named == ["region=NW/date=2026-02-11: failed"]

    filled.unland(NW, "empty.parquet")  # what is in the lake is there again
    assert check(filled, "landing_zone").passed


def test_rows_of_a_transform_are_compared_with_the_ledger(local_world: World) -> None:
    local_world.options = {"transform": {"sql": "SELECT * FROM source WHERE total > 1"}}
    local_world.land(NW, sales(1, 2, 3))
    local_world.ingest(NW)
    assert check(local_world, "row_counts").passed
    sql(local_world, "DELETE FROM lake.sales WHERE total = 2")
    assert check(local_world, "row_counts").named == ["region=NW/date=2026-02-11: 1 rows, and 2 are due"]


def test_rows_without_a_partition_value_are_reported(filled: World) -> None:
    filled.land(NULL, sales(7, 8))
    filled.ingest(NULL)
    result = check(filled, "no_null_partition")
    assert (result.passed, result.numbers) == (False, {"rows": 2})


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
    assert result.named == [
        f"region=NW/date=2026-02-11: snapshot {row.snapshot_id} holds 3 rows, and the ledger says 5"
    ]


def test_the_ledger_of_registered_files_is_compared_with_its_snapshots(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    for number, totals in enumerate([(1, 2), (3,)]):
        local_world.land(NW, sales(*totals), f"{number}.parquet")
        local_world.ingest(NW, run_id=f"run {number}")
    assert check(local_world, "ledger").numbers == {"commits": 2, "expired": 0, "wrong": 0}

    sql(local_world, "UPDATE lake.ingest_runs SET row_count = 5 WHERE run_id = 'run 1'")
    result = check(local_world, "ledger")
    snapshot = max(row.snapshot_id or 0 for row in local_world.ledger())
    assert result.named == [f"region=NW/date=2026-02-11: snapshot {snapshot} holds 3 rows, and the ledger says 7"]


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


def test_after_a_run_only_its_partitions_are_looked_at(filled: World) -> None:
    scope = scope_of_run(filled.stream, "second")
    assert check(filled, "ledger", scope).numbers == {"commits": 1, "expired": 0, "wrong": 0}
    assert check(filled, "data_files", scope).numbers == {"files": 1, "missing": 0, "elsewhere": 0}
    (of_sw,) = (key for key in filled.data_files() if "region=SW" in key)
    Store(filled.config.lakes["test"].own_storage).delete((of_sw,))
    sql(filled, "UPDATE lake.ingest_runs SET row_count = 5 WHERE load_partition LIKE 'region=SW%'")

    assert all(check(filled, name, scope).passed for name in checks_of(filled.stream))
    assert {name for name in ("ledger", "data_files") if not check(filled, name).passed} == {"ledger", "data_files"}


def test_what_is_wrong_in_a_run_s_partition_is_reported(filled: World) -> None:
    scope = scope_of_run(filled.stream, "second")
    (missing,) = live_files(filled, NW)
    Store(filled.config.lakes["test"].own_storage).delete((missing,))
    sql(filled, "UPDATE lake.ingest_runs SET row_count = 5 WHERE run_id = 'second'")

    results = [check(filled, name, scope) for name in ("ledger", "data_files")]

    assert [result.passed for result in results] == [False, False]
    assert [result.failing for result in results] == [frozenset({("NW", "2026-02-11")})] * 2
    assert results[1].named == [f"{filled.storage['path']}/{missing}"]


def live_files(world: World, text: str) -> list[str]:
    """The keys of a partition's files in the newest snapshot."""
    files = [uri for (uri,) in world.query("SELECT data_file FROM ducklake_list_files('lake', 'sales')")]
    keys = [uri.removeprefix(f"{world.storage['path']}/") for uri in files]
    return [key for key in keys if world.partition(text).path in key]


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
    assert result.named == ["region=NW/date=2026-02-11: 2 rows, and 3 are due"]
    assert check(filled, "ledger", scope_of_run(filled.stream, "second")).passed


def test_a_run_of_many_partitions_reads_their_files_at_once(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.land(NULL, sales(7))
    filled.ingest(NULL)
    scope = Scope(None, tuple(filled.partition(text) for text in (NW, SW, NULL)))
    few = [check(filled, name, scope) for name in checks_of(filled.stream)]
    monkeypatch.setattr("lake_assets.lake.catalog.scoped_files.SINGLY", 1)
    assert [check(filled, name, scope) for name in checks_of(filled.stream)] == few
    assert [result.name for result in few if not result.passed] == ["no_null_partition"]


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


def test_a_users_check_fails_by_the_rows_that_it_returns(filled: World) -> None:
    assert check(filled, "positive").passed
    filled.land(SW, sales(-3), "bad.parquet")
    filled.ingest(SW, run_id="third")

    result = check(filled, "positive")

    assert (result.passed, result.numbers) == (False, {"rows": 1})
    assert "-3.0" in result.named[0]
    # It looks at the partitions of the run: the bad row is in another.
    assert check(filled, "positive", scope_of_run(filled.stream, "second")).passed
    assert not check(filled, "positive", scope_of_run(filled.stream, "third")).passed


def test_rows_that_break_a_rule_are_named_with_their_columns(filled: World) -> None:
    sql(filled, "UPDATE lake.sales SET total = -1, id = NULL WHERE total = 3")

    result = check(filled, "positive")

    assert result.named == ["id=NULL, total=-1.0, region=SW, date=2026-02-11"]


def test_each_partition_is_checked_separately(filled: World) -> None:
    sql(filled, "UPDATE lake.sales SET total = -1 WHERE total = 3", "DELETE FROM lake.sales WHERE total = 4")
    nw, sw = filled.partition(NW), filled.partition(SW)

    results = {
        name: by_partition(filled, name, Scope(None, (nw, sw)))
        for name in checks_of(filled.stream)
        if is_by_partition(filled.stream, name)
    }

    assert results == {
        "row_counts": {nw: False, sw: True},
        "landing_zone": {nw: True, sw: True},
        "positive": {nw: True, sw: False},
    }


@pytest.mark.parametrize("text", [NW, NULL])
def test_a_partition_s_rows_are_those_of_its_values(local_world: World, text: str) -> None:
    local_world.options = {"checks": {"sql": {"counted": "SELECT count(*) FROM refreshed HAVING count(*) = 2"}}}
    for other, totals in ((NW, (1, 2)), (SW, (3,)), (NULL, (4, 5))):
        local_world.land(other, sales(*totals))
        local_world.ingest(other)
    partition = local_world.partition(text)

    results = by_partition(local_world, "counted", Scope(None, (partition, local_world.partition(SW))))

    assert list(results.values()) == [False, True]


def test_a_query_of_whole_tables_checks_no_single_partition(local_world: World) -> None:
    local_world.options = {"checks": {"sql": {"any": "SELECT 1 FROM sales WHERE false", "some": "FROM Refreshed"}}}
    assert [is_by_partition(local_world.stream, name) for name in ("any", "some", "ledger")] == [False, True, False]


def test_a_partition_that_a_run_failed_is_not_in_the_lake(filled: World) -> None:
    """Also if nothing has landed since: that run failed to read it again."""
    nw, sw = filled.partition(NW), filled.partition(SW)
    scope = Scope("third", (nw,), (sw,))

    result = check(filled, "landing_zone", scope)

    assert not result.passed
    assert (result.numbers, result.named) == ({"partitions": 2, "waiting": 1}, [f"{sw}: committed"])
    assert by_partition(filled, "landing_zone", scope) == {nw: True, sw: False}


def test_a_changed_registered_object_is_reported_for_its_partition(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    local_world.lake_options = {"storage": local_world.storage}
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    local_world.land(NW, sales(1, 2))
    failed = Scope("second", (), (local_world.partition(NW),))

    assert not check(local_world, "indexed_objects", failed).passed
    assert list(by_partition(local_world, "indexed_objects", failed).values()) == [False]


def test_a_check_with_wrong_sql_names_itself_and_leaves_the_lake_usable(local_world: World) -> None:
    local_world.options = {"checks": {"sql": {"typo": "SELECT * FROM refreshed WHERE totl < 0"}}}
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    with pytest.raises(CatalogError, match=r"check typo of stream sales: .*totl"):
        check(local_world, "typo")
    assert check(local_world, "row_counts").passed


def test_a_check_cannot_write() -> None:
    with pytest.raises(ValueError, match="one SELECT"):
        Checks.model_validate({"sql": {"bad": "DELETE FROM sales"}})
    with pytest.raises(ValueError, match="one SELECT"):
        Checks.model_validate({"sql": {"bad": "SELECT 1; DROP TABLE sales"}})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"sql": {"ledger": "SELECT 1"}}, "ledger is a check of the package"),
        ({"sql": {"x": "SELEC 1"}}, "x is not SQL"),
        ({"blocking": ["rows"]}, "blocking names 'rows'"),
        ({"blocking": ["ledger"], "skip": ["ledger"]}, "blocking names 'ledger'"),
        ({"skip": ["nothing"]}, "Input should be"),
    ],
)
def test_an_invalid_config_of_checks_is_refused(config: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Checks.model_validate(config)
