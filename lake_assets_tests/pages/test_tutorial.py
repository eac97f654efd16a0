"""The commands of the tutorials and of the first page, run in an empty folder in their order."""

import re
from pathlib import Path

import dagster as dg
import pytest

from lake_assets.streams.load import load_config
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.pages.transcript import DOCS, fenced, follow, run, shown, write_scripts
from lake_assets_tests.world import World

EVERY_DAY = DOCS / "every-day.md"
TICK = re.compile(r"\d+ partitions changed .*")


@pytest.mark.journey
@pytest.mark.usefixtures("folder")
def test_the_commands_of_the_tutorial_have_the_outputs_that_it_shows() -> None:
    commands = shown(DOCS / "tutorial.md")

    follow(commands)

    assert [each.command.split()[1] for each in commands] == [
        "init", "shop", "validate", "plan", "ingest", "query", "land", "ingest",
    ]  # fmt: skip
    assert Path("catalog.sqlite").exists()


@pytest.mark.usefixtures("folder")
def test_the_ten_lines_of_the_first_page_have_the_result_that_it_shows() -> None:
    page = DOCS / "index.md"
    (config,) = fenced(page.read_text("utf-8"), "yaml")
    for command in ("lake-assets init shop --start 2026-02-11", "cd shop"):
        output, code = run(command)
        assert code == 0, output
    Path("lake.yaml").write_text(config)

    follow(shown(page))


@pytest.mark.more
@pytest.mark.usefixtures("folder")
def test_the_commands_of_every_day_have_the_outputs_that_the_page_shows(
    local_world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    *commands, more, last = shown(EVERY_DAY)
    (defaults,) = fenced(EVERY_DAY.read_text("utf-8"), "yaml")
    follow(commands, {"python": lambda: write_scripts(EVERY_DAY)})
    with Path("lake.yaml").open("a", encoding="utf-8") as config:
        config.write(defaults)

    with dg.DagsterInstance.from_config("dagster_home") as instance:
        sensor = Ticks(local_world, instance, config=load_config(Path("lake.yaml")))
        first = sensor.tick()
        capfd.readouterr()
        follow([more, last])
        (run,) = sensor.tick()

    assert first == []
    assert TICK.findall(capfd.readouterr().err) == TICK.findall(EVERY_DAY.read_text("utf-8"))
    assert (run.tags["dagster/asset_partition_range_start"], run.tags["dagster/asset_partition_range_end"]) == (
        "2026-03-13|NW",
        "2026-03-14|SW",
    )
