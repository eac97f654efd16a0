"""The command `index`: landed files become lake files in place."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import uuid
from typing import TYPE_CHECKING

import click

from lake_assets.cli.common import Options, outside_option, partition_of, partition_option, refuse_outside, stream_named
from lake_assets.cli.failure import Failures, report
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.words import count, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lake_assets.ingest.index.diff import IndexPlan
    from lake_assets.ingest.partition_run import IngestResult
    from lake_assets.layout.partition import Partition
    from lake_assets.streams.stream import OpenStream

NAMED = 3  # objects of a list that are shown


@click.command()
@click.argument("stream", required=False)
@partition_option("Only this one, such as region=NW,date=2026-02-11; may be given several times.")
@click.option("--dry-run", is_flag=True, help="Show what would be registered; nothing is written.")
@click.option(
    "--check", is_flag=True, help="Compare what is registered with what is there; exit code 1 if they differ."
)
@click.option("--repair", is_flag=True, help="Let the lake be what is there, where an object vanished or changed.")
@outside_option
@click.pass_context
def index(
    ctx: click.Context,
    stream: str | None,
    texts: tuple[str, ...],
    *,
    dry_run: bool,
    check: bool,
    repair: bool,
    outside: bool,
) -> None:
    """Register landed files in the lake as they are, for a stream in mode index.

    Each object that the lake does not have yet becomes one of its files, once; nothing is read again or rewritten. A
    file that cannot be registered fails alone, and the exit code is then 1; so it is where an object lies under the
    name of another that was registered.
    """
    if check + repair + dry_run > 1:
        raise click.UsageError("--check, --repair and --dry-run exclude each other.", ctx)
    opened = stream_named(ctx.obj.load(), stream)
    if opened.config.mode != "index":
        raise click.UsageError(
            f"stream {opened.name} has mode: {opened.config.mode}: `lake-assets ingest` is its command.", ctx
        )
    partitions = [partition_of(opened.config, text) for text in dict.fromkeys(texts)] if texts else None
    if check or repair:
        done = (_check if check else _repair)(ctx.obj, opened, partitions)
    else:
        refuse_outside(opened.config, partitions or (), outside=outside)
        done = (_dry_run if dry_run else _index)(ctx.obj, opened, partitions, outside=outside)
    if not done:
        ctx.exit(1)


def _dry_run(
    options: Options,  # noqa: ARG001 - as `_index`
    stream: "OpenStream",
    partitions: "Sequence[Partition] | None",
    *,
    outside: bool,
) -> bool:
    from lake_assets.ingest.index.diff import plan_index

    plan = plan_index(stream, partitions, outside=outside)
    for part in plan.partitions:
        if part.new:
            click.echo(
                f"{part.partition}  {count(len(part.new), 'new object')}, {size(sum(o.size for o in part.new))}, "
                f"{len(part.objects) - len(part.new):,} known"
            )
    click.echo(
        f"{count(len(plan.new), 'new object')} of {count(sum(len(p.objects) for p in plan.partitions), 'object')}"
    )
    _tell_outside(plan)
    if plan.changed:
        click.echo(
            f"{count(len(plan.changed), 'object')} changed since they were registered: "
            f"{_some([o.key for o in plan.changed])}; see --check",
            err=True,
        )
    return True


def _index(options: Options, stream: "OpenStream", partitions: "Sequence[Partition] | None", *, outside: bool) -> bool:
    from lake_assets.cli.partitions import tell
    from lake_assets.cli.progress import progress
    from lake_assets.ingest.index.diff import plan_index
    from lake_assets.ingest.index.run import index_all

    plan = None if partitions is not None else plan_index(stream, outside=outside)
    done: list[IngestResult] = []
    failures = Failures(debug=options.debug)
    with progress() as bar:
        bar.add_task(stream.name, total=None)
        run_id = str(uuid.uuid4())
        indexing = index_all(stream, partitions, plan=plan, outside=outside, run_id=run_id, checkpoint=interrupt.check)
        for indexed in indexing:
            interrupt.check()
            tell(indexed, failures)
            if indexed.result is not None:
                done.append(indexed.result)
    failures.tell_rest()
    files, rows = (sum(getattr(r.row, name) or 0 for r in done) for name in ("files_written", "row_count"))
    partitions_done = sum(1 for result in done if result.row.status == "committed")
    click.echo(
        f"{count(files, 'file')} registered, {count(rows, 'row')}, in {count(partitions_done, 'partition')}"
        if files
        else "no file registered"
        if failures.count
        else "nothing new"
    )
    if plan is not None:
        _tell_outside(plan)
    if failures.count:
        click.echo(f"{count(failures.count, 'partition')} with objects that were not registered.", err=True)
    return not failures.count


def _check(options: Options, stream: "OpenStream", partitions: "Sequence[Partition] | None") -> bool:
    from lake_assets.ingest.index.verify import check_indexed

    state = check_indexed(stream, partitions)
    for gone in state.vanished:
        click.echo(f"{click.style('vanished', fg='red')}  {gone.load_partition}  {gone.uri}")
    for other in state.changed:
        click.echo(f"{click.style('changed', fg='red')}   {other.partition}  {other.now.uri}")
    found = f"{len(state.vanished):,} vanished, {len(state.changed):,} changed"
    click.echo(f"{count(state.registered, 'registered object')}: {'all as they were' if state.is_sound else found}")
    for other in state.changed:
        if not other.is_live:  # no repair can help
            report(other.error(stream.name), debug=options.debug)
    if state.vanished or any(other.is_live for other in state.changed):
        click.echo(
            "Put the objects back as they were, or let the lake be what is there now: "
            f"`lake-assets index {stream.name} --repair`.",
            err=True,
        )
    return state.is_sound


def _repair(options: Options, stream: "OpenStream", partitions: "Sequence[Partition] | None") -> bool:
    from lake_assets.ingest.index.verify import repair_indexed

    repaired = repair_indexed(stream, partitions)
    for row in repaired.rows:
        click.echo(
            f"{click.style('repaired', fg='green')}  {row.load_partition}  "
            f"(before: {count(row.rows_before or 0, 'row')}), snapshot {row.snapshot_id}"
        )
    for error in repaired.errors:
        report(error, debug=options.debug)
    if repaired.rows:
        rows = count(sum(row.row_count or 0 for row in repaired.rows), "row")
        click.echo(
            f"{count(repaired.ended, 'file')} taken out, "
            f"{count(repaired.renewed, 'changed file')} with {rows} described anew"
        )
    elif not repaired.errors:
        click.echo("nothing to repair")
    return not repaired.errors


def _tell_outside(plan: "IndexPlan") -> None:
    from lake_assets.streams.landing_zone import unmatched_folders

    if plan.outside:
        click.echo(f"{count(len(plan.outside), 'object')} in no partition: {_some([o.key for o in plan.outside])}")
        for folder in unmatched_folders(plan.outside)[:NAMED]:
            click.echo(f"  {folder}")
    if plan.left_out:
        click.echo(
            f"{count(len(plan.left_out), 'partition')} outside the config not registered; --outside takes them in:"
        )
        for left_out in plan.left_out[:NAMED]:
            click.echo(f"  {left_out}")


def _some(names: "Sequence[str]") -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
