"""The stack is what `deploy/` says: the units' commands, their variables, and their configs with few differences."""

import shlex
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.stack.components import components
from dev.stack.configs import DEPLOY, dagster_document, write_configs
from dev.stack.site import Site, StackError
from lake_assets.streams.load import load_config
from lake_assets_tests.deploy.test_systemd import SYSTEMD, assignments, directives, variables_of


@pytest.fixture
def site(tmp_path: Path) -> Site:
    folder = tmp_path / "s"
    return Site.at(folder)


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """The places in which two documents differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys(), key=str):
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif ours != theirs:
        yield path


def test_dagsters_settings_are_those_of_production_but_for_the_runs_at_once() -> None:
    deployed = yaml.safe_load((DEPLOY / "dagster.yaml").read_text("utf-8"))
    runs = "concurrency.runs"

    assert list(differences(dagster_document(), deployed)) == [
        f"{runs}.max_concurrent_runs",
        *(f"{runs}.tag_concurrency_limits[{number}].limit" for number in range(3)),
    ]


@pytest.mark.parametrize("name", ["code-server", "webserver", "daemon"])
def test_each_part_of_dagster_has_the_command_of_its_unit(site: Site, name: str) -> None:
    (line,) = directives(SYSTEMD / f"lake-assets-{name}.service", "Service")["ExecStart"]
    line = line.replace("/opt/lake/bin", sysconfig.get_path("scripts")).replace("/etc/lake", str(site.folder))

    assert list(components(site)[name].program().command) == shlex.split(line)


def test_the_environment_has_each_variable_of_the_environment_files_and_of_dagsters_settings(site: Site) -> None:
    files = assignments(SYSTEMD / "lake.env").keys() | assignments(SYSTEMD / "secrets.env").keys()

    assert files - site.environment.keys() <= {"LAKE_ASSETS_LOG_FORMAT", "SMTP_PASSWORD"}
    assert set(variables_of(dagster_document())) <= site.environment.keys()


def test_lake_and_streams_are_a_valid_config_without_secrets_in_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    write_configs(site)
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)

    config = load_config(site.lake_config)

    assert config.spark.settings["spark.remote"].endswith(f";token={site.settings.spark_token}")
    text = site.lake_config.read_text("utf-8")
    secrets = site.settings.model_dump(exclude={"ports"}).values()
    assert [secret for secret in secrets if secret in text] == []


def test_a_config_that_a_user_has_changed_stays(site: Site) -> None:
    write_configs(site)
    site.lake_config.write_text("# mine\n", "utf-8")
    write_configs(site)

    assert site.lake_config.read_text("utf-8") == "# mine\n"


def test_secrets_are_in_one_file_that_only_its_owner_reads(site: Site) -> None:
    assert (site.folder / "stack.json").stat().st_mode & 0o077 == 0
    assert Site.at(site.folder).settings == site.settings
    assert len({site.settings.lake_password, site.settings.s3_secret, site.settings.spark_token}) == 3


def test_a_folder_too_deep_for_sockets_is_refused() -> None:
    with pytest.raises(StackError, match="longer than 85 characters"):
        Site.at(Path("/tmp") / ("x" * 90))
