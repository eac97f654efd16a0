"""Open streams: their calendar, their landing zone, what is pending, what has landed since, what a person selects.

Functions raise StorageError if the landing zone cannot be listed, and CatalogError if the lake cannot be read.
"""
