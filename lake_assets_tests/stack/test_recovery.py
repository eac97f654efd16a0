"""Each component of the stack is killed under load, twice: the lake follows again, without a person."""

import datetime as dt
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Self

import psycopg
import pyarrow as pa
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from dev.servers.dagster import DagsterServer
from dev.stack.command import started_stack
from dev.stack.components import CODE_SERVER
from dev.stack.killer import Killer, wait
from dev.stack.probes import executes_jobs
from dev.stack.site import Site
from lake_assets_tests.stack.sites import answers, catalog, put

pytestmark = [pytest.mark.servers, pytest.mark.dagster, pytest.mark.soak, pytest.mark.timeout(5400)]

SECONDS = 120  # after which the lake has what had landed at the kill
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
        rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), "total": [0.5] * ROWS})
        with self._lock:
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


@pytest.fixture
def site() -> Iterator[Site]:
    """A whole stack, with its sensor."""
    with started_stack(lambda _, document: document["streams"]["transactions"]["sensor"].update(max_runs=6)) as result:
        yield result


def test_the_lake_follows_two_minutes_after_each_kill_without_a_person(site: Site) -> None:
    killer, dagster = Killer(site), DagsterServer(site.url, site.dagster_home)

    def end(name: str) -> Callable[[], None]:
        return lambda: os.kill(killer.pid(name), signal.SIGKILL)

    components = ("spark-master", "spark-worker-1", "spark-connect", "daemon", "webserver", "postgres", "s3")
    kills = {name: end(name) for name in components} | {
        "code-server": killer.kill_code_server_and_runs,
        "definitions": killer.kill_definitions,
    }
    limit = float(os.environ.get("LAKE_ASSETS_RECOVERY_SECONDS", SECONDS))
    seconds: dict[str, list[float]] = {name: [] for name in kills}
    with Load(site) as load:
        time.sleep(2 * PAUSE)
        load.follow(300)  # the first run makes the table
        for name, kill in [*kills.items(), *kills.items()]:
            time.sleep(2 * PAUSE)
            begun = time.monotonic()
            kill()
            load.follow(limit)
            seconds[name].append(round(time.monotonic() - begun))
            sys.stdout.write(f"{name} {seconds[name][-1]} s\n")  # for the table of docs/how-to/run-the-stack.md
            sys.stdout.flush()
            component = killer.components.get(name, killer.components[CODE_SERVER])
            wait(name, component.answers, pause=1)
    load.follow(limit)
    wait("the web server", lambda: answers(dagster))
    wait("the end of the runs", lambda: not [run for run in dagster.runs() if not run.ended], 240)


def test_a_connect_server_whose_application_the_master_has_forgotten_is_restarted() -> None:
    """The master is killed and loses its recovery state."""
    with started_stack(lambda *_: None, "watch") as site:
        assert executes_jobs(site)
        shutil.rmtree(site.folder / "spark-master")

        Killer(site).kill("spark-master")

        wait("the Spark cluster", lambda: executes_jobs(site), 240)
