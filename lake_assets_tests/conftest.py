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
from lake_assets_tests.world_fixtures import either_lake, impatient, local_world, s3_location, sessions, world

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
# An example that takes long on a busy machine is no failure; 50 of each property keep the suite quick.
settings.register_profile("untimed", parent=settings(), deadline=None)
settings.load_profile("untimed")

__all__ = [
    "actors",
    "either_lake",
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


# Kinds of tests that take seconds. Of each file, `make test` runs the first test of a kind; of each kill, one case.
SLOW = ("dagster", "browser", "long")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark `servers` all tests whose fixtures start one, and `more` what only `make test-all` runs."""
    tests: dict[str, list[pytest.Function]] = {}
    slow: set[tuple[Path, tuple[str, ...]]] = set()
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if _needs_server(item):
            item.add_marker(pytest.mark.servers)
        if item.get_closest_marker("kill_all") or item.get_closest_marker("more"):
            continue
        kinds = tuple(kind for kind in SLOW if item.get_closest_marker(kind))
        if kinds and not (item.get_closest_marker("kill") or item.get_closest_marker("sample")):
            if (item.path, kinds) in slow:
                item.add_marker(pytest.mark.more)
            slow.add((item.path, kinds))
        elif hasattr(item, "callspec"):
            tests.setdefault(item.nodeid.split("[")[0], []).append(item)
    for test, cases in tests.items():
        kept = _kept(test, cases)
        for case in cases:
            if case not in kept:
                case.add_marker(pytest.mark.more)


def _kept(test: str, cases: list[pytest.Function]) -> list[pytest.Function]:
    """Return the cases of a test that `make test` runs.

    Of a test marked `sample(n)` they are n cases from all over its table. Of one with a world, they are those of one
    pair of catalog and storage, chosen by the test's name, so that the tests of a file share the pairs out among them.
    """
    if marker := cases[0].get_closest_marker("sample"):
        count = min(marker.args[0], len(cases))
        return [cases[index * len(cases) // count] for index in range(count)]
    pairs = list(dict.fromkeys(pair for case in cases if isinstance(pair := case.callspec.params.get("world"), tuple)))
    if pairs:
        pair = pairs[crc32(test.encode()) % len(pairs)]
        cases = [case for case in cases if case.callspec.params["world"] == pair]
    return cases[:1] if cases[0].get_closest_marker("kill") else cases


def _needs_server(item: pytest.Function) -> bool:
    pair = item.callspec.params.get("world") if hasattr(item, "callspec") else None
    return not SERVERS.isdisjoint(item.fixturenames) or (isinstance(pair, tuple) and not SERVED.isdisjoint(pair))


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a worker often waits, for a daemon's next tick or a server that is away."""
    return (os.cpu_count() or 1) + 1
