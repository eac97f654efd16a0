"""A catalog or a storage that refuses is named alike by every command, with how to fix it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dev.servers.postgres import PostgresServer
from lake_assets.cli import main
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import database_on

COMMANDS = (
    ["ingest", "sales", "--partition", NW],
    ["query", "SELECT 1"],
    ["plan", "sales", "--partition", NW],
    ["doctor"],
)
ON_S3 = {"type": "s3", "bucket": "some-bucket", "provider": "credential_chain"}


@pytest.fixture
def outputs(local_world: World, tmp_path: Path) -> Callable[..., list[str]]:
    """Returns what each command prints of a config with this lake."""
    local_world.land(NW, sales(1))

    def run(lake: dict[str, Any], commands: Sequence[list[str]] = COMMANDS) -> list[str]:
        document = local_world.document | {"lakes": {"test": {"storage": "data"} | lake}}
        file = tmp_path / "lake.yaml"
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
        results = [CliRunner().invoke(main, ["--config", str(file), *command]) for command in commands]
        assert [result.exit_code for result in results] == [1] * len(commands)
        return [result.output for result in results]

    return run


@pytest.mark.servers
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"password": "wrong"}, "password authentication failed"),
        *more(
            [
                ({"database": "none"}, 'database "none" does not exist'),
                ({"host": "no-such-host.invalid"}, "no-such-host.invalid"),
            ]
        ),
    ],
)
def test_a_server_that_refuses_is_told_by_every_command(
    outputs: Callable[..., list[str]], postgres: PostgresServer, wrong: dict[str, str], reason: str
) -> None:
    for output in outputs({"catalog": database_on(postgres) | wrong}):
        assert reason in output
        assert "correct host" in output
        assert "fits the lake" not in output


def test_a_credential_chain_without_credentials_is_told_by_every_command(
    outputs: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))

    for output in outputs({"catalog": {"type": "sqlite", "path": str(tmp_path / "c")}, "storage": ON_S3}):
        assert "no credentials for s3://some-bucket were found by the credential chain" in output
        assert "the catalog sqlite" not in output


def test_a_lake_on_motherduck_without_a_token_blames_no_extension(
    outputs: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOTHERDUCK_TOKEN", raising=False)

    lake = {"catalog": {"type": "motherduck", "database": "retail"}, "storage": None}

    for output in outputs(lake, COMMANDS[:-1]):  # the doctor asks for the extension first
        assert "a lake on MotherDuck needs MOTHERDUCK_TOKEN in the environment: set it to a token." in output
        assert "extension" not in output
