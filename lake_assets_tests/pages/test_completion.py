"""Completion as the page of the command line shows it, in a real bash."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from dev.servers.absent import absent
from lake_assets.templates.demo.folder import prepare
from lake_assets_tests.cli.terminals import on_terminal
from lake_assets_tests.pages.transcript import DOCS, Shown, follow, shown

pytestmark = pytest.mark.more

TAB, PROMPT, DELETE_LINE = "<Tab>", "ready> ", "\x15"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of a reader of the demo, whose shell is bash."""
    if shutil.which("bash") is None:
        absent("no bash: apt-get install bash")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".bashrc").write_text(f"PS1='{PROMPT}'\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LAKE_CONFIG", str(tmp_path / prepare(Path("demo"))))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    return tmp_path


@pytest.mark.usefixtures("home")
def test_the_tab_key_of_bash_shows_what_the_page_shows() -> None:
    commands = shown(DOCS / "cli.md")
    pressed = [each for each in commands if TAB in each.command]

    follow([each for each in commands if each.command.startswith("lake-assets completion install")])

    assert [listed(each) for each in pressed] == [(each.output or "").split() for each in pressed]
    assert len(pressed) > 1


def listed(shown: Shown) -> list[str]:
    """What bash lists after the keys of a page."""
    with on_terminal(["bash", "--noprofile", "-i"], {"TERM": "dumb"}) as terminal:
        terminal.read_until(PROMPT)
        terminal.type(shown.command.replace(TAB, "\t"))
        terminal.read_until(f"\n{PROMPT}")
        terminal.type(f"{DELETE_LINE}exit\r")
        terminal.read_all()
    _, words, *_ = terminal.written.split("\n")
    return words.split()
