"""The JSON of commands fits the schema that `lake-assets schema` prints, and keeps its fields."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner, Result

from docs.hooks.json_reference import fields
from lake_assets.cli import main
from lake_assets.cli.documents.schemas import COMMANDS, output_schema
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["sessions"]

Run = Callable[..., Result]

FIELDS = Path(__file__).parent / "fields.txt"  # of all documents, with their types

CALLS = [
    ("doctor", ()),
    ("validate", ()),
    ("maintain", ("--dry-run",)),
    ("plan", ("--partition", "region=*")),
    ("plan", ("--failed",)),
    ("report", ()),
    ("report", ("--partitions",)),
    ("report", ("--partitions", "--failed")),
]


@pytest.fixture
def run(local_world: World, tmp_path: Path) -> Run:
    return lambda *arguments: CliRunner().invoke(main, ["--config", str(local_world.config_file(tmp_path)), *arguments])


def fitting(command: str, output: str) -> Any:
    """The document, which fits the command's schema."""
    document = json.loads(output)
    jsonschema.Draft202012Validator(output_schema(command), format_checker=jsonschema.FormatChecker()).validate(
        document
    )
    return document


@pytest.mark.parametrize(("command", "arguments"), CALLS, ids=lambda value: value if isinstance(value, str) else None)
def test_the_json_of_a_command_fits_its_schema(
    local_world: World, run: Run, command: str, arguments: tuple[str, ...]
) -> None:
    local_world.lake_options = {"maintenance": {"compact": 2}}
    for total in (1, 2):
        local_world.land(NW, sales(total))
        local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        lake.rows("INSERT INTO lake.sales VALUES (2, 2.0, 'NW', '2026-02-11')")
    local_world.land(SW, sales(3))
    Path(local_world.source["path"], "stray.parquet").write_bytes(b"x")

    result = run(command, *arguments, "--format", "json")

    assert result.exit_code == 0, result.output
    document = fitting(command, result.stdout)
    if command == "report":
        assert (document[-1:] == []) is ("--failed" in arguments)
        if document:
            assert (document[-1]["partitions"], document[-1]["objects_in_no_partition"]) == (None, 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_schemas_are_valid_and_refuse_other_documents(command: str) -> None:
    schema = json.loads(CliRunner().invoke(main, ["schema", command]).stdout)

    assert schema == output_schema(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate([{}] if schema["type"] == "array" else {})


def test_every_field_is_kept_with_its_type() -> None:
    """A line of `fields.txt` may be added for a new field; none may be changed within a major version."""
    known = FIELDS.read_text(encoding="utf-8").splitlines()

    assert [*fields({command: output_schema(command) for command in COMMANDS})] == known
