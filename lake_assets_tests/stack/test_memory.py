"""Runs on a Spark Connect server, each with a session of its own: the memory of the cluster does not grow with them."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pyarrow as pa
import pytest

from dev.stack.command import started_stack
from dev.stack.site import Site
from dev.stack.supervised import Supervisor
from lake_assets.api import open_stream
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.spark.daemon import IDLE_SECONDS
from lake_assets.spark.spark_session import own_session
from lake_assets_tests.stack.sites import put

pytestmark = [pytest.mark.servers, pytest.mark.soak, pytest.mark.timeout(14_400)]

RUNS = int(os.environ.get("LAKE_ASSETS_RUNS", "200"))
WARM = RUNS // 5  # runs until each JVM has the heap that it needs
GROWTH = 1.25  # of the rest of the runs, over the most of the warm ones
EXECUTORS = 2
LIFE = 60 + IDLE_SECONDS + 10  # seconds of a daemon after its run: until Spark ends its worker, it itself, and a few
DAEMON = 160  # megabytes of a daemon and its worker, most of them shared with others
MB = 2**20


@pytest.fixture
def site() -> Iterator[Site]:
    """A stack without Dagster."""
    with started_stack(lambda *_: None, "postgres", "s3", "spark-connect") as result:
        yield result


def memory(site: Site) -> tuple[list[str], int, int]:
    """The executors' Python daemons, and the megabytes of all their Python, and of the cluster's JVMs."""
    daemons, python, java = list[str](), 0, 0
    for name, process in Supervisor(site).processes().items():
        if name.startswith("spark-"):
            found = psutil.Process(process.pid)
            for one in (found, *found.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):  # it has just ended
                    size = one.memory_full_info().pss // MB
                    if "java" in one.name():
                        java += size
                    else:
                        python += size
                        command, parent = one.cmdline(), one.parent()
                        # A JVM also starts other processes, which end at once: `getconf` at its first heartbeat, and
                        # `rm` when a session has ended.
                        if parent is not None and "java" in parent.name() and "-m" in command:
                            age = time.time() - one.create_time()
                            daemons.append(f"{name} {one.pid} of {parent.pid}, {age:.0f} s: {shlex.join(command)}")
    return daemons, python, java


def test_memory_does_not_grow_with_the_number_of_runs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    stream = open_stream(site.lake_config, "transactions")
    partition = stream.config.partition("region=NW,date=2026-01-01")
    seen, ended, begun = [], list[float](), time.monotonic()
    for number in range(1, RUNS + 1):
        put(site, "NW", "2026-01-01", pa.table({"id": pa.array(range(number), pa.int64())}))
        with own_session(stream.spark.settings, transforms=False) as session:
            (outcome,) = ingest_all(stream, [partition], session, IngestOptions())
        assert (outcome.status, outcome.row.row_count) == ("committed", number)
        ended.append(time.monotonic())
        daemons, python, java = memory(site)
        seen.append((len(daemons), python, java))
        recent = sum(moment > ended[-1] - LIFE for moment in ended)
        assert len(daemons) <= EXECUTORS * recent, daemons
        assert python <= DAEMON * EXECUTORS * recent
        if number % 10 == 0:  # for the table of docs/how-to/run-the-stack.md
            shown = " ".join(str(max(figures)) for figures in zip(*seen[-10:], strict=True))
            sys.stdout.write(f"{number} runs, {time.monotonic() - begun:.0f} s: {shown}\n")
            sys.stdout.flush()

    jvms = [megabytes for *_, megabytes in seen]
    assert max(jvms[WARM:]) <= max(jvms[:WARM]) * GROWTH
