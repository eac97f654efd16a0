"""The commands that tidy a lake: `maintain`, and `forget`, which deletes ledger rows of partitions without data."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from typing import TYPE_CHECKING

import click

from lake_assets.base.texts import count, first_lines, several, size
from lake_assets.cli.common import (
    Options,
    Session,
    all_lakes_option,
    dry_run_option,
    named_partitions,
    partition_option,
    stream_argument,
)
from lake_assets.cli.output import Form, collected, echo, form_option, info, style, write_documents

if TYPE_CHECKING:
    from lake_assets.upkeep.maintenance.compaction import CompactedPartition
    from lake_assets.upkeep.maintenance.maintenance_run import Maintained

SHOWN = 20  # files and partitions of each kind


@click.command()
@all_lakes_option
@dry_run_option
@form_option
@click.pass_context
def maintain(ctx: click.Context, lake: str | None, *, dry_run: bool, form: Form) -> None:
    """Expire snapshots, delete unused files, compact partitions.

    The rules are those of `lakes.NAME.maintenance` in the config. Objects of a landing zone are never deleted, unless
    the stream has `owns_source: true` and they were registered, or `after_load` and its runs have left them. A
    partition that cannot be compacted is left unchanged, and the exit code is 1.
    """
    from lake_assets.upkeep.maintenance.maintenance_run import maintain as maintain_lake

    options: Options = ctx.obj
    config = options.config
    lakes = options.lakes(lake)
    failed = False
    session = Session(config.spark.settings, debug=options.debug, transforms=False)
    with collected(form) as documents, session.stopped():
        for name in lakes:
            result = maintain_lake(config, name, session, dry_run=dry_run)
            documents.append(result)
            if form == "text":
                (echo if dry_run else info)("\n".join(_lines(result, dry_run=dry_run)))
                if result.left:
                    echo("\n".join(_left_lines(result)))
            failed |= bool(result.left)
    if failed:
        ctx.exit(1)


def _lines(result: "Maintained", *, dry_run: bool) -> list[str]:
    would = "would be " if dry_run else ""
    head = f"{result.lake}: dry run, nothing was changed" if dry_run else result.lake
    cleaned, orphans = result.cleaned, [orphan.uri for orphan in result.orphans]
    files = count(len(cleaned.deleted) + len(orphans), "file")
    among = f", {count(len(orphans), 'orphan')} among them" if orphans else ""
    compacted = [partition for partition in result.compacted if partition.why is None]
    lines = [
        style(head, bold=True),
        f"  {count(len(result.expired), 'snapshot')} {would}expired",
        f"  {files} {would}deleted, {size(result.bytes_deleted)}{among}",
        f"  {count(len(compacted), 'partition')} {would}compacted",
    ]
    if result.flushed:
        rows = count(result.flushed, "row")
        lines.append(f"  {rows} of ledger and manifest {would}moved from the catalog into files")
    if result.forgotten:
        lines.append(f"  {count(result.forgotten, 'row')} of the ledger {would}deleted")
    if result.deltas:
        bytes_of = size(sum(delta.size for delta in result.deltas))
        lines.append(f"  {count(len(result.deltas), 'exported file')} {would}deleted, {bytes_of}")
    if result.letters:
        bytes_of = size(sum(letter.size for letter in result.letters))
        lines.append(f"  {count(len(result.letters), 'file')} of dead letters {would}deleted, {bytes_of}")
    if result.loaded:
        lines.append(f"  {count(len(result.loaded), 'loaded object')} {would}taken by after_load")
    deltas_and_letters = [*(delta.uri for delta in result.deltas), *(letter.uri for letter in result.letters)]
    for word, texts in (
        ("deleted", [*cleaned.deleted, *orphans, *deltas_and_letters]),
        ("compacted", map(_compacted, compacted)),
        ("loaded", (f"{obj.uri}{obj.becomes and f': {obj.becomes}'}" for obj in result.loaded)),
        ("corrected", (f"{column}: its least and greatest values" for column in result.corrected)),
        ("kept", (f"{file.uri}: {file.why}" for file in cleaned.all_kept)),
        ("pending", (f"{uri}: in no storage of the config" for uri in cleaned.unreachable)),
    ):
        lines += first_lines([f"    {word:<9}  {text}" for text in texts], SHOWN, "    and {more:,} more")
    return lines


def _left_lines(result: "Maintained") -> list[str]:
    """Return the partitions that could not be compacted, with the reasons."""
    left: dict[str, list[str]] = {}  # by the reason
    for partition in result.left:
        left.setdefault(partition.why or "", []).append(f"{partition.stream} {partition.partition}")
    return [f"    left       {several(names)}: {why}" for why, names in left.items()]


def _compacted(partition: "CompactedPartition") -> str:
    before = f"{count(partition.files_before, 'file')}, {size(partition.bytes_before)}"
    text = f"{partition.stream} {partition.partition}: {before}"
    if partition.files_after is None or partition.bytes_after is None:
        return text
    return f"{text} → {count(partition.files_after, 'file')}, {size(partition.bytes_after)}"


@click.command()
@stream_argument
@partition_option("Such as region=XX,date=2026-02-11; repeatable.", required=True)
@dry_run_option
@form_option
@click.pass_obj
def forget(options: Options, stream: str | None, texts: tuple[str, ...], *, dry_run: bool, form: Form) -> None:
    """Delete the ledger rows of partitions without data.

    Such a partition is, for example, a misspelt one. If one of the partitions has rows in the lake or landed
    objects, nothing is deleted.
    """
    from lake_assets.upkeep.maintenance.cleaning import forget as forget_partitions

    opened = options.stream(stream)
    forgotten = forget_partitions(opened, named_partitions(opened.config, texts), dry_run=dry_run)
    if form == "json":
        write_documents(forgotten)
        return
    would = "would be " if dry_run else ""
    for entry in forgotten:
        (echo if dry_run else info)(f"{would}forgotten  {entry.partition}  {count(entry.ledger_rows, 'ledger row')}")
