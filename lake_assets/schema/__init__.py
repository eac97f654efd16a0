"""Columns and their values: what a landed column becomes in the table, without loss; no files, no catalog.

What does not fit is a SchemaError, unless `Rules` say otherwise: `rescue` keeps a value that its column cannot hold, in
a column of its own; `splits` leaves a row out with a reason in words, for the sink of `spark/task/bad_row_sink.py`. An
object that is refused fails its partition, or a run leaves it out (`on_bad_object: quarantine`).
"""
