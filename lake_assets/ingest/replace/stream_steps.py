"""The steps of one stream in a run of mode replace or append: list, decide, write, verify, and what to commit."""

import datetime as dt
import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from threading import Lock

from lake_assets.base.errors import (
    LakeAssetsError,
    NoLakeError,
    ObjectRefusedError,
    SchemaDriftError,
    StorageUnreachableError,
)
from lake_assets.base.progress import checkpoint
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.compare_objects import note_new_versions
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.ingest.plan import Planner
from lake_assets.ingest.replace.write_step import Writer
from lake_assets.ingest.run import end_by_plans, fail_all, reported_step, skip, still_open
from lake_assets.lake.commit.change import Change, New, Requirements, Staged, Written
from lake_assets.lake.ledger.tables import LETTERS, MANIFEST, create_ledger, letter_values, record
from lake_assets.lake.session import LakeSession
from lake_assets.spark.remote import kept_session
from lake_assets.spark.spark_session import Sessions
from lake_assets.spark.task.shares import SMALL_OBJECT
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream

_LOG = logging.getLogger(__name__)

LISTINGS = 16  # in parallel: most of the time is network latency


class StreamSteps:
    """What a run does with partitions of one stream, whose files Spark's tasks write."""

    def __init__(self, stream: OpenStream, options: IngestOptions, sessions: Sessions) -> None:
        self.stream = stream
        self.options = options
        self.planner = Planner(stream, options)
        self.broken: Exception | None = None  # an error that every other partition would have too
        self.sessions = sessions
        self.writer = Writer(stream)
        self._has_session = False

    def plan(self, runs: Sequence[PartitionRun]) -> None:
        """List the objects of the partitions, and decide what becomes of each."""
        self._list(runs)
        if not (runs := still_open(runs)):
            return
        with self._together("check", runs), ExitStack() as stack:
            lake: LakeSession | None = None
            with suppress(NoLakeError):
                lake = stack.enter_context(self.stream.lake.open())
            self._decide(lake, runs)
            if lake is None and still_open(runs):
                create_ledger(stack.enter_context(self.stream.lake.open(create=True)))
        checkpoint()

    def _decide(self, lake: LakeSession | None, runs: Sequence[PartitionRun]) -> None:
        plans = self.planner.plan(lake, {run.partition: run.outcome.manifest for run in runs})
        for run, plan in zip(runs, plans, strict=True):
            run.set_plan(plan)
        skipped = end_by_plans(runs)
        if lake is not None and (skipped or still_open(runs)):
            create_ledger(lake)
            note_new_versions(
                lake, self.stream, {p.partition: p.compared for p in plans if p.decision.action != "replace"}
            )
            if plans[0].table_exists:
                self.writer.prepare(lake)
                for run in still_open(runs)[:1]:
                    self.writer.add_file_columns(lake, run)
        for run in runs:
            run.outcome.schema = self.writer.schema
        skip(lake, self.stream, skipped)

    def _list(self, runs: Sequence[PartitionRun]) -> None:
        path_parts: dict[Partition, list[PartitionRun]] = {}
        for run in runs:
            path_parts.setdefault(run.partition.path_part, []).append(run)

        probing = Lock()

        def list_path_part(sharing: list[PartitionRun]) -> None:
            first, *others = sharing
            with first.step("list"):
                if self.broken is not None:
                    raise self.broken
                landed = self.stream.landed_at(first.partition)
                held = self.stream.holding(landed, [run.partition for run in sharing])
                first.set_manifest(held[first.partition])
            if isinstance(first.error, StorageUnreachableError):
                with probing:
                    if self.broken is None and not Store(self.stream.config.source).is_reachable():
                        self.broken = first.error
                first.fail(self.broken or first.error)
            for run in others:
                with run.step("list"):
                    if first.error is not None:
                        raise first.error
                    run.set_manifest(held[run.partition])

        with ThreadPoolExecutor(LISTINGS) as pool:
            list(pool.map(list_path_part, path_parts.values()))
        checkpoint()

    def write(self, runs: Sequence[PartitionRun]) -> None:
        """Write data files that no reader sees yet, in one Spark job."""
        if self.broken is not None:
            fail_all(runs, self.broken)
            return
        runs = [run for run in runs if run.reads.read]  # others have no object that can be read, and no rows
        if not runs:
            return
        try:
            sessions = kept_session(self.sessions)
            with reported_step(self.stream, self.options, None if self._has_session else "start", runs):
                sessions()
            self._has_session = True
            with reported_step(self.stream, self.options, "job", runs) as figures:
                self.writer.write(sessions, runs)
                figures.update(_written(runs))
        except LakeAssetsError as error:
            self._break(error, still_open(runs))
        else:
            refused = [run.error for run in runs if isinstance(run.error, ObjectRefusedError)]
            if len(refused) == len(runs):  # the whole bucket is refused
                fail_all(runs, refused[0])

    def _break(self, error: LakeAssetsError, runs: Sequence[PartitionRun]) -> None:
        """Fail these partitions, of which nothing is committed, and all that follow with the same error."""
        self.broken = error
        fail_all(runs, error)
        self.writer.discard(runs)

    def evolve(self, runs: Sequence[PartitionRun]) -> None:
        """Change the table to the columns that these partitions were found to have; they are then read again."""
        drifted = [run for run in runs if isinstance(run.error, SchemaDriftError)]
        if not drifted:
            return
        with self._together("evolve", drifted), self.stream.lake.open() as lake:
            self.writer.evolve(lake, drifted)
        checkpoint()

    def quarantine(self, runs: Sequence[PartitionRun]) -> None:
        """Find the bad objects of failed partitions, which are then read again without them."""
        for run in runs:
            if self.broken is None and run.may_examine:
                with run.step("examine"):
                    run.quarantine(self.writer.bad_objects(self.sessions(), run))
                checkpoint()

    def verify(self, runs: Sequence[PartitionRun]) -> None:
        """Compare the objects of the partitions with those that were read; the files of a changed one are removed."""

        def compare(run: PartitionRun) -> None:
            with run.step("verify"):
                run.refuse_moved_source()
                if run.adds:
                    run.written.digests |= self._checksums(run)

        if self.stream.commit_batch == 1:
            for run in runs:
                compare(run)
        else:  # one after the other, the listings would take longer than the commit
            with ThreadPoolExecutor(LISTINGS) as pool:
                list(pool.map(compare, runs))
        self.writer.discard([run for run in runs if run.error is not None])

    def _checksums(self, run: PartitionRun) -> dict[str, str]:
        """Return what the store keeps of the content of large objects, of which no task has read all bytes; by key."""
        objects = [obj for obj in run.reads.read if obj.size > SMALL_OBJECT and obj.key not in run.written.digests]
        return {o.key: text for o in objects if (text := self.stream.source.checksum(o.key, o.etag))}

    def change(self, lake: LakeSession, run: PartitionRun) -> Change | None:
        """Return what to commit of a partition whose rows are written; None if nothing is."""
        rows = sum(file.rows for file in run.written.files)
        left_out = sum(letter.rows for letter in run.written.letters)
        # A partition all of whose rows are left out has rows in its objects, so `on_empty` does not decide.
        read = rows + left_out
        # The commit of another partition may have created the table.
        has_table = read > 0 or lake.exists(self.stream.table)
        decision = self.planner.decide(replace(run.plan, rows=read, table_exists=has_table), lake)
        if decision.action not in ("replace", "append"):
            run.set_plan(replace(run.plan, decision=decision))
        match decision.action:
            case "replace" | "append":
                run.update(
                    row_count=rows,
                    # If the rows are staged, only the commit knows what is written.
                    files_written=None if self.writer.staging else len(run.written.files),
                    bytes_written=None if self.writer.staging else sum(file.size for file in run.written.files),
                    files_copied=sum(file.is_copy for file in run.written.files),
                    rows_dead_lettered=left_out if self.stream.letters is not None else None,
                )
            case "clear":
                run.written.files, run.written.letters = [], []
                run.update(row_count=0, files_written=0, bytes_written=0, files_copied=0)
            case "fail":
                raise decision.errors[0]
            case "leave_out":
                # Its objects were read for nothing. By this row it is not pending again until they change.
                record(lake, [replace(run.row, status="skipped", finished_at=dt.datetime.now(dt.UTC))])
                run.leave_out()
                return None
            case _:
                skip(lake, self.stream, end_by_plans([run]))
                return None
        run.update(status="committed")
        columns = run.outcome.schema.names if run.outcome.schema and run.written.files else ()
        new: New = Written(run.written.files, columns)
        if self.writer.staging is not None and run.written.files:
            new = Staged.of(run.written.files, self.writer.staging.key, columns, self.stream.config.target_file_size)
        return Change(
            self.stream.table,
            run.partition,
            run.row,
            new,
            adds=run.adds,
            appends={MANIFEST: run.noted, LETTERS: letter_values(run.written.letters)},
            requires=Requirements(
                objects=run.expected,
                schema=run.outcome.schema if self.writer.is_first else None,
                may_be_held=run.plan.is_held,
                was_committed=run.plan.last is not None,
                planned=None if run.expected else run.plan.planned,
            ),
            export=self.stream.export,
        )

    @contextmanager
    def _together(self, name: str, runs: Sequence[PartitionRun]) -> Iterator[None]:
        """Time a step of several partitions, in equal shares; an error of the step fails all of them."""
        start = time.perf_counter()
        try:
            with reported_step(self.stream, self.options, name, runs):
                yield
        except LakeAssetsError as error:
            self.broken = error
            fail_all(still_open(runs), error)
        finally:
            for run in runs:
                run.add_seconds(name, (time.perf_counter() - start) / len(runs))


def _written(runs: Sequence[PartitionRun]) -> dict[str, int | None]:
    """Return what a job has read and written, over all its partitions, and how many of them failed."""
    files = [file for run in runs for file in run.written.files]
    rows, size = sum(file.rows for file in files), sum(file.size for file in files)
    failed = sum(run.error is not None for run in runs) or None
    objects = sum(len(run.reads.read) for run in runs)
    return {"objects": objects, "files": len(files), "rows": rows, "bytes": size, "failed": failed}
