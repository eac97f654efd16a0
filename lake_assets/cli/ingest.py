"""The command `ingest`, the run that it shares with `apply`, and the outcomes that both print."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import datetime as dt
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.events import Count, counting
from lake_assets.base.texts import count, duration, size, visible_name
from lake_assets.cli.common import Options, Session, stream_argument
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.output import Failures, Form, documented, echo, exported_text, form_option, info, is_json, style
from lake_assets.cli.selecting import confirm, run_options, selected_or_only, selection_options, yes_option
from lake_assets.config.modes import LAUNCHERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lake_assets.config.layout.partition import Partition
    from lake_assets.config.models import LakeConfig
    from lake_assets.ingest.outcome import IngestOptions, Outcome, Refreshed
    from lake_assets.streams.select import Wanted
    from lake_assets.streams.stream import OpenStream


class Outcomes:
    """Prints the outcomes of a run and collects them; for a document they are not printed."""

    def __init__(self, run: "Refreshed", form: Form, *, debug: bool) -> None:
        self.run = run
        self._prints = form == "text" and not is_json()  # the log has an event of each partition
        self._failures = Failures(debug=debug, reported=True, err=form == "json")

    @property
    def failed(self) -> int:
        """The number of failed partitions so far."""
        return self._failures.count

    def add(self, outcome: "Outcome") -> None:
        """Print the result or the error of a partition. An error that is not a `LakeAssetsError` is raised."""
        self.run.partitions.append(outcome)
        if outcome.is_done and self._prints:
            info(_result_line(outcome))
        elif outcome.waits and self._prints:
            info(f"{style('waiting', fg='yellow')}    {outcome.row.load_partition}  {outcome.note}")
        if isinstance(outcome.error, LakeAssetsError):
            self._failures.add(str(outcome.partition), outcome.error)
        elif outcome.error is not None:
            raise outcome.error

    def print_repeated(self) -> None:
        """Print the failures whose error was printed for another one; call it when the run ends."""
        self._failures.print_repeated()

    @contextmanager
    def summed_up(self) -> Iterator[None]:
        """Print the errors that repeat, and of several partitions how many ended in which way, also after Ctrl-C."""
        from lake_assets.ingest.outcome import counted_outcomes

        start = time.perf_counter()
        with counted_outcomes(self.run.run, self.run.stream) as ended:
            try:
                yield
            finally:
                self.print_repeated()
                self._print_sum(ended, duration(time.perf_counter() - start))

    def _print_sum(self, ended: Counter[str], seconds: str) -> None:
        partitions = self.run.selected
        untouched = partitions - (ended.total() - ended["rows"])
        if untouched == partitions or partitions < 2:
            return
        texts = [f"{ended['committed']:,} of {count(partitions, 'partition')} committed"]
        texts += [count(ended["rows"], "row")] if ended["committed"] else []
        waiting = sum(outcome.waits for outcome in self.run.partitions)
        others = {"skipped": ended["skipped"], "without data": ended["left_out"] - waiting, "waiting": waiting}
        bad = {"failed": ended["failed"], "cancelled": ended["cancelled"], "untouched": untouched}
        texts += [f"{number:,} {status}" for status, number in (others | bad).items() if number]
        line = f"{self.run.stream}: {', '.join(texts)}, in {seconds}"
        if any(bad.values()):
            echo(line, err=True)
        elif self._prints:
            info(line)


def _result_line(outcome: "Outcome") -> str:
    row = outcome.row
    if row.status == "skipped":
        return f"{style('skipped', dim=True)}    {row.load_partition}  {outcome.why_skipped}"
    seconds = sum(seconds for step, seconds in outcome.seconds.items() if step != "start")  # Spark's
    # Only MotherDuck knows the files that it manages.
    has_files = row.files_written is not None
    added = " added" if row.reads_new else ""
    copied = f" ({row.files_copied:,} copied)" if row.files_copied else ""
    files = f"{count(row.files_written or 0, 'file')}{copied}, {size(row.bytes_written or 0)}, " if has_files else ""
    return (
        f"{style('committed', fg='green')}  {row.load_partition}  {count(row.row_count or 0, 'row')}{added} "
        f"(before: {row.rows_before or 0:,}), {files}snapshot {row.snapshot_id}, {seconds:.1f} s"
        + "".join(f"; {visible_name(str(change))}" for change in outcome.changes)
        + ("" if outcome.deltas is None else f"; {exported_text(outcome.deltas)}")
        + ("; it was held, and the hold remains until `lake-assets restore --release`" if row.hold else "")
        + (f"; {style('left out', fg='yellow')} {left_out}" if (left_out := _left_out(outcome)) else "")
        + (f"; {style('dead letters', fg='yellow')} {letters}" if (letters := _dead_letters(outcome)) else "")
    )


def _left_out(outcome: "Outcome") -> str:
    """Return the first of the objects that were left out, and why; empty if there is none."""
    if not outcome.left_out:
        return ""
    key = min(outcome.left_out)
    return f"{count(len(outcome.left_out), 'object')}, the first: {outcome.left_out[key]}"


def _dead_letters(outcome: "Outcome") -> str:
    """Return the number of rows that were left out, where the first are, and why; empty if there is none."""
    if not outcome.letters:
        return ""
    first = outcome.letters[0]
    rows = count(sum(letter.rows for letter in outcome.letters), "row")
    return f"{rows}, in {count(len(outcome.letters), 'file')}, the first is {first.uri}: {first.reason}"


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
