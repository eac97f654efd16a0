"""The partitions of runs that were cancelled, killed or lost, and so did not make the checks of their partitions."""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import dagster as dg

from lake_assets.checks.check_run import checks_of, scope_of_run
from lake_assets.errors import PartitionError
from lake_assets.layout.partition import Partition
from lake_assets.orchestration.dagster_private import events_of, step_of
from lake_assets.orchestration.ingest_job import ingest_name, ingest_step
from lake_assets.orchestration.partition_keys import PARTITION, RANGE_END, RANGE_START, keys_of
from lake_assets.orchestration.queued_runs import refresh_job
from lake_assets.orchestration.translator import StreamSpecs

OVERLAP = dt.timedelta(minutes=1)  # of two looks: clocks differ, and a run's end takes a moment to be stored
_BROKEN_OFF = (dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE)


@dataclass(slots=True)
class Unchecked:
    """What runs have left unchecked.

    Attributes:
        partitions: by stream.
        runs: their ids, which the next look leaves out.
        until: the end of the last of them, after which the next look begins.
    """

    partitions: dict[str, list[Partition]] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    until: dt.datetime | None = None


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
            for stream, partitions in _of_run(instance, streams, record):
                left.partitions[stream] = [*dict.fromkeys([*left.partitions.get(stream, ()), *partitions])]
    return left


def _of_run(
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
        failures = events_of(instance, run.run_id, dg.DagsterEventType.STEP_FAILURE)
        if any(failure.step_key == step for failure in failures):
            continue  # a step that failed by itself has made its checks
        # A run of the job ingest_<stream> has no partitions in Dagster.
        of_ledger = scope_of_run(stream, run.run_id).partitions if is_ingest else None
        yield stream.name, _partitions(instance, specs, run) if of_ledger is None else [*of_ledger]


def _partitions(instance: dg.DagsterInstance, specs: StreamSpecs, run: dg.DagsterRun) -> list[Partition]:
    """Return the partitions that a run was launched for, as far as the config has them."""
    keys = keys_of(specs.stream)
    first, last = (run.tags.get(tag) or run.tags.get(PARTITION) for tag in (RANGE_START, RANGE_END))
    if first is None or last is None:
        return []
    try:
        return [partition for key in keys.between(first, last, instance) for partition in keys.partitions(key)]
    except PartitionError:  # of an earlier config
        return []
