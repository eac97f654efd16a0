"""Events of OpenLineage: what a receiver gets of real ingests, and what a run without a receiver does not notice."""

import datetime as dt
import logging
import os
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dev.servers.inbox import Inbox, inbox
from lake_assets.base.errors import ConfigError, MissingExtraError, SourceError
from lake_assets.cli import main
from lake_assets.ingest.outcome import IngestOptions, Outcome, expected_outcomes, report_outcome
from lake_assets.upkeep.exports import lineage
from lake_assets.wings.telemetry import lineage as lineage_module
from lake_assets_tests.orchestration.check_runs import PARTITIONS
from lake_assets_tests.orchestration.launched_runs import run
from lake_assets_tests.orchestration.test_spark_submit import SPARK
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["inbox"]

URL = "OPENLINEAGE_URL"
AWAY = "http://127.0.0.1:9"

Lineage = dict[str, Any]


@pytest.fixture
def receiver(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> Inbox:
    """A receiver that the environment names."""
    monkeypatch.setenv(URL, inbox.url)
    return inbox


def events(receiver: Inbox) -> list[Lineage]:
    """The events that it has got, each a valid one."""
    found = [letter.json for letter in receiver.letters]
    assert {letter.path for letter in receiver.letters} <= {"/api/v1/lineage"}
    for event in found:
        assert dt.datetime.fromisoformat(event["eventTime"]).tzinfo is not None
        assert uuid.UUID(event["run"]["runId"])
        assert event["schemaURL"].startswith("https://openlineage.io/spec/")
        assert all(f["_producer"] == event["producer"] and f["_schemaURL"] for f in facets_in(event))
    return found


def facets_in(event: Lineage) -> Iterator[Lineage]:
    for place in (event["run"], event["job"], *event["inputs"], *event["outputs"]):
        for kind in ("facets", "inputFacets", "outputFacets"):
            yield from place.get(kind, {}).values()


def told(event: Lineage) -> tuple[str, str]:
    """The state and the partition of an event."""
    (output,) = event["outputs"]
    (partition,) = output["outputFacets"]["subset"]["outputCondition"]["partitions"]
    return event["eventType"], partition["identifier"].partition("/")[0]


def complete_of(receiver: Inbox) -> Lineage:
    (event,) = (event for event in events(receiver) if event["eventType"] == "COMPLETE")
    return event


def command(world: World, folder: Path, *arguments: str, **sections: Any) -> Any:
    file = world.config_file(folder, **sections)
    return CliRunner().invoke(main, ["--config", str(file), "ingest", *arguments])


def test_a_command_tells_what_was_committed_and_what_failed(
    local_world: World, tmp_path: Path, receiver: Inbox
) -> None:
    uri = local_world.land(NW, sales(1, 2))
    local_world.land(SW, b"no Parquet")

    for _ in range(2):
        command(local_world, tmp_path, "--partition", NW, "--partition", SW)

    found = events(receiver)
    assert sorted(map(told, found)) == sorted(
        [("START", "region=NW"), ("COMPLETE", "region=NW"), *[("START", "region=SW"), ("FAIL", "region=SW")] * 2]
    )
    (row,) = (row for row in local_world.ledger() if row.status == "committed")
    complete = complete_of(receiver)
    assert complete["job"]["namespace"] == "lake-assets"
    assert complete["job"]["name"] == "sales"
    assert dt.datetime.fromisoformat(complete["eventTime"]) == row.finished_at
    started = (event for event in found if event["eventType"] == "START")
    (start,) = (event for event in started if event["run"]["runId"] == complete["run"]["runId"])
    assert dt.datetime.fromisoformat(start["eventTime"]) == row.started_at
    assert {"key": "run_id", "value": row.run_id, "source": "lake-assets"} in complete["run"]["facets"]["tags"]["tags"]

    (read,), (written,) = complete["inputs"], complete["outputs"]
    assert (read["namespace"], read["name"]) == ("file", local_world.source["path"])
    assert read["facets"]["version"]["datasetVersion"] == row.source_fingerprint
    assert read["inputFacets"]["inputStatistics"]["fileCount"] == 1
    assert read["inputFacets"]["inputStatistics"]["size"] == row.source_bytes
    assert read["inputFacets"]["subset"]["inputCondition"] == {"type": "location", "locations": [uri]}

    assert (written["namespace"], written["name"]) == (f"ducklake:sqlite:{local_world.catalog['path']}", "main.sales")
    assert written["facets"]["version"]["datasetVersion"] == str(row.snapshot_id)
    columns = [(c["name"], c["type"]) for c in written["facets"]["schema"]["fields"]]
    assert columns == [("id", "BIGINT"), ("total", "DOUBLE"), ("region", "VARCHAR"), ("date", "DATE")]
    statistics = written["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (2, row.bytes_written, 1)
    (partition,) = written["outputFacets"]["subset"]["outputCondition"]["partitions"]
    assert partition["dimensions"] == {"region": "NW", "date": "2026-02-11"}
    assert set(written["facets"]["columnLineage"]["fields"]) == {"id", "total"}
    (field,) = written["facets"]["columnLineage"]["fields"]["total"]["inputFields"]
    assert (field["namespace"], field["name"], field["field"]) == (read["namespace"], read["name"], "total")
    assert [(t["type"], t["subtype"]) for t in field["transformations"]] == [("DIRECT", "IDENTITY")]

    failed = [event for event in found if event["eventType"] == "FAIL"]
    assert len({event["run"]["runId"] for event in failed}) == 2
    error = failed[0]["run"]["facets"]["errorMessage"]
    assert "region=SW" in error["message"]
    assert error["programmingLanguage"] == "PYTHON"


@pytest.mark.soak
def test_a_launched_run_tells_once_what_a_run_in_process_tells(
    local_world: World, tmp_path: Path, receiver: Inbox
) -> None:
    local_world.options |= {"partitions": PARTITIONS}
    seen = {}
    for launcher, rows in (("in_process", sales(1)), ("spark_submit", sales(2))):
        local_world.land(NW, rows)
        local_world.land(SW, b"no Parquet")
        file = local_world.config_file(tmp_path, runs={"launcher": launcher}, spark=SPARK)
        receiver.letters.clear()

        result = run(file, "2026-02-11|NW", "2026-02-11|SW")

        found = events(receiver)
        for event in found:
            parent = event["run"]["facets"]["parent"]
            assert (parent["run"]["runId"], parent["job"]["name"]) == (result.run_id, result.job_def.name)
        complete = complete_of(receiver)
        facets = complete["outputs"][0]["facets"]
        seen[launcher] = (
            sorted(map(told, found)),
            facets["schema"],
            facets["columnLineage"],
            complete["inputs"][0]["inputFacets"],
        )

    assert seen["spark_submit"] == seen["in_process"]
    assert len(seen["spark_submit"][0]) == 4


@pytest.mark.more
def test_what_a_transform_does_to_columns_is_not_claimed(local_world: World, receiver: Inbox) -> None:
    local_world.land(NW, sales(1))
    outcome = local_world.ingest(NW)
    local_world.options["transform"] = {"sql": "SELECT id, total * 2 AS total FROM source"}

    with lineage(local_world.stream):
        report_outcome(outcome)

    facets = complete_of(receiver)["outputs"][0]["facets"]
    assert [c["name"] for c in facets["schema"]["fields"]] == ["id", "total", "region", "date"]
    assert "columnLineage" not in facets


@pytest.mark.more
@pytest.mark.parametrize(("mode", "files", "rows"), [("append", 1, 2), ("replace", 2, 3)], ids=["not read", "too many"])
def test_objects_that_were_not_read_or_are_too_many_are_not_named(
    local_world: World, receiver: Inbox, monkeypatch: pytest.MonkeyPatch, mode: str, files: int, rows: int
) -> None:
    local_world.options["mode"] = mode
    if mode == "replace":
        monkeypatch.setattr(lineage_module, "LOCATIONS", 1)
    local_world.land(NW, sales(1), "a.parquet")
    local_world.ingest(NW)
    local_world.land(NW, sales(2, 3), "b.parquet")

    with lineage(local_world.stream):
        local_world.ingest(NW)

    complete = complete_of(receiver)
    assert set(complete["inputs"][0]["inputFacets"]) == {"inputStatistics"}
    assert complete["inputs"][0]["inputFacets"]["inputStatistics"]["fileCount"] == files
    assert complete["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == rows


def test_the_same_commit_has_the_same_id_and_another_one_another(local_world: World, receiver: Inbox) -> None:
    outcomes = []
    for total in (1, 2):
        local_world.land(NW, sales(total))
        outcomes.append(local_world.ingest(NW))
    with lineage(local_world.stream):
        for outcome in (outcomes[0], outcomes[0], outcomes[1]):
            report_outcome(outcome)

    ids = [event["run"]["runId"] for event in events(receiver) if event["eventType"] == "COMPLETE"]
    assert ids[0] == ids[1] != ids[2]


def test_a_table_is_named_without_user_and_password(local_world: World) -> None:
    local_world.catalog = {
        "type": "postgres", "host": "db", "database": "lake", "user": "u-secret", "password": "p-secret"
    }  # fmt: skip
    local_world.storage = {"type": "s3", "bucket": "lake", "prefix": "tables", "key_id": "k", "secret": "s-secret"}
    local_world.lake_options = {"attach_options": {"metadata_schema": "retail"}}

    table = lineage_module.output_dataset(local_world.stream, local_world.partition(NW))

    assert (table.namespace, table.name) == ("ducklake:postgres://db:5432/lake/retail", "main.sales")
    assert "Identifier(namespace='s3://lake', name='tables/main/sales', type='LOCATION')" in repr(table)
    assert "secret" not in repr(table)


def failure(world: World) -> Outcome:
    (outcome,) = expected_outcomes(world.stream, [world.partition(NW)], IngestOptions())
    return replace(outcome, error=SourceError("an object is damaged:", "write it again."))


def test_a_receiver_that_is_away_is_reported_once_and_fails_nothing(
    local_world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lineage_module, "PAUSE_SECONDS", 0.0)
    for name, value in {"TYPE": "http", "URL": AWAY, "RETRY": '{"total": 2, "backoff_factor": 0}'}.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)

    with lineage(local_world.stream):
        for _ in range(3):
            report_outcome(failure(local_world))

    (record,) = (r for r in caplog.records if r.levelno >= logging.WARNING)
    assert record.name == lineage_module.__name__
    assert "an event could not be sent (ConnectionError" in record.getMessage()


def test_a_receiver_that_does_not_answer_is_waited_for_once_and_for_some_seconds_only(
    local_world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()
    monkeypatch.setenv(URL, AWAY)
    monkeypatch.setattr(lineage_module, "STOP_SECONDS", 0.1)
    monkeypatch.setattr("openlineage.client.OpenLineageClient.emit", lambda *_: answers.wait(60))

    with lineage(local_world.stream):
        for _ in range(3):
            report_outcome(failure(local_world))

    (record,) = caplog.records
    assert "did not take all events within 0.1 s" in record.getMessage()
    answers.set()


def test_an_event_that_cannot_be_made_is_reported_and_the_others_are_sent(
    local_world: World, receiver: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    with lineage(local_world.stream):
        report_outcome(replace(failure(local_world), partition=None))  # type: ignore[arg-type]
        report_outcome(failure(local_world))

    assert [event["eventType"] for event in events(receiver)] == ["START", "FAIL"]
    assert "no event could be made of" in caplog.text


def test_the_receiver_and_the_namespace_may_be_of_the_clients_file(
    local_world: World, inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "openlineage.yml"
    file.write_text(f"transport: {{type: http, url: '{inbox.url}', auth: {{type: api_key, apiKey: k}}}}", "utf-8")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(file))
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "retail")

    with lineage(local_world.stream):
        report_outcome(failure(local_world))

    assert {event["job"]["namespace"] for event in events(inbox)} == {"retail"}
    assert inbox.letters[0].headers["authorization"] == "Bearer k"


def test_the_key_is_left_in_no_other_variable(
    local_world: World, receiver: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "k-secret")
    before = dict(os.environ)

    with lineage(local_world.stream):
        report_outcome(failure(local_world))

    assert dict(os.environ) == before
    assert receiver.letters[0].headers["authorization"] == "Bearer k-secret"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("OPENLINEAGE_CONFIG", "/nowhere/openlineage.yml", "names no receiver: set OPENLINEAGE_URL"),
        ("OPENLINEAGE__TRANSPORT__TYPE", "http", "does not take its config"),
    ],
)
def test_a_config_without_a_receiver_or_that_the_client_refuses_is_an_error(
    local_world: World, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(ConfigError, match=message), lineage(local_world.stream):
        pass


def test_without_the_extra_only_a_run_that_asks_for_it_fails(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lake_assets.wings.telemetry.lineage", None)
    with lineage(local_world.stream):
        report_outcome(failure(local_world))
    monkeypatch.setenv(URL, AWAY)

    with (
        pytest.raises(MissingExtraError, match=r"pip install '\.\[openlineage\]'` in the clone of lake-assets, or"),
        lineage(local_world.stream),
    ):
        pass

    done = command(local_world, tmp_path, "--partition", NW)
    assert done.exit_code == 1
    assert "'.[openlineage]'" in done.output
