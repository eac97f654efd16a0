"""Advice of errors about the columns of landed objects, of transforms and of a table."""

import gzip
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.storage.formats.any_format import SAMPLE
from lake_assets.storage.formats.landed_text import LandedText
from lake_assets_tests.advice.cases import Case, Cases, Steps, follow
from lake_assets_tests.advice.landing import change, in_orc, in_polars, parquet, text
from lake_assets_tests.faults.outage import noise, small_disk
from lake_assets_tests.values.annotated import converted, with_keys, written
from lake_assets_tests.values.test_annotations import ENUM
from lake_assets_tests.world import NW, SW, World, sales

case = Cases()
large = Cases(pytest.mark.more)


@large
def a_result_is_mended_in_the_transform(local_world: World) -> Steps:
    local_world.land(SW, pa.table({"total": [5.0], "note": ["a"]}))
    local_world.ingest(SW)
    local_world.land(NW, pa.table({"total": [1.0], "note": ["a"], "more": [1]}))
    yield "give it these in a transform"
    local_world.options = {"transform": {"sql": "SELECT total, note FROM source"}}
    local_world.ingest(NW)
    local_world.options = {"transform": {"sql": "SELECT total, 1 AS more FROM source"}}
    yield partial(local_world.ingest, NW, force=True), "give it the table's columns"
    local_world.options = {"transform": {"sql": "SELECT total, array(note) AS note FROM source"}}
    yield partial(local_world.ingest, NW, force=True), "cast it in the transform"
    cast = {"sql": "SELECT total, to_json(array(note)) AS note FROM source"}
    local_world.options = {"transform": cast}
    local_world.ingest(NW, force=True)
    local_world.options = {"columns": {"note": {"type": "varchar"}}}
    local_world.land(NW, pa.table({"total": [2.0], "note": pa.array([7])}))
    yield "cast it in a transform"
    local_world.options |= {"transform": cast}
    return [2, 5]


@case
def an_object_of_another_type_than_the_first_of_a_table_is_landed_as_another(local_world: World) -> Steps:
    local_world.land(NW, pa.table({"total": [1.0], "note": ["a"]}), "1.parquet")
    local_world.land(NW, pa.table({"total": [2.0], "note": [["b"]]}), "2.parquet")
    yield "let its writer cast it to"
    local_world.land(NW, pa.table({"total": [2.0], "note": ["['b']"]}), "2.parquet")
    return [1, 2]


@case
def a_column_is_landed_as_its_declared_type_or_another_one_is_declared(local_world: World) -> Steps:
    local_world.options = {"columns": {"note": {"type": "bigint"}}}
    local_world.land(NW, pa.table({"total": [1.0], "note": ["a"]}))
    yield "declare another one in `columns` for a new table"
    local_world.options = {"columns": {"note": {"type": "varchar"}}}
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.land(SW, pa.table({"total": [2.0], "note": [["a"]]}))
    yield partial(local_world.ingest, SW), "land it as that type"
    local_world.land(SW, pa.table({"total": [2.0], "note": ["a"]}))
    local_world.ingest(SW)
    return [1, 2]


@case
def an_object_of_other_columns_than_the_first_of_a_table_is_landed_with_its(local_world: World) -> Steps:
    local_world.land(NW, pa.table({"total": [1.0], "note": ["a"]}), "1.parquet")
    local_world.land(NW, pa.table({"total": [2.0]}), "2.parquet")
    yield "land it again with the columns of the others | set schema_policy: evolve, which fills missing ones"
    local_world.options = {"schema_policy": "evolve"}
    local_world.ingest(NW)
    assert local_world.totals() == [1, 2]
    local_world.options = {"schema_policy": "strict"}
    local_world.land(NW, pa.table({"total": [3.0], "note": ["b"]}), "2.parquet")
    return [1, 3]


@case
def a_file_to_register_has_the_columns_of_the_table_or_is_read_in_another_mode(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    local_world.land(NW, pa.table({"id": [0], "total": [1.0], "more": ["a"]}))
    yield "land it again with the table's columns"
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    local_world.land(NW, pa.table({"id": [0], "total": [2.0], "more": ["a"]}), "b.parquet")
    yield "use mode: replace with schema_policy: evolve"
    local_world.options = {"mode": "replace", "schema_policy": "evolve"}
    return [1, 2, 5]


@case
def a_wider_type_than_the_others_widens_the_column_or_is_landed_as_theirs(local_world: World) -> Steps:
    narrow = pa.table({"total": [1.0], "id": pa.array([0], pa.int32())})
    for number in range(SAMPLE):  # whose types decide
        local_world.land(NW, narrow, f"{number:02}.parquet")
    local_world.land(NW, pa.table({"total": [2.0], "id": [2**40]}), "b.parquet")
    yield "set schema_policy: evolve, which takes the wider type | land it with the type of the others"
    local_world.options = {"schema_policy": "evolve", "destination": {"table": "wide"}}
    local_world.ingest(NW)
    local_world.options = {}
    local_world.land(NW, narrow, "b.parquet")
    local_world.ingest(NW)
    local_world.land(NW, pa.table({"total": [2.0], "id": [2**40]}), "b.parquet")
    yield "set schema_policy: evolve, which widens the table's column"
    local_world.options = {"schema_policy": "evolve"}
    return [1] * SAMPLE + [2]


@case
def a_file_that_duckdb_does_not_read_is_read_by_arrow(local_world: World) -> Steps:
    rows = pa.table({"id": [0], "total": [1.0], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32()))})
    local_world.options = {"mode": "index"}
    local_world.land(SW, rows.set_column(1, "total", pa.array([5.0])))
    local_world.ingest(SW)
    local_world.land(NW, written(rows, {"m": converted(2)}))  # MAP_KEY_VALUE, as old writers have it
    yield "use mode: replace, which reads it by Arrow"
    local_world.options = {"mode": "replace"}
    return [1, 5]


@case
def a_file_to_register_has_the_declared_type_or_another_one_is_declared(local_world: World) -> Steps:
    local_world.options = {"mode": "index", "columns": {"note": {"type": "integer"}}}
    local_world.land(NW, pa.table({"total": [1.0], "note": [2**40]}))
    yield "declare another one in `columns` for a new table"
    local_world.options = {"mode": "index", "columns": {"note": {"type": "bigint"}}}
    local_world.ingest(NW)
    local_world.land(SW, pa.table({"total": [5.0], "note": ["7"]}))
    yield partial(local_world.ingest, SW), "land it as that type"
    local_world.land(SW, pa.table({"total": [5.0], "note": [7]}))
    local_world.ingest(SW)
    return [1, 5]


@case
def a_file_to_register_by_the_extension_has_types(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.land(SW, pa.table({"total": [5.0], "note": ["a"]}))
    local_world.ingest(SW)
    change(local_world, "ALTER TABLE sales SET PARTITIONED BY (region, year(date))")
    local_world.land(NW, pa.table({"total": [1.0], "note": pa.nulls(1)}))
    yield "land it with the table's type, or use mode: replace."
    local_world.options = {"mode": "replace"}
    local_world.ingest(NW)
    assert local_world.totals() == [1, 5]
    local_world.options = {"mode": "index"}
    local_world.land(NW, pa.table({"total": [2.0], "note": pa.nulls(1)}), "2.parquet")
    yield "land it with the table's type"
    local_world.land(NW, pa.table({"total": [2.0], "note": pa.nulls(1, pa.string())}), "2.parquet")
    return [1, 2, 5]


@case
def a_file_to_register_has_the_column_that_must_have_a_value(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    change(local_world, "ALTER TABLE sales ALTER total SET NOT NULL")
    parquet(local_world, id=[0])
    yield "land it again with the column."
    parquet(local_world, id=[0], total=[1.0])
    return [1, 5]


@case
def a_column_that_must_have_a_value_gets_a_default(local_world: World) -> Steps:
    local_world.options = {"columns": {"total": {"type": "double", "nullable": False}}}
    parquet(local_world, id=[0])
    yield "declare a default in `columns`"
    parquet(local_world, id=[0], total=pa.array([None], pa.float64()))
    yield "declare a default in `columns`"
    local_world.options = {"columns": {"total": {"type": "double", "nullable": False, "default": 7}}}
    return [7]


@case
def a_column_that_must_have_a_value_is_landed_again_with_it(local_world: World) -> Steps:
    local_world.options = {"columns": {"total": {"type": "double", "nullable": False}}}
    parquet(local_world, id=[0])
    yield "land it again with the column"
    parquet(local_world, id=[0], total=pa.array([None], pa.float64()))
    yield "correct the row"
    parquet(local_world, id=[0], total=[2.0])
    return [2]


@case
def an_unknown_column_and_a_wider_one_let_the_table_evolve(local_world: World) -> Steps:
    parquet(local_world, id=pa.array([0], pa.int32()), total=[1.0])
    local_world.ingest(NW)
    parquet(local_world, id=[2**40], total=[1.0], note=["a"])
    yield "set schema_policy: evolve, with which the table gains new columns and missing ones are NULL"
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


@large
def a_number_between_those_of_the_column_is_corrected_or_rounded(local_world: World) -> Steps:
    local_world.options = {"columns": {"id": {"type": "bigint"}}}
    parquet(local_world, id=[0.5], total=[1.0])
    yield "fitter.py: correct the value | round it in a transform"
    local_world.options["transform"] = {"sql": "SELECT round(id) AS id, total FROM source"}
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    del local_world.options["transform"]
    parquet(local_world, id=[1.0], total=[1.0])
    return [1]


@case
def a_text_that_is_none_is_corrected_or_left_out(local_world: World) -> Steps:
    local_world.land(NW, written(pa.table({"total": [1.0], "color": [b"\xff"]}), {"color": ENUM}))
    yield "correct it where it is written"
    local_world.land(NW, written(pa.table({"total": [1.0], "color": [b"red"]}), {"color": ENUM}))
    return [1]


@case
def a_declared_column_that_the_table_lacks_is_no_longer_declared(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.options = {"columns": {"note": {"type": "varchar"}}}
    local_world.land(NW, sales(1))
    yield "remove its type"
    local_world.options = {}
    return [1, 5]


@case
def a_column_that_the_table_has_gained_is_read_when_it_is_run_again(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    local_world.commit(SW, 5)
    local_world.options = {"schema_policy": "evolve"}
    parquet(local_world, id=[0], total=[1.0], note=["a"])
    with monkeypatch.context() as once:
        once.setattr("lake_assets.ingest.partition_run.TRIES", 1)
        yield "column_rules.py: run it again"
    return [1, 5]


@case
def one_of_two_names_that_differ_by_case_is_left_out(local_world: World) -> Steps:
    local_world.options = {"columns": {"tax": {"from": "vat"}}}
    parquet(local_world, total=[1.0], vat=[3.0], VAT=[4.0])
    yield "leave one out: omit: true in `columns`"
    local_world.options["columns"]["VAT"] = {"omit": True}
    return [1]


@case
def one_of_two_landed_columns_of_a_name_is_omitted(local_world: World) -> Steps:
    local_world.options = {"columns": {"total": {"from": "amount"}}}
    parquet(local_world, amount=[1.0], Total=[2.0])
    yield "omit one of them in `columns` | give it another name there"
    local_world.options = {"columns": {"amount": {"omit": True}}}
    local_world.ingest(NW)
    assert local_world.totals() == [2]
    local_world.options = {"columns": {"total": {"from": "amount"}, "gross": {"from": "Total"}}}
    local_world.options["destination"] = {"table": "both"}
    local_world.ingest(NW)
    assert local_world.query("SELECT total, gross FROM lake.both") == [(1, 2)]
    return None


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
    yield "leave the column out: omit: true in `columns` | let its writer use the new one (Spark's"
    local_world.options = {"columns": {"x": {"omit": True}}}
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.options = {"destination": {"table": "new"}}
    local_world.land(NW, pa.table({"total": [1.0], "x": days}))
    local_world.ingest(NW)
    return [1]


@case
def a_declared_type_is_that_of_the_table(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.options = {"columns": {"total": {"type": "integer"}}}
    local_world.land(NW, sales(1))
    yield "declare type: "
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


@case
def a_column_of_the_dead_letters_stays_without_dead_letters(local_world: World) -> Steps:
    local_world.options = {"on_bad_row": "dead_letter"}
    parquet(local_world, total=[1.0], _reason=["a"])
    yield "fitter.py: rename it | remove on_bad_row from the stream"
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
    yield "let its writer cast it to another type, such as a text | leave it out by omit: true in `columns`"
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
    yield "round it where it is written | declare type: TIMESTAMP_NS in `columns` for a new table"
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
    yield "write it as TIMESTAMP_MICROS (in Spark: | declare type: TIMESTAMP_NS in `columns` for a new table"
    land(1, unit="us")
    local_world.ingest(NW)
    land(1_001, use_deprecated_int96_timestamps=True)
    local_world.options = fine
    local_world.ingest(NW)
    land(2**54, unit="us", use_deprecated_int96_timestamps=True)
    yield "parquet_files.py: correct the value | let the stream fill another table with a TIMESTAMP column"
    land(1_000, use_deprecated_int96_timestamps=True)
    local_world.ingest(NW)
    assert local_world.query("SELECT epoch_ns(f.at) FROM lake.fine f") == [(1_000,)]
    local_world.options = {}
    land(2**54, unit="us", use_deprecated_int96_timestamps=True)
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
        attempt = partial(local_world.ingest, "shop=7")
        yield attempt, "fitter.py: correct the value | the type of this partition column in the config"
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
    yield "cast it in a transform | let the stream fill another table"
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
        yield "write.py: free space there | set TMPDIR of Spark's workers to a larger folder"
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
        wrong.setattr(LandedText, "_start_near", lambda text, parser, at: at + 1)  # noqa: ARG005
        yield "correct them | land it compressed, so that it is read from its begin"
        text(local_world, gzip.compress(rows.encode()), "a.csv.gz")
        local_world.unland(NW, "a.csv")
        local_world.ingest(NW)
        assert len(local_world.totals()) == 200_000
    local_world.unland(NW, "a.csv.gz")
    text(local_world, rows, "a.csv")
    local_world.ingest(NW)
    assert len(local_world.totals()) == 200_000
    return None


@pytest.mark.parametrize("steps", [*case, *large])
def test_advice_that_is_followed_ends_in_the_right_rows(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
