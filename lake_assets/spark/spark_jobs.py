"""Tasks of `task/work.py` in Spark: by an RDD in a classic session, and by a DataFrame through Spark Connect.

An RDD of Python objects starts sooner than a DataFrame: it needs no plan, no generated code and no Arrow stream. Spark
Connect has no RDDs.
"""

import dataclasses
import datetime as dt
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lake_assets.base.errors import LakeAssetsError, SchemaDriftError
from lake_assets.base.events import report as report_event
from lake_assets.base.retrying import Limit, pause_between, poll
from lake_assets.spark.cluster import (
    awaiting_executors,
    interrupted_on_server,
    is_client,
    portable_work,
    prepare_workers,
    report_tries,
)
from lake_assets.spark.spark_errors import spark_errors
from lake_assets.spark.task.copying import copy_or_encode
from lake_assets.spark.task.job import (
    Job,
    JobResult,
    PartitionJob,
    discard_all,
    discard_failed,
    discard_interrupted,
    spark_tasks,
    split_objects,
    task_threads,
)
from lake_assets.spark.task.work import (
    Bin,
    Task,
    TaskReport,
    Timing,
    discarding,
    encode,
    examine_objects,
    write_dead_letters,
)
from lake_assets.storage.formats.landed_rows import Share

In = TypeVar("In")
RowTask = Callable[[Job, Iterator[pa.RecordBatch]], Iterator[TaskReport]]
"""A task that gets rows of a DataFrame."""

_RETRY_SECONDS = Limit(seconds=10.0)  # for the tasks of a failed job; Spark kills their processes after two
_TICK = pause_between(0.1, 0.1)
_REPORT = "report"  # the column with the reports of tasks that gave rows of a DataFrame


def run_tasks(spark: SparkSession, job: Job, task: Task, bins: Sequence[Bin], tasks: int) -> list[JobResult]:
    """Run the task over all bins, in one Spark job, and return a result for each partition of the job, in order.

    Files that will not be committed are removed. Errors are Spark's own: PySparkException, Py4JError.
    """
    if isinstance(spark, SparkSession):
        numbered = spark.sparkContext.parallelize(bins, tasks)
        work = portable_work(partial(_attempt, _without_partitions(job), task))
        return _results(spark, job, lambda: numbered.mapPartitions(work).collect())
    numbers = spark.range(0, len(bins), 1, numPartitions=tasks)
    return run_on_rows(numbers, job, partial(_of_numbers, task, bins))


def run_on_rows(frame: DataFrame, job: Job, task: RowTask) -> list[JobResult]:
    """Run the task over the rows of a DataFrame; the rest as `run_tasks`."""
    light = _without_partitions(job)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for report in _attempt(light, task, batches):
            yield pa.RecordBatch.from_pydict({_REPORT: [pickle.dumps(report)]})

    rows = frame.mapInArrow(portable_work(work), f"{_REPORT} binary")
    # The tasks are this package's own, as those of an RDD, whose results Spark unpickles.
    return _results(frame.sparkSession, job, lambda: (pickle.loads(row[0]) for row in rows.collect()))  # noqa: S301


def spark_cores(spark: SparkSession) -> int:
    """Return the tasks that the session runs in parallel, as far as Spark knows; the first call checks the workers."""
    cores = prepare_workers(spark)
    if isinstance(spark, SparkSession):
        # Without `spark.conf`, which would start the part of the session that runs SQL.
        return int(spark.sparkContext.defaultParallelism)
    return cores


def _without_partitions(job: Job) -> Job:
    """Return the job without its partitions, whose objects not every task needs."""
    return dataclasses.replace(job, partitions=())


def _attempt(
    job: Job, task: Callable[[Job, Iterator[In]], Iterator[TaskReport]], items: Iterator[In]
) -> Iterator[TaskReport]:
    context = TaskContext.get()
    return discarding(job, task(job, items), context.attemptNumber() if context is not None else 0)


def _of_numbers(task: Task, bins: Sequence[Bin], job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[TaskReport]:
    return task(job, (bins[number] for batch in batches for number in batch.column(0).to_pylist()))


def _results(spark: SparkSession, job: Job, collect: Callable[[], Iterable[TaskReport]]) -> list[JobResult]:
    try:
        with interrupted_on_server(spark, job.file_prefix), awaiting_executors(spark):
            reports = list(collect())
    except Exception:  # any: the files are removed, and the error goes on
        discard_job(spark, job)
        raise
    except BaseException:
        if is_client(spark):
            discard_interrupted(job)
        raise
    results = [JobResult() for _ in job.partitions]
    for report in reports:
        if report.timing is not None:
            _report_task(report.timing)
            continue
        result = results[report.index]
        if report.file is not None:
            result.files.append(report.file)
        elif report.letter is not None:
            result.letters.append(report.letter)
        elif report.rows is not None:
            result.rows.update(report.rows)
            result.digests |= report.digests or {}
        elif report.refusal is not None:
            result.refused[report.refusal.key] = report.refusal.reason
        elif report.error is not None:
            result.error = _first_error(result.error, report.error)
    discard_failed(job, results)
    return results


def discard_job(spark: SparkSession, job: Job) -> None:
    """Remove all files of a failed job, after its other tasks have ended, as far as the store allows."""
    _await_tasks(spark)
    discard_all(job)


def _await_tasks(spark: SparkSession) -> None:
    """Wait until no task of the session runs, up to the limit; that includes tasks of other jobs."""
    # A client of Spark Connect has no tracker, and a JVM that has ended has no tasks.
    with suppress(Py4JError, PySparkException, ConnectionError, AttributeError):
        tracker: Any = spark.sparkContext._jsc.sc().statusTracker()  # noqa: SLF001 - pyspark's has no such call
        poll(
            lambda: not any(info.numRunningTasks() for info in tracker.getExecutorInfos()),
            pause=_TICK,
            limit=_RETRY_SECONDS,
        )


def _report_task(timing: Timing) -> None:
    """Report a task that has succeeded; of a task that Spark tried again, the last try."""
    report_tries(timing.host, timing.tries)
    ended = dt.datetime.fromtimestamp(timing.began + timing.seconds, dt.UTC)
    figures = {"files": timing.files, "rows": timing.rows, "bytes": timing.size}
    report_event("task", level=logging.DEBUG, time=ended, host=timing.host, seconds=timing.seconds, **figures)


def _first_error(known: Exception | None, error: LakeAssetsError) -> Exception:
    """Return a partition's error. Schema drifts of several tasks are combined; any other error replaces them."""
    if isinstance(error, SchemaDriftError):
        if isinstance(known, SchemaDriftError):
            return known.with_more(error.schemas)
        return known or error
    return error if known is None or isinstance(known, SchemaDriftError) else known


def pass_through(spark: SparkSession, job: Job, *, cores: int | None = None) -> list[JobResult]:
    """Write the objects of all partitions as data files of the table, in one Spark job; a result for each, in order.

    By the job's rules, objects that can be data files as they are are copied. Only a task reads their footers, so if it
    refuses objects, a second Spark job encodes these. A partition that fails does not affect the others.

    `cores` is the number of tasks for a partition that fits into fewer files; all cores of the session when None.
    Raises StorageUnreachableError if a storage failed at each attempt of a task.
    """
    with spark_errors():
        all_cores = spark_cores(spark)
        run = partial(_run, spark, all_cores=all_cores, cores=cores or all_cores)
        results = run(job)
        remaining = tuple(map(_refused, job.partitions, results))
        if any(partition.objects for partition in remaining):
            # Its files have the same beginning of their names, so that one clean-up removes those of both.
            encoded = run(replace(job, partitions=remaining, copies=None))
            for result, more in zip(results, encoded, strict=True):
                result.files += more.files
                result.letters += more.letters
                result.rows.update(more.rows)
                result.digests |= more.digests
                result.error = result.error or more.error
            discard_failed(job, results)
        return results


def bad_objects(spark: SparkSession, job: Job, schema: pa.Schema, *, refuses_drift: bool) -> JobResult:
    """Find the objects of a job's one partition that are damaged or do not fit, by reading all of them.

    Returns why, by key, in `refused`. With `refuses_drift`, columns that the table does not have yet do not fit.
    """
    with spark_errors():
        bins, tasks = _divided(replace(job, copies=None), spark_cores(spark))
        task = partial(examine_objects, schema=schema, refuses_drift=refuses_drift)
        return run_tasks(spark, job, task, bins, tasks)[0]


def dead_letters_of(spark: SparkSession, job: Job, schema: pa.Schema) -> JobResult:
    """Write the rows of a job's one partition that do not fit a schema as dead letters; its objects are read for it."""
    with spark_errors():
        bins, tasks = _divided(replace(job, copies=None), spark_cores(spark))
        return run_tasks(spark, job, partial(write_dead_letters, schema=schema), bins, tasks)[0]


def _run(spark: SparkSession, job: Job, *, all_cores: int, cores: int) -> list[JobResult]:
    bins, tasks = _divided(job, cores)
    work = encode if job.copies is None else copy_or_encode
    return run_tasks(spark, job, partial(work, threads=task_threads(tasks, all_cores)), bins, tasks)


def _divided(job: Job, cores: int) -> tuple[list[Bin], int]:
    """Return the work of a job, and the number of Spark tasks for it."""
    bins = [item for index, partition in enumerate(job.partitions) for item in _bins(index, partition, job, cores)]
    size = sum(obj.size for partition in job.partitions for obj in partition.objects)
    return bins, spark_tasks(len(bins), size, cores)


def _bins(index: int, partition: PartitionJob, job: Job, cores: int) -> Iterator[Bin]:
    """Yield the work of one partition: objects to copy, a list for each core, and shares of the others to encode."""
    admits = job.copies.admits if job.copies is not None else lambda _: False
    whole = [Share(obj) for obj in partition.objects if admits(obj)]
    for number in range(min(cores, len(whole))):
        yield Bin(index, partition.partition, partition.destination, tuple(whole[number::cores]), copies=True)
    if encoded := tuple(obj for obj in partition.objects if not admits(obj)):
        for share in split_objects(encoded, job.target_file_size, cores):
            yield Bin(index, partition.partition, partition.destination, tuple(share))


def _refused(partition: PartitionJob, result: JobResult) -> PartitionJob:
    """Return the partition with the objects that could not be copied; none if it has failed."""
    refused = {} if result.error else result.refused
    return replace(partition, objects=tuple(obj for obj in partition.objects if obj.key in refused))
