"""Mode replace and append: list, decide, write in one Spark job, and commit."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any

from pyspark.sql import SparkSession

from lake_assets.errors import LakeAssetsError, SchemaDriftError, StorageUnreachableError
from lake_assets.events import about, step
from lake_assets.ingest.compare_objects import moved_since
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.outcome import Outcome
from lake_assets.ingest.partition_run import PartitionRun, chunks, fail_all, record_failures, share_refusal, still_open
from lake_assets.ingest.plan import Planner
from lake_assets.ingest.replace.commit_step import LISTINGS, Committer
from lake_assets.ingest.replace.write_step import Writer
from lake_assets.lake.ledger.tables import create_ledger
from lake_assets.layout.partition import Partition
from lake_assets.spark.session import Sessions
from lake_assets.storage.retry_window import using
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream

# The limits of one Spark job, in partitions and in bytes of landed objects. Each job takes 0.2 s to schedule, and
# nothing is committed before it ends. `commit_batch` of a stream is at most the partitions of a job.
GROUP_PARTITIONS = 200
GROUP_BYTES = 2**30


class ReplaceRun:
    """One run over partitions of a stream. Each step processes some of them, and sets the error of those that fail."""

    def __init__(
        self,
        stream: OpenStream,
        sessions: Sessions,
        options: IngestOptions,
        checkpoint: Callable[[], None],
    ) -> None:
        self.stream = stream
        self.sessions = sessions
        self.checkpoint = checkpoint
        self.planned = options.planned
        self.broken: Exception | None = None  # an error that every other partition would have too
        self.writer = Writer(stream, checkpoint)
        self.planner = Planner(stream, options)
        self.committer = Committer(stream, self.writer, self.planner, checkpoint)
        self._spark: SparkSession | None = None

    def replace(self, runs: Sequence[PartitionRun]) -> Iterator[Outcome]:
        """Run all steps for some partitions, and again for those whose objects change during the run."""
        remaining = list(runs)
        while remaining:
            if self.broken is None:
                self._list(remaining)
                self._refuse_moved(still_open(remaining))
                self._check(still_open(remaining))
            else:
                fail_all(remaining, self.broken)
            for group in chunks(still_open(remaining), GROUP_BYTES, lambda run: run.reads.size):
                self._write(group)
                for chunk in chunks(still_open(group), self.committer.at_once):
                    self._commit(chunk)
                    yield from self._outcomes(chunk)
                self._evolve(group)
                self._quarantine(group)
                self.writer.unstage()
            yield from self._outcomes(remaining)
            remaining = [run for run in remaining if run.try_again()]

    def _outcomes(self, runs: Sequence[PartitionRun]) -> Iterator[Outcome]:
        """Yield the outcomes of the partitions that have ended since the last call."""
        ended = [run for run in runs if run.has_ended]
        if any(run.error is not None for run in ended):
            self.checkpoint()  # an interrupt ends the run; its errors are not those of the partitions
        record_failures(self.stream, [run for run in ended if run.error is not None])
        for run in ended:
            yield run.report()

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
                first.set_manifest(self.stream.manifest(first.partition))
            if isinstance(first.error, StorageUnreachableError):
                with probing:
                    if self.broken is None and not Store(self.stream.config.source).answers():
                        self.broken = first.error
                first.fail(self.broken or first.error)
            for run in others:
                with run.step("list"):
                    if first.error is not None:
                        raise first.error
                    run.set_manifest(first.manifest)

        with ThreadPoolExecutor(LISTINGS) as pool:
            list(pool.map(list_path_part, path_parts.values()))
        self.checkpoint()

    def _refuse_moved(self, runs: Sequence[PartitionRun]) -> None:
        """Fail partitions whose objects are not those of the plan; the ledger has no row of them."""
        moved = moved_since(self.stream, self.planned, {run.partition: run.manifest for run in runs})
        for run in runs:
            if (error := moved.get(run.partition)) is not None:
                run.is_recorded = False
                run.fail(error)

    def _check(self, runs: Sequence[PartitionRun]) -> None:
        """Skip unchanged partitions, and apply `on_empty` to those without objects."""
        if not runs:
            return
        with self._together("check", runs), self.stream.lake.open(create=True) as lake:
            create_ledger(lake)
            plans = self.planner.plan(lake, {run.partition: run.manifest for run in runs})
            if plans[0].table_exists:
                self.writer.prepare(lake)
            unchanged = []
            for run, plan in zip(runs, plans, strict=True):
                run.schema = self.writer.schema
                run.set_plan(plan)
                decision = plan.decision
                if decision.action == "skip" and decision.on_empty is None:
                    run.update(files_quarantined=None)  # this run reads none
                    unchanged.append(run)
                elif decision.action not in ("replace", "append"):
                    with run.step("commit"):
                        self.committer.make(lake, run, self.committer.without_rows(lake, run, decision))
                elif self.stream.config.mode == "append":
                    with run.step("check"):
                        run.begin()
            self.committer.skip(lake, unchanged)
        self.checkpoint()

    def _write(self, runs: Sequence[PartitionRun]) -> None:
        """Write data files that no reader sees yet, in one Spark job."""
        if self.broken is not None:
            fail_all(runs, self.broken)
            return
        runs = [run for run in runs if run.reads.read]  # others have no object that can be read, and no rows
        if not runs:
            return
        try:
            with _shared("start" if self._spark is None else None, runs):
                self._spark = self.sessions()
            storages = (self.stream.config.source, *self.stream.lake_config.storages)
            with _shared("job", runs) as figures, using(*storages):
                self.writer.write(self._spark, self.sessions, runs)
                figures.update(_written(runs))
        except LakeAssetsError as error:
            self._break(error, still_open(runs))
        else:
            share_refusal(runs)

    def _break(self, error: LakeAssetsError, runs: Sequence[PartitionRun]) -> None:
        """Fail these partitions, of which nothing is committed, and all that follow with the same error."""
        self.broken = error
        fail_all(runs, error)
        self.writer.discard(runs)

    def _evolve(self, runs: Sequence[PartitionRun]) -> None:
        """Change the table to the columns that these partitions were found to have; they are then read again."""
        drifted = [run for run in runs if isinstance(run.error, SchemaDriftError)]
        if not drifted:
            return
        with self._together("evolve", drifted), self.stream.lake.open() as lake:
            self.writer.evolve(lake, drifted)
        self.checkpoint()

    def _quarantine(self, runs: Sequence[PartitionRun]) -> None:
        """Find the bad objects of failed partitions, which are then read again without them."""
        for run in runs:
            if self.broken is None and run.may_examine:
                with run.step("examine"):
                    run.quarantine(self.writer.bad_objects(self.sessions(), run))
                self.checkpoint()

    def _commit(self, runs: Sequence[PartitionRun]) -> None:
        self.committer.verify(runs)
        runs = still_open(runs)
        try:
            self.committer.commit(runs)
        except LakeAssetsError as error:
            self._break(error, still_open(runs))

    @contextmanager
    def _together(self, name: str, runs: Sequence[PartitionRun]) -> Iterator[None]:
        """Time a step of several partitions, in equal shares; an error of the step fails all of them."""
        start = time.perf_counter()
        try:
            with _shared(name, runs):
                yield
        except LakeAssetsError as error:
            self.broken = error
            fail_all(still_open(runs), error)
        finally:
            for run in runs:
                run.add_seconds(name, (time.perf_counter() - start) / len(runs))


@contextmanager
def _shared(name: str | None, runs: Sequence[PartitionRun]) -> Iterator[dict[str, Any]]:
    """Report a step of several partitions as one event; without a name, report nothing."""
    first, *others = runs
    fields = {"partition": first.row.load_partition} if not others else {"partitions": len(runs)}
    with about(run=first.row.run_id, stream=first.row.stream):
        if name is None:
            yield {}
        else:
            with step(name, **fields) as figures:
                yield figures


def _written(runs: Sequence[PartitionRun]) -> dict[str, int | None]:
    """Return what a job has read and written, over all its partitions, and how many of them failed."""
    files = [file for run in runs for file in run.files]
    rows, size = sum(file.rows for file in files), sum(file.size for file in files)
    failed = sum(run.error is not None for run in runs) or None
    objects = sum(len(run.reads.read) for run in runs)
    return {"objects": objects, "files": len(files), "rows": rows, "bytes": size, "failed": failed}
