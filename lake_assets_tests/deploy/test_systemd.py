"""`deploy/systemd`: systemd accepts the units, and their own commands execute a backfill."""

import os
import shlex
import shutil
import signal
import stat
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from dev.servers.postgres import PostgresServer
from dev.servers.process import free_ports
from dev.servers.s3 import S3Server
from lake_assets_tests.orchestration.in_process import REGIONS
from lake_assets_tests.orchestration.test_definitions import write_config
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on

DEPLOY = Path(__file__).parents[2] / "deploy"
SYSTEMD = DEPLOY / "systemd"
WORKSPACE = (DEPLOY / "workspace.yaml").read_text("utf-8")
SERVICES = ("code-server", "webserver", "daemon")
SCRIPTS = sysconfig.get_path("scripts")
MOST_EXPOSED = 25  # tenths; systemd calls a service with less than 50 "medium", and one with less than 30 "OK"


def assignments(file: Path) -> dict[str, str]:
    """The variables of an environment file, also those in comments."""
    lines = (line.removeprefix("# ").split("=", 1) for line in file.read_text("utf-8").splitlines())
    return {pair[0]: pair[1] for pair in lines if len(pair) == 2 and pair[0].isupper()}


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """A folder as /etc/systemd/system, with this environment's programs in place of /opt/lake/bin."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    folder = tmp_path / "units"
    shutil.copytree(SYSTEMD, folder)
    for file in folder.glob("*.service"):
        file.write_text(file.read_text("utf-8").replace("/opt/lake/bin", SCRIPTS), "utf-8")
    return folder


def analyze(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SYSTEMD_UNIT_PATH": f"{folder}:"}
    command = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_can_do_little_else(units: Path, service: str) -> None:
    unit = units / f"lake-assets-{service}.service"
    done = analyze(units, "security", "--offline=yes", f"--threshold={MOST_EXPOSED}", unit)

    assert done.returncode == 0, done.stdout[-200:] + done.stderr


def test_the_target_wants_each_service() -> None:
    units = {file.name for file in SYSTEMD.glob("*.service")}

    assert units == {f"lake-assets-{service}.service" for service in SERVICES}
    assert set(directives(SYSTEMD / "lake-assets.target", "Unit")["Wants"][0].split()) == units


def test_the_variables_of_the_configs_are_in_the_environment_files_and_secrets_in_theirs() -> None:
    settings, secrets = assignments(SYSTEMD / "lake.env"), assignments(SYSTEMD / "secrets.env")
    lake = (DEPLOY / "lake.yaml").read_text("utf-8")
    named = {part.split("}")[0].split(":-")[0] for part in lake.split("${")[1:]}
    dagster = yaml.safe_load((DEPLOY / "dagster.yaml").read_text("utf-8"))
    found = set(variables_of([dagster, yaml.safe_load(WORKSPACE)]))

    assert len(named) == 6
    assert len(found) == 7
    assert (named | found) <= settings.keys() | secrets.keys()
    assert {name for name in settings if "PASSWORD" in name or "KEY" in name} == set()
    assert set(secrets.values()) == {""}


def variables_of(node: Any) -> Iterator[str]:
    """The variables that a Dagster config names by `env:`."""
    match node:
        case {"env": str(name)}:
            yield name
        case dict():
            yield from variables_of(list(node.values()))
        case list():
            for value in node:
                yield from variables_of(value)


def test_the_command_beside_the_services_has_their_environment() -> None:
    common = directives(SYSTEMD / "lake-assets-.service.d/common.conf", "Service")
    command = (SYSTEMD / "as-lake").read_text("utf-8")

    assert (SYSTEMD / "as-lake").stat().st_mode & stat.S_IXUSR
    assert len(common["Environment"]) == 4
    assert [text for text in common["Environment"] if f"--setenv={text} " not in command] == []
    assert [text for text in common["EnvironmentFile"] if f"--property=EnvironmentFile={text} " not in command] == []


def directives(file: Path, section: str) -> Mapping[str, list[str]]:
    """The directives of a section of a unit, each with its values."""
    result: dict[str, list[str]] = {}
    current = ""
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif "=" in line and not line.startswith("#") and current == section:
            name, value = line.split("=", 1)
            result.setdefault(name, []).append(value)
    return result


def variables_on(postgres: PostgresServer, s3: S3Server) -> dict[str, str]:
    """The variables of `deploy/dagster.yaml` on these servers."""
    return {
        "DAGSTER_PG_HOST": postgres.host,
        "DAGSTER_PG_PORT": str(postgres.port),
        "DAGSTER_PG_DB": postgres.new_database(),
        "DAGSTER_PG_USERNAME": postgres.user,
        "DAGSTER_PG_PASSWORD": postgres.password,
        "DAGSTER_LOGS_BUCKET": s3.new_bucket(),
        "AWS_ENDPOINT_URL_S3": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "AWS_DEFAULT_REGION": s3.region,
    }


class Machine:
    """A folder as the machine's /etc/lake and /var/lib/lake, its services as processes."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self.root = root
        self.code_port, self.web_port = free_ports(2)
        settings = assignments(SYSTEMD / "lake.env")
        self.environment = {
            **os.environ,
            **{name: settings[name] for name in variables_of(yaml.safe_load(WORKSPACE))},
            **environment,
            "DAGSTER_HOME": str(root),
            "LAKE_CONFIG": str(root / "lake.yaml"),
        }
        shutil.copy(DEPLOY / "dagster.yaml", root)
        assert "port: 4000" in WORKSPACE
        (root / "workspace.yaml").write_text(WORKSPACE.replace("4000", str(self.code_port)), "utf-8")

    def command(self, service: str) -> list[str]:
        (line,) = directives(SYSTEMD / f"lake-assets-{service}.service", "Service")["ExecStart"]
        places = {"/opt/lake/bin": SCRIPTS, "/etc/lake": str(self.root)}
        ports = {"4000": str(self.code_port), "3000": str(self.web_port)}
        for place, other in places.items():
            line = line.replace(place, other)
        return [ports.get(word, word) for word in shlex.split(line)]

    @contextmanager
    def running(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        with (self.root / f"{service}.log").open("wb") as log:
            process = subprocess.Popen(
                self.command(service),
                cwd=self.root,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                # A service and its children are one session, as they are one control group of systemd.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def graphql(self, query: str, **variables: Any) -> Any:
        body: Any = {"query": query, "variables": variables}
        answer = requests.post(f"http://127.0.0.1:{self.web_port}/graphql", json=body, timeout=30)
        answer.raise_for_status()
        return answer.json()["data"]


LOCATIONS = "{ workspaceOrError { ... on Workspace { locationEntries { name locationOrLoadError { __typename } } } } }"
RUNS = "{ runsOrError { ... on Runs { results { status tags { key value } } } } }"
BACKFILL = """
mutation ($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) { __typename ... on LaunchBackfillSuccess { backfillId } }
}
"""


def until(seconds: float) -> Retrying:
    kinds = (AssertionError, requests.RequestException)
    return Retrying(
        stop=stop_after_delay(seconds), wait=wait_fixed(1), retry=retry_if_exception_type(kinds), reraise=True
    )


@pytest.mark.more
@pytest.mark.dagster
@pytest.mark.timeout(480)
def test_the_commands_of_the_units_execute_a_backfill(
    local_world: World, postgres: PostgresServer, s3: S3Server, tmp_path: Path
) -> None:
    """All of it on PostgreSQL and S3, by the files of this folder; then each service ends by SIGTERM."""
    local_world.catalog = database_on(postgres)
    local_world.storage, local_world.source = bucket_on(s3), bucket_on(s3)
    local_world.options |= REGIONS
    for number, partition in enumerate((NW, SW)):
        local_world.land(partition, sales(number))
    write_config(local_world, tmp_path)
    machine = Machine(tmp_path, variables_on(postgres, s3))

    with ExitStack() as stack:
        services = [stack.enter_context(machine.running(service)) for service in SERVICES]
        for attempt in until(120):
            with attempt:
                entries = machine.graphql(LOCATIONS)["workspaceOrError"]["locationEntries"]
                assert entries == [{"name": "lake", "locationOrLoadError": {"__typename": "RepositoryLocation"}}]
        parameters = {"assetSelection": [{"path": ["sales"]}], "partitionNames": ["2026-02-11|NW", "2026-02-11|SW"]}
        launched = machine.graphql(BACKFILL, params=parameters)["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        for attempt in until(200):
            with attempt:
                runs = machine.graphql(RUNS)["runsOrError"]["results"]
                assert [run["status"] for run in runs] == ["SUCCESS"] * max(len(runs), 1)
        assert local_world.totals() == [0, 1]
        assert {"key": "dagster/backfill", "value": launched["backfillId"]} in runs[0]["tags"]

        for service in services:
            os.killpg(service.pid, signal.SIGTERM)
        assert [service.wait(60) in {0, -signal.SIGTERM} for service in services] == [True] * 3
