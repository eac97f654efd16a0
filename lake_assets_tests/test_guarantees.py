"""The page of guarantees: its mechanisms and tests exist, and `make test` runs a case of each test."""

import re
from pathlib import Path

import pytest

import lake_assets

PACKAGE = Path(lake_assets.__file__).parent
TESTS = Path(__file__).parent
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in (PACKAGE.parent / "docs" / "guarantees.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| guarantee ")
]


def paths(cell: str) -> set[str]:
    return set(re.findall(r"`((?:\w+/)*\w+(?:\.py|/))`", cell))


def test_each_guarantee_has_tests_that_exist() -> None:
    assert len(ROWS) > 30
    assert [row[0] for row in ROWS if not paths(row[-1])] == []
    assert {path for row in ROWS for path in paths(row[-1]) if not (TESTS / path).exists()} == set()


def test_named_mechanisms_exist() -> None:
    named = {path for row in ROWS for path in paths(row[1])}
    assert named
    assert {path for path in named if not (PACKAGE / path).exists()} == set()


def test_make_test_runs_each_guarantee(request: pytest.FixtureRequest) -> None:
    """Asks the run that this test is part of; one of single files has nothing to say."""
    if request.config.option.markexpr != "not (more or installs or kill_all)":
        pytest.skip("this is no run of `make test`")
    files = {item.path.relative_to(TESTS).as_posix() for item in request.session.items if TESTS in item.path.parents}
    if "test_guarantees.py" not in files or len(files) < 100:
        pytest.skip("this run has some files alone")
    assert [row[0] for row in ROWS if not any(file.startswith(path) for path in paths(row[-1]) for file in files)] == []
