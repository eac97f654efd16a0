"""The commands of the pages about landed formats, each with the output that it shows."""

import pytest

from lake_assets_tests.pages.transcript import DOCS, follow, shown, write_files


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["csv-and-json.md", "keep-what-does-not-fit.md"])
def test_the_page_shows_what_its_commands_print(name: str) -> None:
    page = DOCS / "how-to" / name
    write_files(page)

    follow(shown(page))
