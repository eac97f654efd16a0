"""Tasks of `parquet/task.py` in Spark: by an RDD in a classic session, and by a DataFrame through Spark Connect.

An RDD of Python objects starts sooner than a DataFrame: it needs no plan, no generated code and no Arrow stream. Spark
Connect has no RDDs.
"""

import base64
import dataclasses
import datetime as dt
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from lake_assets import errors
from lake_assets.errors import LakeAssetsError, SchemaDriftError
from lake_assets.events import report as report_event
from lake_assets.parquet.job import DataFile, Job, JobResult, LetterFile
from lake_assets.parquet.task import Bin, Refusal, Report, Task, Timing, discarding
from lake_assets.spark.cleanup import discard_failed, discard_interrupted, discard_job
from lake_assets.spark.executors import awaiting_executors
from lake_assets.spark.remote import interrupted_on_server, is_client
from lake_assets.spark.workers import carried, prepare, report_tries, workers_cores

_NUMBERS, _TEXTS = ("index", "rows", "size"), ("uri", "error", "drift", "refused", "reason", "letter", "timing")
_ROW = pa.schema(
    {name: pa.int64() for name in _NUMBERS}
    | {name: pa.string() for name in _TEXTS}
    | {"is_copy": pa.bool_(), "footer": pa.binary()}
)

ArrowTask = Callable[[Iterator[pa.RecordBatch]], Iterator[Report]]
"""A task that gets rows of a DataFrame."""


def run_tasks(spark: SparkSession, job: Job, task: Task, bins: Sequence[Bin], tasks: int) -> list[JobResult]:
    """Run the task over all bins, in one Spark job; files that will not be committed are removed.

    Returns:
        A result for each partition of the job, in order.

    Raises:
        PySparkException, Py4JError: the job failed, or Spark ended.
    """
    if isinstance(spark, SparkSession):
        numbered = spark.sparkContext.parallelize(bins, tasks)
        work = carried(partial(_discarded, _light(job), task))
        return _results(spark, job, lambda: numbered.mapPartitions(work).collect())
    numbers = spark.range(0, len(bins), 1, numPartitions=tasks)
    return run_on_rows(numbers, job, partial(_of_numbers, task, bins))


def run_on_rows(frame: DataFrame, job: Job, task: ArrowTask) -> list[JobResult]:
    """Run the task over the rows of a DataFrame; the rest as `run_tasks`."""
    light = _light(job)

    def attempt(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from map(_as_row, _with_tries(discarding(light, task(batches))))

    report = frame.mapInArrow(carried(attempt), from_arrow_schema(_ROW))
    return _results(frame.sparkSession, job, lambda: map(_from_row, report.collect()))


def spark_cores(spark: SparkSession) -> int:
    """Return the tasks that the session runs in parallel, as far as Spark knows; the first call checks the workers.

    Raises:
        WorkerError: as `prepare`.
    """
    prepare(spark)
    if isinstance(spark, SparkSession):
        # Without `spark.conf`, which would start the part of the session that runs SQL.
        return int(spark.sparkContext.defaultParallelism)
    return workers_cores(spark)


def _light(job: Job) -> Job:
    """Return the job without its partitions, whose objects not every task needs."""
    return dataclasses.replace(job, partitions=())


def _discarded(job: Job, task: Task, bins: Iterator[Bin]) -> Iterator[Report]:
    return _with_tries(discarding(job, task(bins)))


def _with_tries(reports: Iterable[Report]) -> Iterator[Report]:
    context = TaskContext.get()
    tries = context.attemptNumber() if context is not None else 0
    for report in reports:
        timing = report.timing
        yield report if timing is None else dataclasses.replace(report, timing=dataclasses.replace(timing, tries=tries))


def _of_numbers(task: Task, bins: Sequence[Bin], batches: Iterator[pa.RecordBatch]) -> Iterator[Report]:
    return task(bins[number] for batch in batches for number in batch.column(0).to_pylist())


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
    """The error of a partition. Schema drifts of several tasks are combined, and any other error replaces them."""
    if isinstance(error, SchemaDriftError):
        if isinstance(known, SchemaDriftError):
            return known.with_more(error.schemas)
        return known or error
    return error if known is None or isinstance(known, SchemaDriftError) else known


def _as_row(report: Report) -> pa.RecordBatch:
    values: dict[str, object] = {"index": report.index}
    if report.file is not None:
        file = report.file
        values |= {"uri": file.uri, "rows": file.rows, "size": file.size, "is_copy": file.is_copy}
        values["footer"] = file.footer
    if report.letter is not None:
        values["letter"] = json.dumps(dataclasses.asdict(report.letter))
    if report.timing is not None:
        values["timing"] = json.dumps(dataclasses.asdict(report.timing))
    if report.refusal is not None:
        values |= {"refused": report.refusal.key, "reason": report.refusal.reason}
    if report.error is not None:
        drift = report.error.schemas if isinstance(report.error, SchemaDriftError) else []
        schemas = [(origin, base64.b64encode(schema.serialize()).decode()) for origin, schema in drift]
        text = json.dumps([type(report.error).__name__, report.error.problem, report.error.hint])
        values |= {"error": text, "drift": json.dumps(schemas)}
    return pa.RecordBatch.from_pylist([values], schema=_ROW)


def _from_row(row: Row) -> Report:
    if row["timing"] is not None:
        return Report(row["index"], timing=Timing(**json.loads(row["timing"])))
    if row["refused"] is not None:
        return Report(row["index"], refusal=Refusal(row["refused"], row["reason"]))
    if row["letter"] is not None:
        return Report(row["index"], letter=LetterFile(**json.loads(row["letter"])))
    if row["error"] is None:
        footer = None if row["footer"] is None else bytes(row["footer"])
        return Report(row["index"], DataFile(row["uri"], row["rows"], row["size"], row["is_copy"], footer))
    name, problem, hint = json.loads(row["error"])
    schemas = [
        (origin, pa.ipc.read_schema(pa.py_buffer(base64.b64decode(code)))) for origin, code in json.loads(row["drift"])
    ]
    error = SchemaDriftError(problem, hint, schemas) if schemas else getattr(errors, name)(problem, hint)
    return Report(row["index"], error=error)
