"""A Dagster job for each stream, `restore_<stream>`: it restores a partition's rows of a snapshot, or ends a hold."""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from lake_assets.checks.result import Scope
from lake_assets.errors import LakeAssetsError
from lake_assets.escapes import visible_name
from lake_assets.history.history_entries import described, history
from lake_assets.history.restore import Restored, release, restore
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.view import Viewer
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.orchestration.checks.stream_checks import Checked, checked
from lake_assets.orchestration.commit_events import materialization, outcome_of_commit
from lake_assets.orchestration.dagster_private import UserFailure
from lake_assets.orchestration.metadata import (
    Metadata,
    delta_figures,
    integers,
    markdown,
    markdown_table,
    materialization_metadata,
    partition_metadata,
    status_text,
)
from lake_assets.orchestration.partition_keys import dimension_tags, keys_of
from lake_assets.orchestration.stream_run import requester
from lake_assets.streams.stream import OpenStream

Events = Iterator[dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation | dg.Output[None]]

_NEWEST = 20  # snapshots in the metadata
_COLUMNS = ("snapshot", "time (UTC)", "partition", "what", "before", "rows", "who", "run", "restore")
_NUMBERS = ("snapshot", "before", "rows", "restore")


class RestoreConfig(dg.Config):
    """The options of a run in the launchpad, which shows those with a default."""

    partition: str = Field("", description="The partition, such as region=NW,date=2026-02-11, or its key in Dagster.")
    snapshot: int = Field(0, description="The snapshot to restore; 0 with `release`, or to be shown the history.")
    hold: bool = Field(False, description="Hold the partition: refreshes skip it until a run with `release`.")
    release: bool = Field(False, description="End a hold; the rows stay.")
    dry_run: bool = Field(False, description="Show what would be done, and change nothing.")


_SCHEMA = RestoreConfig.to_config_schema().as_field()  # Dagster would make it for each stream


def restore_job(stream: OpenStream, asset: dg.AssetKey) -> dg.JobDefinition:
    """Return the job of one stream. A restored partition has a materialization with its rows; the history is metadata.

    A run without a snapshot fails, and the failure has the history, in which a person finds one.
    """

    @dg.op(
        name=f"restore_partition_of_{stream.name}",
        description=f"Restores the rows of a partition of {stream.name} from a snapshot, or ends a hold.",
        config_schema=_SCHEMA,
    )
    def run_restore(context: dg.OpExecutionContext) -> Events:
        config = RestoreConfig(**context.op_config)
        try:
            partition = _partition(stream, config.partition)
            if not config.snapshot and not config.release:
                text = (
                    "snapshot is missing: set it to a number of the history below, or set release: true to end a hold."
                )
                shown = dg.MetadataValue.md(history_markdown(stream, partition))
                raise UserFailure(text, {"history": shown})
            restored = _run(stream, partition, config, context)
            metadata: Metadata = {"history": dg.MetadataValue.md(history_markdown(stream, partition))}
        except LakeAssetsError as error:
            raise UserFailure(str(error)) from None
        if restored is None:
            key = keys_of(stream).of(partition)
            said = partition_metadata(partition) | {
                "status": dg.MetadataValue.text("released: refreshes read it again")
            }
            yield dg.AssetObservation(asset, partition=key, metadata=said, tags=dimension_tags(key))
        else:
            metadata |= _metadata(restored)
            text = f"{partition}: {count(restored.rows, 'row')} of snapshot {restored.snapshot}. {restored.next}"
            context.log.info(visible_name(text))
            if restored.row is not None:
                viewed = Viewer(stream, context.log.warning).viewed(outcome_of_commit(stream, partition, restored.row))
                yield materialization(stream, asset, partition, materialization_metadata(viewed) | metadata)
                yield from checked(stream, asset, context, Scope(None, (partition,)), Checked())
        yield dg.Output(None, metadata=metadata)

    @dg.job(
        name=f"restore_{stream.name}",
        description=f"Put the rows of one partition of {stream.name} back as they were in an earlier snapshot, and "
        "hold them if you like. No landed object is read.",
    )
    def job() -> None:
        run_restore()

    return job


def _partition(stream: OpenStream, text: str) -> Partition:
    """Return the partition of a text of the command line, or of a key."""
    if not text:
        raise UserFailure("partition is missing: set it to one of the stream, or to its key.")
    if "=" in text:
        return stream.config.partition(text)
    return keys_of(stream).partition(text)


def _run(
    stream: OpenStream, partition: Partition, config: RestoreConfig, context: dg.OpExecutionContext
) -> Restored | None:
    """Do what the launchpad says; returns the result of a restore. On an error nothing was changed."""
    options = IngestOptions(run_id=context.run_id, requested_by=requester(context.run.tags))
    if config.release:
        if config.snapshot or config.hold or config.dry_run:
            raise LakeAssetsError("release ends a hold:", "launch it without snapshot, hold and dry_run.")
        release(stream, partition, options)
        return None
    return restore(stream, partition, config.snapshot, hold=config.hold, dry_run=config.dry_run, options=options)


def history_markdown(stream: OpenStream, partition: Partition) -> str:
    """Return the newest snapshots of a partition, as a table of Markdown."""
    rows = [[markdown(text) for text in described(entry)] for entry in history(stream, partition, _NEWEST)]
    return markdown_table(_COLUMNS, rows, _NUMBERS)


def _metadata(restored: Restored) -> Metadata:
    status = "unchanged" if restored.is_unchanged else "dry run"
    metadata: Metadata = {
        "status": dg.MetadataValue.text(status if restored.row is None else status_text(restored.row)),
        "rows": dg.MetadataValue.int(restored.rows),
        "rows_before": dg.MetadataValue.int(restored.rows_before),
        "restored_snapshot": dg.MetadataValue.int(restored.snapshot),
        "next_refresh": dg.MetadataValue.text(restored.next),
    }
    if restored.row is not None:
        metadata |= integers({"snapshot": restored.row.snapshot_id})
    if restored.deltas is not None:
        metadata |= integers(delta_figures(restored.deltas))
    if restored.differences:
        metadata["columns"] = dg.MetadataValue.text("; ".join(restored.differences))
    return metadata
