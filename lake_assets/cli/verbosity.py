"""How much a command prints: `--quiet` errors and results only, `--verbose` also the steps of a run.

Both may be given before and after the command's name.
"""

import logging
import time

import click

from lake_assets.cli.logs import is_json, set_quiet
from lake_assets.cli.steps import StepLines
from lake_assets.events import LOGGER, OFF, report

_QUIET, _VERBOSE = "lake_assets.quiet", "lake_assets.verbose"  # keys of click's `meta`, which nested contexts share

quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Print only errors, and what the command is asked to show; no progress."
)
verbose_option = click.option(
    "-v", "--verbose", count=True, help="Print also each step of a run with its seconds; -vv: also the tasks of Spark."
)


def set_verbosity(ctx: click.Context, *, quiet: bool = False, verbose: int = 0) -> None:
    """Print less or more until the program ends.

    Args:
        ctx: of the program or of its command; the options of both are added.
        quiet: print only errors and results.
        verbose: how often `--verbose` is given.

    Raises:
        click.UsageError: both are given.
    """
    quiet = ctx.meta[_QUIET] = quiet or ctx.meta.get(_QUIET, False)
    verbose = ctx.meta[_VERBOSE] = verbose + ctx.meta.get(_VERBOSE, 0)
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other: give one of them.", ctx)
    set_quiet(quiet=quiet)
    log = logging.getLogger(LOGGER)
    log.setLevel(_level(quiet=quiet, verbose=verbose))
    if verbose and not is_json() and not any(isinstance(handler, StepLines) for handler in log.handlers):
        log.addHandler(StepLines())


def end_verbosity(ctx: click.Context, start: float) -> None:
    """Report the seconds of the command if it is verbose, and print as by default from now on.

    Args:
        ctx: of the program.
        start: when the command began, by `time.perf_counter`.
    """
    if ctx.meta.get(_VERBOSE):
        report("command", message=ctx.invoked_subcommand, seconds=time.perf_counter() - start)
    set_quiet(quiet=False)
    log = logging.getLogger(LOGGER)
    log.setLevel(OFF)
    for handler in [handler for handler in log.handlers if isinstance(handler, StepLines)]:
        log.removeHandler(handler)


def accept_verbosity(command: click.Command) -> None:
    """Let the command and its subcommands have both options; their help does not repeat those of the program."""
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            accept_verbosity(subcommand)
    command.params += [
        click.Option(["-q", "--quiet"], is_flag=True, hidden=True, expose_value=False, callback=_set_quiet),
        click.Option(["-v", "--verbose"], count=True, hidden=True, expose_value=False, callback=_set_verbose),
    ]


def _set_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        set_verbosity(ctx, quiet=True)


def _set_verbose(ctx: click.Context, _: click.Parameter, value: int) -> None:
    if value:
        set_verbosity(ctx, verbose=value)


def _level(*, quiet: bool, verbose: int) -> int:
    """Return the level of the events that are printed."""
    if verbose:
        return logging.INFO if verbose == 1 else logging.DEBUG
    if is_json():
        return logging.WARNING if quiet else logging.INFO
    return OFF
