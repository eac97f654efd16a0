"""The other choices of a sample config: its lines that begin with `#|`."""

import re
from pathlib import Path

from lake_assets.streams.load import parse_config

ENVIRONMENT = {"LAKE_PASSWORD": "x", "KEY_ID": "x", "SECRET": "x"}


def changed_by_each_choice(file: Path) -> int:
    """How many other choices the config has; each of them was found valid, and to change something."""
    lines = file.read_text(encoding="utf-8").splitlines()
    choices = [number for number, line in enumerate(lines) if line.lstrip().startswith("#| ")]
    without = parse_config("\n".join(lines), file, ENVIRONMENT)
    for number in choices:
        assert parse_config("\n".join(chosen(lines, number)), file, ENVIRONMENT) != without, lines[number]
    return len(choices)


def chosen(lines: list[str], number: int) -> list[str]:
    """The lines with this choice in the place of the nearest key above it with the same name and depth."""
    choice = re.sub(r"#\| ", "", lines[number], count=1)
    key = choice.split(":", 1)[0] + ":"
    result = [*lines[:number], choice, *lines[number + 1 :]]
    depth = len(choice) - len(choice.lstrip())
    for above in range(number - 1, -1, -1):
        line = lines[above]
        if line.startswith(key):
            return result[:above] + result[number:]  # with the block that hangs below the key
        if line.strip() and not line.lstrip().startswith("#") and len(line) - len(line.lstrip()) < depth:
            break  # the mapping begins here, and the key is new
    return result
