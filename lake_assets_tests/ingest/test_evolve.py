"""A stream whose table evolves with landed objects: new columns, wider numbers, missing columns."""

import datetime as dt
import decimal
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.errors import SchemaError
from lake_assets.ingest.api import ingest_all
from lake_assets.parquet import landed
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.world import NW, SW, World, plan

CATALOGS = pytest.mark.parametrize(
    "world", [("sqlite", "local"), ("duckdb", "local"), ("postgres", "local")], indirect=True, ids="-".join
)


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


def test_a_new_table_has_the_columns_of_all_sampled_objects(evolving: World) -> None:
    evolving.land(NW, table(a=pa.array([1], pa.int8())), "1.parquet")
    evolving.land(NW, table(b=["x"], a=pa.array([2], pa.int64())), "2.parquet")

    assert evolving.ingest(NW).changes == ()

    assert evolving.query("SELECT a, b FROM lake.sales ORDER BY a") == [(1, None), (2, "x")]
    assert evolving.query("SELECT typeof(a) FROM lake.sales LIMIT 1") == [("BIGINT",)]


def test_all_objects_of_a_partition_are_checked(evolving: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landed, "SAMPLE", 1)
    evolving.land(NW, table(), "1.parquet")
    evolving.land(NW, table(a=pa.array([1], pa.int8())), "2.parquet")
    evolving.land(NW, table(b=["x"], a=pa.array([2], pa.int64())), "3.parquet")
    evolving.land(NW, pa.table({"c": [dt.date(2026, 1, 1)], "nothing": pa.nulls(1)}), "4.parquet")

    result = evolving.ingest(NW)

    assert [str(change) for change in result.changes] == [
        "added column a BIGINT", "added column b VARCHAR", "added column c DATE"
    ]  # fmt: skip
    assert len(messages(evolving)) == 1
    rows = evolving.query("SELECT a, b, c, id FROM lake.sales ORDER BY ALL")
    assert rows == [
        (1, None, None, 0),
        (2, "x", None, 0),
        (None, None, dt.date(2026, 1, 1), None),
        (None, None, None, 0),
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


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (table(id=[0.5]), "column 'id' of the object .* is double, and the table's is int64"),
        (table(**{"": [1]}), "has a column of the name ''"),
        (table(a=pa.array([1], pa.duration("s"))), "column 'a' has the type duration"),
    ],
    ids=["float for an integer", "no name", "no type"],
)
def test_a_change_that_is_not_a_widening_is_refused_and_nothing_changes(
    evolving: World, rows: pa.Table, message: str
) -> None:
    evolving.land(NW, table())
    evolving.ingest(NW)
    before = columns(evolving)
    evolving.land(NW, rows)
    evolving.land(SW, table(note=["new"]))

    results = list(ingest_all(evolving.stream, [evolving.partition(NW), evolving.partition(SW)], evolving.sessions))

    failed, done = sorted(results, key=lambda outcome: outcome.partition.path)
    assert isinstance(failed.error, SchemaError)
    with pytest.raises(SchemaError, match=message):
        raise failed.error
    assert done.result is not None
    assert columns(evolving) == before | {"note": "VARCHAR"}
    assert evolving.totals(NW) == [1.0]


def test_a_transform_sees_the_columns_of_all_objects_and_its_result_may_grow(evolving: World) -> None:
    sql = "SELECT id, total FROM source"
    evolving.options |= {"transform": {"sql": sql}}
    evolving.land(NW, table(), "1.parquet")
    evolving.ingest(NW)
    evolving.land(NW, table(note=["new"], total=pa.array([2], pa.float32())), "2.parquet")
    evolving.options |= {"transform": {"sql": f"{sql.replace(' FROM', ', note FROM')}"}}

    result = evolving.ingest(NW)

    assert [str(change) for change in result.changes] == ["added column note VARCHAR"]
    assert evolving.query("SELECT total, note FROM lake.sales ORDER BY ALL") == [(1.0, None), (2.0, "new")]


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


@pytest.mark.parametrize("policy", ["strict", "evolve"])
@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_seconds_and_milliseconds_of_a_table_that_another_client_made(
    local_world: World, policy: str, unit: str
) -> None:
    local_world.options = {"schema_policy": policy}
    with local_world.stream.lake.open(create=True) as lake:
        lake.rows(
            "CREATE TABLE lake.main.sales "
            "(seen TIMESTAMP_S, parts STRUCT(seen TIMESTAMP_MS)[], region VARCHAR, date DATE)"
        )
        lake.rows("ALTER TABLE lake.main.sales SET PARTITIONED BY (region, date)")
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
