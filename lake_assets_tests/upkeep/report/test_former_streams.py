"""A renamed stream has what it had under its earlier name; without `previously`, what the config lacks is named."""

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from lake_assets.api import open_stream
from lake_assets.base.errors import LakeAssetsError
from lake_assets.cli import main
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.index.index_run import index_all, objects_of_lake
from lake_assets.ingest.ingest_all import ingest
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.lake.ledger.object_history import objects_at
from lake_assets.lake.ledger.read import LedgerFilter, commits, newest_commits, pace, read_ledger
from lake_assets.lake.session import LakeSession
from lake_assets.storage.store import Store
from lake_assets.streams.pending import next_tries
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.history.history_entries import history
from lake_assets.upkeep.maintenance.cleaning import clean_deltas, clean_letters
from lake_assets.upkeep.report.former_streams import former_streams
from lake_assets.upkeep.report.html import page, section
from lake_assets.upkeep.report.objects import file_entries
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.ingest.lettering import BIG, NARROW, wide
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import NW, SW, World, sales

PREVIOUSLY = {"previously": ["till", "sales"]}
LETTERED = {"mode": "append", "on_bad_object": "quarantine", "on_bad_row": "dead_letter"}
LATER = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)


def document(world: World, **options: Any) -> dict[str, Any]:
    """The config of a world whose stream is called `orders` now, with further options."""
    stream = world.document["streams"]["sales"] | options
    return world.document | {"streams": {"orders": stream}}


def renamed(world: World, **options: Any) -> OpenStream:
    return open_stream(LakeConfig.model_validate(document(world, **options)), "orders")


def command(world: World, folder: Path, *arguments: str, **options: Any) -> str:
    """What a command prints with the config of the renamed stream."""
    file = folder / "renamed.yaml"
    file.write_text(yaml.safe_dump(document(world, **options), sort_keys=False))
    result = CliRunner().invoke(main, ["--config", str(file), *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def in_lake(read: Callable[[LakeSession, OpenStream], object]) -> Callable[[OpenStream], object]:
    def reader(stream: OpenStream) -> object:
        with stream.lake.open(read_only=True) as lake:
            return read(lake, stream)

    return reader


def landed(stream: OpenStream) -> list[Partition]:
    return [stream.config.partition(text) for text in (NW, SW)]


def said(check: str) -> Callable[[OpenStream], object]:
    return lambda stream: run_check(stream, check, Scope(None)).description


def restorable(lake: LakeSession, stream: OpenStream) -> object:
    scope = stream.ledger_scope(landed(stream)[:1])
    return objects_at(lake, scope, commits(lake, scope), 2**60).below(stream.source.root).objects


READ: dict[str, Callable[[OpenStream], object]] = {
    "ledger": in_lake(lambda lake, stream: read_ledger(lake, LedgerFilter(stream.names))),
    "commits": in_lake(lambda lake, stream: newest_commits(lake, stream.table)),
    "restorable": in_lake(restorable),
    "pace": in_lake(lambda lake, stream: pace(lake, stream.table, "append")),
    "retries": in_lake(lambda lake, stream: next_tries(stream, lake, LATER)),
    "state": lambda stream: [
        (p.partition, p.state, p.rows, p.quarantined) for p in read_stream_state(stream).partitions
    ],
    "letters": lambda stream: read_stream_state(stream).dead_letters,
    "objects": file_entries,
    "history": history,
    "page": lambda stream: page([section(stream, read_stream_state(stream))], "", LATER).count("committed"),
    **{f"check {name}": said(name) for name in ("ledger", "schema", "appended_objects", "quarantine", "dead_letters")},
}


def test_a_renamed_stream_has_what_it_had(local_world: World) -> None:
    local_world.options = LETTERED
    local_world.land(NW, NARROW, "a.parquet")
    local_world.ingest(NW)
    local_world.land(NW, wide(1, BIG), "b.parquet")
    local_world.land(NW, b"no Parquet", "bad.parquet")
    local_world.ingest(NW)
    local_world.land(SW, b"no Parquet", "bad.parquet")
    with pytest.raises(LakeAssetsError):
        local_world.ingest(SW)
    before = {what: read(local_world.stream) for what, read in READ.items()}
    assert all(before.values())

    assert {what: read(renamed(local_world, **PREVIOUSLY)) for what, read in READ.items()} == before

    for what in ("ledger", "restorable", "retries", "objects"):  # else the test shows nothing
        assert READ[what](renamed(local_world)) != before[what]


def test_registered_objects_are_those_of_the_earlier_name(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    local_world.land(NW, sales(1))
    assert [outcome.error for outcome in index_all(local_world.stream)] == [None]
    of_earlier, of_another = renamed(local_world, **PREVIOUSLY), renamed(local_world)
    with of_earlier.lake.open(read_only=True) as lake:
        known = objects_of_lake(lake, local_world.stream, None)
        assert objects_of_lake(lake, of_earlier, None) == known != {}
        assert objects_of_lake(lake, of_another, None) == {}


def test_a_renamed_stream_adds_to_what_it_has_and_replaces_it(local_world: World) -> None:
    local_world.options = {"mode": "append", "on_bad_row": "dead_letter"}
    local_world.land(NW, NARROW, "a.parquet")
    local_world.ingest(NW)
    local_world.land(NW, wide(BIG), "b.parquet")
    local_world.ingest(NW)
    stream = renamed(local_world, **PREVIOUSLY)
    local_world.land(NW, NARROW, "c.parquet")
    for force in (False, True):
        assert ingest(stream, landed(stream)[0], local_world.sessions, IngestOptions(force=force)).row.row_count
        assert local_world.query("SELECT count(*) FROM lake.sales") == [(2,)]
        assert [letter.rows for letter in read_stream_state(stream).dead_letters] == [1]
    assert {entry.state for entry in file_entries(stream, landed(stream)[:1])} == {"loaded"}


def test_exported_changes_of_the_earlier_name_are_listed_and_end_with_those_of_the_new_one(
    local_world: World, tmp_path: Path
) -> None:
    local_world.options = {"deltas": {"to": str(tmp_path / "deltas"), "latest": True}}
    local_world.commit(NW, 1)
    stream = renamed(local_world, **PREVIOUSLY)
    local_world.land(SW, sales(2))
    ingest(stream, landed(stream)[1], local_world.sessions, IngestOptions())
    listed = json.loads((tmp_path / "deltas" / "_latest.json").read_text())
    assert (listed["stream"], len(listed["files"])) == ("orders", 2)
    with stream.lake.open() as lake:
        assert len(clean_deltas(lake, stream, LATER, LATER)) == 2
    assert local_world.query("SELECT * FROM lake.ingest_deltas") == []


def test_dead_letters_of_a_killed_run_under_the_earlier_name_are_cleaned(local_world: World) -> None:
    local_world.options = LETTERED
    local_world.commit(NW, 1)
    rules = local_world.stream.letters
    assert rules is not None
    orphan = f"{rules.folder}of-a-killed-run-{'0' * 32}-{rules.tag}.parquet"
    with Store(rules.storage).create(orphan) as file:
        file.write(b"")
    stream = renamed(local_world, **PREVIOUSLY)
    with stream.lake.open() as lake:
        assert [obj.key for obj in clean_letters(lake, stream, LATER)] == [orphan]


def test_the_ledger_of_a_renamed_stream_is_printed_and_forgotten_under_both_names(
    local_world: World, tmp_path: Path
) -> None:
    local_world.land(NW, b"no Parquet")
    with pytest.raises(LakeAssetsError):
        local_world.ingest(NW)
    local_world.unland(NW)
    ledger = ("ledger", "orders", "--format", "json")
    assert json.loads(command(local_world, tmp_path, *ledger)) == []
    (row,) = json.loads(command(local_world, tmp_path, *ledger, **PREVIOUSLY))
    assert (row["stream"], row["status"]) == ("sales", "failed")
    command(local_world, tmp_path, "forget", "orders", "--partition", NW, **PREVIOUSLY)
    assert local_world.ledger() == []


# What the config lacks.

MOVED = {"destination": {"table": "orders"}}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        pytest.param(
            {},
            "lake test: main.sales has commits of a stream sales, and orders fills it: if that is its new name, write "
            "`previously: [sales]` at streams.orders.",
            id="stream",
        ),
        pytest.param(
            MOVED,
            "lake test: main.sales, which sales filled last, is the table of no stream: if it has a new name, write "
            "`previously: [sales]` there; else keep or drop the table as docs/how-to/rename-or-retire-a-stream.md "
            "describes.",
            id="stream and table",
        ),
        pytest.param(
            MOVED | PREVIOUSLY,
            "lake test: main.sales, which sales filled last, is the table of no stream: keep or drop the table as "
            "docs/how-to/rename-or-retire-a-stream.md describes.",
            id="table",
        ),
        pytest.param(PREVIOUSLY, None, id="previously"),
    ],
)
def test_what_the_config_lacks_is_named(
    local_world: World, tmp_path: Path, options: dict[str, Any], line: str | None
) -> None:
    local_world.commit(NW, 1)
    assert former_streams(local_world.config) == []
    validated = command(local_world, tmp_path, "validate", **options).splitlines()
    reported = command(local_world, tmp_path, "report", **options).splitlines()
    assert [each for each in validated if each.startswith("lake test: main")] == [line] * (line is not None)
    assert [each for each in reported if each.startswith("lake test: main")] == [line] * (line is not None)
    named = json.loads(command(local_world, tmp_path, "validate", "--format", "json", **options))["former"]
    assert [each["stream"] for each in named] == ["sales"] * (line is not None)
    assert "lake test: main" not in command(local_world, tmp_path, "report", "orders", **options)


def test_a_table_that_was_dropped_or_renamed_is_not_named(local_world: World) -> None:
    local_world.commit(NW, 1)
    config = LakeConfig.model_validate(document(local_world, **MOVED))
    assert [each.table for each in former_streams(config)] == ["main.sales"]
    local_world.execute("ALTER TABLE lake.main.sales RENAME TO other")
    assert former_streams(config) == []
    local_world.execute("CREATE TABLE lake.main.sales (id BIGINT)")
    assert former_streams(config) == []


def test_a_config_is_valid_whose_lake_cannot_be_read(local_world: World, tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite").write_text("no database")
    printed = command(local_world, tmp_path, "validate")
    assert "The tables of the lakes were not compared: " in printed
    assert "The config is valid." in printed


def test_a_lake_with_another_name_has_all_that_it_had(local_world: World) -> None:
    local_world.commit(NW, 1)
    renamed_lake = local_world.document | {"lakes": {"retail": local_world.document["lakes"]["test"]}}
    config = LakeConfig.model_validate(renamed_lake)
    assert former_streams(config) == []
    stream = open_stream(config, "sales")
    for what in ("ledger", "commits", "history", "state"):
        assert READ[what](stream) == READ[what](local_world.stream)
