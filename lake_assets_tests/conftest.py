"""Fixtures for all tests: real servers and one Spark session. A server whose wheel is not installed skips its tests.

Imported by name and not by `pytest_plugins`, which pytest refuses in a conftest that is not at its root folder.
"""

import os
import shutil
import tempfile
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

from dev.servers.connect import spark_connect
from dev.servers.postgres import postgres, stoppable_postgres
from dev.servers.proxy import s3_proxy
from dev.servers.s3 import s3
from dev.servers.standalone import standalone
from dev.servers.web import web
from lake_assets_tests.faults.actors import actors
from lake_assets_tests.ingest.encrypted import encrypted, local_encrypted
from lake_assets_tests.ingest.index.indexing import indexed_world, strategy
from lake_assets_tests.spark_fixture import spark
from lake_assets_tests.world_fixtures import impatient, local_world, s3_location, sessions, world

# A JVM that lives for a minute spends half of its time on compiling what it runs a few times.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
# Nor does a process for a test or two need a pool of threads for matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# SQLite syncs to the disk at each commit, and Dagster's instances commit often. In memory that takes no time.
_MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 8 * 2**30:
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None  # is found again
# A worker of pytest-xdist has a width of its own, at which our tables would be folded.
os.environ.pop("COLUMNS", None)
# An example that takes long on a busy machine is no failure.
settings.register_profile("untimed", parent=settings(), deadline=None)
settings.load_profile("untimed")

__all__ = [
    "actors",
    "encrypted",
    "impatient",
    "indexed_world",
    "local_encrypted",
    "local_world",
    "postgres",
    "s3",
    "s3_location",
    "s3_proxy",
    "sessions",
    "spark",
    "spark_connect",
    "standalone",
    "stoppable_postgres",
    "strategy",
    "web",
    "world",
]


# What a test that needs a server asks for; of the worlds, the pairs with one of these.
SERVERS = {"azure", "postgres", "s3", "s3_location", "s3_proxy", "spark_connect", "standalone", "stoppable_postgres"}
SERVED = {"postgres", "s3", "r2"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark `servers` all tests whose fixtures start one, and `more` the cases of a test that `make test` leaves out."""
    tests: dict[tuple[str, str], list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function):
            if _needs_server(item):
                item.add_marker(pytest.mark.servers)
            if hasattr(item, "callspec") and not item.get_closest_marker("kill_all"):
                pair = item.callspec.params.get("world")
                others = item.name.replace("-".join(pair), "") if isinstance(pair, tuple) else ""
                tests.setdefault((item.nodeid.split("[")[0], others), []).append(item)
    for cases in tests.values():
        for case in left_out(cases):
            case.add_marker(pytest.mark.more)


def left_out(cases: list[pytest.Function]) -> list[pytest.Function]:
    """Return the cases of a test that only `make test-all` runs.

    A test marked `sample(n)` keeps n cases, from all over its table; one with a world keeps one of its pairs of catalog
    and storage, by its name, so that the tests of a file share the pairs out among them.
    """
    if marker := cases[0].get_closest_marker("sample"):
        count = min(marker.args[0], len(cases))
        kept = {index * len(cases) // count for index in range(count)}
    elif isinstance(cases[0].callspec.params.get("world"), tuple):
        kept = {crc32(cases[0].nodeid.split("[")[0].encode()) % len(cases)}
    else:
        return []
    return [case for index, case in enumerate(cases) if index not in kept]


def _needs_server(item: pytest.Function) -> bool:
    pair = item.callspec.params.get("world") if hasattr(item, "callspec") else None
    return not SERVERS.isdisjoint(item.fixturenames) or (isinstance(pair, tuple) and not SERVED.isdisjoint(pair))


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a worker often waits, for a daemon's next tick or a server that is away."""
    return (os.cpu_count() or 1) + 1
