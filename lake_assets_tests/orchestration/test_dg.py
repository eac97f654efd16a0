"""A project of Dagster's `dg` that has our component: found, checked, and each fault shown where it is."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from dev.servers.absent import absent

pytestmark = [pytest.mark.dagster, pytest.mark.usefixtures("dg_command")]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def dg_command() -> None:
    if importlib.util.find_spec("dagster_dg_cli") is None:
        absent("no `dg`: the package dagster-dg-cli is not installed")


PROJECT = """\
[project]
name = "shop"
version = "0.1.0"
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "shop"
"""
DEFINITIONS = """\
from pathlib import Path
import dagster as dg

@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
DEFS = """\
type: lake_assets.LakeStream
attributes:
  name: sales
  lake:
    catalog: {type: sqlite, path: lake/catalog.sqlite}
    storage: lake/data
  stream:
    source: landing
    layout: region={region}/date={date}
    time_zone: Europe/Berlin
    partitions:
      region: {values: [NW, SW]}
      date: {type: date, start: 2026-02-11}
    destination: {table: sales}
"""

Dg = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project's `defs.yaml`."""
    files = {
        "pyproject.toml": PROJECT,
        "src/shop/__init__.py": "",
        "src/shop/definitions.py": DEFINITIONS,
        "src/shop/defs/__init__.py": "",
        "src/shop/defs/sales/defs.yaml": DEFS,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / "src/shop/defs/sales/defs.yaml"


@pytest.fixture
def dg(project: Path, tmp_path: Path) -> Dg:
    """Runs `dg` in the project, where this package is installed as its pyproject.toml says today."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = tmp_path / "installed" / "lake_assets-0.1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: lake-assets\nVersion: 0.1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
        for group, points in declared["entry-points"].items()
    ]
    (installed / "entry_points.txt").write_text("\n".join(groups))
    path = os.pathsep.join(map(str, (installed.parent, tmp_path / "src", ROOT)))
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = os.environ | {
            "PYTHONPATH": path,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "DAGSTER_HOME": str(home),
            "DG_CLI_CONFIG": str(tmp_path / "absent.toml"),
            "HOME": str(home),
        }
        command = [sys.executable, "-c", "from dagster_dg_cli.cli import main; main()", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    assert project.exists()
    return run


@pytest.mark.soak
def test_the_component_is_found_without_being_named_in_the_project(dg: Dg) -> None:
    listed = dg("list", "components", "--json")

    assert listed.returncode == 0, listed.stderr
    assert "lake_assets.LakeStream" in listed.stdout


# Every form in which something may be written that is more than its plain value.
FORMS = """\
type: lake_assets.LakeStream
attributes:
  name: sales
  lake:
    catalog: {type: sqlite, path: "{{ env.CATALOG }}"}
    storage: lake/data
    commit_retries: "3"
    maintenance: {time_zone: Europe/Berlin, delete_older_than: 1.5, compact: ~}
  stream:
    source: "landing/**/*.parquet"
    layout: {template: "date={ts,,YYYY}-{ts,,MM}-{ts,,DD}/k={kind}", nested: no}
    time_zone: Europe/Berlin
    partitions:
      date: {type: day, from: ts, start: 2026-02-11, end: "2026-12-31", in: path}
      k: {type: integer, from: kind, values: [1, "2", 30]}
    destination: {schema: shop, table: sales}
    target_file_size: 134217728
    schedule: "15 * * * *"
    automation: "*/10 * * * *"
    freshness: {fail_hours: 30, warn_hours: 26.5}
    max_partitions_per_run: "10"
    sensor: {interval: 60, status: stopped}
    landing: {batch: {bytes: 1MiB, age: 2}, memory: 10000000, outputs: [out, {type: local, path: more}]}
    tags: {tier: 1, live: true, share: 0.5}
  spark: {spark.ui.enabled: false, spark.task.cpus: 1}
"""


@pytest.mark.more
def test_a_project_with_every_written_form_passes_both_checks(
    project: Path, dg: Dg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATALOG", "lake/catalog.sqlite")
    project.write_text(FORMS, encoding="utf-8")

    done = dg("check", "defs")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "All component YAML validated successfully" in done.stdout
    assert "All definitions loaded successfully" in done.stdout


# What is written instead of what, the line, and what is said of it.
FAULTS = {
    "a misspelt key": ("destination:", "destinatoin:", 14, "'destinatoin' was unexpected"),
    "a missing key": ("destination:", "destinatoin:", 7, "'destination' is a required property"),
    "a wrong type": ("source: landing", "source: [landing]", 8, "['landing']"),
    "an unknown catalog": ("type: sqlite", "type: sqllite", 5, "sqllite"),
    "a boolean among texts": ("[NW, SW]", "[NW, NO]", 12, "['NW', False]"),
    "an unknown time zone": ("Europe/Berlin", "Europe/Nowhere", 10, "'Europe/Nowhere'"),
    "a malformed layout": ("region={region}/", "region={region/", 9, "'region={region/date={date}'"),
}


def test_each_fault_is_shown_with_file_line_and_caret(project: Path, dg: Dg) -> None:
    text = DEFS
    for old, new, _, _ in FAULTS.values():
        text = text.replace(old, new)
    project.write_text(text, encoding="utf-8")
    written = text.splitlines()

    done = dg("check", "yaml")

    assert done.returncode == 1, done.stdout + done.stderr
    shown = re.split(rf"^{re.escape(str(project))}:", done.stdout, flags=re.MULTILINE)[1:]
    assert len(shown) == len(FAULTS)
    for fault, (_, _, line, message) in FAULTS.items():
        (item,) = [part for part in shown if part.startswith(f"{line} - lake_assets.LakeStream")]
        assert message in item, fault
        marked = re.escape(written[line - 1]) + r"\n +\| +\^ .*" + re.escape(message)
        assert re.search(marked, item), fault


@pytest.mark.more
def test_what_no_schema_can_say_is_shown_with_file_and_line_when_it_is_loaded(project: Path, dg: Dg) -> None:
    project.write_text(DEFS.replace("/date={date}", ""), encoding="utf-8")

    done = dg("check", "defs")

    assert done.returncode == 1
    assert "All component YAML validated successfully" in done.stdout
    assert f"attributes.stream at {project}:7" in done.stdout
    assert "has no {date}, which is a partition column" in done.stdout
