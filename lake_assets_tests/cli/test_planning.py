"""`plan` and `apply`: what is shown is done, and nothing else."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales


@pytest.fixture(autouse=True)
def _landed(local_world: World) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1, 2))


@pytest.mark.parametrize("mode", ["replace", *more(["append", "index"])])
def test_a_plan_is_applied_as_it_is_and_refused_where_the_landing_zone_moved(
    local_world: World, run: Run, tmp_path: Path, mode: str
) -> None:
    local_world.options["mode"] = mode
    file = tmp_path / "plan.json"
    file.write_text(run("plan", "--format", "json").stdout)
    local_world.land(SW, sales(3), "batch_2.parquet")
    local_world.land("region=NE,date=2026-02-11", sales(9))

    result = run("apply", str(file))

    assert result.exit_code == 1
    assert "committed  region=NW/date=2026-02-11  2 rows" in result.stdout
    assert "the landing zone of partition region=SW/date=2026-02-11 has changed since the plan" in result.stderr
    assert local_world.totals() == [1, 2]
    assert [row.load_partition for row in local_world.ledger()] == ["region=NW/date=2026-02-11"]
    file.write_text(run("plan", "--partition", "region=SW", "--format", "json").stdout)
    assert run("apply", str(file)).exit_code == 0
    assert local_world.totals() == [1, 1, 2, 2, 3]
    again = run("apply", str(file))
    assert (again.exit_code, "committed" in again.output) == (0, False)


def test_a_partition_that_is_twice_in_a_plan_is_ingested_once(local_world: World, run: Run, tmp_path: Path) -> None:
    local_world.options["mode"] = "append"
    limited = run("plan", "--max", "1")
    plan = json.loads(run("plan", "--partition", "region=NW", "--format", "json").stdout)
    plan["partitions"] *= 2
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))

    assert "sales: the first 1 of 2 partitions: region NW; date 2026-02-11\n" in limited.stdout, limited.stdout
    assert run("apply", str(file)).stdout.count("committed  ") == 1
    assert local_world.totals() == [1, 2]


def test_a_plan_that_is_applied_at_once_shows_itself_first(local_world: World, run: Run) -> None:
    result = run("plan", "--apply")

    assert result.exit_code == 0, result.output
    table, outcomes = result.stdout.split("to read: 2 objects, ")
    assert table.count("encode") == 2
    assert outcomes.count("committed  ") == 2
    assert local_world.totals() == [1, 1, 2, 2]
    nothing = run("plan", "--apply")
    assert (nothing.exit_code, nothing.stdout) == (
        0,
        "sales: nothing has new objects; nothing to do\nan ingest would change nothing\n",
    )


def test_an_object_without_bytes_fails_its_partition_only(local_world: World, run: Run) -> None:
    local_world.land(SW, b"", "batch_2.parquet")

    table = run("plan")
    applied = run("plan", "--apply")

    assert table.exit_code == applied.exit_code == 1
    assert re.search("region=NW/date=2026-02-11 +replace", table.stdout)
    assert re.search("region=SW/date=2026-02-11 +fail", table.stdout)
    assert re.search(
        r"^fail: the object .*batch_2\.parquet is empty \(0 bytes\).* \(1 partition\)$", table.stdout, re.MULTILINE
    )
    assert local_world.totals() == [1, 2]


CHANGED: list[tuple[dict[str, Any], str]] = [
    ({"destination": {"table": "others"}}, "table: main.sales, and sales has table: main.others now"),
    ({"mode": "append"}, "mode: replace, and sales has mode: append now"),
    ({"on_empty": "clear"}, "on_empty: fail, and sales has on_empty: clear now"),
    ({"schema_policy": "evolve"}, "schema_policy: strict, and sales has schema_policy: evolve now"),
]


def test_a_plan_is_refused_where_its_objects_would_become_something_else(
    local_world: World, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(run("plan", "--format", "json").stdout)
    planned = dict(local_world.options)

    for setting, says in CHANGED:
        local_world.options = planned | setting
        result = run("apply", str(file))

        assert (result.exit_code, says in result.stderr, "make a new plan" in result.stderr) == (1, True, True)
    assert not (tmp_path / "catalog.sqlite").exists()
    local_world.options = planned
    for text in ("", "[]", "{}", '{"stream": "sales", "force": false, "outside": false}'):
        file.write_text(text)
        result = run("apply", str(file))

        hint = "plan.json is not a plan: create one with `lake-assets plan"
        assert (result.exit_code, hint in result.stderr) == (1, True), text


def test_json_has_what_the_table_has(local_world: World, run: Run) -> None:
    local_world.ingest(NW)
    local_world.land(NW, sales(5), "batch_2.parquet")
    local_world.unland(NW)
    document = json.loads(run("plan", "--partition", "region=*", "--format", "json").stdout)
    first, second = document["partitions"]

    assert (document["stream"], document["table"], len(document["partitions"])) == ("sales", "main.sales", 2)
    assert document["seconds"] > 0
    assert (first["partition"], first["decision"]["action"], first["rows_before"], first["rows_after"]) == (
        "region=NW/date=2026-02-11",
        "replace",
        2,
        1,
    )
    assert ([obj["uri"].endswith("batch_2.parquet") for obj in first["new"]], len(first["vanished"])) == ([True], 1)
    assert (second["job"], second["strategy"], second["bytes"]) == ("encode", "direct", second["new"][0]["size"])
