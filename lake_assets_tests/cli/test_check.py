"""The command `check`: a line a check, and an exit code that a script can use."""

import pytest

from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.world import NW, SW, World, sales


@pytest.fixture
def ingested(local_world: World) -> World:
    local_world.options = {"checks": {"sql": {"positive": "SELECT * FROM refreshed WHERE total <= 0"}}}
    local_world.commit(NW, 1, 2)
    local_world.commit(SW, 3)
    return local_world


@pytest.mark.usefixtures("ingested")
def test_a_lake_that_is_right_passes_every_check(run: Run) -> None:
    result = run("check")
    assert result.exit_code == 0, result.output
    kind, *lines = result.output.splitlines()
    assert kind == "sales: audit of the whole table"
    assert {line.split()[0] for line in lines} == {"passed"}
    names = "last_run row_counts landing_zone no_null_partition schema ledger data_files positive"
    assert " ".join(line.split()[1] for line in lines) == names


def test_a_warning_does_not_fail_the_command(ingested: World, run: Run) -> None:
    ingested.land(NW, sales(9), "late.parquet")
    result = run("check", "--only", "landing_zone")
    assert result.exit_code == 0
    assert "\nwarning  landing_zone" in result.output
    assert "region=NW/date=2026-02-11: stale" in result.output
    ingested.options = {"checks": {"blocking": ["landing_zone"]}}
    assert run("check", "--only", "landing_zone").exit_code == 1
