"""The contributing guide: the files, tests and commands that it names exist."""

import re
from pathlib import Path

import lake_assets

PACKAGE = Path(lake_assets.__file__).parent
ROOT = PACKAGE.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_named_files_exist() -> None:
    """A path in backticks is relative to the project, and in the table of places to the package."""
    named = [path for path in re.findall(r"`([\w./-]+)`", TEXT) if "/" in path or path.endswith((".py", ".lock"))]
    assert len(named) > 15
    assert [path for path in named if not (ROOT / path).exists() and not (PACKAGE / path).exists()] == []


def test_files_that_a_command_names_exist() -> None:
    named = re.findall(r"(?<= )(?:lake_assets_tests|examples)/\S+", TEXT)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
