"""What an error advises, followed to the letter, ends in the right rows.

A case makes an error, yields words of its advice, alone if an ingest of NW fails with it, and does what they say. That
ingest then succeeds, and the table has the totals that the case returns.
"""

import gzip
import os
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets import connect
from lake_assets.errors import LakeAssetsError
from lake_assets.ingest.forget import forget
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.maintenance.compaction import compact
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.values.annotated import with_keys
from lake_assets_tests.world import NW, STREAM, SW, World, plan, sales

__all__ = ["sessions"]

Verb = Callable[[], object]
Steps = Generator[str | tuple[Verb, str], None, Sequence[float]]
Case = Callable[[World], Steps]

CASES: list[Case] = []


def change(world: World, statement: str) -> None:
    """Change the lake by a statement, as a user does."""
    with connect(world.config, read_only=False) as connection:
        connection.execute(statement)


def case(steps: Case) -> Case:
    CASES.append(steps)
    return steps


def parquet(world: World, name: str = "batch_1.parquet", **columns: Any) -> None:
    """Land an object of NW with these columns."""
    world.land(NW, pa.table(columns), name)


def text(world: World, rows: str | bytes, name: str) -> None:
    """Land an object of NW with this text."""
    world.land(NW, rows.encode() if isinstance(rows, str) else rows, name)


# The columns of a file.


@case
def a_column_that_must_have_a_value_gets_a_default(world: World) -> Steps:
    world.options = {"columns": {"total": {"type": "double", "nullable": False}}}
    parquet(world, id=[0])
    yield "or declare a default"
    parquet(world, id=[0], total=pa.array([None], pa.float64()))
    yield "or declare a default"
    world.options = {"columns": {"total": {"type": "double", "nullable": False, "default": 7}}}
    return [7]


@case
def a_column_that_must_have_a_value_is_landed_again_with_it(world: World) -> Steps:
    world.options = {"columns": {"total": {"type": "double", "nullable": False}}}
    parquet(world, id=[0])
    yield "land it again with the column"
    parquet(world, id=[0], total=[2.0])
    return [2]


@case
def an_unknown_column_and_a_wider_one_let_the_table_evolve(world: World) -> Steps:
    parquet(world, id=pa.array([0], pa.int32()), total=[1.0])
    world.ingest(NW)
    parquet(world, id=[2**40], total=[1.0], note=["a"])
    yield "schema_policy: evolve"
    world.options = {"schema_policy": "evolve"}
    return [1]


@case
def an_unknown_column_is_landed_again_without_it(world: World) -> Steps:
    world.commit(SW, 5)
    parquet(world, id=[0], total=[1.0], note=["a"])
    yield "land it again with the table's columns"
    world.land(NW, sales(1))
    return [1, 5]


@case
def names_that_differ_by_case_are_renamed(world: World) -> Steps:
    parquet(world, total=[1.0], Total=[2.0])
    yield "rename one where it is written"
    parquet(world, total=[1.0], net=[2.0])
    return [1]


@case
def one_of_two_landed_columns_of_a_name_is_omitted(world: World) -> Steps:
    world.options = {"columns": {"total": {"from": "amount"}}}
    parquet(world, amount=[1.0], Total=[2.0])
    yield "omit one of them in `columns`"
    world.options = {"columns": {"amount": {"omit": True}}}
    return [2]


@case
def a_row_of_another_partition_is_landed_in_its_own(world: World) -> Steps:
    parquet(world, total=[1.0, 2.0], region=["NW", "SW"])
    yield "land the row in its own partition"
    parquet(world, total=[1.0], region=["NW"])
    world.land(SW, pa.table({"total": [2.0], "region": ["SW"]}))
    world.ingest(SW)
    return [1, 2]


@case
def a_partition_column_that_the_file_has_in_another_form_gets_another_name(world: World) -> Steps:
    parquet(world, total=[1.0], date=[20495])  # days, in a type that does not say so
    yield partial(world.ingest, NW), "such as date_of_path, and give the layout its folder: date={date_of_path}"
    columns = {"region": {}, "date_of_path": {"type": "date", "start": "2026-01-01"}}
    world.options = {"partitions": columns, "layout": "region={region}/date={date_of_path}"}
    world.ingest("region=NW,date_of_path=2026-02-11")
    assert world.query("SELECT date, date_of_path::VARCHAR FROM lake.sales") == [(20495, "2026-02-11")]
    return [1]


@case
def a_column_that_no_lake_holds_is_left_out(world: World) -> Steps:
    parquet(
        world, total=[1.0], x=pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "T", "V"), pa.array([1], pa.int32()))
    )
    yield "leave it out by omit: true in `columns`"
    world.options = {"columns": {"x": {"omit": True}}}
    return [1]


@case
def days_of_an_old_calendar_are_left_out(world: World) -> Steps:
    days = pa.array([[-200_000]], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    keys = {"org.apache.spark.version": "2.4.8"}
    world.land(NW, with_keys(pa.table({"total": [1.0], "x": days}), keys))
    yield "or leave the column out: omit: true in `columns`"
    world.options = {"columns": {"x": {"omit": True}}}
    return [1]


@case
def a_declared_type_is_that_of_the_table(world: World) -> Steps:
    world.commit(SW, 5)
    world.options = {"columns": {"total": {"type": "integer"}}}
    world.land(NW, sales(1))
    yield "declare type: DOUBLE"
    world.options = {"columns": {"total": {"type": "DOUBLE"}}}
    return [1, 5]


@case
def a_declared_column_is_added_to_the_table(world: World) -> Steps:
    world.commit(SW, 5)
    world.options = {"columns": {"note": {"type": "varchar"}}}
    parquet(world, id=[0], total=[1.0], note=["a"])
    statement = 'ALTER TABLE main.sales ADD COLUMN "note" VARCHAR'
    yield f"add it by {statement}"
    change(world, statement)
    return [1, 5]


@case
def a_declared_column_lets_the_table_evolve(world: World) -> Steps:
    world.commit(SW, 5)
    world.options = {"columns": {"note": {"type": "varchar"}}}
    parquet(world, id=[0], total=[1.0], note=["a"])
    yield "set schema_policy: evolve"
    world.options |= {"schema_policy": "evolve"}
    return [1, 5]


@case
def a_partition_column_has_the_type_of_the_table(world: World) -> Steps:
    world.commit(SW, 5)
    world.options = {"partitions": {"region": {}, "date": {}}}
    world.land(NW, sales(1))
    yield "correct the type of this partition column in the config"
    world.options = {}
    return [1, 5]


@case
def a_table_without_a_partition_column_is_left_to_others(world: World) -> Steps:
    world.commit(SW, 5)
    change(world, "CREATE TABLE other (total DOUBLE)")
    world.options = {"destination": {"table": "other"}}
    world.land(NW, sales(1))
    yield "choose another table"
    world.options = {}
    return [1, 5]


@case
def a_column_of_the_file_and_one_of_the_stream_have_two_names(world: World) -> Steps:
    world.options = {"file_columns": {"uri": "uri"}}
    parquet(world, total=[1.0], uri=["a"])
    yield "give the stream's column another name"
    world.options = {"file_columns": {"landed_as": "uri"}}
    return [1]


@case
def a_column_of_the_path_has_a_type_that_holds_its_folders(world: World) -> Steps:
    layout = "region={region}/date={date}/hour={hour}"
    world.options = {"layout": layout, "path_columns": {"hour": "integer"}}
    world.land(NW, sales(1), "hour=noon/a.parquet")
    yield "correct the column's type in the config"
    world.options = {"layout": layout, "path_columns": {"hour": "string"}}
    return [1]


@case
def a_column_of_the_path_is_a_value_of_its_type_after_a_move(world: World) -> Steps:
    world.options = {"layout": "region={region}/date={date}/hour={hour}", "path_columns": {"hour": "integer"}}
    world.land(NW, sales(1), "hour=noon/a.parquet")
    yield "move the object"
    folder = Path(world.source["path"]) / "region=NW/date=2026-02-11"
    (folder / "hour=noon").rename(folder / "hour=12")
    return [1]


@case
def a_column_of_the_dead_letters_is_renamed(world: World) -> Steps:
    world.options = {"on_bad_row": "dead_letter"}
    parquet(world, total=[1.0], _reason=["a"])
    yield "rename it"
    parquet(world, total=[1.0], reason=["a"])
    return [1]


# What has landed.


@case
def an_empty_object_is_removed(world: World) -> Steps:
    world.land(NW, sales(1))
    text(world, "", "b.parquet")
    yield "remove it"
    world.unland(NW, "b.parquet")
    return [1]


@case
def a_damaged_object_is_landed_again(world: World) -> Steps:
    text(world, b"PAR1" + b"x" * 50 + b"PAR1", "batch_1.parquet")
    yield "let its writer land it again"
    world.land(NW, sales(1))
    return [1]


@case
def a_partition_without_objects_is_kept(world: World) -> Steps:
    world.commit(NW, 1)
    world.unland(NW)
    yield "set on_empty to keep or clear"
    world.options = {"on_empty": "keep"}
    return [1]


@case
def a_partition_without_objects_is_cleared(world: World) -> Steps:
    world.commit(SW, 5)
    world.commit(NW, 1)
    world.unland(NW)
    yield "set on_empty to keep or clear"
    world.options = {"on_empty": "clear"}
    return [5]


@case
def a_partition_that_is_misspelled_is_written_as_it_landed(world: World) -> Steps:
    world.land(NW, sales(1))
    yield partial(world.ingest, "region=nw,date=2026-02-11"), "Correct the partition's name"
    yield partial(world.ingest, "region=NW,date=2025-02-11"), "move `start` back"
    yield partial(world.ingest, "region=NW,date=2999-02-11"), "ingest it anyway"
    world.ingest(NW)
    return [1]


# Texts.


@case
def a_name_that_shows_no_format_is_given_one(world: World) -> Steps:
    world.options = {"format": "auto", "files": "*"}
    text(world, "total\n1.0\n", "rows")
    yield "give it as the stream's format"
    world.options = {"format": "csv", "files": "*"}
    return [1]


@case
def a_name_that_shows_no_format_is_left_out(world: World) -> Steps:
    world.options = {"format": "auto", "files": "*"}
    text(world, "total\n1.0\n", "rows.csv")
    text(world, "a note", "README")
    yield "let the stream's files leave it out"
    world.options = {"format": "auto", "files": "*.csv"}
    return [1]


@case
def a_header_with_a_name_twice_is_given_names(world: World) -> Steps:
    world.options = {"format": "csv"}
    text(world, "total,total\n1.0,2.0\n", "a.csv")
    yield "give names in the stream's format"
    world.options = {"format": {"type": "csv", "names": ["total", "net"]}}
    return [1]


@case
def a_text_that_is_larger_than_the_limit_is_read_with_another(world: World) -> Steps:
    world.options = {"format": {"type": "csv", "most_decompressed": "10B"}}
    text(world, gzip.compress(b"total\n1.0\n2.0\n3.0\n"), "a.csv.gz")
    yield "raise most_decompressed"
    world.options = {"format": {"type": "csv", "most_decompressed": "1kB"}}
    return [1, 2, 3]


@case
def lines_that_end_with_a_carriage_return_get_a_line_feed(world: World) -> Steps:
    world.options = {"format": "csv"}
    text(world, "total\r1.0\r2.0\r", "a.csv")
    yield "let its writer end them with a line feed"
    text(world, "total\n1.0\n2.0\n", "a.csv")
    return [1, 2]


@case
def a_quote_that_is_not_closed_is_corrected(world: World) -> Steps:
    world.options = {"format": "csv"}
    text(world, 'total,note\n1.0,"a\n2.0,b\n', "a.csv")
    yield "correct it"
    text(world, 'total,note\n1.0,"a"\n2.0,b\n', "a.csv")
    return [1, 2]


@case
def a_value_of_a_text_is_corrected(world: World) -> Steps:
    world.options = {"format": "csv"}
    text(world, "id,total\n0,5.0\n", "a.csv")
    world.ingest(NW)
    text(world, "id,total\n0,much\n", "a.csv")
    yield "correct"
    text(world, "id,total\n0,1.0\n", "a.csv")
    return [1]


@case
def a_value_of_a_text_becomes_a_dead_letter(world: World) -> Steps:
    world.options = {"format": "csv"}
    text(world, "id,total\n0,5.0\n", "a.csv")
    world.ingest(NW)
    text(world, "id,total\n0,1.0\n0,much\n", "a.csv")
    yield "on_bad_row: dead_letter"
    world.options["on_bad_row"] = "dead_letter"
    return [1]


@case
def a_text_that_is_no_json_is_landed_again(world: World) -> Steps:
    world.options = {"format": "json"}
    text(world, '[{"total": 1.0}, {"total"]', "a.json")
    yield "let its writer land it again"
    text(world, '[{"total": 1.0}, {"total": 2.0}]', "a.json")
    return [1, 2]


# Partition columns in the rows.

IN_ROWS = {"region": {"in": "rows"}, "date": {"type": "date", "start": "2026-01-01"}}


def date_folder(world: World, rows: pa.Table) -> None:
    """Land rows of several regions."""
    with world.landing.create("date=2026-02-11/a.parquet") as file:
        pq.write_table(rows, file)


@case
def a_column_that_selects_rows_is_landed(world: World) -> Steps:
    world.options = {"partitions": IN_ROWS}
    date_folder(world, sales(1))
    yield "land it again with that column"
    date_folder(world, sales(1, 2).append_column("region", pa.array(["NW", "SW"])))
    return [1]


@case
def a_column_that_selects_rows_is_landed_as_a_text(world: World) -> Steps:
    world.options = {"partitions": IN_ROWS}
    date_folder(world, sales(1, 2).append_column("region", pa.array([[1], [2]])))
    yield "land the column as text"
    date_folder(world, sales(1, 2).append_column("region", pa.array(["NW", "SW"])))
    return [1]


# Several streams.


@case
def a_stream_that_holds_another_back_is_corrected(world: World) -> Steps:
    landing = {"type": "local", "path": world.source["path"] + "/returns"}
    returns = World(world.catalog, world.storage, landing, world.sessions)
    declared = STREAM | {"source": landing, "destination": {"table": "returns"}}
    world.source = {"type": "local", "path": world.source["path"] + "/sales"}
    world.sections = {"streams": {"sales": world.document["streams"]["sales"], "returns": declared}}
    world.sections["release"] = {"daily": ["sales", "returns"]}
    returns.land(NW, b"no Parquet", "a.parquet")
    world.land(NW, sales(1))
    yield "Correct that in returns, and run it again"
    returns.land(NW, sales(9), "a.parquet")
    return [1]


# Modes.


@case
def a_changed_object_replaces_the_partition_where_rows_are_appended(world: World) -> Steps:
    world.options = {"mode": "append"}
    world.commit(NW, 1)
    world.land(NW, sales(2))
    yield "use --force"
    yield "set on_changed: refresh"
    world.options["on_changed"] = "refresh"
    return [2]


@case
def rows_whose_objects_were_taken_away_are_given_up(world: World) -> Steps:
    world.options = {"mode": "append", "after_load": "delete"}
    world.commit(NW, 1)
    world.land(NW, sales(2), "b.parquet")
    yield partial(world.ingest, NW, force=True), "set after_load: keep, and ingest the partition with --force"
    world.options["after_load"] = "keep"
    world.ingest(NW, force=True)
    return [2]


@case
def what_lands_again_after_it_was_taken_away_gets_a_new_name(world: World) -> Steps:
    world.options = {"mode": "append", "after_load": "delete"}
    world.commit(NW, 1)
    again = Path(world.land(NW, sales(2, 3)))
    yield "land it under a new name"
    again.rename(again.with_name("b.parquet"))
    return [1, 2, 3]


@case
def an_upload_that_is_not_finished_is_renamed(world: World) -> Steps:
    world.options = {"format": "csv"}
    part = Path(world.land(NW, b"total\n1.0\n", "a.csv.filepart"))
    yield "set `files: '*.filepart'` to read such objects"
    yield "rename the object when it is complete"
    part.rename(part.with_suffix(""))
    return [1]


@case
def a_registered_object_that_has_changed_is_repaired(world: World) -> Steps:
    world.options = {"mode": "index"}
    world.commit(NW, 1)
    world.land(NW, sales(2, 3))
    yield "run `lake-assets index sales --repair`"
    repair_indexed(world.stream)
    return [2, 3]


@case
def a_file_of_another_type_is_registered_with_that_of_the_table(world: World) -> Steps:
    world.options = {"mode": "index"}
    world.commit(SW, 5)
    parquet(world, id=[0], total=pa.array([1], pa.float32()))
    yield "land it with the table's type"
    world.land(NW, sales(1))
    return [1, 5]


@case
def a_file_of_another_type_is_rewritten(world: World) -> Steps:
    world.options = {"mode": "index"}
    world.commit(SW, 5)
    parquet(world, id=[0], total=pa.array([1], pa.float32()))
    yield "use mode: replace, which rewrites it"
    world.options = {"mode": "replace"}
    return [1, 5]


# The lake.


@case
def a_lake_that_does_not_exist_is_created_by_an_ingest(world: World) -> Steps:
    world.land(NW, sales(1))
    yield world.stream.partition(NW).read, "ingest a partition first"
    world.ingest(NW)
    return [1]


@case
def a_table_that_does_not_exist_is_created_by_an_ingest(world: World) -> Steps:
    world.land(NW, sales(1))
    with world.stream.lake.open(create=True):
        pass
    yield world.stream.partition(NW).read, "ingest a partition first"
    world.ingest(NW)
    return [1]


@case
def a_lake_keeps_the_setting_that_it_was_made_with(world: World) -> Steps:
    world.commit(SW, 5)
    world.lake_options = {"attach_options": {"encrypted": True}}
    world.land(NW, sales(1))
    yield "correct attach_options"
    world.lake_options = {}
    return [1, 5]


@case
def a_snapshot_that_lacks_the_partition_is_chosen_again(world: World) -> Steps:
    before = world.commit(SW, 5).snapshot_id
    first = world.commit(NW, 1).snapshot_id
    world.commit(NW, 2)
    assert before is not None
    assert first is not None
    partition = world.stream.partition(NW)
    yield partial(partition.restore, before), "`lake-assets history sales --partition region=NW,date=2026-02-11`"
    assert first in [entry.snapshot for entry in partition.history()]
    yield partial(partition.restore, first + 99), "`lake-assets history sales` lists"
    partition.restore(first)
    world.options = {"on_empty": "keep"}
    yield partition.release, "nothing was changed"
    return [1, 5]


@case
def a_partition_that_is_held_is_released(world: World) -> Steps:
    first = world.commit(NW, 1).snapshot_id
    world.commit(NW, 2)
    assert first is not None
    partition = world.stream.partition(NW)
    partition.restore(first, hold=True)
    decided = plan(world.stream, world.partition(NW)).decision
    assert f"held until `lake-assets restore sales --partition {NW} --release`" in str(decided)
    assert world.totals() == [1]
    yield partial(forget, world.stream, [world.partition(NW)]), "remove them first"
    partition.release()
    world.ingest(NW)
    return [2]


@case
def a_type_that_no_file_can_be_registered_for_is_changed(world: World) -> Steps:
    world.commit(SW, 5)
    change(world, "ALTER TABLE sales ADD COLUMN big HUGEINT")
    parquet(world, id=[0], total=[1.0], big=[1])
    yield "change the column's type"
    change(world, "ALTER TABLE sales DROP COLUMN big")
    change(world, "ALTER TABLE sales ADD COLUMN big BIGINT")
    return [1, 5]


@case
def a_lost_data_file_is_written_again(world: World) -> Steps:
    world.options = {"mode": "append"}
    for name, total in (("a.parquet", 1), ("b.parquet", 2)):
        world.commit(NW, total, name=name)
    Path(world.live_files()[0]).unlink()

    def compacted() -> None:
        for done in compact(world.stream, 2, world.sessions):
            raise LakeAssetsError("the partition was left:", done.why or "")

    yield compacted, "ingest the partition again with --force"
    world.ingest(NW, force=True)
    return [1, 2]


@case
def a_partition_outside_of_the_config_is_added_to_it(world: World) -> Steps:
    world.land(NW, sales(1))
    world.options = {"partitions": STREAM["partitions"] | {"region": {"values": ["SW"]}}}
    yield "add it to `values`"
    world.options = {"partitions": STREAM["partitions"] | {"region": {"values": ["SW", "NW"]}}}
    return [1]


@case
def a_partition_that_the_ledger_lacks_needs_no_removal(world: World) -> Steps:
    world.commit(SW, 5)
    yield partial(forget, world.stream, [world.partition(NW)]), "there is nothing to forget"
    return [5]


# Further: the selection, other clients, and what the landing zone is.


@case
def a_path_is_written_as_a_selection(world: World) -> Steps:
    world.land(NW, sales(1))
    yield partial(world.stream.ingest, "region=NW/date=2026-02-11"), NW
    yield partial(world.stream.ingest, "region=NW,date=2026-02-12..2026-02-11"), "date=2026-02-11..2026-02-12"
    world.ingest(NW)
    return [1]


@case
def an_empty_value_of_the_path_has_a_meaning(world: World) -> Steps:
    folder = Path(world.source["path"]) / "region=/date=2026-02-11"
    folder.mkdir(parents=True)
    pq.write_table(sales(1), folder / "a.parquet")
    yield partial(world.ingest, "region=,date=2026-02-11"), "set `empty: value`"
    world.options = {"partitions": STREAM["partitions"] | {"region": {"empty": "value"}}}
    world.ingest("region=,date=2026-02-11")
    return [1]


@case
def a_source_that_does_not_exist_is_created(world: World) -> Steps:
    yield "create it"
    world.land(NW, sales(1))
    return [1]


@case
def a_link_that_leads_back_to_itself_is_removed(world: World) -> Steps:
    world.land(NW, sales(1))
    link = Path(world.source["path"]) / "region=NW/date=2026-02-11/b.parquet"
    link.symlink_to(link)
    yield "remove or correct the link"
    link.unlink()
    return [1]


@case
def a_header_whose_quote_is_open_is_replaced_by_names(world: World) -> Steps:
    world.options = {"format": "csv"}
    text(world, '"total\n1.0\n2.0\n', "a.csv")
    yield "close its quotes"
    text(world, '"total"\n1.0\n2.0\n', "a.csv")
    return [1, 2]


@case
def an_old_timestamp_is_rewritten(world: World) -> Steps:
    world.options = {"mode": "index"}
    rows = sales(1).append_column("at", pa.array([0], pa.timestamp("us")))
    world.land(NW, rows, use_deprecated_int96_timestamps=True)
    yield "use mode: replace"
    world.options = {"mode": "replace"}
    return [1]


@case
def rows_of_a_partition_go_before_it_is_forgotten(world: World) -> Steps:
    world.commit(SW, 5)
    world.commit(NW, 1)
    world.unland(NW)
    yield partial(forget, world.stream, [world.partition(NW)]), "`on_empty: clear` removes rows"
    world.options = {"on_empty": "clear"}
    world.ingest(NW)
    forget(world.stream, [world.partition(NW)])
    return [5]


@case
def rows_are_compared_by_keys_that_name_one(world: World) -> Steps:
    first = world.commit(NW, 1, 1).snapshot_id
    world.commit(NW, 2, 3)
    assert first is not None
    compare = world.stream.partition(NW).diff
    yield partial(compare, first, keys=["day"]), "name one or more of id, total"
    yield partial(compare, first, keys=["total"]), "name more columns with --key"
    assert compare(first, keys=["total", "id"]).rows == 2
    return [2, 3]


@case
def a_column_with_a_name_of_the_deltas_is_renamed(world: World) -> Steps:
    columns = {"id": [0], "total": [5.0], "_change": [1]}
    world.land(SW, pa.table(columns))
    world.ingest(SW)
    world.options = {"deltas": {"to": {"type": "local", "path": world.source["path"] + "-deltas"}}}
    parquet(world, id=[0], total=[1.0], _change=[1])
    yield "rename it"
    change(world, "ALTER TABLE sales RENAME COLUMN _change TO changed")
    parquet(world, id=[0], total=[1.0], changed=[1])
    return [1, 5]


@case
def a_changed_object_is_restored_where_rows_are_appended(world: World) -> Steps:
    world.options = {"mode": "append"}
    world.commit(NW, 1)
    world.land(NW, sales(2))
    yield "restore it"
    world.land(NW, sales(1))
    return [1]


@case
def rows_whose_objects_were_taken_away_are_kept_until_these_are_put_back(world: World) -> Steps:
    world.options = {"mode": "append", "after_load": "delete"}
    world.commit(NW, 1)
    world.land(NW, sales(2), "b.parquet")
    yield partial(world.ingest, NW, force=True), "put them back"
    world.land(NW, sales(1))
    world.ingest(NW)
    return [1, 2]


@case
def a_registered_object_that_has_changed_is_restored_with_its_time(world: World) -> Steps:
    world.options = {"mode": "index"}
    uri = Path(world.land(NW, sales(1)).removeprefix("file://"))
    content, times = uri.read_bytes(), uri.stat()
    world.ingest(NW)
    world.land(NW, sales(2, 3))
    yield "restore the registered object with its time"
    uri.write_bytes(content)
    os.utime(uri, ns=(times.st_atime_ns, times.st_mtime_ns))
    return [1]


@pytest.mark.parametrize("steps", CASES, ids=lambda steps: steps.__name__.replace("_", " "))
def test_advice_that_is_followed_ends_in_the_right_rows(steps: Case, local_world: World) -> None:
    advised = steps(local_world)
    while True:
        try:
            step = next(advised)
        except StopIteration as end:
            totals = end.value
            break
        verb, says = step if isinstance(step, tuple) else (partial(local_world.ingest, NW), step)
        with pytest.raises(LakeAssetsError) as refused:
            verb()
        assert says in refused.value.fix
    if not isinstance(step, tuple):
        local_world.ingest(NW)
    assert local_world.totals() == totals
