"""The scripts of the page about reading the lake, each with the output that it shows."""

from pathlib import Path

import pytest

from dev.plain_client import install_extensions
from lake_assets_tests.pages.transcript import DOCS, follow, shown, write_scripts

PAGE = DOCS / "how-to" / "read-the-lake.md"


def test_the_scripts_of_the_page_have_the_outputs_that_it_shows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preparation = [each for each in shown(PAGE) if each.output is None]
    scripts = [each for each in shown(PAGE) if each.command.startswith("python ")]

    follow(preparation)
    write_scripts(PAGE)
    install_extensions(folder, "ducklake", "sqlite_scanner")
    monkeypatch.setenv("HOME", str(folder))
    follow(scripts)

    run = " ".join(each.command for each in scripts)
    assert [path.stem for path in Path.cwd().glob("*.py") if path.stem not in run] == []
