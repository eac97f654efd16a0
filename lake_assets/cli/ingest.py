"""The command `ingest`, and the run that it shares with `apply`."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from lake_assets.base.progress import Count, counting
from lake_assets.base.texts import count
from lake_assets.cli.common import Options, Session, stream_argument
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.outcomes import Outcomes
from lake_assets.cli.output import Form, documented, echo, form_option, info
from lake_assets.cli.selecting import confirm, run_options, selected_or_only, selection_options, yes_option
from lake_assets.config.modes import LAUNCHERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lake_assets.config.layout.partition import Partition
    from lake_assets.config.models import LakeConfig
    from lake_assets.ingest.outcome import IngestOptions, Outcome
    from lake_assets.streams.select import Wanted
    from lake_assets.streams.stream import OpenStream

launcher_option = click.option(
    "--launcher", type=click.Choice(LAUNCHERS), help="Where the driver executes; overrides `runs`."
)


@click.command()
@stream_argument
@selection_options("the only partition, if there is one")
@run_options("force", "outside")
@yes_option
@launcher_option
@form_option
@click.pass_context
def ingest(
    ctx: click.Context,
    stream: str | None,
    wanted: "Wanted",
    options: "IngestOptions",
    *,
    yes: bool,
    launcher: str | None,
    form: Form,
) -> None:
    """Refresh partitions of the lake from the landing zone.

    A partition whose objects have not changed is skipped. A partition that fails keeps its rows and does not stop the
    others; the exit code is 1. On a terminal, the command asks before a run of more than ten partitions.
    """
    opened = ctx.obj.stream(stream)
    selection = selected_or_only(opened, wanted, outside=options.outside)
    if not confirm(opened, selection, "Ingest", yes=yes):
        ctx.exit(1)
    options = starting_now(options, opened, is_named=selection.is_named or wanted.failed)
    is_success = CliRun(ctx.obj, opened, selection.partitions, options, launcher, form).execute()
    if selection.left_out is not None and not selection.left_out.is_usual:
        partitions = count(len(selection.partitions), "partition")
        info(f"{partitions}; {selection.left_out}: `lake-assets plan {opened.name} --left-out`")
    if not is_success:
        ctx.exit(1)


@dataclass(frozen=True, slots=True)
class CliRun:
    """A run of the command line."""

    cli: Options
    stream: "OpenStream"
    partitions: "Sequence[Partition]"  # each once; nothing is started for none
    options: "IngestOptions"
    launcher: str | None = None  # where the driver executes; as the config says when None
    form: Form = "text"

    def execute(self) -> bool:
        """Refresh the partitions, and print the outcome of each, or a document; returns whether none failed."""
        from lake_assets.upkeep.exports import lineage

        total = len(self.partitions)
        outcomes = self.outcomes(total)
        if self.partitions and self.stream.companions and self.form == "text":
            others = " and ".join(companion.name for companion in self.stream.companions)
            info(f"{self.stream.name} is released together with {others}, so their partitions are ingested too.")
        with documented(self.form, outcomes.run), outcomes.summed_up():
            if self.partitions:
                with counting(self.stream.name, "partitions", total) as done, lineage(self.stream):
                    is_here = (self.launcher or self.cli.config.runs.launcher) == "in_process"
                    (self._ingest_here if is_here else self._ingest_by_driver)(outcomes, done)
        return not outcomes.failed

    def outcomes(self, selected: int) -> Outcomes:
        """Return what prints and collects the outcomes of a run over so many partitions."""
        from lake_assets.ingest.outcome import Refreshed

        stream, run = self.stream, self.options.run_id
        refreshed = Refreshed(stream=stream.name, table=str(stream.table), run=run, selected=selected)
        return Outcomes(refreshed, self.form, debug=self.cli.debug)

    def _ingest_here(self, outcomes: Outcomes, done: Count) -> None:
        """Refresh the partitions in this process."""
        from lake_assets.ingest.ingest_all import ingest_all
        from lake_assets.ingest.run import passing_on_interrupts

        has_transform = self.stream.config.transform is not None
        session = Session(self.cli.config.spark.settings, debug=self.cli.debug, transforms=has_transform)
        session.announce = done.describe
        with session.stopped():
            ended = ingest_all(self.stream, self.partitions, session, self.options)
            with passing_on_interrupts(ended):
                for outcome in ended:
                    if outcome.error is not None:
                        interrupt.check()  # after Ctrl-C, an error of Spark or DuckDB is not one of the partition
                    outcomes.add(outcome)
                    done.advance()

    def _ingest_by_driver(self, outcomes: Outcomes, done: Count) -> None:
        """Refresh the partitions by a driver that a launcher starts."""
        from lake_assets.ingest.outcome import expected_outcomes, reported_run
        from lake_assets.wings.launch.launcher import launch
        from lake_assets.wings.launch.pipes import Received
        from lake_assets.wings.launch.request import Request

        config, stream = self._config(), self.stream
        request = Request.of(config, stream.name, self.partitions, self.options)
        done.describe("starting the driver")

        def note(outcome: "Outcome") -> None:
            outcomes.add(outcome)
            done.advance()

        def warn(level: str | None, text: str) -> None:
            if level not in ("DEBUG", "INFO"):
                echo(text, err=True)

        expected = expected_outcomes(stream, self.partitions, self.options)
        received = Received(expected, note, lambda: done.describe(None), warn)
        with reported_run(self.options.run_id, stream.name, stream.config.mode, len(self.partitions)):
            received.finish(launch(config, request, received))

    def _config(self) -> "LakeConfig":
        """Return the config with this launcher; its options are those of the config, if it has the launcher."""
        from lake_assets.base.errors import LauncherError
        from lake_assets.config.spark import SparkSubmit

        launcher, config = self.launcher, self.cli.config
        if launcher in (None, config.runs.launcher):
            return config
        if launcher != "spark_submit":
            raise LauncherError(
                f"--launcher {launcher} needs options, and the config has runs: {config.runs.launcher}:",
                f"write runs: {{launcher: {launcher}, …}}, as docs/how-to/run-by-a-driver.md describes.",
            )
        return config.model_copy(update={"runs": SparkSubmit(launcher=launcher)})


def starting_now(options: "IngestOptions", stream: "OpenStream", *, is_named: bool) -> "IngestOptions":
    """Return the options of a run that starts now; partitions that nobody named singly are left out without rows."""
    # Whether a partition of columns in the rows has rows is known when its objects are read.
    left_out = stream.config.selects_rows and not is_named
    return replace(options, run_at=dt.datetime.now(dt.UTC), landed_only=left_out)
