"""The state of every partition of a stream: the landed objects compared with the ledger.

| state     | landed                            | in the lake                                                  |
|-----------|-----------------------------------|--------------------------------------------------------------|
| committed | same as at the last run           | committed, or skipped since                                  |
| held      |                                   | rows that no refresh replaces, since a restore with a hold   |
| stale     | different from the last run       | an older version                                             |
| failed    |                                   | the newest run failed; the version before it stays           |
| missing   | objects                           | never committed                                              |
| absent    | nothing                           | never committed                                              |
| outside   |                                   | the config does not have it: no refresh changes it           |
"""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, get_args

from lake_assets.base.errors import OutsidePartitionError
from lake_assets.base.json_dataclasses import AsText, Documented, NotInJson, in_json
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.ingest.plan import edited_text
from lake_assets.lake.catalog.past_partitions import LIVE, key_of, live_rows, past_table
from lake_assets.lake.ledger.lookup import LastRuns
from lake_assets.lake.ledger.read import last_runs
from lake_assets.lake.ledger.tables import LedgerRow, release_command
from lake_assets.lake.session import LakeSession
from lake_assets.spark.task.job import LetterFile
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.calendar import Calendar, sort_key
from lake_assets.streams.left_out import LeftOut
from lake_assets.streams.pending import LandingScan, failed_by_objects, is_pending, next_tries
from lake_assets.streams.select import Wanted
from lake_assets.streams.stream import OpenStream, list_landed

State = Literal["committed", "held", "stale", "failed", "missing", "absent", "outside"]
STATES: tuple[State, ...] = get_args(State)
Retry = Literal["later", "changed"]
"""A failed partition is tried again later, since its cause may pass, or when its objects have changed."""


@dataclass(frozen=True, slots=True)
class PartitionState(Documented):
    """One partition: its state, its newest commit and its newest run."""

    stream: str
    """Its stream."""
    partition: Annotated[Partition, AsText]
    """As a path, such as `region=NW/date=2026-02-11`."""
    state: State
    """As `lake-assets report --help` explains."""
    objects: int = 0
    """The number of its landed objects."""
    size: int = 0
    """Their size in bytes."""
    rows: int | None = None
    """In the lake; null if it never had a commit."""
    snapshot: int | None = None
    """The number of the newest commit's snapshot."""
    committed_at: dt.datetime | None = None
    """Its time, with a time zone."""
    finished_at: Annotated[dt.datetime | None, NotInJson] = None  # the end of the newest run, with any result
    error: str | None = None
    """Of the newest run, if it failed."""
    # It failed by the objects that are there now, so that another run would, too
    is_failed_by_objects: Annotated[bool, NotInJson] = False
    retry: Retry | None = None
    """Of a failed partition, by sensor or schedule: `later`, or when its objects have `changed`; null if by nobody."""
    next_try: dt.datetime | None = None
    """From when on it is tried again, if `retry` is `later`."""
    is_pending: Annotated[bool, NotInJson] = False  # a refresh would change it
    outside: Annotated[OutsidePartitionError, AsText] | None = None
    """Why the config does not have the partition."""
    # Why its newest commit left objects out, by URI
    quarantined: Annotated[Mapping[str, str], NotInJson] = field(default_factory=dict)
    holder: str | None = None
    """The run that keeps refreshes off it, who requested it, and since when."""
    edited: str | None = None
    """How another client changed the number of its rows since the newest commit, and how to undo it."""
    is_left_out: Annotated[bool, NotInJson] = False  # outside, and the landed objects are not those in the lake
    # Files of landed rows that are not in the lake
    dead_letters: Annotated[Sequence[LetterFile], NotInJson] = ()

    @in_json
    def objects_quarantined(self) -> int:
        """The number of objects that the newest commit left out."""
        return len(self.quarantined)

    @in_json
    def rows_dead_lettered(self) -> int:
        """The number of landed rows that are not in the lake."""
        return sum(letter.rows for letter in self.dead_letters)

    @property
    def is_waiting(self) -> bool:
        """Whether the landed objects are not those in the lake, also if all of them have vanished."""
        return self.is_pending or self.state == "stale"

    @property
    def release(self) -> str:
        """The command that ends a hold, in code of Markdown."""
        return release_command(self.stream, self.partition.option)

    @property
    def retry_text(self) -> str:
        """When a failed partition is tried again, a clause; empty if it is not, or has not failed."""
        if self.next_try is not None:
            return f"tried again from {self.next_try.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
        return "not tried again until its objects change" if self.retry else ""


@dataclass(frozen=True, slots=True)
class StreamState(Documented):
    """A stream: its partitions at one moment, in the order of the config's values, then the others, sorted.

    `report --format json` has its partitions, or their counts, as items of their own, and of a stream with objects that
    no refresh reads this one, unless these are all hidden, or outside the config.
    """

    stream: str
    """Its name."""
    table: str
    """With its schema, such as `main.sales`."""
    columns: Annotated[tuple[PartitionColumn, ...], NotInJson]
    read_at: Annotated[dt.datetime, NotInJson]
    partitions: Annotated[tuple[PartitionState, ...], NotInJson]
    left_out: LeftOut = field(default_factory=LeftOut)
    """The objects that no refresh reads."""

    @property
    def counts(self) -> dict[State, int]:
        """The number of partitions in each state, for every state."""
        return state_counts(self.partitions)

    @property
    def held(self) -> list[PartitionState]:
        """The partitions that a restore keeps refreshes off."""
        return [partition for partition in self.partitions if partition.holder is not None]

    @property
    def edited(self) -> list[str]:
        """The partitions of which another client changed the number of rows, and how to undo it: one clause each."""
        return [f"{state.partition}: {state.edited}" for state in self.partitions if state.edited is not None]

    @property
    def quarantined(self) -> dict[str, str]:
        """Why the newest commits left objects out, by URI."""
        return {uri: reason for partition in self.partitions for uri, reason in partition.quarantined.items()}

    @property
    def dead_letters(self) -> list[LetterFile]:
        """The files of landed rows that are not in the lake."""
        return [letter for partition in self.partitions for letter in partition.dead_letters]

    def in_state(self, state: State) -> list[PartitionState]:
        """Return the partitions in this state."""
        return [partition for partition in self.partitions if partition.state == state]


def state_counts(partitions: Sequence[PartitionState]) -> dict[State, int]:
    """Return the number of partitions in each state, for every state."""
    counted = Counter(partition.state for partition in partitions)
    return {state: counted[state] for state in STATES}


def read_stream_state(stream: OpenStream, now: dt.datetime | None = None) -> StreamState:
    """Return the state of every partition of a stream, by one listing of its source and one query of its ledger.

    A partition of the config that has neither landed objects nor ledger rows is `absent`. The config's dates reach up
    to `now`, with a time zone; the present when None. A lake that does not exist yet is not an error.
    """
    now = now or dt.datetime.now(dt.UTC)
    with stream.lake.open_if_exists() as lake:
        ledger = stream.config.by_partition({} if lake is None else last_runs(lake, stream.table))
        left_out, letters = stream.quarantined(lake), stream.dead_letters(lake)
        rows = {} if lake is None else _live_rows(stream, lake, ledger)
        has_failed = any(last.status == "failed" for last in ledger.values())
        tries = {} if lake is None or not has_failed else next_tries(stream, lake, now)
    landed, others_landed = list_landed(stream, ledger, now)
    state = state_by(LandingScan(stream, landed, {p.path: runs for p, runs in ledger.items()}, others_landed), now)
    configs = [member.config for member in (stream, *stream.companions)]
    is_refreshed = any(config.sensor or config.schedule or config.automation for config in configs)

    def with_retry(state: PartitionState) -> PartitionState:
        partition = state.partition
        if not (state.state == "failed" and state.is_pending and is_refreshed):
            return state
        if state.is_failed_by_objects:
            return replace(state, retry="changed")
        return replace(state, retry="later", next_try=tries[partition]) if partition in tries else state

    def with_lake(before: PartitionState) -> PartitionState:
        partition, now = before.partition, rows.get(before.partition, before.rows)
        reasons = left_out.get(partition, {})
        if before.rows == now and not reasons and partition not in letters:
            return before
        last = ledger[partition].commit if before.rows is not None and before.rows != now else None
        return replace(
            before,
            rows=now,
            edited=edited_text(stream, partition, last, now or 0) if last is not None else None,
            quarantined=reasons_of_landed(reasons, landed.get(partition)) if stream.config.mode.reads_new else reasons,
            dead_letters=letters.get(partition, ()),
        )

    return replace(state, partitions=tuple(with_lake(with_retry(p)) for p in state.partitions))


def _live_rows(stream: OpenStream, lake: LakeSession, ledger: Mapping[Partition, LastRuns]) -> Mapping[Partition, int]:
    """Return the rows that each partition has now, which other clients may have changed; empty if only DuckLake can."""
    if (rows := live_rows(lake, stream.partitioned_table)) is not None:
        return {p: rows.get(key_of(p), 0) for p, last in ledger.items() if last.snapshot is not None}
    past = past_table(lake, stream.partitioned_table, since=LIVE)
    if not past.is_read:
        return {}
    return past.live_rows([partition for partition, last in ledger.items() if last.snapshot is not None])


def only_partitions(state: StreamState, wanted: Wanted, is_wanted: Callable[[Partition], bool]) -> StreamState:
    """Return the state of the selected partitions; objects in no partition are left out.

    `wanted` has the states that are selected, if not all, and the number of partitions; `is_wanted` says whether a
    partition is selected by its values.
    """
    partitions = [partition for partition in state.partitions if is_wanted(partition.partition)]
    if wanted.waiting or wanted.failed:
        # A partition whose objects have all vanished is stale, but `ingest --waiting` has nothing of it to read.
        partitions = [
            p for p in partitions if (wanted.waiting and p.is_pending) or (wanted.failed and p.state == "failed")
        ]
    if wanted.every:
        partitions = [p for p in partitions if p.state != "absent"]
    return replace(state, partitions=tuple(partitions[: wanted.most]), left_out=LeftOut())


def reasons_of_landed(reasons: Mapping[str, str], manifest: Manifest | None) -> dict[str, str]:
    """Return those of the objects that commits left out that are still there, with the reasons; both by URI."""
    uris = set() if manifest is None else {landed.uri for landed in manifest.objects}
    return {uri: reason for uri, reason in reasons.items() if uri in uris}


def state_by(scan: LandingScan, now: dt.datetime) -> StreamState:
    """Return the state of every partition of a stream, by its ledger and a listing of its whole landing zone."""
    stream, calendar = scan.stream, Calendar(scan.stream.config, now)
    ledger = stream.config.by_partition(scan.runs, scan.listed)
    known = sorted({*scan.landed, *ledger}, key=sort_key)
    # From a partition that never succeeded, or is outside, no others are derived.
    real = [
        partition
        for partition in known
        if (partition in scan.landed or _has_succeeded(ledger[partition])) and calendar.outside(partition) is None
    ]
    partitions = dict.fromkeys([*calendar.expected(real), *known])
    return StreamState(
        stream.name,
        str(stream.table),
        stream.config.partition_columns,
        now,
        tuple(partition_state(scan, partition, calendar) for partition in partitions),
        scan.left_out or LeftOut(),
    )


def _has_succeeded(last: LastRuns) -> bool:
    return last.committed_at is not None or last.fingerprint is not None


def _state_of(stream: OpenStream, manifest: Manifest, last: LastRuns | None, *, pending: bool) -> State:
    """Return the state of a partition of the config."""
    if last is not None and last.status == "failed":
        return "failed"
    if last is not None and last.is_held:
        return "held"
    if pending:
        return "missing" if last is None or last.committed_at is None else "stale"
    if last is not None and last.committed_at is not None:
        # Objects were taken away whose rows the lake has, or which no snapshot needs.
        has_vanished = not manifest.objects and not stream.has_read(manifest, last.fingerprint)
        return "stale" if has_vanished and not stream.config.empties_source else "committed"
    # Objects without rows are skipped if `on_empty` is keep: there is nothing to commit. With a column in the rows,
    # they have rows of other partitions.
    return "committed" if manifest.objects and not stream.config.selects_rows else "absent"


def partition_state(scan: LandingScan, partition: Partition, calendar: Calendar) -> PartitionState:
    """Return the state of one partition by its landed objects and its runs in the ledger."""
    stream, manifest, last = scan.stream, scan.listed.get(partition, Manifest(())), scan.last(partition)
    # A failed run does not change what the lake has; the run before it decides.
    pending = is_pending(stream, manifest, last)
    state = _state_of(stream, manifest, last, pending=pending)
    outside = calendar.outside(partition)
    return PartitionState(
        stream.name,
        partition,
        state if outside is None else "outside",
        len(manifest.objects),
        manifest.size,
        rows=None if last is None else last.rows,
        committed_at=None if last is None else last.committed_at,
        snapshot=None if last is None else last.snapshot,
        finished_at=None if last is None else last.newest.finished_at,
        error=last.newest.error if last is not None and last.status == "failed" else None,
        is_failed_by_objects=failed_by_objects(stream, manifest, last),
        is_pending=outside is None and pending,
        outside=outside,
        holder=None if last is None or last.holder is None else holder_text(last.holder),
        is_left_out=outside is not None and pending and bool(manifest.objects),
    )


def holder_text(row: LedgerRow) -> str:
    """Return who holds a partition since this commit, and with which rows.

    Such as `ann (run 01234567) since 2026-02-11 06:00 UTC, with the rows of snapshot 7`.
    """
    run = f"run {row.run_id[:8]}"
    who = f"{row.requested_by} ({run})" if row.requested_by else run
    since = f" since {row.finished_at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC" if row.finished_at else ""
    rows = "" if row.restored_snapshot is None else f", with the rows of snapshot {row.restored_snapshot}"
    return who + since + rows


def held_text(state: PartitionState) -> str:
    """Return who holds a held partition, and how to release it: one clause."""
    return f"{state.partition} is held by {state.holder}; {state.release} ends the hold"


@dataclass(frozen=True, slots=True)
class Summary(Documented):
    """The number of a stream's partitions in each state, for each value of the first column that is not a time."""

    stream: str
    """Its name."""
    partitions: str
    """The value, such as `region=NW`; empty for all partitions."""
    committed: int
    """Partitions: the lake has the landed objects."""
    held: int
    """Partitions: restored with a hold, so no refresh changes them."""
    stale: int
    """Partitions: the landed objects have changed since the last commit."""
    failed: int
    """Partitions: the newest run failed."""
    missing: int
    """Partitions: objects have landed and were never committed."""
    absent: int
    """Partitions: nothing has landed."""
    outside: int
    """Partitions that the config does not have."""
    rows: int
    """In the lake."""
    newest_commit: dt.datetime | None
    """Its time, with a time zone; null without a commit."""

    @property
    def counts(self) -> dict[State, int]:
        """The number of partitions in each state, for every state."""
        return {state: getattr(self, state) for state in STATES}


def summarize(state: StreamState) -> list[Summary]:
    """Count partitions by value of the first column that is not a time; all in one row if none is beside a time."""
    groups: dict[str, list[PartitionState]] = {}
    columns = [index for index, column in enumerate(state.columns) if column.type not in TIME_TYPES]
    beside = columns[0] if columns and len(state.columns) > 1 else None
    for partition in state.partitions:
        if beside is None:
            group = ""
        else:
            column = state.columns[beside]
            group = f"{column.name}={column.text(partition.partition.values[beside])}"
        groups.setdefault(group, []).append(partition)
    return [_summary(state.stream, group, partitions) for group, partitions in groups.items()]


def total_counts(summaries: Sequence[Summary]) -> Summary:
    """Return the counts over all summaries."""
    counts = {state: sum(summary.counts[state] for summary in summaries) for state in STATES}
    newest = _newest(summary.newest_commit for summary in summaries)
    return Summary("", "", **counts, rows=sum(summary.rows for summary in summaries), newest_commit=newest)


def _summary(stream: str, group: str, partitions: Sequence[PartitionState]) -> Summary:
    newest = _newest(partition.committed_at for partition in partitions)
    rows = sum(partition.rows or 0 for partition in partitions)
    return Summary(stream, group, **state_counts(partitions), rows=rows, newest_commit=newest)


def _newest(times: Iterable[dt.datetime | None]) -> dt.datetime | None:
    return max((time for time in times if time is not None), default=None)
