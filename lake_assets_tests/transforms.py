"""Transforms that the tests name in configs."""

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def doubled(frame: DataFrame) -> DataFrame:
    return frame.withColumn("total", f.col("total") * 2)


def no_frame(frame: DataFrame) -> int:
    return len(frame.columns)


def faulty(frame: DataFrame) -> DataFrame:
    return frame.limit(1 // (len(frame.columns) - len(frame.columns)))


def failing(frame: DataFrame) -> DataFrame:
    """Rows that cannot be had: the task says something and fails."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            sys.stderr.write("this is a worker's standard error\n")
            raise ValueError("failed on purpose")
        yield from ()

    return frame.mapInArrow(fail, frame.schema)
