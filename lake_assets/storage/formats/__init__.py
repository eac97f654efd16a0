"""Formats of landed objects: each is read into Arrow's batches of whole records.

A value that its type cannot hold is an ArrowInvalid, a column that no table can have a SchemaError, and a text that
cannot be read any further a SourceError.
"""
