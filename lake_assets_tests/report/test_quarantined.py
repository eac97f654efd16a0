"""What check and report say of the landing zone where objects are quarantined."""

import pytest

from lake_assets.checks.check_run import CheckRun
from lake_assets.checks.result import Scope
from lake_assets.orchestration.assets.report_assets import report_metadata
from lake_assets.report.html import page, section
from lake_assets.report.state import read_state
from lake_assets_tests.checks.checked import check
from lake_assets_tests.ingest.test_quarantine import BAD, WRONG_TYPE
from lake_assets_tests.world import NW, SW, World, sales


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_the_landing_zone_is_in_the_lake_but_for_quarantined_objects(local_world: World, mode: str) -> None:
    local_world.options = {"on_bad_object": "quarantine", "mode": mode}
    local_world.land(NW, sales(1), "a.parquet")
    local_world.land(NW, WRONG_TYPE, BAD)
    local_world.land(SW, sales(2))
    for text in (NW, SW):
        local_world.ingest(text)

    both = Scope("x", (local_world.partition(NW), local_world.partition(SW)))
    for scope in (Scope(), both):
        result = check(local_world, "landing_zone", scope)
        assert (result.passed, result.numbers["quarantined"]) == (True, 1)
        assert result.description == (
            "All landed objects of 2 partitions are in the lake but 1 object that is quarantined."
        )
    results = CheckRun(local_world.stream, ["landing_zone"], both, by_partition=True).by_partition("landing_zone")
    assert {str(partition): result.description for partition, result in results.items()} == {
        "region=NW/date=2026-02-11": (
            "All landed objects of the partition are in the lake but 1 object that is quarantined."
        ),
        "region=SW/date=2026-02-11": "All landed objects of the partition are in the lake.",
    }
    local_world.land(SW, sales(3), "b.parquet")
    result = check(local_world, "landing_zone")
    assert result.description == (
        "Objects of 1 of 2 partitions are not in the lake. Refresh these. 1 object is quarantined."
    )


def test_the_report_names_the_objects_in_its_page_and_its_metadata(local_world: World) -> None:
    local_world.options = {"on_bad_object": "quarantine", "mode": "append"}
    local_world.land(NW, sales(1), "a.parquet")
    bad = local_world.land(NW, WRONG_TYPE, BAD)
    local_world.ingest(NW)

    state = read_state(local_world.stream)

    assert list(state.quarantined) == [bad]
    html = page([section(local_world.stream, state)], "x", state.read_at)
    assert "Quarantined objects: 1" in html
    assert "why they are left out of the lake, and how to fix it" in html
    metadata = report_metadata(state)
    assert BAD in str(metadata["quarantined"].value)
