"""Dagster's jobs: a stream's ingest of selected partitions and its restore, a lake's maintenance and its audit."""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.texts import count, visible_name
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.ingest.view import Viewer
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.orchestration.commit_events import materialization, outcome_of_commit, release_observation
from lake_assets.orchestration.dagster_private import UserFailure
from lake_assets.orchestration.event_log import failure_or_retry
from lake_assets.orchestration.metadata import (
    Metadata,
    delta_figures,
    integers,
    lines_by_text,
    markdown,
    markdown_list,
    markdown_table,
    materialization_metadata,
    status_text,
)
from lake_assets.orchestration.partition_keys import StreamKeys
from lake_assets.orchestration.queued_runs import job_schedule
from lake_assets.orchestration.resources import PYSPARK, sessions
from lake_assets.orchestration.stream_checks import Checked, checked
from lake_assets.orchestration.stream_run import StreamRun, options_of, requester
from lake_assets.orchestration.translator import StreamSpecs
from lake_assets.streams.select import Selection, Wanted, select
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.exports import telemetry
from lake_assets.upkeep.history.history_entries import entry_texts, history
from lake_assets.upkeep.history.restore import Restoration, Restored, release
from lake_assets.upkeep.maintenance.maintenance_run import Maintained, maintain

JobEvents = Iterator[dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation | dg.Output[None]]


class SelectionConfig(dg.Config):
    """The options of a run in the launchpad."""

    partitions: list[str] = Field(
        default=[],
        description="These partitions, such as region=NW|NE, date=2026-02, date=last:7 or date=2026-02-01..2026-02-28.",
    )
    waiting: bool | None = Field(
        None,
        description="Only partitions with landed objects that are not in the lake. When absent, true if nothing "
        "else is selected.",
    )
    failed: bool = Field(False, description="Only partitions whose newest run failed.")
    all: bool = Field(False, description="Every partition that has landed or is in the lake.")
    max: int | None = Field(None, ge=1, description="At most this many partitions.")
    force: bool = Field(False, description="Read partitions again even if their objects have not changed.")

    @property
    def wanted(self) -> Wanted:
        """What is selected; the waiting partitions if nothing else is."""
        is_open = not (self.partitions or self.failed or self.all)
        waiting = is_open if self.waiting is None else self.waiting
        return Wanted(tuple(self.partitions), waiting=waiting, failed=self.failed, every=self.all, most=self.max)


# Dagster would make it for each stream, of a parameter of the class. The same goes for the type of a resource.
_SELECTION = SelectionConfig.to_config_schema().as_field()


def ingest_name(stream: str) -> str:
    """Return the name of a stream's job."""
    return f"ingest_{stream}"


def ingest_step(stream: str) -> str:
    """Return the name of the job's step."""
    return f"ingest_partitions_of_{stream}"


def ingest_job(specs: StreamSpecs, config: LakeConfig) -> dg.JobDefinition:
    """Return the job of one stream, whose run needs no partition of Dagster's.

    Each partition has an event and results of checks of its own, as in a run of the asset.
    """
    stream, lake_config = specs.stream, config

    @dg.op(
        name=ingest_step(stream.name),
        description=f"Ingests the selected partitions of {stream.name}.",
        config_schema=_SELECTION,
        required_resource_keys={PYSPARK},
    )
    def run_ingest(context: dg.OpExecutionContext) -> JobEvents:
        config = SelectionConfig(**context.op_config)
        options = options_of(context, force=config.force)
        run = StreamRun(specs, context, lake_config, options)
        try:
            selection = select(stream, config.wanted)
        except LakeAssetsError as error:
            raise failure_or_retry(context, UserFailure(str(error)), [error]) from None
        run.log.info(f"{stream.name}: {selection}")
        of_stream = StreamKeys(stream)
        cells = map(of_stream.cell_of, selection.partitions)
        for name, keys in of_stream.missing(context.instance, cells).items():
            context.instance.add_dynamic_partitions(name, keys)
        run.number = len(selection.partitions)
        with run.open():
            yield from run.refreshed({partition: of_stream.of(partition) for partition in selection.partitions})
            yield from run.events()
            failure = run.failure() if run.failed else None  # a run that is to be retried ends here, without checks
            yield from checked(stream, run.asset, context, run.scope(), Checked())
        if failure is not None:
            raise failure
        yield dg.Output(None, metadata=_ingest_figures(run, selection))

    @dg.job(
        name=ingest_name(stream.name),
        description=f"Ingest what has landed in the partitions of {stream.name} that the run config selects. If it "
        "selects nothing, it ingests all partitions whose landed objects are not in the lake.",
    )
    def job() -> None:
        run_ingest()

    return job


def _ingest_figures(run: StreamRun, selection: Selection) -> Metadata:
    return {
        "selection": dg.MetadataValue.text(str(selection)),
        "committed": dg.MetadataValue.int(run.committed),
        "skipped": dg.MetadataValue.int(len(run.done) - run.committed),
    }


_SNAPSHOTS = 20  # snapshots in the metadata
_COLUMNS = ("snapshot", "time (UTC)", "partition", "what", "before", "rows", "who", "run", "restore")
_NUMBERS = ("snapshot", "before", "rows", "restore")


class RestoreConfig(dg.Config):
    """The options of a run in the launchpad, which shows those with a default."""

    partition: str = Field("", description="The partition, such as region=NW,date=2026-02-11, or its key in Dagster.")
    snapshot: int = Field(0, description="The snapshot to restore; 0 with `release`, or to be shown the history.")
    hold: bool = Field(False, description="Hold the partition: refreshes skip it until a run with `release`.")
    release: bool = Field(False, description="End a hold; the rows stay.")
    dry_run: bool = Field(False, description="Show what would be done, and change nothing.")


_RESTORE = RestoreConfig.to_config_schema().as_field()  # Dagster would make it for each stream


def restore_job(stream: OpenStream, asset: dg.AssetKey) -> dg.JobDefinition:
    """Return the job of one stream. A restored partition has a materialization with its rows; the history is metadata.

    A run without a snapshot fails, and the failure has the history, in which a person finds one.
    """

    @dg.op(
        name=f"restore_partition_of_{stream.name}",
        description=f"Restores the rows of a partition of {stream.name} from a snapshot, or ends a hold.",
        config_schema=_RESTORE,
    )
    def run_restore(context: dg.OpExecutionContext) -> JobEvents:
        config = RestoreConfig(**context.op_config)
        try:
            partition = _partition_to_restore(stream, config.partition)
            if not config.snapshot and not config.release:
                text = (
                    "snapshot is missing: set it to a number of the history below, or set release: true to end a hold."
                )
                shown = dg.MetadataValue.md(history_markdown(stream, partition))
                raise UserFailure(text, {"history": shown})
            done = _restore_or_release(stream, partition, config, context)
            metadata: Metadata = {"history": dg.MetadataValue.md(history_markdown(stream, partition))}
        except LakeAssetsError as error:
            raise UserFailure(str(error)) from None
        if isinstance(done, LedgerRow):
            yield release_observation(stream, asset, partition, done)
        else:
            metadata |= _restore_metadata(done)
            text = f"{partition}: {count(done.rows, 'row')} of snapshot {done.snapshot}. {done.next}"
            context.log.info(visible_name(text))
            if done.row is not None:
                viewed = Viewer(stream, context.log.warning).viewed(outcome_of_commit(stream, partition, done.row))
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


def _partition_to_restore(stream: OpenStream, text: str) -> Partition:
    """Return the partition of a text of the command line, or of a key."""
    if not text:
        raise UserFailure("partition is missing: set it to one of the stream, or to its key.")
    if "=" in text:
        return stream.config.partition(text)
    return StreamKeys(stream).partition(text)


def _restore_or_release(
    stream: OpenStream, partition: Partition, config: RestoreConfig, context: dg.OpExecutionContext
) -> Restored | LedgerRow:
    """Do what the launchpad says; returns the result of a restore, or the commit that ended a hold."""
    options = IngestOptions(run_id=context.run_id, requested_by=requester(context.run.tags))
    if config.release:
        if config.snapshot or config.hold or config.dry_run:
            raise LakeAssetsError("release ends a hold:", "launch it without snapshot, hold and dry_run.")
        return release(stream, partition, options)
    restoration = Restoration(stream, partition, config.snapshot, config.hold)
    return restoration.dry_run() if config.dry_run else restoration.run(options)


def history_markdown(stream: OpenStream, partition: Partition) -> str:
    """Return the newest snapshots of a partition, as a table of Markdown."""
    rows = [[markdown(text) for text in entry_texts(entry)] for entry in history(stream, partition, _SNAPSHOTS)]
    return markdown_table(_COLUMNS, rows, _NUMBERS)


def _restore_metadata(restored: Restored) -> Metadata:
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


NAMED_LEFT = 20


class MaintainConfig(dg.Config):
    """The options of a run in the launchpad."""

    dry_run: bool = Field(False, description="Show what would be done, and change nothing.")


def maintenance_job(lakes: LakeConfig, lake: str) -> dg.JobDefinition:
    """Return the job of one lake. A run fails if a partition could not be compacted."""

    @dg.op(name=f"maintain_{lake}_lake", description=f"Expires snapshots, deletes files and compacts in lake {lake}.")
    def run_maintenance(context: dg.OpExecutionContext, config: MaintainConfig, pyspark: LazyPySparkResource) -> None:
        try:
            with telemetry():
                maintained = maintain(lakes, lake, sessions(pyspark, lakes.spark), dry_run=config.dry_run)
        except LakeAssetsError as error:
            raise failure_or_retry(context, UserFailure(str(error)), [error]) from None
        figures = maintenance_figures(maintained)
        context.log.info(", ".join(f"{name} {number:,}" for name, number in figures.items()))
        for uri in [*maintained.cleaned.deleted, *(orphan.uri for orphan in maintained.orphans)]:
            context.log.debug(f"deleted {visible_name(uri)}")
        for uri in maintained.cleaned.unreachable:
            context.log.warning(f"{visible_name(uri)} is to be deleted, but is in no storage of the config")
        for kept in maintained.cleaned.others:
            context.log.warning(f"{visible_name(kept.uri)} is kept: {kept.why}")
        context.add_output_metadata(figures | kept_objects(maintained))
        if maintained.left:
            texts = {f"{left.stream} {left.partition}": left.why or "" for left in maintained.left}
            lines = lines_by_text(texts, NAMED_LEFT, "the command `lake-assets maintain` names them all.")
            raise UserFailure("\n".join([f"{len(maintained.left)} partitions could not be compacted.", *lines]))

    @dg.job(
        name=f"maintain_{lake}",
        description=f"Expire snapshots, delete unused files and compact partitions of lake {lake}.",
    )
    def job() -> None:
        run_maintenance()

    return job


def maintenance_figures(maintained: Maintained) -> dict[str, int]:
    """Return the counts of a maintenance run."""
    return {
        "snapshots_expired": len(maintained.expired),
        "files_deleted": len(maintained.cleaned.deleted) + len(maintained.orphans),
        "orphans_deleted": len(maintained.orphans),
        "bytes_deleted": maintained.bytes_deleted,
        "objects_kept": len(maintained.cleaned.others),
        "partitions_compacted": len(maintained.compacted) - len(maintained.left),
        "partitions_left": len(maintained.left),
        "ledger_rows_moved": maintained.flushed,
        "ledger_rows_deleted": maintained.forgotten,
        "deltas_deleted": len(maintained.deltas),
        "dead_letters_deleted": len(maintained.letters),
        "columns_corrected": len(maintained.corrected),
    }


def kept_objects(maintained: Maintained) -> dict[str, dg.MarkdownMetadataValue]:
    """Return the landed objects that were to be deleted, but have changed since they were registered."""
    others = maintained.cleaned.others
    if not others:
        return {}
    lines = [f"{kept.uri}: {kept.why}" for kept in others]
    return {"objects_kept_are": markdown_list(lines, "- and {more:,} more; the log names them all")}


def maintenance(config: LakeConfig) -> dg.Definitions:
    """Return a job for each lake, and a schedule for each whose config has `maintenance`."""
    jobs = {name: maintenance_job(config, name) for name in config.lakes}
    times = {name: lake.maintenance for name, lake in config.lakes.items() if lake.maintenance is not None}
    return dg.Definitions(
        jobs=[*jobs.values()], schedules=[job_schedule(jobs[name], at.cron, at.time_zone) for name, at in times.items()]
    )


class AuditConfig(dg.Config):
    """The options of a run in the launchpad."""

    partitions: dict[str, list[str]] = Field(
        default={},
        description="By stream, the partitions to check, such as region=NW/date=2026-02-11; if empty, the whole table "
        "of each stream.",
    )


def audit_job(lake: str, streams: Sequence[StreamSpecs]) -> dg.JobDefinition:
    """Return the job that checks the tables of a lake, or some of their partitions. A failed check does not fail it.

    Of a whole table there is a result of each partition that fails or failed before, and one of the table.
    """

    @dg.op(name=_audit_step(lake), description=f"Checks the tables of lake {lake}.")
    def run_audit(
        context: dg.OpExecutionContext, config: AuditConfig
    ) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
        made = Checked()
        for stream, asset in ((specs.stream, specs.table.key) for specs in streams):
            scope = Scope()
            if config.partitions:
                paths = config.partitions.get(stream.name, [])
                scope = Scope(None, tuple(p for path in paths if (p := stream.config.partition_at(path)) is not None))
            yield from checked(stream, asset, context, scope, made)
        if made.errors:
            raise failure_or_retry(context, made.failure(), made.errors.values())
        yield dg.Output(None)

    @dg.job(name=audit_name(lake), description=f"All checks of lake {lake}, each of its whole table.")
    def job() -> None:
        run_audit()

    return job


def audit_name(lake: str) -> str:
    """Return the name of a lake's audit job."""
    return f"audit_{lake}"


def _audit_step(lake: str) -> str:
    return f"{audit_name(lake)}_lake"


def audit_request(lake: str, partitions: Mapping[str, Sequence[Partition]]) -> dg.RunRequest:
    """Return the run of a lake's audit for partitions by stream."""
    paths = {stream: [partition.path for partition in of_stream] for stream, of_stream in partitions.items()}
    return dg.RunRequest(
        job_name=audit_name(lake), run_config={"ops": {_audit_step(lake): {"config": {"partitions": paths}}}}
    )


def audits(config: LakeConfig, streams: Mapping[str, Sequence[StreamSpecs]]) -> dg.Definitions:
    """Return a job for each lake that has checks, and a schedule for each of these whose config has `audit`."""
    jobs, schedules = [], []
    for name, of_lake in streams.items():
        if not any(checks_of(specs.stream) for specs in of_lake):
            continue
        jobs.append(job := audit_job(name, of_lake))
        if (audit := config.lakes[name].audit) is not None:
            schedules.append(job_schedule(job, audit.cron, audit.time_zone))
    return dg.Definitions(jobs=jobs, schedules=schedules)
