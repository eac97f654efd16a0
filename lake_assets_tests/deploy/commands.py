"""The commands of the installed packages, by which those of `deploy/` are compared: subcommands and options."""

from collections.abc import Mapping, Sequence

import click
from dagster._cli import create_dagster_cli
from dagster._daemon.cli import create_dagster_daemon_cli
from dagster_webserver.cli import create_dagster_webserver_cli

from lake_assets.cli import main

PROGRAMS: Mapping[str, click.Command] = {
    "lake-assets": main,
    "dagster": create_dagster_cli(),  # type: ignore[no-untyped-call]
    "dagster-daemon": create_dagster_daemon_cli(),
    "dagster-webserver": create_dagster_webserver_cli(),  # type: ignore[no-untyped-call]
}


def parse(program: str, words: Sequence[str]) -> None:
    """Parse a command as the program would, and do nothing.

    Raises:
        click.UsageError: there is no such subcommand or option, or an argument is missing.
    """
    command, left = PROGRAMS[program], list(words)
    context = click.Context(command, info_name=program)
    while isinstance(command, click.Group) and left:
        name, inner, left = command.resolve_command(context, left)
        assert inner is not None
        command, context = inner, click.Context(inner, info_name=name, parent=context)

    if isinstance(command, click.Group):
        raise click.UsageError(f"{program} {' '.join(words)} is a group of commands")
    command.make_parser(context).parse_args(left)
