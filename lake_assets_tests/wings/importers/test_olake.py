"""`lake-assets import olake`: the config of OLake's catalog finds each file that OLake writes, and its rows enter."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from lake_assets.api import open_stream
from lake_assets.base.errors import SchemaError
from lake_assets.cli import main
from lake_assets.config.layout.template import Template
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.streams.load import load_config
from lake_assets.streams.pending import scan_landing
from lake_assets.streams.select import only_partition
from lake_assets.streams.stream import OpenStream, list_landed
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import World

CATALOG: dict[str, Any] = {
    "selected_streams": {
        "shop's db": [
            {"stream_name": "orders", "partition_regex": "/{region,unknown,}/{day,,YYYY}-{day,,MM}-{day,,DD}"},
        ],
        "other": [{"stream_name": "orders", "partition_regex": "{region,,}"}],
    },
    "streams": [{"stream": {"name": "orders", "namespace": "shop's db", "sync_mode": "cdc"}}],
}


# A catalog of OLake's page on S3 partitioning, as it is written there.
SAMPLE = """{"selected_streams": {"otter_db": [
{"stream_name": "stream_8",
 "partition_regex": "{title,,}/{now(),2025,YY}-{now(),06,MM}-{now(),13,DD}/{latest_revision,,}"},
{"stream_name": "stream_0", "partition_regex": "{now(),2025,YY}-{now(),06,MM}-{now(),13,DD}/{string_change_language,,}"}
]}
// Additional configuration...
}"""

# Each form of partition_regex on that page, and the partition columns that a stream of ours has for it.
TIMESTAMP = "{timestamp_column,2025,YY}-{timestamp_column,12,MM}-{timestamp_column,13,DD}"
REGEXES: dict[str, list[str]] = {
    "/{title,,}/{now(),2025,DD}/{latest_version,,}": ["title_of_path", "olake_day"],
    "{now(),2025,YY}": ["olake_year"],
    "{now(),2025,YY}-{now(),06,MM}": ["olake_month"],
    "{now(),2025,YY}-{now(),06,MM}-{now(),13,DD}": ["olake_date"],
    TIMESTAMP: ["timestamp_column_date"],
    "/age={age, unknown,}/location=city-{city,unknown,}/type={type,default,}": ["age_of_path", "city_of_path"],
    "/dt={now(),2025,YY}-{now(),06,MM}-{now(),13,DD}/country={country,default_country,}/city={city,default_city,}": [
        "dt",
        "country_of_path",
    ],
}

# Records of four times, two of them without one, and with values that OLake writes as they are.
TIMES = (dt.datetime(2024, 2, 29, 23, 59, 59), dt.datetime(2025, 2, 18, 10), dt.datetime(2026, 11, 1), None)  # noqa: DTZ001
TEXTS = ("Hi & more", "delhi", "x=1", None)
NOWS = (dt.datetime(2025, 2, 18, 10, tzinfo=dt.UTC), dt.datetime(2026, 1, 9, 1, tzinfo=dt.UTC))


def imported(folder: Path, catalog: object, *options: str) -> Result:
    file = folder / "catalog.json"
    file.write_text(catalog if isinstance(catalog, str) else json.dumps(catalog))
    return CliRunner().invoke(main, ["import", "olake", str(file), *options])


def opened(folder: Path, catalog: object, *streams: str) -> list[OpenStream]:
    """The streams of the imported config, whose files lie in `olake/`."""
    result = imported(folder, catalog, "--source", str(folder / "olake"), "--lake", str(folder / "new"))
    assert result.exit_code == 0, result.output
    (folder / "lake.yaml").write_text(result.stdout)
    config = load_config(folder / "lake.yaml")
    return [open_stream(config, name) for name in streams or config.streams]


def land(folder: Path, template: Template) -> int:
    """Write the records as OLake does, one file a path and record; the number of files."""
    written = 0
    names = dict.fromkeys(place.column for place in template.placeholders if not place.is_now)
    for number, now in enumerate(NOWS):
        for time, text in zip(TIMES, TEXTS, strict=True):
            record = {name: time if "timestamp" in name else text for name in names}
            path = folder / template.render_row(record, now=now)
            path.mkdir(parents=True, exist_ok=True)
            types = {name: pa.timestamp("us") if "timestamp" in name else pa.string() for name in names}
            columns = {"id": pa.array([number]), "_olake_timestamp": pa.array([now], pa.timestamp("us", "UTC"))}
            columns |= {name: pa.array([value], types[name]) for name, value in record.items()}
            pq.write_table(pa.table(columns), path / f"{number}-{written}.parquet")
            written += 1
    return written


def of_regex(regex: str) -> dict[str, object]:
    return {"selected_streams": {"otter_db": [{"partition_regex": regex, "stream_name": "stream_0"}]}}


def rows_in_the_lake(stream: OpenStream, world: World) -> int:
    """Ingest all that has landed, and count the rows."""
    landed, outside = list_landed(stream)
    assert outside.unmatched == ()
    outcomes = list(ingest_all(stream, landed, world.sessions))
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    with stream.lake.open() as lake:
        ((count,),) = lake.rows(f"SELECT count(*) FROM {stream.table.sql}")
    return int(str(count))


def test_the_output_is_a_valid_config(tmp_path: Path) -> None:
    result = imported(tmp_path, CATALOG)

    assert result.exit_code == 0, result.output
    written = tmp_path / "lake.yaml"
    written.write_text(result.stdout)
    validated = CliRunner().invoke(main, ["--config", str(written), "validate"])
    assert validated.exit_code == 0, validated.output
    streams = load_config(written).streams
    assert list(streams) == ["orders", "other_orders"]
    assert streams["orders"].template.compat == "olake"
    assert [(c.name, c.type) for c in streams["orders"].partition_columns] == [
        ("region_of_path", "string"),
        ("day_date", "date"),
    ]
    assert result.stdout.count("sync_mode cdc") == 1  # of the namespace that has it


def test_a_columns_type_is_that_of_the_catalogs_schema(tmp_path: Path) -> None:
    types = {"n": ["integer", "null"], "b": ["boolean"], "ts": ["timestamp_micro", "null"], "ts_date": ["string"]}
    schema = {"properties": {name: {"type": of} for name, of in types.items()}}
    selected = {"stream_name": "s", "partition_regex": "n={n,,}/{ts,,YYYY}-{ts,,MM}-{ts,,DD}/{b,,}"}
    stream = {"name": "s", "namespace": "db", "type_schema": schema, "destination_database": "pg_db:public"}

    (item,) = opened(tmp_path, {"selected_streams": {"db": [selected]}, "streams": [{"stream": stream}]})

    assert [(c.name, c.type) for c in item.config.partition_columns] == [
        ("n_of_path", "integer"),
        ("ts_date_of_path", "date"),
    ]
    assert list(item.config.path_columns) == []
    assert item.layout_uri.endswith("olake/pg_db_public/s/n={n,,}/{ts,,YYYY}-{ts,,MM}-{ts,,DD}/{b,,}")


@pytest.mark.parametrize(("regex", "columns"), REGEXES.items())
def test_each_template_of_the_reference_finds_every_file(tmp_path: Path, regex: str, columns: list[str]) -> None:
    (stream,) = opened(tmp_path, of_regex(regex))
    written = land(tmp_path / "olake" / "otter_db" / "stream_0", Template.parse(regex, compat="olake"))

    found, outside = list_landed(stream)

    assert [column.name for column in stream.config.partition_columns] == columns
    assert outside.unmatched == ()
    assert sum(len(stream.manifest(partition).objects) for partition in found) == written


def test_files_of_the_reference_sample_reach_the_lake(tmp_path: Path, local_world: World) -> None:
    (stream,) = opened(tmp_path, SAMPLE, "stream_8")
    layout = stream.config.layout
    assert layout is not None
    folder = Path(stream.source.uri("").removeprefix("file://"))
    written = land(folder, Template.parse(layout.template, compat="olake"))

    assert rows_in_the_lake(stream, local_world) == written


def test_a_stream_without_partitions_has_one_that_is_ingested_without_an_option(
    tmp_path: Path, local_world: World
) -> None:
    (stream,) = opened(tmp_path, of_regex(""))
    written = land(tmp_path / "olake" / "otter_db" / "stream_0", Template.parse("", compat="olake"))

    assert only_partition(stream.config) == stream.config.partition("olake_folder=")
    assert list(scan_landing(stream).pending) == [only_partition(stream.config)]
    assert rows_in_the_lake(stream, local_world) == written
    state = read_stream_state(stream)
    assert [(found.partition.path, found.state) for found in state.partitions] == [("olake_folder=", "committed")]
    assert list(scan_landing(stream).pending) == []


@pytest.mark.parametrize(
    ("regex", "type_", "values"),
    [
        ("city={city,default_city,}", "string", ["default_city", None, "delhi", "", "null", "a/b", "a//b/", "x=1 %"]),
        *more(
            [
                ("{city,,}/{day,,YYYY}", "string", ["default_city", None, "delhi", "", "a/b"]),
                ("country={country,,}/city={city,unknown,}", "string", ["unknown", None, "", "delhi"]),
                ("{n,0,}", "integer", [0, None, 7, -1]),
                ("n={n,unknown,}", "integer", [0, None, 7]),
                ("{b,false,}", "boolean", [False, None, True]),
            ]
        ),
    ],
)
def test_every_record_enters_and_keeps_its_value(
    tmp_path: Path, local_world: World, regex: str, type_: str, values: list[Any]
) -> None:
    name = next(name for name in ("city", "n", "b") if f"{{{name}," in regex)
    arrow = {"string": pa.string(), "integer": pa.int64(), "boolean": pa.bool_()}[type_]
    schema = {"properties": {name: {"type": [type_, "null"]}}}
    catalog = of_regex(regex) | {
        "streams": [{"stream": {"name": "stream_0", "namespace": "otter_db", "type_schema": schema}}]
    }
    (stream,) = opened(tmp_path, catalog)
    template = Template.parse(regex, compat="olake")
    day = dt.datetime(2026, 2, 11, 10)  # noqa: DTZ001
    for number, value in enumerate(values):
        record = {name: value, "day": day, "country": ""}
        folder = tmp_path / "olake" / "otter_db" / "stream_0" / template.render_row(record)
        folder.mkdir(parents=True, exist_ok=True)
        columns = {"id": pa.array([number]), name: pa.array([value], arrow), "day": [day], "country": [""]}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")

    assert rows_in_the_lake(stream, local_world) == len(values)
    with stream.lake.open() as lake:
        assert lake.rows(f"SELECT {name} FROM {stream.table.sql} ORDER BY id") == [(value,) for value in values]
    assert [name for name in checks_of(stream) if not run_check(stream, name, Scope()).passed] == []


def test_a_partition_column_of_the_rows_own_name_says_how_rows_of_the_default_enter(local_world: World) -> None:
    local_world.options = {"layout": {"template": "{city,,}", "compat": "olake"}, "partitions": {"city": {}}}
    with local_world.landing.create("default_city/a.parquet") as file:
        pq.write_table(pa.table({"id": [1, 2], "city": [None, "default_city"]}), file)

    with pytest.raises(
        SchemaError, match="NULL as this value too, as OLake, give the partition column another name and from: city"
    ):
        local_world.ingest("city=__HIVE_DEFAULT_PARTITION__")

    local_world.options |= {"partitions": {"city_of_path": {"from": "city"}}}
    assert local_world.ingest("city_of_path=__HIVE_DEFAULT_PARTITION__").row.row_count == 2


def test_rows_without_a_time_are_named_in_the_config_and_enter_by_outside(tmp_path: Path, local_world: World) -> None:
    regex = "{timestamp_column,,YYYY}-{timestamp_column,,MM}"
    (stream,) = opened(tmp_path, of_regex(regex))
    written = land(tmp_path / "olake" / "otter_db" / "stream_0", Template.parse(regex, compat="olake"))

    null = "timestamp_column_month=__HIVE_DEFAULT_PARTITION__"
    assert f"# Rows whose timestamp_column is NULL are in {null}, outside" in (tmp_path / "lake.yaml").read_text()
    list(ingest_all(stream, list_landed(stream)[0], local_world.sessions, IngestOptions(outside=True)))
    with stream.lake.open() as lake:
        assert lake.rows(f"SELECT count(*), count(timestamp_column) FROM {stream.table.sql}") == [
            (written, written - 2)
        ]
    assert "is NULL" not in imported(tmp_path, of_regex(TIMESTAMP)).stdout


def test_what_cannot_be_carried_over_is_an_error(tmp_path: Path) -> None:
    regexes = {
        "few": "/{region}/{day,,}",
        "bracket": "{title},,}/{now(),2025,DD}",
        "two": "{title,,}}/{day,,}",
        "open": "{title,,/{day,,}",
        "none": "/all",
    }
    streams = [{"stream_name": name, "partition_regex": regex} for name, regex in regexes.items()]
    catalog = {"selected_streams": {"db": [*streams, {"stream_name": "good", "partition_regex": "{region,,}"}]}}

    result = imported(tmp_path, catalog)

    assert result.exit_code == 1
    assert result.stdout == ""
    assert "of db.few: {region} has fewer than three fields, so that OLake leaves it out of the path" in result.stderr
    assert "of db.bracket: {title} has fewer than three fields" in result.stderr
    assert "of db.two: a bracket has no counterpart" in result.stderr
    assert "of db.open: a bracket has no counterpart" in result.stderr
    assert "of db.none: it names no column" in result.stderr
    assert "--stream NAMESPACE.NAME" in result.stderr
    assert "good" in imported(tmp_path, catalog, "--stream", "db.good").stdout
    unknown = imported(tmp_path, CATALOG, "--stream", "other.sales")
    assert unknown.exit_code == 1
    assert "selects no stream 'other.sales': use shop's db.orders or other.orders" in unknown.stderr


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("{", "the file"),
        ("{}", "selected_streams"),
        ('{"selected_streams": {"n": [{"stream_name": ""}]}}', "selected_streams.n.0.stream_name"),
        ('{"selected_streams": {}, "streams": [{}]}', "streams.0.stream"),
    ],
)
def test_another_file_is_an_error_that_names_the_key(tmp_path: Path, text: str, key: str) -> None:
    result = imported(tmp_path, text)

    assert (result.exit_code, f"the OLake catalog is not valid: {key}: " in result.stderr) == (1, True), result.output
