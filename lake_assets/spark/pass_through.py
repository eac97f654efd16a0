"""The pass-through job: each task reads its objects and writes its files with Arrow. No row enters the JVM."""

from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from lake_assets.parquet.job import Job, JobResult, shares, spark_tasks, task_threads
from lake_assets.parquet.task import Bin, encode
from lake_assets.spark.failures import spark_errors
from lake_assets.spark.tasks import run_tasks, spark_cores


def pass_through(spark: SparkSession, job: Job, *, cores: int | None = None) -> list[JobResult]:
    """Rewrite the objects of all partitions as data files of the table, in one Spark job.

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
        cores = cores or all_cores
        bins = [
            Bin(index, partition.partition, partition.destination, tuple(share))
            for index, partition in enumerate(job.partitions)
            for share in shares(partition.objects, job.target_file_size, cores)
        ]
        size = sum(obj.size for partition in job.partitions for obj in partition.objects)
        # A task gets its own bins, and not the objects of all partitions.
        tasks = spark_tasks(len(bins), size, cores)
        task = partial(encode, replace(job, partitions=()), task_threads(tasks, all_cores))
        return run_tasks(spark, job, task, bins, tasks)
