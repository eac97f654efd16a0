"""Parquet files by Arrow, in any process: nothing in here imports PySpark."""
