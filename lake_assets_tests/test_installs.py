"""The base and each extra alone, each installed in an environment of its own: what can be imported there."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.servers.absent import absent
from lake_assets.version import VERSION
from lake_assets_tests.test_rooms import PACKAGE, files

pytestmark = pytest.mark.installs

PROJECT = PACKAGE.parent
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

# The modules whose import needs an extra. The packages of the other extras are imported when a feature is used.
NEEDS = {
    "lake_assets.report.plot": "report",
    "lake_assets.telemetry.exported": "otel",
    "lake_assets.telemetry.lineage": "openlineage",
    "lake_assets.telemetry.lineage_events": "openlineage",
}

IMPORTS = """\
import importlib, json, sys
failed = {}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed[name] = str(error)
print(json.dumps(failed))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This package, built."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def base(wheel: Path) -> Iterator[Path]:
    """An environment with this package and no extra, on the disk of this one, so that its files are links to uv's."""
    with tempfile.TemporaryDirectory(prefix="installs-", dir=sys.prefix) as folder:
        environment = Path(folder, "base")
        subprocess.run([uv(), "venv", "--quiet", "--python", sys.executable, environment], check=True)
        install(environment, f"lake-assets @ {wheel.as_uri()}")
        yield environment


@pytest.fixture
def environment(base: Path) -> Iterator[Path]:
    """A copy of that environment, by links; an installation replaces files and never writes into one."""
    copy = base.with_name("copy")
    shutil.copytree(base, copy, symlinks=True, copy_function=os.link)
    yield copy
    shutil.rmtree(copy)


def uv() -> str:
    """The path of uv."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv") or absent("no uv: pip install uv")


def index() -> dict[str, str]:
    """The variables by which uv uses the index that pip is configured with, as in `dev/install`."""
    if url := os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL"):
        return {**os.environ, "UV_DEFAULT_INDEX": url}
    ask = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    configured = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()
    variables = {name: value for name, value in os.environ.items() if name != "UV_DEFAULT_INDEX"}
    return variables | ({"UV_DEFAULT_INDEX": configured} if configured else {})


def install(environment: Path, requirement: str) -> None:
    """Install in the versions of the other tests, which uv has in its cache."""
    options = ["--constraint", str(PROJECT / "requirements.lock"), "--no-verify-hashes", "--link-mode", "hardlink"]
    command = [uv(), "pip", "install", "--quiet", "--python", str(environment / "bin" / "python"), *options]
    subprocess.run([*command, requirement], env=index(), check=True)


# All extras together are the environment of the other tests.
@pytest.mark.parametrize("extra", ["", *(extra for extra in EXTRAS if extra != "dev")])
def test_an_installation_imports_all_but_what_needs_another_extra(environment: Path, wheel: Path, extra: str) -> None:
    if extra:
        install(environment, f"lake-assets[{extra}] @ {wheel.as_uri()}")
    python = str(environment / "bin" / "python")
    modules = json.dumps([name for name in files(PACKAGE) if not name.endswith("__main__")])
    done = subprocess.run([python, "-c", IMPORTS], input=modules, cwd="/", capture_output=True, text=True, check=True)
    failed = json.loads(done.stdout.splitlines()[-1])
    assert {name: failed.get(name) for name in {*failed} ^ {name for name in NEEDS if NEEDS[name] != extra}} == {}

    command = [python, str(environment / "bin" / "lake-assets"), "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1] == VERSION
