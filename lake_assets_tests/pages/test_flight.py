"""The page about a Flight's environment: its variables of local files, and the outputs of commands with them."""

import datetime as dt
import os
import shlex
from pathlib import Path

import pytest

from lake_assets.templates.starter.project import start
from lake_assets_tests.pages.transcript import DOCS, follow, indented, section, shown

PAGE = DOCS / "flight.md"
TITLE = "A date, a projection and a schedule"


@pytest.mark.usefixtures("folder")
def test_the_commands_with_the_variables_of_the_page_have_the_outputs_that_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start(Path("shop"), dt.date(2026, 2, 11))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    export = next(block for block in indented(section(PAGE, TITLE)) if block.startswith("export "))
    for word in shlex.split(export.replace("\\\n", ""))[1:]:
        monkeypatch.setenv(*word.split("=", 1))

    follow([each for each in shown(PAGE) if each.output is not None])
