"""Tasks of `parquet/task.py` in Spark: by an RDD in a classic session, and by a DataFrame through Spark Connect.

An RDD of Python objects starts sooner than a DataFrame: it needs no plan, no generated code and no Arrow stream. Spark
Connect has no RDDs.
"""

import dataclasses
import datetime as dt
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from lake_assets.errors import LakeAssetsError, SchemaDriftError
from lake_assets.events import report as report_event
from lake_assets.parquet.job import Job, JobResult
from lake_assets.parquet.task import Bin, Report, Task, Timing, discarding
from lake_assets.spark.cleanup import discard_failed, discard_interrupted, discard_job
from lake_assets.spark.executors import awaiting_executors
from lake_assets.spark.remote import interrupted_on_server, is_client
from lake_assets.spark.workers import portable_work, prepare, report_tries, workers_cores

In = TypeVar("In")
RowTask = Callable[[Job, Iterator[pa.RecordBatch]], Iterator[Report]]
"""A task that gets rows of a DataFrame."""

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
    prepare(spark)
    if isinstance(spark, SparkSession):
        # Without `spark.conf`, which would start the part of the session that runs SQL.
        return int(spark.sparkContext.defaultParallelism)
    return workers_cores(spark)


def _without_partitions(job: Job) -> Job:
    """Return the job without its partitions, whose objects not every task needs."""
    return dataclasses.replace(job, partitions=())


def _attempt(job: Job, task: Callable[[Job, Iterator[In]], Iterator[Report]], items: Iterator[In]) -> Iterator[Report]:
    context = TaskContext.get()
    return discarding(job, task(job, items), context.attemptNumber() if context is not None else 0)


def _of_numbers(task: Task, bins: Sequence[Bin], job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[Report]:
    return task(job, (bins[number] for batch in batches for number in batch.column(0).to_pylist()))


def _results(spark: SparkSession, job: Job, collect: Callable[[], Iterable[Report]]) -> list[JobResult]:
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
