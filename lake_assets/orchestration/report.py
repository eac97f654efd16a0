"""Two assets beside those of the streams: a stream's report with its heat map, and a lake's ledger.

The UI shows an image of Markdown metadata if it is a `data:` URI, so that no file has to be served; Dagster keeps it
with the event, which is why the picture has a palette and is small.
"""

import base64
import warnings
from collections.abc import Iterable, Sequence

import dagster as dg

from lake_assets.config.models import LakeConfig
from lake_assets.errors import ConfigError, NoLakeError
from lake_assets.lake.history import LedgerFigures, ledger_figures
from lake_assets.lake.ledger import LEDGER_COLUMNS, LedgerRow, ledger_table, read_ledger
from lake_assets.landed import strange_folders
from lake_assets.orchestration.metadata import Metadata, markdown, table_schema
from lake_assets.report.state import PartitionState, StreamState, read_state
from lake_assets.report.summary import summarize
from lake_assets.stream import OpenStream

IMAGE_BYTES = 100_000  # of PNG; a larger one is left out of the event, and `lake-assets report --png` makes it
NAMED = 20  # failed partitions with their errors
PREVIEW_ROWS = 10


def report_asset(stream: OpenStream) -> dg.AssetsDefinition:
    """The asset `<stream>_report`: its materialization looks at landing zone and ledger, and shows how both compare.

    Its figures are numbers under plain names (`partitions_committed`, `partitions_stale`, …, `rows`), which Dagster
    plots over time.

    Raises:
        ConfigError: Dagster does not take the stream's name or owners.
    """
    try:

        @dg.asset(
            name=f"{stream.name}_report",
            description=f"How every partition of `{stream.name}` stands: committed, stale, failed, missing or absent.",
            group_name=stream.config.group,
            owners=stream.config.owners,
            kinds={"matplotlib"},
            deps=[dg.AssetKey(stream.name)],
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
    from lake_assets.report.plot import heat_map  # noqa: PLC0415 - loading matplotlib takes as long as all the rest

    metadata: Metadata = {f"partitions_{name}": dg.MetadataValue.int(number) for name, number in state.counts.items()}
    metadata["rows"] = dg.MetadataValue.int(sum(one.rows or 0 for one in state.partitions))
    newest = max((one.committed_at for one in state.partitions if one.committed_at), default=None)
    if newest is not None:
        metadata["newest_commit"] = dg.MetadataValue.timestamp(newest)
    metadata["objects_in_no_partition"] = dg.MetadataValue.int(len(state.strangers))
    image = heat_map(state)
    if len(image) <= IMAGE_BYTES:
        uri = f"data:image/png;base64,{base64.b64encode(image).decode()}"
        metadata["heat_map"] = dg.MetadataValue.md(f"![partitions]({uri})")
    else:
        metadata["heat_map"] = dg.MetadataValue.md(
            f"The picture has {len(image):,} bytes, too many for an event. "
            f"`lake-assets report {state.stream} --png FILE` writes it."
        )
    metadata["summary"] = dg.MetadataValue.md(_summary(state))
    if folders := strange_folders(state.strangers):
        metadata["in_no_partition"] = dg.MetadataValue.md(_list([str(folder) for folder in folders]))
    if state.outside:
        outside = [f"{one.partition} ({one.rows or 0:,} rows in the lake): {one.outside}" for one in state.outside]
        metadata["outside_the_config"] = dg.MetadataValue.md(_list(outside))
    if failed := [one for one in state.partitions if one.state == "failed"]:
        metadata["failed"] = dg.MetadataValue.md(_failed(failed))
    return metadata


def _summary(state: StreamState) -> str:
    lines = [["partitions", *state.counts, "rows", "newest commit (UTC)"]]
    lines.append(["---", *("--:" for _ in state.counts), "--:", "---"])
    for one in summarize(state):
        newest = f"{one.newest_commit:%Y-%m-%d %H:%M:%S}" if one.newest_commit else ""
        counts = [f"{number:,}" for number in one.counts.values()]
        lines.append([markdown(one.group or "all"), *counts, f"{one.rows:,}", newest])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _failed(partitions: Sequence[PartitionState]) -> str:
    return _list([f"{one.partition}: {one.error or ''}" for one in partitions])


def _list(texts: Sequence[str]) -> str:
    lines = [f"- {markdown(text)}" for text in texts[:NAMED]]
    if len(texts) > NAMED:
        lines.append(f"- and {len(texts) - NAMED:,} more")
    return "\n".join(lines)


def ledger_assets(config: LakeConfig, streams: Iterable[OpenStream]) -> list[dg.AssetsDefinition]:
    """The asset of each ledger that a stream writes to."""
    by_lake: dict[str, list[OpenStream]] = {}
    for stream in streams:
        by_lake.setdefault(config.lake_name(stream.name), []).append(stream)
    return [_ledger_asset(config, lake, some) for lake, some in by_lake.items()]


def _ledger_asset(config: LakeConfig, lake: str, streams: Sequence[OpenStream]) -> dg.AssetsDefinition:
    """The asset `<lake>_ledger`: the table that the streams' commits append to, below them in the lineage.

    Nobody materializes it: it is written in the streams' own transactions. Observing it reads the table, and its data
    version is the newest snapshot that the ledger names.

    Args:
        config: the whole config.
        lake: the lake's name.
        streams: those of this lake.
    """
    table = ledger_table(config.lakes[lake])
    groups = {stream.config.group for stream in streams}
    spec = dg.AssetSpec(
        key=f"{lake}_ledger",
        deps=[dg.AssetKey(stream.name) for stream in streams],
        description=f"Table `{table}` of lake `{lake}`: one row a run and partition, appended in the same transaction "
        "as the partition's rows. Observe it to see its newest rows.",
        group_name=groups.pop() if len(groups) == 1 else None,
        kinds={"ducklake"},
        metadata={
            "dagster/table_name": str(table),
            "dagster/column_schema": table_schema(list(LEDGER_COLUMNS.items()), []),
            "catalog": streams[0].lake.place,
        },
    )

    def observe() -> dg.ObserveResult:
        try:
            with streams[0].lake.open(read_only=True) as session:
                figures = ledger_figures(session)
                rows = read_ledger(session, limit=PREVIEW_ROWS) if figures else []
        except NoLakeError:
            figures, rows = None, []
        if figures is None:
            return dg.ObserveResult(metadata={"rows": 0}, data_version=dg.DataVersion("0 rows"))
        # Rows are only ever appended.
        return dg.ObserveResult(
            metadata=_ledger_metadata(figures, rows), data_version=dg.DataVersion(f"{figures.rows} rows")
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        decorate = dg.multi_observable_source_asset(specs=[spec], name=f"{lake}_ledger")
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
    lines = [columns, ["---"] * len(columns)]
    for row in newest:
        finished = f"{row.finished_at:%Y-%m-%d %H:%M:%S}" if row.finished_at else ""
        texts = [row.stream, row.load_partition, row.status, _text(row.row_count), _text(row.snapshot_id)]
        lines.append([finished, *map(markdown, texts)])
    metadata["newest_rows"] = dg.MetadataValue.md("\n".join(f"| {' | '.join(cells)} |" for cells in lines))
    return metadata


def _text(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
