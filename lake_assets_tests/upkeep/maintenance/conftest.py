"""Jobs run without Spark here: for maintenance it does not matter where tasks ran."""

from lake_assets_tests.faults.without_spark import sessions

__all__ = ["sessions"]
