"""Fixtures for all tests: real servers and one Spark session. A server whose wheel is not installed skips its tests.

Imported by name and not by `pytest_plugins`, which pytest refuses in a conftest that is not at its root folder.
"""

from lake_assets_tests.encrypted import encrypted, local_encrypted
from lake_assets_tests.indexing import indexed_world, lane
from lake_assets_tests.servers.postgres import postgres
from lake_assets_tests.servers.proxy import s3_proxy
from lake_assets_tests.servers.s3 import s3
from lake_assets_tests.spark_fixture import spark
from lake_assets_tests.world_fixtures import local_world, s3_location, sessions, world

__all__ = [
    "encrypted",
    "indexed_world",
    "lane",
    "local_encrypted",
    "local_world",
    "postgres",
    "s3",
    "s3_location",
    "s3_proxy",
    "sessions",
    "spark",
    "world",
]
