"""`deploy/systemd`: units do little else, and the variables of the configs are set.

`make lint-deploy` verifies the units, and the stack of `dev/stack` has their commands.
"""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from dev.servers.absent import absent
from dev.servers.postgres import PostgresServer
from dev.servers.s3 import S3Server

DEPLOY = Path(__file__).parents[2] / "deploy"
SYSTEMD = DEPLOY / "systemd"
SERVICES = ("code-server", "webserver", "daemon", "watch")
SCRIPTS = sysconfig.get_path("scripts")
MOST_EXPOSED = 25  # tenths; systemd calls a service with less than 50 "medium", and one with less than 30 "OK"


def assignments(file: Path) -> dict[str, str]:
    """The variables of an environment file, also those in comments."""
    lines = (line.removeprefix("# ").split("=", 1) for line in file.read_text("utf-8").splitlines())
    return {pair[0]: pair[1] for pair in lines if len(pair) == 2 and pair[0].isupper()}


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


def workspace() -> str:
    return (DEPLOY / "workspace.yaml").read_text("utf-8")


def test_the_services_can_do_little_else(tmp_path: Path) -> None:
    """With this environment's programs in place of /opt/lake/bin."""
    if shutil.which("systemd-analyze") is None:
        absent("no systemd-analyze: apt-get install systemd")
    units = Path(shutil.copytree(SYSTEMD, tmp_path / "units"))
    for service in SERVICES:
        unit = units / f"lake-assets-{service}.service"
        unit.write_text(unit.read_text("utf-8").replace("/opt/lake/bin", SCRIPTS), "utf-8")
        command = ["systemd-analyze", "security", "--offline=yes", f"--threshold={MOST_EXPOSED}", str(unit)]
        environment = os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-200:] + done.stderr


def test_the_variables_of_the_configs_are_in_the_environment_files_and_secrets_in_theirs() -> None:
    settings, secrets = assignments(SYSTEMD / "lake.env"), assignments(SYSTEMD / "secrets.env")
    lake = (DEPLOY / "lake.yaml").read_text("utf-8")
    named = {part.split("}")[0].split(":-")[0] for part in lake.split("${")[1:]}
    named |= set(
        variables_of([yaml.safe_load((DEPLOY / "dagster.yaml").read_text("utf-8")), yaml.safe_load(workspace())])
    )

    assert {"LAKE_BUCKET", "DAGSTER_PG_HOST"} <= named <= settings.keys() | secrets.keys()
    assert {name for name in settings if "PASSWORD" in name or "KEY" in name} == set()
    assert set(secrets.values()) == {""}


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
