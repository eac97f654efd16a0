"""Advice of errors about the paths of landed objects, the partitions of a stream, and what its sensor has seen."""

import datetime as dt
import json
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.servers.moto import KEYS, REGION, Moto, moto
from lake_assets import load_config
from lake_assets.base.errors import LakeAssetsError
from lake_assets.config.sections import SqsSensor
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.lake.commit.extension import register_by_extension
from lake_assets.orchestration.sensors.sqs_queue import Queue
from lake_assets.streams.detection.notifications import object_events
from lake_assets.streams.stream import list_landed
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.advice.cases import Case, Cases, Steps, Verb, follow
from lake_assets_tests.streams.detection.bucket import Bucket
from lake_assets_tests.streams.detection.watch import Watch, stream_of
from lake_assets_tests.world import NW, STREAM, World, sales

__all__ = ["moto"]

case = Cases()
in_seconds = Cases(pytest.mark.more)
DATE = {"date": STREAM["partitions"]["date"]}
DAY = dt.date(2026, 2, 11)
OF_A_TIME = "region={region}/date={at,,YY}-{at,,MM}-{at,,DD}"
OF_AT = {"partitions": {"region": {}, "date": STREAM["partitions"]["date"] | {"from": "at"}}, "layout": OF_A_TIME}
IN_ROWS = {"partitions": {"date": STREAM["partitions"]["date"] | {"in": "rows", "from": "at"}}}
OLAKE = {"template": "/{region,none,}/{at,none,YYYY}-{at,none,MM}-{at,none,DD}", "compat": "olake"}


def load(world: World) -> Verb:
    """Return what loads the config as it is now."""
    return partial(load_config, world.config_file(Path(world.source["path"]).parent))


def land_at(world: World, path: str, *totals: float) -> Path:
    """Land an object at a path below the source; returns its file."""
    with world.landing.create(path) as file:
        pq.write_table(sales(*totals), file)
    return Path(world.source["path"]) / path


def land_rows(world: World, rows: pa.Table) -> None:
    """Land an object that is in no folder."""
    with world.landing.create("a.parquet") as file:
        pq.write_table(rows, file)


def write(world: World, **columns: Any) -> str:
    """Land a row by the landing writer; returns why it was rejected."""
    with LandingWriter("sales", world.config.streams["sales"]) as writer:
        writer.write(pa.table({"total": [1.0], "region": ["NW"]} | (columns or {"date": [DAY]})))

    return writer.landed().reason


def rejected(world: World, **columns: Any) -> None:
    """Raise why a row is rejected that does not fit."""
    raise LakeAssetsError("the row was rejected:", write(world, **columns))


def status(world: World) -> None:
    """Raise why an object of the landing zone is in no partition, as commands tell it."""
    for left_out in list_landed(world.stream)[1].objects:
        raise left_out.why


# The template.


@case
def two_values_of_a_folder_are_separated(local_world: World) -> Steps:
    local_world.options = {"layout": "region={region}A{date}"}
    yield load(local_world), "put a character between them that is not a digit, A to F or %, such as -"
    local_world.options = {"layout": "region={region}-{date}"}
    land_at(local_world, "region=NW-2026-02-11/a.parquet", 1)
    return [1] if local_world.ingest(NW) else None


@case
def a_granularity_has_one_of_five_names(local_world: World) -> Steps:
    local_world.options = {"layout": "region={region}/date={date,,DAY}"}
    yield load(local_world), "write YY, MM, WW, DD or HH | grammar.py: leave it out"
    local_world.options = {"layout": "region={region}/date={date,,YY}-{date,,MM}-{date,,DD}"}
    write(local_world)
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.options = {"layout": "region={region}/date={date}"}
    load(local_world)()
    return [1]


def with_layout(world: World, layout: str, files: str = "*.parquet") -> Verb:
    """Return what loads the config with this layout."""
    world.options = {"layout": layout, "files": files}
    return load(world)


@case
def folders_of_a_layout_are_below_the_source_and_have_names(local_world: World) -> Steps:
    yield with_layout(local_world, "/"), "name the partition columns, as in region={region}/date={date}"
    yield with_layout(local_world, "region={region}//date={date}"), "write one / between two folders"
    yield with_layout(local_world, "../region={region}/date={date}"), "write folders below the source, without . and .."
    yield with_layout(local_world, "region={region}\\date={date}"), "remove it, / separates folders"
    yield with_layout(local_world, "region=*/date={date}"), "name the column that varies, as in region={region}"
    with_layout(local_world, "region={region}/date={date}")()
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    return [1]


@case
def brackets_of_a_layout_are_closed_around_a_column(local_world: World) -> Steps:
    attempt = with_layout(local_world, "region={region}}/date={date}")
    yield attempt, "grammar.py: remove it | write {column,default,granularity}"
    with_layout(local_world, "region={region}/date={date}")()
    yield with_layout(local_world, "region={region/date={date}"), "write {column,default,granularity}"
    yield with_layout(local_world, "region={region,a,,b}/date={date}"), "write {column,default,granularity}"
    attempt = with_layout(local_world, "region={region,'a}/date={date}")
    yield attempt, "close it before } or a comma, and write ' in it twice"
    yield with_layout(local_world, "region={}/date={date}"), "write {column} or {now(),,YY}"
    yield with_layout(local_world, "region={region}{date}"), "put a text between, such as -"
    with_layout(local_world, "region={region,'it''s',}-{date}")()
    land_at(local_world, "region=NW-2026-02-11/a.parquet", 1)
    local_world.ingest(NW)
    return [1]


@case
def the_time_of_a_run_has_a_granularity_and_a_name(local_world: World) -> Steps:
    region = "region={region}/date={date}/"
    yield with_layout(local_world, region + "{now()}"), ",,YY}, with YY, MM, WW, DD or HH"
    yield with_layout(local_world, region + "{today(),,YY}"), ",,YY}"
    yield with_layout(local_world, region + "date={now(),,YY}"), "give the folder another name"
    with_layout(local_world, region + "year={now(),,YY}")()
    land_at(local_world, "region=NW/date=2026-02-11/year=2026/a.parquet", 1)
    local_world.options["path_columns"] = {"year": "integer"}
    local_world.ingest(NW)
    return [1]


@case
def values_in_names_of_files_are_between_texts(local_world: World) -> Steps:
    yield with_layout(local_world, "region={region}", "b/{date}_*.parquet"), "write the folders as `layout`"
    attempt = with_layout(local_world, "region={region}", "{date}_{now(),,YY}.parquet")
    yield attempt, "write * for the time in the name of"
    yield with_layout(local_world, "region={region}", "{date}"), "write the text behind it, such as .parquet"
    with_layout(local_world, "region={region}/b", "{date}_*.parquet")()
    land_at(local_world, "region=NW/b/2026-02-11_7.parquet", 1)
    local_world.ingest(NW)
    return [1]


@case
def a_number_of_a_path_has_digits_and_64_bits(local_world: World) -> Steps:
    local_world.options = {"partitions": {"region": {"type": "integer"}} | DATE}
    land_at(local_world, "region=7/date=2026-02-11/a.parquet", 1)
    yield partial(local_world.ingest, "region=seven,date=2026-02-11"), "write it in the digits 0 to 9, such as 2026"
    large = f"region={2**63}/date=2026-02-11"
    yield partial(local_world.ingest, large.replace("/", ",")), "write a number from | use type: string"
    local_world.ingest("region=7,date=2026-02-11")
    land_at(local_world, f"{large}/a.parquet", 2)
    local_world.options = {"destination": {"table": "texts"}}
    local_world.ingest(large.replace("/", ","))
    assert local_world.query("SELECT s.total, t.total FROM lake.sales s, lake.texts t") == [(1, 2)]
    return None


@case
def a_folder_that_is_a_value_alone_gets_a_name(local_world: World) -> Steps:
    local_world.options = {"layout": "{region}/{date}", "partitions": {"region": {"empty": "value"}} | DATE}
    yield load(local_world), "an empty value would leave it without a name, so write "
    local_world.options["layout"] = "region={region}/{date}"
    land_at(local_world, "region=/2026-02-11/a.parquet", 1)
    local_world.ingest("region=,date=2026-02-11")
    return [1]


@case
def files_and_nested_folders_do_not_both_have_values(local_world: World) -> Steps:
    local_world.options = {"layout": {"template": "region={region}", "nested": True}, "files": "{date}_*.parquet"}
    yield load(local_world), "name the values in the layout only | leave nested and compat out"
    local_world.options = {"layout": {"template": "region={region}/date={date}", "nested": True}}
    load(local_world)()
    local_world.options = {"layout": "region={region}", "files": "{date}_*.parquet"}
    land_at(local_world, "region=NW/2026-02-11_a.parquet", 1)
    local_world.ingest(NW)
    return [1]


@case
def a_column_of_the_layout_gets_a_name_that_no_other_has(local_world: World) -> Steps:
    columns = {"region": {}, "date": DATE["date"] | {"from": "day"}}
    local_world.options = {"layout": "region={region}/{date}/{day}", "partitions": columns}
    yield load(local_world), "take another name"
    columns["day"] = columns.pop("date") | {"from": None}
    local_world.options |= {"partitions": columns, "path_columns": {"date": "string"}}
    land_at(local_world, "region=NW/winter/2026-02-11/a.parquet", 1)
    local_world.ingest("region=NW,day=2026-02-11")
    assert local_world.query("SELECT date, day::VARCHAR FROM lake.sales") == [("winter", "2026-02-11")]
    return [1]


@case
def a_time_zone_is_named_as_the_tz_database_has_it(local_world: World) -> Steps:
    layout = {"template": OF_A_TIME, "time_zone": "Berlin"}
    local_world.options = OF_AT | {"layout": layout}
    yield load(local_world), "write it as Europe/Berlin or UTC"
    layout["time_zone"] = "Europe/Berlin"
    write(local_world, at=[dt.datetime(2026, 2, 10, 23, 30, tzinfo=dt.UTC)])
    local_world.ingest(NW)
    return [1]


@case
def paths_of_olake_have_no_time_zone(local_world: World) -> Steps:
    local_world.options = OF_AT | {"layout": OLAKE | {"time_zone": "Europe/Berlin"}}
    yield load(local_world), "leave it out. OLake's paths are in UTC"
    local_world.options = OF_AT | {"layout": OLAKE}
    write(local_world, at=[DAY])
    local_world.ingest(NW)
    return [1]


@case
def a_value_that_leads_out_of_the_source_is_another(local_world: World) -> Steps:
    local_world.options = OF_AT | {"layout": OLAKE}
    yield partial(local_world.ingest, "region=..,date=2026-02-11"), "use another value | leave compat out"
    write(local_world, at=[DAY])
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.options = OF_AT
    write(local_world, region=[".."], at=[DAY], total=[2.0])
    local_world.ingest("region=..,date=2026-02-11")
    return [1, 2]


# The values of records, in paths.


@case
def a_column_that_the_layout_needs_is_added_or_has_a_default(local_world: World) -> Steps:
    local_world.options = {"layout": "region={region}/date={date}/store={store}", "path_columns": {"store": "string"}}
    yield partial(write, local_world), "give it a default: "
    write(local_world, date=[DAY], store=["a"])
    local_world.options["layout"] = "region={region}/date={date}/store={store,unknown}"
    write(local_world, date=[DAY], total=[2.0])
    local_world.ingest(NW)
    return [1, 2]


@case
def a_type_that_paths_cannot_hold_is_cast(local_world: World) -> Steps:
    for kind in (pa.binary(), pa.float64()):
        values = pa.array(["7"]).cast(kind)
        attempt = partial(write, local_world, date=[DAY], region=values)
        yield attempt, "cast it to a string, an integer, a decimal, a date or"
    for kind in (pa.string(), pa.int64(), pa.decimal128(19, 0)):
        write(local_world, date=[DAY], region=pa.array([7]).cast(kind))
    local_world.ingest("region=7,date=2026-02-11")
    return [1, 1, 1]


@case
def a_column_whose_part_is_in_the_path_is_a_time(local_world: World) -> Steps:
    local_world.options = OF_AT
    yield partial(write, local_world, at=[20260211]), "cast the column to a date or a timestamp"
    for time in (DAY, dt.datetime(2026, 2, 11, 9, tzinfo=dt.UTC)):
        rmtree(local_world.source["path"], ignore_errors=True)
        write(local_world, at=[time])
        assert [str(p) for p in list_landed(local_world.stream)[0]] == ["region=NW/date=2026-02-11"]
    local_world.ingest(NW)
    return [1]


@case
def a_column_that_is_no_time_has_no_granularity(local_world: World) -> Steps:
    local_world.options = {"partitions": {"year": {"type": "year", "start": "2026-01-01"}}, "layout": "{year,,YY}"}
    yield partial(write, local_world, year=[2026]), "leave the granularity out of the layout"
    local_world.options["layout"] = "{year}"
    write(local_world, year=[2026])
    local_world.ingest("year=2026")
    assert local_world.query("SELECT year, total FROM lake.sales") == [(2026, 1)]
    return None


@case
def a_time_that_no_path_holds_is_null_or_another(local_world: World) -> Steps:
    local_world.options = OF_AT
    year_10000 = pa.array([253_402_300_800], pa.timestamp("s"))
    yield partial(rejected, local_world, at=year_10000), "give it a time within these years"
    write(local_world, at=pa.array([1_770_800_000], pa.timestamp("s")))
    local_world.ingest(NW)
    return [1]


# A partition as it is written.


@case
def a_part_of_a_time_is_written_as_the_layout_has_it(local_world: World) -> Steps:
    local_world.options = {"partitions": {"ts": {}}, "layout": "month={ts,,YY}-{ts,,MM}"}
    land_at(local_world, "month=2026-02/a.parquet", 1)
    yield partial(local_world.ingest, "ts=February"), "write it as "
    local_world.ingest("ts=2026-02")
    assert local_world.query("SELECT total FROM lake.sales") == [(1,)]
    return None


@case
def a_partition_is_named_by_values_that_a_path_has(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    attempt = partial(local_world.stream.partition, region=1.5, date=DAY)
    yield attempt, "give a text, a whole number, a date | None for NULL"
    assert str(local_world.stream.partition(region="NW", date=DAY).partition) == "region=NW/date=2026-02-11"
    assert str(local_world.stream.partition(region=7, date=None).partition).endswith("date=__HIVE_DEFAULT_PARTITION__")
    return None


@case
def a_partition_names_each_column_with_its_value_once(local_world: World) -> Steps:
    for text in ("NW", "region=NW,region=SW", "region=N,W,date=2026-02-11"):
        yield partial(local_world.partition, text), "write each column once, such as region=NW,date=2026-02-11"
    local_world.land(NW, sales(1))
    local_world.ingest("region=NW,date=2026-02-11")
    assert local_world.partition("region=N%2CW,date=2026-02-11").values[0] == "N,W"
    return [1]


@case
def a_table_without_partition_columns_is_one_partition(local_world: World) -> Steps:
    local_world.options = {"partitions": {}}
    land_at(local_world, "a.parquet", 1)
    yield partial(local_world.ingest, NW), "its one partition"
    local_world.ingest("all")
    assert local_world.query("SELECT total FROM lake.sales") == [(1,)]
    return None


@case
def a_number_is_written_as_its_folder(local_world: World) -> Steps:
    local_world.options = {"partitions": {"region": {"type": "integer"}} | DATE}
    file = land_at(local_world, "region=007/date=2026-02-11/a.parquet", 1)
    yield partial(local_world.ingest, "region=007,date=2026-02-11"), ", and move objects of other folders there"
    yield partial(status, local_world), "move the object there"
    file.parents[1].rename(file.parents[2] / "region=7")
    local_world.ingest("region=7,date=2026-02-11")
    return [1]


@case
def a_null_of_the_path_is_written_as_such(local_world: World) -> Steps:
    folder = "region=__HIVE_DEFAULT_PARTITION__/date=2026-02-11"
    land_at(local_world, f"{folder}/a.parquet", 1)
    attempt = partial(local_world.ingest, "region=,date=2026-02-11")
    yield attempt, " for NULL | set `empty: value` or `empty: null` for the column in the config"
    local_world.ingest(folder.replace("/", ","))
    assert local_world.totals() == [1]
    local_world.options = {"partitions": {"region": {"empty": "null"}} | DATE}
    local_world.ingest("region=,date=2026-02-11")
    return [1]


@case
def bytes_of_a_partition_are_a_text(local_world: World) -> Steps:
    broken = b"M\xfcnchen".decode(errors="surrogateescape")
    attempt = partial(local_world.ingest, f"region={broken},date=2026-02-11")
    yield attempt, "write it in UTF-8 | partition.py: rename the folder"
    folder = land_at(local_world, "region=München/date=2026-02-11/a.parquet", 1).parents[1]
    folder.rename(folder.with_name(f"region={broken}")).rename(folder)
    local_world.ingest("region=München,date=2026-02-11")
    return [1]


# Objects that are in no partition.


@case
def a_folder_whose_encoding_is_not_utf_8_is_renamed(local_world: World) -> Steps:
    file = land_at(local_world, "region=M%FCnchen/date=2026-02-11/a.parquet", 1)
    yield partial(status, local_world), "hive.py: rename the folder"
    file.parents[1].rename(file.parents[2] / "region=M%C3%BCnchen")
    status(local_world)
    local_world.ingest("region=München,date=2026-02-11")
    return [1]


@case
def a_name_that_is_not_utf_8_is_renamed(local_world: World) -> Steps:
    file = land_at(local_world, "region=NW/date=2026-02-11/a.parquet", 1)
    other = file.rename(file.with_name(b"\xfc.parquet".decode(errors="surrogateescape")))
    yield partial(status, local_world), "locator.py: rename it"
    other.rename(file)
    local_world.ingest(NW)
    return [1]


@case
def a_hidden_object_is_renamed(local_world: World) -> Steps:
    file = land_at(local_world, "region=NW/date=2026-02-11/_a.parquet", 1)
    yield partial(status, local_world), "rename the file"
    hidden = file.rename(file.with_name("a.parquet")).parents[1].rename(file.parents[2] / "_NW")
    yield partial(status, local_world), "the folder if the layout cannot produce it"
    hidden.rename(hidden.with_name("region=NW"))
    status(local_world)
    local_world.ingest(NW)
    return [1]


@case
def an_object_of_another_name_is_moved_away_or_is_data(local_world: World) -> Steps:
    file = land_at(local_world, "region=NW/date=2026-02-11/a.pq", 1)
    yield partial(status, local_world), "correct `files` | move the object away"
    local_world.options = {"files": "*.pq"}
    status(local_world)
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.options = {}
    file.rename(Path(local_world.source["path"]).with_name("a.pq"))
    status(local_world)
    return None


@case
def an_object_whose_name_has_another_spelling_is_renamed(local_world: World) -> Steps:
    local_world.options = {"partitions": {"region": {"type": "integer"}} | DATE, "files": "{region}_{date}_*.parquet"}
    file = land_at(local_world, "07_2026-02-11_a.parquet", 1)
    yield partial(status, local_world), "rename the object"
    file.rename(file.with_name("7_2026-02-11_a.parquet"))
    status(local_world)
    local_world.ingest("region=7,date=2026-02-11")
    return [1]


@case
def a_partition_that_the_lake_has_decomposed_is_exact(local_world: World) -> Steps:
    file = land_at(local_world, "region=Sa\u0303o/date=2026-02-11/a.parquet", 1)
    exact = {"partitions": {"region": {"exact": True}} | DATE}

    def refresh() -> None:
        (outcome,) = ingest_all(local_world.stream, list(list_landed(local_world.stream)[0]), local_world.sessions)
        if outcome.error is not None:
            raise outcome.error

    local_world.options = exact
    refresh()
    local_world.options = {}
    yield refresh, "set `exact: true` for "
    local_world.options = exact
    refresh()
    assert local_world.totals() == [1]
    # The way to the composed letters: the folder is renamed, and the partition of the decomposed ones cleared.
    (renamed := file.parents[2] / "region=S\u00e3o").mkdir()
    file.parent.rename(renamed / file.parent.name)
    local_world.options = exact | {"on_empty": "clear"}
    local_world.ingest("region=Sa\u0303o,date=2026-02-11")
    local_world.options = {}
    refresh()
    return [1]


@case
def a_folder_without_a_value_is_renamed_or_has_a_meaning(local_world: World) -> Steps:
    file = land_at(local_world, "region=/date=2026-02-11/a.parquet", 1)
    attempt = partial(status, local_world)
    yield attempt, "set `empty: value` or `empty: null` for the column in the config | rename the folder ("
    local_world.options = {"partitions": {"region": {"empty": "value"}} | DATE}
    status(local_world)
    local_world.ingest("region=,date=2026-02-11")
    assert local_world.totals() == [1]
    local_world.options = {}
    file.parents[1].rename(file.parents[2] / "region=__HIVE_DEFAULT_PARTITION__")
    status(local_world)
    return None


# The partitions that the config has.


@case
def a_value_that_the_config_lacks_is_added_or_none_are_named(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    local_world.options = {"partitions": {"region": {"values": ["NE"]}} | DATE}
    yield "add it to `values` | leave `values` out so that new ones are found"
    local_world.options = {"partitions": {"region": {"values": ["NE", "NW"]}} | DATE}
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.options = {"partitions": {"region": {}} | DATE}
    assert [outcome.row.status for outcome in local_world.stream.ingest("region=*")] == ["skipped"]
    return [1]


@case
def a_day_after_the_end_moves_it(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    for end in ({"end": "2026-02-11"}, {}):
        local_world.options = {"partitions": {"region": {}, "date": DATE["date"] | {"end": "2026-02-10"}}}
        yield "move `end` | calendar.py: leave it out"
        local_world.options = {"partitions": {"region": {}, "date": DATE["date"] | end}}
        local_world.ingest(NW, force=True)
    return [1]


@case
def a_day_of_the_future_is_ingested_anyway(local_world: World) -> Steps:
    later = "region=NW,date=2999-02-11"
    local_world.land(later, sales(1))
    yield partial(local_world.ingest, later), "Use --outside to ingest it anyway"
    local_world.ingest(later, outside=True)
    return [1]


@case
def a_day_that_is_null_is_ingested_anyway_or_landed(local_world: World) -> Steps:
    folder = "region=NW/date=__HIVE_DEFAULT_PARTITION__"
    land_at(local_world, f"{folder}/a.parquet", 1)
    attempt = partial(local_world.ingest, folder.replace("/", ","))
    yield attempt, "ingest it with `--outside` | land its rows with a value of"
    local_world.ingest(folder.replace("/", ","), outside=True)
    assert local_world.query("SELECT date, total FROM lake.sales") == [(None, 1)]
    local_world.commit(NW, 2)
    return [1, 2]


@case
def a_day_of_the_future_is_ingested_by_the_sensor_when_it_comes() -> Steps:
    stream = stream_of(layout="region={region}/date={date}")
    bucket = Bucket.of(["region=NW/date=2026-02-12/a.parquet"])
    watch = Watch(stream, bucket)

    def reported() -> None:
        for unmatched in watch.scan().unmatched:
            raise LakeAssetsError("an object is left out:", unmatched.reason)

    yield reported, "It is ingested when its time has come"
    watch.now += dt.timedelta(days=1)
    assert watch.tick() == ["NW 2026-02-12"]
    return None


@in_seconds
def a_value_in_the_rows_is_of_the_type_of_its_column(local_world: World) -> Steps:
    local_world.options = {"partitions": {"shop": {"in": "rows", "type": "integer"}}}
    land_rows(local_world, pa.table({"total": [1.0, 2.0], "shop": ["7", "b"]}))
    yield partial(local_world.stream.ingest, "shop=*"), "row_values.py: correct the value | the type in the config"
    land_rows(local_world, pa.table({"total": [1.0, 2.0], "shop": ["7", "8"]}))
    local_world.stream.ingest("shop=*")
    assert local_world.query("SELECT shop, total FROM lake.sales ORDER BY 1") == [(7, 1), (8, 2)]
    land_rows(local_world, pa.table({"total": [1.0, 2.0], "shop": ["7", "b"]}))
    local_world.options = {"partitions": {"shop": {"in": "rows"}}, "destination": {"table": "shops"}}
    local_world.stream.ingest("shop=*")
    assert local_world.query("SELECT shop, total FROM lake.shops ORDER BY 1") == [("7", 1), ("b", 2)]
    return None


@case
def a_text_in_the_rows_from_which_a_day_is_derived_is_a_timestamp(local_world: World) -> Steps:
    local_world.options = IN_ROWS
    land_rows(local_world, pa.table({"total": [1.0, 2.0], "at": ["2026-02-11T09:00:00Z", "noon"]}))
    yield partial(local_world.ingest, "date=2026-02-11"), "write it as a timestamp such as 2026-02-11T13:45:00Z"
    land_rows(local_world, pa.table({"total": [1.0, 2.0], "at": ["2026-02-11T09:00:00Z", "2026-02-11T13:45:00Z"]}))
    local_world.ingest("date=2026-02-11")
    assert local_world.query("SELECT total FROM lake.sales ORDER BY 1") == [(1,), (2,)]
    return None


@case
def a_column_from_which_a_day_is_derived_is_a_time_or_another(local_world: World) -> Steps:
    local_world.options = IN_ROWS
    rows = {"total": [1.0], "at": [20260211], "sold": [DAY]}
    land_rows(local_world, pa.table(rows))
    yield partial(local_world.ingest, "date=2026-02-11"), "name another column as `from` of "
    date = {"type": "date", "in": "rows", "from": "sold", "start": "2026-01-01"}
    local_world.options = {"partitions": {"date": date}, "destination": {"table": "others"}}
    local_world.ingest("date=2026-02-11")
    land_rows(local_world, pa.table(rows | {"at": [dt.datetime(2026, 2, 11, 9, tzinfo=dt.UTC)]}))
    local_world.options = IN_ROWS
    local_world.ingest("date=2026-02-11")
    assert local_world.query("SELECT s.total, o.total FROM lake.sales s, lake.others o") == [(1, 1)]
    return None


@case
def a_column_of_the_rows_with_many_values_has_some_or_is_another(local_world: World) -> Steps:
    many = pa.table({"total": [float(n) for n in range(10_001)], "id": range(10_001), "shop": [7] * 10_001})
    local_world.options = {"partitions": {"id": {"in": "rows", "type": "integer"}}}
    land_rows(local_world, many)
    yield partial(local_world.stream.ingest, "id=*"), "give the `values` of | choose another partition column"
    local_world.options = {"partitions": {"id": {"in": "rows", "type": "integer", "values": [1, 2]}}}
    local_world.stream.ingest("id=*")
    assert local_world.query("SELECT total FROM lake.sales") == [(1,), (2,)]
    local_world.options = {"partitions": {"shop": {"in": "rows", "type": "integer"}}, "destination": {"table": "shops"}}
    local_world.stream.ingest("shop=*")
    assert local_world.query("SELECT count(*) FROM lake.shops WHERE shop = 7") == [(10_001,)]
    return None


@case
def a_folder_that_is_not_named_like_its_column(local_world: World, monkeypatch: pytest.MonkeyPatch) -> Steps:
    monkeypatch.setattr("lake_assets.lake.commit.strategy.REGISTER_STRATEGIES", (register_by_extension,))
    local_world.options = {"mode": "index", "layout": "area={region}/date={date}"}
    with local_world.landing.create("area=NW/date=2026-02-11/a.parquet") as file:
        pq.write_table(sales(1), file)
    yield "extension.py: use mode: replace | name the partition column like the folder"
    local_world.options |= {"partitions": {"area": {}, "date": STREAM["partitions"]["date"]}}
    local_world.options |= {"layout": "area={area}/date={date}", "destination": {"table": "named"}}
    local_world.ingest("area=NW,date=2026-02-11")
    assert local_world.query("SELECT total, area FROM lake.named") == [(1, "NW")]
    local_world.options = {"mode": "replace", "layout": "area={region}/date={date}"}
    return [1]


# Sensors.


@case
def a_layout_with_many_folders_before_the_time_has_the_time_first() -> Steps:
    keys = [f"region={number}/date=2026-02-11/a.parquet" for number in range(2001)]
    yield Watch(stream_of(layout="region={region}/date={date}"), Bucket.of(keys)).scan, "put the time before them in"
    keys = [f"date=2026-02-11/region={number}/a.parquet" for number in range(2001)]
    watch = Watch(stream_of(layout="date={date}/region={region}", max_runs=1000), Bucket.of(keys))
    assert len(watch.tick_until_quiet(3)) == 2001
    return None


@case
def a_message_that_is_no_notification_moves_to_another_queue(moto: Moto) -> Steps:
    url, dead = moto.new_queue(VisibilityTimeout="0"), moto.new_queue()
    moto.send(url, "hello")
    queue = Queue(SqsSensor.model_validate({"type": "sqs", "queue_url": url, "wait": 0, **KEYS}))
    yield lambda: [object_events(message.body) for message in queue.receive()], "give the queue a redrive policy"
    target = f"arn:aws:sqs:{REGION}:123456789012:{dead.rpartition('/')[2]}"
    policy = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 1})
    moto.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})
    assert [queue.receive(), queue.receive()][1] == ()
    assert (moto.left(url), moto.left(dead)) == (0, 1)
    return None


@pytest.mark.parametrize("steps", [*case, *in_seconds])
def test_advice_that_is_followed_ends_in_the_right_rows(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
