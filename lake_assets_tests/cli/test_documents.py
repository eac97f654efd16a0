"""The JSON of commands fits the schema that `lake-assets schema` prints."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner

from lake_assets.base.errors import StorageError
from lake_assets.cli import main
from lake_assets.cli.documents import output_schema
from lake_assets.cli.output import JSON_COMMANDS
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.outcome import IngestOptions, Outcome
from lake_assets.streams.stream import OpenStream
from lake_assets_tests.cli.conftest import Run, named
from lake_assets_tests.world import NW, SW, World, sales

PLAN = "plan.json"
ODD = """SELECT 'nan'::DOUBLE AS a, ['-inf'::FLOAT, 1] AS b, 'NaN \\" NaN' AS "NaN", now() AS d, 1.50 AS e"""
XX = "region=XX,date=2026-02-11"

CALLS = [
    ("doctor", ()),
    ("validate", ()),
    ("plan", ("--partition", "region=*")),
    ("plan", ("--failed",)),
    ("plan", ("--left-out",)),
    ("ingest", ("--partition", NW)),
    ("apply", (PLAN,)),
    ("index", ("--dry-run",)),
    ("query", ("FROM sales",)),
    ("query", (ODD,)),
    ("ledger", ()),
    ("ledger", ("--status", "cancelled")),
    ("files", ()),
    ("history", ()),
    ("history", ("--partition", NW)),
    ("diff", ("--partition", NW, "--from", "{first}")),
    ("diff", ("--partition", NW, "--from", "{first}", "--key", "id")),
    ("restore", ("--partition", NW, "--snapshot", "{first}", "--dry-run")),
    ("restore", ("--partition", NW, "--snapshot", "{first}", "--hold")),
    ("report", ()),
    ("report", ("--partitions",)),
    ("report", ("--partitions", "--failed")),
    ("check", ("--only", "schema")),
    ("sync-dagster", ()),
    ("sync-dagster", ("--dry-run",)),
    ("metrics", ()),
    ("maintain", ("--dry-run",)),
    ("forget", ("--partition", XX)),
    ("catalog backup", ("--keep", "1")),
    ("catalog backups", ()),
    ("catalog restore", ("--replace",)),
    ("catalog rebuild", ()),
]


def fitting(command: str, output: str) -> Any:
    """The document, which fits the command's schema."""
    document = json.loads(output, parse_constant=pytest.fail)  # NaN, Infinity
    jsonschema.Draft202012Validator(output_schema(command), format_checker=jsonschema.FormatChecker()).validate(
        document
    )
    return document


def test_every_command_with_json_has_a_schema_and_is_called_here() -> None:
    found = {
        name
        for name, command in named()
        for option in command.params
        if "--format" in option.opts and isinstance(option.type, click.Choice) and "json" in option.type.choices
    }

    assert found == set(JSON_COMMANDS) == {command for command, _ in CALLS}


def test_the_json_of_each_command_fits_its_schema(
    local_world: World, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.lake_options = {"maintenance": {"compact": 2}}
    first = local_world.commit(NW, 1).snapshot_id
    local_world.commit(NW, 2)
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path(PLAN).write_text(run("plan", "--partition", NW, "--format", "json").stdout)
    local_world.execute("INSERT INTO lake.sales VALUES (2, 2.0, 'NW', '2026-02-11')")
    local_world.land(SW, sales(3))
    Path(local_world.source["path"], "stray.parquet").write_bytes(b"x")
    documents: list[Any] = []

    for command, arguments in CALLS:
        if command == "forget":
            local_world.land(XX, b"no parquet")
            assert run("ingest", "--partition", XX).exit_code == 1
            local_world.unland(XX)
        local_world.options["mode"] = "index" if command == "index" else "replace"
        words = [*command.split(), *(word.format(first=first) for word in arguments), "--format", "json"]
        result = run(*words)

        assert result.exit_code == 0, (words, result.output)
        documents.append(fitting(command, result.stdout))

    shown = {(command, arguments[-1:]): found for (command, arguments), found in zip(CALLS, documents, strict=True)}
    assert isinstance(shown["query", (ODD,)][0].pop("d"), str)
    assert shown["query", (ODD,)] == [{"a": None, "b": [None, 1.0], "NaN": 'NaN \\" NaN', "e": 1.5}]
    assert shown["report", ("--failed",)] == []
    last = shown["report", ()][-1]
    assert last["left_out"]["counts"]["unmatched"] == 1
    changed = {"kind": "update", "values": {"id": "0", "total": "2.0"}, "before": {"total": "1.0"}}
    assert changed in shown["diff", ("id",)]["sample"]


def test_an_ingest_is_a_document_with_its_failures(local_world: World, run: Run) -> None:
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, b"no parquet")

    result = run("ingest", "--partition", NW, "--partition", SW, "--format", "json")

    document = fitting("ingest", result.stdout)
    good, bad = sorted(document["partitions"], key=lambda partition: str(partition["partition"]))
    assert result.exit_code == 1
    assert [document[key] for key in ("stream", "table", "selected", "committed", "skipped", "failed", "error")] == [
        *("sales", "main.sales", 2, 1, 0, 1, None)
    ]
    assert {row.run_id for row in local_world.ledger()} == {document["run"]}
    (row,) = (row for row in local_world.ledger() if row.status == "committed")
    assert (good["status"], good["row"]["row_count"], good["row"]["rows_before"]) == ("committed", 2, 0)
    assert (good["row"]["snapshot_id"], good["row"]["bytes_written"]) == (row.snapshot_id, row.bytes_written)
    assert good["error"] is None
    assert {"list", "job", "commit"} <= good["seconds"].keys()
    assert (bad["partition"], bad["status"], bad["row"]["snapshot_id"]) == ("region=SW/date=2026-02-11", "failed", None)
    assert "cannot be read as Parquet" in bad["error"]["message"]
    assert bad["error"]["kind"].endswith("Error")
    assert f"Error: {bad['error']['message']}\nsales: 1 of 2 partitions committed, " in result.stderr
    again = run("ingest", "--partition", NW, "--format", "json")
    assert again.exit_code == 0
    (skipped,) = fitting("ingest", again.stdout)["partitions"]
    assert (skipped["status"], skipped["why_skipped"]) == ("skipped", "unchanged")


@pytest.mark.more
def test_a_selection_of_no_partition_is_a_document_without_partitions(local_world: World, run: Run) -> None:
    local_world.commit(NW, 1)

    for command in ("ingest", "check", "plan"):
        result = run(command, "--waiting", "--format", "json")
        document = fitting(command, result.stdout)
        assert (result.exit_code, document if command == "check" else document["partitions"]) == (0, []), command


@pytest.mark.parametrize("error", [ZeroDivisionError("of a test"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_what_ends_a_run_is_in_its_document_with_what_has_ended_before(
    local_world: World, run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    local_world.options["mode"] = "index"
    for text in (NW, SW):
        local_world.land(text, sales(1))

    def ended(stream: OpenStream, _: Any, plan: Any, options: IngestOptions, *others: Any) -> Iterator[Outcome]:
        yield from index_all(stream, [stream.config.partition(NW)], plan, options, *others)
        raise error

    monkeypatch.setattr("lake_assets.ingest.ingest_all.index_all", ended)
    result = run("ingest", "--partition", NW, "--partition", SW, "--format", "json")

    document = fitting("ingest", result.stdout)
    is_error = isinstance(error, Exception)
    assert (result.exit_code, document["selected"], document["committed"]) == (1 if is_error else 130, 2, 1)
    assert document["partitions"][0]["partition"] == "region=NW/date=2026-02-11"
    assert document["error"]["kind"] == type(error).__name__
    message = document["error"]["message"]
    assert f"Error: {message}" in result.stderr if is_error else message == "The command was interrupted."


def test_checks_are_a_document_with_those_that_fail(
    local_world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.commit(NW, 1, 2)
    local_world.land(SW, sales(3))
    local_world.execute("DELETE FROM lake.sales WHERE total = 2")

    result = run("check", "--format", "json")
    selected = run("check", "--partition", NW, "--only", "row_counts", "--format", "json")

    status = {check["name"]: check["status"] for check in fitting("check", result.stdout)}
    assert result.exit_code == selected.exit_code == 1
    assert (status["row_counts"], status["landing_zone"], status["schema"]) == ("failed", "warning", "passed")
    (check,) = fitting("check", selected.stdout)
    assert check["named"][0].startswith("region=NW/date=2026-02-11")

    def fail(*_: object) -> None:
        raise StorageError("the landing zone is away:", "wake it.")

    monkeypatch.setattr("lake_assets.upkeep.checks.check_run.CheckRun.result", fail)
    result = run("check", "--only", "row_counts", "--format", "json")

    (check,) = fitting("check", result.stdout)
    assert (result.exit_code, check["status"]) == (1, "failed")
    assert check["error"] == {"kind": "StorageError", "message": "the landing zone is away: wake it."}
    assert result.stderr.splitlines() == ["failed     row_counts", "Error: the landing zone is away: wake it."]


@pytest.mark.more
def test_each_way_of_an_index_is_a_document(local_world: World, run: Run) -> None:
    local_world.options["mode"] = "index"
    gone = local_world.land(NW, sales(1))
    local_world.land(NW, sales(2), "batch_2.parquet")
    bad = local_world.land(SW, b"no parquet")
    Path(local_world.source["path"], "stray.parquet").write_bytes(b"x")

    def index(code: int, *arguments: str) -> Any:
        result = run("index", *arguments, "--format", "json")
        assert result.exit_code == code, result.output
        return fitting("index", result.stdout)

    dry, done = index(0, "--dry-run"), index(1)
    local_world.unland(NW)
    changed = local_world.land(NW, sales(4, 5), "batch_2.parquet")
    checked, repaired, sound = index(1, "--check"), index(0, "--repair"), index(0, "--check")
    nothing = index(0, "--failed", "--partition", NW)

    assert [len(partition["new"]) for partition in dry["partitions"]] == [2, 1]
    assert dry["left_out"]["counts"]["unmatched"] == done["left_out"]["counts"]["unmatched"] == 1
    assert [done[key] for key in ("committed", "failed", "files", "rows")] == [1, 1, 2, 2]
    (failed,) = (partition for partition in done["partitions"] if partition["status"] == "failed")
    assert bad in failed["error"]["message"]
    path = "region=NW/date=2026-02-11"
    assert [(obj["load_partition"], obj["uri"]) for obj in checked["vanished"]] == [(path, gone)]
    assert [(obj["now"]["uri"], obj["is_live"]) for obj in checked["changed"]] == [(changed, True)]
    assert changed in checked["changed"][0]["error"]["message"]
    assert (repaired["ended"], repaired["renewed"], repaired["errors"]) == (1, 1, [])
    assert ([row["rows_before"] for row in repaired["rows"]], repaired["updated"]) == ([2], {path: 2})
    assert (sound["vanished"], sound["changed"], sound["registered"]) == ([], [], 1)
    assert nothing["partitions"] == []


@pytest.mark.more
def test_a_restore_is_a_document_with_its_failures(local_world: World, run: Run) -> None:
    first = str(local_world.commit(NW, 1).snapshot_id)
    local_world.commit(NW, 2)

    done = run("restore", "--partition", SW, "--partition", NW, "--snapshot", first, "--hold", "--format", "json")
    released = run("restore", "--partition", NW, "--release", "--format", "json")

    bad, good = fitting("restore", done.stdout)
    assert done.exit_code == 1
    assert bad["partition"] == "region=SW/date=2026-02-11"
    assert f"Error: {bad['error']['message']}\n" in done.stderr
    assert (good["rows_before"], good["rows"], good["is_held"]) == (1, 1, True)
    assert good["row"]["snapshot_id"] == next(row.snapshot_id for row in local_world.ledger() if row.mode == "restore")
    (entry,) = fitting("restore", released.stdout)
    assert (entry["mode"], entry["hold"]) == ("release", "released")
    assert entry["snapshot_id"] == good["row"]["snapshot_id"] + 1


@pytest.mark.parametrize("command", JSON_COMMANDS)
def test_schemas_are_valid_and_refuse_other_documents(command: str) -> None:
    schema = json.loads(CliRunner().invoke(main, ["schema", command]).stdout)

    assert schema == output_schema(command)
    # A row of a query may have any columns.
    other: object = ["row"] if command == "query" else [{}] if "items" in schema else {}
    jsonschema.Draft202012Validator.check_schema(schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(other)
