"""The page of guarantees: its mechanisms and tests exist, and `make test` runs tests of each file that it names."""

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

# Of drivers on a service of their own, which take long; another file of the row says the same.
OF_ALL = {"orchestration/test_emr_serverless.py"}


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
    makefile = (PACKAGE.parent / "Makefile").read_text(encoding="utf-8")
    (selected,) = re.findall(r"^test:.*\n\t.* -m '([^']*)'", makefile, re.MULTILINE)
    if request.config.option.markexpr != selected:
        pytest.skip("this is no run of `make test`")
    files = {item.path.relative_to(TESTS).as_posix() for item in request.session.items if TESTS in item.path.parents}
    if len(files) < 100:
        pytest.skip("this run has some files alone")
    for guarantee, *_, tests in ROWS:
        others = {path for path in paths(tests) - OF_ALL if not any(file.startswith(path) for file in files)}
        assert not others, guarantee
