"""The commands of the tutorial and of the first page, run in an empty folder in their order."""

from pathlib import Path

import pytest

from lake_assets_tests.pages.transcript import DOCS, fenced, follow, run, shown


@pytest.mark.usefixtures("folder")
def test_the_commands_of_the_tutorial_have_the_outputs_that_it_shows() -> None:
    commands = shown(DOCS / "tutorial.md")

    follow(commands)

    assert [each.command.split()[1] for each in commands] == [
        "init", "shop", "validate", "plan", "ingest", "query", "generate", "ingest",
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
