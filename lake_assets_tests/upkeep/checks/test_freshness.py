"""The check `freshness`: the newest partition with rows of each region ended recently enough."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from lake_assets.cli import main
from lake_assets.lake.catalog.catalog_database import CatalogDatabase
from lake_assets.lake.catalog.table import Key
from lake_assets.upkeep.checks.check_run import checks_of, is_error
from lake_assets.upkeep.checks.facts import Scope
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import check
from lake_assets_tests.world import World

SW: frozenset[Key] = frozenset({("SW", None)})


def today() -> dt.date:
    return dt.datetime.now(dt.UTC).date()


def at(days: int, region: str = "NW") -> str:
    """The partition of so many days ago."""
    return f"region={region},date={today() - dt.timedelta(days)}"


@pytest.fixture
def late(local_world: World) -> World:
    """NW has yesterday, SW has not since three days; a partition may have ended 30 hours ago."""
    local_world.options["freshness"] = {"newest_partition_hours": 30}
    for text in (at(4), at(1), at(5, "SW"), at(3, "SW")):
        local_world.commit(text, 1)
    return local_world


def test_the_regions_that_are_late_are_named_with_their_newest_partition(late: World, tmp_path: Path) -> None:
    result = check(late, "freshness")

    assert not result.passed
    assert is_error(late.stream, "freshness")
    (named,) = result.named
    assert named.startswith(f"region=SW: date={today() - dt.timedelta(3)}, which ended ")
    hours = float(named.split("ended ")[1].split(" hours")[0])
    assert 48 <= hours <= 96
    assert result.failing == SW
    assert check(late, "freshness", Scope(None, (late.partition(at(4)),))).passed
    assert not check(late, "freshness", Scope(None, (late.partition(at(5, "SW")),))).passed

    command = ["--config", str(late.config_file(tmp_path)), "check", "sales"]
    told = CliRunner().invoke(main, command)
    assert (told.exit_code, "region=SW" in told.output) == (1, True)
    late.commit(at(0, "SW"), 1)
    assert check(late, "freshness").passed


def test_a_partition_without_rows_does_not_count_and_rows_in_no_file_do(late: World) -> None:
    late.execute(f"DELETE FROM lake.sales WHERE region = 'NW' AND date = '{today() - dt.timedelta(1)}'")
    assert [named.partition(":")[0] for named in check(late, "freshness").named] == ["region=NW", "region=SW"]

    files = late.live_files()
    inlined = "CALL lake.set_option('data_inlining_row_limit', 10, table_name => 'sales')"
    late.execute(inlined, *(f"INSERT INTO lake.sales VALUES (7, 7, '{r}', '{today()}')" for r in ("NW", "SW")))
    assert late.live_files() == files
    assert check(late, "freshness").passed
    assert check(late, "freshness", Scope(None, (late.partition(at(5, "SW")),))).passed


def test_regions_are_those_of_the_config_and_nothing_follows_its_end(late: World) -> None:
    late.options["partitions"] = {
        "region": {"values": ["NW", "NE"]},
        "date": {"type": "date", "start": "2026-01-01"},
    }
    assert check(late, "freshness").named == ["region=NE: no rows"]
    assert check(late, "freshness", Scope(None, (late.partition(at(1)),))).passed

    end = today() - dt.timedelta(3)
    late.options["partitions"] = {"region": {}, "date": {"type": "date", "start": "2026-01-01", "end": str(end)}}
    # NW has its last day too, by a partition that is newer than the end.
    late.commit(at(3), 1)
    assert check(late, "freshness", Scope(None, (late.partition(at(3, "SW")),))).passed


@pytest.mark.parametrize(
    ("kind", "form", "ago"),
    [("hour", "%Y-%m-%d-%H", 3600), *more([("week", "%G-W%V", 86_400 * 7), ("month", "%Y-%m", 86_400 * 31)])],
)
def test_other_times_end_as_late_as_they_do(local_world: World, kind: str, form: str, ago: int) -> None:
    local_world.options["partitions"] = {"date": {"type": kind, "start": "2026-01-01"}}
    local_world.options["freshness"] = {"newest_partition_hours": 1.5 if kind == "hour" else ago / 3600}
    moment = dt.datetime.now(dt.UTC)
    before = moment - dt.timedelta(seconds=4 * ago)
    local_world.commit(f"date={before:{form}}", 1)
    assert [named.partition(",")[0] for named in check(local_world, "freshness").named] == [
        f"date: date={before:{form}}"
    ]

    local_world.commit(f"date={moment - dt.timedelta(seconds=ago):{form}}", 1)
    assert check(local_world, "freshness").passed


@pytest.mark.parametrize("days", [2, pytest.param(12, marks=pytest.mark.more)])
def test_the_catalog_answers_with_a_row_for_each_region(
    local_world: World, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    local_world.options["freshness"] = {"newest_partition_hours": 30}
    for day in range(days):
        for region in ("NW", "SW"):
            local_world.commit(at(day, region), 1)
    asked: list[tuple[str, int]] = []
    rows = CatalogDatabase.rows

    def counted(database: CatalogDatabase, sql: str, *parameters: Any) -> list[Any]:
        answer = rows(database, sql, *parameters)
        asked.append((sql, len(answer)))
        return answer

    monkeypatch.setattr(CatalogDatabase, "rows", counted)
    monkeypatch.setattr("duckdb.read_parquet", lambda *_: pytest.fail("rows were read"))

    assert check(local_world, "freshness").passed
    assert [number for sql, number in asked if "partition_value" in sql] == [2]
    assert len(asked) < 15
    assert sum(number for _, number in asked) < 30


def test_the_limit_needs_a_time_and_the_check_needs_the_limit(local_world: World) -> None:
    assert "freshness" not in checks_of(local_world.stream)
    local_world.options["freshness"] = {"fail_hours": 30}
    assert "freshness" not in checks_of(local_world.stream)
    for options, text in (
        ({"freshness": {"newest_partition_hours": 30}, "partitions": {"region": {}}}, "no partition column"),
        ({"freshness": {"warn_hours": 3}}, "set fail_hours, or remove it"),
        ({"freshness": {"warn_hours": 3, "newest_partition_hours": 30}}, "set fail_hours, or remove it"),
        ({"freshness": {"fail_hours": 30}, "checks": {"blocking": ["freshness"]}}, "newest_partition_hours"),
    ):
        local_world.options = options
        with pytest.raises(ValidationError, match=text):
            _ = local_world.config


def test_each_catalog_answers(world: World) -> None:
    world.options["freshness"] = {"newest_partition_hours": 30}
    for text in (at(1), at(3, "SW"), at(5, "SW")):
        world.commit(text, 1)

    assert check(world, "freshness").failing == SW
    assert not check(world, "freshness", Scope(None, (world.partition(at(3, "SW")),))).passed
