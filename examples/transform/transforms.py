"""The transform of the stream `revenue`."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def revenue(source: DataFrame) -> DataFrame:
    """The number and the revenue of each store's sales; sales without a total are left out.

    Args:
        source: the rows of one partition, partition columns included. They are added to the result as well.
    """
    sold = source.where(f.col("total").isNotNull())
    return sold.groupBy("store_id").agg(f.count("*").alias("sales"), f.round(f.sum("total"), 2).alias("revenue"))
