"""The pass-through job: tasks read objects and write data files with Arrow, or copy objects. No row enters the JVM."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from lake_assets.parquet.copying import copy_or_encode
from lake_assets.parquet.job import Job, JobResult, PartitionJob, shares, spark_tasks, task_threads
from lake_assets.parquet.landed_rows import Share
from lake_assets.parquet.task import Bin, dead_letters, encode, examine
from lake_assets.spark.cleanup import discard_failed
from lake_assets.spark.spark_errors import spark_errors
from lake_assets.spark.tasks import run_tasks, spark_cores


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
        task = partial(examine, schema=schema, refuses_drift=refuses_drift)
        return run_tasks(spark, job, task, bins, tasks)[0]


def dead_letters_of(spark: SparkSession, job: Job, schema: pa.Schema) -> JobResult:
    """Write the rows of a job's one partition that do not fit a schema as dead letters; its objects are read for it."""
    with spark_errors():
        bins, tasks = _divided(replace(job, copies=None), spark_cores(spark))
        return run_tasks(spark, job, partial(dead_letters, schema=schema), bins, tasks)[0]


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
    whole = [Share(obj.key, obj.etag, obj.size) for obj in partition.objects if admits(obj)]
    for number in range(min(cores, len(whole))):
        yield Bin(index, partition.partition, partition.destination, tuple(whole[number::cores]), copies=True)
    if encoded := tuple(obj for obj in partition.objects if not admits(obj)):
        for share in shares(encoded, job.target_file_size, cores):
            yield Bin(index, partition.partition, partition.destination, tuple(share))


def _refused(partition: PartitionJob, result: JobResult) -> PartitionJob:
    """Return the partition with the objects that could not be copied; none if it has failed."""
    refused = {} if result.error else result.refused
    return replace(partition, objects=tuple(obj for obj in partition.objects if obj.key in refused))
