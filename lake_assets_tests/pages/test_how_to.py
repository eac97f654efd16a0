"""Pages whose commands begin in an empty folder, each with the outputs that it shows."""

import datetime as dt
import json
import os
import shlex
import shutil
from pathlib import Path

import pytest

from dev.plain_client import install_extensions
from dev.servers.absent import absent
from lake_assets.api import open_stream
from lake_assets.base.errors import SchemaError
from lake_assets.streams.load import load_config
from lake_assets.wings.templates.starter.project import start
from lake_assets_tests.pages.transcript import (
    DOCS,
    fenced,
    follow,
    indented,
    section,
    shown,
    write_files,
    write_scripts,
)
from lake_assets_tests.world import NW, plan

pytestmark = pytest.mark.more
HOW_TO = DOCS / "how-to"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["csv-and-json.md", "keep-what-does-not-fit.md"])
def test_pages_about_landed_formats(name: str) -> None:
    write_files(HOW_TO / name)

    follow(shown(HOW_TO / name))


def test_declared_columns(folder: Path) -> None:
    page = HOW_TO / "declare-a-schema.md"
    config = write_files(page)

    follow(shown(page))

    (folder / "lake.yaml").write_text(config.replace("DECIMAL(12,2)", "BIGINT"), encoding="utf-8")
    stream = open_stream(load_config(folder / "lake.yaml"), "sales")
    with pytest.raises(SchemaError) as raised:
        plan(stream, stream.config.partition(NW))
    assert [str(raised.value)] == [error.strip() for error in fenced(page.read_text(encoding="utf-8"), "text")]


@pytest.mark.usefixtures("folder")
def test_where_rows_came_from() -> None:
    page = HOW_TO / "where-rows-came-from.md"
    (columns,) = fenced(page.read_text("utf-8"), "yaml")

    def add_columns() -> None:
        config, table = Path("lake.yaml"), "    destination: {table: sales}\n"
        text = config.read_text("utf-8")
        assert text.count(table) == 1
        config.write_text(text.replace(table, f"{table}{columns}"), encoding="utf-8")

    follow(shown(page), {"lake-assets ingest sales --all": add_columns})


@pytest.mark.usefixtures("spark")  # which a script would start for itself, in a folder that goes
@pytest.mark.parametrize("name", ["read-the-lake.md", "read-with-spark.md"])
def test_the_scripts_that_read_the_lake(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    page = HOW_TO / name
    preparation = [each for each in shown(page) if each.output is None]
    scripts = [each for each in shown(page) if each.command.startswith("python ")]

    follow(preparation)
    write_scripts(page)
    install_extensions(folder, "ducklake", "sqlite_scanner")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("_RJEM_MALLOC_CONF", "dirty_decay_ms:500,muzzy_decay_ms:1000")  # as Polars does
    follow(scripts)

    commands = [each.command for each in scripts]
    run = " ".join([*commands, *(Path(command.split()[1]).read_text("utf-8") for command in commands)])
    assert [path.stem for path in Path.cwd().glob("*.py") if path.stem not in run] == []


@pytest.mark.usefixtures("spark", "folder")
def test_the_variables_of_a_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    page = DOCS / "flight.md"
    start(Path("shop"), dt.date(2026, 2, 11))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    blocks = indented(section(page, "A date, a projection and a schedule"))
    export = next(block for block in blocks if block.startswith("export "))
    for word in shlex.split(export.replace("\\\n", ""))[1:]:
        monkeypatch.setenv(*word.split("=", 1))

    follow([each for each in shown(page) if each.output is not None])


@pytest.mark.usefixtures("folder")
def test_the_page_for_scripts() -> None:
    if shutil.which("jq") is None:
        absent("no jq: apt-get install jq")
    page = HOW_TO / "use-in-scripts.md"
    (config,) = fenced(page.read_text("utf-8"), "yaml")

    outputs = follow(shown(page), {"lake-assets --config index.yaml": lambda: Path("index.yaml").write_text(config)})

    documents = {path.stem for path in Path().glob("*.json")} - {"lake.schema"}
    assert documents == {"validate", "doctor", "plan", "run", "index", "report", "check", "maintain"}
    assert all(json.loads(line) for line in outputs[-1].splitlines())
