"""How commands select partitions: the options that several of them share, and the question before a large run."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import functools
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import click

from lake_assets.base.errors import LayoutError, OutsidePartitionError, PartitionError
from lake_assets.base.machine import user_name
from lake_assets.base.texts import count
from lake_assets.cli.common import outside_option, the_only_partition, usage_error, usage_errors
from lake_assets.cli.output import echo, info

if TYPE_CHECKING:
    from lake_assets.ingest.outcome import IngestOptions
    from lake_assets.streams.select import Selection, Wanted
    from lake_assets.streams.stream import OpenStream

ASKED_FROM = 11  # partitions of a run on a terminal

Command = Callable[..., Any]

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask before a run of more than ten partitions.")


def _as_one(
    name: str, make: Callable[..., object], options: Mapping[str, Callable[[Command], Command]]
) -> Callable[[Command], Command]:
    """Return a decorator that gives a command one value for several options."""

    def decorate(command: Command) -> Command:
        def with_one(*arguments: object, **values: object) -> object:
            value = make(**{option: values.pop(option) for option in options})
            return command(*arguments, **{name: value}, **values)

        decorated: Command = functools.wraps(command)(with_one)
        for option in reversed(list(options.values())):
            decorated = option(decorated)
        return decorated

    return decorate


def run_options(*names: Literal["force", "outside"]) -> Callable[[Command], Command]:
    """Return the options of a run; the command gets them as `options`, of type `IngestOptions`."""
    known = {
        "force": click.option(
            "--force", is_flag=True, help="Read partitions again even if their objects have not changed."
        ),
        "outside": outside_option,
    }
    return _as_one("options", _run_options, {name: known[name] for name in names})


def _run_options(*, outside: bool, force: bool = False) -> "IngestOptions":
    from lake_assets.ingest.outcome import IngestOptions

    return IngestOptions(force=force, outside=outside, requested_by=user_name())


def selection_options(default: str) -> Callable[[Command], Command]:
    """Return the options that select partitions; the command gets them as `wanted`, of type `Wanted`.

    `default` is what is selected without them, for the help.
    """
    options = {
        "texts": click.option(
            "--partition",
            "texts",
            multiple=True,
            metavar="SELECTION",
            help="Such as region=NW,date=2026-02-11, 'region=NW|NE', 'region=*', date=2026-02, date=last:7 or "
            f"date=2026-02-01..2026-02-28; repeatable. Default: {default}.",
        ),
        "waiting": click.option("--waiting", is_flag=True, help="Partitions whose landed objects are not in the lake."),
        "failed": click.option("--failed", is_flag=True, help="Partitions whose newest run failed."),
        "every": click.option(
            "--all", "every", is_flag=True, help="Every partition that has landed or is in the lake."
        ),
        "most": click.option("--max", "most", type=click.IntRange(1), metavar="N", help="At most N of the partitions."),
    }
    return _as_one("wanted", _wanted, options)


def _wanted(**options: Any) -> "Wanted":  # noqa: ANN401 - the values of click's options
    from lake_assets.streams.select import Wanted

    with usage_errors(PartitionError):
        return Wanted(**options)


def selected(stream: "OpenStream", wanted: "Wanted", *, outside: bool) -> "Selection":
    """Return the partitions that the options select. Texts that select nothing are a click.UsageError."""
    from lake_assets.streams.select import select

    try:
        selection = select(stream, wanted, outside=outside)
    except OutsidePartitionError as error:
        text = str(error)
        if "--outside" not in text:
            text += f"{chr(10) if chr(10) in text else ' '}To accept these partitions, add --outside."
        raise usage_error(text) from error
    except (PartitionError, LayoutError) as error:
        raise usage_error(str(error)) from error
    if not selection.partitions and wanted.texts and not (wanted.waiting or wanted.failed):
        raise usage_error(
            f"--partition {' '.join(wanted.texts)} selects no partition that has landed or is in the lake; "
            f"`lake-assets report {stream.name} --partitions` lists all."
        )
    return selection


def selected_or_only(stream: "OpenStream", wanted: "Wanted", *, outside: bool) -> "Selection":
    """Return the partitions that the options select; with none but --max, the only partition; see `selected`."""
    from lake_assets.streams.select import Selection

    if not wanted.is_open:
        return selected(stream, wanted, outside=outside)
    only = the_only_partition(stream.config, ", or choose them with --waiting, --failed or --all")
    return Selection((only,), 1, is_named=True)


def selected_or_all(stream: "OpenStream", wanted: "Wanted", *, outside: bool) -> "Selection | None":
    """Return the partitions that the options select; None if these are all, or without options; see `selected`."""
    if wanted.is_empty or (wanted.every and wanted.most is None):
        return None
    return selected(stream, wanted, outside=outside)


def confirm(stream: "OpenStream", selection: "Selection", verb: str, *, yes: bool) -> bool:
    """Show what a run would be about, and ask whether to go on if it has more than ten partitions.

    Nothing is asked with `yes`, and if standard input is not a terminal, as in a script.
    """
    number = len(selection.partitions)
    asks = not yes and number >= ASKED_FROM and sys.stdin.isatty()
    if not selection.is_named or number >= ASKED_FROM:
        (echo if asks else info)(f"{stream.name}: {selection}", err=True)
    if not asks:
        return True
    return click.confirm(f"{verb} {count(number, 'partition')}?", err=True)
