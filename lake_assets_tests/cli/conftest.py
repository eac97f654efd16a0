"""Commands on a world's config, as a user runs them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from lake_assets.cli import main
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.world import World

__all__ = ["Run", "named", "run", "sessions"]

Run = Callable[..., Result]


def named(group: click.Group = main, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Each command with its name, as it is called; groups only by their commands."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from named(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


@pytest.fixture
def run(local_world: World, tmp_path: Path) -> Run:
    """Runs a command on the world's config, which is written each time."""

    def command(*arguments: str, stdin: str | None = None) -> Result:
        file = local_world.config_file(tmp_path)
        return CliRunner().invoke(main, ["--config", str(file), *arguments], input=stdin)

    return command
