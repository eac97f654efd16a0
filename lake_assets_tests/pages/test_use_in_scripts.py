"""The page for scripts: each JSON document, quiet and verbose runs, logs, and the progress bar."""

import io
import json
import re
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from dev.servers.absent import absent
from lake_assets.cli import progress_bar
from lake_assets_tests.pages.transcript import DOCS, follow, shown

PAGE = DOCS / "how-to" / "use-in-scripts.md"


@pytest.mark.more
@pytest.mark.usefixtures("folder")
def test_the_commands_of_the_page_have_the_outputs_that_it_shows() -> None:
    if shutil.which("jq") is None:
        absent("no jq: apt-get install jq")
    (config,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    commands = shown(PAGE)

    outputs = follow(commands, {"lake-assets --config index.yaml": lambda: Path("index.yaml").write_text(config)})

    documents = {path.stem for path in Path().glob("*.json")} - {"lake.schema"}
    assert documents == {"validate", "doctor", "plan", "run", "index", "report", "check", "maintain"}
    assert all(json.loads(line) for line in outputs[-1].splitlines())


def test_a_progress_bar_looks_as_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, width=120, force_terminal=True, color_system="standard")
    monkeypatch.setattr(progress_bar, "console", lambda **_: terminal)
    bar = progress_bar._progress()
    clock = iter([0.0, 0.0])  # the task's beginning; afterwards it is four seconds later
    bar.get_time = lambda: next(clock, 4.0)
    bar.add_task("ingest sales", total=101, completed=52, unit="partitions")

    terminal.print(bar.get_renderable())

    line = Text.from_ansi(screen.getvalue()).plain
    assert f"    ⠋ {line[1:].strip()}" in (DOCS / "cli.md").read_text("utf-8").splitlines()
