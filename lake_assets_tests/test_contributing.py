"""The contributing guide: the files, tests and commands that it names exist."""

import re
from pathlib import Path

import lake_assets

PACKAGE = Path(lake_assets.__file__).parent
ROOT = PACKAGE.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_linked_files_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", TEXT)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_named_files_exist() -> None:
    """A path in backticks is relative to the project, and in the table of places to the package."""
    named = [path for path in re.findall(r"`([\w./-]+)`", TEXT) if "/" in path or path.endswith((".py", ".lock"))]
    assert len(named) > 15
    assert [path for path in named if not (ROOT / path).exists() and not (PACKAGE / path).exists()] == []


def test_files_that_a_command_names_exist() -> None:
    named = re.findall(r"(?<= )(?:lake_assets_tests|examples)/\S+", TEXT)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_named_targets_of_make_exist() -> None:
    targets = {
        target
        for line in re.findall(r"\bmake ((?:[a-z]+ ?)+)(?=`| {2}|$)", TEXT, re.MULTILINE)
        for target in line.split()
    }
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"install", "lint", "test", "quick", "lock"} <= targets
    assert {target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()
