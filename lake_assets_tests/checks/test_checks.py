"""Each check passes on a correct lake, and reports what is wrong with another."""

import pytest

from lake_assets.checks.check_run import checks_of, describe, is_by_partition, is_error, scope_of_run
from lake_assets.checks.result import Scope
from lake_assets.errors import SourceError
from lake_assets.parquet.read import count_rows
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.store import Store
from lake_assets_tests.checks.checked import NULL, by_partition, check, fill, live_files, sql
from lake_assets_tests.world import NW, SW, World, sales


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


def test_every_check_says_what_it_checks_after_a_run_and_as_an_audit(local_world: World) -> None:
    query = "SELECT *\nFROM refreshed WHERE total * 2 < 0;\n"
    local_world.options = {"mode": "index", "checks": {"sql": {"positive": query, "all": "SELECT 1 WHERE false"}}}
    texts = {name: describe(name, local_world.stream) for name in checks_of(local_world.stream)}

    assert set(texts) >= {"indexed_objects", "row_counts", "positive", "all"}
    for text in texts.values():
        what, after, audit = text.rsplit("\n", 2)
        assert what.strip()
        assert after.startswith("- After a run: ")
        assert audit.startswith("- As an audit (*Execute all*, or the lake's audit job): ")
    # Markdown shows indented lines as they are, with their marks.
    assert texts["positive"].startswith(
        "Fails if this query returns rows:\n\n    SELECT *\n    FROM refreshed WHERE total * 2 < 0\n\n- "
    )
    assert "the tables that it names, whole" in texts["all"]
    assert "its partitions" in texts["positive"]


def test_the_scope_of_a_run_is_its_partitions(filled: World) -> None:
    assert scope_of_run(filled.stream, "second").partitions == (filled.partition(NW),)
    assert scope_of_run(filled.stream, "first").partitions == (filled.partition(NW), filled.partition(SW))
    assert scope_of_run(filled.stream, "none").partitions == ()


def test_deleted_rows_are_reported(filled: World) -> None:
    sql(filled, "DELETE FROM lake.sales WHERE total = 2")

    result = check(filled, "row_counts")

    assert not result.passed
    assert result.named == ["region=NW/date=2026-02-11: 2 rows instead of 3"]
    assert result.numbers["wrong"] == 1
    assert check(filled, "row_counts", Scope(None, (filled.partition(SW),))).passed
    # The commits themselves are as they were.
    assert check(filled, "ledger").passed


def test_objects_that_changed_are_left_to_the_check_of_the_landing_zone(filled: World) -> None:
    filled.land(NW, sales(9), "more.parquet")

    assert check(filled, "row_counts").numbers == {"partitions": 1, "wrong": 0, "changed_since": 1}
    result = check(filled, "landing_zone")
    assert (result.passed, is_error(filled.stream, "landing_zone")) == (False, False)
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

    monkeypatch.setattr("lake_assets.parquet.landed.count_rows", after_it_is_gone)

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
    assert check(local_world, "row_counts").named == ["region=NW/date=2026-02-11: 1 row instead of 2"]


def test_rows_without_a_partition_value_are_reported(filled: World) -> None:
    filled.land(NULL, sales(7, 8))
    filled.ingest(NULL)
    result = check(filled, "no_null_partition")
    assert (result.passed, result.numbers) == (False, {"rows": 2})


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


def test_each_partition_is_checked_separately(filled: World) -> None:
    sql(filled, "UPDATE lake.sales SET total = -1 WHERE total = 3", "DELETE FROM lake.sales WHERE total = 4")
    nw, sw = filled.partition(NW), filled.partition(SW)

    results = {
        name: by_partition(filled, name, Scope(None, (nw, sw)))
        for name in checks_of(filled.stream)
        if is_by_partition(filled.stream, name)
    }

    assert results == {
        "last_run": {nw: True, sw: True},
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


def test_the_last_run_of_a_partition_fails_until_a_later_one_succeeds(filled: World) -> None:
    nw, sw = filled.partition(NW), filled.partition(SW)
    filled.land(SW, b"no Parquet", "bad.parquet")
    with pytest.raises(SourceError) as raised:
        filled.ingest(SW, run_id="third")
    error = f"{sw}: {raised.value}"
    scopes = (Scope(), Scope(None, (nw, sw)), scope_of_run(filled.stream, "third"))

    results = [check(filled, "last_run", scope) for scope in scopes]

    assert [result.passed for result in results] == [False, False, False]
    assert [result.named for result in results] == [[error]] * 3
    assert by_partition(filled, "last_run", scopes[0]) == {sw: False}
    assert by_partition(filled, "last_run", scopes[1]) == {nw: True, sw: False}
    filled.unland(SW, "bad.parquet")
    filled.ingest(SW)
    assert check(filled, "last_run").passed


def test_a_changed_registered_object_is_reported_for_its_partition(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    local_world.lake_options = {"storage": local_world.storage}
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    local_world.land(NW, sales(1, 2))
    failed = Scope("second", (), {local_world.partition(NW): "changed"})

    assert not check(local_world, "indexed_objects", failed).passed
    assert list(by_partition(local_world, "indexed_objects", failed).values()) == [False]
