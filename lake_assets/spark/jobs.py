"""The two Spark jobs: pass-through and transform.

Pass-through: each task reads its share and writes its files with Arrow, and the rows never enter the JVM. Transform:
tasks read with Arrow, Spark SQL or a function transforms the DataFrame, and tasks write with the same writer.
"""

import base64
import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from lake_assets import errors
from lake_assets.config.streams import Transform
from lake_assets.errors import (
    LakeAssetsError,
    SchemaDriftError,
    SchemaError,
    StorageUnreachableError,
    TransformError,
)
from lake_assets.layout.partition import Partition
from lake_assets.parquet.encrypted import stage_files
from lake_assets.parquet.job import DataFile, Job, JobResult, shares, spark_tasks
from lake_assets.parquet.read import read_shares
from lake_assets.parquet.schema_fit import Fitter, typed_value
from lake_assets.parquet.write import write_files
from lake_assets.spark.cleanup import Task, discard_failed, discard_job, discarding
from lake_assets.spark.failures import VIEW, failed_function, refused_result, refused_sql, spark_errors

RESULT = "the transform's result"
Result = TypeVar("Result")

_NUMBERS, _TEXTS = ("partition", "rows", "size"), ("uri", "error", "drift")
_REPORT = pa.schema({name: pa.int64() for name in _NUMBERS} | {name: pa.string() for name in _TEXTS})


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
        cores = cores or spark_cores(spark)
    bins = [
        (index, tuple(share))
        for index, partition in enumerate(job.partitions)
        for share in shares(partition.objects, job.target_file_size, cores)
    ]

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                index, own = bins[number]
                partition = job.partitions[index]
                rows = read_shares(job, own, job.schema, partition.partition)
                yield from _reported(index, lambda p=partition, r=rows: _write(r, job, p.destination))  # type: ignore[misc]

    size = sum(obj.size for partition in job.partitions for obj in partition.objects)
    tasks = spark_tasks(len(bins), size, cores)
    with spark_errors():
        return _collect(spark, spark.range(0, len(bins), 1, numPartitions=tasks), task, job)


def transformed(job: Job, frame: DataFrame, transform: Transform) -> JobResult:
    """Write the rows of a transform's result as data files of the job's one partition.

    Raises:
        TransformError: the SQL or a function of the transform failed.
        LakeAssetsError: as `spark_errors`.
    """
    partition = job.partitions[0]
    names = frame.columns
    schema = result_schema(frame)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)

        def write() -> Iterable[DataFile]:
            fitter = Fitter(schema, job.schema, partition.partition, RESULT, evolves=job.evolves)
            columns = [*fitter.columns, *fitter.partition_columns]
            rows = (fitter.fit(batch.rename_columns(names).select(columns)) for batch in batches)
            return _write(rows, job, partition.destination)

        yield from _reported(0, write)

    # Spark finds columns by name, and would read a column called a.b as the part b of a.
    numbered = frame.toDF(*(f"c{number}" for number in range(len(names))))
    with spark_errors(transform):
        return _collect(frame.sparkSession, numbered, task, job)[0]


def source_frame(spark: SparkSession, job: Job, file_schema: pa.Schema) -> DataFrame:
    """The rows of the job's one partition as a DataFrame, partition columns typed and last.

    The schema of the job is not used, because the table may not exist yet. That of the files has no partition columns.

    Raises:
        SchemaError: a column has a type that Spark does not have.
    """
    partition = job.partitions[0]
    bins = [tuple(share) for share in shares(partition.objects, job.target_file_size, spark_cores(spark))]
    target = pa.schema([(f.name, _spark_type(f)) for f in file_schema])
    constants = _constants(partition.partition)
    schema = pa.schema([*target, *((name, value.type) for name, value in constants.items())])

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in read_shares(job, bins[number], target, partition.partition):
                    columns = [pa.repeat(value, rows.num_rows) for value in constants.values()]
                    yield pa.RecordBatch.from_arrays([*rows.columns, *columns], schema=schema)

    numbers = spark.range(0, len(bins), 1, numPartitions=len(bins))
    return numbers.mapInArrow(task, from_arrow_schema(schema, prefer_timestamp_ntz=True))


def apply_transform(spark: SparkSession, transform: Transform, frame: DataFrame) -> DataFrame:
    """Apply the stream's transform to the rows.

    Raises:
        TransformError: the transform cannot be loaded, fails, is refused by Spark, or does not return a DataFrame.
        SparkUnavailableError: Spark ended during the transform.
    """
    if transform.function is not None:
        function = _function(transform.function)
        try:
            result = _unless_exit(lambda: function(frame))
        except Exception as error:
            raise failed_function(transform.function, error) from error
        if isinstance(result, SystemExit):
            raise failed_function(transform.function, result)
        if not isinstance(result, DataFrame):
            raise TransformError(
                f"the transform {transform.function} returned {type(result).__name__}:", "return a Spark DataFrame."
            )
        return result
    frame.createOrReplaceTempView(VIEW)
    try:
        return spark.sql(transform.sql or "")
    except PySparkException as error:
        raise refused_sql(error) from error


def result_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema in which the writing tasks receive a DataFrame's rows.

    Raises:
        TransformError: Arrow does not have the type of a column.
        SparkUnavailableError: Spark ended during the call.
    """
    try:
        return to_arrow_schema(frame.schema, timezone="UTC")
    except PySparkException as error:
        raise refused_result(error) from error


def spark_cores(spark: SparkSession) -> int:
    """The number of tasks that the session runs in parallel, as far as Spark knows it."""
    configured = spark.conf.get("spark.default.parallelism", None)
    return int(configured) if configured else int(spark.sparkContext.defaultParallelism)


def _write(rows: Iterable[pa.RecordBatch], job: Job, folder: str) -> Iterable[DataFile]:
    return write_files(rows, job, folder) if job.key is None else stage_files(rows, job, folder)


def _reported(index: int, work: Callable[[], Iterable[DataFile]]) -> Iterator[pa.RecordBatch]:
    """The task's files as rows. A permanent error is a row too; a temporary one is raised, and Spark tries again."""
    try:
        for file in work():
            yield _row(partition=index, uri=file.uri, rows=file.rows, size=file.size)
    except StorageUnreachableError:
        raise
    except LakeAssetsError as error:
        drift = error.schemas if isinstance(error, SchemaDriftError) else []
        schemas = [(origin, base64.b64encode(schema.serialize()).decode()) for origin, schema in drift]
        text = json.dumps([type(error).__name__, error.problem, error.hint])
        yield _row(partition=index, error=text, drift=json.dumps(schemas))


def _row(**values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([values], schema=_REPORT)


def _collect(spark: SparkSession, frame: DataFrame, task: Task, job: Job) -> list[JobResult]:
    """Run the tasks and collect their results; files that will not be committed are removed."""
    report = frame.mapInArrow(discarding(job.storage, task), from_arrow_schema(_REPORT))
    try:
        rows = report.collect()
    except Exception:
        discard_job(spark, job)
        raise
    results = [JobResult() for _ in job.partitions]
    for row in rows:
        result = results[row["partition"]]
        if row["error"] is None:
            result.files.append(DataFile(row["uri"], row["rows"], row["size"]))
        else:
            _add_error(result, row["error"], row["drift"])
    discard_failed(job, results)
    return results


def _add_error(result: JobResult, text: str, drift: str) -> None:
    """Keep the first error. Schema drifts of several tasks are combined, and any other error replaces them."""
    name, problem, hint = json.loads(text)
    schemas = [(origin, pa.ipc.read_schema(pa.py_buffer(base64.b64decode(code)))) for origin, code in json.loads(drift)]
    known = result.error
    if isinstance(known, SchemaDriftError) and schemas:
        known.with_more(schemas)
    elif schemas and known is None:
        result.error = SchemaDriftError(problem, hint, schemas)
    elif not schemas and (known is None or isinstance(known, SchemaDriftError)):
        result.error = getattr(errors, name)(problem, hint)


def _constants(partition: Partition) -> dict[str, pa.Scalar]:
    return {c.name: typed_value(c, value) for c, value in zip(partition.columns, partition.values, strict=True)}


def _spark_type(field: pa.Field) -> pa.DataType:
    """The Arrow type in which Spark reads a column."""
    data_type = _nearest_type(field.type)
    try:
        from_arrow_schema(pa.schema([(field.name, data_type)]), prefer_timestamp_ntz=True)
    except PySparkException as error:
        raise SchemaError(
            f"column {field.name!r} has the type {field.type}, which Spark cannot read in a transform:",
            "land it with another type, or leave the transform out.",
        ) from error
    return data_type


# Spark has no unsigned integers, half floats, fixed-size bytes, views or decimals of 256 bits.
_REPLACED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


def _nearest_type(data_type: pa.DataType) -> pa.DataType:
    """The nearest type of Spark that holds the values, also in nested types; times are cut to microseconds."""
    kinds = pa.types
    if kinds.is_dictionary(data_type):
        return _nearest_type(data_type.value_type)
    if kinds.is_struct(data_type):
        return pa.struct([field.with_type(_nearest_type(field.type)) for field in data_type])
    if kinds.is_map(data_type):
        return pa.map_(_nearest_type(data_type.key_type), _nearest_type(data_type.item_type))
    if kinds.is_nested(data_type):
        return pa.list_(_nearest_type(data_type.value_type))
    if kinds.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz and "UTC")
    if kinds.is_fixed_size_binary(data_type) and not kinds.is_decimal(data_type):
        return pa.binary()
    if kinds.is_decimal256(data_type) and data_type.precision <= 38:
        return pa.decimal128(data_type.precision, data_type.scale)
    return _REPLACED.get(data_type, data_type)


def _unless_exit(work: Callable[[], Result]) -> Result | SystemExit:
    """The result of the user's code, or its SystemExit, which as the cause of an error would look like an interrupt."""
    try:
        return work()
    except SystemExit as error:
        return error


def _function(reference: str) -> Callable[[DataFrame], object]:
    try:
        function: Callable[[DataFrame], object] | SystemExit = _unless_exit(lambda: pkgutil.resolve_name(reference))
    except Exception as error:  # of any class, from the user's module
        raise _not_imported(reference, error) from error
    if isinstance(function, SystemExit):
        raise _not_imported(reference, function)
    return function


def _not_imported(reference: str, error: BaseException) -> TransformError:
    return TransformError(
        f"the transform {reference} cannot be imported: {type(error).__name__}: {error}:",
        "check the module, its name and the Python path.",
    )
