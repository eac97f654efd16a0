"""`deploy/compose`: its services, settings and secrets fit each other, the configs and the image.

`make lint-deploy` has the file's schema.
"""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.servers.postgres import PostgresServer
from lake_assets.config.document import read_document
from lake_assets.config.models import LakeConfig
from lake_assets_tests.deploy.commands import PROGRAMS, parse
from lake_assets_tests.deploy.test_systemd import SYSTEMD, assignments, variables_of

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = DEPLOY / "compose"
FILE: dict[str, Any] = yaml.safe_load((COMPOSE / "docker-compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
OURS = {name: service for name, service in SERVICES.items() if "lake-assets" in service["image"]}
SETTINGS = assignments(COMPOSE / "lake.env")


def test_only_the_web_server_has_a_port_networks_are_internal_and_the_package_has_no_capabilities() -> None:
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}

    assert ports == {"webserver": ["127.0.0.1:3000:3000"]}
    assert FILE["networks"]["spark"] == FILE["networks"]["databases"] == {"internal": True}
    assert all(service["cap_drop"] == ["ALL"] for service in OURS.values())
    assert all("no-new-privileges:true" in service["security_opt"] for service in OURS.values())


def test_each_process_of_dagster_has_the_variables_that_its_configs_name() -> None:
    files = {name: (COMPOSE / config["file"]).read_text("utf-8") for name, config in FILE["configs"].items()}
    named = set(variables_of([yaml.safe_load(files["dagster"]), yaml.safe_load(files["workspace"])]))
    for name in ("code-server", "webserver", "daemon"):
        assert named <= SETTINGS.keys() | set(SERVICES[name]["secrets"]), name
    assert SETTINGS.keys() == assignments(SYSTEMD / "lake.env").keys()
    document = read_document(files["lake"], SETTINGS | dict.fromkeys(SERVICES["code-server"]["secrets"], "secret"))
    assert document.problems == []
    config = LakeConfig.model_validate(document.data)
    assert config.lakes["retail"].own_storage.root == f"s3://{SETTINGS['LAKE_BUCKET']}/tables"


def test_secrets_are_files_for_those_who_need_them() -> None:
    having = {
        secret: {name for name in SERVICES if secret in SERVICES[name].get("secrets", ())} for secret in FILE["secrets"]
    }

    assert FILE["secrets"] == {name: {"file": f"secrets/{name}"} for name in having}
    assert all(having.values())
    assert having["LAKE_CATALOG_PASSWORD"] & OURS.keys() == {"code-server"}
    assert "spark-master" not in having["AWS_SECRET_ACCESS_KEY"]
    assert {name for name in SETTINGS if "PASSWORD" in name or "KEY" in name} == set()
    for service in SERVICES.values():
        names = service.get("environment", {})
        assert [name for name in names if "PASSWORD" in name and not name.endswith("_FILE")] == []


@pytest.mark.more
def test_commands_exist_and_images_have_the_version_of_the_image() -> None:
    commands = [service["command"] for service in OURS.values() if "command" in service]
    commands += [service["healthcheck"]["test"][2:] for service in OURS.values() if "healthcheck" in service]
    ours = [command for command in commands if command[0] in PROGRAMS]
    images = {re.sub(r"^\$\{\w+:-(.+)\}$", r"\1", service["image"]) for service in SERVICES.values()}
    dockerfile = (DEPLOY / "image/Dockerfile").read_text("utf-8")

    assert [command[0] for command in ours] == ["dagster-webserver", "dagster-daemon", "dagster-daemon"]
    for program, *arguments in ours:
        parse(program, arguments)
    assert all(re.search(r":\d+\.\d+", image) for image in images)
    assert [image for image in images if image.startswith("lake-assets:")] == re.findall(r"--tag (\S+)", dockerfile)
    # The master's recovery state is on a volume that its user may write: a new one has the owner of the image's folder.
    options = SERVICES["spark-master"]["environment"]["SPARK_MASTER_OPTS"]
    (volume,) = SERVICES["spark-master"]["volumes"]
    (made,) = re.findall(r"install --directory --owner=lake --group=lake (.*) \\", dockerfile)
    assert f"-Dspark.deploy.recoveryDirectory={volume.partition(':')[2]}" in options
    assert volume.partition(":")[2] in made.split()


def psql(server: PostgresServer, *arguments: object, **user: str) -> subprocess.CompletedProcess[str]:
    # The image executes the file as the superuser, who may become the new users without this.
    rights = {"PGOPTIONS": "-c createrole_self_grant=set,inherit"}
    words = ("--set=ON_ERROR_STOP=1", "--quiet", "--no-password", "--no-psqlrc")
    return server.run("psql", *words, *arguments, **rights, **user)


def test_each_user_has_its_database_and_not_the_others(postgres: PostgresServer, tmp_path: Path) -> None:
    """The file is executed by psql as PostgreSQL's image does, with names that the server does not have yet."""
    text = (COMPOSE / "databases.sql").read_text("utf-8")
    databases = {name: f"{postgres.new_database()}_{name}" for name in ("lake", "dagster")}
    for name, other in databases.items():
        (tmp_path / name).write_text(f"it's {name}'s")
        text = re.sub(rf"\b{name}(?=[ ;])", other, text)
    for secret, name in (("LAKE_CATALOG_PASSWORD", "lake"), ("DAGSTER_PG_PASSWORD", "dagster")):
        text = text.replace(f"/run/secrets/{secret}", str(tmp_path / name))
    (tmp_path / "databases.sql").write_text(text)
    done = psql(postgres, "--dbname=postgres", "--file", tmp_path / "databases.sql")
    assert (done.returncode, done.stderr) == (0, "")

    for name, other in (("lake", "dagster"), ("dagster", "lake")):
        mine, foreign = (f"--dbname={databases[database]}" for database in (name, other))
        user = {"PGUSER": databases[name], "PGPASSWORD": f"it's {name}'s"}
        made = psql(postgres, mine, "--command=CREATE TABLE t (i INTEGER)", **user)
        assert made.returncode == 0, made.stderr
        assert "permission denied for database" in psql(postgres, foreign, "--command=SELECT 1", **user).stderr
        assert psql(postgres, mine, "--command=SELECT 1", **user | {"PGPASSWORD": "other"}).returncode != 0
