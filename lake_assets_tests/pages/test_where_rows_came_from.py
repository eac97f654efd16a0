"""The page about where rows came from: its commands, with the columns that it adds to the config."""

from pathlib import Path

import pytest

from lake_assets_tests.pages.transcript import DOCS, fenced, follow, shown

PAGE = DOCS / "how-to" / "where-rows-came-from.md"


@pytest.mark.usefixtures("folder")
def test_the_commands_of_the_page_have_the_outputs_that_it_shows() -> None:
    (columns,) = fenced(PAGE.read_text("utf-8"), "yaml")

    def add_columns() -> None:
        config, table = Path("lake.yaml"), "    destination: {table: sales}\n"
        text = config.read_text("utf-8")
        assert text.count(table) == 1
        config.write_text(text.replace(table, f"{table}{columns}"), encoding="utf-8")

    follow(shown(PAGE), {"lake-assets ingest sales --all": add_columns})
