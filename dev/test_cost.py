"""Where the time of a test run went, by pytest's junit file: `make test-cost`."""

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

SLOWEST = 40


def seconds(junit: Path) -> dict[str, float]:
    """Return the worker seconds of each test, with those of its fixtures, by file and name.

    Raises:
        FileNotFoundError: no run wrote the file.
    """
    cases = ElementTree.parse(junit).getroot().iter("testcase")
    return {
        f"{case.get('classname', '').replace('.', '/')}::{case.get('name')}": float(case.get("time", 0))
        for case in cases
    }


def room(test: str) -> str:
    """Return the folder or file below `lake_assets_tests/` that a test is in."""
    return test.removeprefix("lake_assets_tests/").partition("::")[0].partition("/")[0]


def main(junit: Path) -> None:
    """Print the rooms and the slowest tests, most seconds first."""
    tests = seconds(junit)
    rooms: dict[str, list[float]] = defaultdict(list)
    for test, time in tests.items():
        rooms[room(test)].append(time)
    for name, times in sorted(rooms.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(times):8.0f} s {len(times):6,} tests  {name}")
    print(f"\nThe slowest {SLOWEST}:")
    for test, time in sorted(tests.items(), key=lambda item: -item[1])[:SLOWEST]:
        print(f"{time:8.1f} s  {test.removeprefix('lake_assets_tests/')}")
    print(total(junit))


def total(junit: Path) -> str:
    """Return the sum of a run in one line."""
    tests = seconds(junit)
    return f"{sum(tests.values()):,.0f} worker seconds in {len(tests):,} tests"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
