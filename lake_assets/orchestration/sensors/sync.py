"""Commits that Dagster did not make, as materializations: those of the command line, or of another deployment.

A second sync reports nothing again (`known_to_dagster`). A run of this instance that has not ended reports its commits
itself. The sensor requests the checks of what it reports, and of what runs have left unchecked: Dagster shows only the
results of the newest materialization.
"""

import datetime as dt
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from operator import itemgetter

import dagster as dg

from lake_assets.base.errors import LakeAssetsError, PartitionError
from lake_assets.base.events import counting
from lake_assets.base.json_dataclasses import Documented
from lake_assets.base.texts import count, several
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.view import Viewer
from lake_assets.lake.ledger.read import newest_commits, tables_after
from lake_assets.lake.ledger.tables import RELEASE, RELEASED, LedgerRow
from lake_assets.orchestration.commit_events import (
    known_to_dagster,
    materialization,
    outcome_of_commit,
    release_observation,
    unreported_releases,
)
from lake_assets.orchestration.dagster_private import run_events, take_over
from lake_assets.orchestration.jobs import audit_name, audit_request, ingest_name, ingest_step
from lake_assets.orchestration.metadata import elsewhere_metadata, materialization_metadata
from lake_assets.orchestration.partition_keys import PARTITION, RANGE_END, RANGE_START, StreamKeys, step_of, user_text
from lake_assets.orchestration.queued_runs import refresh_job, unfinished_runs
from lake_assets.orchestration.sensors.stream_sensor import without_traceback
from lake_assets.orchestration.translator import StreamSpecs
from lake_assets.streams.calendar import Calendar
from lake_assets.upkeep.checks.check_run import checks_of, scope_of_run

RENAMES_SECONDS = 30


def renames_sensor(lake: str, names: Mapping[str, str]) -> dg.SensorDefinition:
    """Return the sensor `<lake>_renames`; one of a config is enough, as it is for all streams.

    `names` are those of sensors, schedules and dynamic partitions, by their earlier ones. Keys of partitions are added
    once, as the cursor says, so that one which is deleted later does not come back. The earlier keys stay, because
    another code location may have them too.
    """

    @dg.sensor(
        name=f"{lake}_renames",
        minimum_interval_seconds=RENAMES_SECONDS - 1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Gives renamed streams what Dagster has under their earlier names: which sensors and schedules are "
        "on, and the values of partitions.",
    )
    def renames(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        taken, done = take_over(context, names), (context.cursor or "").splitlines()
        for earlier, name in names.items():
            keys = () if f"{earlier} {name}" in done else context.instance.get_dynamic_partitions(earlier)
            if keys:
                context.instance.add_dynamic_partitions(name, list(keys))
                taken.append(name)
        text = f"{several(taken) or 'Nothing'} taken over from earlier names."
        return dg.SensorResult(skip_reason=text, cursor="\n".join(map(" ".join, names.items())))

    return renames


OVERLAP = dt.timedelta(minutes=1)  # of two looks: clocks differ, and a run's end takes a moment to be stored
_BROKEN_OFF = (dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE)


@dataclass(slots=True)
class Unchecked:
    """What runs have left unchecked."""

    partitions: dict[str, list[Partition]] = field(default_factory=dict)  # by stream
    runs: list[str] = field(default_factory=list)  # their ids, which the next look leaves out
    until: dt.datetime | None = None  # the end of the last of them, after which the next look begins


def unchecked(
    instance: dg.DagsterInstance, streams: Sequence[StreamSpecs], since: dt.datetime, seen: Sequence[str], most: int
) -> Unchecked:
    """Return the partitions of runs that ended after a time, the first to end first; no further run after so many."""
    filters = dg.RunsFilter(statuses=_BROKEN_OFF, updated_after=since - OVERLAP)
    left = Unchecked(until=since)
    records = sorted(instance.get_run_records(filters), key=lambda record: record.update_timestamp)
    for record in records:
        if sum(map(len, left.partitions.values())) >= most:
            break
        left.until = max(since, record.update_timestamp.astimezone(dt.UTC))
        left.runs.append(record.dagster_run.run_id)
        if record.dagster_run.run_id not in seen:
            for stream, partitions in _unchecked_of_run(instance, streams, record):
                left.partitions[stream] = [*dict.fromkeys([*left.partitions.get(stream, ()), *partitions])]
    return left


def _unchecked_of_run(
    instance: dg.DagsterInstance, streams: Sequence[StreamSpecs], record: dg.RunRecord
) -> Iterator[tuple[str, list[Partition]]]:
    run = record.dagster_run
    for specs in streams:
        asset, stream = specs.table.key, specs.stream
        is_planned = run.asset_check_selection is None or bool(run.asset_check_selection)
        is_ingest = run.job_name == ingest_name(stream.name)
        # A run of the schedule's job names no assets.
        is_of_asset = asset in (run.asset_selection or ()) or run.job_name == refresh_job(stream.name)
        if not (is_ingest or is_of_asset) or not checks_of(stream) or not (is_planned or record.start_time):
            continue
        step = ingest_step(stream.name) if is_ingest else step_of(asset)
        failures = run_events(instance, run.run_id, dg.DagsterEventType.STEP_FAILURE)
        if any(failure.step_key == step for failure in failures):
            continue  # a step that failed by itself has made its checks
        # A run of the job ingest_<stream> has no partitions in Dagster.
        of_ledger = scope_of_run(stream, run.run_id).partitions if is_ingest else None
        yield stream.name, _partitions(instance, specs, run) if of_ledger is None else [*of_ledger]


def _partitions(instance: dg.DagsterInstance, specs: StreamSpecs, run: dg.DagsterRun) -> list[Partition]:
    """Return the partitions that a run was launched for, as far as the config has them."""
    keys = StreamKeys(specs.stream)
    first, last = (run.tags.get(tag) or run.tags.get(PARTITION) for tag in (RANGE_START, RANGE_END))
    if first is None or last is None:
        return []
    try:
        return [partition for key in keys.between(first, last, instance) for partition in keys.partitions(key)]
    except PartitionError:  # of an earlier config
        return []


_LOG = logging.getLogger(__name__)

INTERVAL_SECONDS = 60
SECONDS = 20.0  # of a tick, in which it begins new reports: Dagster gives a tick a minute
CHECKED = 1_000  # partitions of a tick, the newest ones, whose checks are requested; an audit makes those of more

Commits = Sequence[tuple[Partition, LedgerRow]]


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


@dataclass(frozen=True, slots=True)
class _News:
    """What the ledger has of a stream after a snapshot."""

    lacking: Commits  # commits that Dagster lacks, the oldest first
    known: int
    outside: int
    under_way: AbstractSet[str]  # ids of the runs that have not ended, which report their commits themselves
    left: int  # partitions of these


def sync_stream(specs: StreamSpecs, instance: dg.DagsterInstance, *, dry_run: bool = False) -> Synced:
    """Report a materialization of each partition whose newest commit Dagster lacks."""
    news = _news(specs, instance)
    reported = news.lacking if dry_run else news.lacking[: _report(specs, instance, news.lacking)]
    keys = [StreamKeys(specs.stream).of(partition) for partition, _ in reported]
    return Synced(specs.stream.name, dry_run, keys, news.known, news.outside, news.left)


def _news(specs: StreamSpecs, instance: dg.DagsterInstance, after: int | None = None) -> _News:
    stream = specs.stream
    with stream.lake.open_if_exists() as session:
        newest = newest_commits(session, stream.table, after) if session is not None else []
    releases = {row.load_partition: row for row in newest if row.mode == RELEASE}
    changed = {row.load_partition: row for row in newest if row.mode != RELEASE}
    changed |= {path: replace(row, hold=RELEASED) for path, row in changed.items() if path in releases}
    ends, rows = stream.config.by_partition(releases), stream.config.by_partition(releases | changed)
    # In this order: a run that ends after the ledger was read has reported its commits by then.
    running = unfinished_runs(instance).intersection(row.run_id for row in rows.values())
    ended = {partition: row for partition, row in rows.items() if row.run_id not in running}
    calendar = Calendar(stream.config)
    inside = {partition: row for partition, row in ended.items() if calendar.outside(partition) is None}
    keys = {partition: StreamKeys(stream).of(partition) for partition in inside}
    known = known_to_dagster(instance, specs.table.key, keys, inside)
    lacking = {p: row for p, row in inside.items() if p not in known and row.mode != RELEASE}
    ends = {p: row for p, row in ends.items() if p in inside and p not in lacking}
    lacking |= {partition: ends[partition] for partition in unreported_releases(instance, specs.table.key, keys, ends)}
    return _News(
        sorted(lacking.items(), key=lambda item: item[1].snapshot),
        len(inside) - len(lacking),
        len(ended) - len(inside),
        running,
        len(rows) - len(ended),
    )


def _report(specs: StreamSpecs, instance: dg.DagsterInstance, commits: Commits, until: float | None = None) -> int:
    """Store the materializations of commits, the oldest first, and return their number.

    But for the first, none is begun after a time of the monotonic clock.
    """
    stream, of_stream = specs.stream, StreamKeys(specs.stream)
    for name, keys in of_stream.missing(instance, (of_stream.cell_of(partition) for partition, _ in commits)).items():
        instance.add_dynamic_partitions(name, keys)
    landing = None if stream.config.transform else specs.landing.key
    viewer = Viewer(stream, _LOG.warning)  # the first ones of a viewer have a preview: here the newest commits
    outcomes = [outcome_of_commit(stream, partition, row) for partition, row in reversed(commits)]
    viewed = [committed if committed.row.mode == RELEASE else viewer.viewed(committed) for committed in outcomes][::-1]
    with counting(f"report {stream.name}", "partitions", len(commits)) as done:
        for number, outcome in enumerate(viewed):
            if number and until is not None and time.monotonic() >= until:
                return number
            if outcome.row.mode == RELEASE:
                of_release = release_observation(stream, specs.table.key, outcome.partition, outcome.row)
                instance.report_runless_asset_event(of_release)
            else:
                metadata = materialization_metadata(outcome, landing, elsewhere_metadata(outcome.row))
                event = materialization(stream, specs.table.key, outcome.partition, metadata)
                instance.report_runless_asset_event(event)
            done.advance()
    return len(commits)


def sync_sensor(lake: str, streams: Sequence[StreamSpecs]) -> dg.SensorDefinition:
    """Return the sensor `<lake>_sync`, which syncs what was committed since its last tick.

    It is on from the start where the catalog takes several processes and costs nothing to ask: SQLite and PostgreSQL.
    """
    catalog = streams[0].stream.lake_config.catalog
    is_cheap = catalog.takes_several and not catalog.is_service

    @dg.sensor(
        name=f"{lake}_sync",
        job_name=audit_name(lake) if any(checks_of(specs.stream) for specs in streams) else None,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if is_cheap else dg.DefaultSensorStatus.STOPPED,
        description=f"Reports what the command line or another deployment has committed to the lake {lake}, and "
        "requests its checks.",
    )
    def sync(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            tick = _tick(streams, context.instance, context.cursor)
        except LakeAssetsError as error:
            raise without_traceback(error) from None
        text = f"{count(tick.reported, 'partition')} reported that others had committed."
        context.log.info(text)
        if not tick.unchecked:
            return dg.SensorResult(skip_reason=text, cursor=tick.cursor)
        return dg.SensorResult(run_requests=[audit_request(lake, tick.unchecked)], cursor=tick.cursor)

    return sync


@dataclass(slots=True)
class _Tick:
    cursor: str | None
    reported: int = 0
    unchecked: Mapping[str, Sequence[Partition]] = field(default_factory=dict)  # by stream


def _tick(streams: Sequence[StreamSpecs], instance: dg.DagsterInstance, cursor: str | None) -> _Tick:
    """Sync the streams of a lake that have commits since the last tick.

    The cursor is the snapshot up to which commits are reported, and for each run that was left to report its own, the
    snapshot before these: what of them is missing when it has ended is reported then. And it is the time up to which
    the ends of runs were looked at, with the newest of these runs. Of an asset that it does not have, because the
    stream or its key has another name, all commits are reported.
    """
    until = time.monotonic() + SECONDS
    known, runs, since, seen, assets = _state(cursor)
    left = unchecked(instance, streams, since, seen, CHECKED)
    running = unfinished_runs(instance)
    with streams[0].stream.lake.open_if_exists() as session:
        if session is None:
            return _Tick(cursor)
        after = min([known, *(before for run, before in runs.items() if run not in running)])
        committed, newest = tables_after(session, after)
        if newest < after:  # the lake was created again
            after, (committed, newest) = 0, tables_after(session, 0)
    runs = {run: before for run, before in runs.items() if run in running}
    tick, reported = _Tick(cursor), dict[str, Commits]()
    for specs in streams:
        is_new = assets is not None and user_text(specs.table.key) not in assets
        if not is_new and str(specs.stream.table) not in committed:
            continue
        news = _news(specs, instance, 0 if is_new else after)
        number = _report(specs, instance, news.lacking, until)
        tick.reported += number
        if number < len(news.lacking):
            newest = min(newest, (news.lacking[number][1].snapshot_id or 1) - 1)
        runs = dict.fromkeys(news.under_way, after) | runs
        if checks_of(specs.stream):
            reported[specs.stream.name] = news.lacking[:number]
    tick.unchecked = {name: [*dict.fromkeys(of_stream)] for name, of_stream in _newest(reported, left).items()}
    ended = {"since": left.until and left.until.isoformat(), "seen": left.runs}
    of_assets = {"assets": [user_text(specs.table.key) for specs in streams]}
    tick.cursor = json.dumps({"after": newest, "runs": runs} | ended | of_assets)
    return tick


def _newest(commits: Mapping[str, Commits], left: Unchecked) -> dict[str, list[Partition]]:
    """Return the newest `CHECKED` partitions of the commits of streams, and those that runs have left."""
    all_of = [(row.snapshot_id or 0, name, p) for name, of_stream in commits.items() for p, row in of_stream]
    newest = {name: list(of_stream) for name, of_stream in left.partitions.items() if of_stream}
    for _, stream, partition in sorted(all_of, key=itemgetter(0))[-CHECKED:]:
        newest.setdefault(stream, []).append(partition)
    return newest


def _state(cursor: str | None) -> tuple[int, dict[str, int], dt.datetime, list[str], list[str] | None]:
    """Return what a cursor says; all commits are read again without one, or if it cannot be read.

    A cursor of an earlier version says nothing of assets.
    """
    now = dt.datetime.now(dt.UTC)
    try:
        state = json.loads(cursor or "")
        since = dt.datetime.fromisoformat(state["since"]) if state.get("since") else now
        runs = {str(run): int(before) for run, before in state["runs"].items()}
        return int(state["after"]), runs, since, list(state.get("seen", ())), state.get("assets")
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0, {}, now, [], None
