"""The suite itself: every process collects the same tests, by names that a person can type, and changes nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 60  # characters of a case's id
# The clock stands at this moment, or goes on from now.
PROGRAM = """
import contextlib, sys
import pytest, time_machine

moment, *arguments = sys.argv[1:]
with time_machine.travel(moment, tick=True) if moment else contextlib.nullcontext():
    sys.exit(pytest.main(arguments))
"""


def collecting(folder: Path, moment: str, **variables: str) -> "subprocess.Popen[str]":
    """Collect the suite in a process with its own clock, temporary folder and home, and these variables."""
    for name in ("tmp", "home"):
        (folder / name).mkdir(parents=True)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "LC_", "LAKE_ASSETS"))
    }
    environment |= {"TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home"), **variables}
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command = [sys.executable, "-c", PROGRAM, moment, *options]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str], Path]:
    """The names of all tests as two processes collect them, and the folder of their temporary files."""
    folder = tmp_path_factory.mktemp("collections")
    here = collecting(folder / "here", "", PYTHONHASHSEED="1", TZ="UTC", LANG="C.UTF-8")
    there = collecting(
        folder / "there", "2031-03-30T23:59:58", PYTHONHASHSEED="2", TZ="Asia/Kathmandu", LANG="C", PYTHONUTF8="0"
    )
    names = [
        [line for line in process.communicate(timeout=240)[0].splitlines() if "::" in line] for process in (here, there)
    ]
    assert (here.returncode, there.returncode) == (0, 0), names
    return names[0], names[1], folder


def test_every_process_collects_the_same_tests(collections: tuple[list[str], list[str], Path]) -> None:
    here, there, _ = collections
    assert len(here) > 3000
    assert [pair for pair in zip(here, there, strict=False) if pair[0] != pair[1]] == []
    assert len(here) == len(there)


def test_to_collect_the_tests_leaves_no_file(collections: tuple[list[str], list[str], Path]) -> None:
    *_, folder = collections
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_ids_are_words_that_one_types(collections: tuple[list[str], list[str], Path]) -> None:
    here, *_ = collections
    ids = {name: case for name in here if (case := name.partition("::")[2].partition("[")[2].removesuffix("]"))}
    assert len(ids) > 1000
    assert [
        name for name, case in ids.items() if len(case) > LONGEST or not re.fullmatch(r"[\w.-]+", case, re.ASCII)
    ] == []
