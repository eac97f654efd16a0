"""The objects of the manifest are those that the newest commits noted, in any order of the manifest's rows."""

import dataclasses
import datetime as dt

import pytest

from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger import flush, ledger_relation
from lake_assets.lake.ledger.ledger_relation import LedgerScope
from lake_assets.lake.ledger.object_history import known_objects, registered_objects
from lake_assets.lake.ledger.tables import LEDGER, MANIFEST, LedgerRow, append_records, create_ledger, ledger_values
from lake_assets.lake.session import LakeSession, TableName
from lake_assets_tests.lake.worlds import EACH_CATALOG
from lake_assets_tests.tiers import soak
from lake_assets_tests.world import World

TABLE = TableName("main", "sales")
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PATHS = ("region=NW/date=2026-02-11", "region=SW/date=2026-02-11")


def commit(lake: LakeSession, number: int, path: str, mode: str, objects: dict[str, str], run_id: str = "") -> None:
    """A commit that noted objects with these ETags; an empty one means that the object has ended."""
    at = START + dt.timedelta(hours=number)
    row = LedgerRow(
        run_id=run_id or f"run-{number}",
        run_at=at,
        stream="sales",
        source_glob="",
        destination_table=str(TABLE),
        partition_columns="region,date",
        load_partition=path,
        mode=mode,
        status="committed",
        started_at=at,
        finished_at=at,
    )
    with lake.transaction():
        snapshot = lake.current_snapshot() + 1
        rows = [
            (row.run_id, row.stream, path, uri, etag, len(etag), at if etag else None, *[None] * 5)
            for uri, etag in objects.items()
        ]
        row = dataclasses.replace(row, snapshot_id=snapshot)
        append_records(lake, {MANIFEST: rows, LEDGER: [ledger_values(row)]})


def flush_as_before(lake: LakeSession) -> None:
    """Flush the manifest as earlier versions did, without an order."""
    lake.rows(
        "SELECT rows_flushed FROM ducklake_flush_inlined_data(?, schema_name => 'main', table_name => 'ingest_files')",
        [lake.alias],
    )


@pytest.mark.more
@pytest.mark.parametrize("where", ["inlined", "merged", *soak(["flushed", "older", "whole"])])
@EACH_CATALOG
def test_the_newest_note_of_an_object_counts(world: World, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 10_000 if where == "inlined" else 1)
    monkeypatch.setattr(flush, "MOST_SMALL_FILES", 2)
    commits = [
        (PATHS[0], "index", {"a": "a1", "b": "b1", "c": "c1"}),
        (PATHS[1], "replace", {"x": "x1", "y": "y1"}),
        (PATHS[0], "repair", {"a": "a2", "b": ""}),
        (PATHS[1], "replace", {"x": "x2"}),
        (PATHS[0], "index", {"d": "d1"}),
        (PATHS[0], "repair", {"c": "c2"}),
    ]
    with DuckLake(world.config.lakes["test"]).open(create=True) as lake:
        create_ledger(lake)
        for number, (path, mode, objects) in enumerate(commits):
            commit(lake, number, path, mode, objects, "again" if number in (0, 5) else "")
            if where == "merged":
                flush.flush_ledger(lake)
            if where == "older" and number in (2, 4):
                flush_as_before(lake)
        if where == "older":
            assert known_objects(lake, LedgerScope(TABLE, [PATHS[0]], ("sales",)))["c"].etag == "c2"
        flush.flush_ledger(lake)
        if where in ("older", "merged"):
            ((file,),) = lake.rows("SELECT data_file FROM ducklake_list_files(?, 'ingest_files')", [lake.alias])
            rows = lake.rows(f"SELECT {', '.join(MANIFEST.order)} FROM read_parquet(?)", [file])
            assert [row[:3] for row in rows] == sorted(row[:3] for row in rows)
        if where == "whole":
            monkeypatch.setattr(ledger_relation, "MOST", 0)
        expected = {"a": "a2", "b": "", "c": "c2", "d": "d1", "x": "x2"}
        for paths in (None, list(PATHS)):
            found = known_objects(lake, LedgerScope(TABLE, paths, ("sales",)))
            assert {uri: known.etag for uri, known in found.items()} == expected
            assert found["b"].has_ended
        assert known_objects(lake, LedgerScope(TABLE, [PATHS[1]], ("sales",))).keys() == {"x"}
        assert known_objects(lake, LedgerScope(TABLE, streams=("other",))) == {}
        registered = registered_objects(lake, ["a", "b", "c", "d", "x", "z"])
        assert {uri: known.etag for uri, known in registered.items()} == {
            uri: etag for uri, etag in expected.items() if uri != "x"
        }
