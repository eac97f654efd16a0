"""The suite itself: every process collects the same tests, by names that a person can type, and changes nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lake_assets_tests.ids import COLLECTED

ROOT = Path(__file__).parents[1]
LONGEST = 60  # characters of a case's id
# The clock goes on from a moment.
PROGRAM = """
import sys
import pytest, time_machine

moment, *arguments = sys.argv[1:]
with time_machine.travel(moment, tick=True):
    sys.exit(pytest.main(arguments))
"""


def test_a_process_of_another_clock_home_and_locale_collects_the_same_tests_and_leaves_no_file(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    here = request.config.stash[COLLECTED]
    there = _collected(tmp_path, "2031-03-30T23:59:58", TZ="Asia/Kathmandu", LANG="C", PYTHONUTF8="0")
    known = set(there)
    assert len(there) > 3000
    assert [name for name in here if name not in known] == []
    if request.config.args_source is pytest.Config.ArgsSource.TESTPATHS:  # the whole suite, and no files of it
        assert there == here
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def _collected(folder: Path, moment: str, **variables: str) -> list[str]:
    """Collect the suite in a process with its own clock, hashes, temporary folder and home, and these variables."""
    for name in ("tmp", "home"):
        (folder / name).mkdir()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "LC_", "LAKE_ASSETS"))
    }
    environment |= {"TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home"), "PYTHONHASHSEED": "2", **variables}
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-W", "ignore:Module already imported"]
    command = [sys.executable, "-c", PROGRAM, moment, *options]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_ids_are_words_that_one_types(request: pytest.FixtureRequest) -> None:
    cases = {
        name: name.partition("::")[2].partition("[")[2].removesuffix("]") for name in request.config.stash[COLLECTED]
    }
    assert [
        name
        for name, case in cases.items()
        if case and (len(case) > LONGEST or not re.fullmatch(r"[\w.-]+", case, re.ASCII))
    ] == []
