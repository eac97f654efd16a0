"""Refreshes of a partition by this package and by its peers, side by side: `make bench-peers`."""
