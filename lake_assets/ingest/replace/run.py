"""The replacement of partitions: list, decide, write by one Spark job, verify, and commit each by itself."""

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock

from lake_assets.errors import (
    CatalogLockedError,
    CatalogUnreachableError,
    LakeAssetsError,
    SchemaChangedError,
    SchemaDriftError,
    StorageUnreachableError,
)
from lake_assets.ingest.decide import Decider, Decision, Facts, empty_source
from lake_assets.ingest.partition_run import Outcome, PartitionRun, chunks, record_failures, share_refusal, still_open
from lake_assets.ingest.replace.write_step import Writer
from lake_assets.lake.commit.replacement import Replacement, Staged
from lake_assets.lake.commit.strategy import commit
from lake_assets.lake.ledger.last_runs import committed_fingerprints
from lake_assets.lake.ledger.tables import create_ledger, record
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.spark.session import Sessions
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream

# One Spark job takes so many partitions, or so many bytes of landed objects: every job takes 0.2 s to
# schedule, and nothing of it is committed before it ends.
GROUP_PARTITIONS = 200
GROUP_BYTES = 2**30

COMMITS = 25  # at one opening of the lake; another process may want a DuckDB-file catalog too
LISTINGS = 16  # in parallel: a listing mostly waits for the store


class ReplaceRun:
    """One run over partitions of a stream. Each step takes some of them, and leaves an error in those that fail."""

    def __init__(
        self, stream: OpenStream, sessions: Sessions, checkpoint: Callable[[], None], *, force: bool, landed_only: bool
    ) -> None:
        self.stream = stream
        self.sessions = sessions
        self.checkpoint = checkpoint
        self.broken: Exception | None = None  # what every other partition would meet too
        self.writer = Writer(stream, checkpoint)
        self.decider = Decider(stream, force=force, landed_only=landed_only)

    def replace(self, runs: Sequence[PartitionRun]) -> Iterator[Outcome]:
        """All steps with some partitions; those whose objects change under way are taken again."""
        left = list(runs)
        while left:
            if self.broken is None:
                self._list(left)
                self._check(still_open(left))
            else:
                _fail(left, self.broken)
            for group in _groups(still_open(left)):
                self._write(group)
                for few in chunks(still_open(group), COMMITS):
                    self._commit(few)
                    yield from self._outcomes(few)
                self._evolve(group)
                self.writer.unstage()
            yield from self._outcomes(left)
            left = [run for run in left if run.try_again()]

    def _outcomes(self, runs: Sequence[PartitionRun]) -> Iterator[Outcome]:
        """What is newly known of these."""
        ended = [run for run in runs if run.has_ended]
        if any(run.error is not None for run in ended):
            self.checkpoint()  # errors that an interrupt has made are none of the partitions
        record_failures(self.stream, [run for run in ended if run.error is not None])
        for run in ended:
            yield run.report()

    def _list(self, runs: Sequence[PartitionRun]) -> None:
        path_parts: dict[Partition, list[PartitionRun]] = {}
        for run in runs:
            path_parts.setdefault(run.partition.path_part, []).append(run)

        probing = Lock()

        def one(path_part: list[PartitionRun]) -> None:
            first, *others = path_part
            with first.step("list"):
                if self.broken is not None:
                    raise self.broken
                first.listed(self.stream.manifest(first.partition))
            if isinstance(first.error, StorageUnreachableError):
                with probing:
                    if self.broken is None and not Store(self.stream.config.source).answers():
                        self.broken = first.error
                first.fail(self.broken or first.error)
            for run in others:
                with run.step("list"):
                    if first.error is not None:
                        raise first.error
                    run.listed(first.manifest)

        with ThreadPoolExecutor(LISTINGS) as pool:
            list(pool.map(one, path_parts.values()))
        self.checkpoint()

    def _check(self, runs: Sequence[PartitionRun]) -> None:
        """Skip what has not changed, and apply the stream's policy to what is not there."""
        if not runs:
            return
        with self._together("check", runs), self.stream.lake.open(create=True) as lake:
            create_ledger(lake)
            exists = lake.exists(self.stream.table)
            paths = [run.partition.path for run in runs]
            # What was committed to a table that somebody has dropped is no reason to skip anything.
            last = committed_fingerprints(lake, self.stream.table, paths) if exists else {}
            if exists:
                self.writer.prepare(lake)
            unchanged = []
            for run in runs:
                run.schema = self.writer.schema
                before = last.get(run.partition.path)
                facts = Facts(
                    len(run.manifest.objects),
                    table_exists=exists,
                    is_unchanged=before == run.row.source_fingerprint,
                    was_committed=before is not None,
                )
                decision = self.decider.decide(run.partition, facts, lake)
                if decision.action == "skip" and decision.on_empty is None:
                    unchanged.append(run)
                elif decision.action != "replace":
                    with run.step("commit"):
                        self._without_rows(lake, run, decision)
            self._skip(lake, unchanged)
        self.checkpoint()

    def _write(self, runs: Sequence[PartitionRun]) -> None:
        """The Spark job: data files that no reader sees yet."""
        if self.broken is not None:
            _fail(runs, self.broken)
            return
        try:
            self.writer.write(self.sessions(), runs)
        except LakeAssetsError as error:
            self._break(error, still_open(runs))
        else:
            share_refusal(runs)

    def _break(self, error: LakeAssetsError, runs: Sequence[PartitionRun]) -> None:
        """An error that would meet all others too; of these nothing has been committed."""
        self.broken = error
        _fail(runs, error)
        self.writer.discard(runs)

    def _evolve(self, runs: Sequence[PartitionRun]) -> None:
        """Change the table to what these were found to have; they are then read again."""
        drifted = [run for run in runs if isinstance(run.error, SchemaDriftError)]
        if not drifted:
            return
        with self._together("evolve", drifted), self.stream.lake.open() as lake:
            self.writer.evolve(lake, drifted)
        self.checkpoint()

    def _commit(self, runs: Sequence[PartitionRun]) -> None:
        for run in runs:
            with run.step("verify"):
                run.refuse_moved_source()
        self.writer.discard([run for run in runs if run.error is not None])
        runs = still_open(runs)
        start = time.perf_counter()
        try:
            with self.stream.lake.open() as lake:
                opening = (time.perf_counter() - start) / max(len(runs), 1)
                for run in runs:
                    run.add_seconds("commit", opening)
                    with run.step("commit"):
                        self._commit_one(lake, run)
                    self.checkpoint()
                    if isinstance(run.error, (CatalogUnreachableError, CatalogLockedError)):
                        raise run.error
        except LakeAssetsError as error:
            self._break(error, still_open(runs))
        # Of these it is known that nothing was committed; an answer to the commit of others may have been lost.
        self.writer.discard([run for run in runs if isinstance(run.error, SchemaChangedError)])

    def _commit_one(self, lake: LakeSession, run: PartitionRun) -> None:
        rows = sum(file.rows for file in run.files)
        facts = Facts(len(run.manifest.objects), table_exists=lake.exists(self.stream.table), rows=rows)
        decision = self.decider.decide(run.partition, facts, lake)
        if decision.action != "replace":
            self._without_rows(lake, run, decision)
            return
        run.update(
            status="committed",
            row_count=rows,
            # Of staged rows the commit knows what is written.
            files_written=None if self.writer.staging else len(run.files),
            bytes_written=None if self.writer.staging else sum(file.size for file in run.files),
        )
        self._replace(lake, run)

    def _replace(self, lake: LakeSession, run: PartitionRun) -> None:
        files, staged = [file.uri for file in run.files], None
        columns = run.schema.names if run.schema and files else ()
        if self.writer.staging is not None and files:
            files, staged = [], Staged.of(run.files, self.writer.staging.key, self.stream.config.target_file_size)
        replacement = Replacement(
            self.stream.table,
            run.partition,
            files,
            run.manifest,
            run.row,
            columns=columns,
            schema=run.schema if self.writer.is_first else None,
            staged=staged,
        )
        run.done(commit(lake, replacement))

    def _without_rows(self, lake: LakeSession, run: PartitionRun, decision: Decision) -> None:
        """There is nothing to load."""
        run.decided(decision)
        match decision.action:
            case "leave_out":
                run.leave_out()
            case "fail":
                raise empty_source(self.stream, run.partition, decision)
            case "clear":
                run.files = []
                run.update(status="committed", row_count=0, files_written=0, bytes_written=0)
                self._replace(lake, run)
            case _:
                self._skip(lake, [run])

    def _skip(self, lake: LakeSession, runs: Sequence[PartitionRun]) -> None:
        now = dt.datetime.now(dt.UTC)
        for run in runs:
            run.update(status="skipped", finished_at=now)
        record(lake, [run.row for run in runs if run.is_recorded])
        for run in runs:
            run.done(run.row)

    @contextmanager
    def _together(self, step: str, runs: Sequence[PartitionRun]) -> Iterator[None]:
        """Time a step that some take together, each with its equal share; its error is everybody's."""
        start = time.perf_counter()
        try:
            yield
        except LakeAssetsError as error:
            self.broken = error
            _fail(still_open(runs), error)
        finally:
            for run in runs:
                run.add_seconds(step, (time.perf_counter() - start) / len(runs))


def _fail(runs: Iterable[PartitionRun], error: BaseException) -> None:
    for run in runs:
        run.fail(error)


def _groups(runs: Iterable[PartitionRun]) -> Iterator[list[PartitionRun]]:
    """The runs of one Spark job after the other."""
    group: list[PartitionRun] = []
    for run in runs:
        if group and sum(p.manifest.size for p in group) + run.manifest.size > GROUP_BYTES:
            yield group
            group = []
        group.append(run)
    if group:
        yield group
