"""The exported changes: each commit's once, none of a failed run, and the same as history says."""

import dataclasses
import datetime as dt
import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.plain_client import plain_client
from lake_assets.base.errors import CatalogError, ConfigError, StorageError
from lake_assets.ingest.outcome import Outcome
from lake_assets.lake.commit import exporter, strategy
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets.storage.store import Store
from lake_assets.upkeep.history.restore import Restoration
from lake_assets_tests.world import NW, SW, World, plan, sales

META = ["_change", "_snapshot", "_run_id", "_committed_at"]


def exporting(world: World, folder: Path | dict[str, Any], **more: Any) -> World:
    to = {"type": "local", "path": str(folder)} if isinstance(folder, Path) else folder
    world.options = world.options | {"deltas": {"to": to} | more}
    return world


@pytest.fixture
def local_export(local_world: World, tmp_path: Path) -> World:
    return exporting(local_world, tmp_path / "deltas")


def committed(world: World, text: str, *totals: float, **options: Any) -> int:
    """Land and ingest; the snapshot."""
    snapshot = world.commit(text, *totals, **options).snapshot_id
    assert snapshot is not None
    return snapshot


def visible(world: World) -> list[tuple[int, str]]:
    """Snapshot and URI of each file that a consumer sees, in order."""
    return world.query("SELECT snapshot_id, uri FROM lake.ingest_deltas ORDER BY snapshot_id, uri")


def read(world: World, uri: str) -> pa.Table:
    deltas = world.config.streams["sales"].deltas
    assert deltas is not None
    with Store(deltas.to).open(uri.removeprefix(f"{deltas.to.root}/")) as file:
        return pq.read_table(file)


def stored(world: World) -> set[str]:
    deltas = world.config.streams["sales"].deltas
    assert deltas is not None
    return {obj.uri for obj in Store(deltas.to).list(files="*.parquet")}


def exported(world: World) -> pa.Table:
    return pa.concat_tables(read(world, uri) for _, uri in visible(world))


def history(world: World) -> list[tuple[Any, ...]]:
    """What each snapshot changed, by the table that a plain client sees before and after it; in the order of `rows`."""
    runs = {row.snapshot_id: row.run_id for row in world.ledger()}
    found: list[tuple[Any, ...]] = []
    before: Counter[tuple[Any, ...]] = Counter()
    with world.reader() as client:
        client.execute("SET python_enable_replacements = false")
        for (number,) in client.execute("SELECT snapshot_id FROM ducklake_snapshots('lake') ORDER BY ALL").fetchall():
            try:
                table = client.execute(f"SELECT id, total, region, date FROM lake.sales AT (VERSION => {number})")
            except duckdb.CatalogException:
                continue  # there is no such table yet
            now = Counter(table.fetchall())
            for change, those in (("delete", before - now), ("insert", now - before)):
                found += [(number, change, *row, runs.get(number)) for row in those.elements()]
            before = now
    return sorted(found)


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    order = ["_snapshot", "_change", "id", "total", "region", "date", "_run_id"]
    return sorted(tuple(row[name] for name in order) for row in table.to_pylist())


def test_each_commit_exports_what_history_says(local_export: World) -> None:
    world = local_export
    committed(world, NW, 1, 2)
    committed(world, SW, 7)
    last = committed(world, NW, 1, 3, 3)
    assert committed(world, NW, 1, 3, 3, force=True) > last  # changes nothing
    assert max(snapshot for snapshot, _ in visible(world)) == last
    world.options = world.options | {"on_empty": "clear"}
    world.unland(SW)
    world.ingest(SW)

    table = exported(world)

    assert table.column_names == ["id", "total", "region", "date", *META]
    assert rows(table) == history(world)
    assert [list(read(world, uri)["_change"].to_pylist()) for _, uri in visible(world)] == [
        ["insert", "insert"],
        ["insert"],
        ["delete", "insert", "insert"],
        ["delete"],
    ]
    # The direct strategy gives the snapshot the time that its export has.
    times = dict(world.query("SELECT snapshot_id, snapshot_time FROM ducklake_snapshots('lake')"))
    assert {times[row["_snapshot"]] - row["_committed_at"] for row in table.to_pylist()} == {dt.timedelta(0)}
    assert stored(world) == {uri for _, uri in visible(world)}
    names = [uri.rpartition("/")[2] for _, uri in visible(world)]
    assert names == sorted(names)
    assert world.query("SELECT rows_inserted, rows_deleted FROM lake.ingest_deltas ORDER BY snapshot_id") == [
        (2, 0),
        (1, 0),
        (2, 1),
        (0, 1),
    ]


@pytest.mark.more
def test_an_encrypted_lake_exports_by_permission_only_also_what_a_restore_changes(
    local_world: World, tmp_path: Path
) -> None:
    local_world.lake_options = {"attach_options": {"encrypted": True}}
    exporting(local_world, tmp_path / "deltas")
    with pytest.raises(ValueError, match="plaintext: true"):
        _ = local_world.config
    exporting(local_world, tmp_path / "deltas", plaintext=True)
    first = committed(local_world, NW, 1, 2)
    committed(local_world, NW, 1, 3)
    last = Restoration(local_world.stream, local_world.partition(NW), first).run().row

    assert last is not None
    (uri,) = (uri for snapshot, uri in visible(local_world) if snapshot == last.snapshot_id)
    assert read(local_world, uri).select(["_change", "total"]).to_pylist() == [
        {"_change": "delete", "total": 3.0},
        {"_change": "insert", "total": 2.0},
    ]
    assert rows(exported(local_world)) == history(local_world)


def test_rows_that_another_client_deleted_are_not_exported_as_removed(local_export: World) -> None:
    committed(local_export, NW, 1, 2, 3)
    local_export.execute("DELETE FROM lake.sales WHERE total = 2")
    last = committed(local_export, NW, 1, 4)

    (uri,) = (uri for snapshot, uri in visible(local_export) if snapshot == last)
    assert sorted(read(local_export, uri).select(["_change", "total"]).to_pylist(), key=str) == [
        {"_change": "delete", "total": 3.0},
        {"_change": "insert", "total": 4.0},
    ]


@pytest.mark.more
def test_a_table_that_was_made_again_exports_nothing_beside_the_changes_of_the_one_before(local_export: World) -> None:
    local_export.options = local_export.options | {"mode": "append"}
    last = committed(local_export, NW, 1, 2)
    before = visible(local_export), stored(local_export)
    local_export.execute("DROP TABLE lake.sales")

    partition = local_export.partition(NW)
    for run in (lambda: plan(local_export.stream, partition), lambda: local_export.ingest(NW)):
        with pytest.raises(CatalogError, match=rf"snapshot {last} was dropped or renamed, so consumers") as raised:
            run()

    assert f"begin at snapshot {last + 1} with an empty copy" in str(raised.value)
    assert (visible(local_export), stored(local_export)) == before
    assert local_export.totals() == []
    with plain_client(local_export.config.lakes["test"], read_only=False) as client:
        client.execute("USE lake")
        client.execute(str(raised.value).split("`")[1])
    for text, totals in ((NW, [1, 2]), (SW, [3])):
        local_export.commit(text, *totals)
    assert min(snapshot for snapshot, _ in visible(local_export)) > last
    assert sorted(exported(local_export)["total"].to_pylist()) == local_export.totals() == [1, 2, 3]


@pytest.mark.more
@pytest.mark.parametrize("by", [replace_directly, replace_by_extension])
def test_both_strategies_refuse_a_delta_of_another_snapshot(local_export: World, by: Any) -> None:
    """Without this check, a writer without the lock would make a wrong delta visible."""
    committed(local_export, NW, 1)
    original = exporter.Exports.prepare
    tries: list[int] = []

    def late(self: exporter.Exports) -> Any:
        changes = original(self)
        tries.extend(change.delta.snapshot_id for change in changes if change.delta is not None)
        if len(tries) == 1:
            with plain_client(local_export.config.lakes["test"], read_only=False) as client:
                client.execute("INSERT INTO lake.sales VALUES (9, 9.0, 'SW', DATE '2026-02-11')")
        return changes

    with (
        mock.patch.object(exporter.Exports, "prepare", late),
        mock.patch.object(strategy, "STRATEGIES", (by,)),
    ):
        last = committed(local_export, NW, 2)

    assert tries == [last - 1, last]
    assert set(exported(local_export)["_snapshot"].to_pylist()) <= {snapshot for snapshot, _ in visible(local_export)}
    assert rows(exported(local_export)) == [row for row in history(local_export) if row[3] != 9]
    assert stored(local_export) == {uri for _, uri in visible(local_export)}


def metadata_of(result: Outcome) -> dict[str, Any]:
    """What Dagster shows of a materialization."""
    from lake_assets.orchestration.metadata import materialization_metadata  # noqa: PLC0415 - Dagster takes long to import

    return {name: value.value for name, value in materialization_metadata(result).items()}


@pytest.mark.more
def test_plan_result_and_dagsters_metadata_name_the_exported_changes(local_export: World) -> None:
    local_export.land(NW, sales(1, 2))
    partition, to = local_export.partition(NW), local_export.config.streams["sales"].deltas
    assert to is not None
    assert plan(local_export.stream, partition).deltas == to.to.root
    local_export.ingest(NW)
    assert plan(local_export.stream, partition).deltas is None
    local_export.land(NW, sales(1, 3, 4))

    result = local_export.ingest(NW)

    assert result.deltas is not None
    assert [(file.rows_inserted, file.rows_deleted) for file in result.deltas] == [(2, 1)]
    figures = {name: value for name, value in metadata_of(result).items() if name.startswith("delta_")}
    assert figures == {"delta_files": 1, "delta_rows_inserted": 2, "delta_rows_deleted": 1}
    again = local_export.ingest(NW, force=True)
    assert again.deltas == []
    assert metadata_of(again)["delta_files"] == 0
    assert local_export.ingest(NW).deltas is None
    assert result.row.snapshot_id is not None
    restored = Restoration(local_export.stream, partition, result.row.snapshot_id - 1).run()
    assert restored.deltas is not None
    assert [(file.rows_inserted, file.rows_deleted) for file in restored.deltas] == [(1, 2)]
    assert rows(exported(local_export)) == history(local_export)


def test_the_metadata_of_a_commit_says_how_to_take_it_back(local_world: World) -> None:
    """The snapshot right before it has the rows from before, also if other partitions were committed meanwhile."""
    committed(local_world, NW, 1, 2)
    first = local_world.ledger(NW)[0]
    committed(local_world, SW, 7)
    local_world.land(NW, sales(3))
    result = local_world.ingest(NW)

    assert result.row.snapshot_id is not None
    before = result.row.snapshot_id - 1
    command = f"lake-assets restore sales --partition {NW} --snapshot {before} --hold"
    assert f"`{command}`, or the job `restore_sales`, puts the 2 rows from before back" in metadata_of(result)["undo"]
    Restoration(local_world.stream, local_world.partition(NW), before).run()
    assert local_world.totals(NW) == [1, 2]
    new = dataclasses.replace(result, row=first)
    assert "undo" not in metadata_of(new)


def test_the_files_of_a_failed_run_are_never_visible_and_deleted_later(local_export: World) -> None:
    committed(local_export, NW, 1)
    local_export.land(NW, sales(2))
    with (
        mock.patch.object(strategy, "_replace", side_effect=CatalogError("it fails")),
        pytest.raises(CatalogError, match="it fails"),
    ):
        local_export.ingest(NW)
    assert len(visible(local_export)) == 1
    orphans = stored(local_export) - {uri for _, uri in visible(local_export)}

    last = committed(local_export, NW, 2)
    assert [snapshot for snapshot, _ in visible(local_export)][-1] == last
    assert rows(exported(local_export)) == history(local_export)
    assert local_export.tidy().deltas == ()  # an active run may commit it
    assert {delta.uri for delta in local_export.tidy(4).deltas} == orphans != set()
    assert stored(local_export) == {uri for _, uri in visible(local_export)}


def test_maintenance_deletes_old_files_and_no_others_and_lists_the_newest(local_world: World, tmp_path: Path) -> None:
    world, folder = exporting(local_world, tmp_path / "deltas", latest=True), tmp_path / "deltas"
    retention, latest = {"maintenance": {"delta_retention": 30}}, folder / "_latest.json"
    committed(world, NW, 1)
    committed(world, SW, 2)
    both = {uri for _, uri in visible(world)}
    others = [folder / "20260101T000000.000000Z-000000000001-00000000-00000000-000.parquet", folder / "mine.parquet"]
    for other in others:
        other.write_bytes(b"of another lake, or of somebody else")
    latest.unlink()  # as after a kill between a commit and the list

    assert world.tidy(3000).deltas == ()
    assert {file["uri"] for file in json.loads(latest.read_text())["files"]} == both
    world.lake_options = retention
    assert world.tidy(29).deltas == ()
    assert {delta.uri for delta in world.tidy(31, dry_run=True).deltas} == {uri for _, uri in visible(world)} == both

    result = world.tidy(31)

    assert {delta.uri for delta in result.deltas} == both
    assert all(delta.size > 0 for delta in result.deltas)
    assert visible(world) == []
    assert stored(world) == {str(other) for other in others}
    assert json.loads(latest.read_text())["files"] == []
    assert world.totals() == [1, 2]


def test_a_storage_that_refuses_the_export_fails_the_run_and_names_it(local_export: World, tmp_path: Path) -> None:
    (tmp_path / "deltas").write_text("a file, not a folder")
    local_export.land(NW, sales(1))

    with pytest.raises(StorageError, match="deltas"):
        local_export.ingest(NW)
    assert local_export.query("SELECT count(*) FROM lake.sales") == [(0,)]


@pytest.mark.more
def test_latest_lists_the_newest_files_and_a_commit_succeeds_without_it(
    local_world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world, file = exporting(local_world, tmp_path / "deltas", latest=True), tmp_path / "deltas" / "_latest.json"
    committed(world, NW, 1)
    with mock.patch.object(exporter, "LISTED", 2):
        committed(world, NW, 2)
        last = committed(world, NW, 3)

    latest = json.loads(file.read_text())
    assert latest["stream"] == "sales"
    assert latest["snapshot_id"] == last
    assert [(file["snapshot_id"], file["uri"]) for file in latest["files"]] == visible(world)[-2:]
    assert dt.datetime.fromisoformat(latest["files"][-1]["committed_at"]).tzinfo is not None

    file.unlink()
    (file / "folder").mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        committed(world, NW, 4)
    assert "_latest.json of the deltas of sales was not written" in caplog.text
    assert len(visible(world)) == 4


@pytest.mark.more
def test_large_exports_are_several_files(local_export: World) -> None:
    local_export.options = local_export.options | {"target_file_size": "1MiB"}
    with mock.patch("lake_assets.spark.task.write.GROUP_ROWS", 100_000):
        committed(local_export, NW, *(number * 1.1 for number in range(400_000)))

    files = visible(local_export)
    assert len(files) > 1
    assert exported(local_export).num_rows == 400_000


@pytest.mark.parametrize(
    ("mode", "options", "said"),
    [
        ("replace", {"to": "{storage}/deltas"}, "within the storage of lake test"),
        ("replace", {"to": "{source}"}, "within the landing zone of stream sales"),
        ("replace", {"to": {"type": "s3", "bucket": "deltas", "anonymous": True}}, "is written to: remove anonymous"),
        ("replace", {"to": "x", "compression": "lz4"}, "compression"),
        ("replace", {"to": "x", "format": "csv"}, "format"),
        ("index", {"to": "x"}, "old rows of a file that changed or vanished are gone"),
    ],
)
def test_what_cannot_be_exported_is_refused(local_world: World, mode: str, options: dict[str, Any], said: str) -> None:
    folders = {"storage": local_world.storage["path"], "source": local_world.source["path"]}
    to = options["to"]
    deltas = options | ({"to": to.format(**folders)} if isinstance(to, str) else {})
    local_world.options = {"mode": mode, "deltas": deltas}

    with pytest.raises((ConfigError, ValueError), match=said):
        _ = local_world.config
