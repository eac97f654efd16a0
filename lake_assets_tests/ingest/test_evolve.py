"""A stream whose table evolves with landed objects: new, wider and missing columns, and parts of them at any depth."""

import datetime as dt
import decimal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import SchemaError
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.storage.formats import any_format
from lake_assets.upkeep.checks.check_run import scope_of_run
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import NW, SW, World, plan

CATALOGS = pytest.mark.parametrize(
    "world", [("sqlite", "local"), *more([(("duckdb", "local"),), (("postgres", "local"),)])], indirect=True
)

DAY = dt.date(2026, 2, 11)


@pytest.fixture
def evolving(local_world: World) -> World:
    local_world.options = {"schema_policy": "evolve"}
    return local_world


def table(**columns: Any) -> pa.Table:
    return pa.table({"id": pa.array([0], pa.int64()), "total": pa.array([1.0]), **columns})


def columns(world: World) -> dict[str, str]:
    return dict(world.query("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'sales'"))


def messages(world: World) -> list[str]:
    rows = world.query("SELECT commit_message FROM lake.snapshots() WHERE commit_message LIKE '%column%'")
    return [message.rpartition(" by run ")[0] for (message,) in rows]


@CATALOGS
def test_new_wider_and_missing_columns(world: World) -> None:
    world.options = {"schema_policy": "evolve"}
    small = pa.array([decimal.Decimal("1.50")], pa.decimal128(5, 2))
    large = pa.array([decimal.Decimal("1234567890.25")], pa.decimal128(12, 2))
    world.land(
        NW, pa.table({"n": pa.array([1], pa.int32()), "f": pa.array([-79.72874450683594], pa.float32()), "d": small})
    )
    assert world.ingest(NW).changes == ()
    world.land(SW, pa.table({"N": pa.array([2**40]), "f": pa.array([1e300]), "d": large, "note": ["new"]}))

    result = world.ingest(SW)

    assert [str(change) for change in result.changes] == [
        "widened column n from INTEGER to BIGINT",
        "widened column f from FLOAT to DOUBLE",
        "widened column d from DECIMAL(5,2) to DECIMAL(12,2)",
        "added column note VARCHAR",
    ]
    assert columns(world).items() >= {"n": "BIGINT", "f": "DOUBLE", "d": "DECIMAL(12,2)", "note": "VARCHAR"}.items()
    rows = [
        (1, -79.72874450683594, decimal.Decimal("1.50"), None, "NW"),
        (2**40, 1e300, decimal.Decimal("1234567890.25"), "new", "SW"),
    ]
    assert world.query("SELECT n, f, d, note, region FROM lake.sales ORDER BY n") == rows
    assert world.query("SELECT min(f), max(f) FROM lake.sales") == [(-79.72874450683594, 1e300)]
    (message,) = messages(world)
    assert message == f"main.sales: {', '.join(str(change) for change in result.changes)}"

    assert plan(world.stream, world.partition(NW), force=True).strategy == "direct"

    # Files of before lack a column or have a narrower one; statistics must not let a query pass over either.
    conditions = ("note IS NULL", "note = 'new'", f"n = {2**40}", "n = 1", "f < 1")
    asked = ", ".join(f"(SELECT count(*) FROM lake.sales WHERE {condition})" for condition in conditions)
    assert world.query(f"SELECT {asked}") == [(1,) * len(conditions)]

    world.land(NW, pa.table({"d": small, "n": pa.array([7], pa.int16())}))
    assert world.ingest(NW).changes == ()
    assert world.query("SELECT n, f, d, note FROM lake.sales WHERE region = 'NW'") == [
        (7, None, decimal.Decimal("1.50"), None)
    ]
    assert world.query("SELECT count(*) FROM lake.sales WHERE f IS NULL AND note IS NULL") == [(1,)]


def test_all_objects_of_a_partition_are_checked(evolving: World, monkeypatch: pytest.MonkeyPatch) -> None:
    evolving.land(SW, table(a=pa.array([1], pa.int8()), empty=pa.nulls(1)), "1.parquet")
    evolving.land(SW, table(a=pa.array([2]), empty=["x"], p=[{"x": 1}], q=[[{"a": 1}]]), "2.parquet")
    assert evolving.ingest(SW).changes == ()  # a new table has the columns of all sampled objects
    assert columns(evolving).items() >= {"a": "BIGINT", "empty": "VARCHAR", "p": "STRUCT(x BIGINT)"}.items()
    monkeypatch.setattr(any_format, "SAMPLE", 1)
    evolving.land(NW, table(), "1.parquet")
    evolving.land(NW, table(d=pa.array([1], pa.int8()), p=[{"y": "new"}]), "2.parquet")
    evolving.land(NW, table(e=["x"], d=pa.array([2], pa.int64()), q=[[{"b": 1.5}, {"b": None}]]), "3.parquet")
    evolving.land(NW, pa.table({"p": [{"X": 2, "z": None}], "c": [DAY], "nothing": pa.nulls(1)}), "4.parquet")

    result = evolving.ingest(NW)

    assert sorted(str(change) for change in result.changes) == [
        "added column c DATE",
        "added column d BIGINT",
        "added column e VARCHAR",
        "added field p.y VARCHAR",
        "added field q.element.b DOUBLE",
    ]
    assert len(messages(evolving)) == 1
    assert evolving.query("SELECT d, e, c, id, p, q FROM lake.sales WHERE region = 'NW' ORDER BY ALL") == [
        (1, None, None, 0, {"x": None, "y": "new"}, None),
        (2, "x", None, 0, None, [{"a": None, "b": 1.5}, {"a": None, "b": None}]),
        (None, None, DAY, None, {"x": 2, "y": None}, None),
        (None, None, None, 0, None, None),
    ]


def test_the_partitions_of_a_job_that_need_no_change_are_committed_once(evolving: World) -> None:
    evolving.land(NW, table())
    evolving.ingest(NW)
    evolving.land(NW, table(total=[3.0]))
    evolving.land(SW, table(note=["new"]))

    objects = list(ingest_all(evolving.stream, [evolving.partition(NW), evolving.partition(SW)], evolving.sessions))

    assert all(outcome.is_done for outcome in objects)
    assert [row.status for row in evolving.ledger()] == ["committed"] * 3
    assert sorted(evolving.query("SELECT total, note FROM lake.sales")) == [(1.0, "new"), (3.0, None)]


@CATALOGS
def test_a_column_that_another_run_adds_meanwhile_is_filled_with_null(world: World) -> None:
    """The other run changes the table after the files are written and before they are committed."""
    world.options = {"schema_policy": "evolve"}
    world.land(NW, table())
    world.ingest(NW)
    world.land(NW, table(a=["ours"]))
    world.land(SW, table(b=["theirs"]))
    other = replace(world, _opened=None)
    with before("verify", lambda _: other.ingest(SW)):
        result = world.ingest(NW)

    assert [str(change) for change in result.changes] == ["added column a VARCHAR"]
    assert sorted(world.query("SELECT region, a, b FROM lake.sales")) == [("NW", "ours", None), ("SW", None, "theirs")]
    assert world.query("SELECT count(*) FROM lake.sales WHERE b IS NULL") == [(1,)]


@pytest.mark.parametrize(
    ("policy", "unit"),
    [("evolve", "us"), *more([("strict", "s"), ("strict", "us"), ("strict", "ns"), ("evolve", "s"), ("evolve", "ns")])],
)
def test_seconds_and_milliseconds_of_a_table_that_another_client_made(
    local_world: World, policy: str, unit: str
) -> None:
    local_world.options = {"schema_policy": policy}
    with local_world.stream.lake.open(create=True):
        pass
    local_world.execute(
        "CREATE TABLE lake.sales (seen TIMESTAMP_S, parts STRUCT(seen TIMESTAMP_MS)[], region VARCHAR, date DATE)",
        "ALTER TABLE lake.sales SET PARTITIONED BY (region, date)",
    )
    types = pa.timestamp(unit), pa.list_(pa.struct([("seen", pa.timestamp(unit))]))

    def land(*times: dt.datetime) -> None:
        table = pa.table({"seen": times, "parts": [[{"seen": time}, None] for time in times]})
        local_world.land(NW, table.cast(pa.schema(zip(("seen", "parts"), types, strict=True))))

    noon = dt.datetime(2026, 2, 11, 12)  # noqa: DTZ001 - columns without a zone
    land(noon)
    assert local_world.ingest(NW).changes == ()
    assert local_world.query("SELECT seen, parts FROM lake.sales WHERE seen = '2026-02-11 12:00:00'::TIMESTAMP_S") == [
        (noon, [{"seen": noon}, None])
    ]

    if unit != "s":
        land(noon, noon + dt.timedelta(microseconds=1))
        with pytest.raises(SchemaError, match=r"column 'seen' .* has a value that timestamp\[s\] cannot hold"):
            local_world.ingest(NW)
        assert local_world.query("SELECT count(*) FROM lake.sales") == [(1,)]


POINT = pa.struct([("x", pa.int32()), ("f", pa.float32())])
WIDE = pa.struct([("new", pa.list_(pa.struct([("day", pa.date32())]))), ("F", pa.float64()), ("X", pa.int64())])


def nested(point: pa.DataType, numbers: pa.DataType, rows: list[tuple[Any, ...]]) -> pa.Table:
    """A table of points at several depths, and of a map of numbers."""
    kinds = {
        "id": pa.int64(),
        "p": point,
        "l": pa.list_(point),
        "m": pa.map_(pa.string(), pa.list_(point)),
        "k": pa.map_(numbers, numbers),
    }
    return pa.Table.from_pylist([dict(zip(kinds, row, strict=True)) for row in rows], pa.schema(kinds))


def small(x: int) -> dict[str, Any]:
    return {"x": x, "f": 0.5}


def wide(x: int) -> dict[str, Any]:
    return {"X": 2**40 + x, "F": 1e300, "new": [{"day": DAY}, None]}


def read(x: int) -> dict[str, Any]:
    """A point as a reader of the evolved table sees it."""
    return {"x": x, "f": 0.5, "new": None} if x < 2**40 else {"x": x, "f": 1e300, "new": [{"day": DAY}, None]}


FIRST = nested(
    POINT,
    pa.int32(),
    [
        (1, small(1), [small(2), None], [("a", [small(3), None]), ("b", None)], [(1, 2), (2, None)]),
        (2, {"x": None, "f": None}, [], [], []),
        (3, None, None, None, None),
    ],
)
LATER = nested(
    WIDE,
    pa.int64(),
    [
        (4, wide(1), [None, wide(2)], [("z", [None, wide(3)])], [(2**44, 2**45)]),
        (5, None, None, None, None),
    ],
)
ROWS_OF_FIRST: list[tuple[Any, ...]] = [
    (1, read(1), [read(2), None], {"a": [read(3), None], "b": None}, {1: 2, 2: None}),
    (2, {"x": None, "f": None, "new": None}, [], {}, {}),
    (3, None, None, None, None),
]
ROWS_OF_LATER: list[tuple[Any, ...]] = [
    (4, read(2**40 + 1), [None, read(2**40 + 2)], {"z": [None, read(2**40 + 3)]}, {2**44: 2**45}),
    (5, None, None, None, None),
]


def rows(world: World, at: str = "") -> list[tuple[Any, ...]]:
    return world.query(f"SELECT id, p, l, m, k FROM lake.sales {at} ORDER BY id")


def check_values(world: World) -> None:
    """Values of files from before and from after the change, and conditions on their parts."""
    assert rows(world) == ROWS_OF_FIRST + ROWS_OF_LATER
    conditions = {
        "p.x = 1": [1],
        f"p.x = {2**40 + 1}": [4],
        "p.x IS NULL": [2, 3, 5],
        "p.f > 1": [4],
        "p.new IS NULL": [1, 2, 3, 5],
        "l[2].x > 2": [4],
        "m['a'][1].x = 3": [1],
        f"m['z'][2].x = {2**40 + 3}": [4],
        "k[1] = 2": [1],
    }
    asked = ", ".join(f"(SELECT list(id ORDER BY id) FROM lake.sales WHERE {condition})" for condition in conditions)
    (found,) = world.query(f"SELECT {asked}")
    assert dict(zip(conditions, found, strict=True)) == conditions


@CATALOGS
def test_nested_columns_follow_the_files(world: World) -> None:
    world.options = {"schema_policy": "evolve"}
    world.land(NW, FIRST)
    before = world.ingest(NW).row.snapshot_id
    earlier = rows(world)
    world.land(SW, LATER)

    result = world.ingest(SW)

    assert [str(change) for change in result.changes] == [
        f"{change} {kind}"
        for name in ("p", "l.element", "m.value.element")
        for change, kind in (
            (f"widened field {name}.x", "from INTEGER to BIGINT"),
            (f"widened field {name}.f", "from FLOAT to DOUBLE"),
            (f"added field {name}.new", 'STRUCT("day" DATE)[]'),
        )
    ] + [f"widened field k.{part} from INTEGER to BIGINT" for part in ("key", "value")]
    check_values(world)
    found = run_check(world.stream, "schema", scope_of_run(world.stream, result.row.run_id))
    assert "k was MAP(INTEGER, INTEGER) and is MAP(BIGINT, BIGINT)" in found.description
    assert rows(world, f"AT (VERSION => {before})") == earlier
    assert [row[1] for row in earlier] == [small(1), {"x": None, "f": None}, None]

    world.land(NW, FIRST, "again.parquet")  # the earlier form, into the table as it is now
    world.unland(NW)
    assert world.ingest(NW).changes == ()
    check_values(world)


@pytest.mark.more
@pytest.mark.parametrize("strategy", ["direct", "insert"])
def test_deltas_and_compaction_follow_nested_columns(evolving: World, tmp_path: Path, strategy: str) -> None:
    evolving.options |= {"deltas": {"to": str(tmp_path / "deltas"), "plaintext": strategy == "insert"}}
    if strategy == "insert":
        evolving.lake_options = {"attach_options": {"encrypted": True}}
    evolving.land(NW, FIRST)
    evolving.ingest(NW)
    evolving.land(NW, LATER)
    second = evolving.ingest(NW).row.snapshot_id
    points = {row[0]: row[1] for row in ROWS_OF_FIRST + ROWS_OF_LATER}

    uris = evolving.query("SELECT uri FROM lake.ingest_deltas WHERE snapshot_id = ?", second)
    exported = [row for (uri,) in uris for row in pq.read_table(uri).to_pylist()]
    assert {row["id"]: row["p"] for row in exported if row["_change"] == "delete"} == {n: points[n] for n in (1, 2, 3)}

    evolving.execute("INSERT INTO lake.sales SELECT * FROM lake.sales WHERE id = 5")
    (done,) = compact(evolving.stream, 2, evolving.sessions)
    assert (done.files_before, done.files_after, done.why) == (2, 1, None)
    assert rows(evolving) == [*ROWS_OF_LATER, ROWS_OF_LATER[-1]]


@pytest.mark.more
def test_a_new_list_whose_texts_are_a_dictionary_in_some_objects_is_one_of_texts(evolving: World) -> None:
    texts = pa.table({"id": [1, 2], "tags": pa.array([["a", "b"], None], pa.list_(pa.string()))})
    dictionary = pa.array([["a", "b"], None], pa.list_(pa.dictionary(pa.int32(), pa.string())))
    evolving.land(NW, texts.select(["id"]))
    evolving.ingest(NW)
    evolving.land(SW, texts.set_column(1, "tags", dictionary), "a.parquet")
    evolving.land(SW, texts, "b.parquet")
    evolving.ingest(SW)
    counts = evolving.query("SELECT tags, count(*) FROM lake.sales GROUP BY ALL ORDER BY ALL")
    assert counts == [(["a", "b"], 2), (None, 4)]
