"""Jobs of these tests run in the test's process: what Spark does with tasks is the subject of `spark/`.

`test_ingest.py` and `test_insert.py` have the run's Spark session.
"""

from lake_assets_tests.faults.without_spark import sessions

__all__ = ["sessions"]
