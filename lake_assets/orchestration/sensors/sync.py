"""Commits that Dagster did not make, as materializations: those of the command line, or of another deployment.

Dagster has a commit if the newest materialization of the partition has its snapshot, or came after it. So a second sync
reports nothing again. A run of this instance that has not ended reports its commits itself.
"""

import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import sqlalchemy
from filelock import FileLock, Timeout

from lake_assets.config.catalogs import PostgresCatalog, SqliteCatalog
from lake_assets.detection.packing import time_of
from lake_assets.documented import Documented
from lake_assets.errors import LakeAssetsError, SyncUnderWayError
from lake_assets.lake.ledger.read import newest_commits
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.orchestration.dagster_private import (
    Begin,
    event_database,
    newest_materializations,
    store_materializations,
    unfinished_runs,
)
from lake_assets.orchestration.metadata import row_metadata
from lake_assets.orchestration.partition_keys import dimension_tags, new_dynamic_keys, partition_key
from lake_assets.orchestration.sensors.stream_sensor import without_traceback
from lake_assets.orchestration.translator import StreamSpecs
from lake_assets.progress import counting
from lake_assets.retrying import Limit, pause_between, poll
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.stream import OpenStream

_KEY = int.from_bytes(hashlib.sha256(b"lake_assets sync").digest()[:8], "big", signed=True)
_PAUSE = pause_between(0.05, 0.1)


@contextmanager
def sync_lock(instance: dg.DagsterInstance, seconds: float) -> Iterator[None]:
    """Hold the lock of an instance.

    Args:
        instance: of Dagster.
        seconds: the time after which to give up, if another sync holds it.

    Raises:
        SyncUnderWayError: it is not free within that time.
    """
    place = event_database(instance)
    if place is None:
        yield
    elif isinstance(place, Path):
        try:
            held = FileLock(place.with_suffix(".sync.lock"), timeout=seconds).acquire()
        except Timeout:
            raise _under_way() from None
        with held:
            yield
    else:
        with _advisory_lock(place, seconds):
            yield


@contextmanager
def _advisory_lock(begin: Begin, seconds: float) -> Iterator[None]:
    with begin() as connection:
        # The transaction is idle while the sync works.
        connection.execute(sqlalchemy.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        acquire = sqlalchemy.text("SELECT pg_try_advisory_xact_lock(:key)").bindparams(key=_KEY)
        if not poll(lambda: bool(connection.execute(acquire).scalar()), pause=_PAUSE, limit=Limit(seconds=seconds)):
            raise _under_way()
        yield


def _under_way() -> SyncUnderWayError:
    return SyncUnderWayError(
        "another sync reports commits to this instance of Dagster at the moment:", "run it again when that has ended."
    )


INTERVAL_SECONDS = 60
OVERLAP = dt.timedelta(minutes=10)  # of two scans of the ledger: the clocks of writers differ
REPORTED = 10_000  # materializations of one tick, to which Dagster gives a minute
RETRY_SECONDS = 5  # how long a tick retries while another sync runs; after that, the next tick does its work
TOGETHER = 500  # materializations of one transaction: SQLite has a limit of parameters


@dataclass(frozen=True, slots=True)
class Synced(Documented):
    """What was reported to Dagster of one stream."""

    stream: str
    """Its name."""
    dry_run: bool
    """Whether nothing was reported, and the rest is what would be."""
    reported: Sequence[str]
    """Dagster's keys of the partitions whose newest commits were reported, such as `2026-02-11|NW`."""
    known: int = 0
    """The number of partitions whose newest commit Dagster had already."""
    outside: int = 0
    """The number of committed partitions outside the config."""
    under_way: int = 0
    """The number of partitions whose run in Dagster has not ended."""


def sync_stream(
    stream: OpenStream,
    asset: dg.AssetKey,
    instance: dg.DagsterInstance,
    *,
    since: dt.datetime | None = None,
    most: int | None = None,
    dry_run: bool = False,
    retry_seconds: float = 60,
) -> Synced:
    """Report a materialization of each partition whose newest commit Dagster lacks.

    Another sync of the same instance reports before or after this one, so none is reported twice; see `sync_lock`.

    Args:
        stream: of the partitions.
        asset: key of the stream's asset.
        instance: of Dagster.
        since: commits that ended then or later only, with a time zone; all when None.
        most: the number of partitions to report at most; the others remain for the next sync.
        dry_run: find them, and report nothing.
        retry_seconds: seconds after which to give up, if another sync is under way.

    Raises:
        CatalogError: the ledger cannot be read.
        SyncUnderWayError: another sync takes longer; nothing was reported.
    """
    with nullcontext() if dry_run else sync_lock(instance, retry_seconds):
        with stream.lake.open_if_exists() as session:
            commits = newest_commits(session, stream.name, stream.table, since) if session is not None else []
        rows = stream.config.by_partition({row.load_partition: row for row in commits})
        # In this order: a run that ends after the ledger was read has reported its commits by then.
        running = unfinished_runs(instance)
        ended = {partition: row for partition, row in rows.items() if row.run_id not in running}
        calendar = Calendar(stream.config)
        inside = {partition_key(p): (p, row) for p, row in ended.items() if calendar.outside(p) is None}
        newest = newest_materializations(instance, asset, inside)
        known = {key for key, event in newest if _describes(event, inside[key][1])}
        lacking = [key for key in inside if key not in known]
        reported = lacking[:most]
        if not dry_run:
            _report(stream, asset, instance, {key: inside[key] for key in reported})
    under_way = len(rows) - len(ended) + len(lacking) - len(reported)
    return Synced(stream.name, dry_run, reported, len(known), len(ended) - len(inside), under_way)


def _describes(event: dg.EventLogRecord, row: LedgerRow) -> bool:
    """Return whether the newest materialization of a partition describes this commit, or what came after it."""
    materialization = event.asset_materialization
    snapshot = None if materialization is None else materialization.metadata.get("snapshot")
    number = snapshot.value if isinstance(snapshot, dg.IntMetadataValue) else None
    if number is not None and row.snapshot_id is not None and row.snapshot_id >= number:
        return row.snapshot_id == number
    return row.finished_at is None or event.timestamp >= row.finished_at.timestamp()


def _report(
    stream: OpenStream,
    asset: dg.AssetKey,
    instance: dg.DagsterInstance,
    rows: Mapping[str, tuple[Partition, LedgerRow]],
) -> None:
    for name, keys in new_dynamic_keys(stream, instance, [partition for partition, _ in rows.values()]).items():
        instance.add_dynamic_partitions(name, keys)
    materializations = [
        dg.AssetMaterialization(asset, partition=key, metadata=row_metadata(row), tags=dimension_tags(key))
        for key, (_, row) in rows.items()
    ]
    with counting(f"report {stream.name}", "partitions", len(rows)) as done:
        for start in range(0, len(rows), TOGETHER):
            together = materializations[start : start + TOGETHER]
            store_materializations(instance, together)
            done.advance(len(together))


def sync_sensor(lake: str, streams: Sequence[StreamSpecs]) -> dg.SensorDefinition:
    """Return the sensor `<lake>_sync`, which syncs what was committed since its last tick.

    It is on from the start where the catalog takes several processes and costs nothing to ask: SQLite and PostgreSQL.
    """
    catalog = streams[0].stream.lake_config.catalog
    is_cheap = isinstance(catalog, SqliteCatalog | PostgresCatalog)

    @dg.sensor(
        name=f"{lake}_sync",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if is_cheap else dg.DefaultSensorStatus.STOPPED,
        description=f"Reports what the command line or another deployment has committed to the lake {lake}.",
    )
    def sync(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now = dt.datetime.now(dt.UTC)
        last = time_of(context.cursor)
        since = last - OVERLAP if last is not None else None
        done: Counter[str] = Counter()
        for specs in streams:
            left = REPORTED - done["reported"]
            try:
                synced = sync_stream(
                    specs.stream, specs.table.key, context.instance, since=since, most=left, retry_seconds=RETRY_SECONDS
                )
            except SyncUnderWayError as error:
                return dg.SensorResult(skip_reason=str(error), cursor=context.cursor)
            except LakeAssetsError as error:
                raise without_traceback(error) from None
            done.update(reported=len(synced.reported), under_way=synced.under_way)
        reason = f"{count(done['reported'], 'partition')} reported that others had committed."
        return dg.SensorResult(skip_reason=reason, cursor=context.cursor if done["under_way"] else now.isoformat())

    return sync
