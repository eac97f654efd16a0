"""Checks of a table's rows.

Every check raises LakeAssetsError if the landing zone or the lake cannot be read.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

from lake_assets.checks.facts import Facts, PreparedCheck
from lake_assets.checks.result import CheckResult
from lake_assets.duckdb_engine import all_threads, identifier
from lake_assets.errors import SourceError
from lake_assets.ingest.compare_objects import read_noted
from lake_assets.lake.catalog.past import counted_rows, key_of
from lake_assets.lake.ledger.lookup import LastRuns
from lake_assets.lake.ledger.read import restored_partitions
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.streams.stream import OpenStream

NEWEST = 200  # partitions that are checked without a run
READERS = 16  # threads; reading a footer is mostly latency


def row_counts(facts: Facts) -> PreparedCheck:
    """Each partition has as many rows as the footers of its landed files say.

    If the stream has a transform or selects rows, the number in the ledger is compared instead; in mode append also for
    a restored partition, and for one with vanished objects, because their rows stay. A partition whose objects have
    changed since its commit is not compared: the check `landing_zone` names it.

    The rows of a run's partitions are those of the catalog's data files. For the whole table they are counted by a
    query.
    """
    known = _committed(facts)
    counted = _count(facts, list(known))
    lake = _InLake(facts, _appended(facts, list(known)), _restored(facts, list(known)))
    # The lake is closed when the threads read these.
    runs, _ = facts.runs, (facts.left_out, facts.dead_letters)

    @cache
    def counts() -> dict[Partition, _Counts]:
        if not _is_by_ledger(facts.stream):
            _ = facts.landed.all(runs) if facts.scope.tried is None else facts.landed.of(known)
        with ThreadPoolExecutor(READERS) as pool:
            expected = pool.map(lake.expected, known, known.values())
            return {partition: (counted[partition], rows) for partition, rows in zip(known, expected, strict=True)}

    return PreparedCheck(
        lambda: _of_counts(facts.stream, counts()),
        lambda: {partition: _of_counts(facts.stream, {partition: of_one}) for partition, of_one in counts().items()},
    )


_Counts = tuple[int, int | None]
"""The rows in the lake, and the expected rows; None if that number is unknown."""


# A registered file is not registered again, and a repair refuses a file from which rows were deleted.
_ADVICE: Mapping[str, str] = {
    "replace": "Ingest these partitions with --force",
    "append": "Ingest these partitions with --force",
    "index": "Delete all rows of these partitions with SQL, land their objects under other names, and ingest them",
}


def _of_counts(stream: OpenStream, counts: Mapping[Partition, _Counts]) -> CheckResult:
    wrong = [
        f"{partition}: {count(counted, 'row')} instead of {rows:,}"
        for partition, (counted, rows) in counts.items()
        if rows is not None and rows != counted
    ]
    compared = sum(rows is not None for _, rows in counts.values())
    return CheckResult.of_findings(
        "row_counts",
        wrong,
        failure=f"The rows differ from {_source_of(stream)}. {_ADVICE[stream.config.mode]}.",
        success=f"The row counts of {count(compared, 'partition')} match {_source_of(stream)}.",
        numbers={"partitions": compared, "wrong": len(wrong), "changed_since": len(counts) - compared},
    )


def _source_of(stream: OpenStream) -> str:
    return "the ledger" if _is_by_ledger(stream) else "the landed objects"


def _committed(facts: Facts) -> dict[Partition, LastRuns]:
    """Return the partitions to check that are in the lake, the newest commit first."""
    of_run = facts.scope.partitions
    partitions: Iterable[Partition] = facts.runs if of_run is None else of_run
    committed = {p: facts.runs[p] for p in partitions if p in facts.runs and facts.runs[p].snapshot is not None}
    newest = sorted(committed, key=lambda p: committed[p].snapshot or 0, reverse=True)
    return {p: committed[p] for p in (newest if of_run is not None else newest[:NEWEST])}


def _count(facts: Facts, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """Return the number of rows of each partition in the lake."""
    if partitions and facts.scope.tried is not None:
        return facts.past().live_rows(partitions)
    return counted_rows(facts.lake, facts.stream.table, partitions)


def _appended(facts: Facts, partitions: Sequence[Partition]) -> Mapping[str, Collection[str]]:
    """Return the keys of the objects that each partition was made of, by its path, in mode append."""
    if facts.stream.config.mode != "append" or _is_by_ledger(facts.stream) or not partitions:
        return {}
    noted = read_noted(facts.lake, facts.stream, partitions)
    root = f"{facts.stream.source.root}/"  # that of the URI which an older version has noted
    return {
        path: {o.key.removeprefix(root) for o in of_one.values() if o.reason is None} for path, of_one in noted.items()
    }


def _restored(facts: Facts, partitions: Sequence[Partition]) -> Collection[str]:
    """Return the paths of those partitions of mode append that were restored, and not replaced since."""
    if facts.stream.config.mode != "append" or not partitions:
        return ()
    return restored_partitions(facts.lake, facts.stream.table, [partition.path for partition in partitions])


def _is_by_ledger(stream: OpenStream) -> bool:
    """Return whether the expected number of rows is the ledger's, because that of the landed objects is another one."""
    return stream.config.transform is not None or stream.config.selects_rows or not stream.landed.counts_rows


@dataclass(frozen=True, slots=True)
class _InLake:
    """What the rows of the lake's partitions were made of."""

    facts: Facts
    appended: Mapping[str, Collection[str]]  # keys of objects, by the partition's path
    restored: Collection[str]  # paths of partitions

    def expected(self, partition: Partition, last: LastRuns) -> int | None:
        """Return the rows that a partition should have; None if that is unknown."""
        stream, landed = self.facts.stream, self.facts.landed
        left_out = self.facts.left_out.get(partition, {})
        if _is_by_ledger(stream):
            return last.rows
        (manifest,) = landed.of([partition]).values()
        if not stream.has_read(manifest, last.fingerprint) and landed.again([partition]):
            (manifest,) = landed.of([partition]).values()
        if not stream.has_read(manifest, last.fingerprint):
            return None
        there = {obj.key for obj in manifest.objects if obj.uri not in left_out}
        if partition.path in self.restored:
            return last.rows  # without those of objects that were appended since the restored snapshot
        if stream.config.mode == "append" and there != set(self.appended.get(partition.path, ())):
            return last.rows  # with the rows of objects that have vanished
        try:
            rows = sum(stream.landed.count_rows(obj.key) for obj in manifest.objects if obj.uri not in left_out)
        except SourceError:
            # It was read by the ingest, so it was changed or damaged since.
            if not stream.has_read(stream.manifest(partition), last.fingerprint):
                return None
            raise
        # For a source without rows the stream's policy decided what the lake has, and the ledger has the number.
        if rows == 0 and stream.config.mode == "replace":
            return last.rows
        return rows - sum(letter.rows for letter in self.facts.dead_letters.get(partition, ()))


def no_null_partition(facts: Facts) -> PreparedCheck:
    """Every row has a value in every partition column."""
    columns = facts.stream.config.columns
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
