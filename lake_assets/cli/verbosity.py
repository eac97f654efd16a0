"""How much a command prints: `--quiet` errors and results only, `--verbose` also the steps of a run.

Both may be given before and after the command's name.
"""

import logging
import time

import click

from lake_assets.base.events import EVENT, LOGGER, OFF, Event, report
from lake_assets.base.texts import count, size, visible_name
from lake_assets.cli.output import echo, is_json, set_quiet, style

_QUIET, _VERBOSE = "lake_assets.quiet", "lake_assets.verbose"  # keys of click's `meta`, which nested contexts share
_COUNTED = {"partitions": "partition", "objects": "object", "files": "file", "rows": "row", "snapshots": "snapshot"}
_ENDED = ("committed", "skipped", "failed")
_PRINTED = frozenset({"error", "message"})  # printed without --verbose too

quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print only errors and results; no progress.")
verbose_option = click.option(
    "-v", "--verbose", count=True, help="Print also each step of a run with its seconds; -vv: also the tasks of Spark."
)


def set_verbosity(ctx: click.Context, *, quiet: bool = False, verbose: int = 0) -> None:
    """Print less or more until the program ends, by the options of the program and of its command, which are added."""
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
    """Report the seconds since `start`, by `time.perf_counter`, if verbose, and print as by default from now on."""
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


class StepLines(logging.Handler):
    """Prints the events of a run as lines for people."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the event of a record, if it has one."""
        event = getattr(record, EVENT, None)
        if event is None or event.event in _PRINTED:
            return
        try:
            echo(style(line_of(event), dim=True), err=True)
        except Exception:  # noqa: BLE001 - logging's way: a line that cannot be printed does not end the run
            self.handleError(record)


def line_of(event: Event) -> str:
    """Return one line: what happened, its seconds, where, and its figures."""
    name = event.step if event.event == "step" else event.event
    seconds = "" if event.seconds is None else f"{event.seconds:.3f} s"
    where = event.partition or event.stream or event.lake or event.host or ""
    figures = [
        event.mode if event.event == "run_started" else None,
        event.status,
        *(count(getattr(event, key), noun) for key, noun in _COUNTED.items() if getattr(event, key) is not None),
        None if event.bytes is None else size(event.bytes),
        None if event.snapshot is None else f"snapshot {event.snapshot}",
        *(f"{getattr(event, key):,} {key}" for key in _ENDED if getattr(event, key) is not None),
        None if event.retry is None else f"retry {event.retry}",
        event.kind,
        None if event.event == "partition" else event.message,  # the command prints the error of a partition
    ]
    texts = ", ".join(filter(None, figures))
    return f"{name:<11} {seconds:>9}  {'  '.join(filter(None, [visible_name(where), texts]))}".rstrip()
