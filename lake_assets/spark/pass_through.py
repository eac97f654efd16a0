"""The pass-through job: tasks read objects and write data files with Arrow, or copy objects. No row enters the JVM."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from lake_assets.parquet.copying import copy_or_encode
from lake_assets.parquet.examine import examine
from lake_assets.parquet.job import Job, JobResult, PartitionJob, Share, shares, spark_tasks, task_threads
from lake_assets.parquet.task import Bin, Report, dead_letters, encode
from lake_assets.spark.cleanup import discard_failed
from lake_assets.spark.failures import spark_errors
from lake_assets.spark.tasks import run_tasks, spark_cores


def pass_through(spark: SparkSession, job: Job, *, cores: int | None = None) -> list[JobResult]:
    """Write the objects of all partitions as data files of the table, in one Spark job.

    By the job's rules, objects that can be data files as they are are copied. Only a task reads their footers, so if
    it refuses objects, a second Spark job encodes these.

    Args:
        spark: the session.
        job: the partitions and the storages.
        cores: the number of tasks for a partition that fits into fewer files; all cores of the session when None.

    Returns:
        A result for each partition of the job, in order. A partition that fails does not affect the others.

    Raises:
        StorageUnreachableError: a storage failed at each attempt of a task.
        LakeAssetsError: as `spark_errors`.
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
                result.error = result.error or more.error
            discard_failed(job, results)
        return results


def bad_objects(spark: SparkSession, job: Job, schema: pa.Schema, *, refuses_drift: bool) -> JobResult:
    """Find the objects of a job's one partition that are damaged or do not fit, by reading all of them.

    Args:
        spark: the session.
        job: whose tasks read the objects.
        schema: in which the rows are read.
        refuses_drift: columns that the table does not have yet do not fit.

    Returns:
        Why, by key, in `refused`.

    Raises:
        LakeAssetsError: as `pass_through`.
    """
    with spark_errors():
        cores = spark_cores(spark)
        partition = job.partitions[0]
        bins = [
            Bin(0, partition.partition, partition.destination, tuple(share))
            for share in shares(partition.objects, job.target_file_size, cores)
        ]
        size = sum(obj.size for obj in partition.objects)
        task = partial(_examine, replace(job, partitions=()), schema, refuses_drift)
        return run_tasks(spark, job, task, bins, spark_tasks(len(bins), size, cores))[0]


def dead_letters_of(spark: SparkSession, job: Job, schema: pa.Schema) -> JobResult:
    """Write the rows of a job's one partition that do not fit a schema as dead letters; its objects are read for it.

    Raises:
        LakeAssetsError: as `pass_through`.
    """
    with spark_errors():
        cores = spark_cores(spark)
        bins = list(_bins(0, job.partitions[0], replace(job, copies=None), cores))
        size = sum(obj.size for obj in job.partitions[0].objects)
        task = partial(_dead_letters, replace(job, partitions=()), schema)
        return run_tasks(spark, job, task, bins, spark_tasks(len(bins), size, cores))[0]


def _dead_letters(job: Job, schema: pa.Schema, bins: Iterator[Bin]) -> Iterator[Report]:
    return dead_letters(job, schema, bins)


def _examine(job: Job, schema: pa.Schema, refuses_drift: bool, bins: Iterator[Bin]) -> Iterator[Report]:
    return examine(job, schema, bins, refuses_drift=refuses_drift)


def _run(spark: SparkSession, job: Job, *, all_cores: int, cores: int) -> list[JobResult]:
    bins = [item for index, partition in enumerate(job.partitions) for item in _bins(index, partition, job, cores)]
    size = sum(obj.size for partition in job.partitions for obj in partition.objects)
    # A task gets its own bins, and not the objects of all partitions.
    tasks = spark_tasks(len(bins), size, cores)
    task = partial(
        encode if job.copies is None else copy_or_encode, replace(job, partitions=()), task_threads(tasks, all_cores)
    )
    return run_tasks(spark, job, task, bins, tasks)


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
