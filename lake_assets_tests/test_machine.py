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


def mounted(script: str) -> tuple[str, ...]:
    """A command that mounts anew for the one behind it; `$HERE` is the folder of the test."""
    script = f'mount --make-rprivate / && mount --bind "$HERE" "$HERE" && {script} && exec "$@"'
    return ("unshare", "--mount", "sh", "-ec", script, "sh")


READ_ONLY = mounted(
    "cut -d' ' -f5 /proc/self/mountinfo | grep -v -x -e '/\\(proc\\|sys\\|dev\\)\\(/.*\\)\\?' -e \"$HERE\" | "
    "xargs -n 1 mount -o remount,ro,bind"
)
NO_PROGRAMS = mounted('mount -o remount,noexec,bind "$HERE"')


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


GROUPED = {"transform": {"sql": "SELECT id, sum(total) AS total FROM source GROUP BY id"}}  # Java's native libraries


@pytest.mark.more
@pytest.mark.parametrize(
    ("prefix", "environment", "options"),
    [
        pytest.param(AS_NUMBER, {"HOME": None}, {}, id="no-home"),
        pytest.param(AS_NUMBER, {"HOME": "/"}, {}, id="home-is-root"),
        pytest.param((), {"TMPDIR": "long"}, {}, id="long-tmpdir"),
        pytest.param((), {"JAVA_TOOL_OPTIONS": "-Djava.io.tmpdir=long"}, {}, id="long-tmpdir-of-java"),
        pytest.param((), {"TMPDIR": "odd", "XDG_CACHE_HOME": "odd"}, {}, id="odd-folders"),
        pytest.param((), {"TMPDIR": "odd", "LC_ALL": "C", "LANG": "C"}, {}, id="no-locale"),
        pytest.param(READ_ONLY, {"HOME": "/nonexistent"}, {}, id="read-only-root"),
        pytest.param(NO_PROGRAMS, {}, GROUPED, id="noexec-tmp"),
    ],
)
def test_a_command_ingests_there(
    local_world: World,
    tmp_path: Path,
    prefix: tuple[str, ...],
    environment: Mapping[str, str | None],
    options: dict[str, object],
) -> None:
    places = {"long": tmp_path / ("t" * 100), "odd": tmp_path / "a b%20é 100%"}
    for place in places.values():
        place.mkdir()
    changed: dict[str, str | None] = {"USER": None, "LOGNAME": None, "HERE": str(tmp_path), "TMPDIR": str(tmp_path)}
    for name, value in environment.items():
        where = next((place for place in places if value and value.endswith(place)), "")
        changed[name] = value and value.removesuffix(where) + str(places.get(where, ""))
    variables = {name: value for name, value in (os.environ | changed).items() if value is not None}
    if prefix and subprocess.run([*prefix, "true"], env=variables, capture_output=True, check=False).returncode:
        absent(f"no namespaces: `{' '.join(prefix[:3])}` fails")
    local_world.options = options
    local_world.land(NW, sales(1, 2))
    arguments = ["--config", str(local_world.config_file(tmp_path)), "ingest", "sales", "--partition", NW]
    command = [sys.executable, "-c", "from lake_assets.cli import main; main()", *arguments]

    run = subprocess.run([*prefix, *command], env=variables, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
    assert local_world.totals() == [1, 2]
