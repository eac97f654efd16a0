"""The rows that snapshots inserted and deleted."""
