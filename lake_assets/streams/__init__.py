"""Which partitions a stream has, told by its config alone; no I/O."""
