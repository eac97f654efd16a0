"""Partition paths: how they are written and read back."""
