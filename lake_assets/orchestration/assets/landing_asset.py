"""The landing zone as an asset upstream of the stream's, and the automation that follows it.

The asset is observed, never materialized, because others write it. An observation has a version, the fingerprint, of
each partition with new objects. Dagster's own automation refreshes these partitions, however old they are. If the run
is lost or fails by what passes, the next observation has another version of the partition, so that it is requested
until the lake has it.
"""

import datetime as dt
import hashlib
import warnings
from collections.abc import Sequence

import dagster as dg

from lake_assets.base.texts import count, visible_name
from lake_assets.config.layout.partition import Partition
from lake_assets.orchestration.metadata import integers, unmatched_metadata
from lake_assets.orchestration.partition_keys import StreamKeys, dimension_keys, keys_by_dimension, partition_key
from lake_assets.orchestration.queued_runs import LOST_SINCE, QueuedRuns, job_schedule
from lake_assets.orchestration.translator import StreamSpecs
from lake_assets.streams.calendar import Calendar, deferred
from lake_assets.streams.pending import LandingScan, pause_after, scan_landing
from lake_assets.streams.stream import OpenStream


def landing_asset(readers: Sequence[StreamSpecs], spec: dg.AssetSpec) -> dg.SourceAsset:
    """Return the asset `<stream>_landing`; to observe it is to see which partitions wait.

    Dagster has no owners and no dependencies for such an asset. Its readers have the same partitions.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)

        @dg.observable_source_asset(
            key=spec.key,
            description=spec.description,
            group_name=spec.group_name,
            metadata=spec.metadata,
            tags=spec.tags,
            partitions_def=StreamKeys(readers[0].stream).definition,
        )
        def observe(context: dg.OpExecutionContext) -> dg.DataVersionsByPartition:
            return _observe(context, readers, spec.key)

    asset: dg.SourceAsset = observe
    return asset


def _observe(
    context: dg.OpExecutionContext, readers: Sequence[StreamSpecs], key: dg.AssetKey
) -> dg.DataVersionsByPartition:
    instance, stream = context.instance, readers[0].stream
    scans = [scan_landing(reader.stream, _scanned_partitions(reader.stream, instance)) for reader in readers]
    landed = {partition: manifest for scan in scans for partition, manifest in scan.landed.items()}
    pending = {partition: manifest for scan in scans for partition, manifest in scan.pending.items()}
    # The version of a partition is the fingerprint of the first stream's job, for all streams.
    fingerprints = {partition: stream.fingerprint(manifest) for partition, manifest in (landed | pending).items()}
    requested = dict[Partition, str]()
    for specs, scan in zip(readers, scans, strict=True):
        for partition, lost in _requested(specs, scan, instance).items():
            requested[partition] = requested.get(partition, "") + lost
    calendar = Calendar(stream.config)
    why = {partition: error for partition in pending if (error := calendar.outside(partition)) is not None}
    of_stream = StreamKeys(stream)
    cells = {partition: of_stream.cell_of(partition) for partition in pending if partition not in why}
    for name, keys in of_stream.missing(instance, cells.values()).items():
        instance.add_dynamic_partitions(name, keys)
    known = {name: set(dimension_keys(definition, instance)) for name, definition in of_stream.dimensions.items()}
    outside = [f"{partition}: {deferred(error)}" for partition, error in why.items()]
    waiting: dict[str, list[Partition]] = {}
    for partition, cell in cells.items():
        if not all(dimension in known[name] for name, dimension in keys_by_dimension(cell).items()):
            outside.append(str(partition))
        elif partition in requested:
            waiting.setdefault(partition_key(cell), []).append(partition)
    versions = {key: _version([fingerprints[p] + requested[p] for p in of_key]) for key, of_key in waiting.items()}
    context.log.info(f"{count(sum(map(len, waiting.values())), 'partition')} with new objects")
    if failed := len(pending.keys() - requested.keys()):
        later = "requested again after their pause, or when their objects change"
        context.log.info(f"{count(failed, 'partition')} failed: {later}")
    if outside:
        context.log.warning(
            f"{count(len(outside), 'partition')} landed that the config does not have:\n"
            + "\n".join(map(visible_name, outside[:10]))
        )
    metadata = next((unmatched_metadata(scan.left_out) for scan in scans if scan.left_out is not None), {})
    metadata |= integers({"partitions_landed": len(landed), "partitions_waiting": len(pending)})
    lines = sorted(f"{partition.path} {fingerprint}" for partition, fingerprint in fingerprints.items())
    version = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    # The event of the scan, also if it found nothing new. It has no partition, so it triggers nothing. It comes before
    # the events of partitions: `newest_landing_scan` relies on it.
    context.log_event(dg.AssetObservation(key, metadata=metadata, tags={"dagster/data_version": version}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.DataVersionsByPartition(versions)


def _requested(specs: StreamSpecs, scan: LandingScan, instance: dg.DagsterInstance) -> dict[Partition, str]:
    """Return the pending partitions that have a version now, each with what distinguishes it from those before.

    That is the newest run that failed or was lost: automation requests a partition once for each version. One that
    failed by its objects has none until these change, and another one none during its pause.
    """
    stream = specs.stream
    if stream.config.automation is None:
        return dict.fromkeys(scan.pending, "")
    now = dt.datetime.now(dt.UTC)
    runs, since = QueuedRuns(stream, specs.table.key, instance), (now - LOST_SINCE).timestamp()
    requested: dict[Partition, str] = {}
    for partition, manifest in scan.pending.items():
        failed, last = runs.failed(StreamKeys(stream).cell_of(partition), since), scan.last(partition)
        tried = last.newest.source_fingerprint if last is not None and last.status == "failed" else None
        has_changed = tried is not None and not stream.has_read(manifest, tried)
        is_over = not failed or failed[0].ended + pause_after(len(failed)) <= now.timestamp()
        if has_changed or (is_over and scan.verdict(partition) != "blocked"):
            requested[partition] = f" after run {failed[0].id}" if failed else ""
    return requested


def _version(fingerprints: Sequence[str]) -> str:
    """Return the version of a key: the fingerprint of its one partition, or a hash of those of several."""
    if len(fingerprints) == 1:
        return fingerprints[0]
    return hashlib.sha256("\n".join(sorted(fingerprints)).encode()).hexdigest()


def _scanned_partitions(stream: OpenStream, instance: dg.DagsterInstance) -> list[Partition] | None:
    """Return the partitions that are listed one by one; None for one listing of the whole landing zone."""
    automation = stream.config.automation
    return None if automation is None else recent_partitions(stream, instance, automation.lookback)


def recent_partitions(stream: OpenStream, instance: dg.DagsterInstance, lookback: int | None) -> list[Partition] | None:
    """Return the newest partitions that Dagster knows, so many before the current one; None if all are wanted."""
    if lookback is None:
        return None
    return StreamKeys(stream).recent_partitions(instance, dt.datetime.now(dt.UTC), lookback)


def observe_schedule(stream: OpenStream, landing: dg.AssetKey) -> dg.ScheduleDefinition | None:
    """Return the schedule `observe_<stream>_schedule` that observes the landing zone; None without `automation`."""
    automation = stream.config.automation
    if automation is None:
        return None
    job = dg.define_asset_job(
        f"observe_{stream.name}",
        selection=dg.AssetSelection.assets(landing),
        description=f"Find the partitions of {stream.name} that have new objects.",
    )
    return job_schedule(
        job,
        automation.cron,
        automation.time_zone or stream.config.time_zone,
        automation.status,
        f"Finds the partitions of {stream.name} with new objects, for {stream.name}_automation.",
    )


def automation_sensor(stream: OpenStream, asset: dg.AssetKey) -> dg.AutomationConditionSensorDefinition | None:
    """Return the sensor that evaluates the automation of a stream; None without `automation`."""
    automation = stream.config.automation
    if automation is None:
        return None
    return dg.AutomationConditionSensorDefinition(
        f"{stream.name}_automation",
        target=dg.AssetSelection.assets(asset),
        default_status=dg.DefaultSensorStatus(automation.status.upper()),
        description=f"Refreshes the partitions of {stream.name} whose landing zone has changed.",
    )
