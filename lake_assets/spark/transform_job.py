"""The transform job: tasks read with Arrow, Spark SQL or a function transforms the DataFrame, and tasks write it.

The reader and the writer are those of the pass-through job.
"""

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from lake_assets.base.errors import SchemaError, TransformError
from lake_assets.config.layout.partition import Partition
from lake_assets.config.sections import Transform
from lake_assets.schema.annotations import is_foreign
from lake_assets.schema.arrow_types import as_landed, shown_type
from lake_assets.schema.fitter import Fitter
from lake_assets.schema.partition_values import typed_value, with_added_columns
from lake_assets.spark.cluster import portable_work
from lake_assets.spark.spark_errors import (
    CAST_TO_ANOTHER,
    VIEW,
    failed_function,
    refused_result,
    refused_sql,
    spark_errors,
)
from lake_assets.spark.spark_jobs import run_on_rows, spark_cores
from lake_assets.spark.task.job import Job, JobResult, split_objects
from lake_assets.spark.task.share_reader import ShareReader
from lake_assets.spark.task.work import TaskReport, reported, write

RESULT = "the transform's result"
Result = TypeVar("Result")

# Spark before 4.2 takes no time zone, and always writes UTC.
_UTC: Mapping[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}


def transformed(job: Job, frame: DataFrame, transform: Transform) -> JobResult:
    """Write the rows of a transform's result as data files of the job's one partition."""
    partition = job.partitions[0]
    schema = result_schema(frame)

    def fitted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fitter = Fitter(schema, job.target, partition.partition, RESULT)
        columns = [*fitter.columns, *fitter.partition_columns]
        for batch in batches:
            # A column whose value Spark has computed before the job has no NULL in a batch, and may in the schema.
            fields = [field.with_type(values.type) for field, values in zip(schema, batch.columns, strict=True)]
            yield fitter.fit(pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields)).select(columns))

    def task(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[TaskReport]:
        pa.set_cpu_count(1)
        return reported(0, write(fitted(batches), job, partition.destination))

    # Spark finds columns by name, and would read a column called a.b as the part b of a.
    numbered = frame.toDF(*(f"c{number}" for number in range(len(schema))))
    with spark_errors(transform):
        return run_on_rows(numbered, job, task)[0]


def source_frame(spark: SparkSession, job: Job, file_schema: pa.Schema) -> DataFrame:
    """Return the rows of the job's one partition as a DataFrame, partition columns typed and last.

    The schema of the job is not used, because the table may not exist yet. That of the files has no partition columns.
    A type that Spark does not have is a SchemaError.
    """
    partition = job.partitions[0]
    bins = [tuple(share) for share in split_objects(partition.objects, job.target_file_size, spark_cores(spark))]
    target = types_for_spark(file_schema)
    constants = _constants(partition.partition)
    schema = with_added_columns(target, constants)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        reader = ShareReader(job, target)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in reader.read(bins[number], partition.partition):
                    read = map(as_landed, rows.columns, target.types)
                    columns = [pa.repeat(value, rows.num_rows) for value in constants.values()]
                    yield pa.RecordBatch.from_arrays([*read, *columns], schema=schema)

    numbers = spark.range(0, len(bins), 1, numPartitions=len(bins))
    return numbers.mapInArrow(portable_work(task), from_arrow_schema(schema, prefer_timestamp_ntz=True))


def source_schema(partition: Partition, file_schema: pa.Schema) -> StructType:
    """Return the columns of `source_frame`; raises SchemaError for a type that Spark lacks."""
    schema = with_added_columns(types_for_spark(file_schema), _constants(partition))
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _constants(partition: Partition) -> dict[str, pa.Scalar]:
    pairs = zip(partition.columns, partition.values, strict=True)
    return {column.name: typed_value(column, value) for column, value in pairs}


def types_for_spark(
    file_schema: pa.Schema, others: Mapping[pa.DataType, pa.DataType] = MappingProxyType({})
) -> pa.Schema:
    """Return the schema in which tasks give rows of files to Spark; `others` has types that are given as another one.

    Raises SchemaError for a type that Spark lacks.
    """
    return pa.schema([(f.name, _spark_type(f, others)) for f in file_schema])


def apply_transform(
    spark: SparkSession, transform: Transform, frame: DataFrame, others: Mapping[str, DataFrame] = MappingProxyType({})
) -> DataFrame:
    """Apply the stream's transform to the rows, beside other tables by their names."""
    if transform.function is not None:
        function = _function(transform.function)
        try:
            result = _unless_exit(lambda: function(frame, **others))
        except Exception as error:
            raise failed_function(transform.function, error) from error
        if isinstance(result, SystemExit):
            raise failed_function(transform.function, result)
        if not isinstance(result, DataFrame):
            raise TransformError(
                f"the transform {transform.function} returned {type(result).__name__}:", "return a Spark DataFrame."
            )
        return result
    for name, rows in {VIEW: frame, **others}.items():
        rows.createOrReplaceTempView(name)
    try:
        return spark.sql(transform.sql or "")
    except PySparkException as error:
        raise refused_sql(error) from error


def result_schema(frame: DataFrame) -> pa.Schema:
    """Return the Arrow schema in which the writing tasks receive a DataFrame's rows."""
    fields: list[pa.Field] = []
    name = None
    try:
        for column in frame.schema:
            name = column.name
            fields += to_arrow_schema(StructType([column]), **_UTC)
    except PySparkException as error:
        raise refused_result(error, name) from error
    for field in fields:
        if kind := _foreign_name(field.type):
            raise TransformError(
                f"column {field.name!r} of {RESULT} has the type {kind}, which DuckLake cannot hold:", CAST_TO_ANOTHER
            )
    return pa.schema(fields)


def _foreign_name(data_type: pa.DataType) -> str | None:
    """Return Spark's type of a part of a column that is a struct of bytes for Arrow; None if there is none."""
    for child in map(data_type.field, range(data_type.num_fields)):
        marks = (mark for mark in _FOREIGN if (child.metadata or {}).get(mark) == b"true")
        if (mark := next(marks, None)) is not None:
            return mark.decode().upper()
        if name := _foreign_name(child.type):
            return name
    return None


def _spark_type(field: pa.Field, others: Mapping[pa.DataType, pa.DataType]) -> pa.DataType:
    data_type = _nearest_type(field.type, others)
    refused = SchemaError(
        f"column {field.name!r} has the type {shown_type(field.type)}, which Spark cannot read in a transform:",
        "land it with another type, or leave it out by omit: true in `columns`.",
    )
    if is_foreign(data_type):
        raise refused
    try:
        from_arrow_schema(pa.schema([(field.name, data_type)]), prefer_timestamp_ntz=True)
    except (PySparkException, ValueError) as error:
        raise refused from error
    return data_type


_FOREIGN = (b"variant", b"geometry", b"geography")  # in the metadata of a field of the struct

# Spark has no unsigned integers, JSON, half floats, fixed-size bytes, views or decimals of other bits than 128.
_REPLACED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.bool8(): pa.int8(),
    pa.json_(): pa.string(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


def _nearest_type(data_type: pa.DataType, others: Mapping[pa.DataType, pa.DataType]) -> pa.DataType:
    """Return the nearest type of Spark that holds the values, also in nested types; times are cut to microseconds."""
    kinds = pa.types
    if data_type in others:
        return others[data_type]
    if kinds.is_dictionary(data_type):
        return _nearest_type(data_type.value_type, others)
    if kinds.is_struct(data_type):
        return pa.struct([field.with_type(_nearest_type(field.type, others)) for field in data_type])
    if kinds.is_map(data_type):
        return pa.map_(_nearest_type(data_type.key_type, others), _nearest_type(data_type.item_type, others))
    if kinds.is_nested(data_type):
        return pa.list_(_nearest_type(data_type.value_type, others))
    if kinds.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz and "UTC")
    if kinds.is_fixed_size_binary(data_type) and not kinds.is_decimal(data_type):
        return pa.binary()
    if kinds.is_time(data_type):
        return pa.time64("ns")  # what Spark takes from Arrow and gives to it, of microseconds
    if kinds.is_decimal(data_type) and data_type.precision <= 38:
        return pa.decimal128(data_type.precision, data_type.scale)
    return _REPLACED.get(data_type, data_type)


def _unless_exit(work: Callable[[], Result]) -> Result | SystemExit:
    """Return the result of the user's code. As the cause of an error its SystemExit would look like an interrupt."""
    try:
        return work()
    except SystemExit as error:
        return error


def _function(reference: str) -> Callable[..., object]:
    try:
        function: Callable[..., object] | SystemExit = _unless_exit(lambda: pkgutil.resolve_name(reference))
    except Exception as error:  # of any class, from the user's module
        raise _not_imported(reference, error) from error
    if isinstance(function, SystemExit):
        raise _not_imported(reference, function)
    return function


def _not_imported(reference: str, error: BaseException) -> TransformError:
    return TransformError(
        f"the transform {reference} cannot be imported: {type(error).__name__}: {error}:",
        "correct transform.function, or add the folder of its module to PYTHONPATH.",
    )
