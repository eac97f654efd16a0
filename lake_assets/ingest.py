"""The way of a partition: landed objects → manifest → Spark job → data files → one commit with its ledger row.

`ingest` goes it with one partition, `ingest_all` with many: they are listed side by side, go through Spark in one job,
and then each commits, or fails, by itself. Both are called by the command line and by Dagster alike.
"""

import datetime as dt
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from pyspark.sql import SparkSession

from lake_assets.empty import EmptyPartitions
from lake_assets.errors import (
    CatalogLockedError,
    CatalogUnreachableError,
    LakeAssetsError,
    SchemaChangedError,
    SchemaDriftError,
    StorageUnreachableError,
)
from lake_assets.index import index_all
from lake_assets.lake.commit import commit
from lake_assets.lake.ducklake import LakeSession
from lake_assets.lake.history import committed_fingerprints
from lake_assets.lake.ledger import create_ledger, record
from lake_assets.lake.replacement import Replacement, Staged
from lake_assets.partition import Partition
from lake_assets.passage import IngestResult, Passage, chunks, is_interrupt, record_failures, share_refusal, still_open
from lake_assets.storage.store import Store
from lake_assets.stream import OpenStream
from lake_assets.streams.calendar import refuse_outside
from lake_assets.writing import Writer

Sessions = Callable[[], SparkSession]
"""Gives the Spark session; called only when there is work for Spark."""

# One Spark job takes so many partitions, or so many bytes of landed objects: a job takes 0.2 s to schedule whatever
# it does, and nothing of it is committed before it ends.
GROUP_PARTITIONS = 200
GROUP_BYTES = 2**30

COMMITS = 25  # at one opening of the lake; another process may want a DuckDB-file catalog too
LISTINGS = 16  # side by side: a listing is a wait for the store


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one partition of many: its result, or its error; neither if it was passed over."""

    partition: Partition
    result: IngestResult | None = None
    error: Exception | None = None


def ingest(
    stream: OpenStream,
    partition: Partition,
    sessions: Sessions,
    *,
    force: bool = False,
    outside: bool = False,
    run_id: str | None = None,
    run_at: dt.datetime | None = None,
) -> IngestResult:
    """Make the lake's partition what the landing zone's is; readers see the old rows or the new ones.

    Args:
        stream: whose partition it is.
        partition: which.
        sessions: gives the Spark session.
        force: read it even if its objects are those of the last commit.
        outside: also if the stream's config does not have the partition.
        run_id: names the run in ledger and commit message; a new one when None.
        run_at: when the run began, with time zone; now when None.

    Returns:
        What was done. A partition that has not changed is `skipped`.

    Raises:
        OutsidePartitionError: the config does not have the partition; nothing was done.
        LakeAssetsError: it failed; the old partition is unchanged, and a `failed` ledger row says why if the catalog
            could still be reached.
    """
    (outcome,) = ingest_all(stream, [partition], sessions, force=force, outside=outside, run_id=run_id, run_at=run_at)
    if outcome.error is not None:
        raise outcome.error
    assert outcome.result is not None  # noqa: S101 - an outcome is one of both
    return outcome.result


def ingest_all(  # noqa: PLR0913 - the options of a run
    stream: OpenStream,
    partitions: Iterable[Partition],
    sessions: Sessions,
    *,
    force: bool = False,
    landed_only: bool = False,
    outside: bool = False,
    run_id: str | None = None,
    run_at: dt.datetime | None = None,
    checkpoint: Callable[[], None] = lambda: None,
) -> Generator[Outcome, None, None]:
    """Make many of the lake's partitions what the landing zone's are, each by a commit of its own.

    Args:
        stream: whose partitions they are.
        partitions: which, each once.
        sessions: gives the Spark session.
        force: read them even if their objects are those of the last commit.
        landed_only: pass over a partition that has no objects and was never committed, whatever `on_empty` says; of
            one that was committed and has lost its objects the policy decides. Where the rows say of which partition
            they are, one that has no rows, neither there nor in the lake, is passed over.
        outside: take partitions that the stream's config does not have too.
        run_id: names the run in ledger and commit messages; a new one when None.
        run_at: when the run began, with time zone; now when None.
        checkpoint: called between steps; what it raises ends the run. If that is an interrupt, partitions that have
            begun are `cancelled` in the ledger, and those that have not have no row.

    A stream in mode index has its new objects registered instead, all in one transaction, by `index_all`; nothing is
    read again there, so `force` means nothing.

    Yields:
        What became of each, in the order in which it is known. One that fails leaves the others alone; but if Spark
        does not start, or the catalog or a storage cannot be reached, those that are left fail by the same error,
        untried.

    Raises:
        OutsidePartitionError: the config does not have some of the partitions; nothing was done with any of them.
    """
    partitions = list(partitions)
    if not outside:
        refuse_outside(stream.config, partitions)
    run_id, run_at = run_id or str(uuid.uuid4()), run_at or dt.datetime.now(dt.UTC)
    if stream.config.mode == "index":
        indexed_all = index_all(
            stream,
            partitions,
            landed_only=landed_only,
            outside=True,  # they have been looked at
            run_id=run_id,
            run_at=run_at,
            checkpoint=checkpoint,
        )
        for indexed in indexed_all:
            yield Outcome(indexed.partition, None if indexed.error else indexed.result, indexed.error)
        return
    run = _Run(stream, sessions, checkpoint, force=force, landed_only=landed_only)
    passages = [Passage(stream, partition, run_id, run_at) for partition in partitions]
    try:
        for some in chunks(passages, GROUP_PARTITIONS):
            yield from run.some(some)
    except GeneratorExit:
        raise  # nobody wants to know more
    except BaseException as error:
        cut_off = [p for p in passages if not p.is_told and p.result is None and not p.is_passed_over]
        if is_interrupt(error):
            cut_off = [passage for passage in cut_off if passage.has_begun]
        for passage in cut_off:
            # What all have in common is what the interrupt did to Spark or to the catalog.
            if passage.error is None or (is_interrupt(error) and passage.error is run.broken):
                passage.error = error
        record_failures(stream, cut_off)
        for passage in passages:
            if passage.result is not None and not passage.is_told:
                yield Outcome(passage.partition, passage.result)
        raise
    finally:
        run.writer.unstage()


class _Run:
    """One run over partitions of a stream. Each step takes some passages, and leaves an error in those that fail."""

    def __init__(
        self, stream: OpenStream, sessions: Sessions, checkpoint: Callable[[], None], *, force: bool, landed_only: bool
    ) -> None:
        self.stream = stream
        self.sessions = sessions
        self.checkpoint = checkpoint
        self.force = force
        self.landed_only = landed_only
        self.broken: Exception | None = None  # what would meet every other partition too
        self.writer = Writer(stream, checkpoint)
        self.empty = EmptyPartitions(stream, landed_only=landed_only)

    def some(self, passages: Sequence[Passage]) -> Iterator[Outcome]:
        """All steps with some partitions; those whose objects change under way are taken again."""
        left = list(passages)
        while left:
            if self.broken is None:
                self._list(left)
                self._check(still_open(left))
            else:
                for passage in left:
                    passage.error = self.broken
            for group in _groups(still_open(left)):
                self._write(group)
                for few in chunks(still_open(group), COMMITS):
                    self._commit(few)
                    yield from self._outcomes(few)
                self._evolve(group)
                self.writer.unstage()
            yield from self._outcomes(left)
            left = [passage for passage in left if passage.try_again()]

    def _outcomes(self, passages: Sequence[Passage]) -> Iterator[Outcome]:
        """What is newly known of these."""
        ended = [passage for passage in passages if not passage.is_told and passage.has_ended]
        if any(passage.error is not None for passage in ended):
            self.checkpoint()  # errors that an interrupt has made are none of the partitions
        record_failures(self.stream, [passage for passage in ended if passage.error is not None])
        for passage in ended:
            passage.is_told = True
            assert passage.error is None or isinstance(passage.error, Exception)  # noqa: S101 - others end the run
            yield Outcome(passage.partition, passage.result, passage.error)

    def _list(self, passages: Sequence[Passage]) -> None:
        places: dict[Partition, list[Passage]] = {}
        for passage in passages:
            places.setdefault(passage.partition.place, []).append(passage)

        probing = Lock()

        def one(place: list[Passage]) -> None:
            first, *others = place
            with first.step("list"):
                if self.broken is not None:
                    raise self.broken
                first.listed(self.stream.manifest(first.partition))
            if isinstance(first.error, StorageUnreachableError):
                with probing:
                    if self.broken is None and not Store(self.stream.config.source).answers():
                        self.broken = first.error
                first.error = self.broken or first.error
            for passage in others:
                with passage.step("list"):
                    if first.error is not None:
                        raise first.error
                    passage.listed(first.manifest)

        with ThreadPoolExecutor(LISTINGS) as pool:
            list(pool.map(one, places.values()))
        self.checkpoint()

    def _check(self, passages: Sequence[Passage]) -> None:
        """Skip what has not changed, and apply the stream's policy to what is not there."""
        if not passages:
            return
        with self._together("check", passages), self.stream.lake.open(create=True) as lake:
            create_ledger(lake)
            exists = lake.exists(self.stream.table)
            paths = [passage.partition.path for passage in passages]
            # What was committed to a table that somebody has dropped is no reason to skip anything.
            last = committed_fingerprints(lake, self.stream.table, paths) if exists else {}
            if exists:
                self.writer.prepare(lake)
            unchanged = []
            for passage in passages:
                passage.schema = self.writer.schema
                before = last.get(passage.partition.path)
                if before == passage.row.source_fingerprint and not self.force:
                    unchanged.append(passage)
                elif self.landed_only and before is None and not passage.manifest.objects:
                    passage.is_passed_over = True
                elif not passage.manifest.objects:
                    with passage.step("commit"):
                        self._without_rows(lake, passage, exists=exists)
            self._skip(lake, unchanged)
        self.checkpoint()

    def _write(self, passages: Sequence[Passage]) -> None:
        """The Spark job: data files that no reader sees yet."""
        if self.broken is not None:
            for passage in passages:
                passage.error = self.broken
            return
        try:
            self.writer.write(self.sessions(), passages)
        except LakeAssetsError as error:
            self._break(error, still_open(passages))
        else:
            share_refusal(passages)

    def _break(self, error: LakeAssetsError, passages: Sequence[Passage]) -> None:
        """An error that would meet all others too; of these nothing has been committed."""
        self.broken = error
        for passage in passages:
            passage.error = error
        self.writer.discard(passages)

    def _evolve(self, passages: Sequence[Passage]) -> None:
        """Change the table to what these were found to have; they are then read again."""
        drifted = [passage for passage in passages if isinstance(passage.error, SchemaDriftError)]
        if not drifted:
            return
        with self._together("evolve", drifted), self.stream.lake.open() as lake:
            self.writer.evolve(lake, drifted)
        self.checkpoint()

    def _commit(self, passages: Sequence[Passage]) -> None:
        for passage in passages:
            with passage.step("verify"):
                passage.refuse_moved_source()
        self.writer.discard([passage for passage in passages if passage.error is not None])
        passages = still_open(passages)
        start = time.perf_counter()
        try:
            with self.stream.lake.open() as lake:
                opening = (time.perf_counter() - start) / max(len(passages), 1)
                for passage in passages:
                    passage.add_seconds("commit", opening)
                    with passage.step("commit"):
                        self._commit_one(lake, passage)
                    self.checkpoint()
                    if isinstance(passage.error, (CatalogUnreachableError, CatalogLockedError)):
                        raise passage.error
        except LakeAssetsError as error:
            self._break(error, still_open(passages))
        # Of these it is known that nothing was committed; an answer to the commit of others may have been lost.
        self.writer.discard([passage for passage in passages if isinstance(passage.error, SchemaChangedError)])

    def _commit_one(self, lake: LakeSession, passage: Passage) -> None:
        if not sum(file.rows for file in passage.files):
            self._without_rows(lake, passage, exists=lake.exists(self.stream.table))
            return
        passage.update(
            status="committed",
            row_count=sum(file.rows for file in passage.files),
            # Of staged rows the commit knows what is written.
            files_written=None if self.writer.staging else len(passage.files),
            bytes_written=None if self.writer.staging else sum(file.size for file in passage.files),
        )
        self._replace(lake, passage)

    def _replace(self, lake: LakeSession, passage: Passage) -> None:
        files, staged = [file.uri for file in passage.files], None
        columns = passage.schema.names if passage.schema and files else ()
        if self.writer.staging is not None and files:
            files, staged = [], Staged.of(passage.files, self.writer.staging.key, self.stream.config.target_file_size)
        replacement = Replacement(
            self.stream.table,
            passage.partition,
            files,
            passage.manifest,
            passage.row,
            columns=columns,
            schema=passage.schema if self.writer.is_first else None,
            staged=staged,
        )
        passage.done(commit(lake, replacement))

    def _without_rows(self, lake: LakeSession, passage: Passage, *, exists: bool) -> None:
        """There is nothing to load: the stream's policy says what that means."""
        match self.empty.decide(lake, passage, exists=exists):
            case "leave out":
                passage.is_passed_over = True
            case "skip":
                self._skip(lake, [passage])
            case "clear":
                passage.files = []
                passage.update(status="committed", row_count=0, files_written=0, bytes_written=0)
                self._replace(lake, passage)

    def _skip(self, lake: LakeSession, passages: Sequence[Passage]) -> None:
        now = dt.datetime.now(dt.UTC)
        for passage in passages:
            passage.update(status="skipped", finished_at=now)
        record(lake, [passage.row for passage in passages if passage.is_recorded])
        for passage in passages:
            passage.done(passage.row)

    @contextmanager
    def _together(self, step: str, passages: Sequence[Passage]) -> Iterator[None]:
        """Time a step that some take together, each with its equal share; its error is everybody's."""
        start = time.perf_counter()
        try:
            yield
        except LakeAssetsError as error:
            self.broken = error
            for passage in still_open(passages):
                passage.error = error
        finally:
            for passage in passages:
                passage.add_seconds(step, (time.perf_counter() - start) / len(passages))


def _groups(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    """The passages of one Spark job after the other."""
    group: list[Passage] = []
    for passage in passages:
        if group and sum(p.manifest.size for p in group) + passage.manifest.size > GROUP_BYTES:
            yield group
            group = []
        group.append(passage)
    if group:
        yield group
