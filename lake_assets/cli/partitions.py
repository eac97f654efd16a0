"""The command `ingest`, and the run that it shares with `apply`."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from typing import TYPE_CHECKING

import click

from lake_assets.cli.common import (
    Options,
    outside_option,
    stream_argument,
    stream_named,
    user,
)
from lake_assets.cli.failure import Failures
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.logs import is_json
from lake_assets.cli.selecting import confirm, selected_or_only, selection_options, yes_option
from lake_assets.cli.terminal import echo, style
from lake_assets.cli.words import exported_text, size
from lake_assets.config.launchers import LAUNCHERS
from lake_assets.errors import LakeAssetsError
from lake_assets.escapes import visible_name
from lake_assets.layout.texts import count
from lake_assets.progress import counting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lake_assets.config.models import LakeConfig
    from lake_assets.ingest.partition_run import IngestResult, Outcome
    from lake_assets.layout.partition import Partition
    from lake_assets.selection.select import Wanted
    from lake_assets.streams.stream import OpenStream

force_option = click.option("--force", is_flag=True, help="Read partitions again whose objects have not changed.")
launcher_option = click.option(
    "--launcher", type=click.Choice(LAUNCHERS), help="Where the driver executes; overrides `runs`."
)


@click.command()
@stream_argument
@selection_options("the only partition, if there is one")
@force_option
@outside_option
@yes_option
@launcher_option
@click.pass_context
def ingest(
    ctx: click.Context,
    stream: str | None,
    wanted: "Wanted",
    *,
    force: bool,
    outside: bool,
    yes: bool,
    launcher: str | None,
) -> None:
    """Refresh partitions of the lake from the landing zone.

    A partition whose objects have not changed is skipped. A partition that fails keeps its rows and does not stop the
    others; the exit code is 1. Before a run of more than ten partitions, a terminal is asked.
    """
    config = ctx.obj.load()
    opened = stream_named(config, stream)
    selection = selected_or_only(opened, wanted, outside=outside)
    if not confirm(opened, selection, "Ingest", yes=yes):
        ctx.exit(1)
    if selection.partitions and not run_ingest(
        ctx.obj, config, opened, selection.partitions, force=force, outside=outside, launcher=launcher
    ):
        ctx.exit(1)


def run_ingest(
    options: Options,
    config: "LakeConfig",
    opened: "OpenStream",
    partitions: "Sequence[Partition]",
    *,
    force: bool,
    outside: bool,
    launcher: str | None,
    planned: "Mapping[Partition, str] | None" = None,
) -> bool:
    """Refresh partitions, and print the outcome of each; returns whether none failed.

    Args:
        options: of the command line.
        config: of the stream.
        opened: the stream.
        partitions: each once.
        force: as of `ingest_all`.
        outside: as of `ingest_all`.
        launcher: where the driver executes; as the config says when None.
        planned: as of `ingest_all`.
    """
    from lake_assets.telemetry.lineage import lineage

    failures = Failures(debug=options.debug, reported=True)
    with counting(opened.name, "partitions", len(partitions)) as done, lineage(opened) as trace:

        def note(outcome: "Outcome") -> None:
            trace(outcome)
            print_outcome(outcome, failures)
            done.advance()

        if (launcher or config.runs.launcher) == "in_process":
            _ingest_here(
                options, config, opened, partitions, note, done.describe, force=force, outside=outside, planned=planned
            )
        else:
            from lake_assets.cli.launched import ingest_by_driver

            ingest_by_driver(
                config, launcher, opened, partitions, note, done.describe, force=force, outside=outside, planned=planned
            )
    failures.print_repeated()
    if failures.count:
        echo(f"{failures.count} of {count(len(partitions), 'partition')} failed.", err=True)
    return not failures.count


def _ingest_here(  # noqa: PLR0913 - the options of a run
    options: Options,
    config: "LakeConfig",
    opened: "OpenStream",
    partitions: "Sequence[Partition]",
    note: "Callable[[Outcome], None]",
    announce: "Callable[[str | None], None]",
    *,
    force: bool,
    outside: bool,
    planned: "Mapping[Partition, str] | None",
) -> None:
    """Refresh the partitions in this process."""
    from lake_assets.cli.sessions import Session
    from lake_assets.ingest.api import ingest_all
    from lake_assets.ingest.partition_runs import passing_on_interrupts

    session = Session(config.spark.settings, debug=options.debug, transforms=opened.config.transform is not None)
    session.announce = announce
    with session.stopped():
        outcomes = ingest_all(
            opened,
            partitions,
            session,
            force=force,
            outside=outside,
            requested_by=user(),
            checkpoint=interrupt.check,
            planned=planned,
        )
        with passing_on_interrupts(outcomes):
            for outcome in outcomes:
                interrupt.check()  # after Ctrl-C, an error of Spark or DuckDB is not a failure of the partition
                note(outcome)


def print_outcome(outcome: "Outcome", failures: Failures) -> None:
    """Print the result of a partition, or add its error to the failures.

    Raises:
        Exception: the outcome's error, if it is not a `LakeAssetsError`.
    """
    if outcome.result is not None and not is_json():  # the log has an event of each partition
        echo(_result_line(outcome.result))
    if isinstance(outcome.error, LakeAssetsError):
        failures.add(str(outcome.partition), outcome.error)
    elif outcome.error is not None:
        raise outcome.error


def _result_line(result: "IngestResult") -> str:
    row = result.row
    seconds = sum(seconds for step, seconds in result.seconds.items() if step != "start")
    if row.status == "skipped":
        unchanged = "nothing new" if row.mode == "append" else "unchanged"
        why = f"no source rows, on_empty: {row.on_empty}" if row.on_empty else "" if row.hold else unchanged
        why = "; ".join(filter(None, [why, result.note]))
        return f"{style('skipped', dim=True)}    {row.load_partition}  {why}"
    # Only MotherDuck knows the files that it manages.
    has_files = row.files_written is not None
    added = " added" if row.mode == "append" else ""
    copied = f" ({row.files_copied:,} copied)" if row.files_copied else ""
    files = f"{count(row.files_written or 0, 'file')}{copied}, {size(row.bytes_written or 0)}, " if has_files else ""
    return (
        f"{style('committed', fg='green')}  {row.load_partition}  {count(row.row_count or 0, 'row')}{added} "
        f"(before: {row.rows_before or 0:,}), {files}snapshot {row.snapshot_id}, {seconds:.1f} s"
        + "".join(f"; {visible_name(str(change))}" for change in result.changes)
        + ("" if result.deltas is None else f"; {exported_text(result.deltas)}")
        + ("; it was held, and the hold remains until `lake-assets restore --release`" if row.hold else "")
        + (f"; {style('left out', fg='yellow')} {left_out}" if (left_out := _left_out(result)) else "")
        + (f"; {style('dead letters', fg='yellow')} {letters}" if (letters := _dead_letters(result)) else "")
    )


def _left_out(result: "IngestResult") -> str:
    """The first of the objects that were left out, and why; empty if there is none."""
    if not result.manifest.left_out:
        return ""
    key = min(result.manifest.left_out)
    return f"{count(len(result.manifest.left_out), 'object')}, the first: {result.manifest.left_out[key]}"


def _dead_letters(result: "IngestResult") -> str:
    """The number of rows that were left out, where the first are, and why; empty if there is none."""
    if not result.letters:
        return ""
    first = result.letters[0]
    rows = count(sum(letter.rows for letter in result.letters), "row")
    return f"{rows}, in {count(len(result.letters), 'file')}, the first is {first.uri}: {first.reason}"
