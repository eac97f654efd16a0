"""Partition columns in the rows only: an object has rows of several partitions, and each partition gets its own."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import EmptySourceError, ObjectRefusedError, SchemaError, SourceError
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.pending import lag_of, scan_landing
from lake_assets.streams.select import Wanted, select
from lake_assets.streams.stream import list_landed
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets.upkeep.report.state import only_partitions, read_stream_state
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.ingest.encrypted import NULL
from lake_assets_tests.ingest.landed_as import FORMATS, columns_of, landed
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import NW, SW, World, plan
from lake_assets_tests.world_fixtures import bucket_on

if TYPE_CHECKING:
    from dev.servers.s3 import S3Server

ON_POSTGRES_AND_S3 = pytest.param(("postgres", "s3"), marks=pytest.mark.more)
TWO_WORLDS = pytest.mark.parametrize("world", [("sqlite", "local"), ON_POSTGRES_AND_S3], indirect=True, ids="-".join)
EITHER_LAKE = pytest.mark.parametrize("either_lake", ["files", *more(["encrypted"])], indirect=True)
LATER = "region=NW,date=2026-02-12"


REGION_IN_ROWS = {
    "partitions": {"region": {"values": ["NW", "SW"], "in": "rows"}, "date": {"type": "date", "start": "2026-01-01"}},
    "layout": "date={date}",
}


def both_in_rows(**field: Any) -> dict[str, Any]:
    return {
        "partitions": {
            "region": {"values": ["NW", "SW"], "in": "rows"},
            "date": {"type": "date", "start": "2026-02-10", "end": "2026-02-12", "in": "rows"} | field,
        }
    }


def date_in_rows() -> dict[str, Any]:
    return {"partitions": {"region": {}, "date": {"type": "date", "start": "2026-02-10", "in": "rows"}}}


def rows(*found: tuple[str | None, str | None, float]) -> pa.Table:
    """A table of region, date and total; the id is the row's number."""
    regions, dates, totals = zip(*found, strict=True)
    return pa.table(
        {
            "id": pa.array(range(len(found)), pa.int64()),
            "date": pa.array(dates).cast(pa.date32()),
            "total": pa.array(totals, pa.float64()),
            "region": pa.array(regions, pa.string()),
        }
    )


MIXED = (("NW", "2026-02-11", 1.0), ("SW", "2026-02-11", 2.0), (None, "2026-02-11", 4.0), ("NW", "2026-02-12", 8.0))


def put(world: World, key: str, body: pa.Table | bytes, **writer: Any) -> str:
    with world.landing.create(key) as file:
        if isinstance(body, bytes):
            file.write(body)
        else:
            pq.write_table(body, file, **writer)
    return world.landing.uri(key)


@TWO_WORLDS
def test_each_partition_gets_its_own_rows_of_shared_objects(world: World) -> None:
    world.options = both_in_rows()
    uris = {put(world, "a.parquet", rows(*MIXED)), put(world, "x/y/b.parquet", rows(("NW", "2026-02-11", 16)))}

    done = [world.ingest(text, outside=text == NULL).row for text in (NW, SW, NULL)]

    assert [row.row_count for row in done] == [2, 1, 1]
    assert (world.totals(NW), world.totals(SW), world.totals(NULL)) == ([1, 16], [2], [4])
    assert world.totals() == [1, 2, 4, 16]
    read = world.query("SELECT uri FROM lake.ingest_files WHERE run_id = ?", done[0].run_id)
    assert {uri for (uri,) in read} == uris
    assert world.query("SELECT typeof(date), typeof(region) FROM lake.sales LIMIT 1") == [("DATE", "VARCHAR")]
    assert world.ingest(NW).row.status == "skipped"

    put(world, "a.parquet", rows(("NW", "2026-02-11", 32), *MIXED[1:]))

    row = world.ingest(NW).row
    assert (row.status, row.rows_before, row.row_count) == ("committed", 2, 2)
    assert world.totals() == [2, 4, 16, 32]


def test_a_column_in_the_path_limits_the_objects_that_are_read(local_world: World) -> None:
    local_world.options = date_in_rows()
    north = put(local_world, "region=NW/a.parquet", rows(*MIXED).drop_columns("region"))
    put(local_world, "region=NW/b.parquet", rows(("NW", "2026-02-11", 64)))  # the column of the path in the file too
    with local_world.landing.create("region=SW/a.parquet") as file:
        file.write(b"no parquet, and not read")

    row = local_world.ingest(LATER).row

    assert local_world.totals() == [8]
    assert row.source_files == 1
    (first, _) = plan(local_world.stream, local_world.partition(NW)).landed.objects
    assert first.uri == north
    put(local_world, "region=NW/b.parquet", rows(("SW", "2026-02-12", 64)))
    with pytest.raises(SchemaError, match="region='SW', and belongs to region=NW/date=2026-02-12"):
        local_world.ingest(LATER)


def test_a_layout_may_name_other_folders(local_world: World) -> None:
    local_world.options = both_in_rows() | {"layout": "in/{batch}"}
    uri = put(local_world, "in/7/a.parquet", rows(*MIXED))
    put(local_world, "in/stray.parquet", rows(*MIXED))

    assert [obj.uri for obj in local_world.stream.manifest(local_world.partition(NW)).objects] == [uri]
    (strayed,) = read_stream_state(local_world.stream).left_out.unmatched
    assert strayed.key == "in/stray.parquet"


@pytest.mark.more
@pytest.mark.parametrize(
    ("options", "totals"),
    [
        ({"transform": {"sql": "SELECT id, total + count(*) OVER () AS total FROM source"}}, [3.0, 18.0]),
        ({"schema_policy": "evolve"}, [1, 16]),
        ({"schema_policy": "evolve", "transform": {"sql": "SELECT * FROM source"}}, [1, 16]),
    ],
)
def test_rows_are_chosen_before_a_transform_and_while_the_table_evolves(
    local_world: World, options: dict[str, Any], totals: list[float]
) -> None:
    local_world.options = both_in_rows() | options
    put(local_world, "a.parquet", rows(*MIXED))
    other = rows(("NW", "2026-02-11", 16), ("SW", "2026-02-12", 32))
    if options.get("schema_policy"):
        # A new column, and the date as text in this object alone.
        dates = other["date"].cast(pa.string())
        other = other.set_column(1, "date", dates).append_column("note", pa.array(["new", "not mine"]))
    put(local_world, "b.parquet", other)

    assert local_world.ingest(NW).row.row_count == 2

    assert local_world.totals() == totals
    if options.get("schema_policy"):
        assert columns_of(local_world, "total, note") == [(1, None), (16, "new")]


@pytest.mark.parametrize("policy", ["strict", *more(["evolve"])])
def test_an_object_without_the_column_is_named(local_world: World, policy: str) -> None:
    local_world.options = both_in_rows() | {"schema_policy": policy}
    put(local_world, "a.parquet", rows(*MIXED))
    uri = put(local_world, "b.parquet", rows(*MIXED).drop_columns("date"))

    with pytest.raises(SchemaError, match=f"^the object {uri} has no column 'date', which selects the rows of a part"):
        local_world.ingest(NW)


@EITHER_LAKE
def test_on_empty_decides_on_a_partition_without_rows_and_one_that_keeps_its_rows_is_pending_once(
    either_lake: World,
) -> None:
    either_lake.options = both_in_rows()
    put(either_lake, "a.parquet", rows(*MIXED))
    either_lake.ingest(NW)
    put(either_lake, "a.parquet", rows(*MIXED[1:]))

    with pytest.raises(EmptySourceError, match=r"has no rows of region=NW, date=2026-02-11: .*/landing/\*\.parquet"):
        either_lake.ingest(NW)
    assert either_lake.partition(NW) in scan_landing(either_lake.stream).pending
    either_lake.options["on_empty"] = "keep"
    assert (either_lake.ingest(NW, landed_only=True).row.status, either_lake.totals()) == ("skipped", [1])
    assert either_lake.partition(NW) not in scan_landing(either_lake.stream).pending
    either_lake.options["on_empty"] = "clear"
    assert (either_lake.ingest(NW).row.status, either_lake.totals()) == ("committed", [])


def test_a_schedule_leaves_out_partitions_without_rows_in_objects_and_lake(local_world: World) -> None:
    local_world.options = both_in_rows()
    put(local_world, "a.parquet", rows(*MIXED))
    wanted = [local_world.partition(text) for text in (NW, "region=SW,date=2026-02-12")]

    def scheduled() -> list[str]:
        outcomes = list(ingest_all(local_world.stream, wanted, local_world.sessions, IngestOptions(landed_only=True)))
        return [outcome.row.status if outcome.is_done else type(outcome.error).__name__ for outcome in outcomes]

    assert scheduled() == ["committed", "NoneType"]
    # The statistics of the only row group allow it, so that it was read: the ledger notes that it has no rows.
    assert sorted(row.status for row in local_world.ledger()) == ["committed", "skipped"]
    put(local_world, "a.parquet", rows(*MIXED[1:]))
    assert scheduled() == ["EmptySourceError", "NoneType"]
    assert local_world.totals() == [1]
    put(local_world, "a.parquet", rows(("SW", "2026-02-11", 2)))
    assert scheduled() == ["EmptySourceError", "NoneType"]
    assert len(local_world.ledger()) == 5  # the statistics exclude it, so that there is nothing to note


@TWO_WORLDS
def test_a_partition_has_the_objects_that_may_hold_its_rows(world: World) -> None:
    world.options = both_in_rows()
    north = put(world, "a.parquet", rows(("NW", "2026-02-11", 1), ("NW", "2026-02-12", 2)))
    south = put(world, "b.parquet", rows(("SW", "2026-02-11", 4), (None, "2026-02-11", 8)))
    stream = world.stream

    def objects(text: str) -> set[str]:
        return {landed.uri for landed in stream.manifest(world.partition(text)).objects}

    assert objects(NW) == objects(LATER) == {north}
    assert (objects(SW), objects(NULL)) == ({south}, {south})
    assert objects("region=SW,date=2026-02-12") == set()
    pending = [NW, LATER, SW]
    assert set(scan_landing(stream).pending) == {world.partition(text) for text in pending}
    for text in pending:
        assert world.ingest(text).row.source_files == 1
    assert not scan_landing(stream).pending

    new = put(world, "c.parquet", rows(("NW", "2026-02-12", 16)))
    assert [str(partition) for partition in scan_landing(stream).pending] == [str(world.partition(LATER))]
    put(world, "a.parquet", rows(("SW", "2026-02-12", 32)))  # an object that was read is another one now
    assert (objects(NW), objects(LATER)) == (set(), {new})
    put(world, "d.parquet", rows(*MIXED), write_statistics=False)
    assert len(objects("region=SW,date=2026-02-10")) == 1  # without statistics it may hold rows of every partition


def without_values(kind: str, form: str = "parquet") -> dict[str, Any]:
    return {
        "partitions": {"key": {"type": kind, "in": "rows"}, "date": {"type": "date", "start": "2026-01-01"}},
        "format": form,
    }


@pytest.mark.parametrize("form", FORMATS)
def test_values_that_the_config_does_not_list_are_those_of_the_rows(local_world: World, form: str) -> None:
    local_world.options = without_values("string", form)
    keys = ["a", "c", "b", None]
    put(local_world, f"date=2026-02-11/1.{form}", landed(form, *({"id": n, "key": key} for n, key in enumerate(keys))))
    put(local_world, f"date=2026-02-12/1.{form}", landed(form, {"id": 4, "key": "d"}))

    pending = {str(partition) for partition in scan_landing(local_world.stream).pending}

    assert pending == {f"key={key or HIVE_NULL}/date=2026-02-11" for key in keys} | {"key=d/date=2026-02-12"}
    local_world.ingest("key=b,date=2026-02-11")
    assert local_world.query("SELECT id, key FROM lake.sales") == [(2, "b")]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([7, 300], pa.int16()),
        pa.array([7.0, 300.0]),
        pa.array(["7", "300"]),
        pa.array([7, 300]).dictionary_encode(),
    ],
    ids=["narrow", "float", "text", "dictionary"],
)
def test_they_are_compared_as_the_rows_are(local_world: World, keys: pa.Array) -> None:
    local_world.options = without_values("integer")
    put(local_world, "date=2026-02-11/1.parquet", pa.table({"id": [1, 2], "key": keys}))
    stream = local_world.stream

    assert {partition.values[0] for partition in scan_landing(stream).pending} == {7, 300}


def test_an_object_whose_values_are_unknown_or_too_many_is_named(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.options = without_values("string")
    damaged = put(local_world, "date=2026-02-11/1.parquet", b"no")
    with pytest.raises(SourceError, match=f"{damaged} cannot be read as Parquet"):
        scan_landing(local_world.stream)
    put(local_world, "date=2026-02-11/2.parquet", pa.table({"id": [1, 2, 3], "key": ["a", "b", "c"]}))
    assert {partition.values[0] for partition in scan_landing(local_world.stream).pending} == {"a", "b", "c"}

    monkeypatch.setattr("lake_assets.streams.row_values.MOST_VALUES", 2)
    put(local_world, "date=2026-02-12/3.parquet", pa.table({"id": [1, 2, 3], "key": ["a", "b", "c"]}))
    with pytest.raises(SourceError, match=r"3.parquet has over 2 values of key.*give the `values` of key"):
        scan_landing(local_world.stream)


@pytest.mark.more
def test_a_date_between_those_of_an_object_is_pending_once(local_world: World) -> None:
    local_world.options = both_in_rows()
    put(local_world, "a.parquet", rows(("NW", "2026-02-10", 1), ("NW", "2026-02-12", 2)))
    stream, gap = local_world.stream, local_world.partition(NW)
    assert gap in scan_landing(stream).pending

    (outcome,) = ingest_all(stream, [gap], local_world.sessions, IngestOptions(landed_only=True))

    assert outcome.status == "left_out"
    assert gap not in scan_landing(stream).pending
    assert {p.state for p in read_stream_state(stream).partitions if p.partition == gap} == {"absent"}
    put(local_world, "a.parquet", rows(("NW", "2026-02-10", 1)))
    assert gap not in scan_landing(stream).pending  # there is nothing in the lake that its rows could leave
    put(local_world, "b.parquet", rows(("NW", "2026-02-11", 4)))
    assert gap in scan_landing(stream).pending
    assert local_world.ingest(NW).row.row_count == 1


def test_checks_report_and_compaction_know_of_it(local_world: World) -> None:
    local_world.options = both_in_rows()
    put(local_world, "a.parquet", rows(*MIXED, ("NW", "2026-02-11", 16)))
    for text in (NW, NULL):
        local_world.ingest(text, outside=text == NULL)
    stream = local_world.stream
    known = (local_world.partition(NW), local_world.partition(NULL))

    states = {str(partition.partition): partition.state for partition in read_stream_state(stream).partitions}
    # The statistics allow each region on the dates 11 and 12.
    expected = {10: "absent", 11: "missing", 12: "missing"}
    assert states == {f"region={r}/date=2026-02-{d}": expected[d] for r in ("NW", "SW") for d in expected} | {
        str(known[0]): "committed",
        str(known[1]): "outside",
    }
    assert set(map(str, scan_landing(stream).pending)) == {path for path, state in states.items() if state == "missing"}
    result = run_check(stream, "row_counts", Scope(None, known))
    assert (result.passed, result.numbers["partitions"]) == (True, 2)
    assert run_check(stream, "landing_zone", Scope(None, known)).passed

    insert = "INSERT INTO lake.sales (id, total, region, date) VALUES (7, {}, 'NW', '2026-02-11')"
    local_world.execute(*(insert.format(-number) for number in (1, 2, 3)))
    assert not run_check(stream, "row_counts", Scope(None, known)).passed
    (value,) = compact(stream, 3, local_world.sessions)
    assert (value.files_after, value.why) == (1, None)
    assert local_world.totals(NW) == [-3, -2, -1, 1, 16]
    put(local_world, "b.parquet", rows(*MIXED))
    assert {item.state for item in read_stream_state(stream).partitions} == {"missing", "stale", "outside", "absent"}


def test_landed_records_keep_the_column(local_world: World) -> None:
    landing = Path(local_world.source["path"])
    landing.mkdir()
    for options in (date_in_rows(), both_in_rows()):
        local_world.options = options
        with LandingWriter("sales", local_world.stream.config) as writer:
            writer.write(rows(*MIXED[:2]))

    places = sorted(str(file.parent.relative_to(landing)) for file in landing.rglob("*.*"))
    assert places == [".", "region=NW", "region=SW"]
    local_world.options = date_in_rows()
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.options = both_in_rows() | {"files": "/*.parquet"}
    assert local_world.ingest(SW).row.source_files == 1
    assert local_world.totals() == [1, 2]


def test_rows_that_leave_a_partition_are_noticed(local_world: World) -> None:
    local_world.options = both_in_rows()
    put(local_world, "f.parquet", rows(("NW", "2026-02-11", 1), ("NW", "2026-02-12", 2)))
    for text in (NW, LATER):
        local_world.ingest(text)
    assert not scan_landing(local_world.stream).pending
    put(local_world, "f.parquet", rows(("NW", "2026-02-12", 1), ("NW", "2026-02-12", 2)))
    stream, left = local_world.stream, local_world.partition(NW)
    both = {left, local_world.partition(LATER)}

    assert scan_landing(stream).pending.keys() == scan_landing(stream, both).pending.keys() == both
    assert set(select(stream, Wanted(waiting=True)).partitions) == both
    lag = lag_of(stream)
    assert (set(lag.pending), lag.undated) == (both, 0)
    state = only_partitions(read_stream_state(stream), Wanted(waiting=True), lambda _: True)
    assert {p.partition: (p.state, p.objects) for p in state.partitions} == {
        left: ("stale", 0),
        local_world.partition(LATER): ("stale", 1),
    }
    assert run_check(stream, "landing_zone", Scope(None, tuple(both))).passed is False
    local_world.ingest(LATER)
    with pytest.raises(EmptySourceError, match="Land its rows again, or set on_empty to keep or clear"):
        local_world.ingest(NW, landed_only=True)
    assert scan_landing(stream).pending.keys() == {left}

    local_world.options["on_empty"] = "clear"
    assert local_world.ingest(NW, landed_only=True).row.status == "committed"
    assert local_world.totals() == [1, 2]
    assert not scan_landing(local_world.stream).pending


@pytest.mark.parametrize("other", [False, *more([True])])
def test_an_append_refuses_an_object_whose_rows_have_left_the_partition(local_world: World, other: bool) -> None:
    local_world.options = both_in_rows() | {"mode": "append"}
    put(local_world, "f.parquet", rows(("NW", "2026-02-11", 1)))
    local_world.ingest(NW)
    moved = put(local_world, "f.parquet", rows(("NW", "2026-02-12", 1)))
    if other:
        put(local_world, "g.parquet", rows(("NW", "2026-02-11", 2)))

    assert plan(local_world.stream, local_world.partition(NW)).decision.fails
    with pytest.raises(SourceError, match=f"{moved} has changed since the rows were appended"):
        local_world.ingest(NW)
    assert local_world.partition(NW) in scan_landing(local_world.stream).pending
    local_world.options["on_changed"] = "refresh"
    empty = pytest.raises(EmptySourceError, match="Land its rows again, or set on_empty to keep")
    with nullcontext() if other else empty:
        local_world.ingest(NW)
    assert local_world.totals() == [2 if other else 1]


def test_an_append_keeps_the_rows_of_a_vanished_object_and_is_pending_once(local_world: World) -> None:
    local_world.options = both_in_rows() | {"mode": "append"}
    put(local_world, "f.parquet", rows(("NW", "2026-02-11", 1)))
    put(local_world, "g.parquet", rows(("SW", "2026-02-11", 2)))
    local_world.ingest(NW)
    Path(local_world.source["path"], "f.parquet").unlink()
    assert local_world.partition(NW) in scan_landing(local_world.stream).pending

    assert local_world.ingest(NW).row.status == "skipped"

    assert local_world.partition(NW) not in scan_landing(local_world.stream).pending
    assert local_world.totals() == [1]


def versions(manifest: Manifest) -> dict[str, str]:
    return {landed.key: landed.etag for landed in manifest.objects}


@pytest.mark.parametrize("world", [("sqlite", "s3")], indirect=True, ids="-".join)
def test_an_object_that_is_rewritten_during_a_look_is_known_by_its_own_version(world: World) -> None:
    world.options = both_in_rows()
    put(world, "a.parquet", rows(("NW", "2026-02-11", 1)))
    stream, north = world.stream, world.partition(NW)
    listed = stream.landed_at(north)
    put(world, "a.parquet", rows(("SW", "2026-02-12", 2)))

    # The version of the listing is gone, so nothing excludes a partition.
    assert all(manifest.objects for manifest in stream.holding(listed, [north, world.partition(SW)]).values())

    put(world, "a.parquet", rows(("NW", "2026-02-11", 1)))
    assert versions(stream.landed_at(north)) == versions(listed)  # S3's ETag is a hash
    assert [len(stream.manifest(world.partition(text)).objects) for text in (NW, SW)] == [1, 0]


def test_an_object_that_refuses_to_be_read_may_hold_rows_of_every_partition(local_world: World, s3: "S3Server") -> None:
    local_world.options = both_in_rows()
    local_world.source = location = bucket_on(s3)
    put(local_world, "a.parquet", rows(("NW", "2026-02-11", 1)))
    closed = put(local_world, "b.parquet", rows(("SW", "2026-02-11", 2)))
    s3.deny_reading(str(location["bucket"]), "some/prefix/b.parquet")
    key_id, secret = s3.narrow["reader"]
    local_world.source = location | {"key_id": key_id, "secret": secret}

    landed, _ = list_landed(local_world.stream)

    held = {text: len(landed[local_world.partition(text)].objects) for text in (NW, SW, LATER)}
    assert held == {NW: 2, SW: 1, LATER: 1}
    with pytest.raises(ObjectRefusedError, match=f"{closed} was not read .*: grant s3:GetObject"):
        local_world.ingest(SW)


@pytest.mark.more
def test_a_look_at_many_row_groups_and_dates_takes_few_steps(local_world: World) -> None:
    local_world.options = both_in_rows(start="2020-01-01")
    days = [f"2025-{month:02}-{day:02}" for month in range(1, 13) for day in (1, 9, 17, 25)]
    put(local_world, "0.parquet", rows(*(("NW", day, 1.0) for day in days)), row_group_size=1)
    landing = Path(local_world.source["path"])
    content = (landing / "0.parquet").read_bytes()
    for number in range(1, 400):
        (landing / f"{number}.parquet").write_bytes(content)
    list_landed(local_world.stream)  # reads the footers
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        landed, _ = list_landed(local_world.stream)
    finally:
        sys.setprofile(None)

    assert calls < 5_000_000  # and not the product of 2 regions, 2,235 dates, and 400 objects of 48 row groups
    assert len([manifest for manifest in landed.values() if manifest.objects]) >= len(days)
