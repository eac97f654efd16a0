"""Advice of errors about `lake-assets land`, its buffer and its outputs."""

import os
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import LakeAssetsError
from lake_assets.storage.formats.records import ArrowRows
from lake_assets.wings.land.drain import drain
from lake_assets.wings.land.read_records import RecordSource, form_of, read_records
from lake_assets.wings.land.writer import LandingCounts, LandingWriter
from lake_assets_tests.advice.cases import Case, Cases, Steps, follow
from lake_assets_tests.faults.outage import small_disk
from lake_assets_tests.storage.test_refusals import plain_user, root
from lake_assets_tests.wings.land.streams import GOOD, rows
from lake_assets_tests.world import NW, STREAM, SW, World

__all__ = ["root"]

case = Cases()


def writer(world: World) -> LandingWriter:
    return LandingWriter("sales", world.config.streams["sales"])


def land(world: World, table: pa.Table) -> LandingCounts:
    """Land a table."""
    with writer(world) as landing:
        landing.write(table)
    return landing.landed()


def land_file(world: World, path: Path | str, form: Any = None) -> LandingCounts:
    """Land a file as the command does."""
    with writer(world) as landing:
        for records in read_records(RecordSource(str(path), form or form_of(str(path))), landing.schema):
            landing.accept(records)
    return landing.landed()


def drained(world: World) -> None:
    """Drain the buffer; raise what the command prints."""
    for error in drain("sales", world.config.streams["sales"]).errors:
        raise LakeAssetsError("the drain failed:", error)


# Columns.


@case
def records_of_partition_columns_only_get_another(local_world: World) -> Steps:
    table = rows(1, 1)
    yield partial(land, local_world, table.select(["region", "date"])), "add another column to them"
    land(local_world, table)
    local_world.ingest(NW)
    return [1]


@case
def a_column_that_parquet_lacks_is_converted(local_world: World) -> Steps:
    table = rows(1, 1)
    lasts = table.append_column("lasts", pa.array([5], pa.duration("s")))
    yield partial(land, local_world, lasts), "convert it to a number or a text before"
    land(local_world, table.append_column("lasts", lasts["lasts"].cast(pa.int64())))
    local_world.ingest(NW)
    assert local_world.query("SELECT lasts FROM lake.sales") == [(5,)]
    return [1]


@case
def a_column_of_json_that_parquet_lacks_is_declared_as_a_text(local_world: World, tmp_path: Path) -> Steps:
    file = tmp_path / "a.jsonl"
    file.write_text('{"region":"NW","date":"2026-02-11","total":1.5,"s":{}}\n')
    yield partial(land_file, local_world, file), "becomes its text if `landing.columns` declares it as string"
    kinds = {"region": "string", "date": "date", "total": "double", "s": "string"}
    local_world.options = {"landing": {"columns": kinds}}
    land_file(local_world, file)
    local_world.ingest(NW)
    assert local_world.query("SELECT s FROM lake.sales") == [("{}",)]
    return [1.5]


@case
def a_whole_number_beyond_64_bits_has_a_declared_type(local_world: World, tmp_path: Path) -> Steps:
    file = tmp_path / "a.jsonl"
    file.write_text(f'{{"region":"NW","date":"2026-02-11","total":1.5,"n":{2**70}}}\n')
    yield partial(land_file, local_world, file), "declare it in landing.columns, such as "
    kinds = {"region": "string", "date": "date", "total": "double", "n": "decimal(38,0)"}
    local_world.options = {"landing": {"columns": kinds}}
    land_file(local_world, file)
    local_world.ingest(NW)
    assert local_world.query("SELECT n FROM lake.sales") == [(2**70,)]
    return [1.5]


@case
def a_column_that_is_not_declared_is_left_out_or_is(local_world: World) -> Steps:
    kinds = {"region": "string", "date": "date", "id": "bigint", "total": "double"}
    local_world.options = {"landing": {"columns": kinds}}
    table = rows(1, 1).append_column("note", pa.array(["a"]))
    yield partial(land, local_world, table), "leave the others out | declare them in the config"
    land(local_world, table.drop_columns("note"))
    local_world.ingest(NW)
    local_world.options = {"landing": {"columns": kinds | {"note": "string"}}, "schema_policy": "evolve"}
    land(local_world, table.set_column(2, "id", pa.array([2])))
    local_world.ingest(NW)
    assert local_world.query("SELECT id, note FROM lake.sales ORDER BY id") == [(1, None), (2, "a")]
    return [1, 1]


@case
def a_column_of_another_kind_is_converted_or_declared_so(local_world: World) -> Steps:
    kinds = {"region": "string", "date": "date", "id": "bigint", "total": "double"}
    local_world.options = {"landing": {"columns": kinds}}
    table = rows(1, 1)
    times = table.set_column(2, "id", pa.array([5], pa.timestamp("us")))
    yield partial(land, local_world, times), "convert it before | declare another type in the config"
    land(local_world, times.set_column(2, "id", times["id"].cast(pa.int64())))
    local_world.ingest(NW)
    assert local_world.query("SELECT id FROM lake.sales") == [(5,)]
    local_world.options = {"landing": {"columns": kinds | {"id": "timestamp"}}, "destination": {"table": "times"}}
    rmtree(local_world.source["path"])
    land(local_world, times)
    local_world.ingest(NW)
    assert local_world.query("SELECT epoch_us(id) FROM lake.times") == [(5,)]
    return None


@case
def a_partition_column_that_the_records_have_otherwise_gets_another_name(local_world: World) -> Steps:
    partitions = {"date": {"type": "date", "start": "2026-01-01", "from": "at"}}
    local_world.options = {"partitions": partitions, "layout": "{at,,YYYY}/{at,,MM}/{at,,DD}"}
    records = pa.table({"date": ["2026-02-10"], "at": ["2026-02-11T10:00:00"], "total": [1.0]})
    yield partial(land, local_world, records), "give the partition column another name: partitions: {date_of_path: {"
    local_world.options["partitions"] = {"date_of_path": partitions["date"]}
    land(local_world, records)
    local_world.ingest("date_of_path=2026-02-11")
    assert local_world.query("SELECT date::VARCHAR, total FROM lake.sales") == [("2026-02-10", 1)]
    return None


@case
def columns_are_known_before_records_are_accepted(local_world: World) -> Steps:
    table = rows(1, 1)
    with writer(local_world) as landing:
        yield partial(landing.accept, ArrowRows(table, "x")), "call `schema` before `accept`"
        landing.schema(lambda: table.schema)
        landing.accept(ArrowRows(table, "x"))
    local_world.ingest(NW)
    return [1]


@case
def columns_that_another_process_has_fixed_are_declared_or_kept(local_world: World, tmp_path: Path) -> Steps:
    local_world.options = {"landing": {"buffer": {"path": str(tmp_path / "buffer")}}}
    texts = rows(2, 1).set_column(3, "total", pa.array(["n/a"]))
    with writer(local_world) as ours, writer(local_world) as other:
        ours.schema(lambda: texts.schema)
        other.write(rows(1, 1))
        attempt = partial(ours.write, texts)
        yield attempt, "land records that have them | declare the right ones as landing.columns in the config"
        ours.write(rows(3, 1))
    local_world.ingest(NW)
    assert local_world.totals() == [1, 3]
    kinds = {"region": "string", "date": "date", "id": "bigint", "total": "string"}
    local_world.options["landing"]["columns"] = kinds
    assert land(local_world, texts).records == 1
    return None


# Files of records.


@case
def a_file_of_records_is_named_by_its_path(local_world: World, tmp_path: Path) -> Steps:
    (tmp_path / "a.jsonl").write_text(GOOD)
    yield partial(land_file, local_world, tmp_path / "b.jsonl"), "read_records.py: correct its path"
    land_file(local_world, tmp_path / "a.jsonl")
    local_world.ingest(NW)
    return [1.5]


@case
def a_file_of_records_may_be_read_by_its_user(local_world: World, root: Path) -> Steps:
    file = root / "a.jsonl"
    file.write_text(GOOD)
    file.chmod(0)
    with writer(local_world) as landing:

        def read() -> None:
            with plain_user():
                for records in read_records(RecordSource(str(file), "jsonl"), landing.schema):
                    landing.accept(records)

        yield read, "let this user read it"
        file.chmod(0o644)
        read()
    local_world.ingest(NW)
    return [1.5]


@case
def a_file_of_records_has_another_format_than_its_name(local_world: World, tmp_path: Path) -> Steps:
    (file := tmp_path / "a.parquet").write_text(GOOD)
    yield partial(land_file, local_world, file), "name its format with --format | let its writer write it again"
    land_file(local_world, file, "jsonl")
    pq.write_table(rows(2, 1), file)
    land_file(local_world, file)
    local_world.ingest(NW)
    return [1.5, 2]


@case
def a_file_of_records_whose_name_shows_no_format_is_given_one(local_world: World, tmp_path: Path) -> Steps:
    (file := tmp_path / "a.txt").write_text(GOOD)
    yield partial(land_file, local_world, file), "give it with --format"
    land_file(local_world, file, "jsonl")
    local_world.ingest(NW)
    return [1.5]


@case
def a_file_of_records_whose_name_is_no_text_is_renamed_or_piped(local_world: World, tmp_path: Path) -> Steps:
    file = tmp_path / os.fsdecode(b"a\xff.csv")
    file.write_text("region,date,id,total\nNW,2026-02-11,1,1.5\n")
    yield partial(land_file, local_world, str(file)), "read_records.py: rename it | pipe it in: `land STREAM --format "
    with file.open("rb") as pipe, writer(local_world) as landing:
        for records in read_records(RecordSource("-", "csv", pipe), landing.schema):
            landing.accept(records)
    land_file(local_world, file.rename(tmp_path / "a.csv"))
    local_world.ingest(NW)
    return [1.5, 1.5]


@case
def parquet_comes_from_a_file(local_world: World, tmp_path: Path) -> Steps:
    pq.write_table(rows(1, 1), tmp_path / "a.parquet")
    yield partial(land_file, local_world, "-", "parquet"), "give a file"
    land_file(local_world, tmp_path / "a.parquet")
    local_world.ingest(NW)
    return [1]


@case
def a_column_of_parquet_that_no_lake_holds_is_a_text(local_world: World, tmp_path: Path) -> Steps:
    file, select = tmp_path / "a.parquet", "SELECT 'NW' region, DATE '2026-02-11' date, 1.5::DOUBLE total"
    duckdb.sql(f"COPY ({select}, INTERVAL 1 DAY AS x) TO '{file}' (FORMAT parquet)")
    yield partial(land_file, local_world, file), "cast it to a type that a lake holds, such as VARCHAR"
    duckdb.sql(f"COPY ({select}, (INTERVAL 1 DAY)::VARCHAR AS x) TO '{file}' (FORMAT parquet)")
    land_file(local_world, file)
    local_world.ingest(NW)
    assert local_world.query("SELECT x FROM lake.sales") == [("1 day",)]
    return [1.5]


# Outputs and the buffer.


@case
def files_that_the_stream_would_not_read_get_another_pattern(local_world: World) -> Steps:
    local_world.options = {"files": "part-*.parquet"}
    yield partial(land, local_world, rows(1, 1)), "write files: '*.parquet' | another pattern that matches them"
    for pattern in ("*.parquet", "batch_*.parquet"):
        local_world.options = {"files": pattern}
        land(local_world, rows(1, 1))
    local_world.ingest(NW)
    return [1, 1]


@case
def an_output_that_cannot_be_made_is_created(local_world: World) -> Steps:
    folder = Path(local_world.source["path"])
    folder.write_text("in the way")
    yield partial(land, local_world, rows(1, 1)), "create this folder | correct its path in the config"
    wrong, local_world.source = local_world.source, {"type": "local", "path": str(folder.with_name("other"))}
    land(local_world, rows(1, 1))
    assert len(list(Path(local_world.source["path"]).rglob("*.parquet"))) == 1
    local_world.source = wrong
    folder.unlink()
    folder.mkdir()
    land(local_world, rows(1, 1))
    local_world.ingest(NW)
    return [1]


@case
def a_web_server_is_no_output(local_world: World) -> Steps:
    folder, local_world.source = local_world.source, {"type": "web", "url": "http://127.0.0.1:9/landing/"}
    columns = {"region": {"values": ["NW"]}, "date": STREAM["partitions"]["date"]}
    local_world.options = {"files": "a.parquet", "partitions": columns}
    yield partial(land, local_world, rows(1, 1)), "name the bucket or folder behind it as the stream's source"
    local_world.source, local_world.options = folder, {}
    land(local_world, rows(1, 1))
    local_world.ingest(NW)
    return [1]


@case
def records_of_which_some_have_arrived_are_landed_again(local_world: World, tmp_path: Path) -> Steps:
    local_world.options = {"landing": {"retries": 0, "max_in_flight": 1}}
    records = pa.concat_tables([rows(1, 1), rows(2, 1, "SW")])
    blocked = Path(local_world.source["path"], "region=SW")
    blocked.parent.mkdir()
    blocked.write_text("in the way")
    errors: list[LakeAssetsError] = []

    def fails() -> None:
        try:
            land(local_world, records)
        except LakeAssetsError as error:
            errors.append(error)
            raise

    yield fails, "deliver.py: start it"
    yield fails, "correct it in the config. Delete the files"
    wrong, local_world.source = local_world.source, {"type": "local", "path": str(tmp_path / "other")}
    land(local_world, records)
    assert len(list(Path(local_world.source["path"]).rglob("*.parquet"))) == 2
    local_world.source = wrong
    blocked.unlink()
    for error in errors:
        (pattern,) = (word for word in error.hint.replace(",", "").split() if word.startswith("batch_*"))
        for file in blocked.parent.rglob(pattern):
            file.unlink()
    land(local_world, records)
    local_world.ingest(NW)
    local_world.ingest(SW)
    return [1, 2]


@case
def a_buffer_keeps_records_while_an_output_is_away(local_world: World, tmp_path: Path) -> Steps:
    local_world.options = {"landing": {"retries": 0}}
    away = Path(local_world.source["path"], "region=NW")
    away.parent.mkdir()
    away.write_text("in the way")
    yield partial(land, local_world, rows(1, 1)), "A `landing.buffer` keeps records while an output is away"
    local_world.options["landing"]["buffer"] = {"path": str(tmp_path / "buffer")}
    land(local_world, rows(1, 1))
    away.unlink()
    drained(local_world)
    local_world.ingest(NW)
    return [1]


@case
def a_stream_gets_a_buffer_to_drain(local_world: World, tmp_path: Path) -> Steps:
    local_world.options = {"landing": {}}
    yield partial(drained, local_world), ".landing.buffer a path"
    local_world.options = {"landing": {"buffer": {"path": str(tmp_path / "buffer")}}}
    drained(local_world)
    return None


@case
def a_buffer_is_a_folder(local_world: World, tmp_path: Path) -> Steps:
    (tmp_path / "file").write_text("")
    local_world.options = {"landing": {"buffer": {"path": str(tmp_path / "file")}}}
    yield partial(land, local_world, rows(1, 1)), "let landing.buffer.path be a folder that this user may write to"
    local_world.options = {"landing": {"buffer": {"path": str(tmp_path / "folder")}}}
    land(local_world, rows(1, 1))
    local_world.ingest(NW)
    return [1]


@case
def a_full_buffer_is_drained_of_what_has_arrived(local_world: World, tmp_path: Path) -> Steps:
    table = rows(0, 20_000).set_column(3, "total", pa.array(np.random.default_rng(1).random(20_000)))
    with small_disk(tmp_path / "buffer", "500k"):
        (tmp_path / "buffer/other").write_bytes(b"x" * 200_000)
        local_world.options = {"landing": {"batch": {"records": 20_000}, "buffer": {"path": str(tmp_path / "buffer")}}}
        land(local_world, table)
        yield partial(land, local_world, table), "buffer.py: free some space"
        (tmp_path / "buffer/other").unlink()
        land(local_world, table)
        yield partial(land, local_world, table), "set landing.buffer.retention_days: 0 and run `lake-assets land"
        local_world.options["landing"]["buffer"]["retention_days"] = 0
        drained(local_world)
        land(local_world, table)
    local_world.ingest(NW)
    assert local_world.query("SELECT count(*) FROM lake.sales") == [(60_000,)]
    return None


@case
def a_buffered_batch_is_readable_for_the_user_who_drains(local_world: World, root: Path) -> Steps:
    away = root / "landing" / "region=NW"
    away.parent.mkdir()
    away.write_text("in the way")
    local_world.source = {"type": "local", "path": str(away.parent)}
    local_world.options = {"landing": {"retries": 0, "buffer": {"path": str(root / "buffer")}}}
    land(local_world, rows(1, 1))
    away.unlink()
    for path in [root, *root.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0)

    def by_user() -> None:
        with plain_user():
            drained(local_world)

    yield by_user, "let this user read it, and drain again"
    for path in (root / "buffer").rglob("batch*"):
        path.chmod(0o644)
    by_user()
    local_world.ingest(NW)
    return [1]


@pytest.mark.parametrize("steps", case)
def test_advice_that_is_followed_ends_in_the_right_rows(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
