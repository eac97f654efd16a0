"""Batches of records become landed Parquet: split by the layout, buffered, fanned out, tried again."""
