"""The events of commits, whoever made them: their materializations, and which of these Dagster has."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import dagster as dg

from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.outcome import Outcome
from lake_assets.lake.ledger.ledger_relation import LedgerScope
from lake_assets.lake.ledger.read import commit_of, commits, recorded_commits
from lake_assets.lake.ledger.tables import RELEASE, RELEASED, LedgerRow
from lake_assets.orchestration.dagster_private import newest_ids
from lake_assets.orchestration.metadata import HOLD, Metadata, elsewhere_metadata, partition_metadata
from lake_assets.orchestration.partition_keys import StreamKeys, dimension_tags
from lake_assets.streams.stream import OpenStream


def outcome_of_commit(stream: OpenStream, partition: Partition, row: LedgerRow) -> Outcome:
    """Return the outcome of a commit by its ledger row, without what only the process of the commit knew."""
    return Outcome(
        partition=partition,
        row=replace(row, stream=stream.name),  # it may have an earlier name
        has_listing=False,
        destination=stream.destination_uri(partition),
        seconds={"run": row.duration},
    )


def commits_of(stream: OpenStream, partitions: Sequence[Partition]) -> dict[Partition, LedgerRow]:
    """Return each partition's newest commit that changed its rows; a partition without one is left out.

    One that began a hold which has ended since has the hold `released`.
    """
    if not partitions:
        return {}
    with stream.lake.open_if_exists() as session:
        if session is None:
            return {}
        rows = recorded_commits(session, stream.table, partitions)
        for path in [path for path, row in rows.items() if row.mode == RELEASE]:
            row = commit_of(commits(session, LedgerScope(stream.table, [path])), rows.pop(path).snapshot)
            rows |= {} if row is None else {path: replace(row, hold=RELEASED)}
    return stream.config.by_partition(rows)


_EVENTS = 500  # of one query: SQLite has a limit of parameters


def newest_materializations(
    instance: dg.DagsterInstance, asset: dg.AssetKey, keys: Collection[str]
) -> Iterator[tuple[str, dg.EventLogRecord]]:
    """Yield the key and the newest materialization of each key that has one."""
    ids = newest_ids(instance, asset, set(keys)) if keys else []
    for start in range(0, len(ids), _EVENTS):
        records = dg.AssetRecordsFilter(asset, storage_ids=ids[start : start + _EVENTS])
        for record in instance.fetch_materializations(records, limit=_EVENTS).records:
            if record.partition_key is not None:
                yield record.partition_key, record


def known_to_dagster(
    instance: dg.DagsterInstance,
    asset: dg.AssetKey,
    keys: Mapping[Partition, str],
    newest: Mapping[Partition, LedgerRow],
) -> dict[Partition, str]:
    """Return the partitions whose commit Dagster has, each with the run that materialized its key last.

    It has one if the newest materialization of the partition's key has its snapshot, or came after it.
    """
    events = dict(newest_materializations(instance, asset, {keys[partition] for partition in newest}))
    materialized = ((partition, events.get(keys[partition]), row) for partition, row in newest.items())
    return {partition: event.run_id for partition, event, row in materialized if event and _describes(event, row)}


def _describes(event: dg.EventLogRecord, row: LedgerRow) -> bool:
    """Return whether the newest materialization of a key describes this commit, or what came after it."""
    materialization = event.asset_materialization
    snapshot = None if materialization is None else materialization.metadata.get("snapshot")
    number = snapshot.value if isinstance(snapshot, dg.IntMetadataValue) else None
    if number is not None and row.snapshot_id is not None and row.snapshot_id >= number:
        return row.snapshot_id == number
    return row.finished_at is None or event.timestamp >= row.finished_at.timestamp()


def unreported_releases(
    instance: dg.DagsterInstance,
    asset: dg.AssetKey,
    keys: Mapping[Partition, str],
    releases: Mapping[Partition, LedgerRow],
) -> list[Partition]:
    """Return the partitions that Dagster shows as held, though these commits have ended the hold."""
    newest = newest_materializations(instance, asset, {keys[partition] for partition in releases})
    held = {
        key for key, event in newest if event.asset_materialization and HOLD in event.asset_materialization.metadata
    }

    def is_reported(partition: Partition, row: LedgerRow) -> bool:
        since = None if row.finished_at is None else row.finished_at.timestamp()
        filtered = dg.AssetRecordsFilter(asset, asset_partitions=[keys[partition]], after_timestamp=since)
        events = [record.asset_observation for record in instance.fetch_observations(filtered, limit=_EVENTS).records]
        return any(event is not None and HOLD in event.metadata for event in events)

    return [p for p, row in releases.items() if keys[p] in held and not is_reported(p, row)]


def release_observation(
    stream: OpenStream, asset: dg.AssetKey, partition: Partition, row: LedgerRow
) -> dg.AssetObservation:
    """Return the event of the end of a hold: no materialization, because no row has changed."""
    of_stream = StreamKeys(stream)
    key, named = of_stream.of(partition), {} if of_stream.are_partitions else partition_metadata(partition)
    texts = {"status": "released: refreshes read it again", HOLD: "no longer"}
    metadata = named | {name: dg.MetadataValue.text(text) for name, text in texts.items()} | elsewhere_metadata(row)
    return dg.AssetObservation(asset, partition=key, metadata=metadata, tags=dimension_tags(key))


def materialization(
    stream: OpenStream, asset: dg.AssetKey, partition: Partition, metadata: Metadata
) -> dg.AssetMaterialization:
    """Return the materialization of a partition's commit."""
    keys = StreamKeys(stream)
    key = keys.of(partition)
    if not keys.are_partitions:
        metadata = partition_metadata(partition) | metadata
    return dg.AssetMaterialization(asset, partition=key, metadata=metadata, tags=dimension_tags(key))
