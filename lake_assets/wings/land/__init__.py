"""Batches of records become landed Parquet: split by the layout, buffered, fanned out, tried again.

Functions raise LandingError if the buffer or an input cannot be used, and StorageError if a batch did not reach an
output.
"""
