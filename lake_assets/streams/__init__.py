"""Which partitions a stream has, from its config alone; no I/O."""
