"""The transform on some rows, in a Spark session and without a lake."""

from pyspark.sql import SparkSession
from transforms import revenue


def test_revenue_is_summed_by_store(spark: SparkSession) -> None:
    source = spark.createDataFrame([(1, 2.5), (1, 4.0), (2, 7.0), (2, None)], "store_id bigint, total double")

    rows = {row.store_id: (row.sales, row.revenue) for row in revenue(source).collect()}

    assert rows == {1: (2, 6.5), 2: (1, 7.0)}
