"""The tutorial's commands, run in an empty folder in its order."""

from pathlib import Path

import pytest

from lake_assets_tests.pages.transcript import DOCS, follow, shown


@pytest.mark.usefixtures("folder")
def test_the_commands_of_the_tutorial_have_the_outputs_that_it_shows() -> None:
    commands = shown(DOCS / "tutorial.md")

    follow(commands)

    assert [each.command.split()[1] for each in commands] == [
        "init", "shop", "validate", "plan", "ingest", "query", "generate", "ingest",
    ]  # fmt: skip
    assert Path("catalog.sqlite").exists()
