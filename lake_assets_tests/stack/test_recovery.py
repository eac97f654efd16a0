"""Processes of the stack are killed, stopped and starved while objects land: the lake follows, without a person."""

import datetime as dt
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Self

import psycopg
import pyarrow as pa
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from dev.plain_client import plain_client
from dev.servers.dagster import DagsterServer
from dev.stack.command import started_stack
from dev.stack.components import CODE_SERVER, WATCH
from dev.stack.killer import Killer, wait
from dev.stack.probes import executes_jobs
from dev.stack.site import Site
from lake_assets.streams.load import load_config
from lake_assets_tests.faults.outage import small_disk
from lake_assets_tests.stack.sites import answers, catalog, put

pytestmark = [pytest.mark.servers, pytest.mark.dagster, pytest.mark.soak, pytest.mark.timeout(5400)]

SECONDS = 240  # after which the lake has what had landed at the kill; a code server without definitions takes half
PAUSE = 4.0  # seconds between objects of a partition
ROWS = 100  # of an object
REGIONS = ("NW", "SW", "NE")
FIRST = dt.date(2026, 1, 1)
MINUTE = 60

Partition = tuple[str, str]  # region and date

ROWS_OF_PARTITIONS = """
    SELECT region.partition_value, day.partition_value, sum(file.record_count)
    FROM ducklake_data_file file JOIN ducklake_table USING (table_id)
    JOIN ducklake_file_partition_value region USING (data_file_id)
    JOIN ducklake_file_partition_value day USING (data_file_id)
    WHERE region.partition_key_index = 0 AND day.partition_key_index = 1
    AND table_name = 'transactions' AND file.end_snapshot IS NULL GROUP BY 1, 2
"""


class Load:
    """Objects that land all the time, in three partitions of a date that changes each minute."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._begun = time.monotonic()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.landed: Counter[Partition] = Counter()
        self._objects = 0
        self._thread = threading.Thread(target=self._land, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _land(self) -> None:
        while not self._ended.wait(PAUSE):
            day = FIRST + dt.timedelta(days=int((time.monotonic() - self._begun) / MINUTE))
            for region in REGIONS:
                self.land((region, day.isoformat()))

    def land(self, partition: Partition) -> None:
        """Land an object; while the S3 server is away, again and again."""
        with self._lock:
            ids = range(self._objects * ROWS, (self._objects + 1) * ROWS)
            rows = pa.table({"id": pa.array(ids, pa.int64())})
            self._objects += 1
            while True:
                with suppress(BotoCoreError, ClientError):
                    put(self._site, *partition, rows, str(self._objects))
                    break
                time.sleep(0.5)
            self.landed[partition] += ROWS

    def missing(self, landed: Counter[Partition]) -> Counter[Partition]:
        """Of these landed rows, those that the lake does not have."""
        try:
            with catalog(self._site) as connection:
                rows = connection.execute(ROWS_OF_PARTITIONS).fetchall()
        except psycopg.Error:
            return landed
        return landed - Counter({(region, day): int(number) for region, day, number in rows})

    def follow(self, seconds: float) -> None:
        """Wait until the lake has what has landed by now."""
        landed = Counter(self.landed)
        wait("the lake", lambda: not self.missing(landed), seconds, pause=1)


DISK = "400m"  # of the S3 server

Fault = Callable[[Killer], None]


def killed(*names: str) -> Fault:
    return lambda killer: killer.end(*names)


def five_times(killer: Killer) -> None:
    for _ in range(5):
        killer.kill("postgres")
        time.sleep(MINUTE / 5)


STOPPED = ("postgres", "s3", "spark-master", "spark-worker-1", "spark-connect", CODE_SERVER, "daemon", "webserver")
FAULTS: dict[str, dict[str, Fault]] = {
    "components": {
        name: killed(name)
        for name in ("postgres", "s3", "spark-master", "spark-worker-1", "spark-connect", "daemon", "webserver")
    },
    "processes": {
        "code-server, the process that listens": killed(CODE_SERVER),
        "code-server, the process with the definitions": Killer.kill_definitions,
        "code-server, with all its runs": Killer.kill_code_server_and_runs,
        "the process of a run": Killer.kill_run,
        "an executor": Killer.kill_executor,
        "an executor's Python": Killer.kill_python,
        "the supervisor": Killer.kill_supervisor,
        "the watch": killed(WATCH),
    },
    "pairs": {
        " and ".join(pair): killed(*pair)
        for pair in (
            ("postgres", "s3"),
            ("postgres", "daemon"),
            ("s3", "spark-connect"),
            ("spark-master", "spark-connect"),
            (CODE_SERVER, "daemon"),
        )
    },
    "servers": {
        "postgres, five times in a minute": five_times,
        "postgres, all its connections taken for 30 s": Killer.take_connections,
        "s3, its disk full for 30 s, and started again": Killer.fill_disk_of_s3,
    },
    "stopped": {f"{name}, stopped for 60 s": partial(Killer.stop, name=name) for name in STOPPED},
}


@pytest.fixture
def site() -> Iterator[Site]:
    """A whole stack, with its sensor, and a small disk of the S3 server."""
    disks = ExitStack()

    def change(site: Site, document: dict[str, Any]) -> None:
        document["streams"]["transactions"]["sensor"].update(max_runs=6)
        disks.enter_context(small_disk(site.folder / "s3", DISK))

    with started_stack(change) as result, disks:
        yield result


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_the_lake_follows_after_each_fault_without_a_person(
    site: Site, faults: dict[str, Fault], monkeypatch: pytest.MonkeyPatch
) -> None:
    killer, dagster = Killer(site), DagsterServer(site.url, site.dagster_home)
    limit = float(os.environ.get("LAKE_ASSETS_RECOVERY_SECONDS", SECONDS))
    with Load(site) as load:
        wait("an object", lambda: load.landed.total() > 0)
        load.follow(300)  # the first run makes the table
        for name, fault in faults.items():
            time.sleep(2 * PAUSE)
            fault(killer)
            begun = time.monotonic()
            load.follow(limit)
            # For the table of docs/how-to/run-the-stack.md.
            sys.stdout.write(f"{name} {time.monotonic() - begun:.0f} s, {load.landed.total():,} rows landed\n")
            sys.stdout.flush()
            for component in killer.components.values():
                wait(component.name, component.answers, limit, pause=1)
    load.follow(limit)
    wait("the web server", lambda: answers(dagster))
    wait("the end of the runs", lambda: not [run for run in dagster.runs() if not run.ended], 240)
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    with plain_client(load_config(site.lake_config).lakes["retail"]) as client:
        ids = client.execute("SELECT count(*), count(DISTINCT id) FROM lake.transactions").fetchone()
    assert ids == (load.landed.total(), load.landed.total())


def test_a_connect_server_whose_application_the_master_has_forgotten_is_restarted() -> None:
    """The master is killed and loses its recovery state."""
    with started_stack(lambda *_: None, "spark-connect") as site:
        assert executes_jobs(site)
        shutil.rmtree(site.folder / "spark-master")

        Killer(site).kill("spark-master")

        wait("the Spark cluster", lambda: executes_jobs(site), 240)
