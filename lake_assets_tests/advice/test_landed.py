"""Advice of errors about landed objects and the table that they go into."""

import os
import shutil
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import LakeAssetsError
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.ingest.landed_footers import inferred_columns
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.streams.stream import Listed
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.maintenance.cleaning import forget
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets_tests.advice.cases import Case, Cases, Steps, follow
from lake_assets_tests.advice.landing import change, parquet, text
from lake_assets_tests.upkeep.checks.checked import check
from lake_assets_tests.world import NW, STREAM, SW, World, plan, sales

case = Cases()
large = Cases(pytest.mark.more)


# What has landed.


@case
def an_empty_object_is_removed(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    text(local_world, "", "b.parquet")
    yield "manifest.py: remove it"
    local_world.unland(NW, "b.parquet")
    return [1]


@case
def a_damaged_object_is_removed(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    text(local_world, "damaged", "b.parquet")
    yield "parquet_files.py: remove it"
    local_world.unland(NW, "b.parquet")
    local_world.options = {"mode": "index", "destination": {"table": "registered"}}
    local_world.ingest(NW)
    text(local_world, "damaged", "b.parquet")
    yield "candidates.py: remove it"
    local_world.unland(NW, "b.parquet")
    local_world.ingest(NW)
    assert local_world.query("SELECT total FROM lake.registered") == [(1,)]
    local_world.options = {}
    return [1]


@case
def a_damaged_object_is_landed_again(local_world: World) -> Steps:
    text(local_world, b"PAR1" + b"x" * 50 + b"PAR1", "batch_1.parquet")
    yield "let its writer land it again"
    local_world.land(NW, sales(1))
    return [1]


@case
def a_partition_without_objects_is_kept(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    local_world.unland(NW)
    yield "set on_empty to "
    local_world.options = {"on_empty": "keep"}
    return [1]


@case
def a_partition_without_objects_is_cleared(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.commit(NW, 1)
    local_world.unland(NW)
    yield "set on_empty to "
    local_world.options = {"on_empty": "clear"}
    return [5]


@case
def a_partition_that_is_misspelled_is_written_as_it_landed(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    yield partial(local_world.ingest, "region=nw,date=2026-02-11"), "Correct the partition's name"
    yield partial(local_world.ingest, "region=NW,date=2025-02-11"), "move `start` back"
    local_world.ingest(NW)
    return [1]


# Partition columns in the rows.

IN_ROWS = {"region": {"in": "rows"}, "date": {"type": "date", "start": "2026-01-01"}}


def date_folder(local_world: World, rows: pa.Table) -> None:
    """Land rows of several regions."""
    with local_world.landing.create("date=2026-02-11/a.parquet") as file:
        pq.write_table(rows, file)


@case
def a_column_that_selects_rows_is_landed(local_world: World) -> Steps:
    local_world.options = {"partitions": IN_ROWS}
    date_folder(local_world, sales(1))
    yield "land it again with that column"
    date_folder(local_world, sales(1, 2).append_column("region", pa.array(["NW", "SW"])))
    return [1]


@case
def a_column_that_selects_rows_is_landed_as_a_text(local_world: World) -> Steps:
    local_world.options = {"partitions": IN_ROWS}
    date_folder(local_world, sales(1, 2).append_column("region", pa.array([[1], [2]])))
    yield "land the column as text"
    date_folder(local_world, sales(1, 2).append_column("region", pa.array(["NW", "SW"])))
    return [1]


# Several streams.


def group_of(world: World) -> World:
    """Give a world a stream that is released together with its own; returns a world of that one's landing zone."""
    landing = {"type": "local", "path": world.source["path"] + "/returns"}
    declared = STREAM | {"source": landing, "destination": {"table": "returns"}}
    world.source = {"type": "local", "path": world.source["path"] + "/sales"}
    world.sections = {"streams": {"sales": world.document["streams"]["sales"], "returns": declared}}
    world.sections["release"] = {"daily": ["sales", "returns"]}
    return World(world.catalog, world.storage, landing, world.sessions)


@case
def a_stream_that_holds_another_back_is_corrected(local_world: World) -> Steps:
    returns = group_of(local_world)
    returns.land(NW, b"no Parquet", "a.parquet")
    local_world.land(NW, sales(1))
    yield ", and run it again"
    returns.land(NW, sales(9), "a.parquet")
    return [1]


@case
def streams_whose_tables_cannot_change_together_are_released_apart(local_world: World) -> Steps:
    returns = group_of(local_world)
    local_world.land(NW, sales(1))
    returns.land(NW, sales(9))
    local_world.ingest(NW)
    change(local_world, "ALTER TABLE returns SET PARTITIONED BY (year(date))")
    local_world.land(NW, sales(2))
    returns.land(NW, sales(20))
    yield "remove their release group"
    del local_world.sections["release"]
    return [2]


# Modes.


@case
def a_changed_object_replaces_the_partition_where_rows_are_appended(local_world: World) -> Steps:
    local_world.options = {"mode": "append"}
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2))
    yield "use --force | set on_changed: refresh"
    local_world.ingest(NW, force=True)
    assert local_world.totals() == [2]
    local_world.land(NW, sales(3))
    local_world.options["on_changed"] = "refresh"
    return [3]


@case
def rows_whose_objects_were_taken_away_are_given_up(local_world: World) -> Steps:
    local_world.options = {"mode": "append", "after_load": "delete"}
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2), "b.parquet")
    yield partial(local_world.ingest, NW, force=True), "set after_load: keep, and ingest the partition with --force"
    local_world.options["after_load"] = "keep"
    local_world.ingest(NW, force=True)
    return [2]


@case
def what_lands_again_after_it_was_taken_away_gets_a_new_name(local_world: World) -> Steps:
    local_world.options = {"mode": "append", "after_load": "delete"}
    local_world.commit(NW, 1)
    again = Path(local_world.land(NW, sales(2, 3)))
    yield "land it under a new name"
    again.rename(again.with_name("b.parquet"))
    return [1, 2, 3]


@case
def an_upload_that_is_not_finished_is_renamed(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    part = Path(local_world.land(NW, b"total\n1.0\n", "a.csv.filepart"))
    yield "rename the object when it is complete | to read such objects"
    local_world.options["files"] = "*.filepart"
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.options = {"format": "csv", "destination": {"table": "renamed"}}
    part.rename(part.with_suffix(""))
    local_world.ingest(NW)
    return [1]


@case
def a_registered_object_that_has_changed_is_repaired(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2, 3))
    yield "run `lake-assets index "
    repair_indexed(local_world.stream)
    return [2, 3]


@case
def a_file_of_another_type_is_registered_with_that_of_the_table(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    parquet(local_world, id=[0], total=pa.array([1], pa.float32()))
    yield "land it with the table's type"
    local_world.land(NW, sales(1))
    return [1, 5]


@case
def a_file_that_duckdb_cannot_read_is_written_in_another_form(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.land(NW, sales(1), use_dictionary=False, column_encoding="BYTE_STREAM_SPLIT")
    yield "let its writer write it in another form"
    local_world.land(NW, sales(1))
    return [1]


@case
def a_file_whose_bounds_cannot_be_read_is_read_in_another_mode(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    monkeypatch.setattr("lake_assets.lake.commit.candidates.file_facts", Mock(side_effect=duckdb.Error("no bound")))
    yield "candidates.py: use mode: replace"
    local_world.options = {"mode": "replace"}
    return [1, 5]


@case
def a_file_of_another_type_is_rewritten(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    parquet(local_world, id=[0], total=pa.array([1], pa.float32()))
    yield "use mode: replace, which rewrites it"
    local_world.options = {"mode": "replace"}
    return [1, 5]


# The lake.


@case
def a_lake_that_does_not_exist_is_created_by_an_ingest(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    yield local_world.stream.partition(NW).read, "ingest a partition first"
    local_world.ingest(NW)
    right, local_world.catalog = local_world.catalog, local_world.catalog | {"path": f"{local_world.catalog['path']}s"}
    yield local_world.stream.partition(NW).read, "correct the config"
    local_world.catalog = right
    return [1]


@case
def a_table_that_does_not_exist_is_created_by_an_ingest(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    with local_world.stream.lake.open(create=True):
        pass
    yield local_world.stream.partition(NW).read, "ingest a partition first"
    local_world.ingest(NW)
    return [1]


@case
def a_lake_keeps_the_setting_that_it_was_made_with(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.lake_options = {"attach_options": {"encrypted": True}}
    local_world.land(NW, sales(1))
    yield "correct attach_options"
    local_world.lake_options = {}
    return [1, 5]


@case
def a_snapshot_that_lacks_the_partition_is_chosen_again(local_world: World) -> Steps:
    before = local_world.commit(SW, 5).snapshot_id
    first = local_world.commit(NW, 1).snapshot_id
    local_world.commit(NW, 2)
    assert before is not None
    assert first is not None
    partition = local_world.stream.partition(NW)
    yield partial(partition.restore, before), "` lists its snapshots"
    assert first in [entry.snapshot for entry in partition.history()]
    yield partial(partition.restore, first + 99), "` lists the snapshots that can be read"
    partition.restore(first)
    local_world.options = {"on_empty": "keep"}
    yield partition.release, "nothing was changed"
    return [1, 5]


@case
def a_partition_that_is_held_is_released(local_world: World) -> Steps:
    first = local_world.commit(NW, 1).snapshot_id
    local_world.commit(NW, 2)
    assert first is not None
    partition = local_world.stream.partition(NW)
    partition.restore(first, hold=True)
    decided = plan(local_world.stream, local_world.partition(NW)).decision
    assert f"held until `lake-assets restore sales --partition {NW} --release`" in str(decided)
    assert local_world.totals() == [1]
    yield partial(forget, local_world.stream, [local_world.partition(NW)]), "remove them first"
    partition.release()
    local_world.ingest(NW)
    return [2]


@case
def a_type_that_no_file_can_be_registered_for_is_changed(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    change(local_world, "ALTER TABLE sales ADD COLUMN big HUGEINT")
    parquet(local_world, id=[0], total=[1.0], big=[1])
    yield "change the column's type"
    change(local_world, "ALTER TABLE sales DROP COLUMN big")
    change(local_world, "ALTER TABLE sales ADD COLUMN big BIGINT")
    return [1, 5]


@case
def a_lost_data_file_is_written_again(local_world: World) -> Steps:
    local_world.options = {"mode": "append"}
    for name, total in (("a.parquet", 1), ("b.parquet", 2)):
        local_world.commit(NW, total, name=name)
    lost = Path(local_world.live_files()[0])
    away = lost.rename(lost.with_name("away"))

    def compacted() -> None:
        for done in compact(local_world.stream, 2, local_world.sessions):
            raise LakeAssetsError("the partition was left:", done.why or "")

    yield compacted, "compaction.py: restore it"
    away.rename(lost)
    assert local_world.totals() == [1, 2]
    lost.unlink()
    yield compacted, "ingest the partition again with --force"
    local_world.ingest(NW, force=True)
    return [1, 2]


@case
def a_partition_that_the_ledger_lacks_needs_no_removal(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    yield partial(forget, local_world.stream, [local_world.partition(NW)]), "there is nothing to forget"
    return [5]


# Further: the selection, other clients, and what the landing zone is.


@case
def a_path_is_written_as_a_selection(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    yield partial(local_world.stream.ingest, "region=NW/date=2026-02-11"), NW
    yield partial(local_world.stream.ingest, "region=NW,date=2026-02-12..2026-02-11"), "date=2026-02-11..2026-02-12"
    local_world.ingest(NW)
    return [1]


@case
def a_source_that_does_not_exist_is_created(local_world: World) -> Steps:
    yield "create it"
    local_world.land(NW, sales(1))
    return [1]


@case
def a_link_that_leads_back_to_itself_is_removed(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    link = Path(local_world.source["path"]) / "region=NW/date=2026-02-11/b.parquet"
    link.symlink_to(link)
    yield "storage_errors.py: remove the link | storage_errors.py: correct it"
    link.unlink()
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    link.symlink_to("batch_1.parquet")
    return [1, 1]


@case
def an_old_timestamp_is_rewritten(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    rows = sales(1).append_column("at", pa.array([0], pa.timestamp("us")))
    local_world.land(NW, rows, use_deprecated_int96_timestamps=True)
    yield "use mode: replace"
    local_world.options = {"mode": "replace"}
    return [1]


@case
def rows_of_a_partition_go_before_it_is_forgotten(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.commit(NW, 1)
    local_world.unland(NW)
    yield partial(forget, local_world.stream, [local_world.partition(NW)]), "`on_empty: clear` removes rows"
    local_world.options = {"on_empty": "clear"}
    local_world.ingest(NW)
    forget(local_world.stream, [local_world.partition(NW)])
    return [5]


@case
def rows_are_compared_by_keys_that_name_one(local_world: World) -> Steps:
    first = local_world.commit(NW, 1, 1).snapshot_id
    local_world.commit(NW, 2, 3)
    assert first is not None
    compare = local_world.stream.partition(NW).diff
    yield partial(compare, first, keys=["day"]), "name one or more of "
    yield partial(compare, first, keys=["total"]), "name more columns with --key"
    assert compare(first, keys=["total", "id"]).rows == 2
    return [2, 3]


@case
def a_column_with_a_name_of_the_deltas_is_renamed(local_world: World) -> Steps:
    columns = {"id": [0], "total": [5.0], "_change": [1]}
    local_world.land(SW, pa.table(columns))
    local_world.ingest(SW)
    local_world.options = {"deltas": {"to": {"type": "local", "path": local_world.source["path"] + "-deltas"}}}
    parquet(local_world, id=[0], total=[1.0], _change=[1])
    yield "exporter.py: rename it"
    change(local_world, "ALTER TABLE sales RENAME COLUMN _change TO changed")
    parquet(local_world, id=[0], total=[1.0], changed=[1])
    return [1, 5]


@case
def a_changed_object_is_restored_where_rows_are_appended(local_world: World) -> Steps:
    local_world.options = {"mode": "append"}
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2))
    yield "compare_objects.py: restore it | land its content under a new name"
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.land(NW, sales(2), "b.parquet")
    return [1, 2]


@case
def rows_whose_objects_were_taken_away_are_kept_until_these_are_put_back(local_world: World) -> Steps:
    local_world.options = {"mode": "append", "after_load": "delete"}
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2), "b.parquet")
    yield partial(local_world.ingest, NW, force=True), "put them back"
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    assert local_world.totals() == [1, 2]
    local_world.options["on_changed"] = "refresh"
    again = Path(local_world.land(NW, sales(3)))
    yield "land what is there now under new names"
    again.rename(again.with_name("c.parquet"))
    return [1, 2, 3]


@case
def a_registered_object_that_has_changed_is_restored_with_its_time(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    uri = Path(local_world.land(NW, sales(1)).removeprefix("file://"))
    content, times = uri.read_bytes(), uri.stat()
    local_world.ingest(NW)
    local_world.land(NW, sales(2, 3))
    yield "restore the registered object with its time"
    uri.write_bytes(content)
    os.utime(uri, ns=(times.st_atime_ns, times.st_mtime_ns))
    return [1]


@case
def the_folder_of_a_table_with_a_log_is_read_by_its_own_reader_or_is_none_any_more(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    log = Path(local_world.source["path"], "_delta_log")
    log.mkdir()
    (log / "00000000000000000000.json").write_text("{}", encoding="utf-8")
    yield "land the rows in another folder"
    local_world.source = local_world.source | {"path": f"{local_world.source['path']}_read"}
    local_world.land(NW, sales(2))
    local_world.ingest(NW)
    assert local_world.totals() == [2]
    local_world.source = local_world.source | {"path": str(log.parent)}
    yield "remove the folder of its log"
    shutil.rmtree(log)
    return [1]


# Ingests.


@case
def an_archive_with_another_object_of_the_name_loses_it(
    local_world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Steps:
    archive = tmp_path / "archive"
    local_world.options = {"mode": "append", "after_load": {"move": str(archive)}}
    taken = archive / "region=NW/date=2026-02-11/batch_1.parquet"
    taken.parent.mkdir(parents=True)
    taken.write_bytes(b"another")

    def warned() -> None:
        local_world.commit(NW, 1)
        raise LakeAssetsError("an object was left:", caplog.messages[-1])

    yield warned, "rename the one in the archive"
    taken.rename(taken.with_name("other"))
    local_world.tidy()
    assert taken.exists()
    return [1]


@case
def an_object_that_lands_again_after_it_was_removed_gets_another_name(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    local_world.commit(NW, 1)
    local_world.unland(NW)
    repair_indexed(local_world.stream)
    again = Path(local_world.land(NW, sales(2)))
    yield "land it under another name"
    again.rename(again.with_name("b.parquet"))
    return [2, 5]


@case
def an_object_without_rows_that_changes_gets_another_name(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    local_world.land(NW, sales())
    local_world.ingest(NW)
    local_world.land(NW, sales(2))
    yield "ingest the partition once with mode: replace, which reads it again"
    local_world.options = {"mode": "replace"}
    local_world.ingest(NW)
    local_world.options = {"mode": "index"}
    return [2, 5]


@case
def an_object_that_mode_replace_has_read_and_that_changes_is_read_again(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    local_world.options = {"mode": "index"}
    local_world.land(NW, sales(1, 2))
    yield "ingest the partition once with mode: replace, which reads it again"
    local_world.options = {"mode": "replace"}
    local_world.ingest(NW)
    local_world.options = {"mode": "index"}
    return [1, 2]


@case
def a_partition_that_is_held_without_rows_is_released_before_it_is_forgotten(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.commit(NW, 1)
    local_world.unland(NW)
    local_world.options = {"on_empty": "clear"}
    empty = local_world.ingest(NW).row.snapshot_id
    local_world.commit(NW, 2)
    assert empty is not None
    partition = local_world.stream.partition(NW)
    partition.restore(empty, hold=True)
    local_world.unland(NW)
    yield partial(forget, local_world.stream, [local_world.partition(NW)]), "release it first with `lake-assets restore"
    partition.release()
    forget(local_world.stream, [local_world.partition(NW)])
    return [5]


@case
def objects_of_a_partition_go_before_it_is_forgotten(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.land(NW, sales())
    local_world.options = {"on_empty": "keep"}
    local_world.ingest(NW)
    yield partial(forget, local_world.stream, [local_world.partition(NW)]), "remove them first"
    local_world.unland(NW)
    forget(local_world.stream, [local_world.partition(NW)])
    return [5]


@case
def columns_are_inferred_from_what_has_landed(local_world: World) -> Steps:
    Path(local_world.source["path"]).mkdir()
    yield partial(inferred_columns, local_world.stream), "land an object"
    local_world.land(NW, sales(1))
    assert list(inferred_columns(local_world.stream)) == ["id", "total"]
    right, local_world.source = local_world.source, local_world.source | {"path": f"{local_world.source['path']}s"}
    Path(local_world.source["path"]).mkdir()
    yield partial(inferred_columns, local_world.stream), "correct the stream's source"
    local_world.source = right
    assert list(inferred_columns(local_world.stream)) == ["id", "total"]
    local_world.ingest(NW)
    return [1]


@case
def a_partition_whose_writer_has_not_finished_is_ingested_when_it_has(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    local_world.land(NW, sales(0))
    refuse, numbers = PartitionRun.refuse_moved_source, iter([1, 2, 3])

    def late(run: PartitionRun, listed: Listed) -> None:
        local_world.land(NW, sales(next(numbers)))  # the object has been read
        refuse(run, listed)

    with monkeypatch.context() as patch:
        patch.setattr(PartitionRun, "refuse_moved_source", late)
        yield "run it again when their writer has finished"
    return [3]


@case
def a_plan_of_what_has_changed_since_is_made_again(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    partition = local_world.partition(NW)

    def planned() -> dict[str, str]:
        return {partition.path: plan(local_world.stream, partition).fingerprint}

    before = planned()
    local_world.land(NW, sales(2), "b.parquet")
    yield partial(local_world.ingest, NW, planned=before), "make a new plan: `lake-assets plan "
    local_world.ingest(NW, planned=planned())
    return [1, 2]


@case
def rows_that_have_left_a_partition_are_landed_again(local_world: World) -> Steps:
    local_world.options = {"partitions": IN_ROWS}
    date_folder(local_world, sales(1, 2).append_column("region", pa.array(["NW", "SW"])))
    local_world.ingest(NW)
    date_folder(local_world, sales(2).append_column("region", pa.array(["SW"])))
    yield "Land its rows again, "
    date_folder(local_world, sales(1, 2).append_column("region", pa.array(["NW", "SW"])))
    return [1]


@case
def a_registered_object_with_names_in_another_case_gets_another_name(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    registered = Path(local_world.land(NW, sales(1)))
    local_world.ingest(NW)
    content, times = registered.read_bytes(), registered.stat()
    changed = Path(local_world.land(NW, sales(2).rename_columns(["id", "TOTAL"])))

    def repaired() -> None:
        for error in repair_indexed(local_world.stream).errors:
            raise error

    yield repaired, "restore the registered object"
    registered.write_bytes(content)
    os.utime(registered, ns=(times.st_atime_ns, times.st_mtime_ns))
    repaired()
    assert local_world.totals() == [1, 5]
    changed = Path(local_world.land(NW, sales(2).rename_columns(["id", "TOTAL"])))
    yield repaired, "land its content under another name | verify.py: remove it | run this again, and then `lake-assets"
    changed.rename(changed.with_name("b.parquet"))
    repaired()
    assert all(outcome.error is None for outcome in index_all(local_world.stream))
    return [2, 5]


# Checks.


@case
def a_check_whose_sql_fails_is_corrected(local_world: World) -> Steps:
    local_world.options = {"checks": {"sql": {"positive": "SELECT * FROM refreshed WHERE amount <= 0"}}}
    local_world.commit(NW, 1)
    checked = partial(check, local_world, "positive", Scope(partitions=(local_world.partition(NW),)))
    yield checked, "correct its SQL"
    local_world.options = {"checks": {"sql": {"positive": "SELECT * FROM refreshed WHERE total <= 0"}}}
    assert check(local_world, "positive", Scope(partitions=(local_world.partition(NW),))).passed
    return [1]


@pytest.mark.parametrize("steps", [*case, *large])
def test_advice_that_is_followed_ends_in_the_right_rows(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
