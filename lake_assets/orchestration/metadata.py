"""The metadata of a materialization: what a person reads first, then the numbers that Dagster plots by partition.

The texts have units: `size`, `source_size`, `duration` with its steps. The numbers have plain names: `rows`,
`rows_before`, `source_objects`, `files`, `snapshot`, those of what was left out or exported, and at the end `seconds`,
`bytes` and `source_bytes`. The rest of a run, such as its fingerprint, is in the ledger under the run's id.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from lake_assets.escapes import visible, visible_name
from lake_assets.ingest.outcome import Outcome
from lake_assets.ingest.view import PREVIEW_CHARACTERS
from lake_assets.lake.catalog.preview import PartitionView
from lake_assets.lake.commit.deltas import DeltaFile
from lake_assets.lake.ledger.tables import LedgerRow, ledger_table
from lake_assets.layout.partition import option_of
from lake_assets.layout.texts import count, duration, durations, first_lines, size
from lake_assets.streams.stream import OpenStream

# Dagster shows a preview on the page itself if its Markdown is short, else in a dialog. The widths in characters are
# those in a window of 1,400 pixels, of which a dialog has 80 %.
_INLINE, _PAGE, _DIALOG = 1000, 50, 120
_PADDING = 2  # between two columns
_TURNED = (5, 4, 3, 2)  # rows of a preview that is turned, as many as fit
_NARROW = 24  # characters of a value in it

_LEFT_OUT = 20  # objects, or files of rows, that are named at most

Metadata = dict[str, dg.MetadataValue[Any]]


def default_description(stream: OpenStream) -> str:
    """Return the description of an asset if its stream has none."""
    return f"Table `{stream.table}`, refreshed from `{stream.source.root}` one partition at a time."


def definition_metadata(stream: OpenStream) -> Metadata:
    """Return the metadata of the asset before its first run: source, destination, catalog and ledger."""
    return {
        "dagster/table_name": dg.MetadataValue.text(str(stream.table)),
        "source": dg.MetadataValue.path(stream.files_uri),
        "destination": dg.MetadataValue.path(stream.table_uri),
        "catalog": dg.MetadataValue.text(stream.lake.location),
        "ledger_table": dg.MetadataValue.text(str(ledger_table(stream.lake_config))),
        "on_empty": dg.MetadataValue.text(stream.config.on_empty),
        "backfill": dg.MetadataValue.text(_backfill(stream)),
    }


def _backfill(stream: OpenStream) -> str:
    """Return what a backfill of several partitions becomes."""
    if limit := stream.config.max_partitions_per_run:
        return f"runs of up to {count(limit, 'partition')}"
    names = [column.name for column in stream.config.columns]
    if len(names) == 1:
        return f"one run for each range of {names[0]} without a gap"
    return f"one run for each {names[0]} and range of {names[1]} without a gap, or the reverse where that is fewer runs"


def materialization_metadata(result: Outcome, landing: dg.AssetKey | None = None) -> Metadata:
    """Return the metadata of one partition's materialization.

    Args:
        result: of the ingest, with its view if there is a table.
        landing: key of the asset that the table's columns come from by their names; None if a transform makes them.
    """
    row, view = result.row, result.view
    exported = None if result.deltas is None else delta_figures(result.deltas)
    metadata = _figures(row, view.rows if view else row.rows_after, durations(result.seconds), exported)
    metadata["source"] = dg.MetadataValue.path(visible_name(row.source_glob))
    metadata["destination"] = dg.MetadataValue.path(visible_name(result.destination))
    if result.not_copied:
        key, reason = next(iter(sorted(result.not_copied.items())))
        metadata["not_copied"] = dg.MetadataValue.text(
            f"{len(result.not_copied):,}, the first is {visible_name(key)}: {visible(reason)}"
        )
    if left_out := result.manifest.left_out:
        metadata["quarantined"] = dg.MetadataValue.md(_listed([left_out[key] for key in sorted(left_out)]))
    if result.letters:
        texts = [f"{letter.uri}: {count(letter.rows, 'row')}, the first: {letter.reason}" for letter in result.letters]
        metadata["dead_letters"] = dg.MetadataValue.md(_listed(texts))
    if result.changes:
        metadata["schema_changes"] = dg.MetadataValue.text(visible_name(", ".join(map(str, result.changes))))
    if view is not None:
        partitioned = [column.name for column in result.partition.columns]
        if view.preview is not None:
            metadata["preview"] = dg.MetadataValue.md(preview_markdown(view))
        # Under this name Dagster shows it as the asset's columns.
        schema = table_schema(view.columns, partitioned, view.descriptions)
        metadata["dagster/column_schema"] = dg.MetadataValue.table_schema(schema)
        if landing is not None:
            metadata["dagster/column_lineage"] = dg.MetadataValue.column_lineage(_lineage(view, landing))
    if (command := _undo_command(row)) is not None:
        metadata["undo"] = dg.MetadataValue.md(command)
    return metadata | _plotted(row, sum(result.seconds.values()))


def row_metadata(row: LedgerRow) -> Metadata:
    """Return the metadata of a commit that another process made, by its ledger row."""
    seconds = (row.finished_at - row.started_at).total_seconds() if row.finished_at is not None else 0.0
    metadata = _figures(row, row.rows_after, duration(seconds))
    if row.finished_at is not None:
        metadata["committed_at"] = dg.MetadataValue.timestamp(row.finished_at)
    metadata["run"] = dg.MetadataValue.text(
        f"{row.run_id}, requested by {visible(row.requested_by or 'an unknown user')}"
    )
    metadata["source"] = dg.MetadataValue.path(visible_name(row.source_glob))
    if (command := _undo_command(row)) is not None:
        metadata["undo"] = dg.MetadataValue.md(command)
    return metadata | _plotted(row, seconds)


def _figures(row: LedgerRow, rows: int | None, taken: str, exported: Mapping[str, int] | None = None) -> Metadata:
    """Return what a person reads first; figures of what seldom happens only where it has happened."""
    numbers = {"rows": rows, "rows_before": row.rows_before, "source_objects": row.source_files}
    metadata: Metadata = {"status": dg.MetadataValue.text(row.status)} | _integers(numbers)
    if row.source_bytes is not None:
        metadata["source_size"] = dg.MetadataValue.text(size(row.source_bytes))
    metadata |= _integers({"files": row.files_written})
    if row.bytes_written is not None:
        metadata["size"] = dg.MetadataValue.text(size(row.bytes_written))
    metadata["duration"] = dg.MetadataValue.text(taken)
    seldom = {
        "files_copied": row.files_copied or None,
        "files_quarantined": row.files_quarantined or None,
        "rows_dead_lettered": row.rows_dead_lettered or None,
    }
    return metadata | _integers(seldom | dict(exported or {}) | {"snapshot": row.snapshot_id})


def _plotted(row: LedgerRow, seconds: float) -> Metadata:
    """Return the numbers of texts with units, for plots."""
    numbers = {"bytes": row.bytes_written, "source_bytes": row.source_bytes}
    return {"seconds": dg.MetadataValue.float(round(seconds, 3))} | _integers(numbers)


def _integers(numbers: Mapping[str, int | None]) -> Metadata:
    return {name: dg.MetadataValue.int(number) for name, number in numbers.items() if number is not None}


def _listed(texts: Sequence[str]) -> str:
    """Return the first texts as a list of Markdown."""
    return "\n".join(first_lines([f"- {markdown(text)}" for text in texts], _LEFT_OUT))


def delta_figures(deltas: Sequence[DeltaFile]) -> dict[str, int]:
    """Return the numbers of exported files and of their rows."""
    return {
        "delta_files": len(deltas),
        "delta_rows_inserted": sum(file.rows_inserted for file in deltas),
        "delta_rows_deleted": sum(file.rows_deleted for file in deltas),
    }


def _undo_command(row: LedgerRow) -> str | None:
    """Return how to restore the rows from before a commit; None if there were none, or the lake does not have them.

    The snapshot right before a commit has them, so nothing is read to know its number.
    """
    if row.status != "committed" or not row.snapshot_id or not row.rows_before or row.mode == "index":
        return None
    # In code, and values in the path's form have no backquote that ends it.
    partition = visible_name(option_of(row.load_partition)).replace("`", "%60")
    return (
        f"`lake-assets restore {row.stream} --partition {partition} --snapshot {row.snapshot_id - 1} --hold`, or the "
        f"job `restore_{row.stream}`, puts the {count(row.rows_before, 'row')} from before back"
    )


def _lineage(view: PartitionView, landing: dg.AssetKey) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {name: [dg.TableColumnDep(asset_key=landing, column_name=name)] for name, _ in view.columns}
    )


def table_schema(
    columns: Sequence[tuple[str, str]], partitioned: Sequence[str], descriptions: Mapping[str, str] | None = None
) -> dg.TableSchema:
    """Return a table's columns for Dagster, with the partition columns marked.

    Args:
        columns: names and types.
        partitioned: names of the partition columns.
        descriptions: of columns, by their names in small letters.
    """
    names = {name.lower() for name in partitioned}

    def description(name: str) -> str | None:
        mark = ["Partition column"] if name.lower() in names else []
        text = (descriptions or {}).get(name.lower())
        return ": ".join([*mark, *([visible(text)] if text else [])]) or None

    return dg.TableSchema(columns=[dg.TableColumn(name, sql, description=description(name)) for name, sql in columns])


def preview_markdown(view: PartitionView) -> str:
    """The first rows as a Markdown table that fits where Dagster shows it; values are escaped, and NULL is in italics.

    A short text is shown on the partition's page, a longer one in a dialog. A table that is too wide for its place is
    turned: a line for each column, with the values of the first rows beside each other.
    """
    names, preview = [name for name, _ in view.columns], view.preview or ()
    texts = [[_cell(value) for value in row] for row in preview]
    table = _preview([*map(markdown, names)], texts, view.rows)
    for shown in _TURNED:
        if _fits(table):
            return table
        some = preview[:shown]
        heads = ["column", *(f"row {number}" for number in range(1, len(some) + 1))]
        lines = [[markdown(name), *(_cell(row[at], _NARROW) for row in some)] for at, name in enumerate(names)]
        table = _preview(heads, lines, view.rows, len(some))
    return table


def _preview(names: Sequence[str], lines: Sequence[Sequence[str]], rows: int, shown: int | None = None) -> str:
    first = len(lines) if shown is None else shown
    return f"{markdown_table(names, lines)}\n\nfirst {first:,} of {count(rows, 'row')}"


def _fits(table: str) -> bool:
    """Return whether each line of a table is shown whole, with line breaks between words."""
    rows = (line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("|"))
    words = ((word for cell in column for word in cell.split()) for column in zip(*rows, strict=True))
    width = sum(max(map(len, column), default=0) + _PADDING for column in words)
    return width <= (_PAGE if len(table) < _INLINE else _DIALOG)


def _cell(value: str | None, most: int = PREVIEW_CHARACTERS) -> str:
    if value is None:
        return "*NULL*"
    return markdown(value if len(value) <= most else f"{value[:most]}…")


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str] = ()) -> str:
    """Return a table of Markdown.

    Args:
        names: of the columns.
        rows: cells in Markdown.
        right: the columns that are aligned to the right.
    """
    lines = [names, ["--:" if name in right else "---" for name in names], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def markdown(text: str) -> str:
    """The text for a cell of a Markdown table: one line, control characters and marks of Markdown and HTML escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|~&!#$])", r"\\\1", " ".join(visible(text).split()))
