"""A stream whose table evolves with landed objects: new, wider and missing columns, and parts of them at any depth."""

import datetime as dt
import decimal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.checks.check_run import run_check, scope_of_run
from lake_assets.errors import SchemaError
from lake_assets.ingest.api import ingest_all
from lake_assets.maintenance.compaction import compact
from lake_assets.parquet import landed
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.tiers import more
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
    monkeypatch.setattr(landed, "SAMPLE", 1)
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

    assert all(outcome.result is not None for outcome in objects)
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


POINT = pa.struct([("x", pa.int32()), ("deep", pa.struct([("f", pa.float32())]))])
OLD = pa.schema(
    [
        ("id", pa.int64()),
        ("p", POINT),
        ("l", pa.list_(POINT)),
        ("m", pa.map_(pa.string(), pa.list_(POINT))),
        ("k", pa.map_(pa.int32(), pa.int32())),
    ]
)
LARGE = pa.struct(
    [
        ("new", pa.list_(pa.struct([("day", pa.date32())]))),
        ("deep", pa.struct([("s", pa.string()), ("F", pa.float64())])),
        ("X", pa.int64()),
    ]
)
NEW = pa.schema(
    [
        ("id", pa.int64()),
        ("p", LARGE),
        ("l", pa.large_list(LARGE)),
        ("m", pa.map_(pa.string(), pa.list_(LARGE))),
        ("k", pa.map_(pa.int64(), pa.int64())),
    ]
)
CHANGES = [
    "widened field {}.x from INTEGER to BIGINT",
    "widened field {}.deep.f from FLOAT to DOUBLE",
    "added field {}.deep.s VARCHAR",
    'added field {}.new STRUCT("day" DATE)[]',
]


def point(x: int | None, f: float | None) -> dict[str, Any]:
    return {"x": x, "deep": {"f": f}}


def large(x: int, f: float, s: str, day: dt.date) -> dict[str, Any]:
    return {"X": x, "deep": {"F": f, "s": s}, "new": [{"day": day}, None]}


def read(row: Any) -> Any:
    """A struct as a reader of the evolved table sees it."""
    if row is None:
        return None
    deep = row["deep"] and {"f": row["deep"].get("f", row["deep"].get("F")), "s": row["deep"].get("s")}
    return {"x": row.get("x", row.get("X")), "deep": deep, "new": row.get("new")}


def seen(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row as a reader of the evolved table sees it."""
    points = None if row["l"] is None else [read(item) for item in row["l"]]
    of_maps = None if row["m"] is None else {k: None if v is None else [read(i) for i in v] for k, v in row["m"]}
    return row["id"], read(row["p"]), points, of_maps, None if row["k"] is None else dict(row["k"])


SMALL_ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "p": point(1, 0.5),
        "l": [point(2, None), None],
        "m": [("a", [point(3, 1.5), None]), ("b", None)],
        "k": [(1, 2), (2, None)],
    },
    {"id": 2, "p": {"x": None, "deep": None}, "l": [], "m": [], "k": []},
    {"id": 3, **dict.fromkeys(OLD.names[1:])},
]
LARGE_ROWS: list[dict[str, Any]] = [
    {
        "id": 4,
        "p": large(2**40, 1e300, "p", DAY),
        "l": [None, large(2**41, 0.1, "l", DAY)],
        "m": [("z", [None, large(2**42, -1e300, "m", DAY)])],
        "k": [(2**44, 2**45)],
    },
    {"id": 5, **dict.fromkeys(OLD.names[1:])},
]
SMALL = pa.Table.from_pylist(SMALL_ROWS, OLD)


def rows(world: World, at: str = "") -> list[tuple[Any, ...]]:
    return world.query(f"SELECT id, p, l, m, k FROM lake.sales {at} ORDER BY id")


def check_values(world: World) -> None:
    """Values of files from before and from after the change, and conditions on their parts."""
    assert rows(world) == [seen(row) for row in (*SMALL_ROWS, *LARGE_ROWS)]
    conditions = {
        "p.x = 1": [1],
        f"p.x = {2**40}": [4],
        "p.x IS NULL": [2, 3, 5],
        "p.deep.f > 1": [4],
        "p.deep.s = 'p'": [4],
        "p.deep.s IS NULL": [1, 2, 3, 5],
        "l[2].x > 2": [4],
        "m['a'][1].x = 3": [1],
        "m['z'][2].deep.s = 'm'": [4],
        "k[1] = 2": [1],
    }
    asked = ", ".join(f"(SELECT list(id ORDER BY id) FROM lake.sales WHERE {condition})" for condition in conditions)
    (found,) = world.query(f"SELECT {asked}")
    assert dict(zip(conditions, found, strict=True)) == conditions


@CATALOGS
def test_nested_columns_follow_the_files(world: World) -> None:
    world.options = {"schema_policy": "evolve"}
    world.land(NW, SMALL)
    before = world.ingest(NW).row.snapshot_id
    earlier = rows(world)
    world.land(SW, pa.Table.from_pylist(LARGE_ROWS, NEW))

    result = world.ingest(SW)

    assert [str(change) for change in result.changes] == [
        *[change.format(name) for name in ("p", "l.element", "m.value.element") for change in CHANGES],
        "widened field k.key from INTEGER to BIGINT",
        "widened field k.value from INTEGER to BIGINT",
    ]
    check_values(world)
    found = run_check(world.stream, "schema", scope_of_run(world.stream, result.row.run_id))
    assert "k was MAP(INTEGER, INTEGER) and is MAP(BIGINT, BIGINT)" in found.description
    assert rows(world, f"AT (VERSION => {before})") == earlier
    assert [row[1] for row in earlier] == [point(1, 0.5), {"x": None, "deep": None}, None]

    world.land(NW, SMALL, "again.parquet")  # the earlier form, into the table as it is now
    world.unland(NW)
    assert world.ingest(NW).changes == ()
    check_values(world)


@pytest.mark.more
def test_a_partition_that_was_evolved_is_compacted(evolving: World) -> None:
    evolving.land(NW, SMALL)
    evolving.ingest(NW)
    evolving.land(SW, pa.Table.from_pylist(LARGE_ROWS, NEW))
    evolving.ingest(SW)
    evolving.execute("INSERT INTO lake.sales SELECT * FROM lake.sales WHERE region = 'SW' AND id = 5")

    (done,) = compact(evolving.stream, 2, evolving.sessions)

    assert (done.files_before, done.files_after, done.why) == (2, 1, None)
    evolving.execute("DELETE FROM lake.sales WHERE id = 5")
    evolving.land(SW, pa.Table.from_pylist(LARGE_ROWS, NEW), "again.parquet")
    evolving.unland(SW)
    evolving.ingest(SW, force=True)
    check_values(evolving)


@pytest.mark.more
@pytest.mark.parametrize("strategy", ["direct", "insert"])
def test_changes_and_deltas_follow_nested_columns(evolving: World, tmp_path: Path, strategy: str) -> None:
    evolving.options |= {"deltas": {"to": str(tmp_path / "deltas"), "plaintext": strategy == "insert"}}
    if strategy == "insert":
        evolving.lake_options = {"attach_options": {"encrypted": True}}
    evolving.land(NW, SMALL)
    first = evolving.ingest(NW).row.snapshot_id
    evolving.land(NW, pa.Table.from_pylist(LARGE_ROWS, NEW))
    second = evolving.ingest(NW).row.snapshot_id
    assert rows(evolving) == [seen(row) for row in LARGE_ROWS]

    with evolving.stream.changes(0) as reader:
        changes = reader.read_all().to_pylist()
    found = sorted((row["_snapshot"], row["_change"], row["id"]) for row in changes)
    assert found == [
        *[(first, "insert", number) for number in (1, 2, 3)],
        *[(second, "delete", number) for number in (1, 2, 3)],
        *[(second, "insert", number) for number in (4, 5)],
    ]
    assert {row["id"]: row["p"] for row in changes} == {row["id"]: read(row["p"]) for row in (*SMALL_ROWS, *LARGE_ROWS)}
    uris = evolving.query("SELECT uri FROM lake.ingest_deltas WHERE snapshot_id = ?", second)
    exported = [row for (uri,) in uris for row in pq.read_table(uri).to_pylist()]
    assert {row["id"]: row["p"] for row in exported if row["_change"] == "delete"} == {
        row["id"]: read(row["p"]) for row in SMALL_ROWS
    }


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
