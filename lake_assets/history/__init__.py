"""History of a lake: the snapshots of its partitions, what differs between two, and the restore of an earlier one."""
