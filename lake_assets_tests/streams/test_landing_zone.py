"""Every object below a source is in exactly one class, and all who count objects agree on it."""

import io
from collections import Counter
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from lake_assets.cli import main
from lake_assets.config.layout.partition import Partition
from lake_assets.config.streams import StreamConfig
from lake_assets.ingest.index.index_run import plan_index
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.storage.store import Store
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.detection.scan import scan
from lake_assets.streams.left_out import LeftOut
from lake_assets.streams.locator import folder_prefixes
from lake_assets.streams.stream import list_landed, list_landed_in
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.streams.detection.bucket import Bucket
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import World, sales

__all__ = ["sessions"]

VALUES = ["a", "a", "a", "a b", "é", "(1)", "x;y", "_draft", ".NET", "_temporary", "a/_b", None]
DAYS = [date(2026, 2, 11), date(2026, 2, 12), date(2026, 2, 13), date(2019, 1, 1), date(2101, 1, 1)]
NAMES = [
    *("k=a", "k=a%20b", "k=a b", "k=%61", "k=", "k=__HIVE_DEFAULT_PARTITION__", "k=%c3%a9", "k=_y", "k=b"),
    *("plain", "a%20b", "_temporary", ".hive-staging_1", "_dead_letters", "_b", "sub", ".x", "q=1"),
    *("d=2026-2-1", "d=9999-01-01", "d=", "d=never", "2019-01-01", "2026-02-11", "2026-02-12-x"),
]
FILES = [
    *("a.parquet", "b.parquet", "c d.parquet", "é.parquet", "b.PARQUET", "_c.parquet", ".d.parquet"),
    *("e.csv", "_SUCCESS"),
]

PARTITIONS: dict[str, Any] = {"k": {}, "d": {"type": "date", "start": "2020-01-01"}}
LAYOUTS: dict[str, dict[str, Any]] = {
    "hive": {},
    "bare": {"layout": "{k}/{d}"},
    "mixed": {"layout": "{k}/d={d}"},
    "now": {"layout": "{k,,}/{now(),2025,YY}-{now(),,MM}-{now(),,DD}", "partitions": {"k": {}}},
    "nested": {"layout": {"template": "k={k}", "nested": True}, "partitions": {"k": {}}},
    "olake": {"layout": {"template": "{k,,}/d={d,,}", "compat": "olake"}},
    "listed": {"partitions": {"k": {"values": ["a", "_draft"]}, "d": {"type": "date", "start": "2020-01-01"}}},
    "null": {"partitions": {"k": {"empty": "null"}, "d": {"type": "date", "start": "2020-01-01"}}},
}


def random_keys(random: Random, stream: StreamConfig, number: int) -> list[str]:
    """Keys of partitions, most of them with a folder that is replaced, added or left out."""
    keys: set[str] = set()
    while len(keys) < number:
        names = random.choice(_folders(random, stream)).rstrip("/").split("/")
        at = random.randrange(len(names))
        match random.randrange(8):
            case 0:
                names[at] = random.choice(NAMES)
            case 1:
                names.insert(at, random.choice(NAMES))
            case 2:
                names.append(random.choice(NAMES))
            case 3:
                del names[at]
        keys.add("/".join(name for name in (*names, random.choice(FILES)) if name))
    return sorted(keys)


def _folders(random: Random, stream: StreamConfig) -> list[str]:
    """The folders of a random partition; those of a layout with `now()` are of one day."""
    value, day = random.choice(VALUES), random.choice(DAYS)
    if stream.template.compat and value is None:
        value = "a"
    partition = Partition(stream.partition_columns, (value, day)[: len(stream.partition_columns)])
    return [
        prefix if "{now" not in stream.template.text else f"{prefix.rstrip('/')}/2026-02-11"
        for prefix in folder_prefixes(stream.template, partition)
    ]


def land(world: World, keys: list[str]) -> None:
    landing, buffer = world.landing, io.BytesIO()
    pq.write_table(sales(1), buffer)
    for key in keys:
        with landing.create(key) as file:
            file.write(buffer.getvalue())


@pytest.mark.parametrize(
    ("layout", "storage"),
    [
        ("hive", "local"),
        ("mixed", "local"),
        ("olake", "local"),
        *more((layout, "local") for layout in LAYOUTS if layout not in ("hive", "mixed", "olake")),
        *more([("hive", "s3"), ("now", "s3")]),
    ],
)
def test_every_object_is_in_exactly_one_class(
    request: pytest.FixtureRequest, local_world: World, layout: str, storage: str
) -> None:
    if storage == "s3":
        local_world.source = request.getfixturevalue("s3_location")()
    local_world.options = {"partitions": PARTITIONS} | LAYOUTS[layout]
    stream = local_world.stream
    keys = random_keys(Random(layout + storage), stream.config, 150)
    land(local_world, keys)
    calendar = Calendar(stream.config)

    landed, left_out = list_landed(stream)

    refreshed = {partition for partition in landed if calendar.outside(partition) is None}
    read = [obj.key for partition in refreshed for obj in landed[partition].objects]
    assert Counter([*read, *(item.landed.key for item in left_out.objects)]) == Counter(keys)
    assert (left_out.listed, sum(left_out.counts.values())) == (len(keys), len(keys) - len(read))
    assert list_landed_in(stream, landed) == landed
    assert read, "no key was one of a partition"
    state = read_stream_state(stream)
    assert [i.key for i in state.left_out.objects] == [i.key for i in left_out.objects]
    assert state.left_out.counts == left_out.counts
    assert sum(p.objects for p in state.partitions if p.state != "outside") == len(read)


@pytest.mark.parametrize(
    ("layout", "mode"),
    [("null", "replace"), *more([("hive", "append"), ("mixed", "replace"), ("hive", "index"), ("listed", "index")])],
)
def test_what_is_not_left_out_is_in_the_lake(local_world: World, layout: str, mode: str) -> None:
    local_world.options = {"partitions": PARTITIONS, "mode": mode} | LAYOUTS[layout]
    stream = local_world.stream
    keys = random_keys(Random(f"{layout} {mode}"), stream.config, 150)
    land(local_world, keys)
    landed, left_out = list_landed(stream)
    inside = [partition for partition in landed if Calendar(stream.config).outside(partition) is None]

    outcomes = list(ingest_all(stream, inside, local_world.sessions))

    # Mode index refuses, with an error, the objects that readers of the lake would take for others.
    refused = plan_index(stream).new if mode == "index" else ()
    assert bool(refused) == any(outcome.error for outcome in outcomes)
    assert len(refused) < len(keys) - len(left_out.objects)
    assert local_world.query("SELECT count(*) FROM lake.sales") == [(len(keys) - len(left_out.objects) - len(refused),)]


@pytest.mark.parametrize(
    "layout", ["hive", "nested", *more(name for name in LAYOUTS if name not in ("hive", "nested"))]
)
def test_a_sensor_requests_and_reports_what_the_listing_has(local_world: World, layout: str) -> None:
    local_world.options = {"partitions": PARTITIONS} | LAYOUTS[layout]
    keys = random_keys(Random(layout), local_world.stream.config, 150)
    land(local_world, keys)
    landed, left_out = list_landed(local_world.stream)
    inside = {p for p in landed if Calendar(local_world.stream.config).outside(p) is None}
    document = local_world.stream.config.model_dump(exclude={"source"}, exclude_unset=True)
    stream = StreamConfig.model_validate(
        document | {"source": "s3://bucket", "sensor": {"type": "objects", "max_runs": 500}}
    )

    result = scan(stream, Bucket.of(keys), None)

    bounds = {partition for target in result.targets for partition in (target.first, target.last)}
    assert bounds <= inside
    assert len(result.targets) == len({p.values[0] for p in inside}) or inside == bounds
    reported = [i.key for i in left_out.objects if i.kind in ("unmatched", "spelling", "outside", "odd")]
    assert sorted(item.key for item in result.unmatched) == sorted(reported)
    assert str(left_out) in result.summary


def test_each_command_and_dagster_have_the_same_numbers(local_world: World, tmp_path: Path) -> None:
    from lake_assets.orchestration.metadata import unmatched_metadata  # noqa: PLC0415 - Dagster takes long to import

    local_world.options = {"partitions": {"p": {"type": "integer", "values": [7]}}}
    folders = ["p=7/a.parquet", "p=007/a.parquet", "p=8/a.parquet", "q=1/a.parquet", "p=7/b.csv", "p=7/_SUCCESS"]
    land(local_world, [*folders, "p=7/sub/c.PARQUET", "_temporary/a.parquet"])
    config = str(local_world.config_file(tmp_path))
    text = (
        "7 objects left out: 1 in no partition, 1 in another spelling of a partition's folder, 1 outside the config, "
        "2 not data files, 2 hidden by their names"
    )

    def run(*arguments: str) -> str:
        return CliRunner().invoke(main, ["--config", config, *arguments]).output

    ingested = run("ingest", "sales", "--all", "--yes")
    assert f"1 partition; {text}: `lake-assets plan sales --left-out`" in ingested
    assert text in run("plan", "sales", "--all")
    assert text in run("report", "sales")
    listed = run("plan", "sales", "--left-out")
    assert f"{text}; 1 object in partitions" in listed
    assert [line.split()[:2] for line in listed.splitlines() if line.startswith(("hidden", "not_data"))] == [
        ["hidden", "_temporary/a.parquet"],
        ["hidden", "p=7/_SUCCESS"],
        ["not_data", "p=7/b.csv"],
        ["not_data", "p=7/sub/c.PARQUET"],
    ]
    result = run_check(local_world.stream, "landing_zone", Scope())
    assert not result.passed
    assert "Of 8 objects, 2 are not data files." in result.description
    assert dict(result.numbers) | {"objects_hidden": 2, "objects_spelling": 1} == dict(result.numbers)
    assert unmatched_metadata(list_landed(local_world.stream)[1])["objects_left_out"].value == text
    assert LeftOut().is_usual
    assert str(LeftOut(listed=3)) == "0 objects left out"


def test_a_partition_whose_folder_has_the_time_of_the_run_too_is_listed_without_its_siblings(world: World) -> None:
    world.options = {"layout": "k={k}-{now(),,YYYY}", "partitions": {"k": {}}}
    of_value = {"a": ["k=a-2025/1.parquet", "k=a-2026/2.parquet"], "a-b": ["k=a-b-2026/3.parquet"], "b": []}
    for key in (key for keys in of_value.values() for key in keys):
        with Store(world.stream.source.storage).create(key) as file:
            file.write(b"x")

    for value, keys in of_value.items():
        manifest = world.stream.manifest(world.stream.config.partition(f"k={value}"))
        assert [landed.key for landed in manifest.objects] == keys
