"""Ingest: partitions of the lake from the landing zone, by replacement or by registration in place.

Functions that read raise StorageError if the landing zone cannot be listed, and CatalogError if the lake cannot be
read.
"""
