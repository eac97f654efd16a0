"""Commits that Dagster did not make, as materializations: those of the command line, or of another deployment.

A second sync reports nothing again (`known_to_dagster`). A run of this instance that has not ended reports its commits
itself. The checks of the reported partitions are made too: Dagster shows only those of the newest materialization.
"""

import hashlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import sqlalchemy
from filelock import FileLock, Timeout

from lake_assets.checks.result import Scope
from lake_assets.config.catalogs import PostgresCatalog, SqliteCatalog
from lake_assets.documented import Documented
from lake_assets.errors import LakeAssetsError, SyncUnderWayError
from lake_assets.ingest.view import Viewer
from lake_assets.lake.ledger.read import newest_commits, streams_after
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.orchestration.checks.stream_checks import evaluations_of_commits
from lake_assets.orchestration.commit_events import known_to_dagster, materialization, outcome_of_commit
from lake_assets.orchestration.dagster_private import (
    Begin,
    event_database,
    store_materializations,
    store_result_of_others,
    unfinished_runs,
)
from lake_assets.orchestration.metadata import elsewhere_metadata, materialization_metadata
from lake_assets.orchestration.partition_keys import keys_of
from lake_assets.orchestration.sensors.stream_sensor import without_traceback
from lake_assets.orchestration.translator import StreamSpecs
from lake_assets.progress import counting
from lake_assets.retrying import Limit, pause_between, poll
from lake_assets.streams.calendar import Calendar

_LOG = logging.getLogger(__name__)

_KEY = int.from_bytes(hashlib.sha256(b"lake_assets sync").digest()[:8], "big", signed=True)
_PAUSE = pause_between(0.05, 0.1)


@contextmanager
def sync_lock(instance: dg.DagsterInstance, seconds: float) -> Iterator[None]:
    """Hold the lock of an instance; a SyncUnderWayError if another sync holds it for so many seconds."""
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
REPORTED = 10_000  # materializations of one tick, to which Dagster gives a minute
RETRY_SECONDS = 5  # how long a tick retries while another sync runs; after that, the next tick does its work
CHECKED = 100  # partitions of one sync, whose checks are made: Dagster stores a result in some milliseconds
CHECKED_TOGETHER = 20
CHECK_SECONDS = 20.0  # of the checks of one tick
TOGETHER = 500  # materializations of one transaction: SQLite has a limit of parameters


@dataclass(frozen=True, slots=True)
class Synced(Documented):
    """What was reported to Dagster of one stream."""

    stream: str
    """Its name."""
    dry_run: bool
    """Whether nothing was reported, and the rest is what would be."""
    reported: Sequence[str]
    """Dagster's keys of the partitions whose newest commits were reported, such as `2026-02-11|NW`, one for each."""
    known: int = 0
    """The number of partitions whose newest commit Dagster had already."""
    outside: int = 0
    """The number of committed partitions outside the config."""
    under_way: int = 0
    """The number of partitions whose run in Dagster has not ended."""


def sync_stream(
    specs: StreamSpecs,
    instance: dg.DagsterInstance,
    *,
    dry_run: bool = False,
    retry_seconds: float = 60,
    check_until: float | None = None,
) -> Synced:
    """Report a materialization of each partition whose newest commit Dagster lacks, and the checks of the newest ones.

    Another sync of the same instance reports before or after this one, so none is reported twice; see `sync_lock`.
    Raises SyncUnderWayError if that takes longer than `retry_seconds`; nothing was reported. No checks begin after
    `check_until`, by the monotonic clock.
    """
    return _sync(specs, instance, dry_run=dry_run, retry_seconds=retry_seconds, check_until=check_until)[0]


def _sync(
    specs: StreamSpecs,
    instance: dg.DagsterInstance,
    *,
    after: int | None = None,
    most: int | None = None,
    dry_run: bool = False,
    retry_seconds: float,
    check_until: float | None,
) -> tuple[Synced, AbstractSet[str]]:
    """Do what `sync_stream` does, for at most so many partitions with commits after a snapshot.

    Returns what was reported, and the ids of the runs that have not ended, which report their commits themselves.
    """
    stream = specs.stream
    with nullcontext() if dry_run else sync_lock(instance, retry_seconds):
        with stream.lake.open_if_exists() as session:
            commits = newest_commits(session, stream.names, stream.table, after) if session is not None else []
        rows = stream.config.by_partition({row.load_partition: row for row in commits})
        # In this order: a run that ends after the ledger was read has reported its commits by then.
        running = unfinished_runs(instance)
        left = {row.run_id for row in rows.values()}.intersection(running)
        ended = {partition: row for partition, row in rows.items() if row.run_id not in left}
        calendar = Calendar(stream.config)
        inside = {partition: row for partition, row in ended.items() if calendar.outside(partition) is None}
        of_stream = keys_of(stream)
        keys = {partition: of_stream.of(partition) for partition in inside}
        known = known_to_dagster(instance, specs.table.key, keys, inside)
        lacking = [(partition, row) for partition, row in inside.items() if partition not in known]
        reported = lacking[:most]
        if not dry_run:
            _report(specs, instance, reported)
    # Not under the lock: checks may take long, and nothing reports these commits again.
    if not dry_run:
        _check(specs, instance, reported, check_until)
    under_way = len(rows) - len(ended) + len(lacking) - len(reported)
    shown = [keys[partition] for partition, _ in reported]
    return Synced(stream.name, dry_run, shown, len(known), len(ended) - len(inside), under_way), left


def _report(specs: StreamSpecs, instance: dg.DagsterInstance, commits: Sequence[tuple[Partition, LedgerRow]]) -> None:
    """Store the materializations of commits, the oldest first."""
    stream = specs.stream
    of_stream = keys_of(stream)
    for name, keys in of_stream.missing(instance, (of_stream.cell_of(partition) for partition, _ in commits)).items():
        instance.add_dynamic_partitions(name, keys)
    landing = None if stream.config.transform else specs.landing.key
    viewer = Viewer(stream, _LOG.warning)
    materializations = [
        materialization(
            stream, specs.table.key, partition, materialization_metadata(viewed, landing, elsewhere_metadata(row))
        )
        for partition, row in reversed(commits)  # the first ones of a viewer have a preview
        for viewed in [viewer.viewed(outcome_of_commit(stream, partition, row))]
    ][::-1]
    with counting(f"report {stream.name}", "partitions", len(commits)) as done:
        for start in range(0, len(commits), TOGETHER):
            together = materializations[start : start + TOGETHER]
            store_materializations(instance, together)
            done.advance(len(together))


def _check(
    specs: StreamSpecs,
    instance: dg.DagsterInstance,
    commits: Sequence[tuple[Partition, LedgerRow]],
    until: float | None,
) -> None:
    """Store the results of the checks of commits, the newest first, up to a number and a time."""
    stream, asset = specs.stream, specs.table.key
    newest = commits[-1][1].run_id if commits else ""
    keys = keys_of(stream)
    runs: dict[str | None, str] = {keys.of(partition): row.run_id for partition, row in commits}
    for left in range(len(commits), 0, -CHECKED_TOGETHER):
        if len(commits) - left >= CHECKED or (until is not None and time.monotonic() >= until):
            _LOG.warning("%s: the checks of %s are left to an audit", stream.name, count(left, "partition"))
            return
        scope = Scope(None, tuple(partition for partition, _ in commits[max(0, left - CHECKED_TOGETHER) : left]))
        try:
            for evaluation in evaluations_of_commits(stream, asset, instance, newest, scope, _LOG.warning):
                store_result_of_others(instance, runs.get(evaluation.partition, newest), evaluation)
        except Exception:  # noqa: BLE001 - the commits are reported
            _LOG.exception("%s: the checks were not made", stream.name)
            return


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
        try:
            reported, cursor = _tick(streams, context.instance, context.cursor)
        except SyncUnderWayError as error:
            return dg.SensorResult(skip_reason=str(error), cursor=context.cursor)
        except LakeAssetsError as error:
            raise without_traceback(error) from None
        reason = f"{count(reported, 'partition')} reported that others had committed."
        return dg.SensorResult(skip_reason=reason, cursor=cursor)

    return sync


def _tick(streams: Sequence[StreamSpecs], instance: dg.DagsterInstance, cursor: str | None) -> tuple[int, str | None]:
    """Sync the streams of a lake that have commits since the last tick; returns the number of reported partitions.

    The cursor, of which the next one is returned too, is the snapshot up to which commits are reported, and for each
    run that was left to report its own, the snapshot before these: what of them is missing when it has ended is
    reported then.
    """
    known, runs = _state(cursor)
    running = unfinished_runs(instance)
    with streams[0].stream.lake.open_if_exists() as session:
        if session is None:
            return 0, cursor
        after = min([known, *(before for run, before in runs.items() if run not in running)])
        committed, newest = streams_after(session, after)
        if newest < after:  # the lake was created again
            after, (committed, newest) = 0, streams_after(session, 0)
    runs = {run: before for run, before in runs.items() if run in running}
    reported, is_whole, check_until = 0, True, time.monotonic() + CHECK_SECONDS
    for specs in (specs for specs in streams if not committed.isdisjoint(specs.stream.names)):
        most = REPORTED - reported
        synced, left = _sync(
            specs, instance, after=after, most=most, retry_seconds=RETRY_SECONDS, check_until=check_until
        )
        reported += len(synced.reported)
        is_whole = is_whole and len(synced.reported) < most
        runs = dict.fromkeys(left, after) | runs
    return reported, json.dumps({"after": newest, "runs": runs}) if is_whole else cursor


def _state(cursor: str | None) -> tuple[int, dict[str, int]]:
    """Return what a cursor says; all commits are read again without one, or if it cannot be read."""
    try:
        state = json.loads(cursor or "")
        return int(state["after"]), {str(run): int(before) for run, before in state["runs"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0, {}
