"""The command `ingest`, and the run that it shares with `apply`."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from functools import partial
from typing import TYPE_CHECKING

import click

from lake_assets.cli.common import Options, outside_option, stream_argument, stream_named, user
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.outcomes import Outcomes
from lake_assets.cli.output import Form, documented, form_option
from lake_assets.cli.selecting import confirm, selected_or_only, selection_options, yes_option
from lake_assets.cli.terminal import echo, info
from lake_assets.config.modes import LAUNCHERS
from lake_assets.layout.texts import count
from lake_assets.progress import counting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lake_assets.cli.run_documents import IngestDocument
    from lake_assets.config.models import LakeConfig
    from lake_assets.config.runs import RemoteRuns
    from lake_assets.ingest.options import IngestOptions
    from lake_assets.ingest.outcome import Outcome
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
@form_option
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
    form: Form,
) -> None:
    """Refresh partitions of the lake from the landing zone.

    A partition whose objects have not changed is skipped. A partition that fails keeps its rows and does not stop the
    others; the exit code is 1. On a terminal, the command asks before a run of more than ten partitions.
    """
    config = ctx.obj.load()
    opened = stream_named(config, stream)
    selection = selected_or_only(opened, wanted, outside=outside)
    if not confirm(opened, selection, "Ingest", yes=yes):
        ctx.exit(1)
    is_success = run_ingest(
        ctx.obj,
        config,
        opened,
        selection.partitions,
        options_of(opened, force=force, outside=outside, is_named=selection.is_named or wanted.failed),
        launcher=launcher,
        form=form,
    )
    if selection.left_out is not None and not selection.left_out.is_usual:
        partitions = count(len(selection.partitions), "partition")
        info(f"{partitions}; {selection.left_out}: `lake-assets plan {opened.name} --left-out`")
    if not is_success:
        ctx.exit(1)


def run_ingest(
    cli: Options,
    config: "LakeConfig",
    opened: "OpenStream",
    partitions: "Sequence[Partition]",
    options: "IngestOptions",
    *,
    launcher: str | None,
    form: Form = "text",
) -> bool:
    """Refresh partitions, and print the outcome of each, or a document of all; returns whether none failed.

    Args:
        cli: the options of the command line.
        config: of the stream.
        opened: the stream.
        partitions: each once; nothing is started for none.
        options: of the run.
        launcher: where the driver executes; as the config says when None.
        form: of the output.
    """
    outcomes = Outcomes(form, debug=cli.debug)

    def document(error: BaseException | None) -> "IngestDocument":
        from lake_assets.cli.run_documents import IngestDocument

        return IngestDocument.of(opened, options.run_id, len(partitions), outcomes.ended, error)

    with documented(form, document):
        if partitions:
            _run(cli, config, opened, partitions, outcomes.add, options, launcher=launcher)
    outcomes.print_repeated()
    if outcomes.failed:
        echo(f"{outcomes.failed} of {count(len(partitions), 'partition')} failed.", err=True)
    return not outcomes.failed


def options_of(
    opened: "OpenStream",
    *,
    force: bool,
    outside: bool,
    is_named: bool = False,
    planned: "Mapping[str, str] | None" = None,
) -> "IngestOptions":
    """Return the options of a run of the command line.

    Args:
        opened: the stream.
        force: as of `IngestOptions`.
        outside: as of `IngestOptions`.
        is_named: whether a person has named each partition, so that one without rows fails.
        planned: as of `IngestOptions`.
    """
    from lake_assets.ingest.options import IngestOptions

    # Whether a partition of columns in the rows has rows is known when its objects are read.
    landed_only = opened.config.selects_rows and not is_named
    return IngestOptions(force=force, outside=outside, landed_only=landed_only, planned=planned, requested_by=user())


def _run(
    cli: Options,
    config: "LakeConfig",
    opened: "OpenStream",
    partitions: "Sequence[Partition]",
    add: "Callable[[Outcome], None]",
    options: "IngestOptions",
    *,
    launcher: str | None,
) -> None:
    """Refresh the partitions in this process or by a driver, with a progress bar."""
    from lake_assets.exports import lineage

    with counting(opened.name, "partitions", len(partitions)) as done, lineage(opened):

        def note(outcome: "Outcome") -> None:
            add(outcome)
            done.advance()

        if (launcher or config.runs.launcher) == "in_process":
            ingest = partial(_ingest_here, debug=cli.debug)
        else:
            ingest = partial(_ingest_by_driver, launcher=launcher)
        ingest(config, opened, partitions, note, done.describe, options)


def _ingest_here(
    config: "LakeConfig",
    opened: "OpenStream",
    partitions: "Sequence[Partition]",
    note: "Callable[[Outcome], None]",
    announce: "Callable[[str | None], None]",
    options: "IngestOptions",
    *,
    debug: bool,
) -> None:
    """Refresh the partitions in this process."""
    from lake_assets.cli.sessions import Session
    from lake_assets.ingest.api import ingest_all
    from lake_assets.ingest.partition_run import passing_on_interrupts

    session = Session(config.spark.settings, debug=debug, transforms=opened.config.transform is not None)
    session.announce = announce
    with session.stopped():
        outcomes = ingest_all(opened, partitions, session, options, interrupt.check)
        with passing_on_interrupts(outcomes):
            for outcome in outcomes:
                if outcome.error is not None:
                    interrupt.check()  # after Ctrl-C, an error of Spark or DuckDB is not a failure of the partition
                note(outcome)


def _ingest_by_driver(
    config: "LakeConfig",
    stream: "OpenStream",
    partitions: "Sequence[Partition]",
    note: "Callable[[Outcome], None]",
    announce: "Callable[[str | None], None]",
    options: "IngestOptions",
    *,
    launcher: str | None,
) -> None:
    """Refresh the partitions by a driver that a launcher starts."""
    from lake_assets.ingest.outcome import pending, reported_run
    from lake_assets.launch.launcher import driver_of, launch
    from lake_assets.launch.received import Received
    from lake_assets.remote.request import Request

    runs = _runs(config, launcher)
    request = Request.of(config, runs, stream.name, partitions, options)
    announce("starting the driver")

    def warn(level: str, text: str) -> None:
        if level not in ("DEBUG", "INFO"):
            echo(text, err=True)

    received = Received(pending(stream, partitions, options), note, lambda: announce(None), warn)
    with reported_run(request.options.run_id, stream.name, stream.config.mode, len(partitions)):
        driver = driver_of(config, runs, request, received, lambda line: echo(line, err=True))
        received.finish(launch(driver, request, received))


def _runs(config: "LakeConfig", launcher: str | None) -> "RemoteRuns":
    """Return the launcher with its options: those of the config, if it has this launcher."""
    from lake_assets.config.runs import InProcess, SparkSubmit
    from lake_assets.errors import LauncherError

    runs = config.runs
    if launcher not in (None, runs.launcher):
        if launcher != "spark_submit":
            raise LauncherError(
                f"--launcher {launcher} needs options, and the config has runs: {runs.launcher}:",
                f"write runs: {{launcher: {launcher}, …}}, as docs/how-to/run-by-a-driver.md describes.",
            )
        runs = SparkSubmit(launcher=launcher)
    assert not isinstance(runs, InProcess)  # noqa: S101 - the caller runs it itself
    return runs
