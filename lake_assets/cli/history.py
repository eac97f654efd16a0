"""The commands `history`, `diff` and `restore`."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from typing import TYPE_CHECKING

import click

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.events import counted
from lake_assets.base.machine import user_name
from lake_assets.base.texts import count, visible_name
from lake_assets.cli.common import Options, dry_run_option, partition_option, partitions_or_only, stream_argument
from lake_assets.cli.output import (
    Failures,
    Form,
    Format,
    collected,
    echo,
    exported_text,
    form_option,
    format_option,
    info,
    json_of,
    print_table,
    style,
    text_table,
    write_rows,
)
from lake_assets.cli.selecting import selected_or_all, selection_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from lake_assets.config.layout.partition import Partition
    from lake_assets.lake.ledger.tables import LedgerRow
    from lake_assets.streams.select import Wanted
    from lake_assets.streams.stream import OpenStream
    from lake_assets.upkeep.history.diff import Difference
    from lake_assets.upkeep.history.history_entries import HistoryEntry
    from lake_assets.upkeep.history.restore import Restored


@click.command()
@stream_argument
@selection_options("all")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Snapshots, newest first.")
@format_option
@click.pass_obj
def history(options: Options, stream: str | None, wanted: "Wanted", limit: int, form: Format | None) -> None:
    """Show the snapshots of a table or of some partitions.

    Each has its time, its run, and the rows before and after. Snapshots of other clients are included until they
    expire. `restore` brings the rows of a snapshot back.
    """
    from lake_assets.upkeep.history.history_entries import HistoryEntry
    from lake_assets.upkeep.history.history_entries import history as history_of

    opened = options.stream(stream)
    selection = selected_or_all(opened, wanted, outside=True)
    entries = history_of(opened, None if selection is None else selection.partitions, limit)
    if selection is not None and selection.is_named and not entries:
        named = ", ".join(map(str, selection.partitions))
        raise click.ClickException(f"{opened.table} has no snapshot of partition {named}: check its name.")
    write_rows(form, HistoryEntry, entries, print_history)


def print_history(entries: "Sequence[HistoryEntry]") -> None:
    """Print the entries as a table."""
    from lake_assets.upkeep.history.history_entries import entry_texts

    names = ["snapshot", "time (UTC)", "partition", "what", "before", "rows", "who", "run", "restore"]
    texts = [entry_texts(entry) for entry in entries]
    print_table(
        text_table(names, texts, right=("snapshot", "before", "rows", "restore")), ("restore", "run", "who", "before")
    )


@click.command()
@stream_argument
@partition_option("Such as region=NW,date=2026-02-11; repeatable. Optional if there is only one.")
@click.option("--snapshot", type=click.IntRange(0), help="The snapshot to restore; `history` lists them.")
@click.option("--hold", is_flag=True, help="Hold the partition: refreshes skip it until --release.")
@click.option("--release", is_flag=True, help="End a hold: refreshes read the partition again. Its rows stay.")
@dry_run_option
@form_option
@click.pass_context
def restore(
    ctx: click.Context,
    stream: str | None,
    texts: tuple[str, ...],
    *,
    snapshot: int | None,
    hold: bool,
    release: bool,
    dry_run: bool,
    form: Form,
) -> None:
    """Restore the rows that a partition had in a snapshot.

    They become a new snapshot. Readers see the present rows or the restored ones. Other partitions stay as they
    are. The output says what the next refresh would do with the partition. With --hold, refreshes skip it, except
    `ingest --force`.
    """
    from lake_assets.cli.documents import NotRestored

    if release and (snapshot is not None or hold or dry_run):
        raise click.UsageError("--release ends a hold: give it without --snapshot, --hold and --dry-run.", ctx)
    if not release and snapshot is None:
        raise click.UsageError("choose a snapshot with --snapshot N; `lake-assets history` lists them.", ctx)
    options: Options = ctx.obj
    opened = options.stream(stream)
    partitions = partitions_or_only(opened.config, texts)
    failures = Failures(debug=options.debug, err=form == "json")
    with collected(form) as documents:
        for partition in counted(partitions, f"restore {opened.name}", "partitions", len(partitions)):
            try:
                document, lines = _restore(opened, partition, snapshot, hold=hold, dry_run=dry_run)
            except LakeAssetsError as error:
                failures.add(str(partition), error)
                documents.append(NotRestored(partition, error))
                continue
            documents.append(document)
            if form == "text":
                (echo if dry_run else info)("\n".join(lines))
    failures.print_repeated()
    if failures.count:
        ctx.exit(1)


def _restore(
    stream: "OpenStream", partition: "Partition", snapshot: int | None, *, hold: bool, dry_run: bool
) -> "tuple[Restored | LedgerRow, list[str]]":
    """Restore a partition, or end its hold if there is no snapshot; returns what was done, also in lines."""
    from lake_assets.ingest.outcome import IngestOptions
    from lake_assets.upkeep.history.restore import Restoration, release

    options = IngestOptions(requested_by=user_name())
    if snapshot is None:
        row = release(stream, partition, options)
        line = f"{style('released', fg='green')}   {partition}  snapshot {row.snapshot_id}"
        return row, [line]
    restoration = Restoration(stream, partition, snapshot, hold)
    restored = restoration.dry_run() if dry_run else restoration.run(options)
    return restored, _lines(restored, is_dry=dry_run)


def _lines(restored: "Restored", *, is_dry: bool) -> list[str]:
    partition, rows = restored.partition, count(restored.rows, "row")
    if restored.is_unchanged:
        return [f"{style('unchanged', dim=True)}  {partition}  has the {rows} of snapshot {restored.snapshot}"]
    copied = "to copy" if is_dry else "copied"
    files = "written again by DuckLake" if restored.files is None else f"{count(restored.files, 'file')} {copied}"
    restored_rows = f"{rows} of snapshot {restored.snapshot} (before: {restored.rows_before:,}), {files}"
    if is_dry:
        head = f"would be restored  {partition}  {restored_rows}"
    else:
        commit = restored.row.snapshot_id if restored.row else None
        head = f"{style('restored', fg='green')}   {partition}  {restored_rows}, snapshot {commit}"
    exported = "" if restored.deltas is None else f"; {exported_text(restored.deltas)}"
    lines = [head + (", held" if restored.is_held else "") + exported]
    lines += [f"  columns   {visible_name(difference)}" for difference in restored.differences]
    return [*lines, f"  next      {restored.next}"]


@click.command()
@stream_argument
@partition_option("Such as region=NW,date=2026-02-11. Optional if there is only one.")
@click.option("--from", "first", type=click.IntRange(0), required=True, help="The earlier snapshot; see `history`.")
@click.option("--to", "second", type=click.IntRange(0), help="The later snapshot. Default: the newest.")
@click.option("--key", "keys", multiple=True, metavar="COLUMN", help="A column that names a row; repeatable.")
@click.option("--sample", type=click.IntRange(0), default=5, show_default=True, help="Rows of each kind to show.")
@form_option
@click.pass_obj
def diff(
    options: Options,
    stream: str | None,
    texts: tuple[str, ...],
    *,
    first: int,
    second: int | None,
    keys: tuple[str, ...],
    sample: int,
    form: Form,
) -> None:
    """Show what differs between two snapshots of a partition.

    The output has counts, columns, and some rows. With --key, rows with the same key are compared, and those with
    different values are updates. Without it, such a row counts as one deleted and one inserted row.
    """
    from lake_assets.upkeep.history.diff import DiffOptions
    from lake_assets.upkeep.history.diff import diff as difference_of

    opened = options.stream(stream)
    partitions = partitions_or_only(opened.config, texts)
    if len(partitions) > 1:
        raise click.UsageError("diff compares one partition: give --partition once.")
    difference = difference_of(opened, partitions[0], DiffOptions(first, second, keys, sample))
    if form == "json":
        echo(json_of(difference, indent=1))
        return
    echo("\n".join(_difference_lines(difference)))
    if difference.sample:
        print_table(_sample_table(difference))


def _difference_lines(difference: "Difference") -> list[str]:
    head = f"{difference.partition}, snapshot {difference.first} to {difference.second}"
    if difference.is_equal:
        return [f"{head}: the same {count(difference.rows, 'row')}"]
    figures = [f"{difference.inserted:,} inserted", f"{difference.deleted:,} deleted"]
    figures += [] if difference.updated is None else [f"{difference.updated:,} updated"]
    lines = [f"{head}: {count(difference.rows_before, 'row')} before, {difference.rows:,} after: {', '.join(figures)}"]
    lines += [f"  table     {visible_name(text)}" for text in difference.table]
    columns = [c.name if c.rows is None else f"{c.name} ({count(c.rows, 'row')})" for c in difference.columns]
    return [*lines, f"  columns   {', '.join(map(visible_name, columns))}"] if columns else lines


def _sample_table(difference: "Difference") -> "Table":
    """Return the sampled rows; of an update, `before → after` in the columns that differ."""
    names = list(dict.fromkeys(name for row in difference.sample for name in row.values))
    rows = []
    for row in difference.sample:
        texts: list[str | None] = [row.kind]
        for name in names:
            value = row.values.get(name, "")
            old = "" if row.before is None or name not in row.before else f"{_null(row.before[name])} → "
            texts.append(f"{old}{_null(value)}" if old else value)
        rows.append(texts)
    return text_table(["", *names], rows)


def _null(text: str | None) -> str:
    return "NULL" if text is None else text
