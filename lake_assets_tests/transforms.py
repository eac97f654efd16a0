"""Transforms that the tests name in configs."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def doubled(frame: DataFrame) -> DataFrame:
    return frame.withColumn("total", f.col("total") * 2)


def no_frame(frame: DataFrame) -> int:
    return len(frame.columns)
