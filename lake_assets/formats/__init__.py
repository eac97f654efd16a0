"""Formats of landed files besides Parquet: records of texts, their types, and blocks of whole records.

A value that its type cannot hold is an ArrowInvalid, a column that no table can have a SchemaError, and a text that
cannot be read any further a SourceError.
"""
