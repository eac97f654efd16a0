"""The commands that work on partitions: `plan` and `ingest`."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from typing import TYPE_CHECKING

import click

from lake_assets.cli.common import Options, partition_of, stream_named
from lake_assets.cli.failure import report
from lake_assets.errors import LakeAssetsError

if TYPE_CHECKING:
    from lake_assets.ingest import IngestResult, Plan

OBJECTS_SHOWN = 10

_partitions = click.option(
    "--partition",
    "texts",
    required=True,
    multiple=True,
    metavar="COLUMN=VALUE,…",
    help="Such as region=NW,date=2026-02-11; may be given several times.",
)
_force = click.option("--force", is_flag=True, help="Also where the objects are those of the last commit.")


@click.command()
@click.argument("stream")
@_partitions
@_force
@click.pass_context
def plan(ctx: click.Context, stream: str, texts: tuple[str, ...], *, force: bool) -> None:
    """Show what `ingest` would do now: read, replace, write. Nothing is written.

    Fails where the ingest would fail for want of source objects.
    """
    from lake_assets.ingest import plan as plan_of

    opened = stream_named(ctx.obj.load(), stream)
    partitions = [partition_of(opened.config, text) for text in dict.fromkeys(texts)]
    plans = [plan_of(opened, partition, force=force) for partition in partitions]
    click.echo("\n".join(line for one in plans for line in _plan_lines(one)))
    if any(one.action.startswith("fail") for one in plans):
        ctx.exit(1)


def _plan_lines(plan: "Plan") -> list[str]:
    objects = plan.manifest.objects
    lines = [
        click.style(f"{plan.stream} {plan.partition}: {plan.action}", bold=True),
        f"  read      {_count(len(objects), 'object')}, {_size(plan.manifest.size)}: {plan.source_glob}",
    ]
    lines += [f"            {_size(o.size):>9}  {o.last_modified:%Y-%m-%d %H:%M:%S}  {o.key}" for o in objects[:OBJECTS_SHOWN]]
    if len(objects) > OBJECTS_SHOWN:
        lines.append(f"            and {len(objects) - OBJECTS_SHOWN:,} more")
    if plan.statements:
        table = f"{_count(plan.rows_before, 'row')} of {plan.table}" if plan.table_exists else f"none: {plan.table} is made by the first ingest"
        lines += [
            f"  replaced  {table}",
            f"  written   at most {_count(plan.files_written, 'file')} to {plan.destination}",
        ]
    for sql, parameters in plan.statements:
        lines += [f"  SQL       {sql}", f"            with {', '.join(_parameter(p) for p in parameters)}"]
    return lines


@click.command()
@click.argument("stream")
@_partitions
@_force
@click.pass_context
def ingest(ctx: click.Context, stream: str, texts: tuple[str, ...], *, force: bool) -> None:
    """Make partitions of the lake what the landing zone's are.

    A partition whose objects have not changed is skipped. One that fails keeps its old rows, and the others are
    ingested all the same; the exit code is then 1.
    """
    from lake_assets.cli.progress import progress
    from lake_assets.cli.sessions import Session
    from lake_assets.ingest import ingest as ingest_one

    options: Options = ctx.obj
    config = options.load()
    opened = stream_named(config, stream)
    partitions = [partition_of(opened.config, text) for text in dict.fromkeys(texts)]
    failed = 0
    with progress() as bar:
        task = bar.add_task(stream, total=len(partitions))
        session = Session(config.spark, lambda doing: bar.update(task, description=doing or stream))
        with session.stopped():
            for partition in partitions:
                try:
                    click.echo(_result_line(ingest_one(opened, partition, session, force=force)))
                except LakeAssetsError as error:
                    failed += 1
                    click.echo(f"{click.style('failed', fg='red'):9}  {partition}")
                    report(error, debug=options.debug)
                bar.advance(task)
    if failed:
        click.echo(f"{failed} of {_count(len(partitions), 'partition')} failed.", err=True)
        ctx.exit(1)


def _result_line(result: "IngestResult") -> str:
    row = result.row
    if row.status == "skipped":
        why = "no source objects, on_empty: keep" if row.on_empty else "unchanged"
        return f"{click.style('skipped', dim=True)}    {row.load_partition}  {why}"
    return (
        f"{click.style('committed', fg='green')}  {row.load_partition}  {_count(row.row_count or 0, 'row')} "
        f"(before: {row.rows_before or 0:,}), {_count(row.files_written or 0, 'file')}, {_size(row.bytes_written or 0)}, "
        f"snapshot {row.snapshot_id}, {sum(result.seconds.values()):.1f} s"
    )


def _parameter(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_parameter, value))}]"
    return f"'{value}'"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(size: int) -> str:
    from rich.filesize import decimal

    return decimal(size)
