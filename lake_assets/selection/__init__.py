"""Which partitions a person means: `date=2026-02,region=NW|NE`, those that have landed, those that failed.

A text that is not of the grammar is a PartitionError, which names the column; one of a value outside the config is an
OutsidePartitionError.
"""
