"""The state of every partition of a stream: what has landed, held against what the ledger says.

| state     | landed                            | in the lake                                                  |
|-----------|-----------------------------------|--------------------------------------------------------------|
| committed | as it was at the last run         | committed, or skipped since                                  |
| stale     | other than at the last run        | an older version                                             |
| failed    |                                   | the newest run failed; the version before it stands          |
| missing   | objects                           | never committed                                              |
| absent    | nothing                           | never committed                                              |
| outside   |                                   | the config does not have it: no refresh changes it           |
"""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from lake_assets.errors import OutsidePartitionError
from lake_assets.lake.ledger.last_runs import LastRuns, last_runs
from lake_assets.layout.partition import Partition, PartitionColumn
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.calendar import Calendar, sort_key
from lake_assets.streams.landing_zone import UnmatchedObject, list_landed
from lake_assets.streams.stream import OpenStream

State = Literal["committed", "stale", "failed", "missing", "absent", "outside"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition: its state, and what its newest commit and run were."""

    partition: Partition
    state: State
    objects: int = 0  # landed
    size: int = 0  # bytes of them
    rows: int | None = None  # in the lake by its newest commit; None if there never was one
    committed_at: dt.datetime | None = None
    snapshot: int | None = None
    finished_at: dt.datetime | None = None  # of the newest run, whatever became of it
    error: str | None = None  # of the newest run, if that failed
    is_waiting: bool = False  # what is there now is not what the lake was made from; a refresh takes it in
    outside: OutsidePartitionError | None = None  # why the config does not have it
    is_left_out: bool = False  # outside, and what is there now is not what the lake was made from


@dataclass(frozen=True, slots=True)
class StreamState:
    """All partitions of a stream at one moment, in the order of the config's values; others follow, sorted."""

    stream: str
    table: str
    columns: tuple[PartitionColumn, ...]
    read_at: dt.datetime
    partitions: tuple[PartitionState, ...]
    unmatched: tuple[UnmatchedObject, ...] = field(default=())  # landed objects that lie in no partition

    @property
    def counts(self) -> dict[State, int]:
        """How many partitions are in each state; every state is named."""
        return counts_of(self.partitions)

    @property
    def outside(self) -> list[PartitionState]:
        """The partitions that the config does not have, and of which landing zone or ledger know."""
        return [one for one in self.partitions if one.state == "outside"]


def counts_of(partitions: Sequence[PartitionState]) -> dict[State, int]:
    """How many of the partitions are in each state; every state is named."""
    counted = Counter(partition.state for partition in partitions)
    return {state: counted[state] for state in STATES}


def read_state(stream: OpenStream, now: dt.datetime | None = None) -> StreamState:
    """The state of every partition of a stream, by one listing of its source and one query of its ledger.

    Those that the config promises and of which nothing is known are `absent`.

    Args:
        stream: which.
        now: the moment that says how far the config's dates reach, with a time zone; the present when None.

    Raises:
        StorageError: the landing zone cannot be listed.
        CatalogError: the lake cannot be read; one that does not exist yet has committed nothing.
    """
    now = now or dt.datetime.now(dt.UTC)
    calendar, ledger = Calendar(stream.config, now), _read_ledger(stream)
    landed, unmatched = list_landed(stream, ledger, now)
    known = sorted({*landed, *ledger}, key=sort_key)
    # A partition that only ever failed, or that is outside, does not say that there are others like it.
    real = [one for one in known if (one in landed or _was_settled(ledger[one])) and calendar.outside(one) is None]
    partitions = dict.fromkeys([*calendar.expected(real), *known])
    nothing = Manifest(())
    return StreamState(
        stream.name,
        str(stream.table),
        stream.config.columns,
        now,
        tuple(
            partition_state(stream, partition, landed.get(partition, nothing), ledger.get(partition), calendar)
            for partition in partitions
        ),
        unmatched,
    )


def _was_settled(last: LastRuns) -> bool:
    return last.committed_at is not None or last.fingerprint is not None


def state_of(fingerprint: str, last: LastRuns | None, *, has_landed: bool) -> State:
    """The state of one partition.

    Args:
        fingerprint: of the objects that are there now.
        last: what the ledger says of it; None if it was never run.
        has_landed: whether there are objects.
    """
    if last is not None and last.status == "failed":
        return "failed"
    if last is not None and last.committed_at is not None:
        return "committed" if last.fingerprint == fingerprint else "stale"
    if not has_landed:
        return "absent"
    # Objects without rows are skipped where `on_empty` is keep: there is nothing more to commit.
    return "committed" if last is not None and last.fingerprint == fingerprint else "missing"


def partition_state(
    stream: OpenStream, partition: Partition, manifest: Manifest, last: LastRuns | None, calendar: Calendar
) -> PartitionState:
    """One partition, from what has landed and what the ledger says of it; None if it was never run."""
    # Of an unknown and empty partition, of which there may be very many, no fingerprint is needed.
    fingerprint = stream.fingerprint(manifest) if last is not None else ""
    outside = calendar.outside(partition)
    state = state_of(fingerprint, last, has_landed=bool(manifest.objects))
    # A run that failed says nothing of what has landed; what was taken in before it, or not, does.
    is_changed = bool(manifest.objects) and (last is None or last.fingerprint != fingerprint)
    is_waiting = is_changed if last is None or state == "failed" else state in ("stale", "missing")
    found = PartitionState(partition, state, len(manifest.objects), manifest.size, is_waiting=is_waiting)
    if outside is not None:
        found = replace(found, state="outside", is_waiting=False, outside=outside, is_left_out=is_changed)
    if last is None:
        return found
    return replace(
        found,
        rows=last.rows,
        committed_at=last.committed_at,
        snapshot=last.snapshot,
        finished_at=last.finished_at,
        error=last.error,
    )


def _read_ledger(stream: OpenStream) -> Mapping[Partition, LastRuns]:
    with stream.lake.open_if_exists() as lake:
        runs = {} if lake is None else last_runs(lake, stream.table)
    # A table that once had other partition columns has their rows in the ledger still.
    found = {stream.config.partition_at(path): last for path, last in runs.items()}
    return {partition: last for partition, last in found.items() if partition is not None}
