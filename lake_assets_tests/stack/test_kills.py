"""A backfill on the whole stack while each component is killed: the lake is right, and Dagster says what happened."""

import datetime as dt
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from dev.plain_client import plain_client
from dev.servers.browser import chromium
from dev.servers.dagster import DagsterServer
from dev.stack.command import started_stack
from dev.stack.components import CODE_SERVER
from dev.stack.killer import Killer, wait
from dev.stack.shown import check_visible, loaded_at, troubles
from dev.stack.site import Site
from lake_assets.streams.load import load_config
from lake_assets_tests.stack.sites import answers, catalog, put
from lake_assets_tests.until import until

__all__ = ["chromium"]

pytestmark = [
    pytest.mark.servers,
    pytest.mark.dagster,
    pytest.mark.browser,
    pytest.mark.soak,
    pytest.mark.timeout(900),
]

REGIONS = ("NW", "SW")
FIRST = dt.date(2026, 1, 1)
DAYS = 150
ROWS = 20  # of a partition
PARTITIONS = len(REGIONS) * DAYS
RUN = 25  # partitions of a run at most


def of_small_runs(_: Site, document: dict[str, Any]) -> None:
    stream = document["streams"]["transactions"]
    del stream["sensor"]
    stream["max_partitions_per_run"] = RUN


@pytest.fixture
def site() -> Iterator[Site]:
    """A whole stack, whose stream has no sensor and small runs."""
    with started_stack(of_small_runs) as result:
        yield result


def land(site: Site) -> list[str]:
    """Land an object in each partition; returns the partitions' keys."""
    days = [FIRST + dt.timedelta(days=number) for number in range(DAYS)]

    def put_one(number: int) -> str:
        region, day = REGIONS[number % 2], days[number // 2]
        ids = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
        put(site, region, day, pa.table({"id": ids, "total": pa.array([number / 4] * ROWS)}))
        return f"{day}|{region}"

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(put_one, range(PARTITIONS)))


def live_files(site: Site) -> int:
    """The number of data files of the table, one of each partition; 0 before the first run."""
    try:
        with catalog(site) as connection:
            row = connection.execute(
                "SELECT count(*) FROM ducklake_data_file JOIN ducklake_table USING (table_id) "
                "WHERE table_name = 'transactions' AND ducklake_data_file.end_snapshot IS NULL"
            ).fetchone()
    except psycopg.errors.UndefinedTable:
        return 0
    return int(row[0]) if row else 0


# What Dagster shows of each kill.
RETRIED_TASK = r"Retried.* \(task\): a task of Spark failed, or its executor was lost"
RETRIED_JOB = r"Retried.* \(SessionLostError\): the Spark Connect server no longer has this session"
CATALOG_AWAY = r"the catalog postgres://.* is unreachable"
STORAGE_AWAY = r"s3://.* cannot be reached"


def test_a_backfill_is_right_and_dagster_says_what_happened_although_each_component_is_killed_in_the_middle_of_it(
    site: Site, chromium: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    keys = land(site)
    dagster, killer = DagsterServer(site.url, site.dagster_home), Killer(site)

    loaded = loaded_at(dagster)
    launched = dagster.backfill("transactions", keys)
    kills: list[tuple[Callable[[], None], str]] = [
        (killer.kill_executor, RETRIED_TASK),
        (killer.kill_worker, RETRIED_TASK),
        (killer.kill_connect_server, RETRIED_JOB),
        (killer.kill_code_server, ""),
        (killer.kill_definitions, ""),
        (lambda: kill_in_a_commit(site, killer), CATALOG_AWAY),
        (lambda: killer.kill("s3"), STORAGE_AWAY),
    ]
    at = []
    for number, (kill, _) in enumerate(kills):
        files = 5 + number * 45
        until(lambda files=files: live_files(site) >= files, f"{files} partitions", 240)  # type: ignore[misc]
        at.append(time.time())
        kill()
        wait(CODE_SERVER, killer.components[CODE_SERVER].answers, 240)
    wait("webserver", lambda: answers(dagster))
    status = dagster.wait(launched, 400)

    runs = {run.run_id: (run.status, dagster.failures(run)) for run in dagster.runs(dagster__backfill=launched)}
    assert status == "COMPLETED_SUCCESS", {run: end for run, end in runs.items() if end[0] != "SUCCESS"}
    assert len(runs) >= PARTITIONS / RUN
    check_rows(site)
    check_ledger(site)
    materialized = Counter(item["partition"] for item in dagster.materialized("transactions"))
    assert materialized.keys() == set(keys)
    assert loaded_at(dagster) > max(loaded, at[4])
    found = troubles(dagster, dagster.runs(dagster__backfill=launched))
    for (_, pattern), moment in zip(kills, at, strict=True):
        after = [trouble for trouble in found if trouble.at > moment and re.search(pattern, trouble.text)]
        assert after or not pattern, (pattern, found)
    lost = next(trouble for trouble in found if re.search(RETRIED_JOB, trouble.text))
    check_visible(dagster, chromium, lost, site.folder / "run.png")


def kill_in_a_commit(site: Site, killer: Killer) -> None:
    """Kill PostgreSQL while a commit waits for it: it is back within a second, which a run may spend in Spark."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with suppress(psycopg.OperationalError), catalog(site) as holder, catalog(site) as observer:
        observer.autocommit = True  # a transaction would see the sessions of its beginning
        holder.execute("LOCK TABLE ducklake_snapshot IN EXCLUSIVE MODE")
        until(lambda: bool(observer.execute(waiting).fetchall()), "a commit that waits", 120)
        killer.kill("postgres")


def check_rows(site: Site) -> None:
    """The rows of the lake, as a plain DuckDB reads them, are those that landed."""
    ids = range(PARTITIONS * ROWS)
    expected = [(i, i // ROWS / 4, REGIONS[i // ROWS % 2], FIRST + dt.timedelta(days=i // ROWS // 2)) for i in ids]
    with plain_client(load_config(site.lake_config).lakes["retail"]) as client:
        found = client.execute("SELECT id, total, region, date FROM lake.transactions ORDER BY id").fetchall()
    assert found == expected


def check_ledger(site: Site) -> None:
    """Each partition was committed once, with its rows and its object, by a snapshot that the lake has."""
    with plain_client(load_config(site.lake_config).lakes["retail"]) as client:
        committed = client.execute(
            "SELECT load_partition, row_count, snapshot_id, run_id FROM lake.ingest_runs WHERE status = 'committed'"
        ).fetchall()
        objects = client.execute("SELECT run_id, load_partition, count(*) FROM lake.ingest_files GROUP BY ALL")
        of_run = {(run, partition): number for run, partition, number in objects.fetchall()}
        snapshots = {number for (number,) in client.execute("SELECT snapshot_id FROM lake.snapshots()").fetchall()}
    assert Counter(Counter(partition for partition, *_ in committed).values()) == {1: PARTITIONS}
    assert {rows for _, rows, *_ in committed} == {ROWS}
    assert {snapshot for _, _, snapshot, _ in committed} <= snapshots
    assert of_run == {(run, partition): 1 for partition, _, _, run in committed}
