"""Each check passes on a correct lake, and reports what is wrong with another."""

import re
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

from lake_assets.base.errors import CatalogError, SourceError
from lake_assets.config.sections import BuiltIn, Checks
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.storage.formats.parquet_files import read_footer
from lake_assets.storage.store import Store
from lake_assets.upkeep.checks.check_run import (
    _BUILT_IN,
    CheckRun,
    check_description,
    checks_of,
    is_by_partition,
    is_error,
    scope_of_run,
)
from lake_assets.upkeep.checks.facts import Scope
from lake_assets_tests.upkeep.checks.checked import NULL, by_partition, check, failed, fill, results
from lake_assets_tests.world import NW, SW, World, sales

OF_NW, OF_SW = "region=NW/date=2026-02-11", "region=SW/date=2026-02-11"
INLINED = "CALL lake.set_option('data_inlining_row_limit', {}, table_name => 'sales')"


def test_every_check_passes_on_a_correct_lake(world: World) -> None:
    filled = fill(world)
    for scope in (Scope(), scope_of_run(filled.stream, "second")):
        assert failed(filled, scope) == {}
    names = {"row_counts", "landing_zone", "no_null_partition", "schema", "ledger", "data_files"}
    assert checks_of(filled.stream).keys() >= names
    assert check(filled, "row_counts").numbers == {"partitions": 2, "wrong": 0, "changed_since": 0}
    assert check(filled, "ledger").numbers == {"commits": 3, "expired": 0, "wrong": 0}
    assert check(filled, "data_files").numbers["files"] == 3  # one of them of an older snapshot


def test_every_check_says_what_it_checks_and_passes_without_a_table(local_world: World) -> None:
    query = "SELECT *\nFROM refreshed WHERE total * 2 < 0;\n"
    local_world.options = {"mode": "index", "checks": {"sql": {"positive": query, "all": "SELECT 1 WHERE false"}}}
    local_world.landing  # noqa: B018 - makes the folder
    texts = {name: check_description(name, local_world.stream) for name in checks_of(local_world.stream)}

    assert set(texts) >= {"indexed_objects", "row_counts", "positive", "all"}
    for name, text in texts.items():
        what, after, audit = text.rsplit("\n", 2)
        assert what.strip()
        assert after.startswith("- After a run: ")
        assert audit.startswith("- As an audit (*Execute all*, or the lake's audit job): ")
        assert check(local_world, name).passed
    # Markdown shows indented lines as they are, with their marks.
    assert "returns rows:\n\n    SELECT *\n    FROM refreshed WHERE total * 2 < 0\n\n- " in texts["positive"]
    assert "the tables that it names, whole" in texts["all"]
    assert "its partitions" in texts["positive"]


WRONG = [
    pytest.param(
        ["DELETE FROM lake.sales WHERE total = 2"], {"row_counts": [f"{OF_NW}: 2 rows instead of 3"]}, id="deleted"
    ),
    pytest.param(
        [INLINED.format(10), "DELETE FROM lake.sales WHERE total = 2"],
        {"row_counts": [f"{OF_NW}: 2 rows instead of 3"]},
        id="deleted inlined",
        marks=pytest.mark.more,
    ),
    pytest.param(
        [INLINED.format(10), "INSERT INTO lake.sales VALUES (9, 9, 'NW', '2026-02-11')"],
        {"row_counts": [f"{OF_NW}: 4 rows instead of 3"]},
        id="inserted inlined",
        marks=pytest.mark.more,
    ),
    pytest.param(
        ["UPDATE lake.ingest_runs SET row_count = 5 WHERE run_id = 'second'"],
        {"ledger": [f"{OF_NW}: 3 rows in snapshot N, 5 in the ledger"]},
        id="ledger",
    ),
    pytest.param(
        ["ALTER TABLE lake.sales ADD COLUMN note VARCHAR", "ALTER TABLE lake.sales RENAME id TO number"],
        {"schema": ["id BIGINT is gone", "note VARCHAR is new", "number BIGINT is new"]},
        id="columns",
        marks=pytest.mark.more,
    ),
    pytest.param(
        ["UPDATE lake.sales SET total = -1, id = NULL WHERE total = 4"],
        {"positive": ["id=NULL, total=-1.0, region=NW, date=2026-02-11"]},
        id="rows that break a rule",
    ),
    pytest.param(
        ["UPDATE lake.sales SET region = NULL WHERE total = 4"],
        {"no_null_partition": [], "row_counts": [f"{OF_NW}: 2 rows instead of 3"]},
        id="without a value",
    ),
]


@pytest.mark.parametrize(("statements", "wrong"), WRONG)
def test_what_another_client_has_changed_is_named_by_the_check_of_it(
    filled: World, statements: list[str], wrong: dict[str, list[str]]
) -> None:
    filled.execute(*statements)

    found = failed(filled)

    assert found.keys() == wrong.keys()
    for name, named in wrong.items():
        assert not named or sorted(re.sub(r"snapshot \d+", "snapshot N", n) for n in found[name].named) == named
        if name not in ("schema", "no_null_partition"):  # which look at the whole table
            assert check(filled, name, Scope(None, (filled.partition(SW),))).passed
            assert not check(filled, name, scope_of_run(filled.stream, "second")).passed


def test_after_a_run_only_its_partitions_are_looked_at(filled: World) -> None:
    scope = scope_of_run(filled.stream, "second")
    assert scope.partitions == (filled.partition(NW),)
    assert scope_of_run(filled.stream, "first").partitions == (filled.partition(NW), filled.partition(SW))
    assert scope_of_run(filled.stream, "none").partitions == ()
    assert check(filled, "ledger", scope).numbers == {"commits": 1, "expired": 0, "wrong": 0}
    assert check(filled, "data_files", scope).numbers == {"files": 1, "missing": 0, "elsewhere": 0}
    (of_sw,) = (key for key in filled.data_files() if "region=SW" in key)
    storage = Store(filled.config.lakes["test"].own_storage)
    storage.delete((of_sw,))
    filled.execute("UPDATE lake.ingest_runs SET row_count = 5 WHERE load_partition LIKE 'region=SW%'")

    assert failed(filled, scope) == {}
    assert not check(filled, "ledger").passed
    assert check(filled, "data_files").named == [storage.uri(of_sw)]

    (of_nw,) = (uri for uri in filled.live_files() if "region=NW" in uri)
    Path(of_nw).unlink()
    missing = check(filled, "data_files", scope)
    assert (missing.passed, missing.failing) == (False, frozenset({("NW", "2026-02-11")}))
    assert missing.named == [of_nw]


def test_objects_that_changed_are_left_to_the_check_of_the_landing_zone(
    filled: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.land(NW, sales(9), "more.parquet")
    filled.land("region=NE,date=2026-02-12", sales(9))

    assert check(filled, "row_counts").numbers == {"partitions": 1, "wrong": 0, "changed_since": 1}
    changed = "1 partition is not compared: the landed objects have changed since."
    matches = "The row counts of 1 partition match the landed objects."
    assert check(filled, "row_counts").description == f"{matches} {changed}"
    assert check(filled, "row_counts", Scope(None, (filled.partition(NW),))).description == changed
    result = check(filled, "landing_zone")
    assert (result.passed, is_error(filled.stream, "landing_zone")) == (False, False)
    assert result.named == ["region=NE/date=2026-02-12: missing", f"{OF_NW}: stale"]
    of_run = check(filled, "landing_zone", scope_of_run(filled.stream, "second"))
    assert (of_run.passed, of_run.named) == (False, [f"{OF_NW}: stale"])

    def after_it_is_gone(store: Store, key: str, **options: bool) -> tuple[int, pa.Schema]:
        if "region=SW" in key:
            filled.unland(SW)
        return read_footer(store, key, **options)

    # One that vanishes during the check, too.
    monkeypatch.setattr("lake_assets.storage.formats.any_format.read_footer", after_it_is_gone)
    assert check(filled, "row_counts").numbers == {"partitions": 0, "wrong": 0, "changed_since": 2}


@pytest.mark.more
@pytest.mark.parametrize("policy", ["keep", "clear"])
def test_a_partition_without_objects_has_the_rows_of_its_policy(filled: World, policy: str) -> None:
    filled.options |= {"on_empty": policy}
    filled.unland(SW)
    filled.ingest(SW)
    assert check(filled, "row_counts").passed

    filled.execute("INSERT INTO lake.sales (total, region, date) VALUES (9, 'SW', '2026-02-11')")
    assert not check(filled, "row_counts").passed


@pytest.mark.more
def test_a_failed_run_fails_until_a_later_one_succeeds_or_its_objects_are_gone(filled: World) -> None:
    nw, sw = filled.partition(NW), filled.partition(SW)
    filled.land(SW, b"no Parquet", "bad.parquet")
    with pytest.raises(SourceError) as raised:
        filled.ingest(SW, run_id="third")

    for scope in (Scope(), Scope(None, (nw, sw)), scope_of_run(filled.stream, "third")):
        last, landing = (check(filled, name, scope) for name in ("last_run", "landing_zone"))
        assert (last.passed, last.named) == (False, [f"{sw}: {raised.value}"])
        assert landing.named == [f"{OF_SW}: {raised.value}"]
    assert by_partition(filled, "landing_zone", Scope()) == {nw: True, sw: False}
    run = CheckRun(filled.stream, ["landing_zone"], Scope(None, (sw,)), by_partition=True)
    said = run.by_partition("landing_zone")[sw].description
    assert said.startswith(f"{sw}: it has objects that are not in the lake, as its last run failed: ")
    assert said.endswith("remove it, or let its writer land it again.")
    assert by_partition(filled, "last_run", Scope()) == {sw: False}
    assert by_partition(filled, "last_run", Scope(None, (nw, sw))) == {nw: True, sw: False}
    filled.land(SW, sales(5), "bad.parquet")
    landing = check(filled, "landing_zone")
    assert landing.named == [f"{OF_SW}: {raised.value}"]
    assert landing.description == "Objects of 1 of 2 partitions are not in the lake. Refresh these."  # it was corrected
    filled.unland(SW, "bad.parquet")  # what is in the lake is there again
    assert check(filled, "landing_zone").passed
    filled.ingest(SW)
    assert check(filled, "last_run").passed


@pytest.mark.more
def test_rows_of_a_transform_are_compared_with_the_ledger(local_world: World) -> None:
    local_world.options = {"transform": {"sql": "SELECT * FROM source WHERE total > 1"}}
    local_world.land(NW, sales(1, 2, 3))
    local_world.ingest(NW)
    assert check(local_world, "row_counts").passed
    local_world.execute("DELETE FROM lake.sales WHERE total = 2")
    assert check(local_world, "row_counts").named == [f"{OF_NW}: 1 row instead of 2"]


def test_each_partition_is_checked_separately(filled: World) -> None:
    filled.execute("UPDATE lake.sales SET total = -1 WHERE total = 3", "DELETE FROM lake.sales WHERE total = 4")
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


def test_a_partition_s_rows_are_those_of_its_values_also_null(local_world: World) -> None:
    local_world.options = {"checks": {"sql": {"counted": "SELECT count(*) FROM refreshed HAVING count(*) = 2"}}}
    for other, totals in ((NW, (1, 2)), (SW, (3,)), (NULL, (4, 5))):
        local_world.commit(other, *totals)
    scope = Scope(None, tuple(local_world.partition(text) for text in (NW, SW, NULL)))

    assert list(by_partition(local_world, "counted", scope).values()) == [False, True, False]
    assert check(local_world, "no_null_partition").numbers == {"rows": 2}


def test_a_changed_registered_object_is_reported_for_its_partition(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    local_world.lake_options = {"storage": local_world.storage}
    local_world.commit(NW, 1)
    local_world.land(NW, sales(1, 2))
    failed = Scope("second", (), {local_world.partition(NW): "changed"})

    assert not check(local_world, "indexed_objects", failed).passed
    assert list(by_partition(local_world, "indexed_objects", failed).values()) == [False]


@pytest.mark.more
def test_a_table_that_was_dropped_renamed_or_is_another_is_not_compared(filled: World) -> None:
    filled.execute("ALTER TABLE lake.sales RENAME TO other")
    filled.options |= {"destination": {"table": "other"}}
    filled.commit(SW, 5, name="later.parquet")  # into a folder of the new name
    assert check(filled, "data_files").numbers == {"files": 4, "missing": 0, "elsewhere": 0}

    filled.options |= {"destination": {"table": "third"}}
    filled.ingest(NW)
    assert check(filled, "schema").description == "There is no previous run to compare with."

    filled.execute("DROP TABLE lake.third")
    for text in (NW, SW):
        filled.ingest(text)
    assert failed(filled) == {}
    assert check(filled, "ledger").numbers["commits"] == 2


@pytest.mark.more
def test_the_ledger_of_registered_files_is_compared_with_their_snapshots_and_not_with_those_of_before_a_repair(
    local_world: World,
) -> None:
    local_world.options = {"mode": "index"}
    local_world.commit(NW, 1, 2, name="a.parquet")
    local_world.land(NW, sales(1, 2, 3), "a.parquet")
    repair_indexed(local_world.stream)
    assert check(local_world, "ledger").numbers == {"commits": 0, "expired": 0, "wrong": 0}

    snapshot = local_world.commit(NW, 4, name="b.parquet", run_id="run 1").snapshot_id
    assert check(local_world, "ledger").numbers == {"commits": 1, "expired": 0, "wrong": 0}
    local_world.execute("UPDATE lake.ingest_runs SET row_count = 5 WHERE run_id = 'run 1'")
    (named,) = check(local_world, "ledger").named
    assert named.startswith(f"{OF_NW}: ")
    assert f"in snapshot {snapshot}, " in named


def test_commits_whose_snapshots_have_expired_are_counted(filled: World) -> None:
    newest = max(row.snapshot_id or 0 for row in filled.ledger())
    filled.execute(f"CALL ducklake_expire_snapshots('lake', versions => range(0, {newest})::BIGINT[])")
    assert check(filled, "ledger").numbers == {"commits": 3, "expired": 2, "wrong": 0}
    assert check(filled, "schema").description == "There is no previous run to compare with."


@pytest.mark.more
def test_columns_that_changed_since_the_run_before_are_reported_after_a_run(filled: World) -> None:
    assert check(filled, "schema", scope_of_run(filled.stream, "second")).numbers == {"columns": 4, "changes": 0}
    filled.options |= {"schema_policy": "evolve"}
    filled.land(SW, sales(8).append_column("note", pa.array(["new"])))
    filled.ingest(SW, run_id="third")
    assert check(filled, "schema", scope_of_run(filled.stream, "third")).named == ["note VARCHAR is new"]


@pytest.mark.more
def test_many_partitions_whose_files_are_read_at_once_are_checked_like_few(
    filled: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.execute("DELETE FROM lake.sales WHERE total = 2")
    filled.commit(NULL, 7)
    scope = Scope(None, tuple(filled.partition(text) for text in (NW, SW, NULL)))
    few = [results(filled, each) for each in (scope, Scope())]
    monkeypatch.setattr("lake_assets.lake.catalog.past_partitions.SINGLY", 1)
    assert [results(filled, each) for each in (scope, Scope())] == few
    wrong = [[name for name, result in each.items() if not result.passed] for each in few]
    assert wrong == [["row_counts", "no_null_partition"]] * 2
    assert few[0]["row_counts"].numbers == {"partitions": 3, "wrong": 1, "changed_since": 0}


def test_a_users_check_looks_at_the_run_or_at_whole_tables_and_a_wrong_one_names_itself(local_world: World) -> None:
    local_world.options = {
        "checks": {
            "sql": {
                "any": "SELECT 1 FROM sales WHERE false",
                "some": "FROM Refreshed WHERE total < 0",
                "typo": "SELECT * FROM refreshed WHERE totl < 0",
            }
        }
    }
    assert [is_by_partition(local_world.stream, name) for name in ("any", "some", "ledger")] == [False, True, False]
    local_world.commit(NW, 1, run_id="good")
    local_world.commit(SW, -3, run_id="bad")

    whole = check(local_world, "some")
    assert (whole.passed, whole.numbers) == (False, {"rows": 1})
    assert [check(local_world, "some", scope_of_run(local_world.stream, run)).passed for run in ("good", "bad")] == [
        True,
        False,
    ]
    with pytest.raises(CatalogError, match=r"check typo of stream sales: .*totl"):
        check(local_world, "typo")
    assert check(local_world, "row_counts").passed  # the lake is usable


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"sql": {"bad": "DELETE FROM sales"}}, "one SELECT"),
        ({"sql": {"bad": "SELECT 1; DROP TABLE sales"}}, "one SELECT"),
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


# Mode append: objects that vanish or change, and rows.
@pytest.fixture
def appended(local_world: World) -> World:
    assert "appended_objects" not in checks_of(local_world.stream)
    local_world.options = {"mode": "append"}
    for text, name, total in ((NW, "a", 1), (NW, "b", 2), (SW, "c", 7)):
        local_world.commit(text, total, name=f"{name}.parquet")
    return local_world


def scopes(world: World) -> list[Scope]:
    """The whole table, and the partitions of a run."""
    return [Scope(), Scope(partitions=(world.partition(NW), world.partition(SW)))]


def test_all_checks_pass_until_there_are_more_rows_than_in_the_footers(appended: World) -> None:
    for scope in scopes(appended):
        assert failed(appended, scope) == {}
        assert check(appended, "row_counts", scope).numbers["partitions"] == 2
        assert check(appended, "appended_objects", scope).numbers == {"appended": 3, "vanished": 0, "changed": 0}

    appended.execute("INSERT INTO lake.sales SELECT * FROM lake.sales WHERE total = 2")
    assert [check(appended, "row_counts", scope).passed for scope in scopes(appended)] == [False, False]


def test_a_vanished_and_a_changed_object_are_named_and_rows_of_the_vanished_are_due(appended: World) -> None:
    appended.unland(NW, "a.parquet")
    appended.ingest(NW)

    for scope in scopes(appended):
        result = check(appended, "appended_objects", scope)
        assert (result.passed, is_error(appended.stream, "appended_objects")) == (False, False)
        assert "a.parquet has vanished" in result.named[0]
        assert [check(appended, n, scope).passed for n in ("row_counts", "landing_zone", "ledger")] == [True] * 3
        found = by_partition(appended, "appended_objects", scope)
        assert found == {appended.partition(NW): False, appended.partition(SW): True}
    appended.land(SW, sales(1, 1), "c.parquet")
    for scope in scopes(appended):
        assert any("c.parquet has changed" in named for named in check(appended, "appended_objects", scope).named)
    appended.execute("DELETE FROM lake.sales WHERE total = 1")
    assert not check(appended, "row_counts").passed


def test_the_config_names_every_check_of_this_package() -> None:
    assert set(get_args(BuiltIn)) == _BUILT_IN.keys()
