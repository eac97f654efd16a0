"""Completion by the Tab key of real shells."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from dev.servers.absent import absent
from lake_assets_tests.cli.terminals import on_terminal
from lake_assets_tests.tiers import more

# The command, which prints its words if the shell asks for no completion.
PROGRAM = f"""#!{sys.executable}
import os, sys
if "_LAKE_ASSETS_COMPLETE" not in os.environ:
    print("ran:", *sys.argv[1:], ".")
    sys.exit()
from lake_assets.cli import main
main(prog_name="lake-assets")
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose shells complete, with the command in its PATH."""
    folder = tmp_path / "home"
    (folder / "bin").mkdir(parents=True)
    # Without this folder fish reads all manuals of the machine first.
    (folder / ".local" / "share" / "fish" / "generated_completions").mkdir(parents=True)
    program = folder / "bin" / "lake-assets"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return folder


# How a shell starts without the machine's configuration, and its own.
LINE = 'eval "$(_LAKE_ASSETS_COMPLETE={}_source lake-assets)"\n'
SHELLS = {
    "bash": (["bash", "--noprofile", "-i"], ".bashrc", LINE.format("bash") + "PS1='ready> '\n"),
    "zsh": (["zsh", "-d", "-i"], ".zshrc", f"autoload -Uz compinit && compinit\n{LINE.format('zsh')}PS1='ready> '\n"),
    "fish": (
        ["fish", "--private", "-i"],
        ".config/fish/config.fish",
        "_LAKE_ASSETS_COMPLETE=fish_source lake-assets | source\nfunction fish_prompt; echo 'ready> '; end\n",
    ),
}
KEYS = "lake-assets pla\tsales --ma\t1\r"


@pytest.mark.parametrize("shell", ["bash", *more(["zsh", "fish"])])
def test_the_tab_key_completes_commands_and_options(home: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        absent(f"no {shell}: apt-get install {shell}")
    words, file, prompt = SHELLS[shell]
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text(prompt)

    with on_terminal(words, {"TERM": "xterm", "ZDOTDIR": str(home)}) as terminal:
        terminal.read_until("ready> ")
        terminal.type(KEYS)
        terminal.read_until("1 .")
        terminal.type("exit\r")
        terminal.read_all()

    assert "ran: plan sales --max 1 ." in terminal.written
