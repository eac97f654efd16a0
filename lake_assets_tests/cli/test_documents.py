"""The JSON of commands fits the schema that `lake-assets schema` prints."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner

from lake_assets.cli import main
from lake_assets.cli.documents import COMMANDS
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.world import NW, World, sales

__all__ = ["sessions"]

EXPECTED = {
    "doctor": {"failed", "findings"},
    "validate": {"streams", "lakes"},
    "maintain": {
        *("lake", "dry_run", "expired", "deleted", "orphans", "bytes_deleted", "kept", "waiting", "compacted"),
        *("ledger_rows_moved", "ledger_rows_deleted", "deltas_deleted", "dead_letters_deleted"),
    },
}


def output(*arguments: str) -> Any:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_json_of_a_command_fits_its_schema_and_keeps_its_keys(
    local_world: World, tmp_path: Path, command: str
) -> None:
    local_world.lake_options = {"maintenance": {"compact": 2}}
    for total in (1, 2):
        local_world.land(NW, sales(total))
        local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        lake.rows("INSERT INTO lake.sales VALUES (2, 2.0, 'NW', '2026-02-11')")
    schema = output("schema", command)
    dry = ["--dry-run"] if command == "maintain" else []

    document = output("--config", str(local_world.config_file(tmp_path)), command, *dry, "--format", "json")

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)
    (first,) = document if command == "maintain" else [document]
    assert set(first) == EXPECTED[command]


def test_the_schema_refuses_another_document() -> None:
    with pytest.raises(jsonschema.ValidationError, match="'findings' is a required property"):
        jsonschema.Draft202012Validator(output("schema", "doctor")).validate({"failed": 0})
