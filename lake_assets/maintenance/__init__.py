"""Expiry, clean-up and compaction of a lake."""
