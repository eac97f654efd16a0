"""Checks of a table's rows."""

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import product
from zoneinfo import ZoneInfo

from lake_assets.base.duckdb_engine import all_threads, identifier
from lake_assets.base.errors import SourceError
from lake_assets.base.texts import count
from lake_assets.config.layout.partition import Partition
from lake_assets.config.layout.times import TIME_TYPES, zone_of
from lake_assets.ingest.compare_objects import read_noted
from lake_assets.lake.catalog.past_partitions import counted_rows, key_of, newest_values, partition_of
from lake_assets.lake.catalog.table import Key
from lake_assets.lake.ledger.lookup import LastRuns
from lake_assets.lake.ledger.read import restored_partitions
from lake_assets.lake.ledger.tables import RELEASE, RESTORE
from lake_assets.lake.session import PartitionedTable
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.checks.facts import CheckResult, Facts, PreparedCheck

_KEEPING = (RESTORE, RELEASE)  # modes of commits after which the rows need not be those of the landed objects
NEWEST = 200  # partitions that are checked without a run
READERS = 16  # threads; reading a footer is mostly latency


def row_counts(facts: Facts) -> PreparedCheck:
    """Each partition has as many rows as the footers of its landed files say.

    If the stream has a transform or selects rows, the number in the ledger is compared instead; also for a partition
    that is held or was restored, and in mode append for one with vanished objects, because their rows stay. Any other
    partition whose objects have changed since its commit is not compared: the check `landing_zone` names it.

    The rows of a run's partitions are those of the catalog's data files. For the whole table they are counted by a
    query.
    """
    known = _committed(facts)
    counted = _count(facts, list(known))
    kept = _kept(facts, known)
    lake = _InLake(facts, _appended(facts, list(known)), kept)
    # The lake is closed when the threads read these.
    runs, _ = facts.runs, (facts.left_out, facts.dead_letters)

    @cache
    def counts() -> dict[Partition, _Rows]:
        if not _is_by_ledger(facts.stream):
            _ = facts.landed.all(runs) if facts.scope.tried is None else facts.landed.of(known)
        with ThreadPoolExecutor(READERS) as pool:
            expected = pool.map(lake.expected, known, known.values())
            return {p: _Rows(counted[p], rows, kept.get(p)) for p, rows in zip(known, expected, strict=True)}

    return PreparedCheck(
        lambda: _result_of_counts(facts.stream, counts()),
        lambda: {p: _result_of_counts(facts.stream, {p: rows}) for p, rows in counts().items()},
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    counted: int  # in the lake
    expected: int | None  # None: unknown
    kept: int | None  # the snapshot of the last commit, if a hold or restore keeps its rows there; else None

    def __str__(self) -> str:
        """Return how many they are and should be."""
        of_snapshot = "" if self.kept is None else f", as in snapshot {self.kept}"
        return f"{count(self.counted, 'row')} instead of {self.expected or 0:,}{of_snapshot}"


# A registered file is not registered again, and a repair refuses a file from which rows were deleted.
_OF_REGISTERED = "Delete all rows of these partitions with SQL, land their objects under other names, and ingest them"


def _result_of_counts(stream: OpenStream, counts: Mapping[Partition, _Rows]) -> CheckResult:
    source = "the ledger" if _is_by_ledger(stream) else "the landed objects"
    compared = {p: rows for p, rows in counts.items() if rows.expected is not None}
    wrong = {p: rows for p, rows in compared.items() if rows.counted != rows.expected}
    kept, unknown = sum(rows.kept is not None for rows in compared.values()), len(counts) - len(compared)
    way = _OF_REGISTERED if stream.config.mode.registers else "Ingest these partitions with --force"
    changed = f"{'is' if unknown == 1 else 'are'} not compared: the landed objects have changed since."
    right = {
        f"The row counts of {count(len(compared) - kept, 'partition')} match {source}.": len(compared) > kept,
        f"The row counts of {count(kept, 'held or restored partition')} match the ledger.": kept,
        f"{count(unknown, 'partition')} {changed}": unknown,
        "There is no partition to compare.": not counts,
    }
    kept_rows = "Rows that were held or restored have changed. Restore them from the snapshot that is named."
    advice = {
        f"The rows differ from {source}. {way}.": any(r.kept is None for r in wrong.values()),
        kept_rows: any(rows.kept is not None for rows in wrong.values()),
    }
    return CheckResult.of_findings(
        "row_counts",
        [f"{partition}: {rows}" for partition, rows in wrong.items()],
        failure=" ".join(text for text, is_so in advice.items() if is_so),
        success=" ".join(text for text, is_so in right.items() if is_so),
        numbers={"partitions": len(compared), "wrong": len(wrong), "changed_since": unknown},
    )


def _committed(facts: Facts) -> dict[Partition, LastRuns]:
    """Return the partitions to check that are in the lake, the newest commit first."""
    of_run = facts.scope.partitions
    partitions: Iterable[Partition] = facts.runs if of_run is None else of_run
    committed = {p: facts.runs[p] for p in partitions if p in facts.runs and facts.runs[p].snapshot is not None}
    newest = sorted(committed, key=lambda p: committed[p].snapshot or 0, reverse=True)
    return {p: committed[p] for p in (newest if of_run is not None else newest[:NEWEST])}


def _count(facts: Facts, partitions: Sequence[Partition]) -> dict[Partition, int]:
    if partitions and facts.scope.tried is not None:
        return facts.past().live_rows(partitions)
    return counted_rows(facts.lake, facts.stream.table, partitions)


def _appended(facts: Facts, partitions: Sequence[Partition]) -> Mapping[str, Collection[str]]:
    """Return the keys of the objects that each partition was made of, by its path, in mode append."""
    if not facts.stream.config.mode.reads_new or _is_by_ledger(facts.stream) or not partitions:
        return {}
    noted = read_noted(facts.lake, facts.stream, partitions)
    root = f"{facts.stream.source.root}/"  # that of the URI which an older version has noted
    return {
        path: {o.key.removeprefix(root) for o in known.values() if o.reason is None} for path, known in noted.items()
    }


def _kept(facts: Facts, known: Mapping[Partition, LastRuns]) -> dict[Partition, int]:
    """Return the last snapshot of those partitions that are held, or were restored and not replaced since."""
    is_added_to = facts.stream.config.mode.reads_new
    candidates = [p.path for p, last in known.items() if is_added_to or (last.commit and last.commit.mode in _KEEPING)]
    restored = restored_partitions(facts.lake, facts.stream.table, candidates) if candidates else ()
    return {p: last.snapshot or 0 for p, last in known.items() if last.is_held or p.path in restored}


def _is_by_ledger(stream: OpenStream) -> bool:
    """Return whether the expected number of rows is the ledger's, because that of the landed objects is another one."""
    return stream.config.transform is not None or stream.config.selects_rows or not stream.config.format.counts_rows


@dataclass(frozen=True, slots=True)
class _InLake:
    """What the rows of the lake's partitions were made of."""

    facts: Facts
    appended: Mapping[str, Collection[str]]  # keys of objects, by the partition's path
    kept: Collection[Partition]  # held or restored

    def expected(self, partition: Partition, last: LastRuns) -> int | None:
        """Return the rows that a partition should have; None if that is unknown."""
        stream, landed = self.facts.stream, self.facts.landed
        left_out = self.facts.left_out.get(partition, {})
        if _is_by_ledger(stream) or partition in self.kept:  # a restore lacks the rows of objects that came since
            return last.rows
        (manifest,) = landed.of([partition]).values()
        if not stream.has_read(manifest, last.fingerprint) and landed.list_again([partition]):
            (manifest,) = landed.of([partition]).values()
        if not stream.has_read(manifest, last.fingerprint):
            return None
        landed_keys = {obj.key for obj in manifest.objects if obj.uri not in left_out}
        if stream.config.mode.reads_new and landed_keys != set(self.appended.get(partition.path, ())):
            return last.rows  # with the rows of objects that have vanished
        try:
            rows = sum(stream.landed.count_rows(obj.key) for obj in manifest.objects if obj.uri not in left_out)
        except SourceError:
            # It was read by the ingest, so it was changed or damaged since.
            if not stream.has_read(stream.manifest(partition), last.fingerprint):
                return None
            raise
        # For a source without rows the stream's policy decided what the lake has, and the ledger has the number.
        if rows == 0 and stream.config.mode.replaces:
            return last.rows
        return rows - sum(letter.rows for letter in self.facts.dead_letters.get(partition, ()))


def no_null_partition(facts: Facts) -> PreparedCheck:
    """Every row has a value in every partition column."""
    columns = facts.stream.config.partition_columns
    tried = facts.scope.tried
    without: list[Partition] = []
    if tried is not None:
        without = [partition for partition in tried if None in partition.values]
        rows = sum(_count(facts, without).values())
    else:
        condition = " OR ".join(f"{identifier(column.name)} IS NULL" for column in columns)
        with all_threads(facts.lake.connection):
            ((rows,),) = facts.lake.rows(
                f"SELECT count(*) FROM {facts.stream.table.sql} WHERE {condition}"  # noqa: S608 - quoted names
            )
    names = [column.name for column in columns]
    result = CheckResult(
        "no_null_partition",
        rows == 0,
        f"{count(rows, 'row')} without {' or '.join(names)}." if rows else f"Every row has its {' and '.join(names)}.",
        numbers={"rows": rows},
        failing=frozenset(map(key_of, without)) if rows and tried is not None else None,
    )
    return PreparedCheck(lambda: result)


def group_of(partition: Partition) -> Key:
    """Return the key of all partitions with the same values beside their times: NULL in place of these."""
    values = zip(partition.columns, key_of(partition), strict=True)
    return tuple(None if column.type in TIME_TYPES else text for column, text in values)


def freshness(facts: Facts) -> PreparedCheck:
    """The newest partition with rows ended recently enough, for each value of the columns beside the time.

    A value of the config without rows is late, and one that the config does not have is left out.
    """
    config = facts.stream.config.freshness
    limit = None if config is None else config.newest_partition_hours
    assert limit is not None  # noqa: S101 - otherwise the stream has no such check
    late = dict(_late(facts, limit))
    result = CheckResult.of_findings(
        "freshness",
        [*late.values()],
        failure=f"No partition with rows ended in the last {limit:g} hours. Look at what writes the landing zone, and "
        "at the newest runs.",
        success=f"The newest partitions with rows ended at most {limit:g} hours ago.",
        numbers={"late": len(late)},
        failing=frozenset(late),
    )
    return PreparedCheck(lambda: result)


def _late(facts: Facts, limit: float) -> Iterator[tuple[Key, str]]:
    """Yield the key and the text of each late group, the latest first."""
    config, tried, calendar = facts.stream.config, facts.scope.tried, Calendar(facts.stream.config)
    others = tuple(column for column in config.partition_columns if column.type not in TIME_TYPES)
    time = next(column for column in config.partition_columns if column.type in TIME_TYPES)
    kind, end, zone = TIME_TYPES[time.type], calendar.spans[time.name].end, zone_of(time.type, config.time_zone)
    beside = [index for index, column in enumerate(config.partition_columns) if column in others]
    wanted = None if tried is None else {tuple(key_of(partition)[index] for index in beside) for partition in tried}
    latest: dict[Partition, str | None] = {}
    if wanted is None and all(map(calendar.has_values, others)):
        latest = {Partition(others, values): None for values in product(*map(calendar.values, others))}
    by_time = PartitionedTable(facts.stream.table, (*others, time))
    for key, newest in newest_values(facts.lake, by_time, wanted).items():
        if (group := partition_of(others, key)) is not None and calendar.outside(group) is None:
            latest[group] = newest
    ages: list[tuple[float, Partition, str]] = []
    for group, text in latest.items():
        ended = None if text is None else kind.at(kind.number(kind.start(text)) + 1).replace(tzinfo=ZoneInfo(zone))
        hours = float("inf") if ended is None else (dt.datetime.now(dt.UTC) - ended).total_seconds() / 3600
        if hours > limit and (text is None or text != end):  # nothing follows the end of the config
            reason = "no rows" if text is None else f"{time.name}={text}, which ended {hours:,.1f} hours ago"
            ages.append((hours, group, f"{group.path if others else time.name}: {reason}"))
    for _, group, named in sorted(ages, key=lambda late: -late[0]):
        values = dict(zip((column.name for column in others), key_of(group), strict=True))
        yield tuple(values.get(column.name) for column in config.partition_columns), named
