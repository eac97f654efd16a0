"""`deploy/compose`: its services, settings and secrets fit each other, the configs, the image and the other targets."""

import json
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
TEXT = (COMPOSE / "docker-compose.yaml").read_text("utf-8")
PAGE = (DEPLOY / "compose.md").read_text("utf-8")
DOCKERFILE = (DEPLOY / "image" / "Dockerfile").read_text("utf-8")
FILE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
OURS = {name: service for name, service in SERVICES.items() if "lake-assets" in service["image"]}
SETTINGS = assignments(COMPOSE / "lake.env")


def test_the_services_are_those_of_the_topology() -> None:
    assert SERVICES.keys() - OURS.keys() == {"postgres", "s3"}
    assert {"code-server", "webserver", "daemon", "spark-master", "spark-worker", "spark-connect"} == OURS.keys()
    assert SERVICES["spark-worker"]["deploy"]["replicas"] == 2
    assert SERVICES["daemon"]["deploy"]["replicas"] == 1
    assert all(service["restart"] == "unless-stopped" for service in SERVICES.values())
    assert all(service["deploy"]["resources"]["limits"]["memory"] for service in SERVICES.values())


def test_each_service_has_a_health_check_and_starts_after_healthy_ones() -> None:
    """That of the code server is the image's."""
    assert [name for name in SERVICES if "healthcheck" not in SERVICES[name]] == ["code-server"]
    for service in SERVICES.values():
        for other, condition in service.get("depends_on", {}).items():
            assert other in SERVICES
            assert condition == {"condition": "service_healthy"}


def test_the_settings_are_those_of_the_configs_and_of_systemd() -> None:
    systemd = assignments(SYSTEMD / "lake.env")

    assert SETTINGS.keys() == systemd.keys()
    assert {name for name in SETTINGS if "PASSWORD" in name or "KEY" in name} == set()


def test_each_process_of_dagster_has_the_variables_that_its_configs_name() -> None:
    names = {config: file["file"] for config, file in FILE["configs"].items()}
    dagster, workspace = (
        yaml.safe_load((COMPOSE / names[name]).read_text("utf-8")) for name in ("dagster", "workspace")
    )
    for name in ("code-server", "webserver", "daemon"):
        given = SETTINGS.keys() | set(SERVICES[name]["secrets"])
        assert set(variables_of([dagster, workspace])) <= given, name
    environment = SETTINGS | dict.fromkeys(SERVICES["code-server"]["secrets"], "secret")
    document = read_document((COMPOSE / names["lake"]).read_text("utf-8"), environment)
    assert document.problems == []
    config = LakeConfig.model_validate(document.data)
    assert config.lakes["retail"].own_storage.root == f"s3://{SETTINGS['LAKE_BUCKET']}/tables"


def test_each_file_and_secret_is_used_and_no_secret_is_written_here() -> None:
    used = {config["source"] for service in SERVICES.values() for config in service.get("configs", ())}
    secrets = {secret for service in SERVICES.values() for secret in service.get("secrets", ())}

    assert used == FILE["configs"].keys()
    assert [path for path in FILE["configs"].values() if not (COMPOSE / path["file"]).exists()] == []
    assert secrets == FILE["secrets"].keys()
    assert FILE["secrets"] == {name: {"file": f"secrets/{name}"} for name in secrets}
    assert (
        not (COMPOSE / "secrets").exists() or "/deploy/compose/secrets/" in (DEPLOY.parent / ".gitignore").read_text()
    )
    for service in SERVICES.values():
        environment = service.get("environment", {})
        assert [name for name in environment if "PASSWORD" in name and not name.endswith("_FILE")] == []


def test_only_what_reads_objects_has_keys_and_only_the_code_server_the_catalogs_password() -> None:
    having = {secret: {name for name in OURS if secret in OURS[name].get("secrets", ())} for secret in FILE["secrets"]}

    assert having["LAKE_CATALOG_PASSWORD"] == {"code-server"}
    assert having["POSTGRES_PASSWORD"] == having["S3_IDENTITIES"] == set()
    assert "spark-master" not in having["AWS_SECRET_ACCESS_KEY"]


def test_each_host_is_a_service() -> None:
    hosts = {SETTINGS[name] for name in SETTINGS if name.endswith("_HOST")}
    hosts |= set(re.findall(r"\b(?:sc|spark|http)://([\w-]+):\d+", TEXT + SETTINGS["AWS_ENDPOINT_URL_S3"]))

    assert {"postgres", "s3", "spark-master", "spark-connect", "code-server"} <= hosts
    assert hosts - SERVICES.keys() == {"localhost"}


def test_services_that_talk_share_a_network_and_spark_has_no_way_out() -> None:
    pairs = [("code-server", "spark-connect"), ("spark-connect", "spark-master"), ("spark-worker", "s3")]
    pairs += [(name, other) for name in SERVICES for other in SERVICES[name].get("depends_on", ())]

    for one, other in pairs:
        assert set(SERVICES[one]["networks"]) & set(SERVICES[other]["networks"]), (one, other)
    assert FILE["networks"]["spark"] == FILE["networks"]["databases"] == {"internal": True}
    reach = {name for name in SERVICES if "spark" in SERVICES[name]["networks"]}
    assert reach == {"code-server", "s3", "spark-master", "spark-worker", "spark-connect"}
    # A process of Spark announces one address, and the others of the cluster must reach it.
    assert all(OURS[name]["networks"] == ["spark"] for name in OURS if name.startswith("spark"))


def test_only_the_web_server_has_a_port_and_only_on_this_machine() -> None:
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}

    assert ports == {"webserver": ["127.0.0.1:3000:3000"]}


def test_processes_of_the_package_have_no_capabilities() -> None:
    assert all(service["cap_drop"] == ["ALL"] for service in OURS.values())
    assert all("no-new-privileges:true" in service["security_opt"] for service in OURS.values())


def test_each_command_of_dagster_exists() -> None:
    commands = [service["command"] for service in OURS.values() if "command" in service]
    commands += [service["healthcheck"]["test"][2:] for service in OURS.values() if "healthcheck" in service]
    ours = [command for command in commands if command[0] in PROGRAMS]

    assert [command[0] for command in ours] == ["dagster-webserver", "dagster-daemon", "dagster-daemon"]
    for program, *arguments in ours:
        parse(program, arguments)


def test_the_images_have_versions() -> None:
    images = {re.sub(r"^\$\{\w+:-(.+)\}$", r"\1", service["image"]) for service in SERVICES.values()}

    assert len(images) == 3
    assert all(re.search(r":\d+\.\d+", image) for image in images)
    dockerfile = (DEPLOY / "image/Dockerfile").read_text("utf-8")
    assert [image for image in images if image.startswith("lake-assets:")] == re.findall(r"--tag (\S+)", dockerfile)


@pytest.fixture
def databases(postgres: PostgresServer, tmp_path: Path) -> dict[str, str]:
    """The file executed by psql as PostgreSQL's image does, with names that the server does not have yet."""
    text = (COMPOSE / "databases.sql").read_text("utf-8")
    names = {name: f"{postgres.new_database()}_{name}" for name in ("lake", "dagster")}
    for name, other in names.items():
        (tmp_path / name).write_text(f"it's {name}'s")
        text = re.sub(rf"\b{name}(?=[ ;])", other, text)
    for secret, name in (("LAKE_CATALOG_PASSWORD", "lake"), ("DAGSTER_PG_PASSWORD", "dagster")):
        text = text.replace(f"/run/secrets/{secret}", str(tmp_path / name))
    (tmp_path / "databases.sql").write_text(text)
    done = psql(postgres, "--dbname=postgres", "--file", tmp_path / "databases.sql")
    assert (done.returncode, done.stderr) == (0, "")
    return names


def psql(server: PostgresServer, *arguments: object, **user: str) -> subprocess.CompletedProcess[str]:
    # The image executes the file as the superuser, who may become the new users without this.
    rights = {"PGOPTIONS": "-c createrole_self_grant=set,inherit"}
    words = ("--set=ON_ERROR_STOP=1", "--quiet", "--no-password", "--no-psqlrc")
    return server.run("psql", *words, *arguments, **rights, **user)


def test_each_user_has_its_database_and_not_the_others(databases: dict[str, str], postgres: PostgresServer) -> None:
    for name, other in (("lake", "dagster"), ("dagster", "lake")):
        mine, foreign = (f"--dbname={databases[database]}" for database in (name, other))
        user = {"PGUSER": databases[name], "PGPASSWORD": f"it's {name}'s"}
        made = psql(postgres, mine, "--command=CREATE TABLE t (i INTEGER)", **user)
        assert made.returncode == 0, made.stderr
        assert "permission denied for database" in psql(postgres, foreign, "--command=SELECT 1", **user).stderr
        assert psql(postgres, mine, "--command=SELECT 1", **user | {"PGPASSWORD": "other"}).returncode != 0


def test_the_page_names_services_and_makes_each_secret() -> None:
    called = re.findall(r"docker compose (?:exec(?: -T)?|run --rm|logs --follow) ([a-z0-9-]+)", PAGE)
    listed = re.findall(r"docker compose (?:stop|up(?: --[a-z-]+)*)((?: [a-z0-9-]+)*)(?=[\n`])", PAGE)
    made = re.findall(r"for name in (.+); do$", PAGE, re.MULTILINE)[0].split() + re.findall(
        r"> ([A-Z0-9_]+)$", PAGE, re.MULTILINE
    )

    assert {"postgres", "s3", "code-server", "daemon"} <= set(called)
    assert set(called) | {name for names in listed for name in names.split()} <= SERVICES.keys()
    assert set(made) == FILE["secrets"].keys()
    assert {f"lake_{volume}" for volume in FILE["volumes"]} >= set(re.findall(r"--volume (\w+):/data", PAGE))
    assert re.findall(r"lake-assets:[\d.]+", PAGE).count(OURS["daemon"]["image"][:-1].split(":-")[1]) > 3


def test_the_limits_are_those_of_the_page() -> None:
    limits = {name: service["deploy"]["resources"]["limits"]["memory"] for name, service in SERVICES.items()}
    total = sum(int(limits[name][:-1]) * SERVICES[name]["deploy"].get("replicas", 1) for name in SERVICES)

    assert f"all limits together are {total} GB" in PAGE


def test_the_users_of_the_s3_server_are_those_of_the_page() -> None:
    (written,) = re.findall(r"printf '(\{\"identities\".*?\})'", PAGE)
    identities = json.loads(written % ("key", "secret"))["identities"]

    assert identities[0]["credentials"] == [{"accessKey": "key", "secretKey": "secret"}]
    buckets = re.findall(r"^ +for bucket in (.+); do$", PAGE, re.MULTILINE)[0].split()
    assert set(buckets) == {SETTINGS[name] for name in ("LAKE_BUCKET", "LANDING_BUCKET", "DAGSTER_LOGS_BUCKET")}


def test_the_masters_recovery_state_is_on_a_volume_that_its_user_may_write() -> None:
    """A new volume has the owner of the image's folder."""
    master = SERVICES["spark-master"]
    options = dict(re.findall(r"-Dspark\.deploy\.recovery(\w+)=(\S+)", master["environment"]["SPARK_MASTER_OPTS"]))
    (volume,) = master["volumes"]
    name, _, folder = volume.partition(":")
    (made,) = re.findall(r"install --directory --owner=lake --group=lake (.*) \\", DOCKERFILE)

    assert (options["Mode"], options["Directory"]) == ("FILESYSTEM", folder)
    assert name in FILE["volumes"]
    assert folder in made.split()
    assert f"docker volume rm --force lake_{name}" in PAGE
