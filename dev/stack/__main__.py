"""`python -m dev.stack`: starts, shows and stops a stack, and executes commands on it."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from dev.stack.configs import lake_environment
from dev.stack.site import FOLDER, Ports, Site, StackError
from dev.stack.start import bring_up
from dev.stack.status import read_status, status_table
from dev.stack.supervised import Supervisor, end_leftovers

_REFRESH = 2.0  # seconds between two looks of the status page

_WIDTH = 120

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=FOLDER,
    help="State, configs and logs. Default: build/stack.",
)


@contextmanager
def _told() -> Iterator[None]:
    """Errors of the stack as lines, without a traceback."""
    try:
        yield
    except StackError as error:
        raise click.ClickException(str(error)) from None


@click.group()
def main() -> None:
    """The production topology on this machine."""


@main.command()
@click.argument("names", nargs=-1, metavar="[COMPONENT]…")
@folder_option
@click.option("--free-ports", is_flag=True, help="A new stack takes ports that are free now, not its usual ones.")
@click.option("--detach", is_flag=True, help="Return when all answers, and leave it running.")
def up(names: tuple[str, ...], folder: Path, *, free_ports: bool, detach: bool) -> None:
    """Start what does not run yet, show the status page, and stop everything at Ctrl-C.

    With names, only these components and those that they need.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _told():
        site = Site.at(folder, Ports.free() if free_ports else None)
        try:
            bring_up(site, names, click.echo)
            if detach:
                return
            _show(site)
        except KeyboardInterrupt:
            # A second Ctrl-C would leave some of it running.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            _stop(site)


def _console() -> Console:
    """The terminal; a page in a file or a pipe is wide enough."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


def _show(site: Site) -> None:
    """The status page until Ctrl-C, or until the stack was stopped; without a terminal, one page."""
    console, supervisor = _console(), Supervisor(site)
    if not console.is_terminal:
        console.print(status_table(read_status(site), site))
        while supervisor.has_started():
            time.sleep(_REFRESH)
        return
    with Live(console=console, auto_refresh=False) as live:
        while supervisor.has_started():
            live.update(status_table(read_status(site), site), refresh=True)
            time.sleep(_REFRESH)


def _stop(site: Site) -> None:
    click.echo("stopping")
    Supervisor(site).stop()
    end_leftovers(site)
    click.echo("stopped")


@main.command()
@folder_option
def stop(folder: Path) -> None:
    """Stop everything, in order; nothing is lost."""
    with _told():
        _stop(Site.existing(folder))


@main.command()
@folder_option
def status(folder: Path) -> None:
    """Print the status page once; the exit code is 1 unless everything runs and answers, and Spark executes a job."""
    with _told():
        site = Site.existing(folder)
        statuses = read_status(site, with_job=True)
        _console().print(status_table(statuses, site))
    if not all(status.is_well for status in statuses):
        sys.exit(1)


@main.command()
@folder_option
@click.option("--seconds", type=click.FloatRange(0), help="For which records land. Default: until Ctrl-C.")
@click.option("--rate", type=click.IntRange(1), default=1000, show_default=True, help="Records per second.")
def demo(folder: Path, seconds: float | None, rate: int) -> None:
    """Land generated retail data continuously, and show how the lake follows by the sensor.

    Starts the stack if it does not run, and leaves it running. After Ctrl-C, ends when the lake has all that landed.
    """
    from dev.stack.demo import demo as land_and_follow  # noqa: PLC0415 - takes a second

    with _told():
        site = Site.at(folder)
        bring_up(site, (), click.echo)
        os.environ.update(site.environment)  # the config's variables
        land_and_follow(site, seconds, rate)


@main.command(context_settings={"ignore_unknown_options": True})
@folder_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(folder: Path, command: tuple[str, ...]) -> None:
    """Execute a command with the stack's environment, such as `lake-assets report transactions`."""
    with _told():
        environment = lake_environment(Site.existing(folder))
    scripts = os.path.dirname(sys.executable)  # noqa: PTH120 - part of a search path
    environment["PATH"] = f"{scripts}{os.pathsep}{environment.get('PATH', '')}"
    os.execvpe(command[0], command, environment)


if __name__ == "__main__":
    main()
