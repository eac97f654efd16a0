"""Every example of a config in the documentation passes `validate` as it is written.

An example that shows a part is completed: lakes by a stream, streams by a lake, keys of a stream by both.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent

import pytest
from click.testing import CliRunner

from lake_assets.cli import main
from lake_assets.streams.load import parse_config

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXPORTS = re.compile(r"^    export ((?:.*\\\n)*.*)$", re.MULTILINE)
ASSIGNMENT = re.compile(r"([A-Z_]+)=('[^']*'|\S+)")

LAKES = "lakes:\n  test: {catalog: {type: sqlite, path: catalog.sqlite}, storage: data}\n"
SOURCE = "    source: landing\n"
PARTITIONS = "    partitions: {region: {values: [NW]}, date: {type: date, start: 2026-01-01}}\n"
STREAMS = "streams:\n  examples:\n    destination: {table: examples}\n"


def examples() -> Iterator[tuple[str, str]]:
    """Where each example begins, and a whole config with it."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            place = f"{page.name}:{text.count(chr(10), 0, block.start()) + 2}"
            if block[1].startswith(("# my_project/", "ops:")):
                continue  # a component's file, which the tests of Dagster load; the config of a run
            if block[1].startswith("storage:"):
                for number, line in enumerate(block[1].splitlines()):
                    yield f"{place}+{number}", with_storage(line)
            else:
                yield place, whole(block[1])


def with_storage(line: str) -> str:
    return f"lakes:\n  test:\n    catalog: {{type: sqlite, path: catalog.sqlite}}\n    {line}\n{stream('')}"


def whole(example: str) -> str:
    keys = re.findall(r"^(\w+):", example, re.MULTILINE)
    if not keys:
        return LAKES + stream(indent(dedent(example), "    "))
    lakes = "" if "lakes" in keys else LAKES
    return lakes + example + ("" if "streams" in keys else stream(""))


def stream(keys: str) -> str:
    """A stream with these keys, and with those that it must have besides."""
    return STREAMS + keys + "".join(line for line in (SOURCE, PARTITIONS) if line.partition(": ")[0] + ":" not in keys)


@pytest.mark.parametrize("config", [pytest.param(config, id=place) for place, config in examples()])
def test_the_example_is_valid(config: str, tmp_path: Path) -> None:
    names = re.findall(r"\$\{(\w+)\}", config)
    variables = {name: "https://alerts.example.com" if name.endswith("_URL") else "a2V5" for name in names}

    parse_config(config, tmp_path / "lake.yaml", variables)


def test_no_page_is_left_out() -> None:
    places = [place.partition(":")[0] for place, _ in examples()]

    assert {*places} >= {"README.md", "config.md", "flight.md", "storages.md", "index-mode.md", "landing.md"}
    assert len(places) > 20


@pytest.mark.more
@pytest.mark.parametrize("token", [{}, {"MOTHERDUCK_TOKEN": "a-token"}], ids=["local", "motherduck"])
def test_each_flight_is_valid_with_a_token_and_without(
    token: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lake_assets.base.errors._in_terms", str)  # which a config of variables replaces
    monkeypatch.delenv("LAKE_CONFIG", raising=False)
    exports = EXPORTS.findall((ROOT / "docs" / "flight.md").read_text(encoding="utf-8"))
    assert len(exports) == 3

    for export in exports:
        variables = {name: value.strip("'") for name, value in ASSIGNMENT.findall(export)}
        result = CliRunner().invoke(main, ["validate"], env=variables | token)

        assert result.exit_code == 0, result.output
        assert ("storage managed by MotherDuck" in result.output) == bool(token)
        assert "a-token" not in result.output
