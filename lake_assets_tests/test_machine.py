"""A machine is not a developer's laptop: users without a name or a home, long paths of temporary files."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import platformdirs
import pytest

from dev.servers.absent import absent
from lake_assets.machine import cache_folder
from lake_assets.spark.session import spark_config
from lake_assets_tests.world import NW, World, sales

AS_NUMBER = ("unshare", "--user", "--map-user=12345", "--map-group=12345")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_without_a_home_the_cache_is_a_folder_that_nobody_else_may_enter(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless(_: str) -> Path:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr(platformdirs, "user_cache_path", homeless)
    folder = cache_folder()
    assert folder == temporary / f"lake-assets-{os.getuid()}" == cache_folder()
    assert folder.stat().st_mode & 0o777 == 0o700

    monkeypatch.setattr(os, "getuid", lambda: 54_321)  # somebody else has made the folder of this name
    (temporary / "lake-assets-54321").mkdir()
    assert cache_folder().name != "lake-assets-54321"


@pytest.mark.parametrize(("letters", "enabled"), [(10, "true"), (90, "false")])
def test_sockets_have_paths_that_are_short_enough(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, letters: int, enabled: str
) -> None:
    del temporary
    monkeypatch.setattr(tempfile, "tempdir", f"/{'t' * letters}")
    assert spark_config()["spark.python.unix.domain.socket.enabled"] == enabled


@pytest.mark.more
@pytest.mark.parametrize(
    ("prefix", "environment"),
    [
        (AS_NUMBER, {"HOME": None}),
        (AS_NUMBER, {"HOME": "/"}),
        ((), {"TMPDIR": "long"}),
        ((), {"JAVA_TOOL_OPTIONS": "-Djava.io.tmpdir=long"}),
    ],
    ids=["no-home", "home-is-root", "long-tmpdir", "long-tmpdir-of-java"],
)
def test_a_command_ingests_there(
    local_world: World, tmp_path: Path, prefix: tuple[str, ...], environment: Mapping[str, str | None]
) -> None:
    if prefix and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        absent("no user namespaces: `unshare --user` fails")
    long = tmp_path / ("t" * 100)
    long.mkdir()
    local_world.land(NW, sales(1, 2))
    config = local_world.config_file(tmp_path)
    changed = {name: value and value.replace("long", str(long)) for name, value in environment.items()}
    variables = os.environ | {"USER": None, "LOGNAME": None} | changed
    command = [
        sys.executable,
        "-c",
        "from lake_assets.cli import main; main()",
        "--config",
        str(config),
        "ingest",
        "sales",
        "--partition",
        NW,
    ]

    run = subprocess.run(
        [*prefix, *command],
        env={name: value for name, value in variables.items() if value is not None},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert local_world.totals() == [1, 2]
