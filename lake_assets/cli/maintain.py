"""The command `maintain`: what a lake no longer needs goes, and small files become fewer."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from typing import TYPE_CHECKING

import click

from lake_assets.cli.common import Options
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.words import count, size

if TYPE_CHECKING:
    from lake_assets.compact import Compacted
    from lake_assets.maintain import Maintained

SHOWN = 20  # files and partitions of each kind


@click.command()
@click.option("--lake", metavar="NAME", help="Only this lake; all of the config without it.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.pass_context
def maintain(ctx: click.Context, lake: str | None, *, dry_run: bool) -> None:
    """Let old snapshots expire, delete files that nobody needs, compact partitions.

    Objects of landing zones are never deleted. The rules are those of the config, `lakes.NAME.maintenance`. A partition
    that could not be compacted is as it was, and the exit code is then 1.
    """
    from lake_assets.cli.sessions import Session
    from lake_assets.maintain import maintain as maintain_lake

    options: Options = ctx.obj
    config = options.load()
    if lake is not None and lake not in config.lakes:
        raise click.UsageError(f"there is no lake {lake!r}: the config has {', '.join(config.lakes)}.", ctx)
    failed = False
    session = Session(config.spark)
    with session.stopped():
        for name in [lake] if lake is not None else list(config.lakes):
            done = maintain_lake(config, name, session, dry_run=dry_run, checkpoint=interrupt.check)
            click.echo("\n".join(_lines(done, dry_run=dry_run)))
            failed |= bool(done.left)
    if failed:
        ctx.exit(1)


def _lines(done: "Maintained", *, dry_run: bool) -> list[str]:
    would = "would be " if dry_run else ""
    head = f"{done.lake}: dry run, nothing was changed" if dry_run else done.lake
    files = count(len(done.cleaned.deleted) + len(done.orphans), "file")
    orphans = f", {count(len(done.orphans), 'orphan')} among them" if done.orphans else ""
    rewritten = [one for one in done.compacted if one.why is None]
    lines = [
        click.style(head, bold=True),
        f"  {count(len(done.expired), 'snapshot')} {would}expired",
        f"  {files} {would}deleted, {size(done.bytes_deleted)}{orphans}",
        f"  {count(len(rewritten), 'partition')} {would}compacted",
    ]
    if done.flushed:
        lines.append(f"  {count(done.flushed, 'row')} of ledger and manifest {would}moved from the catalog into files")
    lines += _some([f"    deleted    {uri}" for uri in (*done.cleaned.deleted, *(o.uri for o in done.orphans))])
    lines += _some([f"    compacted  {_compacted(one)}" for one in rewritten])
    lines += _some([f"    kept       {uri}: in a landing zone, or in use again" for uri in done.cleaned.kept])
    lines += _some([f"    waits      {uri}: in no storage of the config" for uri in done.cleaned.unreachable])
    lines += [f"    left       {one.stream} {one.partition}: {one.why}" for one in done.left]
    return lines


def _compacted(one: "Compacted") -> str:
    text = f"{one.stream} {one.partition}: {count(one.files_before, 'file')}, {size(one.bytes_before)}"
    if one.files_after is None or one.bytes_after is None:
        return text
    return f"{text} → {count(one.files_after, 'file')}, {size(one.bytes_after)}"


def _some(lines: list[str]) -> list[str]:
    more = len(lines) - SHOWN
    return lines if more <= 0 else [*lines[:SHOWN], f"    and {more:,} more"]
