"""The commands of the installed packages, by which those of `deploy/` are compared: subcommands and options."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

PROGRAMS = frozenset({"lake-assets", "dagster", "dagster-daemon", "dagster-webserver"})


@cache
def _command(program: str) -> "click.Command":
    # Their imports take seconds.
    match program:
        case "lake-assets":
            from lake_assets.cli import main  # noqa: PLC0415

            return main
        case "dagster":
            from dagster._cli import create_dagster_cli  # noqa: PLC0415

            return create_dagster_cli()  # type: ignore[no-untyped-call, no-any-return]
        case "dagster-daemon":
            from dagster._daemon.cli import create_dagster_daemon_cli  # noqa: PLC0415

            return create_dagster_daemon_cli()
    from dagster_webserver.cli import create_dagster_webserver_cli  # noqa: PLC0415

    return create_dagster_webserver_cli()  # type: ignore[no-untyped-call, no-any-return]


def parse(program: str, words: Sequence[str]) -> None:
    """Parse a command as the program would, and do nothing.

    Raises:
        click.UsageError: there is no such subcommand or option, or an argument is missing.
    """
    import click  # noqa: PLC0415 - as above

    command, left = _command(program), list(words)
    context = click.Context(command, info_name=program)
    while isinstance(command, click.Group) and left:
        name, inner, left = command.resolve_command(context, left)
        assert inner is not None
        command, context = inner, click.Context(inner, info_name=name, parent=context)

    if isinstance(command, click.Group):
        raise click.UsageError(f"{program} {' '.join(words)} is a group of commands")
    command.make_parser(context).parse_args(left)
