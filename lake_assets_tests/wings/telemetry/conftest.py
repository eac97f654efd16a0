"""Worlds, commands and runs of Dagster ingest in the test's process; a launched driver is one of its own."""

from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.orchestration.conftest import runs_here

__all__ = ["runs_here", "sessions"]
