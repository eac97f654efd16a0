"""Dagster in its second month, by its API and pages: 120 partitions that are cancelled, dropped, renamed, and 3,000."""

import contextlib
import csv
import io
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from dev.servers.dagster import DagsterServer, dagster_dev
from lake_assets.base.retrying import Limit, pause_between, poll
from lake_assets.cli import main

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.dagster,
    pytest.mark.soak,
    pytest.mark.timeout(2400),
    pytest.mark.usefixtures("web_server"),
]

REGIONS = ["NE", "NW", "SE", "SW"]
DAYS = [f"2026-02-{day:02}" for day in range(1, 29)] + ["2026-03-01", "2026-03-02"]
KEYS = [f"{day}|{region}" for day in DAYS for region in REGIONS]
LARGE_DAYS = 1_000

_CHECKS = """
query ($keys: [AssetKeyInput!]) {
  assetNodes(assetKeys: $keys) {
    assetChecksOrError { ... on AssetChecks { checks {
      name
      executionForLatestMaterialization { status }
      partitionStatuses {
        ... on AssetCheckMultiPartitionStatuses { ranges { secondaryDim {
          ... on AssetCheckTimePartitionStatuses { ranges { status } }
          ... on AssetCheckDefaultPartitionStatuses {
            failedPartitions inProgressPartitions skippedPartitions executionFailedPartitions
          }
        } } }
      }
    } } }
  }
}
"""
_PARTITIONS = """
query ($keys: [AssetKeyInput!]) {
  assetNodes(assetKeys: $keys) {
    partitionStats { numMaterialized numFailed numMaterializing numPartitions }
  }
}
"""
_CANCEL = """
mutation ($id: String!) { cancelPartitionBackfill(backfillId: $id) { __typename } }
"""
_RELOAD = """
mutation ($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename } }
"""
_QUEUED = """
query ($filter: RunsFilter!) { runsOrError(filter: $filter) { ... on Runs { results { runId status } } } }
"""
_MESSAGES = """
query ($id: ID!) { logsForRun(runId: $id) { ... on EventConnection { events { ... on MessageEvent { message } } } } }
"""
_START_SENSOR = """
mutation ($sensor: SensorSelector!) { startSensor(sensorSelector: $sensor) { __typename } }
"""


@dataclass(frozen=True)
class Month:
    """A Dagster over a lake in a folder."""

    folder: Path
    dagster: DagsterServer

    @property
    def config(self) -> Path:
        return self.folder / "lake.yaml"

    def backfill(self, stream: str, keys: list[str]) -> str:
        return self.dagster.backfill(stream, keys)

    def stats(self, stream: str) -> dict[str, int]:
        """How many partitions Dagster's map has of each kind."""
        (node,) = self.dagster.graphql(_PARTITIONS, keys=[{"path": [stream]}])["assetNodes"]
        stats: dict[str, int] = node["partitionStats"]
        return stats

    def checks(self, stream: str) -> dict[str, str]:
        """The status of each check of a stream, as the UI's overview has it."""
        (node,) = self.dagster.graphql(_CHECKS, keys=[{"path": [stream]}])["assetNodes"]
        checks = node["assetChecksOrError"]["checks"]
        return {each["name"]: str((each["executionForLatestMaterialization"] or {}).get("status")) for each in checks}

    def open_partitions(self, stream: str) -> Counter[str]:
        """The states of partitions of checks that are neither passed nor failed."""
        (node,) = self.dagster.graphql(_CHECKS, keys=[{"path": [stream]}])["assetNodes"]
        found = Counter[str]()
        for each in node["assetChecksOrError"]["checks"]:
            for of_range in (each["partitionStatuses"] or {}).get("ranges") or ():
                states = of_range["secondaryDim"]
                found.update(inner["status"] for inner in states.get("ranges") or ())
                for name in ("inProgressPartitions", "skippedPartitions", "executionFailedPartitions"):
                    found[name] += len(states.get(name) or ())
        ended = {"SUCCEEDED", "FAILED"}
        return Counter({state: number for state, number in found.items() if number and state not in ended})

    def report(self, stream: str) -> tuple[int, int]:
        """How many partitions of a stream are committed and failed, as the command line says."""
        result = CliRunner().invoke(main, ["--config", str(self.config), "report", stream])
        assert result.exit_code == 0, result.output
        rows = list(csv.DictReader(io.StringIO(result.output)))
        return sum(int(row["committed"]) for row in rows), sum(int(row["failed"]) for row in rows)

    def queued(self) -> int:
        found = self.dagster.graphql(_QUEUED, filter={"statuses": ["QUEUED", "NOT_STARTED", "STARTING", "STARTED"]})
        return len(found["runsOrError"]["results"])

    def dropped(self, sensor: str) -> list[str]:
        """The runs of a sensor that Dagster has failed in its queue, before they were launched."""
        failed = [run for run in self.dagster.runs(dagster__sensor_name=sensor) if run.status == "FAILURE"]
        return [run.run_id for run in failed if any(DROPPED in message for message in self.messages(run.run_id))]

    def messages(self, run_id: str) -> list[str]:
        events = self.dagster.graphql(_MESSAGES, id=run_id)["logsForRun"]["events"]
        return [event["message"] for event in events if event.get("message")]

    def write(self, streams: dict[str, Any]) -> None:
        """Write the config, and let the code location read it."""
        text = yaml.safe_dump({"lakes": {"shop": LAKE}, "streams": streams}, sort_keys=False)
        self.config.write_text(text, encoding="utf-8")
        self.dagster.graphql(_RELOAD, name=LOCATION)


LOCATION = "lake"  # as workspace.yaml names it
DROPPED = "Run dequeue failed to reach the user code server after 10 attempts"  # as Dagster words it
LAKE = {"catalog": {"type": "sqlite", "path": "catalog.sqlite"}, "storage": "data"}
BROKEN: dict[str, Any] = {"cancelled": {"source": "landing/cancelled", "nonsense": True}}


def stream(name: str, **more: Any) -> dict[str, Any]:
    partitions = {"region": {"values": REGIONS}, "date": {"type": "date", "start": DAYS[0], "end": DAYS[-1]}}
    return {
        "source": f"landing/{name}",
        "mode": "index",
        "partitions": partitions,
        "destination": {"table": name},
        "max_partitions_per_run": 10,
    } | more


STREAMS = {
    "cancelled": stream("cancelled", max_partitions_per_run=3),
    "dropped": stream("dropped", sensor={"type": "objects", "interval": 5, "group_runs": 10}),
    "renamed": stream("renamed"),
    "large": stream("large", max_partitions_per_run=None)
    | {
        "partitions": {
            "region": {"values": REGIONS[:3]},
            "date": {"type": "date", "start": "2023-01-01", "end": "2025-09-26"},
        }
    },
}


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Month]:
    folder = tmp_path_factory.mktemp("month")
    config = folder / "lake.yaml"
    config.write_text(yaml.safe_dump({"lakes": {"shop": LAKE}, "streams": STREAMS}, sort_keys=False))
    body = folder / "rows.parquet"
    pq.write_table(pa.table({"total": [1.0]}), body)
    for name, days, regions in (
        *((name, DAYS, REGIONS) for name in ("cancelled", "renamed")),
        ("large", [str(day) for day in large_days()], REGIONS[:3]),
    ):
        for day in days:
            for region in regions:
                land(folder, name, region, day, body)
    (folder / "landing" / "dropped").mkdir(parents=True)
    with dagster_dev(config) as server:
        month = Month(folder, server)
        yield month


def large_days() -> Any:
    import pendulum  # noqa: PLC0415 - of this function alone

    first = pendulum.date(2023, 1, 1)
    return [first.add(days=number) for number in range(LARGE_DAYS)]


def land(folder: Path, stream: str, region: str, day: str, body: Path) -> None:
    place = folder / "landing" / stream / f"region={region}" / f"date={day}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "a.parquet").write_bytes(body.read_bytes())


def until(is_so: Callable[[], bool], what: str, seconds: float) -> None:
    """Ask the web server each second whether something is so."""
    assert poll(is_so, pause=pause_between(1, 1.5), limit=Limit(seconds=seconds)), f"{what}: not after {seconds} s"


def settled(month: Month, stream: str) -> bool:
    """Whether no check of a stream is open, skipped or in progress."""
    states = month.checks(stream).values()
    return set(states) <= {"SUCCEEDED", "FAILED"} and not month.open_partitions(stream)


def test_a_backfill_that_is_cancelled_in_the_middle_leaves_checks_and_states_that_agree(month: Month) -> None:
    backfill = month.backfill("cancelled", KEYS)
    until(lambda: month.stats("cancelled")["numMaterialized"] >= 20, "20 partitions", 300)
    month.dagster.graphql(_CANCEL, id=backfill)
    assert month.dagster.wait(backfill, 300) == "CANCELED"
    until(lambda: month.queued() == 0, "no runs", 300)

    until(lambda: settled(month, "cancelled"), "checks without an open state", 400)

    failing = {name for name, status in month.checks("cancelled").items() if status == "FAILED"}
    assert failing == {"landing_zone"}  # what the cancelled runs did not read is not in the lake
    stats = month.stats("cancelled")
    committed = len(month.dagster.materialized("cancelled"))
    assert (stats["numFailed"], stats["numMaterialized"]) == (0, committed)
    assert 20 <= committed < len(KEYS)
    assert month.report("cancelled") == (committed, 0)
    assert month.dagster.wait(month.backfill("cancelled", KEYS), 600) == "COMPLETED_SUCCESS"
    assert month.stats("cancelled")["numMaterialized"] == len(KEYS)
    assert set(month.checks("cancelled").values()) == {"SUCCEEDED"}


def test_runs_that_a_config_error_drops_from_the_queue_are_requested_again(month: Month) -> None:
    repository, location = month.dagster.repository
    selector = {"repositoryName": repository, "repositoryLocationName": location, "sensorName": "dropped_sensor"}
    month.dagster.graphql(_START_SENSOR, sensor=selector)
    for day in DAYS:
        for region in REGIONS:
            land(month.folder, "dropped", region, day, month.folder / "rows.parquet")
    until(lambda: month.queued() >= 1, "queued runs", 120)
    month.write(BROKEN)
    # Dagster asks for the code of the oldest queued run each 30 s, ten times: five minutes, then it fails that run.
    until(lambda: bool(month.dropped("dropped_sensor")), "a run that is dropped", 900)
    month.write(STREAMS)

    until(lambda: month.stats("dropped")["numMaterialized"] == len(KEYS), "all partitions", 900)
    until(lambda: settled(month, "dropped"), "checks without an open state", 300)

    assert month.stats("dropped")["numFailed"] == 0
    assert set(month.checks("dropped").values()) == {"SUCCEEDED"}


@pytest.mark.browser
def test_a_renamed_stream_is_as_it_was(month: Month, page: "Page") -> None:
    assert month.dagster.wait(month.backfill("renamed", KEYS), 600) == "COMPLETED_SUCCESS"
    streams = {"sold" if name == "renamed" else name: each for name, each in STREAMS.items()}
    streams["sold"] = streams["sold"] | {"previously": ["renamed"]}
    month.write(streams)

    until(lambda: month.stats("sold")["numMaterialized"] == len(KEYS), "all partitions", 300)
    until(lambda: settled(month, "sold"), "checks without an open state", 300)

    assert set(month.checks("sold").values()) == {"SUCCEEDED"}
    page.goto(f"{month.dagster.url}/assets/sold?view=checks")
    page.get_by_text("row_counts").first.wait_for()
    page.wait_for_timeout(3_000)
    page.screenshot(path=str(month.folder / "sold_checks.png"))
    month.write(STREAMS)


@pytest.mark.browser
def test_a_stream_of_3000_partitions_is_made_in_few_runs_and_its_checks_tell_the_truth(
    month: Month, page: "Page"
) -> None:
    keys = [f"{day}|{region}" for day in large_days() for region in REGIONS[:3]]
    backfill = month.backfill("large", keys)
    assert month.dagster.wait(backfill, 900) == "COMPLETED_SUCCESS"

    assert len(month.dagster.runs(dagster__backfill=backfill)) == len(REGIONS[:3])
    until(lambda: settled(month, "large"), "checks without an open state", 300)
    assert set(month.checks("large").values()) == {"SUCCEEDED"}
    page.goto(f"{month.dagster.url}/assets/large?view=checks")
    page.get_by_text("row_counts").first.wait_for()
    page.wait_for_timeout(3_000)
    page.screenshot(path=str(month.folder / "large_checks.png"))
    with contextlib.closing(sqlite3.connect(month.folder / "catalog.sqlite")) as catalog:
        assert catalog.execute("SELECT sum(record_count) FROM ducklake_data_file").fetchone()[0] >= len(keys)
