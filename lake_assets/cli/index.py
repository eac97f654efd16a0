"""The command `index`: registers landed files as lake files, in place."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING

import click

from lake_assets.base.events import counting
from lake_assets.base.texts import count, first_lines, size, visible_name
from lake_assets.cli.common import Options, stream_argument
from lake_assets.cli.ingest import CliRun
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.output import (
    Form,
    documented,
    echo,
    form_option,
    info,
    is_quiet,
    json_of,
    print_error,
    print_left_out,
    style,
)
from lake_assets.cli.selecting import confirm, run_options, selected_or_all, selection_options, yes_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lake_assets.config.layout.partition import Partition
    from lake_assets.ingest.outcome import IngestOptions, Refreshed
    from lake_assets.ingest.plan import Plan
    from lake_assets.streams.select import Wanted
    from lake_assets.streams.stream import OpenStream

NAMED = 3  # partitions outside the config that are shown
SHOWN_FAILING = 20  # partitions that would fail, of which a dry run shows why


@click.command()
@stream_argument
@selection_options("all")
@click.option("--dry-run", is_flag=True, help="Show what would be registered; write nothing.")
@click.option(
    "--check", is_flag=True, help="Compare registered objects with the landing zone; exit code 1 if they differ."
)
@click.option("--repair", is_flag=True, help="Update the lake where a registered object vanished or changed.")
@run_options("outside")
@yes_option
@form_option
@click.pass_context
def index(  # noqa: PLR0913 - the options of the command
    ctx: click.Context,
    stream: str | None,
    wanted: "Wanted",
    options: "IngestOptions",
    *,
    dry_run: bool,
    check: bool,
    repair: bool,
    yes: bool,
    form: Form,
) -> None:
    """Register landed files in the lake as they are.

    The stream must have `mode: index`. Each new object becomes a file of the lake without being rewritten. A file that
    cannot be registered does not stop the others. The exit code is 1 if a file was not registered, or if a registered
    object was replaced by another one with the same name.
    """
    from lake_assets.ingest.index.index_run import plan_index

    if check + repair + dry_run > 1:
        raise click.UsageError("--check, --repair and --dry-run exclude each other.", ctx)
    opened = ctx.obj.stream(stream)
    if not opened.config.mode.registers:
        raise click.UsageError(
            f"stream {opened.name} has mode: {opened.config.mode}: `lake-assets ingest` is its command.", ctx
        )
    selection = selected_or_all(opened, wanted, outside=options.outside or check or repair)
    partitions = None if selection is None else selection.partitions
    if selection is not None and not (check or dry_run):
        if not confirm(opened, selection, "Repair" if repair else "Index", yes=yes):
            ctx.exit(1)
        if not partitions and form == "text":
            return
    if check:
        is_success = _check(ctx.obj, opened, partitions, form)
    elif repair:
        is_success = _repair(ctx.obj, opened, partitions, form)
    elif dry_run:
        is_success = _dry_run(opened, partitions, options, form)
    else:
        options = dataclasses.replace(options, run_at=dt.datetime.now(dt.UTC))
        plan = plan_index(opened, options=options) if partitions is None else None
        is_success = _index(CliRun(ctx.obj, opened, partitions or (), options, form=form), plan)
    if not is_success:
        ctx.exit(1)


def _dry_run(
    stream: "OpenStream", partitions: "Sequence[Partition] | None", options: "IngestOptions", form: Form
) -> bool:
    from lake_assets.ingest.index.index_run import plan_index

    plan = plan_index(stream, partitions, options)
    parts = [part for part in plan.partitions if partitions is not None or part.new or part.changed]
    failing = [f"{part.partition}  {part.decision}" for part in parts if part.decision.fails]
    if form == "json":
        echo(json_of(plan, indent=1))
        return not failing
    for part in plan.partitions:
        if part.new:
            echo(
                f"{part.partition}  {count(len(part.new), 'new object')}, {size(sum(obj.size for obj in part.new))}, "
                f"{len(part.landed.objects) - len(part.new):,} known"
            )
    objects = sum(len(part.landed.objects) for part in plan.partitions)
    echo(f"{count(len(plan.new), 'new object')} of {count(objects, 'object')}")
    _print_ignored(stream, plan)
    for line in first_lines(failing, SHOWN_FAILING):
        echo(line, err=True)
    return not failing


def _index(run: CliRun, plan: "Plan | None") -> bool:
    """Register the objects of the run's partitions, or of a plan of all."""
    from lake_assets.ingest.index.index_run import index_all
    from lake_assets.upkeep.exports import lineage

    stream, form = run.stream, run.form
    partitions = run.partitions if plan is None else None
    total = len(run.partitions) if plan is None else sum(1 for part in plan.partitions if part.new or part.changed)
    outcomes = run.outcomes(total)
    if plan is not None:
        outcomes.run.left_out, outcomes.run.not_registered = plan.left_out, plan.not_registered
    with documented(form, outcomes.run), counting(stream.name, "partitions", total) as done, lineage(stream):
        for outcome in index_all(stream, partitions, plan, run.options):
            if outcome.error is not None:
                interrupt.check()  # after Ctrl-C, an error of DuckDB is not a failure of the partition
            outcomes.add(outcome)
            done.advance()
    outcomes.print_repeated()
    if form == "text":
        _print_sum(outcomes.run)
        if plan is not None and not is_quiet():
            _print_ignored(stream, plan)
    if outcomes.failed:
        echo(f"{count(outcomes.failed, 'partition')} with objects that were not registered.", err=True)
    return not outcomes.failed


def _print_sum(done: "Refreshed") -> None:
    if done.files:
        in_partitions = f"in {count(done.committed, 'partition')}"
        info(f"{count(done.files, 'file')} registered, {count(done.rows, 'row')}, {in_partitions}")
    else:
        info("no file registered" if done.failed else "nothing new")


def _check(options: Options, stream: "OpenStream", partitions: "Sequence[Partition] | None", form: Form) -> bool:
    from lake_assets.ingest.index.verify import check_indexed

    state = check_indexed(stream, partitions)
    if form == "json":
        echo(json_of(state, indent=1))
        return state.is_consistent
    for vanished in state.vanished:
        echo(f"{style('vanished', fg='red')}  {vanished.load_partition}  {visible_name(vanished.uri)}")
    for changed in state.changed:
        echo(f"{style('changed', fg='red')}   {changed.partition}  {visible_name(changed.now.uri)}")
    differences = f"{len(state.vanished):,} vanished, {len(state.changed):,} changed"
    summary = "all unchanged" if state.is_consistent else differences
    echo(f"{count(state.registered, 'registered object')}: {summary}")
    for changed in state.changed:
        if not changed.is_live:  # a repair does not help
            print_error(changed.error, debug=options.debug)
    if state.vanished or any(changed.is_live for changed in state.changed):
        echo(
            "Restore the objects with their times, or update the lake to the objects that are there now: "
            f"`lake-assets index {stream.name} --repair`.",
            err=True,
        )
    return state.is_consistent


def _repair(options: Options, stream: "OpenStream", partitions: "Sequence[Partition] | None", form: Form) -> bool:
    from lake_assets.ingest.index.verify import repair_indexed

    repaired = repair_indexed(stream, partitions)
    if form == "json":
        for error in repaired.errors:
            print_error(error, debug=options.debug)
        echo(json_of(repaired, indent=1))
        return not repaired.errors
    for row in repaired.rows:
        info(
            f"{style('repaired', fg='green')}  {row.load_partition}  "
            f"(before: {count(row.rows_before or 0, 'row')}), snapshot {row.snapshot_id}"
        )
    for error in repaired.errors:
        print_error(error, debug=options.debug)
    if repaired.rows:
        rows = count(sum(repaired.updated.values()), "row")
        info(
            f"{count(repaired.ended, 'file')} removed from the table, "
            f"{count(repaired.renewed, 'changed file')} with {rows} updated"
        )
    elif not repaired.errors:
        info("nothing to repair")
    return not repaired.errors


def _print_ignored(stream: "OpenStream", plan: "Plan") -> None:
    print_left_out(stream.name, plan.left_out)
    if plan.not_registered:
        partitions = count(len(plan.not_registered), "partition")
        echo(f"{partitions} outside the config not registered; add --outside to register them:")
        for partition in plan.not_registered[:NAMED]:
            echo(f"  {partition}")
