"""The definitions of `lake.yaml`, and four assets downstream that read its table `sales`."""

import os
import subprocess
from pathlib import Path

import dagster as dg
import polars as pl
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from lake_assets import LakeResource, build_definitions, open_stream, partitions_def

FOLDER = Path(__file__).parent
CONFIG = str(FOLDER / "lake.yaml")
SALES = partitions_def(open_stream(CONFIG, "sales"))
DAYS = SALES.get_partitions_def_for_dimension("date") if isinstance(SALES, dg.MultiPartitionsDefinition) else SALES


@dg.asset(partitions_def=SALES)
def store_revenue(sales: pl.DataFrame) -> dg.MaterializeResult[None]:
    """The revenue of each store in a partition. The parameter has the run's partition of the stream `sales`."""
    totals = sales.group_by("store_id").agg(pl.col("total").sum()).sort("store_id")
    return dg.MaterializeResult(metadata={"stores": totals.height, "revenue": float(totals["total"].sum())})


@dg.asset(deps=["sales"], partitions_def=DAYS)
def daily_revenue(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[None]:
    """The revenue of all regions on a day, which Dagster's partition mapping finds."""
    rows = lake.read(context, columns=["region", "total"])
    revenue = rows.group_by("region").aggregate([("total", "sum")]).sort_by("region")
    return dg.MaterializeResult(metadata={"revenue": revenue.to_pydict()})


@dg.asset(partitions_def=SALES)
def store_totals_by_spark(sales: DataFrame) -> None:
    """The total of each store, which Spark writes where the stream `store_totals` finds it."""
    totals = sales.groupBy("store_id", "region", "date").agg(f.sum("total").alias("total"))
    dynamic = totals.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    dynamic.partitionBy("region", "date").parquet(str(FOLDER / "landing" / "store_totals"))


@dg.asset(deps=["sales"])
def dbt_models() -> None:
    """The models of `dbt/`, which dbt makes of the table in the lake."""
    subprocess.run(["dbt", "build"], cwd=FOLDER / "dbt", env=os.environ | {"LAKE": str(FOLDER)}, check=True)  # noqa: S607


defs = dg.Definitions.merge(
    build_definitions(CONFIG),
    dg.Definitions(
        assets=[store_revenue, daily_revenue, store_totals_by_spark, dbt_models],
        resources={"lake": LakeResource(config=CONFIG)},
    ),
)
