"""The Spark step of an ingest: it creates the table if necessary, and writes data files that no reader sees yet."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lake_assets.base.errors import (
    LakeAssetsError,
    SchemaDriftError,
    SchemaError,
    SparkUnavailableError,
    StorageUnreachableError,
    WholeStorageError,
)
from lake_assets.base.events import checkpoint
from lake_assets.config.storages import AnyStorage
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.ingest.run import still_open
from lake_assets.lake.session import LakeSession
from lake_assets.lake.table_setup import (
    Evolution,
    create_table,
    declared_schema,
    is_never_filled,
    prepare_table,
    rules_of_table,
    untyped_schema,
)
from lake_assets.schema.arrow_types import with_null_parts
from lake_assets.schema.fitter import Fitter
from lake_assets.spark.task.job import MARK, Job, JobResult, PartitionJob, StagingKey, discard, discard_failed
from lake_assets.spark.task.write import Staging
from lake_assets.storage.formats.any_format import NO_COLUMNS
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lake_assets.spark.spark_session import Sessions


class Writer:
    """Writes partitions of one stream, for one run."""

    def __init__(self, stream: OpenStream) -> None:
        lake = stream.lake_config
        self.stream = stream
        # Of the data files; None while there is no table, or one that was never filled
        self.schema: pa.Schema | None = None
        self._known: pa.Schema | None = None  # as of `Job`
        # The table was never filled when this run read its columns, so another run may change them
        self.is_first = False
        # The staged files, in a lake that takes rows by INSERT only; None in others
        self.staging = Staging(lake.staging_storage) if lake.inserts_only else None
        self._landed = stream.landed
        self._has_staged = False
        self._snapshot: int | None = None  # in which transforms read other tables
        self._state = ""  # of these before it
        self._storage_error: WholeStorageError | None = None

    def prepare(self, lake: LakeSession) -> None:
        """Prepare the destination table and read its columns, unless the table was never filled."""
        if is_never_filled(lake, self.stream.table):
            self.schema = None
        else:
            self._read_schema(lake)

    def add_file_columns(self, lake: LakeSession, run: PartitionRun) -> None:
        """Add the stream's file_columns that the table lacks, by any `schema_policy`: they are not of landed files."""
        stream, added = self.stream, self._landed.added
        if self.schema is None or added is None or stream.config.transform is not None:
            return
        if lacking := added.lacking(self.schema):
            evolution = Evolution(lake, stream.partitioned_table, run.row.run_id)
            run.outcome.changes += tuple(evolution.take([("file_columns", lacking)]))
            self.prepare(lake)

    def _read_schema(self, lake: LakeSession) -> None:
        prepare_table(lake, self.stream.table, self.stream.config.compression)
        rules = rules_of_table(lake, self.stream.table, self._landed.rules)
        self.schema = declared_schema(lake, self.stream.partitioned_table, rules)
        self._landed = replace(self._landed, rules=rules)
        self._known = untyped_schema(lake, self.stream.table, self.schema, rules.types)

    def write(self, sessions: "Sessions", runs: Sequence[PartitionRun]) -> None:
        """Write the objects of these partitions as data files, in one Spark job; an error fails its partition only.

        A job whose session a Spark Connect server has lost is repeated once, in a new one.
        """
        from lake_assets.spark.cluster import in_a_session, report_retry  # noqa: PLC0415 - a run with nothing new needs no Spark
        from lake_assets.spark.spark_jobs import pass_through  # noqa: PLC0415

        start = time.perf_counter()
        if self.stream.config.transform is not None:
            for run in runs:
                with run.step("job"):
                    self._set_files(run, in_a_session(sessions, partial(self._transform_job, run=run)))
                checkpoint()
                self._raise_shared(run.error)
            return
        self._make_table(runs)
        runs = still_open(runs)
        if not runs:
            return
        try:
            job = self._job(runs)
            results = in_a_session(sessions, lambda session: pass_through(session, job))
        except LakeAssetsError as error:
            checkpoint()
            self._raise_shared(error)
            if len(runs) > 1:
                # One partition failed the whole job. Alone, it fails only itself.
                report_retry(error)
                for run in runs:
                    self.write(sessions, [run])
                return
            results = [JobResult(error=error)]
        seconds = (time.perf_counter() - start) / len(runs)
        for run, result in zip(runs, results, strict=True):
            run.add_seconds("job", seconds)
            with run.step("job"):
                self._set_files(run, result)
        checkpoint()

    def _raise_shared(self, error: BaseException | None) -> None:
        """Raise the error if every other partition would have it too."""
        if isinstance(error, SparkUnavailableError):
            raise error
        # If the storage answers, only some object cannot be reached.
        storages = (self.stream.config.source, self._destination)
        if isinstance(error, StorageUnreachableError) and not all(
            Store(storage).is_reachable() for storage in storages
        ):
            raise error

    def evolve(self, lake: LakeSession, drifted: Sequence[PartitionRun]) -> None:
        """Change the table to the columns that these partitions were found to have, or to those that it can have."""
        for run in drifted:
            drift = run.error
            assert isinstance(drift, SchemaDriftError)  # noqa: S101 - the caller checks
            try:
                self._evolve(lake, drift.schemas, run)
            except LakeAssetsError as error:
                run.fail(error)
                run.refuses_drift = run.quarantines
                for of_object in drift.schemas if run.quarantines else ():
                    with suppress(SchemaError):  # such an object is quarantined
                        self._evolve(lake, [of_object], run)
        self.prepare(lake)

    def _evolve(self, lake: LakeSession, schemas: Sequence[tuple[str, pa.Schema]], run: PartitionRun) -> None:
        evolution = Evolution(lake, self.stream.partitioned_table, run.row.run_id)
        run.outcome.changes += tuple(evolution.take(schemas, self._landed.rules.of_table, self._known))

    def bad_objects(self, spark: "SparkSession", run: PartitionRun) -> dict[str, str]:
        """Return why objects of a failed partition are damaged or do not fit, by key; all its objects are read for it.

        The result is empty if no object caused the partition's error.
        """
        from lake_assets.spark.spark_jobs import bad_objects  # noqa: PLC0415 - a run with nothing new needs no Spark
        from lake_assets.spark.transform_job import types_for_spark  # noqa: PLC0415

        known = self.schema if self.schema is not None and self.stream.config.transform is None else NO_COLUMNS
        bad = self._landed.unreadable([obj.key for obj in run.reads.read], known)
        if bad:
            return bad
        schema = self.schema
        if self.stream.config.transform is not None:
            schema = types_for_spark(self._source_schema(run))
        elif schema is None:
            # The table could not be created from the first object.
            return {run.reads.read[0].key: str(run.error)}
        result = bad_objects(spark, self._job([run]), schema, refuses_drift=run.refuses_drift)
        if result.error is not None:
            raise result.error
        return result.refused

    def discard(self, runs: Sequence[PartitionRun]) -> None:
        """Remove the data files of partitions that failed before their commit, as far as the store allows."""
        for run in runs:
            discard(self._destination, [file.uri for file in run.written.files])
            run.written.files = []
            if run.written.letters and (rules := self.stream.letters) is not None:
                discard(rules.storage, [letter.uri for letter in run.written.letters])
            run.written.letters = []

    def unstage(self) -> None:
        """Remove the staged files: their rows are in the lake, or not needed any more."""
        if self.staging is not None and self._has_staged:
            self.staging.clear()

    @property
    def _destination(self) -> AnyStorage:
        """The storage that the tasks write to."""
        return self.staging.storage if self.staging else self.stream.lake_config.own_storage

    def _set_files(self, run: PartitionRun, result: JobResult) -> None:
        if isinstance(result.error, WholeStorageError):
            # Each task names an object of its own; all partitions get the first error.
            self._storage_error = self._storage_error or result.error
            raise self._storage_error
        if result.error is not None:
            raise result.error
        run.written = result
        run.outcome.schema = self.schema

    def _make_table(self, runs: Sequence[PartitionRun]) -> None:
        """Create the table from the first object that can be read, with types of others for columns without values."""
        for run in runs:
            if self.schema is not None:
                return
            with run.step("job"):
                keys = [obj.key for obj in run.reads.read]
                self._create_table(
                    self._landed.sampled(keys), f"the object {run.reads.read[0].uri}", self._landed.later(keys)
                )

    def _transform_job(self, spark: "SparkSession", run: PartitionRun) -> JobResult:
        from lake_assets.spark.spark_errors import spark_errors  # noqa: PLC0415 - a run with nothing new needs no Spark
        from lake_assets.spark.spark_jobs import dead_letters_of  # noqa: PLC0415
        from lake_assets.spark.transform_job import (  # noqa: PLC0415
            RESULT,
            apply_transform,
            result_schema,
            source_frame,
            transformed,
            types_for_spark,
        )

        transform = self.stream.config.transform
        assert transform is not None  # noqa: S101 - the caller checks
        others = self._joined(spark, run)
        with spark_errors(transform):
            frame = source_frame(spark, self._job([run]), self._source_schema(run))
            result = apply_transform(spark, transform, frame, others)
            schema = result_schema(result)
        if self.schema is None:
            self._create_table(schema, RESULT)
        job = self._job([run])
        # Refuse the schema before Spark runs.
        Fitter(schema, job.target, run.partition, RESULT)
        if job.letters is None:
            return transformed(job, result, transform)
        # Spark may run the tasks that read several times, so others write the rows that these leave out.
        left_out = dead_letters_of(spark, job, types_for_spark(self._source_schema(run)))
        if left_out.error is not None:
            return left_out
        run.written = left_out
        try:
            written = transformed(job, result, transform)
        except BaseException:
            self.discard([run])
            raise
        written.letters += left_out.letters
        discard_failed(job, [written])
        return written

    def _joined(self, spark: "SparkSession", run: PartitionRun) -> "Mapping[str, DataFrame]":
        """Return the other tables of the transform, in one snapshot for the run's partitions, which is in their rows.

        If one of `refresh_on` has changed since, it is a newer one: the fingerprint says that the rows have the change.
        """
        tables = self.stream.joined()
        if not tables:
            return {}
        from lake_assets.spark_reader import TablePart, frame  # noqa: PLC0415 - most transforms read no table

        if self._snapshot is None or self._state != self.stream.joined_state:
            self._state = self.stream.joined_state
            with self.stream.lake.open(read_only=True) as lake:
                self._snapshot = lake.current_snapshot()
        run.update(joined=", ".join(f"{table}@{self._snapshot}" for table in tables.values()))
        then = TablePart(at=self._snapshot)
        return {name: frame(spark, self.stream.lake_config, table, then) for name, table in tables.items()}

    def _source_schema(self, run: PartitionRun) -> pa.Schema:
        """Return the input columns of a transform."""
        return self._landed.inputs([obj.key for obj in run.reads.read], self.stream.config.partitions)

    def _create_table(self, columns: pa.Schema, origin: str, others: Iterable[pa.Schema] = ()) -> None:
        schema = self._landed.rules.created(columns, others, origin)
        with self.stream.lake.open() as lake:
            create_table(lake, self.stream.partitioned_table, schema, origin)
            self._read_schema(lake)
            self._landed = replace(self._landed, rules=self._landed.rules.of_first)
            self.is_first = True
            assert self.schema is not None  # noqa: S101 - just read
            self._known = with_null_parts(self.schema, schema)

    def _job(self, runs: Sequence[PartitionRun]) -> Job:
        config = self.stream.config
        self._has_staged = True
        return Job(
            run_id=runs[0].row.run_id,
            landed=self._landed,
            storage=self._destination,
            schema=self.schema,
            known=self._known,
            compression=config.compression,
            target_file_size=config.target_file_size,
            partitions=tuple(
                PartitionJob(
                    run.partition,
                    run.reads.read,
                    self.staging.folder if self.staging else self.stream.destination_folder(run.partition),
                )
                for run in runs
            ),
            fingerprints={} if self.staging else self._fingerprints(runs),
            key=StagingKey(self.staging.key) if self.staging else None,
            copies=None if self._landed.rules.order and config.copying != "always" else self.stream.copy_rules,
            letters=self.stream.letters,
            digests=config.mode.reads_new,
        )

    def _fingerprints(self, runs: Sequence[PartitionRun]) -> dict[str, str]:
        known = ((run.partition, MARK if run.plan.is_held else run.row.source_fingerprint) for run in runs)
        return {self.stream.destination_folder(partition): text for partition, text in known if text is not None}
