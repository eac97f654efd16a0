"""What works without the packages of the extras, or without the wings: each test blocks them in its own process."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets_tests.test_rooms import DOORS

PACKAGES = ("pandas", "matplotlib", "PIL")
CONFIG = """\
lakes:
  shop: {catalog: {type: sqlite, path: catalog.sqlite}, storage: data}
streams:
  sales:
    source: landing
    partitions: {region: {}, date: {type: date, start: 2026-02-11, end: 2026-02-12}}
    destination: {table: sales}
orchestration: {report_asset: true}
"""
PARTITION = "region=NW,date=2026-02-11"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a config and one landed object."""
    (tmp_path / "lake.yaml").write_text(CONFIG, encoding="utf-8")
    folder = tmp_path / "landing" / PARTITION.replace(",", "/")
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"total": [1.0, 2.0]}), folder / "part.parquet")
    return tmp_path


def without(blocked: Iterable[str], folder: Path, script: str) -> str:
    """What a script prints in a process that cannot import the packages."""
    block = f"import sys; sys.modules.update(dict.fromkeys({tuple(blocked)!r}))\n"
    done = subprocess.run(
        [sys.executable, "-c", block + script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(folder: Path, blocked: Iterable[str], *commands: str) -> list[tuple[int, str, str]]:
    """The exit code, the output and the errors of each command, all in one process."""
    script = f"""\
import json, shlex
from click.testing import CliRunner
from lake_assets.cli import main
results = [CliRunner().invoke(main, shlex.split(command)) for command in {commands!r}]
print(json.dumps([(result.exit_code, result.stdout, result.stderr) for result in results]))
"""
    return [tuple(result) for result in json.loads(without(blocked, folder, script).splitlines()[-1])]


def test_plans_and_reports_need_no_extra(shop: Path) -> None:
    described, planned, *reports = run(
        shop,
        PACKAGES,
        "--help",
        f"plan --partition {PARTITION}",
        *(f"report --format {form}" for form in ("table", "csv", "json")),
        "report --html report.html",
    )

    assert described[0] == 0
    assert (planned[0], planned[1].splitlines()[0]) == (0, "sales region=NW/date=2026-02-11: replace the partition")
    assert [code for code, *_ in reports] == [0] * 4
    assert all("sales" in text for _, text, _ in reports[:3])
    assert 'class="missing"' in (shop / "report.html").read_text("utf-8")


@pytest.mark.more
def test_an_ingest_needs_no_wing(shop: Path) -> None:
    wings = [f"lake_assets.{wing.strip('/')}" for wing in DOORS]
    *others, query = run(
        shop,
        wings,
        "--help",
        f"plan --partition {PARTITION}",
        f"ingest --partition {PARTITION}",
        "query 'SELECT count(*) FROM sales' --format csv",
    )

    assert [code for code, *_ in others] == [0] * 3
    assert query[1].splitlines()[1] == "2"


@pytest.mark.more
def test_definitions_load_and_the_report_asset_needs_no_extra(shop: Path) -> None:
    script = """\
import dagster as dg
from lake_assets import build_definitions, load_config, open_stream
config = load_config("lake.yaml")
definitions = build_definitions(config)
dg.Definitions.validate_loadable(definitions)
print(open_stream(config, "sales").partition("region=NW,date=2026-02-11").plan().action)
asset = definitions.resolve_assets_def("sales_report")
(event,) = dg.materialize([asset]).asset_materializations_for_node("sales_report")
print(event.metadata["partitions_missing"].value)
"""
    assert without(PACKAGES, shop, script).splitlines() == ["replace the partition", "1"]
