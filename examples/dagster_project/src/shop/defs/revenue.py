"""An asset downstream of the stream `sales`: the revenue of each store, a CSV file for each partition."""

import os
from pathlib import Path

import dagster as dg
from pyarrow import csv

from lake_assets import LakeStream


@dg.definitions
def defs(context: dg.ComponentLoadContext) -> dg.Definitions:
    """The definitions; the key and the partitions are those of the component in `sales/defs.yaml`."""
    sales = context.load_component("sales", LakeStream)

    @dg.asset(key=["shop", "revenue"], deps=[sales.asset_key], partitions_def=sales.partitions_def, group_name="shop")
    def revenue(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        """Revenue of each store."""
        partition = sales.partition(context.partition_key)
        rows = sales.stream.partition(partition).read(columns=["store_id", "total"])
        totals = rows.group_by("store_id").aggregate([("total", "sum")]).sort_by("store_id")
        file = Path(os.environ["SHOP_DATA"], "revenue", partition.path, "revenue.csv")
        file.parent.mkdir(parents=True, exist_ok=True)
        csv.write_csv(totals, file)
        return dg.MaterializeResult(metadata={"stores": totals.num_rows, "file": dg.MetadataValue.path(file)})

    return dg.Definitions(assets=[revenue])
