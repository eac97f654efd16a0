"""The direct lane: a commit written into the catalog's own tables, as DuckLake's specification 1.0 describes them.

DuckLake's extension deletes a partition by reading it: it opens every old file, and asks the catalog for the
statistics of all files of the table. Where a partition is nothing but whole files, its end is one number in their
rows. This lane writes that, and all else that the extension would have written, in one transaction of the catalog.
Where a partition is more than whole files, it says `NotDirectError` and the extension does it.

Source of the tables and their rules: https://ducklake.select/docs/stable/specification/introduction
"""
