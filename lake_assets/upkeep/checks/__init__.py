"""Checks of a stream's table against landing zone, ledger and catalog. `check_run.py` lists them.

Functions raise StorageError if the landing zone cannot be listed, and CatalogError if the lake cannot be read, or a
user's query fails.
"""
