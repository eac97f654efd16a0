"""The landing zone as an asset upstream of the stream's, and the automation that follows it.

The asset is observed, never materialized, because others write it. An observation has a version, the fingerprint, of
each partition with new objects. Dagster's own automation refreshes these partitions, however old they are.
"""

import datetime as dt
import hashlib
import warnings
from collections.abc import Mapping, Sequence

import dagster as dg

from lake_assets.base.texts import count, visible_name
from lake_assets.config.layout.partition import Partition
from lake_assets.orchestration.metadata import unmatched_metadata
from lake_assets.orchestration.partition_keys import dimension_keys, keys_by_dimension, keys_of, partition_key
from lake_assets.orchestration.queued_runs import job_schedule
from lake_assets.streams.calendar import Calendar, deferred
from lake_assets.streams.pending import LandingScan, scan_landing
from lake_assets.streams.stream import OpenStream


def landing_asset(streams: Sequence[OpenStream], spec: dg.AssetSpec) -> dg.SourceAsset:
    """Return the asset `<stream>_landing`; to observe it is to see which partitions wait.

    Dagster has no owners and no dependencies for such an asset. Its streams read one landing zone, with the same
    partitions.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)

        @dg.observable_source_asset(
            key=spec.key,
            description=spec.description,
            group_name=spec.group_name,
            metadata=spec.metadata,
            tags=spec.tags,
            partitions_def=keys_of(streams[0]).definition,
        )
        def observe(context: dg.OpExecutionContext) -> dg.DataVersionsByPartition:
            return _observe(context, streams, spec.key)

    asset: dg.SourceAsset = observe
    return asset


def _observe(
    context: dg.OpExecutionContext, streams: Sequence[OpenStream], key: dg.AssetKey
) -> dg.DataVersionsByPartition:
    scans = [scan_landing(each, _scanned_partitions(each, context.instance)) for each in streams]
    landed = {partition: manifest for scan in scans for partition, manifest in scan.landed.items()}
    pending = {partition: manifest for scan in scans for partition, manifest in scan.pending.items()}
    scan = LandingScan(landed, pending, next((each.left_out for each in scans if each.left_out is not None), None))
    stream = streams[0]  # the version of a partition is the fingerprint of this stream's job, for all streams
    fingerprints = {partition: stream.fingerprint(manifest) for partition, manifest in (landed | pending).items()}
    calendar = Calendar(stream.config)
    why = {partition: error for partition in scan.pending if (error := calendar.outside(partition)) is not None}
    inside = [partition for partition in scan.pending if partition not in why]
    of_stream = keys_of(stream)
    for name, keys in of_stream.missing(context.instance, map(of_stream.cell_of, inside)).items():
        context.instance.add_dynamic_partitions(name, keys)
    dimensions = of_stream.dimensions.items()
    known = {name: set(dimension_keys(definition, context.instance)) for name, definition in dimensions}
    waiting: dict[str, list[Partition]] = {}
    outside = []
    for partition in scan.pending:
        if partition in why:
            outside.append(f"{partition}: {deferred(why[partition])}")
            continue
        cell = of_stream.cell_of(partition)
        if all(key in known[name] for name, key in keys_by_dimension(cell).items()):
            waiting.setdefault(partition_key(cell), []).append(partition)
        else:
            outside.append(str(partition))
    versions = {key: _version([fingerprints[partition] for partition in of_key]) for key, of_key in waiting.items()}
    context.log.info(f"{count(sum(map(len, waiting.values())), 'partition')} with new objects")
    if outside:
        context.log.warning(
            f"{count(len(outside), 'partition')} landed that the config does not have:\n"
            + "\n".join(map(visible_name, outside[:10]))
        )
    # Before the events of partitions: `newest_landing_scan` relies on it.
    context.log_event(_observation(key, scan, fingerprints))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.DataVersionsByPartition(versions)


def _version(fingerprints: Sequence[str]) -> str:
    """Return the version of a key: the fingerprint of its one partition, or a hash of those of several."""
    if len(fingerprints) == 1:
        return fingerprints[0]
    return hashlib.sha256("\n".join(sorted(fingerprints)).encode()).hexdigest()


def _observation(key: dg.AssetKey, scan: LandingScan, fingerprints: Mapping[Partition, str]) -> dg.AssetObservation:
    """Return the event of one scan, also if it found nothing new. It has no partition, so it triggers nothing."""
    lines = sorted(f"{partition.path} {fingerprint}" for partition, fingerprint in fingerprints.items())
    return dg.AssetObservation(
        key,
        metadata={
            "partitions_landed": len(scan.landed),
            "partitions_waiting": len(scan.pending),
            **({} if scan.left_out is None else unmatched_metadata(scan.left_out)),
        },
        tags={"dagster/data_version": hashlib.sha256("\n".join(lines).encode()).hexdigest()},
    )


def _scanned_partitions(stream: OpenStream, instance: dg.DagsterInstance) -> list[Partition] | None:
    """Return the partitions that are listed one by one; None for one listing of the whole landing zone."""
    automation = stream.config.automation
    return None if automation is None else recent_partitions(stream, instance, automation.lookback)


def recent_partitions(stream: OpenStream, instance: dg.DagsterInstance, lookback: int | None) -> list[Partition] | None:
    """Return the newest partitions that Dagster knows, so many before the current one; None if all are wanted."""
    if lookback is None:
        return None
    return keys_of(stream).recent_partitions(instance, dt.datetime.now(dt.UTC), lookback)


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
