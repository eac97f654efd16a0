"""Two assets beside those of the streams: a stream's report, and a lake's ledger."""

import warnings
from collections.abc import Callable, Sequence

import dagster as dg

from lake_assets.base.errors import ConfigError
from lake_assets.base.texts import figure, moment, visible_name
from lake_assets.lake.ledger.read import LedgerFigures, ledger_figures, read_ledger
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.orchestration.metadata import (
    Metadata,
    integers,
    markdown,
    markdown_list,
    markdown_table,
    unmatched_metadata,
)
from lake_assets.orchestration.partition_keys import step_of
from lake_assets.orchestration.translator import StreamSpecs, asset_options
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.report.html import page, section
from lake_assets.upkeep.report.state import StreamState, held_text, read_stream_state, summarize

PREVIEW_ROWS = 10


def report_asset(specs: StreamSpecs) -> dg.AssetsDefinition:
    """Return the asset `<stream>_report`: its materialization compares landing zone and ledger.

    Its figures are numbers under plain names (`partitions_committed`, `partitions_stale`, …, `rows`), which Dagster
    plots over time.
    """
    stream, spec = specs.stream, specs.report

    def report(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        state = read_stream_state(stream)
        context.log.info(", ".join(f"{name} {number:,}" for name, number in state.counts.items()))
        return dg.MaterializeResult(metadata=report_metadata(state) | _write_page(stream, state))

    try:
        decorate: Callable[..., dg.AssetsDefinition] = dg.asset(
            **asset_options(spec), deps=[specs.table.key, *spec.deps]
        )
        return decorate(report)
    except dg.DagsterInvalidDefinitionError as error:
        raise ConfigError(f"streams.{stream.name}: Dagster does not take its report: {error}") from error


def _write_page(stream: OpenStream, state: StreamState) -> Metadata:
    """Write the page of the report, if the config has a place for it; returns its URI as metadata."""
    if stream.config.report is None:
        return {}
    store, name = Store(stream.config.report.to), f"{stream.name}.html"
    text = page([section(stream, state)], f"Partitions of {stream.name}", state.read_at)
    store.put_page(name, text.encode())
    return {"page": dg.MetadataValue.path(visible_name(store.uri(name)))}


def report_sensor(stream: OpenStream, asset: dg.AssetKey) -> dg.AutomationConditionSensorDefinition | None:
    """Return the sensor `<stream>_report_automation`, which refreshes the page after each run; None without a page."""
    if stream.config.report is None:
        return None
    return dg.AutomationConditionSensorDefinition(
        f"{stream.name}_report_automation",
        target=dg.AssetSelection.assets(asset),
        default_status=dg.DefaultSensorStatus(stream.config.report.status.upper()),
        description=f"Refreshes the report of {stream.name} after each run of the stream.",
    )


def report_metadata(state: StreamState) -> Metadata:
    """Return the metadata of a report's materialization."""
    metadata = integers({f"partitions_{name}": number for name, number in state.counts.items()})
    metadata |= integers({"rows": sum(partition.rows or 0 for partition in state.partitions)})
    newest = max((p.committed_at for p in state.partitions if p.committed_at), default=None)
    if newest is not None:
        metadata["newest_commit"] = dg.MetadataValue.timestamp(newest)
    metadata["summary"] = dg.MetadataValue.md(_summary(state))
    metadata |= unmatched_metadata(state.left_out)
    lists = {
        "outside_the_config": [
            f"{p.partition} ({p.rows or 0:,} rows in the lake): {p.outside}" for p in state.in_state("outside")
        ],
        "held": [held_text(partition) for partition in state.held],
        "edited": state.edited,
        "quarantined": list(state.quarantined.values()),
        "failed": [f"{p.partition}: {p.error or ''} {p.retry_text}".rstrip() for p in state.in_state("failed")],
    }
    return metadata | {name: markdown_list(texts) for name, texts in lists.items() if texts}


def _summary(state: StreamState) -> str:
    numbers = [*state.counts, "rows"]
    rows = []
    for summary in summarize(state):
        counts = [f"{number:,}" for number in summary.counts.values()]
        rows.append(
            [markdown(summary.partitions or "all"), *counts, f"{summary.rows:,}", moment(summary.newest_commit)]
        )
    return markdown_table(["partitions", *numbers, "newest commit (UTC)"], rows, right=numbers)


def ledger_asset(streams: Sequence[StreamSpecs], spec: dg.AssetSpec) -> dg.AssetsDefinition:
    """Return the asset `<lake>_ledger`: the table that the streams' commits append to, downstream of them.

    It is never materialized, because the streams' own transactions write it. An observation reads the table; its data
    version is the number of rows.
    """
    spec = spec.replace_attributes(deps=[*(specs.table.key for specs in streams), *spec.deps])

    def observe() -> dg.ObserveResult:
        with streams[0].stream.lake.open_if_exists() as session:
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
    metadata = integers(numbers)
    if figures.finished_at is not None:
        metadata["newest_run"] = dg.MetadataValue.timestamp(figures.finished_at)
    columns = ["finished (UTC)", "stream", "partition", "status", "rows", "snapshot"]
    rows = []
    for row in newest:
        texts = [row.stream, row.load_partition, row.status, figure(row.row_count), figure(row.snapshot_id)]
        rows.append([moment(row.finished_at), *map(markdown, texts)])
    metadata["newest_rows"] = dg.MetadataValue.md(markdown_table(columns, rows))
    return metadata
