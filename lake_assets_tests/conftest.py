"""Fixtures for all tests: real servers and one Spark session. A server whose wheel is not installed skips its tests.

Imported by name and not by `pytest_plugins`, which pytest refuses in a conftest that is not at its root folder.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from dev.servers.absent import SKIPPED
from dev.servers.connect import spark_connect
from dev.servers.pgbouncer import pgbouncer
from dev.servers.postgres import postgres, stoppable_postgres
from dev.servers.proxy import s3_proxy
from dev.servers.s3 import s3
from dev.servers.standalone import standalone
from dev.servers.web import web
from dev.test_cost import total
from lake_assets.base import errors
from lake_assets_tests.faults.actors import actors
from lake_assets_tests.ids import COLLECTED, give_short_ids
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
# Storages have a way to their servers from these.
for _name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
    os.environ.pop(_name, None)
# Of each property the same 25 examples in each run, and a thousand others in `make soak`; one may take long.
settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("soak", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile("quick")

__all__ = [
    "actors",
    "either_lake",
    "encrypted",
    "impatient",
    "indexed_world",
    "local_encrypted",
    "local_world",
    "pgbouncer",
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


def _state_of_process() -> dict[str, object]:
    """Return what tests of one process share. Spark sets variables at its first session, and Polars when imported."""
    others = ("PYTEST_", "SPARK_", "PYSPARK_", "JAVA_HOME", "_RJEM_MALLOC_CONF")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    defs_state = sys.modules.get("dagster._core.storage.defs_state.base")
    return {
        **variables,
        "the current folder": Path.cwd(),
        "the words of errors": errors._in_terms,
        "the state storage of Dagster's open instance": defs_state and defs_state._current_storage.get(),
    }


@pytest.fixture(autouse=True)
def same_process() -> Iterator[None]:
    """Fail a test that leaves the process in another state than it found, in which later tests would run.

    Handlers of signals, which commands and Spark set for the rest of their process, are put back.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = _state_of_process()
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    after = _state_of_process()
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        errors.word_errors(str)
        pytest.fail(f"the test leaves these changed: {', '.join(changed)}")


# What a test that needs a server asks for; of the worlds, the pairs with one of these.
SERVERS = {
    "azure",
    "pgbouncer",
    "postgres",
    "s3",
    "s3_location",
    "s3_proxy",
    "spark_connect",
    "standalone",
    "stoppable_postgres",
}
SERVED = {"postgres", "s3", "r2"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="run the tests in a random order, of this seed")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each case an id that a person would type after `-k`."""
    give_short_ids(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark `servers` all tests whose fixtures start one, and begin with the longest, or in the order of `--shuffle`."""
    for item in items:
        if isinstance(item, pytest.Function) and _needs_server(item):
            item.add_marker(pytest.mark.servers)
    # One that began last would leave the other workers idle.
    items.sort(key=lambda item: item.get_closest_marker("dagster") is None)
    config.stash[COLLECTED] = [item.nodeid for item in items]
    if seed := config.getoption("--shuffle"):
        random.Random(seed).shuffle(items)


_ABSENT: pytest.StashKey[set[str]] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_ABSENT] = set()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Note what this machine lacks, as the skipped tests name it."""
    reasons = [str(report.longrepr[2]) for report in terminalreporter.getreports("skipped") if report.longrepr]
    absent = {reason.partition(SKIPPED)[2] for reason in reasons if SKIPPED in reason}
    config.stash[_ABSENT].update(absent)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print what was left out, and the worker seconds of a run that has a junit file, as its last lines."""
    junit = config.option.xmlpath
    if os.environ.get("PYTEST_XDIST_WORKER"):
        return
    absent = config.stash[_ABSENT]
    if absent:
        print("Left out:", "; ".join(sorted(absent)))
    if junit and Path(junit).exists():
        print(total(Path(junit)))


def _needs_server(item: pytest.Function) -> bool:
    pair = item.callspec.params.get("world") if hasattr(item, "callspec") else None
    return not SERVERS.isdisjoint(item.fixturenames) or (isinstance(pair, tuple) and not SERVED.isdisjoint(pair))


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a worker often waits, for a daemon's next tick or a server that is away."""
    return (os.cpu_count() or 1) + 1
