"""`--help`, as a new user reads it."""

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from lake_assets.cli import main


def groups(command: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        yield names
        for name, inner in command.commands.items():
            yield from groups(inner, *names, name)


@pytest.mark.parametrize("names", groups(main), ids=" ".join)
def test_what_each_command_does_is_said_in_a_whole_sentence(names: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*names, "--help"], terminal_width=80)

    described = re.findall(r"^  [a-z][a-z-]*  +.*$", result.stdout.partition("--help ")[2], re.MULTILINE)
    assert described
    assert [line for line in described if not line.endswith(".") or line.endswith("...")] == []
