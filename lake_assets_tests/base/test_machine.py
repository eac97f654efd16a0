"""A machine is not a developer's laptop: users without a name or a home, long paths of temporary files."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import platformdirs
import pytest

from dev.servers.absent import absent
from lake_assets.base import machine
from lake_assets.base.duckdb_engine import open_engine
from lake_assets.base.machine import cache_folder, usable_cores, usable_memory
from lake_assets.config.storages import S3Storage
from lake_assets.lake.backends.database_backend import create_secret
from lake_assets.spark.spark_session import spark_config
from lake_assets.storage.storage_kinds import backend_of
from lake_assets.storage.store import Store
from lake_assets_tests.world import NW, World, sales

AS_NUMBER = ("unshare", "--user", "--map-user=12345", "--map-group=12345")


def mounted(script: str) -> tuple[str, ...]:
    """A command that makes mounts for the one behind it; `$HERE` is the folder of the test."""
    script = f'mount --make-rprivate / && mount --bind "$HERE" "$HERE" && {script} && exec "$@"'
    return ("unshare", "--mount", "sh", "-ec", script, "sh")


READ_ONLY = mounted(
    "cut -d' ' -f5 /proc/self/mountinfo | grep -v -x -e '/\\(proc\\|sys\\|dev\\)\\(/.*\\)\\?' -e \"$HERE\" | "
    "xargs -n 1 mount -o remount,ro,bind"
)
# As `deploy/image` may run: any user number, no capability, no network.
AS_THE_IMAGE = (
    *("unshare", "--net", "sh", "-ec", 'ip link set lo up && exec "$@"', "sh"),
    *(*READ_ONLY, *AS_NUMBER, "setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"),
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


NO_LIMIT = {"memory/memory.limit_in_bytes": "9223372036854771712", "cpu/cpu.cfs_quota_us": "-1"}
HALF = {
    "cpu/cpu.cfs_quota_us": "50000",
    "cpu/cpu.cfs_period_us": "100000",
    "memory/memory.limit_in_bytes": "2147483648",
}


@pytest.mark.parametrize(
    ("groups", "files", "limits"),
    [
        ("0::/\n", {"cpu.max": "50000 100000", "memory.max": "2147483648"}, (1, 2**31)),
        ("0::/\n", {"cpu.max": "max 100000", "memory.max": "max"}, (4, None)),
        ("0::/a/b\n", {"memory.max": "max", "a/b/memory.max": "1000", "a/b/cpu.max": "150000 100000"}, (2, 1000)),
        ("3:cpu,cpuacct:/x\n2:memory:/x\n", HALF | {"memory/memory.limit_in_bytes": "2147483648"}, (1, 2**31)),
        ("3:cpu:/x\n2:memory:/x\n", NO_LIMIT | {"memory/x/memory.limit_in_bytes": "1000"}, (4, 1000)),
        ("", {}, (4, None)),
    ],
    ids=["limited", "unlimited", "own-group", "version-1", "own-group-of-version-1", "no-groups"],
)
def test_cores_and_memory_are_those_of_the_container(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    groups: str,
    files: Mapping[str, str],
    limits: tuple[int, int | None],
) -> None:
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr(machine, "_CONTROL", tmp_path)
    monkeypatch.setattr(machine, "_OWN", tmp_path / "groups")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(4), raising=False)
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert (usable_cores(), usable_memory()) == (limits[0], limits[1] or whole)


@pytest.mark.parametrize(("letters", "enabled"), [(10, "true"), (90, "false")])
def test_sockets_have_paths_that_are_short_enough(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, letters: int, enabled: str
) -> None:
    del temporary
    monkeypatch.setattr(tempfile, "tempdir", f"/{'t' * letters}")
    assert spark_config()["spark.python.unix.domain.socket.enabled"] == enabled


GROUPED = {"transform": {"sql": "SELECT id, sum(total) AS total FROM source GROUP BY id"}}  # Java's native libraries


@pytest.mark.parametrize(
    ("prefix", "environment", "options"),
    [
        pytest.param(AS_NUMBER, {"HOME": None}, {}, id="no-home", marks=pytest.mark.more),
        pytest.param(AS_NUMBER, {"HOME": "/"}, {}, id="home-is-root", marks=pytest.mark.soak),
        pytest.param((), {"TMPDIR": "long"}, {}, id="long-tmpdir", marks=pytest.mark.soak),
        pytest.param(
            (), {"JAVA_TOOL_OPTIONS": "-Djava.io.tmpdir=long"}, {}, id="long-tmpdir-of-java", marks=pytest.mark.soak
        ),
        pytest.param((), {"TMPDIR": "odd", "XDG_CACHE_HOME": "odd"}, {}, id="odd-folders", marks=pytest.mark.more),
        pytest.param((), {"TMPDIR": "odd", "LC_ALL": "C", "LANG": "C"}, {}, id="no-locale", marks=pytest.mark.soak),
        pytest.param(READ_ONLY, {"HOME": "/nonexistent"}, {}, id="read-only-root", marks=pytest.mark.more),
        pytest.param(NO_PROGRAMS, {}, GROUPED, id="noexec-tmp", marks=pytest.mark.more),
        pytest.param(AS_THE_IMAGE, {"HOME": None}, {}, id="image", marks=pytest.mark.more),
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


class _Store(BaseHTTPRequestHandler):
    """A bucket whose objects have no content."""

    def _answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = _answer  # noqa: N815 - of the base class

    def log_message(self, *_: object) -> None:
        pass


class _Ipv6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


def test_every_client_takes_an_endpoint_that_is_an_ipv6_address() -> None:
    try:
        server = _Ipv6(("::1", 0), _Store)
    except OSError:
        absent("no IPv6: enable it")
    with server:
        Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://[::1]:{server.server_port}"
        storage = S3Storage(type="s3", bucket="bucket", endpoint=endpoint, region="r", key_id="k", secret="s")
        assert Store(storage).find("a") is not None
        with Store(storage).open("a") as file:
            assert file.size() == 0
        with open_engine(("httpfs",)) as engine:
            engine.execute(create_secret("of_bucket", backend_of(storage).as_duckdb_secret()))
            assert engine.execute("SELECT size FROM read_blob('s3://bucket/a')").fetchall() == [(0,)]
        server.shutdown()
