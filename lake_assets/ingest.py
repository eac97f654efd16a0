"""The way of one partition: landed objects → manifest → Spark job → data files → one commit with its ledger row.

`plan` says what will be done, `ingest` does it. Both are called by the command line and by Dagster alike.
"""

import dataclasses
import datetime as dt
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession

from lake_assets.errors import EmptySourceError, LakeAssetsError, NoLakeError, SourceChangedError
from lake_assets.lake.commit import commit
from lake_assets.lake.ducklake import LakeSession
from lake_assets.lake.ledger import LedgerRow, create_ledger, last_fingerprint, ledger_table, record
from lake_assets.lake.replacement import Replacement, Statement, add_files_statement, delete_statement, where
from lake_assets.lake.tables import create_table, data_schema, prepare_table
from lake_assets.manifest import Manifest
from lake_assets.partition import Partition
from lake_assets.spark.job import Job, JobResult, PartitionJob, shares
from lake_assets.spark.lanes import apply_transform, pass_through, result_schema, source_frame, transformed
from lake_assets.spark.read import read_schema
from lake_assets.storage.arrow import ArrowStore
from lake_assets.stream import OpenStream

Sessions = Callable[[], SparkSession]
"""Gives the Spark session; called only when there is work for Spark."""

TRIES = 3  # how often a partition whose objects change under the job is read again


@dataclass(frozen=True, slots=True)
class Plan:
    """What an ingest of a partition would do now."""

    stream: str
    partition: Partition
    action: str  # one sentence
    source_glob: str
    manifest: Manifest
    fingerprint: str
    destination: str  # URI of the folder that new files go to
    table: str
    table_exists: bool
    rows_before: int
    files_written: int  # at most; a task without rows writes none
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What an ingest of a partition did: its ledger row, and what the ledger does not hold."""

    row: LedgerRow
    manifest: Manifest
    destination: str
    schema: pa.Schema | None  # of the table without its partition columns; None when Spark was not needed
    seconds: dict[str, float] = field(default_factory=dict)  # by step: list, check, job, commit


def plan(stream: OpenStream, partition: Partition, *, force: bool = False) -> Plan:
    """What `ingest` would do with the partition now; nothing is written, and no Spark session is started.

    Raises:
        LakeAssetsError: what `ingest` would raise before its job.
    """
    manifest = stream.manifest(partition)
    manifest.check()
    fingerprint = stream.fingerprint(manifest)
    exists, rows_before, last = _look(stream, partition)
    action = _action(stream, manifest, unchanged=last == fingerprint and not force)
    writes = action.startswith("replace")
    destination = f"{_lake_root(stream)}{stream.destination_folder(partition)}"
    statements: tuple[Statement, ...] = ()
    if writes or action.startswith("clear"):
        statements = (delete_statement(stream.table, partition),)
    if writes:
        statements += (add_files_statement(stream.table, [f"{destination}<run id>-<random>.parquet"]),)
    files = len(shares(manifest.objects, stream.config.target_file_size, 1)) if writes else 0
    return Plan(
        stream.name,
        partition,
        action,
        stream.source_glob(partition),
        manifest,
        fingerprint,
        destination,
        str(stream.table),
        exists,
        rows_before,
        files,
        statements,
    )


def ingest(
    stream: OpenStream,
    partition: Partition,
    sessions: Sessions,
    *,
    force: bool = False,
    run_id: str | None = None,
    run_at: dt.datetime | None = None,
) -> IngestResult:
    """Make the lake's partition what the landing zone's is; readers see the old rows or the new ones.

    Args:
        stream: whose partition it is.
        partition: which.
        sessions: gives the Spark session.
        force: read it even if its objects are those of the last commit.
        run_id: names the run in ledger and commit message; a new one when None.
        run_at: when the run began, with time zone; now when None.

    Returns:
        What was done. A partition that has not changed is `skipped`.

    Raises:
        LakeAssetsError: it failed; the old partition stands, and a `failed` ledger row says why where the catalog
            could still be reached.
    """
    return _Ingest(stream, partition, sessions, force=force, run_id=run_id, run_at=run_at).run()


class _Ingest:
    """One ingest under way."""

    def __init__(
        self,
        stream: OpenStream,
        partition: Partition,
        sessions: Sessions,
        *,
        force: bool,
        run_id: str | None,
        run_at: dt.datetime | None,
    ) -> None:
        self.stream = stream
        self.partition = partition
        self.sessions = sessions
        self.force = force
        self.seconds: dict[str, float] = {}
        self.manifest = Manifest(())
        self.schema: pa.Schema | None = None
        now = dt.datetime.now(dt.UTC)
        self.row = LedgerRow(
            run_id=run_id or str(uuid.uuid4()),
            run_at=run_at or now,
            stream=stream.name,
            source_glob=stream.source_glob(partition),
            destination_table=str(stream.table),
            partition_columns=",".join(column.name for column in partition.columns),
            load_partition=partition.path,
            mode=stream.config.mode,
            status="failed",
            started_at=now,
        )

    def run(self) -> IngestResult:
        try:
            for attempt in range(1, TRIES + 1):
                try:
                    return self._once()
                except SourceChangedError:
                    if attempt == TRIES:
                        raise
        except BaseException as error:
            self._record_failure(error)
            raise
        raise AssertionError  # the last attempt returned or raised

    def _once(self) -> IngestResult:
        with self._timed("list"):
            self.manifest = self.stream.manifest(self.partition)
        fingerprint = self.stream.fingerprint(self.manifest)
        self.row = dataclasses.replace(
            self.row,
            source_files=len(self.manifest.objects),
            source_bytes=self.manifest.size,
            source_fingerprint=fingerprint,
        )
        self.manifest.check()
        with self._timed("check"), self.stream.lake.open(create=True) as lake:
            create_ledger(lake)
            last = last_fingerprint(lake, self.stream.table, self.partition.path)
            if last == fingerprint and not self.force:
                return self._skip(lake)
            exists = lake.exists(self.stream.table)
            if not self.manifest.objects:
                return self._without_rows(lake, exists=exists)
            if exists:
                prepare_table(lake, self.stream.table)
                self.schema = data_schema(lake, self.stream.table, self.partition.columns)
        with self._timed("job"):
            result = self._job()
        if result.error is not None:
            raise result.error
        with self._timed("verify"):
            self._refuse_moved_source(fingerprint)
        with self._timed("commit"), self.stream.lake.open() as lake:
            if not sum(file.rows for file in result.files):
                return self._without_rows(lake, exists=lake.exists(self.stream.table))
            return self._commit(lake, result)

    def _job(self) -> JobResult:
        spark = self.sessions()
        if self.stream.config.transform is not None:
            return self._transform_job(spark)
        if self.schema is None:
            self._create_table(self._file_schema())
        return pass_through(spark, self._spec())[0]

    def _transform_job(self, spark: SparkSession) -> JobResult:
        transform = self.stream.config.transform
        assert transform is not None  # noqa: S101 - the caller looked
        frame = source_frame(spark, self._spec(), self._without_partition(self._file_schema()))
        result = apply_transform(spark, transform, frame)
        if self.schema is None:
            self._create_table(result_schema(result))
        return transformed(self._spec(), result)

    def _file_schema(self) -> pa.Schema:
        first = self.manifest.objects[0]
        return read_schema(ArrowStore(self.stream.config.source), first.key)

    def _without_partition(self, schema: pa.Schema) -> pa.Schema:
        names = {column.name.lower() for column in self.partition.columns}
        return pa.schema([column for column in schema if column.name.lower() not in names])

    def _create_table(self, schema: pa.Schema) -> None:
        with self.stream.lake.open() as lake:
            create_table(lake, self.stream.table, schema, self.partition.columns)
            prepare_table(lake, self.stream.table)
            self.schema = data_schema(lake, self.stream.table, self.partition.columns)

    def _spec(self) -> Job:
        config = self.stream.config
        folder = self.stream.destination_folder(self.partition)
        return Job(
            run_id=self.row.run_id,
            source=config.source,
            storage=self.stream.lake_config.storage,
            schema=self.schema,
            compression=config.compression,
            target_file_size=config.target_file_size,
            partitions=(PartitionJob(self.partition, self.manifest.objects, folder),),
        )

    def _refuse_moved_source(self, fingerprint: str) -> None:
        """The rows that were read are those of the manifest only if the objects are still the same."""
        if self.stream.fingerprint(self.stream.manifest(self.partition)) != fingerprint:
            raise SourceChangedError(
                f"the objects of {self.row.source_glob} changed {TRIES} times while they were being read:",
                "run it again when their writer has finished.",
            )

    def _commit(self, lake: LakeSession, result: JobResult) -> IngestResult:
        self.row = dataclasses.replace(
            self.row,
            status="committed",
            row_count=sum(file.rows for file in result.files),
            files_written=len(result.files),
            bytes_written=sum(file.size for file in result.files),
        )
        files = [file.uri for file in result.files]
        self.row = commit(lake, Replacement(self.stream.table, self.partition, files, self.manifest, self.row))
        return self._result()

    def _without_rows(self, lake: LakeSession, *, exists: bool) -> IngestResult:
        """There is nothing to load: the stream's policy says what that means."""
        policy = self.stream.config.on_empty
        self.row = dataclasses.replace(self.row, on_empty=policy)
        if policy == "fail":
            raise EmptySourceError(
                f"the source partition has no rows: {self.row.source_glob}:",
                "check that it has landed, or set on_empty to keep or clear.",
            )
        if policy == "keep" or not exists:
            return self._skip(lake)
        self.row = dataclasses.replace(self.row, status="committed", row_count=0, files_written=0, bytes_written=0)
        self.row = commit(lake, Replacement(self.stream.table, self.partition, (), self.manifest, self.row))
        return self._result()

    def _skip(self, lake: LakeSession) -> IngestResult:
        self.row = dataclasses.replace(self.row, status="skipped", finished_at=dt.datetime.now(dt.UTC))
        record(lake, self.row)
        return self._result()

    def _record_failure(self, error: BaseException) -> None:
        """A `failed` ledger row, where the catalog can be reached; the error itself is what matters."""
        self.row = dataclasses.replace(
            self.row,
            status="failed",
            error=f"{type(error).__name__}: {error}",
            finished_at=dt.datetime.now(dt.UTC),
        )
        try:
            with self.stream.lake.open(create=True) as lake:
                create_ledger(lake)
                record(lake, self.row)
        except LakeAssetsError as second:
            error.add_note(f"No ledger row could be written: {second}")

    def _result(self) -> IngestResult:
        destination = f"{_lake_root(self.stream)}{self.stream.destination_folder(self.partition)}"
        return IngestResult(self.row, self.manifest, destination, self.schema, self.seconds)

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0) + time.perf_counter() - start


def _lake_root(stream: OpenStream) -> str:
    return ArrowStore(stream.lake_config.storage).uri("")


def _look(stream: OpenStream, partition: Partition) -> tuple[bool, int, str | None]:
    """Whether the table exists, how many rows the partition has, and its last fingerprint."""
    try:
        with stream.lake.open(read_only=True) as lake:
            if not lake.exists(stream.table):
                return False, 0, None
            condition, parameters = where(partition)
            ((rows,),) = lake.rows(f"SELECT count(*) FROM {stream.table.sql} WHERE {condition}", parameters)  # noqa: S608
            ledger = lake.exists(ledger_table(lake.config))
            last = last_fingerprint(lake, stream.table, partition.path) if ledger else None
            return True, rows, last
    except NoLakeError:
        return False, 0, None


def _action(stream: OpenStream, manifest: Manifest, *, unchanged: bool) -> str:
    if unchanged:
        return "skip: the objects are those of the last commit"
    if manifest.objects:
        return "replace the partition"
    policy = stream.config.on_empty
    return {
        "fail": "fail: the source partition has no objects, and on_empty is fail",
        "keep": "keep the partition: its source has no objects, and on_empty is keep",
        "clear": "clear the partition: its source has no objects, and on_empty is clear",
    }[policy]
