"""The checks that a user writes in SQL."""

import pytest

from lake_assets.checks.check_run import is_by_partition, scope_of_run
from lake_assets.config.sections import Checks
from lake_assets.errors import CatalogError
from lake_assets_tests.checks.checked import check, sql
from lake_assets_tests.world import NW, SW, World, sales


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


def test_a_query_of_whole_tables_checks_no_single_partition(local_world: World) -> None:
    local_world.options = {"checks": {"sql": {"any": "SELECT 1 FROM sales WHERE false", "some": "FROM Refreshed"}}}
    assert [is_by_partition(local_world.stream, name) for name in ("any", "some", "ledger")] == [False, True, False]


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
