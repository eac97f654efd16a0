"""Every example of a config in the documentation passes `validate` as it is written.

An example that shows a part is completed: lakes by a stream, streams by a lake, keys of a stream by both.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent, indent

import pytest
from click.testing import CliRunner, Result

from lake_assets.cli import main

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


def validated(folder: Path, arguments: list[str], variables: Mapping[str, str]) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("LAKE_CONFIG", raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)
        return CliRunner().invoke(main, [*arguments, "validate"])


EXAMPLES = list(examples())


@pytest.mark.parametrize("config", [config for _, config in EXAMPLES], ids=[place for place, _ in EXAMPLES])
def test_the_example_is_valid(config: str, tmp_path: Path) -> None:
    (tmp_path / "lake.yaml").write_text(config, encoding="utf-8")
    names = re.findall(r"\$\{(\w+)\}", config)
    variables = {name: "https://alerts.example.com" if name.endswith("_URL") else "a2V5" for name in names}

    result = validated(tmp_path, ["--config", "lake.yaml"], variables)

    assert result.exit_code == 0, f"{config}\n{result.output}"
    assert "The config is valid." in result.output


def test_no_page_is_left_out() -> None:
    pages = {place.partition(":")[0] for place, _ in EXAMPLES}

    assert pages >= {"README.md", "config.md", "flight.md", "storages.md", "index-mode.md", "landing.md"}
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize("token", [{}, {"MOTHERDUCK_TOKEN": "a-token"}], ids=["local", "motherduck"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_flight_is_valid_with_a_token_and_without(number: int, token: dict[str, str], tmp_path: Path) -> None:
    exports = EXPORTS.findall((ROOT / "docs" / "flight.md").read_text(encoding="utf-8"))
    assert len(exports) == 3
    variables = {name: value.strip("'") for name, value in ASSIGNMENT.findall(exports[number])}

    result = validated(tmp_path, [], variables | token)

    assert result.exit_code == 0, result.output
    assert ("storage managed by MotherDuck" in result.output) == bool(token)
    assert "a-token" not in result.output
