"""Worlds of this room ingest in the test's process; a transform starts Spark."""

from lake_assets_tests.faults.without_spark import sessions

__all__ = ["sessions"]
