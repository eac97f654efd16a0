"""Ingests a partition and reads it as an Arrow table, in a folder of `lake-assets init --start 2026-02-11`."""

from lake_assets import open_stream

partition = open_stream("lake.yaml", "sales").partition("region=NW,date=2026-02-11")
result = partition.ingest()
print(f"{result.row.status}: {result.row.row_count} rows, snapshot {result.row.snapshot_id}")
table = partition.read(columns=["store_id", "total"])
print(table.group_by("store_id").aggregate([("total", "sum")]).to_pydict())
