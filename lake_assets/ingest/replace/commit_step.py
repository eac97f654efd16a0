"""The last steps of a run in mode replace or append: verify, and commit each partition by itself or in batches."""

import datetime as dt
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lake_assets.ingest.partition_run import PartitionRun, chunks, fail_all, record_skipped, still_open
from lake_assets.ingest.plan import Decision, Planner, empty_source
from lake_assets.ingest.replace.write_step import Writer
from lake_assets.lake.commit.change import Change, New, Requirements, Staged, UnknownCommitError, Written
from lake_assets.lake.commit.strategy import OF_ALL, UNDONE, commit
from lake_assets.lake.ledger.tables import LETTERS, MANIFEST, letter_values, manifest_values
from lake_assets.lake.session import LakeSession
from lake_assets.streams.stream import OpenStream

_LOG = logging.getLogger(__name__)

COMMITS = 25  # of partitions, for each time the lake is opened; another process may need a DuckDB-file catalog too
LISTINGS = 16  # in parallel: most of the time is network latency


class Committer:
    """Commits partitions of one stream whose rows are written, for one run.

    Attributes:
        at_once: partitions to commit for each time the lake is opened: whole batches.
    """

    def __init__(self, stream: OpenStream, writer: Writer, planner: Planner, checkpoint: Callable[[], None]) -> None:
        self._stream = stream
        self._writer = writer
        self._planner = planner
        self._checkpoint = checkpoint
        self._batch = stream.config.commit_batch
        self.at_once = max(COMMITS // self._batch, 1) * self._batch

    def verify(self, runs: Sequence[PartitionRun]) -> None:
        """Compare the objects of the partitions with those that were read; the files of a changed one are removed."""

        def compare(run: PartitionRun) -> None:
            with run.step("verify"):
                run.refuse_moved_source()

        if self._batch == 1:
            for run in runs:
                compare(run)
        else:  # one after the other, the listings would take longer than the commit
            with ThreadPoolExecutor(LISTINGS) as pool:
                list(pool.map(compare, runs))
        self._writer.discard([run for run in runs if run.error is not None])

    def commit(self, runs: Sequence[PartitionRun]) -> None:
        """Commit partitions; an error fails its partition only.

        Raises:
            LakeAssetsError: the remaining partitions, which are open, would have the error too.
        """
        start = time.perf_counter()
        try:
            with self._stream.lake.open() as lake:
                opening = (time.perf_counter() - start) / max(len(runs), 1)
                for run in runs:
                    run.add_seconds("commit", opening)
                for batch in chunks(runs, self._batch):
                    alone = batch if len(batch) == 1 else self._commit_together(lake, batch)
                    for run in alone:
                        with run.step("commit"):
                            self.make(lake, run, self._change(lake, run))
                        self._end_if_broken([run])
        finally:
            self._writer.discard([run for run in runs if isinstance(run.error, UNDONE)])

    def _commit_together(self, lake: LakeSession, runs: Sequence[PartitionRun]) -> Sequence[PartitionRun]:
        """Commit partitions in one transaction; returns those that are to be committed one by one instead."""
        start = time.perf_counter()
        ready: list[tuple[PartitionRun, Change]] = []
        for run in runs:
            with run.keeping_error():
                if (change := self._change(lake, run)) is not None:
                    ready.append((run, change))
        if len(ready) > 1:
            try:
                committed = commit(lake, [change for _, change in ready])
            except (*OF_ALL, UnknownCommitError) as error:
                fail_all((run for run, _ in ready), error)
            except Exception as error:  # noqa: BLE001 - each partition shows its own
                level = logging.INFO if isinstance(error, UNDONE) else logging.WARNING
                _LOG.log(level, "%d partitions are committed one by one: %s", len(ready), error)
            else:
                for (run, _), one in zip(ready, committed, strict=True):
                    run.finish(one.row, one.delta)
        share = (time.perf_counter() - start) / len(runs)
        alone = still_open(runs)
        for run in runs:
            run.add_seconds("commit", share)
            if run not in alone:
                run.report_step("commit", share)
        self._end_if_broken(runs)
        return alone

    def _end_if_broken(self, runs: Sequence[PartitionRun]) -> None:
        """End the run if it is to end, or if every other partition would have an error of these too."""
        self._checkpoint()
        for run in runs:
            if isinstance(run.error, OF_ALL):
                raise run.error

    def make(self, lake: LakeSession, run: PartitionRun, change: Change | None) -> None:
        """Make the commit of one partition, if there is one to make."""
        if change is not None:
            (committed,) = commit(lake, [change])
            run.finish(committed.row, committed.delta)

    def _change(self, lake: LakeSession, run: PartitionRun) -> Change | None:
        """Return what to commit of a partition whose rows are written; None if nothing is."""
        rows = sum(file.rows for file in run.files)
        left_out = sum(letter.rows for letter in run.letters)
        # A partition all of whose rows are left out has rows in its objects, so `on_empty` does not decide.
        found = rows + left_out
        # The commit of another partition may have created the table.
        has_table = found > 0 or lake.exists(self._stream.table)
        decision = self._planner.decide(replace(run.plan, rows=found, table_exists=has_table), lake)
        if decision.action not in ("replace", "append"):
            return self.without_rows(lake, run, decision)
        run.update(
            status="committed",
            row_count=rows,
            # If the rows are staged, only the commit knows what is written.
            files_written=None if self._writer.staging else len(run.files),
            bytes_written=None if self._writer.staging else sum(file.size for file in run.files),
            files_copied=sum(file.is_copy for file in run.files),
            rows_dead_lettered=left_out if self._stream.letters is not None else None,
        )
        return self._change_of(run)

    def _change_of(self, run: PartitionRun) -> Change:
        columns = run.schema.names if run.schema and run.files else ()
        new: New = Written(run.files, columns)
        if self._writer.staging is not None and run.files:
            new = Staged.of(run.files, self._writer.staging.key, columns, self._stream.config.target_file_size)
        return Change(
            self._stream.table,
            run.partition,
            run.row,
            new,
            adds=run.adds,
            appends={MANIFEST: manifest_values(run.reads), LETTERS: letter_values(run.letters)},
            requires=Requirements(
                objects=run.expected,
                schema=run.schema if self._writer.is_first else None,
                may_be_held=run.plan.is_held,
                was_committed=run.plan.last is not None,
            ),
            export=self._stream.export,
        )

    def without_rows(self, lake: LakeSession, run: PartitionRun, decision: Decision) -> Change | None:
        """Apply the decision on a partition that has nothing to load, or has changed objects in mode append.

        Returns:
            The commit that clears the partition, if it is to be cleared.

        Raises:
            SourceError: the decision is to fail.
            CatalogError: the ledger cannot be written.
        """
        run.set_decision(decision)
        match decision.action:
            case "leave_out":
                run.leave_out()
            case "fail" if decision.on_empty is None:
                raise run.plan.compared.refusal(run.partition)
            case "fail":
                raise empty_source(self._stream, run.partition, decision)
            case "clear":
                run.files, run.letters = [], []
                run.update(status="committed", row_count=0, files_written=0, bytes_written=0, files_copied=0)
                return self._change_of(run)
            case _:
                if decision.on_empty is not None and run.manifest.left_out:
                    run.update(source_fingerprint=None)  # report and checks say that the objects are not in the lake
                self.skip(lake, [run])
        return None

    def skip(self, lake: LakeSession, runs: Sequence[PartitionRun]) -> None:
        """End partitions of which nothing is committed."""
        now = dt.datetime.now(dt.UTC)
        for run in runs:
            run.update(status="skipped", finished_at=now)
        record_skipped(lake, self._stream, runs)
        for run in runs:
            run.finish(run.row)
