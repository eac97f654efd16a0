"""Commands ingest in the test's process."""

from lake_assets_tests.faults.without_spark import sessions

__all__ = ["sessions"]
