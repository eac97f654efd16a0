"""Formats of landed files besides Parquet: records of texts, their types, and blocks of whole records."""
