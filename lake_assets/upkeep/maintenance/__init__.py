"""Expiry, clean-up and compaction of a lake.

Functions raise CatalogError if the catalog refuses, and StorageError if a store does.
"""
