"""The page about sensors: what a tick says and requests when many regions land at once."""

import datetime as dt
import re
from pathlib import Path

import dagster as dg
import pytest

from lake_assets_tests.orchestration.ticks import ticks_of
from lake_assets_tests.pages.transcript import DOCS
from lake_assets_tests.world import World, sales

pytestmark = pytest.mark.more

PAGE = DOCS / "sensors.md"
REGIONS = [f"R{number:02}" for number in range(1, 26)]
DAY = re.compile(r"\d{4}-\d\d-\d\d")


def dateless(text: str) -> str:
    return DAY.sub("DAY", text)


@pytest.mark.usefixtures("spark")
def test_regions_that_land_at_once_are_the_runs_that_the_page_shows(
    local_world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    page = dateless(PAGE.read_text("utf-8"))
    local_world.options["sensor"] = {"type": "objects"}
    Path(local_world.source["path"]).mkdir()
    with ticks_of(local_world) as ticks:
        assert ticks.tick() == []
        today = dt.datetime.now(dt.UTC).date()
        for region in REGIONS:
            local_world.land(f"region={region},date={today}", sales(1))
        cursor, keys = ticks.cursor, set(ticks.run_keys)
        capfd.readouterr()

        (shared,) = ticks.tick()
        (logged,) = re.findall(r"\d+ partitions changed .*", capfd.readouterr().err)
        assert all(result.success for result in ticks.run([shared]))
        materialized = ticks.instance.get_materialized_partitions(dg.AssetKey("sales"))

        ticks.cursor, ticks.run_keys = cursor, keys
        local_world.options["sensor"] |= {"group_runs": 1}
        alone = ticks.tick()

    assert f"    {dateless(logged)}\n" in page
    tags = {name: dateless(text) for name, text in shared.tags.items() if "range" in name}
    assert "".join(f"    {name}: {text}\n" for name, text in tags.items()) in page
    assert materialized == {f"{today}|{region}" for region in REGIONS} == {str(run.partition_key) for run in alone}
