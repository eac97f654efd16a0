"""Ingests a partition and reads it as an Arrow table, in a folder of `lake-assets init --start 2026-02-11`."""

from lake_assets import ingest_partition, open_stream, read_partition

sales = open_stream("lake.yaml", "sales")
result = ingest_partition(sales, "region=NW,date=2026-02-11")
print(f"{result.row.status}: {result.row.row_count} rows, snapshot {result.row.snapshot_id}")
table = read_partition(sales, {"region": "NW", "date": "2026-02-11"}, columns=["store_id", "total"])
print(table.group_by("store_id").aggregate([("total", "sum")]).to_pydict())
