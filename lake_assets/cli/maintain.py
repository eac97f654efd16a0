"""The command `maintain`: what a lake no longer needs goes, and small files become fewer."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import json
from typing import TYPE_CHECKING

import click

from lake_assets.cli.common import Options
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.output import write_json
from lake_assets.cli.words import count, size
from lake_assets.layout.texts import first_lines, several

if TYPE_CHECKING:
    from lake_assets.maintenance.compaction import Compacted
    from lake_assets.maintenance.run import Maintained

SHOWN = 20  # files and partitions of each kind

_KEPT = "in a landing zone, or in use again"


@click.command()
@click.option("--lake", metavar="NAME", help="Only this lake; all of the config without it.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print an array with an object for each lake.")
@click.pass_context
def maintain(ctx: click.Context, lake: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Let old snapshots expire, delete files that nobody needs, compact partitions.

    Objects of landing zones are never deleted, but those that were registered where the stream says
    `owns_source: true`. The rules are those of the config, `lakes.NAME.maintenance`. A partition that could not be
    compacted is as it was, and the exit code is then 1.
    """
    from lake_assets.cli.sessions import Session
    from lake_assets.maintenance.run import maintain as maintain_lake

    options: Options = ctx.obj
    config = options.load()
    if lake is not None and lake not in config.lakes:
        raise click.UsageError(f"there is no lake {lake!r}: the config has {', '.join(config.lakes)}.", ctx)
    failed = False
    objects: list[str] = []
    session = Session(config.spark, debug=options.debug)
    with session.stopped():
        for name in [lake] if lake is not None else list(config.lakes):
            done = maintain_lake(config, name, session, dry_run=dry_run, checkpoint=interrupt.check)
            if as_json:
                objects.append(json.dumps(_object(done, dry_run=dry_run)))
            else:
                click.echo("\n".join(_lines(done, dry_run=dry_run)))
            failed |= bool(done.left)
    if as_json:
        write_json(objects)
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
    lines += _shown([f"    deleted    {uri}" for uri in (*done.cleaned.deleted, *(o.uri for o in done.orphans))])
    lines += _shown([f"    compacted  {_compacted(one)}" for one in rewritten])
    lines += _shown([f"    kept       {uri}: {_KEPT}" for uri in done.cleaned.kept])
    lines += _shown([f"    kept       {one.uri}: {one.why}" for one in done.cleaned.others])
    lines += _shown([f"    pending    {uri}: in no storage of the config" for uri in done.cleaned.unreachable])
    return lines + _left(done)


def _left(done: "Maintained") -> list[str]:
    """Why partitions were left as they were, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for one in done.left:
        by_reason.setdefault(one.why or "", []).append(f"{one.stream} {one.partition}")
    return [f"    left       {several(names)}: {why}" for why, names in by_reason.items()]


def _object(done: "Maintained", *, dry_run: bool) -> dict[str, object]:
    """The same for programs."""
    return {
        "lake": done.lake,
        "dry_run": dry_run,
        "expired": list(done.expired),
        "deleted": list(done.cleaned.deleted),
        "orphans": [o.uri for o in done.orphans],
        "bytes_deleted": done.bytes_deleted,
        "kept": [
            *({"uri": uri, "why": _KEPT} for uri in done.cleaned.kept),
            *({"uri": one.uri, "why": one.why} for one in done.cleaned.others),
        ],
        "waiting": list(done.cleaned.unreachable),
        "ledger_rows_moved": done.flushed,
        "compacted": [
            {
                "stream": one.stream,
                "partition": str(one.partition),
                "files_before": one.files_before,
                "bytes_before": one.bytes_before,
                "files_after": one.files_after,
                "bytes_after": one.bytes_after,
                "left": one.why,
            }
            for one in done.compacted
        ],
    }


def _compacted(one: "Compacted") -> str:
    text = f"{one.stream} {one.partition}: {count(one.files_before, 'file')}, {size(one.bytes_before)}"
    if one.files_after is None or one.bytes_after is None:
        return text
    return f"{text} → {count(one.files_after, 'file')}, {size(one.bytes_after)}"


def _shown(lines: list[str]) -> list[str]:
    return first_lines(lines, SHOWN, "    and {more:,} more")
