"""Two assets beside those of the streams: a stream's report with its heat map, and a lake's ledger.

The UI shows an image of Markdown metadata if it is a `data:` URI, so that no file has to be served; Dagster keeps it
with the event, which is why the picture has a palette and is small.
"""

import base64
import datetime as dt
import warnings
from collections.abc import Iterable, Mapping, Sequence

import dagster as dg

from lake_assets.config.models import LakeConfig
from lake_assets.errors import ConfigError, MissingExtraError
from lake_assets.lake.ledger.last_runs import LedgerFigures, ledger_figures
from lake_assets.lake.ledger.tables import LedgerRow, read_ledger
from lake_assets.layout.texts import first_lines
from lake_assets.orchestration.dagster_private import step_of
from lake_assets.orchestration.metadata import Metadata, markdown, markdown_table
from lake_assets.orchestration.translator import StreamSpecs, specs_of
from lake_assets.orchestration.unmatched import unmatched_metadata
from lake_assets.report.picture import heat_map
from lake_assets.report.state import PartitionState, StreamState, read_state
from lake_assets.report.summary import summarize
from lake_assets.streams.stream import OpenStream

IMAGE_BYTES = 100_000  # of PNG; a larger one is left out of the event, and `lake-assets report --png` makes it
NAMED = 20  # failed partitions with their errors
PREVIEW_ROWS = 10


def report_asset(stream: OpenStream, specs: StreamSpecs | None = None) -> dg.AssetsDefinition:
    """The asset `<stream>_report`: its materialization looks at landing zone and ledger, and shows how both compare.

    Its figures are numbers under plain names (`partitions_committed`, `partitions_stale`, …, `rows`), which Dagster
    plots over time.

    Raises:
        ConfigError: Dagster does not take the stream's name or owners.
    """
    specs = specs or specs_of(stream)
    spec = specs.report
    try:

        @dg.asset(
            key=spec.key,
            description=spec.description,
            group_name=spec.group_name,
            owners=spec.owners,
            tags=spec.tags,
            metadata=spec.metadata,
            code_version=spec.code_version,
            automation_condition=spec.automation_condition,
            freshness_policy=spec.freshness_policy,
            deps=[specs.table.key, *spec.deps],
        )
        def look(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
            state = read_state(stream)
            context.log.info(", ".join(f"{name} {number:,}" for name, number in state.counts.items()))
            return dg.MaterializeResult(metadata=report_metadata(state))

    except dg.DagsterInvalidDefinitionError as error:
        raise ConfigError(f"streams.{stream.name}: Dagster does not take its report: {error}") from error
    return look


def report_metadata(state: StreamState) -> Metadata:
    """What a report's materialization shows."""
    metadata: Metadata = {f"partitions_{name}": dg.MetadataValue.int(number) for name, number in state.counts.items()}
    metadata["rows"] = dg.MetadataValue.int(sum(one.rows or 0 for one in state.partitions))
    newest = max((one.committed_at for one in state.partitions if one.committed_at), default=None)
    if newest is not None:
        metadata["newest_commit"] = dg.MetadataValue.timestamp(newest)
    metadata["heat_map"] = dg.MetadataValue.md(_heat_map(state))
    metadata["summary"] = dg.MetadataValue.md(_summary(state))
    metadata |= unmatched_metadata(state.unmatched)
    if state.outside:
        outside = [f"{one.partition} ({one.rows or 0:,} rows in the lake): {one.outside}" for one in state.outside]
        metadata["outside_the_config"] = dg.MetadataValue.md(_list(outside))
    if failed := [one for one in state.partitions if one.state == "failed"]:
        metadata["failed"] = dg.MetadataValue.md(_failed(failed))
    return metadata


def _heat_map(state: StreamState) -> str:
    """The picture, or why there is none."""
    try:
        image = heat_map(state)
    except MissingExtraError as error:
        return f"There is no picture: {error}"
    if len(image) <= IMAGE_BYTES:
        return f"![partitions](data:image/png;base64,{base64.b64encode(image).decode()})"
    return (
        f"The picture has {len(image):,} bytes, too many for an event. "
        f"`lake-assets report {state.stream} --png FILE` writes it."
    )


def _summary(state: StreamState) -> str:
    numbers = [*state.counts, "rows"]
    rows = []
    for one in summarize(state):
        counts = [f"{number:,}" for number in one.counts.values()]
        rows.append([markdown(one.group or "all"), *counts, f"{one.rows:,}", _time(one.newest_commit)])
    return markdown_table(["partitions", *numbers, "newest commit (UTC)"], rows, right=numbers)


def _failed(partitions: Sequence[PartitionState]) -> str:
    return _list([f"{one.partition}: {one.error or ''}" for one in partitions])


def _list(texts: Sequence[str]) -> str:
    return "\n".join(first_lines([f"- {markdown(text)}" for text in texts], NAMED))


def streams_by_lake(config: LakeConfig, streams: Iterable[OpenStream]) -> dict[str, list[OpenStream]]:
    """The streams that write to each lake, and so to its ledger, by the lake's name."""
    by_lake: dict[str, list[OpenStream]] = {}
    for stream in streams:
        by_lake.setdefault(config.lake_name(stream.name), []).append(stream)
    return by_lake


def ledger_asset(
    streams: Sequence[OpenStream], specs: Mapping[str, StreamSpecs], spec: dg.AssetSpec
) -> dg.AssetsDefinition:
    """The asset `<lake>_ledger`: the table that the streams' commits append to, below them in the lineage.

    Nobody materializes it: it is written in the streams' own transactions. Observing it reads the table, and its data
    version is the newest snapshot that the ledger names.

    Args:
        streams: those of the lake.
        specs: the attributes of each stream's assets.
        spec: the attributes of the ledger's asset.
    """
    tables = [specs[stream.name].table.key for stream in streams]
    spec = spec.replace_attributes(deps=[*tables, *spec.deps])

    def observe() -> dg.ObserveResult:
        with streams[0].lake.open_if_exists() as session:
            figures = ledger_figures(session) if session else None
            rows = read_ledger(session, limit=PREVIEW_ROWS) if session and figures else []
        if figures is None:
            return dg.ObserveResult(metadata={"rows": 0}, data_version=dg.DataVersion("0 rows"))
        # Rows are only ever appended.
        return dg.ObserveResult(
            metadata=_ledger_metadata(figures, rows), data_version=dg.DataVersion(f"{figures.rows} rows")
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        decorate = dg.multi_observable_source_asset(specs=[spec], name=step_of(spec.key))
    asset: dg.AssetsDefinition = decorate(observe)
    return asset


def _ledger_metadata(figures: LedgerFigures, newest: Sequence[LedgerRow]) -> Metadata:
    numbers = {
        "rows": figures.rows,
        "runs_committed": figures.committed,
        "runs_skipped": figures.skipped,
        "runs_failed": figures.failed,
        "runs_cancelled": figures.cancelled,
        "snapshot": figures.snapshot,
    }
    metadata: Metadata = {name: dg.MetadataValue.int(number) for name, number in numbers.items() if number is not None}
    if figures.finished_at is not None:
        metadata["newest_run"] = dg.MetadataValue.timestamp(figures.finished_at)
    columns = ["finished (UTC)", "stream", "partition", "status", "rows", "snapshot"]
    rows = []
    for row in newest:
        texts = [row.stream, row.load_partition, row.status, _text(row.row_count), _text(row.snapshot_id)]
        rows.append([_time(row.finished_at), *map(markdown, texts)])
    metadata["newest_rows"] = dg.MetadataValue.md(markdown_table(columns, rows))
    return metadata


def _time(moment: dt.datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else ""


def _text(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
