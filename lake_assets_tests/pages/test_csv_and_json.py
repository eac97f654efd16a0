"""The commands of the page about CSV, JSON, Avro and ORC, each with the output that it shows."""

import pytest

from lake_assets_tests.pages.transcript import DOCS, follow, shown, write_files

PAGE = DOCS / "how-to" / "csv-and-json.md"


@pytest.mark.usefixtures("folder")
def test_the_page_shows_what_its_commands_print() -> None:
    write_files(PAGE)

    follow(shown(PAGE))
