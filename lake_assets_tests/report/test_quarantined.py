"""What check and report say of the landing zone where objects are quarantined."""

import pyarrow as pa
import pytest

from lake_assets.checks.check_run import CheckRun
from lake_assets.checks.result import Scope
from lake_assets.orchestration.assets.report_assets import report_metadata
from lake_assets.report.html import page, section
from lake_assets.report.state import read_state
from lake_assets_tests.checks.checked import check
from lake_assets_tests.world import NW, SW, World, sales

BAD = "bad.parquet"
WRONG_TYPE = pa.table({"id": pa.array([7], pa.int64()), "total": ["seven"]})


@pytest.mark.parametrize("mode", ["append", pytest.param("replace", marks=pytest.mark.more)])
def test_check_page_and_metadata_name_quarantined_objects(local_world: World, mode: str) -> None:
    local_world.options = {"on_bad_object": "quarantine", "mode": mode}
    local_world.land(NW, sales(1), "a.parquet")
    bad = local_world.land(NW, WRONG_TYPE, BAD)
    local_world.land(SW, sales(2))
    for text in (NW, SW):
        local_world.ingest(text)

    both = Scope("x", (local_world.partition(NW), local_world.partition(SW)))
    whole = "All landed objects of 2 partitions are in the lake but 1 object that is quarantined."
    for scope in (Scope(), both):
        result = check(local_world, "landing_zone", scope)
        assert (result.passed, result.numbers["quarantined"], result.description) == (True, 1, whole)
    results = CheckRun(local_world.stream, ["landing_zone"], both, by_partition=True).by_partition("landing_zone")
    assert [result.description for result in results.values()] == [
        "All landed objects of the partition are in the lake but 1 object that is quarantined.",
        "All landed objects of the partition are in the lake.",
    ]
    state = read_state(local_world.stream)
    assert list(state.quarantined) == [bad]
    html = page([section(local_world.stream, state)], "x", state.read_at)
    assert "Quarantined objects: 1" in html
    assert BAD in str(report_metadata(state)["quarantined"].value)
    local_world.land(SW, sales(3), "b.parquet")
    assert check(local_world, "landing_zone").description == (
        "Objects of 1 of 2 partitions are not in the lake. Refresh these. 1 object is quarantined."
    )
