"""Columns and their values: what a landed column becomes in the table, without loss; no files, no catalog.

What does not fit is a SchemaError or, of a row, a reason in words.
"""
