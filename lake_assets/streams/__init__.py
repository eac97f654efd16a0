"""Open streams: the calendar of their partitions, their landing zone, and what is pending.

Functions raise StorageError if the landing zone cannot be listed, and CatalogError if the lake cannot be read.
"""
