"""Partition paths: how they are written and read back.

Functions raise LayoutError for a malformed template, a type that paths cannot hold and a time outside the years 1 to
9999, and PartitionError for a partition that the columns do not have.
"""
