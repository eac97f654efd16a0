"""The metadata of a materialization: what a person reads first, then the numbers that Dagster plots by partition.

The texts have units: `size`, `source_size`, `duration` with its steps. The numbers have plain names: `rows`,
`rows_before`, `source_objects`, `files`, `snapshot`, those of what was left out or exported, and at the end `seconds`,
`bytes` and `source_bytes`. The rest of a run, such as its fingerprint, is in the ledger under the run's id.
"""

import datetime as dt
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import dagster as dg

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.texts import count, durations, first_lines, several, size, visible, visible_name
from lake_assets.config.layout.partition import Partition, option_of
from lake_assets.ingest.outcome import Outcome, error_text
from lake_assets.lake.catalog.preview import PREVIEW_CHARACTERS, PartitionView
from lake_assets.lake.commit.deltas import DeltaFile
from lake_assets.lake.ledger.tables import LEDGER, LedgerRow, release_command
from lake_assets.orchestration.partition_keys import StreamKeys, dimension_keys, user_text
from lake_assets.streams.left_out import LeftOut
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.report.state import holder_text

# Dagster shows a preview on the page itself if its Markdown is short, else in a dialog. The widths in characters are
# those in a window of 1,400 pixels, of which a dialog has 80 %.
_INLINE, _PAGE, _DIALOG = 1000, 50, 120
_PADDING = 2  # between two columns
_TURNED = (5, 4, 3, 2)  # rows of a preview that is turned, as many as fit
_NARROW = 24  # characters of a value in it

_NAMED = 20  # lines of a list
HOLD = "held"  # the entry that says who holds the partition

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
        "catalog": dg.MetadataValue.text(stream.lake_config.catalog.location),
        "ledger_table": dg.MetadataValue.text(str(LEDGER.name(stream.lake_config))),
        "on_empty": dg.MetadataValue.text(stream.config.on_empty),
        "backfill": dg.MetadataValue.text(_backfill(stream)),
    }


def _backfill(stream: OpenStream) -> str:
    """Return which runs Dagster makes of a backfill, and how many of one of all partitions where the config has them.

    In two dimensions it makes ranges for each value of the one with fewer values in the backfill.
    """
    keys, limit = StreamKeys(stream), stream.config.max_partitions_per_run
    noun = "partition" if keys.are_partitions else "key"
    first, *others = keys.dimensions
    most = f"up to {count(limit, noun)} of " if limit else ""
    text = f"One run for {most}each unbroken range of {first}"
    if others:
        text = (
            f"One run for {most}each {first}, or each {others[0]} if these are fewer, and unbroken range of the other"
        )
    if not keys.dynamic:
        fewest, *more = sorted(len(dimension_keys(dimension, None)) for dimension in keys.dimensions.values())
        groups, length = (fewest, more[0]) if more else (1, fewest)
        runs = groups * -(-length // (limit or length or 1))
        today = dt.datetime.now(dt.UTC).date()
        text += f". All {count(groups * length, noun)} of {today} are {count(runs, 'run')}"
    dialog = ' Dagster\'s dialog says "a single run" of one range.' if others and not limit else ""
    return f"{text}.{dialog}"


def materialization_metadata(
    result: Outcome, landing: dg.AssetKey | None = None, elsewhere: Metadata | None = None
) -> Metadata:
    """Return the metadata of one partition's materialization.

    `landing` is the key of the asset that the table's columns come from by their names; None if a transform makes them.
    `elsewhere` is of the commit, if another process made it.
    """
    row, view = result.row, result.view
    exported = None if result.deltas is None else delta_figures(result.deltas)
    metadata = _figures(row, view.rows if view else row.rows_after, durations(result.seconds), exported)
    metadata |= elsewhere or {}
    metadata["source"] = dg.MetadataValue.path(visible_name(row.source_glob))
    metadata["destination"] = dg.MetadataValue.path(visible_name(result.destination))
    if result.not_copied:
        key, reason = next(iter(sorted(result.not_copied.items())))
        metadata["not_copied"] = dg.MetadataValue.text(
            f"{len(result.not_copied):,}, the first is {visible_name(key)}: {visible(reason)}"
        )
    if left_out := result.manifest.left_out:
        metadata["quarantined"] = markdown_list([left_out[key] for key in sorted(left_out)])
    if result.letters:
        texts = [f"{letter.uri}: {count(letter.rows, 'row')}, the first: {letter.reason}" for letter in result.letters]
        metadata["dead_letters"] = markdown_list(texts)
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
    return metadata | _plotted(row)


def partition_metadata(partition: Partition) -> Metadata:
    """Return which of the partitions of its key an event is of."""
    return {"partition": dg.MetadataValue.text(visible_name(partition.path))}


def elsewhere_metadata(row: LedgerRow) -> Metadata:
    """Return what distinguishes a commit that another process made: when, by which run, and for whom."""
    run = dg.MetadataValue.text(f"{row.run_id}, requested by {visible(row.requested_by or 'an unknown user')}")
    if row.finished_at is None:
        return {"run": run}
    return {"committed_at": dg.MetadataValue.timestamp(row.finished_at), "run": run}


def _figures(row: LedgerRow, rows: int | None, taken: str, exported: Mapping[str, int] | None = None) -> Metadata:
    """Return what a person reads first; figures of what seldom happens only where it has happened."""
    numbers = {"rows": rows, "rows_before": row.rows_before, "source_objects": row.source_files}
    metadata: Metadata = {"status": dg.MetadataValue.text(status_text(row))}
    metadata |= {HOLD: dg.MetadataValue.md(_held(row))} if row.is_held else {}
    metadata |= integers(numbers)
    if row.source_bytes is not None:
        metadata["source_size"] = dg.MetadataValue.text(size(row.source_bytes))
    metadata |= integers({"files": row.files_written})
    if row.bytes_written is not None:
        metadata["size"] = dg.MetadataValue.text(size(row.bytes_written))
    metadata["duration"] = dg.MetadataValue.text(taken)
    seldom = {
        "files_copied": row.files_copied or None,
        "files_quarantined": row.files_quarantined or None,
        "rows_dead_lettered": row.rows_dead_lettered or None,
    }
    return metadata | integers(seldom | dict(exported or {}) | {"snapshot": row.snapshot_id})


def _plotted(row: LedgerRow) -> Metadata:
    """Return the numbers of texts with units, for plots; the seconds are those of the ledger."""
    numbers = {"bytes": row.bytes_written, "source_bytes": row.source_bytes}
    return {"seconds": dg.MetadataValue.float(round(row.duration, 3))} | integers(numbers)


def integers(numbers: Mapping[str, int | None]) -> Metadata:
    """Return the numbers that are known."""
    return {name: dg.MetadataValue.int(number) for name, number in numbers.items() if number is not None}


def markdown_list(texts: Sequence[str], rest: str = "- and {more:,} more") -> dg.MarkdownMetadataValue:
    """Return the first texts as a list of Markdown, and a last line with the number of the others."""
    return dg.MetadataValue.md("\n".join(first_lines([f"- {markdown(text)}" for text in texts], _NAMED, rest)))


def delta_figures(deltas: Sequence[DeltaFile]) -> dict[str, int]:
    """Return the numbers of exported files and of their rows."""
    return {
        "delta_files": len(deltas),
        "delta_rows_inserted": sum(file.rows_inserted for file in deltas),
        "delta_rows_deleted": sum(file.rows_deleted for file in deltas),
    }


def status_text(row: LedgerRow) -> str:
    """Return how a run of a partition ended, and of a restore, which rows it has put back."""
    return f"restored: the rows of snapshot {row.restored_snapshot}" if row.restored_snapshot else row.status


def _held(row: LedgerRow) -> str:
    """Return who holds a partition since a commit, and how to release it; a forced refresh leaves a hold as it was."""
    who = f"by {holder_text(row)}" if row.restored_snapshot else "also after this refresh, which was forced"
    return (
        f"Held {markdown(who)}. No refresh changes the partition until "
        f"{release_command(row.stream, _option(row))}, or the job `restore_{row.stream}` with `release: true`."
    )


def _option(row: LedgerRow) -> str:
    """Return a partition as for `--partition`, in code, which values in the path's form do not end by a backquote."""
    return visible_name(option_of(row.load_partition)).replace("`", "%60")


def _undo_command(row: LedgerRow) -> str | None:
    """Return how to restore the rows from before a commit; None if there were none, or the lake does not have them.

    The snapshot right before a commit has them, so nothing is read to know its number.
    """
    if row.status != "committed" or not row.snapshot_id or not row.rows_before or row.registers:
        return None
    return (
        f"`lake-assets restore {row.stream} --partition {_option(row)} --snapshot {row.snapshot_id - 1} --hold`, or "
        f"the job `restore_{row.stream}`, puts the {count(row.rows_before, 'row')} from before back"
    )


def _lineage(view: PartitionView, landing: dg.AssetKey) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {name: [dg.TableColumnDep(asset_key=landing, column_name=name)] for name, _ in view.columns}
    )


def table_schema(
    columns: Sequence[tuple[str, str]], partitioned: Sequence[str], descriptions: Mapping[str, str] | None = None
) -> dg.TableSchema:
    """Return a table's columns for Dagster, with the partition columns marked."""
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
        rows = preview[:shown]
        heads = ["column", *(f"row {number}" for number in range(1, len(rows) + 1))]
        lines = [[markdown(name), *(_cell(row[at], _NARROW) for row in rows)] for at, name in enumerate(names)]
        table = _preview(heads, lines, view.rows, len(rows))
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
    """Return a table of Markdown."""
    lines = [names, ["--:" if name in right else "---" for name in names], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def markdown(text: str) -> str:
    """The text for a cell of a Markdown table: one line, control characters and marks of Markdown and HTML escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|~&!#$])", r"\\\1", " ".join(visible(text).split()))


# Objects that lie in no partition. A run lists the prefixes of its own partitions only. So its materializations cite
# the newest scan of the whole landing zone that Dagster has recorded: an observation of the landing asset, or a report.

COUNT = "objects_in_no_partition"
FOLDERS = "in_no_partition"
LEFT_OUT = "objects_left_out"
SCANNED = "landing_zone_looked_at"

CITED = 4  # of them, in each materialization of a run
_BEFORE = 10  # observations of a run before which the one of the whole landing zone is logged
_RECENT = 10  # observations among which the newest scan is: one of a run may have no figures, or older ones


def unmatched_metadata(left_out: LeftOut) -> Metadata:
    """Return what a scan of the whole landing zone found that no refresh reads: how many objects of each class.

    The folders of those in no partition are named, with how to fix each.
    """
    metadata: Metadata = {
        COUNT: dg.MetadataValue.int(len(left_out.unmatched)),
        LEFT_OUT: dg.MetadataValue.text(str(left_out)),
    }
    if folders := left_out.unmatched_folders:
        metadata[FOLDERS] = markdown_list([str(folder) for folder in folders])
    return metadata


def newest_landing_scan(instance: dg.DagsterInstance, landing: dg.AssetKey, report: dg.AssetKey) -> Metadata:
    """The unmatched objects and the time of the newest scan of the whole landing zone; empty if none is recorded.

    A run's observation of the landing zone repeats them, so the newest event has them.

    Only Dagster's event log is read, by a few rows.
    """
    scans = [*_observed(instance, landing), *_reported(instance, report)]
    if not scans:
        return {}
    time, recorded = max(scans, key=itemgetter(0))
    metadata: Metadata = {name: recorded[name] for name in (COUNT, LEFT_OUT) if name in recorded}
    metadata[SCANNED] = dg.MetadataValue.timestamp(time)
    if FOLDERS in recorded:
        lines = str(recorded[FOLDERS].value).split("\n")
        if len(lines) > CITED:
            lines = [*lines[:CITED], f"- and more: observe `{user_text(landing)}`, which names them"]
        metadata[FOLDERS] = dg.MetadataValue.md("\n".join(lines))
    return metadata


_Scan = tuple[float, Mapping[str, dg.MetadataValue[Any]]]  # Unix time in seconds, and the metadata of the event


def _observed(instance: dg.DagsterInstance, key: dg.AssetKey) -> Iterator[_Scan]:
    """Yield recent observations of the whole landing zone; a run logs those of single partitions after it."""
    records = [*instance.fetch_observations(key, limit=_RECENT).records]
    for run_id in dict.fromkeys(record.run_id for record in records if record.partition_key is not None):
        run = instance.get_run_record_by_id(run_id)
        if run is not None and run.start_time:
            first = dg.AssetRecordsFilter(key, after_timestamp=run.start_time)
            records += instance.fetch_observations(first, limit=_BEFORE, ascending=True).records
    for record in records:
        observation = record.asset_observation
        if observation is not None and record.partition_key is None and COUNT in observation.metadata:
            scanned = observation.metadata.get(SCANNED)
            time = scanned.value if isinstance(scanned, dg.TimestampMetadataValue) else record.timestamp
            yield time, observation.metadata


def _reported(instance: dg.DagsterInstance, key: dg.AssetKey) -> Iterator[_Scan]:
    for record in instance.fetch_materializations(key, limit=1).records:
        report = record.asset_materialization
        if report is not None and COUNT in report.metadata:
            yield record.timestamp, report.metadata


# An error that several partitions share is reported once.

_OBJECT = re.compile(r"\bobject (\S.*?\.\w+)(?=[\s:,]|$)")  # as errors name it: `the object s3://…/a.parquet cannot be`


def error_metadata(error: Exception) -> dict[str, str]:
    """What a person has to know of a failed partition: the error, the object if it is one's fault, and the fix."""
    if not isinstance(error, LakeAssetsError):
        return {"status": "failed", "error": error_text(error)}
    facts = {"status": "failed", "error": error.problem.removesuffix(":")}
    if (named := _OBJECT.search(error.problem)) is not None:
        facts["object"] = named[1]
    return facts | ({"fix": error.fix} if error.hint else {})


def lines_by_text(texts: Mapping[str, str], most: int, elsewhere: str) -> list[str]:
    """Return a line for each error, by the names that it belongs to, and one that counts those beyond `most`.

    `elsewhere` names where the others are reported.
    """
    by_text: dict[str, list[str]] = {}
    for name, text in texts.items():
        by_text.setdefault(text, []).append(name)
    lines = [f"{several(names)}: {text}" for text, names in by_text.items()]
    return first_lines(lines, most, f"and {{more:,}} more; {elsewhere}")
