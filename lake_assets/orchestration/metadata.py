"""The metadata of a materialization: figures by name, the table's schema, a preview, the ledger row.

Figures are numbers under plain names, so that Dagster plots them by partition: `rows`, `rows_before`, `files`,
`files_copied`, `files_quarantined`, `rows_dead_lettered`, `bytes`, `source_objects`, `source_bytes`, `snapshot`,
`delta_files`, `delta_rows_inserted`, `delta_rows_deleted`, and `seconds` with `seconds_<step>`.
"""

import dataclasses
import datetime as dt
import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import dagster as dg

from lake_assets.escapes import visible, visible_name
from lake_assets.ingest.partition_run import IngestResult
from lake_assets.ingest.view import PREVIEW_CHARACTERS
from lake_assets.lake.catalog.preview import PartitionView
from lake_assets.lake.commit.deltas import DeltaFile
from lake_assets.lake.ledger.tables import LedgerRow, ledger_table
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count, first_lines
from lake_assets.streams.stream import OpenStream

_LEFT_OUT = 20  # objects, or files of rows, that are named at most

Metadata = dict[str, dg.MetadataValue[Any]]


def default_description(stream: OpenStream) -> str:
    """The description of an asset if its stream has none."""
    return f"Table `{stream.table}`, refreshed from `{stream.source.root}` one partition at a time."


def definition_metadata(stream: OpenStream) -> Metadata:
    """The metadata of the asset before its first run: source, destination, catalog and ledger."""
    return {
        "dagster/table_name": dg.MetadataValue.text(str(stream.table)),
        "source": dg.MetadataValue.path(stream.files_uri),
        "destination": dg.MetadataValue.path(stream.table_uri),
        "catalog": dg.MetadataValue.text(stream.lake.location),
        "ledger_table": dg.MetadataValue.text(str(ledger_table(stream.lake_config))),
        "on_empty": dg.MetadataValue.text(stream.config.on_empty),
    }


def materialization_metadata(
    result: IngestResult, view: PartitionView | None, partition: Partition, landing: dg.AssetKey | None = None
) -> Metadata:
    """The metadata of one partition's materialization.

    Args:
        result: of the ingest.
        view: the partition in the lake, for rows, schema and preview; None if there is no table.
        partition: that was ingested.
        landing: key of the asset that the table's columns come from by their names; None if a transform makes them.
    """
    row = result.row
    numbers: dict[str, int | None] = {
        "rows": view.rows if view else row.rows_after,
        "rows_before": row.rows_before,
        "files": row.files_written,
        "files_copied": row.files_copied,
        "files_quarantined": row.files_quarantined,
        "rows_dead_lettered": row.rows_dead_lettered,
        "bytes": row.bytes_written,
        "source_objects": row.source_files,
        "source_bytes": row.source_bytes,
        "snapshot": row.snapshot_id,
    }
    if result.deltas is not None:
        numbers |= delta_figures(result.deltas)
    metadata: Metadata = {"status": dg.MetadataValue.text(row.status)}
    metadata |= {name: dg.MetadataValue.int(number) for name, number in numbers.items() if number is not None}
    metadata["seconds"] = dg.MetadataValue.float(round(sum(result.seconds.values()), 6))
    for step, seconds in result.seconds.items():
        metadata[f"seconds_{step}"] = dg.MetadataValue.float(round(seconds, 6))
    metadata["source"] = dg.MetadataValue.path(visible_name(row.source_glob))
    metadata["destination"] = dg.MetadataValue.path(visible_name(result.destination))
    if (command := _take_back(row)) is not None:
        metadata["take_back"] = dg.MetadataValue.md(command)
    if row.source_fingerprint is not None:
        metadata["fingerprint"] = dg.MetadataValue.text(row.source_fingerprint)
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
        partitioned = [column.name for column in partition.columns]
        if view.preview is not None:
            metadata["preview"] = dg.MetadataValue.md(preview_markdown(view))
        # Under this name Dagster shows it as the asset's columns.
        metadata["dagster/column_schema"] = dg.MetadataValue.table_schema(table_schema(view.columns, partitioned))
        if landing is not None:
            metadata["dagster/column_lineage"] = dg.MetadataValue.column_lineage(_lineage(view, landing))
    metadata["ledger"] = dg.MetadataValue.json(_ledger(result))
    return metadata


def _listed(texts: Sequence[str]) -> str:
    """The first texts as a list of Markdown."""
    return "\n".join(first_lines([f"- {markdown(text)}" for text in texts], _LEFT_OUT))


def delta_figures(deltas: Sequence[DeltaFile]) -> dict[str, int]:
    """The numbers of exported files and of their rows."""
    return {
        "delta_files": len(deltas),
        "delta_rows_inserted": sum(file.rows_inserted for file in deltas),
        "delta_rows_deleted": sum(file.rows_deleted for file in deltas),
    }


def _take_back(row: LedgerRow) -> str | None:
    """How to restore the rows from before a commit; None if there were none, or the lake does not have them.

    The snapshot right before a commit has them, so nothing is read to know its number.
    """
    if row.status != "committed" or not row.snapshot_id or not row.rows_before or row.mode == "index":
        return None
    # In code, and values in the path's form have no backquote that ends it.
    partition = visible_name(",".join(row.load_partition.split("/"))).replace("`", "%60")
    return (
        f"`lake-assets restore {row.stream} --partition {partition} --snapshot {row.snapshot_id - 1} --hold`, or the "
        f"job `restore_{row.stream}`, puts the {count(row.rows_before, 'row')} from before back"
    )


def _lineage(view: PartitionView, landing: dg.AssetKey) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {name: [dg.TableColumnDep(asset_key=landing, column_name=name)] for name, _ in view.columns}
    )


def table_schema(columns: Sequence[tuple[str, str]], partitioned: Sequence[str]) -> dg.TableSchema:
    """A table's columns for Dagster, with the partition columns marked."""
    names = {name.lower() for name in partitioned}
    return dg.TableSchema(
        columns=[
            dg.TableColumn(name, sql, description="Partition column" if name.lower() in names else None)
            for name, sql in columns
        ]
    )


def preview_markdown(view: PartitionView) -> str:
    """The first rows as a Markdown table; values are escaped, and NULL is in italics."""
    table = markdown_table(
        [markdown(name) for name, _ in view.columns],
        (["*NULL*" if value is None else markdown(_cut(value)) for value in row] for row in view.preview or ()),
    )
    return f"{table}\n\nfirst {len(view.preview or ()):,} of {count(view.rows, 'row')}"


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str] = ()) -> str:
    """A table of Markdown.

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


def _cut(value: str) -> str:
    return value if len(value) <= PREVIEW_CHARACTERS else f"{value[:PREVIEW_CHARACTERS]}…"


def _ledger(result: IngestResult) -> dict[str, object]:
    """The ledger row with its times as ISO 8601."""
    return dict(json.loads(json.dumps(dataclasses.asdict(result.row), default=dt.datetime.isoformat)))
