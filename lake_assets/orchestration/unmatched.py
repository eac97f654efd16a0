"""Objects that lie in no partition, as metadata of Dagster's events.

A run lists the prefixes of its own partitions only. So its materializations cite the newest scan of the whole landing
zone that Dagster has recorded: an observation of the landing asset, or a report.
"""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

import dagster as dg

from lake_assets.orchestration.dagster_private import user_text
from lake_assets.orchestration.metadata import Metadata, markdown
from lake_assets.streams.left_out import LeftOut

COUNT = "objects_in_no_partition"
FOLDERS = "in_no_partition"
LEFT_OUT = "objects_left_out"
SCANNED = "landing_zone_looked_at"

NAMED = 20  # folders
CITED = 4  # of them, in each materialization of a run
_BEFORE = 10  # observations of a run before which the one of the whole landing zone is logged


def unmatched_metadata(left_out: LeftOut) -> Metadata:
    """Return what a scan of the whole landing zone found that no refresh reads: how many objects of each class.

    The folders of those in no partition are named, with how to fix each.
    """
    metadata: Metadata = {
        COUNT: dg.MetadataValue.int(len(left_out.unmatched)),
        LEFT_OUT: dg.MetadataValue.text(str(left_out)),
    }
    if folders := left_out.unmatched_folders:
        lines = [f"- {markdown(str(folder))}" for folder in folders[:NAMED]]
        if len(folders) > NAMED:
            lines.append(f"- and {len(folders) - NAMED:,} more")
        metadata[FOLDERS] = dg.MetadataValue.md("\n".join(lines))
    return metadata


def newest_landing_scan(instance: dg.DagsterInstance, landing: dg.AssetKey, report: dg.AssetKey) -> Metadata:
    """The unmatched objects and the time of the newest scan of the whole landing zone; empty if none is recorded.

    Only Dagster's event log is read, by a few rows.

    Args:
        instance: holds the event log.
        landing: key of the landing asset.
        report: key of the stream's report asset.
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
            lines = [*lines[:CITED], f"- and more: materialize `{user_text(report)}`, which names them"]
        metadata[FOLDERS] = dg.MetadataValue.md("\n".join(lines))
    return metadata


_Scan = tuple[float, Mapping[str, dg.MetadataValue[Any]]]  # Unix time in seconds, and the metadata of the event


def _observed(instance: dg.DagsterInstance, key: dg.AssetKey) -> Iterator[_Scan]:
    """Yield the newest observation of the whole landing zone; those of single partitions are logged after it."""
    for newest in instance.fetch_observations(key, limit=1).records:
        run = instance.get_run_record_by_id(newest.run_id)
        since = run.start_time if run is not None and newest.partition_key is not None else None
        first = dg.AssetRecordsFilter(key, after_timestamp=since)
        records = instance.fetch_observations(first, limit=_BEFORE, ascending=True).records if since else [newest]
        for record in records:
            observation = record.asset_observation
            if observation is not None and record.partition_key is None and COUNT in observation.metadata:
                yield record.timestamp, observation.metadata


def _reported(instance: dg.DagsterInstance, key: dg.AssetKey) -> Iterator[_Scan]:
    for record in instance.fetch_materializations(key, limit=1).records:
        report = record.asset_materialization
        if report is not None and COUNT in report.metadata:
            yield record.timestamp, report.metadata
