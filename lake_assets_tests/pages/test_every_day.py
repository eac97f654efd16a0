"""The tutorial of every day: its commands, its script, and its sensor in Dagster."""

import re
from pathlib import Path

import dagster as dg
import pytest

from lake_assets.config.load import load_config
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.pages.transcript import DOCS, follow, shown, write_scripts
from lake_assets_tests.world import World

PAGE = DOCS / "every-day.md"
TICK = re.compile(r"\d+ partitions changed .*")


@pytest.mark.usefixtures("folder")
def test_the_commands_of_every_day_have_the_outputs_that_the_page_shows(
    local_world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    *commands, last = shown(PAGE)
    (defaults,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    follow(commands, {"python": lambda: write_scripts(PAGE)})
    with Path("lake.yaml").open("a", encoding="utf-8") as config:
        config.write(defaults)

    with dg.DagsterInstance.from_config("dagster_home") as instance:
        sensor = Ticks(local_world, instance, config=load_config(Path("lake.yaml")))
        first = sensor.tick()
        capfd.readouterr()
        follow([last])
        (run,) = sensor.tick()

    assert first == []
    assert TICK.findall(capfd.readouterr().err) == TICK.findall(PAGE.read_text("utf-8"))
    assert (run.tags["dagster/asset_partition_range_start"], run.tags["dagster/asset_partition_range_end"]) == (
        "2026-03-13|NW",
        "2026-03-14|SW",
    )
