"""History of a lake: the snapshots of its partitions, what differs between two, and the restore of an earlier one.

Functions raise CatalogError if the lake cannot be read, or a snapshot is unknown or has expired.
"""
