"""A real Dagster: web server, daemon and code location, as `dagster dev` starts them, over a lake's config."""

import json
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.servers.process import free_ports, retried, running

_ROOT = Path(__file__).parents[2]
_ENDED = {"COMPLETED", "COMPLETED_SUCCESS", "COMPLETED_FAILED", "FAILED", "CANCELED"}

_LAUNCH = """
mutation ($backfill: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $backfill) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
_STATUS = """
query ($id: String!) {
  partitionBackfillOrError(backfillId: $id) {
    __typename
    ... on PartitionBackfill { status error { message } }
  }
}
"""
_BACKFILLS = """
query { partitionBackfillsOrError(limit: 100) { ... on PartitionBackfills { results { id } } } }
"""
_REPOSITORY = """
query { repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }
"""
_TICKS = """
query ($sensor: SensorSelector!) {
  sensorOrError(sensorSelector: $sensor) {
    ... on Sensor { sensorState { ticks(limit: 100) { status skipReason runIds cursor } } }
  }
}
"""
_START_SCHEDULE = """
mutation ($selector: ScheduleSelector!) {
  startSchedule(scheduleSelector: $selector) {
    __typename
    ... on PythonError { message }
    ... on UnauthorizedError { message }
  }
}
"""
_RUNS = """
query ($filter: RunsFilter!) {
  runsOrError(filter: $filter) {
    ... on Runs { results { runId status startTime endTime tags { key value } } }
  }
}
"""
_FAILURES = """
query ($id: ID!) {
  logsForRun(runId: $id) {
    ... on EventConnection {
      events { ... on ExecutionStepFailureEvent { error { message stack causes { message } } } }
    }
  }
}
"""
_MATERIALIZED = """
query ($key: AssetKeyInput!) {
  assetOrError(assetKey: $key) {
    ... on Asset {
      assetMaterializations { partition runId metadataEntries { label ... on IntMetadataEntry { intValue } } }
    }
  }
}
"""


@dataclass(frozen=True)
class Run:
    """A run as Dagster knows it."""

    run_id: str
    status: str
    started: float  # seconds since 1970
    ended: float
    tags: Mapping[str, str]


@dataclass(frozen=True)
class DagsterServer:
    """The web server's address, and Dagster's folder."""

    url: str
    home: Path

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        """The data that a query gives.

        Raises:
            AssertionError: the server tells of an error.
        """
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            result = json.load(answer)
        assert "errors" not in result, result["errors"]
        data: dict[str, Any] = result["data"]
        return data

    def backfill(self, asset: str, keys: Sequence[str]) -> str:
        """Launch a backfill of these partitions; returns its id."""
        wanted = {"assetSelection": [{"path": [asset]}], "partitionNames": list(keys)}
        launched = self.graphql(_LAUNCH, backfill=wanted)["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return str(launched["backfillId"])

    @property
    def repository(self) -> tuple[str, str]:
        """The names of the repository and of its code location."""
        (repository,) = self.graphql(_REPOSITORY)["repositoriesOrError"]["nodes"]
        return repository["name"], repository["location"]["name"]

    @property
    def location_url(self) -> str:
        """The address below which the pages of jobs and sensors are."""
        return f"{self.url}/locations/{'@'.join(self.repository)}"

    def ticks(self, sensor: str) -> list[dict[str, Any]]:
        """The ticks of a sensor, newest first."""
        name, location = self.repository
        selector = {"repositoryName": name, "repositoryLocationName": location, "sensorName": sensor}
        state = self.graphql(_TICKS, sensor=selector)["sensorOrError"]["sensorState"]
        return [tick for tick in state["ticks"] if tick["status"] != "STARTED"]

    def backfills(self) -> list[str]:
        """The ids of the backfills, the newest first."""
        result = self.graphql(_BACKFILLS)["partitionBackfillsOrError"]["results"]
        return [str(backfill["id"]) for backfill in result]

    def start_schedule(self, name: str) -> None:
        """Let a schedule tick."""
        repository, location = self.repository
        selector = {"repositoryName": repository, "repositoryLocationName": location, "scheduleName": name}
        started = self.graphql(_START_SCHEDULE, selector=selector)["startSchedule"]
        assert started["__typename"] == "ScheduleStateResult", started

    def wait_for_run(self, timeout: float, **tags: str) -> Run:
        """The first run with these tags, when it has ended."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if (runs := self.runs(**tags)) and runs[0].ended:
                return runs[0]
            time.sleep(1)
        raise AssertionError(f"no run with {tags} has ended after {timeout} s")

    def wait(self, backfill: str, timeout: float) -> str:
        """How a backfill ended: its status."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            result = self.graphql(_STATUS, id=backfill)["partitionBackfillOrError"]
            if result["status"] in _ENDED:
                return str(result["status"])
            time.sleep(1)
        raise AssertionError(f"backfill {backfill} is {result} after {timeout} s")

    def runs(self, **tags: str) -> list[Run]:
        """The runs with these tags (`__` stands for the slash of a tag's name), oldest first."""
        wanted = [{"key": key.replace("__", "/"), "value": value} for key, value in tags.items()]
        result = self.graphql(_RUNS, filter={"tags": wanted})["runsOrError"]["results"]
        runs = [
            Run(
                run["runId"],
                run["status"],
                run["startTime"] or 0.0,
                run["endTime"] or 0.0,
                {tag["key"]: tag["value"] for tag in run["tags"]},
            )
            for run in result
        ]
        return sorted(runs, key=lambda run: run.started)

    def failures(self, run: Run) -> list[str]:
        """The errors of a run's steps, each with its causes."""
        events = self.graphql(_FAILURES, id=run.run_id)["logsForRun"]["events"]
        errors = [event["error"] for event in events if event.get("error")]
        return ["\n".join([e["message"], *(cause["message"] for cause in e["causes"])]) for e in errors]

    def materialized(self, asset: str) -> list[dict[str, Any]]:
        """The materializations of an asset, newest first."""
        result = self.graphql(_MATERIALIZED, key={"path": [asset]})["assetOrError"]["assetMaterializations"]
        assert isinstance(result, list)
        return result


@retried
def dagster_dev(config: Path, project: Path | None = None) -> Iterator[DagsterServer]:
    """`dagster dev` of a `lake.yaml` on a free port of 127.0.0.1, with the repository's own files for it.

    With a `project`, it runs in that folder and loads its `workspace.yaml`.
    """
    home = Path(tempfile.mkdtemp(prefix="lake-assets-dagster-"))
    shutil.copy(_ROOT / "dagster.yaml", home)
    (port,) = free_ports(1)
    server = DagsterServer(f"http://127.0.0.1:{port}", home)
    command = [sys.executable, "-m", "dagster", "dev", "-h", "127.0.0.1", "-p", str(port)]
    with running(
        [*command, "-w", str((project or _ROOT) / "workspace.yaml")],
        folder=project or home,
        ready=lambda: _is_up(server.url),
        environment={"LAKE_CONFIG": str(config), "DAGSTER_HOME": str(home)},
        grace=20,
        timeout=120,
    ):
        yield server


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/server_info", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
