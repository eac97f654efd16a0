"""Advice of errors about landed objects and the table that they go into."""

import gzip
import io
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lake_assets import connect
from lake_assets.checks.result import Scope
from lake_assets.errors import LakeAssetsError
from lake_assets.ingest.forget import forget
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.ingest.landed_footers import inferred_columns
from lake_assets.maintenance.compaction import compact
from lake_assets.parquet.landed_text import LandedText
from lake_assets_tests.advice.cases import Case, Steps, follow, named
from lake_assets_tests.checks.checked import check
from lake_assets_tests.faults.outage import noise, small_disk
from lake_assets_tests.tiers import more
from lake_assets_tests.values.annotated import with_keys
from lake_assets_tests.world import NW, STREAM, SW, World, plan, sales

CASES: list[Case] = []
LARGE: list[Case] = []


def change(world: World, statement: str) -> None:
    """Change the lake by a statement, as a user does."""
    with connect(world.config, read_only=False) as connection:
        connection.execute(statement)


def of_avro(kind: Any, value: Any) -> bytes:
    """Return a file of Avro with a value."""
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(kind), [value])
    return sink.getvalue()


def in_orc(**columns: Any) -> bytes:
    """Return a file of ORC with these columns."""
    sink = io.BytesIO()
    orc.write_table(pa.table(columns), sink)
    return sink.getvalue()


def in_polars(rows: pl.DataFrame) -> bytes:
    """Return a file of Parquet as Polars writes it."""
    sink = io.BytesIO()
    rows.write_parquet(sink)
    return sink.getvalue()


def case(steps: Case) -> Case:
    CASES.append(steps)
    return steps


def large(steps: Case) -> Case:
    LARGE.append(steps)
    return steps


def parquet(world: World, name: str = "batch_1.parquet", **columns: Any) -> None:
    """Land an object of NW with these columns."""
    world.land(NW, pa.table(columns), name)


def text(world: World, rows: str | bytes, name: str) -> None:
    """Land an object of NW with this text."""
    world.land(NW, rows.encode() if isinstance(rows, str) else rows, name)


# The columns of a file.


@case
def a_column_that_must_have_a_value_gets_a_default(local_world: World) -> Steps:
    local_world.options = {"columns": {"total": {"type": "double", "nullable": False}}}
    parquet(local_world, id=[0])
    yield "or declare a default"
    parquet(local_world, id=[0], total=pa.array([None], pa.float64()))
    yield "or declare a default"
    local_world.options = {"columns": {"total": {"type": "double", "nullable": False, "default": 7}}}
    return [7]


@case
def a_column_that_must_have_a_value_is_landed_again_with_it(local_world: World) -> Steps:
    local_world.options = {"columns": {"total": {"type": "double", "nullable": False}}}
    parquet(local_world, id=[0])
    yield "land it again with the column"
    parquet(local_world, id=[0], total=[2.0])
    return [2]


@case
def an_unknown_column_and_a_wider_one_let_the_table_evolve(local_world: World) -> Steps:
    parquet(local_world, id=pa.array([0], pa.int32()), total=[1.0])
    local_world.ingest(NW)
    parquet(local_world, id=[2**40], total=[1.0], note=["a"])
    yield "schema_policy: evolve"
    local_world.options = {"schema_policy": "evolve"}
    return [1]


def zstd(rows: bytes, window: int) -> bytes:
    """A frame of one block, whose reader is to keep 2 to the power of `window` bytes."""
    return b"\x28\xb5\x2f\xfd" + bytes([0, (window - 10) << 3]) + (len(rows) << 3 | 1).to_bytes(3, "little") + rows


@case
def a_window_that_no_reader_has_is_smaller(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, zstd(b"id,total\n0,1\n", 31), "a.csv.zst")
    yield "let its writer compress it with a window of 128 MiB at most (zstd --long=27)"
    text(local_world, zstd(b"id,total\n0,1\n", 27), "a.csv.zst")
    return [1]


@case
def an_unknown_column_is_landed_again_without_it(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    parquet(local_world, id=[0], total=[1.0], note=["a"])
    yield "land it again with the table's columns"
    local_world.land(NW, sales(1))
    return [1, 5]


@case
def names_that_differ_by_case_are_renamed(local_world: World) -> Steps:
    parquet(local_world, total=[1.0], Total=[2.0])
    yield "rename one where it is written"
    parquet(local_world, total=[1.0], net=[2.0])
    return [1]


@case
def one_of_two_landed_columns_of_a_name_is_omitted(local_world: World) -> Steps:
    local_world.options = {"columns": {"total": {"from": "amount"}}}
    parquet(local_world, amount=[1.0], Total=[2.0])
    yield "omit one of them in `columns`"
    local_world.options = {"columns": {"amount": {"omit": True}}}
    return [2]


@case
def a_row_of_another_partition_is_landed_in_its_own(local_world: World) -> Steps:
    parquet(local_world, total=[1.0, 2.0], region=["NW", "SW"])
    yield "land the row in its own partition"
    parquet(local_world, total=[1.0], region=["NW"])
    local_world.land(SW, pa.table({"total": [2.0], "region": ["SW"]}))
    local_world.ingest(SW)
    return [1, 2]


@case
def a_partition_column_that_the_file_has_in_another_form_gets_another_name(local_world: World) -> Steps:
    parquet(local_world, total=[1.0], date=[20495])  # days, in a type that does not say so
    yield partial(local_world.ingest, NW), "such as date_of_path, and give the layout its folder: date={date_of_path}"
    columns = {"region": {}, "date_of_path": {"type": "date", "start": "2026-01-01"}}
    local_world.options = {"partitions": columns, "layout": "region={region}/date={date_of_path}"}
    local_world.ingest("region=NW,date_of_path=2026-02-11")
    assert local_world.query("SELECT date, date_of_path::VARCHAR FROM lake.sales") == [(20495, "2026-02-11")]
    return [1]


@case
def a_column_that_no_lake_holds_is_left_out(local_world: World) -> Steps:
    parquet(
        local_world,
        total=[1.0],
        x=pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "T", "V"), pa.array([1], pa.int32())),
    )
    yield "leave it out by omit: true in `columns`"
    local_world.options = {"columns": {"x": {"omit": True}}}
    return [1]


@case
def days_of_an_old_calendar_are_left_out(local_world: World) -> Steps:
    days = pa.array([[-200_000]], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    keys = {"org.apache.spark.version": "2.4.8"}
    local_world.land(NW, with_keys(pa.table({"total": [1.0], "x": days}), keys))
    yield "or leave the column out: omit: true in `columns`"
    local_world.options = {"columns": {"x": {"omit": True}}}
    return [1]


@case
def a_declared_type_is_that_of_the_table(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.options = {"columns": {"total": {"type": "integer"}}}
    local_world.land(NW, sales(1))
    yield "declare type: DOUBLE"
    local_world.options = {"columns": {"total": {"type": "DOUBLE"}}}
    return [1, 5]


@case
def a_declared_column_is_added_to_the_table(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.options = {"columns": {"note": {"type": "varchar"}}}
    parquet(local_world, id=[0], total=[1.0], note=["a"])
    statement = 'ALTER TABLE main.sales ADD COLUMN "note" VARCHAR'
    yield f"add it by {statement}"
    change(local_world, statement)
    return [1, 5]


@case
def a_declared_column_lets_the_table_evolve(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.options = {"columns": {"note": {"type": "varchar"}}}
    parquet(local_world, id=[0], total=[1.0], note=["a"])
    yield "set schema_policy: evolve"
    local_world.options |= {"schema_policy": "evolve"}
    return [1, 5]


@case
def a_partition_column_has_the_type_of_the_table(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.options = {"partitions": {"region": {}, "date": {}}}
    local_world.land(NW, sales(1))
    yield "correct the type of this partition column in the config"
    local_world.options = {}
    return [1, 5]


@case
def a_table_without_a_partition_column_is_left_to_others(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    change(local_world, "CREATE TABLE other (total DOUBLE)")
    local_world.options = {"destination": {"table": "other"}}
    local_world.land(NW, sales(1))
    yield "choose another table"
    local_world.options = {}
    return [1, 5]


@case
def a_column_of_the_file_and_one_of_the_stream_have_two_names(local_world: World) -> Steps:
    local_world.options = {"file_columns": {"uri": "uri"}}
    parquet(local_world, total=[1.0], uri=["a"])
    yield "give the stream's column another name"
    local_world.options = {"file_columns": {"landed_as": "uri"}}
    return [1]


@case
def a_column_of_the_path_has_a_type_that_holds_its_folders(local_world: World) -> Steps:
    layout = "region={region}/date={date}/hour={hour}"
    local_world.options = {"layout": layout, "path_columns": {"hour": "integer"}}
    local_world.land(NW, sales(1), "hour=noon/a.parquet")
    yield "correct the column's type in the config"
    local_world.options = {"layout": layout, "path_columns": {"hour": "string"}}
    return [1]


@case
def a_column_of_the_path_is_a_value_of_its_type_after_a_move(local_world: World) -> Steps:
    local_world.options = {"layout": "region={region}/date={date}/hour={hour}", "path_columns": {"hour": "integer"}}
    local_world.land(NW, sales(1), "hour=noon/a.parquet")
    yield "move the object"
    folder = Path(local_world.source["path"]) / "region=NW/date=2026-02-11"
    (folder / "hour=noon").rename(folder / "hour=12")
    return [1]


# What has landed.


@case
def an_empty_object_is_removed(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    text(local_world, "", "b.parquet")
    yield "remove it"
    local_world.unland(NW, "b.parquet")
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
    yield "or set on_empty to "
    local_world.options = {"on_empty": "keep"}
    return [1]


@case
def a_partition_without_objects_is_cleared(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.commit(NW, 1)
    local_world.unland(NW)
    yield "or set on_empty to "
    local_world.options = {"on_empty": "clear"}
    return [5]


@case
def a_partition_that_is_misspelled_is_written_as_it_landed(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    yield partial(local_world.ingest, "region=nw,date=2026-02-11"), "Correct the partition's name"
    yield partial(local_world.ingest, "region=NW,date=2025-02-11"), "move `start` back"
    local_world.ingest(NW)
    return [1]


# Texts.


@case
def a_name_that_shows_no_format_is_given_one(local_world: World) -> Steps:
    local_world.options = {"format": "auto", "files": "*"}
    text(local_world, "total\n1.0\n", "rows")
    yield "give it as the stream's format"
    local_world.options = {"format": "csv", "files": "*"}
    return [1]


@case
def a_name_that_shows_no_format_is_left_out(local_world: World) -> Steps:
    local_world.options = {"format": "auto", "files": "*"}
    text(local_world, "total\n1.0\n", "rows.csv")
    text(local_world, "a note", "README")
    yield "let the stream's files leave it out"
    local_world.options = {"format": "auto", "files": "*.csv"}
    return [1]


@case
def a_header_with_a_name_twice_is_given_names(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, "total,total\n1.0,2.0\n", "a.csv")
    yield "give names in the stream's format"
    local_world.options = {"format": {"type": "csv", "names": ["total", "net"]}}
    return [1]


@case
def a_text_that_is_larger_than_the_limit_is_read_with_another(local_world: World) -> Steps:
    local_world.options = {"format": {"type": "csv", "most_decompressed": "10B"}}
    text(local_world, gzip.compress(b"total\n1.0\n2.0\n3.0\n"), "a.csv.gz")
    yield "raise most_decompressed"
    local_world.options = {"format": {"type": "csv", "most_decompressed": "1kB"}}
    return [1, 2, 3]


@case
def lines_that_end_with_a_carriage_return_get_a_line_feed(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, "total\r1.0\r2.0\r", "a.csv")
    yield "let its writer end them with a line feed"
    text(local_world, "total\n1.0\n2.0\n", "a.csv")
    return [1, 2]


@case
def a_value_of_a_text_is_corrected(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, "id,total\n0,5.0\n", "a.csv")
    local_world.ingest(NW)
    text(local_world, "id,total\n0,much\n", "a.csv")
    yield "correct"
    text(local_world, "id,total\n0,1.0\n", "a.csv")
    return [1]


@case
def a_value_of_a_text_becomes_a_dead_letter(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, "id,total\n0,5.0\n", "a.csv")
    local_world.ingest(NW)
    text(local_world, "id,total\n0,1.0\n0,much\n", "a.csv")
    yield "on_bad_row: dead_letter"
    local_world.options["on_bad_row"] = "dead_letter"
    return [1]


@case
def a_text_that_is_no_json_is_landed_again(local_world: World) -> Steps:
    local_world.options = {"format": "json"}
    text(local_world, '[{"total": 1.0}, {"total"]', "a.json")
    yield "let its writer land it again"
    text(local_world, '[{"total": 1.0}, {"total": 2.0}]', "a.json")
    return [1, 2]


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
    yield "use --force"
    yield "set on_changed: refresh"
    local_world.options["on_changed"] = "refresh"
    return [2]


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
    yield "set `files: '*.filepart'` to read such objects"
    yield "rename the object when it is complete"
    part.rename(part.with_suffix(""))
    return [1]


@case
def a_registered_object_that_has_changed_is_repaired(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2, 3))
    yield "run `lake-assets index sales --repair`"
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
    yield partial(partition.restore, before), "`lake-assets history sales --partition region=NW,date=2026-02-11`"
    assert first in [entry.snapshot for entry in partition.history()]
    yield partial(partition.restore, first + 99), "`lake-assets history sales` lists"
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
    Path(local_world.live_files()[0]).unlink()

    def compacted() -> None:
        for done in compact(local_world.stream, 2, local_world.sessions):
            raise LakeAssetsError("the partition was left:", done.why or "")

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
    yield "remove or correct the link"
    link.unlink()
    return [1]


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
    yield "rename it"
    change(local_world, "ALTER TABLE sales RENAME COLUMN _change TO changed")
    parquet(local_world, id=[0], total=[1.0], changed=[1])
    return [1, 5]


@case
def a_changed_object_is_restored_where_rows_are_appended(local_world: World) -> Steps:
    local_world.options = {"mode": "append"}
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2))
    yield "restore it"
    local_world.land(NW, sales(1))
    return [1]


@case
def rows_whose_objects_were_taken_away_are_kept_until_these_are_put_back(local_world: World) -> Steps:
    local_world.options = {"mode": "append", "after_load": "delete"}
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2), "b.parquet")
    yield partial(local_world.ingest, NW, force=True), "put them back"
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    return [1, 2]


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

    yield warned, "remove or rename the one in the archive"
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
    yield (
        partial(forget, local_world.stream, [local_world.partition(NW)]),
        "remove them first, or leave its ledger rows",
    )
    local_world.unland(NW)
    forget(local_world.stream, [local_world.partition(NW)])
    return [5]


@case
def columns_are_inferred_from_what_has_landed(local_world: World) -> Steps:
    Path(local_world.source["path"]).mkdir()
    yield partial(inferred_columns, local_world.stream), "land an object, or correct the stream's source"
    local_world.land(NW, sales(1))
    assert list(inferred_columns(local_world.stream)) == ["id", "total"]
    local_world.ingest(NW)
    return [1]


@case
def a_partition_whose_writer_has_not_finished_is_ingested_when_it_has(local_world: World) -> Steps:
    spark, numbers = local_world.sessions, iter([1, 2, 3])
    local_world.land(NW, sales(0))

    def sessions() -> Any:
        for number in numbers:
            local_world.land(NW, sales(number), f"{number}.parquet")
            break
        return spark()

    local_world.sessions = sessions
    yield "run it again when their writer has finished"
    return [0, 1, 2, 3]


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
    local_world.commit(NW, 1)
    changed = Path(local_world.land(NW, sales(2).rename_columns(["id", "TOTAL"])))

    def repaired() -> None:
        for error in repair_indexed(local_world.stream).errors:
            raise error

    yield repaired, "Or land its content under another name, remove it, run this again, and then `lake-assets index`"
    changed.rename(changed.with_name("b.parquet"))
    repaired()
    assert all(outcome.error is None for outcome in index_all(local_world.stream))
    return [2, 5]


# Further texts.


@case
def avro_without_fields_is_landed_as_records(local_world: World) -> Steps:
    local_world.options = {"format": "avro"}
    text(local_world, of_avro("double", 1.0), "a.avro")
    yield "let its writer land records with fields, or let the stream's files leave it out"
    record = {"type": "record", "name": "row", "fields": [{"name": "total", "type": "double"}]}
    text(local_world, of_avro(record, {"total": 1.0}), "a.avro")
    local_world.ingest(NW)
    text(local_world, of_avro("double", 1.0), "other.avro")
    local_world.options |= {"files": "a*"}
    return [1]


@case
def a_quote_that_ends_in_no_record_is_closed(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    for rows in ('total,note\n1.0,"a"\n2.0,b\n', 'total,note\n1.0,"a\n2.0,"\n'):
        text(local_world, 'total,note\n1.0,"a\n2.0,b\n', "a.csv")
        yield "land the object again, whole, or correct it"
        text(local_world, rows, "a.csv")
        local_world.ingest(NW)
    return [1]


@large
def a_record_that_has_no_end_is_on_a_line(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    rest = f"2.0,{'b' * 2**20}\n" * 17
    text(local_world, f'total,note\n1.0,5" pipe\n3.0,"a\n{rest}', "a.csv")
    yield "write each record on its own line, close each quote, or give the right format"
    text(local_world, 'total,note\n1.0,5" pipe\n3.0,"a"\n2.0,b\n', "a.csv")
    local_world.ingest(NW)
    assert local_world.totals() == [1, 2, 3]
    local_world.options = {"format": {"type": "csv", "quote": None}}
    text(local_world, f'total,note\n1.0,5" pipe\n3.0,"a\n{rest}', "a.csv")
    local_world.ingest(NW)
    return [1, *[2] * 17, 3]


@case
def a_header_whose_quote_is_open_is_left_out(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, '"total\n1.0\n2.0\n', "a.csv")
    yield "close its quotes, or leave it out by skip_lines: 1, header: false and names"
    local_world.options = {"format": {"type": "csv", "skip_lines": 1, "header": False, "names": ["total"]}}
    local_world.ingest(NW)
    assert local_world.totals() == [1, 2]
    local_world.options = {"format": "csv"}
    text(local_world, '"total"\n1.0\n2.0\n', "a.csv")
    return [1, 2]


@case
def a_list_is_landed_as_json(local_world: World) -> Steps:
    local_world.options = {"format": "auto"}
    local_world.land(SW, b'{"x": [1], "total": 5.0}\n', "a.json")
    local_world.ingest(SW)
    text(local_world, 'x,total\n"[1]",1.0\n', "a.csv")
    yield "land JSON lines"
    local_world.unland(NW, "a.csv")
    text(local_world, '{"x": [1], "total": 1.0}\n', "a.json")
    return [1, 5]


@large
def lines_before_a_header_end_in_line_feeds(local_world: World) -> Steps:
    local_world.options = {"format": {"type": "csv", "skip_lines": 1}}
    text(local_world, "a note\rtotal\r" + "1.0\r" * 2**22, "a.csv")
    yield "let its writer end lines with a line feed, or let the stream's files leave the object out"
    text(local_world, "a note\ntotal\n1.0\n", "a.csv")
    local_world.ingest(NW)
    text(local_world, "x" * 2**24, "other.csv")
    local_world.options |= {"files": "a*"}
    return [1]


@case
def a_text_of_another_format_is_landed_again(local_world: World) -> Steps:
    local_world.options = {"format": "json"}
    text(local_world, "total\n1.0\n", "a.json")
    yield "give the right format, or correct the text"
    text(local_world, '{"total": 1.0}\n', "a.json")
    local_world.ingest(NW)
    text(local_world, "total\n1.0\n", "a.json")
    local_world.options = {"format": "csv", "files": "*.json"}
    return [1]


# Further columns.


@case
def a_column_of_the_dead_letters_stays_without_dead_letters(local_world: World) -> Steps:
    local_world.options = {"on_bad_row": "dead_letter"}
    parquet(local_world, total=[1.0], _reason=["a"])
    yield "rename it, or remove on_bad_row from the stream"
    parquet(local_world, total=[1.0], reason=["a"])
    local_world.ingest(NW)
    parquet(local_world, total=[2.0], _reason=["a"])
    local_world.options = {"destination": {"table": "other"}}
    local_world.ingest(NW)
    assert local_world.query("SELECT total, _reason FROM lake.other") == [(2, "a")]
    local_world.options = {"on_bad_row": "dead_letter"}
    parquet(local_world, total=[1.0], reason=["a"])
    return [1]


@case
def a_whole_number_of_128_bits_is_cast_or_left_out(local_world: World) -> Steps:
    rows = pl.DataFrame([pl.Series("total", [1.0]), pl.Series("x", [2**70], dtype=pl.Int128)])
    text(local_world, in_polars(rows), "a.parquet")
    yield "let its writer cast it to another type, such as a text, or leave it out by omit: true in `columns`"
    local_world.options = {"columns": {"x": {"omit": True}}}
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.options = {"destination": {"table": "texts"}}
    text(local_world, in_polars(rows.with_columns(pl.col("x").cast(pl.String))), "a.parquet")
    local_world.ingest(NW)
    assert local_world.query("SELECT x FROM lake.texts") == [(str(2**70),)]
    return None


@case
def a_time_of_orc_that_is_finer_than_microseconds_is_rounded_or_declared(local_world: World) -> Steps:
    local_world.options = {"format": "orc"}
    fine, rounded = (pa.array([value], pa.timestamp("ns")) for value in (1_001, 1_000))
    text(local_world, in_orc(total=[1.0], at=fine), "a.orc")
    yield "round it where it is written, or, for a new table, declare type: TIMESTAMP_NS in `columns`"
    local_world.options |= {"destination": {"table": "fine"}, "columns": {"at": {"type": "TIMESTAMP_NS"}}}
    local_world.ingest(NW)
    assert local_world.query("SELECT epoch_ns(f.at) FROM lake.fine f") == [(1_001,)]
    local_world.options = {"format": "orc"}
    text(local_world, in_orc(total=[1.0], at=rounded), "a.orc")
    return [1]


@case
def an_old_timestamp_is_of_the_years_and_the_unit_of_the_table(local_world: World) -> Steps:
    def land(*values: int, unit: str = "ns", **writer: Any) -> None:
        local_world.land(NW, pa.table({"total": [1.0], "at": pa.array(values, pa.timestamp(unit))}), **writer)

    fine = {"columns": {"at": {"type": "TIMESTAMP_NS"}}, "destination": {"table": "fine"}}
    land(1_001, use_deprecated_int96_timestamps=True)
    yield ", or, for a new table, declare type: TIMESTAMP_NS in `columns`"
    local_world.options = fine
    local_world.ingest(NW)
    land(2**54, unit="us", use_deprecated_int96_timestamps=True)
    yield "correct the value, or let the stream fill another table with a TIMESTAMP column"
    land(1_000, use_deprecated_int96_timestamps=True)
    local_world.ingest(NW)
    assert local_world.query("SELECT epoch_ns(f.at) FROM lake.fine f") == [(1_000,)]
    local_world.options = {}
    land(2**54, unit="us", use_deprecated_int96_timestamps=True)
    return [1]


@case
def a_type_of_avro_that_is_within_itself_is_a_text_or_left_out(local_world: World) -> Steps:
    local_world.options = {"format": "avro"}
    total = {"name": "total", "type": "double"}
    link = {"type": "record", "name": "link", "fields": [{"name": "next", "type": ["null", "link"]}]}
    for x in ([], [{"name": "x", "type": "string"}]):
        record = {"type": "record", "name": "row", "fields": [total, {"name": "x", "type": link}]}
        text(local_world, of_avro(record, {"total": 1.0, "x": {"next": None}}), "a.avro")
        yield "let its writer leave the column out, or cast it to a text"
        text(local_world, of_avro(record | {"fields": [total, *x]}, {"total": 1.0, "x": "{}"}), "a.avro")
        local_world.options = {"format": "avro", "destination": {"table": f"of_{len(x)}"}}
        local_world.ingest(NW)
    local_world.options = {"format": "avro"}
    return [1]


@case
def columns_that_hive_has_named_by_their_places_get_names(local_world: World) -> Steps:
    local_world.options = {"format": "orc", "schema_policy": "evolve"}
    local_world.land(SW, in_orc(id=[0], total=[5.0]), "a.orc")
    local_world.ingest(SW)
    text(local_world, in_orc(_col0=[0], _col1=[1.0]), "a.orc")
    yield "give each its name in the stream's `columns`, such as `columns: "
    local_world.options |= {"columns": {"id": {"from": "_col0"}, "total": {"from": "_col1"}}}
    return [1, 5]


@case
def a_value_that_selects_rows_is_of_the_type_of_its_column(local_world: World) -> Steps:
    local_world.options = {"partitions": {"shop": {"in": "rows", "type": "integer", "values": [7]}}}
    for shop in ("8", "b"):
        with local_world.landing.create("a.parquet") as file:
            pq.write_table(pa.table({"total": [1.0, 2.0], "shop": ["7", "b"]}), file)
        yield partial(local_world.ingest, "shop=7"), "correct the value, or the type of this partition column in the"
        if shop == "b":
            shops = {"shop": {"in": "rows", "values": ["7"]}}
            local_world.options = {"partitions": shops, "destination": {"table": "shops"}}
        with local_world.landing.create("a.parquet") as file:
            pq.write_table(pa.table({"total": [1.0, 2.0], "shop": ["7", shop]}), file)
        local_world.ingest("shop=7")
    assert local_world.query("SELECT s.total, o.total FROM lake.sales s, lake.shops o") == [(1, 1)]
    return None


@case
def a_time_that_duckdb_cannot_hold_is_corrected(local_world: World) -> Steps:
    for unit, corrected in (("us", "us"), ("ns", "ns"), ("ns", "us")):
        parquet(local_world, total=[1.0], at=pa.array([-(2**63) + 2], pa.timestamp(unit)))
        yield "correct the value"
        parquet(local_world, total=[1.0], at=pa.array([0 if unit == corrected else -(2**53)], pa.timestamp(corrected)))
        local_world.options = {"destination": {"table": f"times_{unit}_{corrected}"}}
        local_world.ingest(NW)
    local_world.options = {}
    return [1]


@large
def a_type_that_the_table_cannot_hold_is_cast_or_goes_into_another_table(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    parquet(local_world, id=[0], total=[[1.0]])
    yield "cast it in a transform, or let the stream fill another table"
    local_world.options = {"destination": {"table": "other"}}
    local_world.ingest(NW)
    assert local_world.query("SELECT total FROM lake.other") == [([1.0],)]
    local_world.options = {"transform": {"sql": "SELECT id, total[0] AS total FROM source"}}
    return [1, 5]


@large
def rows_of_another_partition_are_left_out_by_the_transform(local_world: World) -> Steps:
    local_world.land(NW, sales(1, 2))
    local_world.options = {"transform": {"sql": "SELECT total, if(total > 1, 'SW', 'NW') AS region FROM source"}}
    yield "correct the transform"
    local_world.options = {"transform": {"sql": "SELECT total, 'NW' AS region FROM source WHERE total = 1"}}
    return [1]


@large
def a_temporary_folder_that_is_full_gets_space_or_is_another(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    local_world.lake_options = {"attach_options": {"encrypted": True}}
    local_world.land(NW, noise())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    with small_disk(tmp_path / "full", "900k"):
        other = tmp_path / "full/other"
        other.write_bytes(b"x" * 800_000)
        yield "free space there, or set TMPDIR of Spark's workers to a larger folder"
        other.unlink()
        local_world.ingest(NW)
        assert len(local_world.totals()) == noise().num_rows
        other.write_bytes(b"x" * 800_000)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        local_world.ingest(NW, force=True)
        assert len(local_world.totals()) == noise().num_rows
    return None


@large
def quotes_that_do_not_tell_where_records_begin_are_corrected_or_compressed(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    local_world.options = {"format": "csv", "target_file_size": "1MiB"}
    rows = "total,note\n" + '1.0,"a\nb"\n' * 200_000
    text(local_world, rows, "a.csv")
    with monkeypatch.context() as wrong:
        wrong.setattr(LandedText, "_told", lambda text, parser, at: at + 1)  # noqa: ARG005
        yield "correct them, or land it compressed, so that it is read from its begin"
        text(local_world, gzip.compress(rows.encode()), "a.csv.gz")
        local_world.unland(NW, "a.csv")
        local_world.ingest(NW)
        assert len(local_world.totals()) == 200_000
    local_world.unland(NW, "a.csv.gz")
    text(local_world, rows, "a.csv")
    local_world.ingest(NW)
    assert len(local_world.totals()) == 200_000
    return None


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


@pytest.mark.parametrize("steps", [*CASES, *more(LARGE)], ids=named)
def test_advice_that_is_followed_ends_in_the_right_rows(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
