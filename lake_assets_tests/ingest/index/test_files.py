"""The landed files that can be registered, by columns, partition columns, layouts and names."""

import datetime as dt
import io
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.retail import Retail
from lake_assets.base.errors import SchemaError, SourceError
from lake_assets.config.streams import StreamConfig
from lake_assets.ingest.index.index_run import plan_index
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.ingest.index.indexing import index, with_partition
from lake_assets_tests.ingest.landed_as import FACES, counted, cut_bounds, in_signed_order, miscounted, not_utf8
from lake_assets_tests.ingest.test_derived import ARRIVAL_CLOCK, FEB_18, FEB_19, LAYOUT, RECORDS, at, land, options
from lake_assets_tests.ingest.test_in_rows import TWO_WORLDS, put
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan, sales


def test_a_file_that_does_not_fit_fails_alone(indexed_world: World) -> None:
    indexed_world.land(NW, sales(1))
    index(indexed_world)
    bad = indexed_world.land(NW, pa.table({"id": [1], "totals": [1.0]}), "bad.parquet")
    worse = indexed_world.land(NW, b"no Parquet", "worse.parquet")
    empty = indexed_world.land(SW, b"", "empty.parquet")
    indexed_world.land(NW, sales(2), "good.parquet")
    indexed_world.land(SW, sales(3))

    outcomes = index(indexed_world)

    assert indexed_world.totals() == [1, 2, 3]
    of_nw, of_sw = (outcomes[str(indexed_world.partition(text))].error for text in (NW, SW))
    assert isinstance(of_nw, SourceError)
    assert "2 of 3 new objects" in str(of_nw)
    assert f"the object {bad} does not fit the table: it lacks 'total' and it has 'totals'" in str(of_nw)
    assert f"the object {worse} cannot be read as Parquet" in str(of_nw)
    assert f"the object {empty} cannot be read as Parquet: it is empty" in str(of_sw)
    rows = indexed_world.ledger()
    assert sorted(row.status for row in rows[:4]) == ["committed", "committed", "failed", "failed"]
    failed = [row for row in rows if row.status == "failed"]
    assert {(row.row_count, row.files_written, row.snapshot_id) for row in failed} == {(None, None, None)}
    # What was not registered is tried again.
    assert {obj.uri for obj in plan_index(indexed_world.stream).new} == {bad, worse, empty}


def test_the_first_file_that_can_be_read_makes_the_table(indexed_world: World) -> None:
    indexed_world.land(NW, b"no Parquet", "a.parquet")
    indexed_world.land(NW, sales(1), "b.parquet")

    (outcome,) = index(indexed_world).values()

    assert isinstance(outcome.error, SourceError)
    assert indexed_world.totals() == [1]


TWO = [1, 2]
NARROW = [
    (pa.int16(), pa.int64(), [7, -8], "9223372036854775807"),
    (pa.timestamp("ms"), pa.timestamp("us"), TWO, "'1970-01-01 00:00:00.0015'"),
    *more(
        [
            (pa.uint32(), pa.int64(), [7, 2**32 - 1], "-1"),
            (pa.decimal128(5, 2), pa.decimal128(18, 2), [Decimal("1.25"), Decimal("-7.50")], "12345678.9"),
            (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), TWO, "'1970-01-01 00:00:00.0015Z'"),
        ]
    ),
]


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize(("kind", "column", "values", "limit"), NARROW, ids=str)
def test_narrower_types_are_registered_and_found(
    indexed_world: World, kind: pa.DataType, column: pa.DataType, values: list[object], limit: str
) -> None:
    rows = pa.table({"n": pa.array([*values, None], kind)})
    indexed_world.land(NW, rows.cast(pa.schema([("n", column)])))
    indexed_world.land(NW, rows, "narrow.parquet")

    (outcome,) = index(indexed_world).values()

    assert outcome.error is None
    with indexed_world.reader() as client:
        for value in (limit, *(f"(SELECT {which}(n) FROM lake.sales)" for which in ("min", "max"))):
            client.execute(f"SET VARIABLE v = {value}")
            for operator in ("=", "<", "<=", ">", ">=", "<>"):
                # `count_if` is no condition that DuckDB gives to the reader of the file, in the file's type.
                condition = f"n {operator} getvariable('v')"
                (every,) = client.execute(f"SELECT count_if({condition}) FROM lake.sales").fetchall()
                found = client.execute(f"SELECT count(*) FROM lake.sales WHERE {condition}").fetchall()
                assert found == [every], condition


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("rows", [3, *more([2])], ids=["one group", "groups"])
def test_rows_are_found_whose_bounds_a_writer_has_compared_as_signed(indexed_world: World, rows: int) -> None:
    numbers = [1, 2**31 + 1, 7]
    indexed_world.land(NW, in_signed_order(*numbers, row_group_size=rows))

    (outcome,) = index(indexed_world).values()

    assert outcome.error is None
    columns = "SELECT u FROM lake.sales WHERE u"
    assert indexed_world.query(f"{columns} IN (1, 7) OR u > 2147483648") == [(number,) for number in numbers]
    assert indexed_world.query(f"{columns} = 2147483649") == [(2147483649,)]
    assert indexed_world.query("SELECT min(u), max(u) FROM lake.sales") == [(1, 2**31 + 1)]


@pytest.mark.usefixtures("strategy")
def test_rows_are_found_whose_bounds_a_writer_has_cut_within_a_character(indexed_world: World) -> None:
    indexed_world.land(NW, cut_bounds())

    (outcome,) = index(indexed_world).values()

    assert outcome.error is None
    assert indexed_world.query("SELECT x FROM lake.sales WHERE x = ? OR x > 'z' ORDER BY x", FACES) == [
        (FACES,),
        (FACES + "!",),
    ]


@pytest.mark.parametrize("says", [2, *more([0, 9])])
def test_a_file_of_which_duckdb_would_count_other_rows_is_refused(indexed_world: World, says: int) -> None:
    indexed_world.land(NW, counted(5, says=says))

    (outcome,) = index(indexed_world).values()

    assert re.search(f"has 5 rows, and its footer says {says}.* use mode: replace", str(outcome.error))
    indexed_world.options = {"mode": "replace"}
    assert indexed_world.ingest(NW).row.row_count == 5
    assert indexed_world.query("SELECT count(*) FROM lake.sales") == [(5,)]


def patched(codec: int) -> bytes:
    """A file whose footer names another codec than LZ4_RAW, by Thrift's number."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": ["a"]}), sink, compression="lz4", store_schema=False)
    assert sink.getvalue().count(b"x\x15\x0e") == 1
    return sink.getvalue().replace(b"x\x15\x0e", bytes([*b"x\x15", 2 * codec]))


def split(column: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": column}), sink, use_dictionary=False, column_encoding="BYTE_STREAM_SPLIT")
    return sink.getvalue()


def old_list() -> bytes:
    """A list in Spark's old form, of which DuckLake would give NULL for every value."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [[1, None]]}), sink, store_schema=False, compression="none")
    return sink.getvalue().replace(b"list", b"bagg")


def only(column: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": column}), sink)
    return sink.getvalue()


MISREAD: dict[str, tuple[Any, bytes, str]] = {
    "no nanosecond": (
        pa.array([1], pa.timestamp("ns")),
        only(pa.array([32_503_680_000_000_000], pa.timestamp("us"))),
        "has a time outside of 1677-09-22 to 2262-04-11, which the table's TIMESTAMP_NS cannot hold: correct the value",
    ),
    "float": ([0.5], only(pa.array([0.1], pa.float32())), "is float, and conditions on the table's double would"),
    "old list": ([[1]], old_list(), r"old form \(x.bagg.element\).*writeLegacyFormat"),
    "split integer": ([1], split(pa.array([1])), "is INT64 encoded by BYTE_STREAM_SPLIT, which DuckDB"),
    "LZ4": (["a"], patched(5), "is compressed by LZ4, which DuckDB"),
    "no UTF-8": (
        ["a"],
        only(not_utf8(b"a", b"\xac")),
        "has a value that DuckDB cannot hold .*Invalid string enc.*: correct",
    ),
    "miscounted": (["a"], miscounted(), "has 14 NULLs of 13 by its footer, which has bounds of other val"),
}
MORE_MISREAD: dict[str, tuple[Any, bytes, str]] = {
    "no nanosecond inside": (
        pa.array([[1]], pa.list_(pa.timestamp("ns"))),
        only(pa.array([[-11_676_096_000_000_000]], pa.list_(pa.timestamp("us")))),
        "has a time outside of 1677-09-22 to 2262-04-11",
    ),
    "half float": ([0.5], only(pa.array([0.1], pa.float16())), "which DuckLake does not read as the table's double"),
    "split bytes": (
        [b"ab"],
        split(pa.array([b"ab"], pa.binary(2))),
        "FIXED_LEN_BYTE_ARRAY encoded by BYTE_STREAM",
    ),
    "LZO": (["a"], patched(3), "is compressed by LZO, which DuckDB"),
    "no element": (
        [[["x"]]],
        only(pa.array([[None]], pa.list_(pa.null()))),
        r"is list<\w+: null>, which DuckLake does not read as the table's list<\w+: list",
    ),
}


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("kind", [*MISREAD, *more(MORE_MISREAD)])
def test_a_file_that_readers_would_misread_is_refused_by_column(indexed_world: World, kind: str) -> None:
    values, body, reason = (MISREAD | MORE_MISREAD)[kind]
    indexed_world.land(NW, pa.table({"x": values}))
    index(indexed_world)
    uri = indexed_world.land(NW, body, "misread.parquet")

    (outcome,) = index(indexed_world).values()

    assert isinstance(outcome.error, SchemaError)
    assert re.match(f"column 'x' of the object {uri} .*{reason}", str(outcome.error))
    assert indexed_world.query("SELECT count(*) FROM lake.sales") == [(1,)]


@pytest.mark.parametrize("kind", [pa.float32(), *more([pa.float64()])], ids=str)
def test_split_floats_are_registered(indexed_world: World, kind: pa.DataType) -> None:
    indexed_world.land(NW, split(pa.array([0.5, 1.5], kind)))

    (outcome,) = index(indexed_world).values()

    assert outcome.error is None
    assert indexed_world.query("SELECT x FROM lake.sales WHERE x > 1") == [(1.5,)]


TAGS, LABELS = pa.list_(pa.string()), pa.map_(pa.string(), pa.list_(pa.string()))
TYPED = {"id": [1], "n": [2], "text": ["x"], "tags": pa.array([["x"]], TAGS), "s": [{"a": ["x"], "b": 1}]}
TYPED |= {"labels": pa.array([[("k", ["x"])]], LABELS)}
UNTYPED = {name: pa.nulls(1) for name in TYPED} | {"id": [2]}
UNTYPED_PARTS = UNTYPED | {"tags": pa.array([[None]], pa.list_(pa.null())), "s": [{"a": None, "b": None}]}
ROWS_OF_UNTYPED = [
    (UNTYPED, (2, None, None, None, None, None)),
    (UNTYPED_PARTS, (2, None, None, [None], {"a": None, "b": None}, None)),
]


CATALOGS = [("sqlite", "local"), *more([(("postgres", "local"),), (("duckdb", "local"),)])]


@pytest.mark.parametrize(("untyped", "row"), ROWS_OF_UNTYPED, ids=["columns", "parts"])
@pytest.mark.parametrize("world", CATALOGS, indirect=True)
def test_what_has_no_value_in_a_file_is_null_whatever_type_the_table_has(
    world: World, untyped: dict[str, Any], row: tuple[Any, ...]
) -> None:
    world.options = {"mode": "index"}
    for number, rows in enumerate([TYPED, untyped]):
        world.land(NW, pa.table(rows), f"{number}.parquet")
        assert str(plan(world.stream, world.partition(NW)).decision) == "register 1 new object in place"
        assert world.ingest(NW).row.row_count == 1

    columns = f"SELECT {', '.join(TYPED)} FROM lake.sales"
    assert world.query(f"{columns} ORDER BY id")[1] == row
    assert world.query(f"{columns} WHERE text IS NULL AND s.a IS NULL AND labels IS NULL") == [row]
    assert len(world.query(f"{columns} WHERE text = 'x' AND s.b = 1")) == 1


@pytest.mark.parametrize("world", CATALOGS, indirect=True)
@pytest.mark.usefixtures("strategy")
def test_the_first_value_gives_a_column_its_type(world: World) -> None:
    (untyped, row), *_ = ROWS_OF_UNTYPED
    world.options = {"mode": "index"}
    world.land(NW, pa.table(untyped))
    world.ingest(NW)
    world.land(NW, pa.table(TYPED), "b.parquet")
    planned = plan(world.stream, world.partition(NW))

    result = world.ingest(NW)

    assert planned.columns == tuple(map(str, result.changes))
    assert "gave column text its type VARCHAR" in planned.columns
    assert str(planned.decision) == "register 1 new object in place"
    rows = world.query(f"SELECT {', '.join(TYPED)} FROM lake.sales ORDER BY id")
    assert rows == [(1, 2, "x", ["x"], {"a": ["x"], "b": 1}, {"k": ["x"]}), row]
    assert world.query("SELECT id FROM lake.sales WHERE text = 'x'") == [(1,)]


@pytest.mark.parametrize(("untyped", "row"), ROWS_OF_UNTYPED, ids=["columns", "parts"])
def test_a_plan_names_a_column_without_a_type_that_only_the_extension_would_register(
    indexed_world: World, untyped: dict[str, Any], row: tuple[Any, ...]
) -> None:
    indexed_world.land(NW, pa.table(TYPED))
    indexed_world.ingest(NW)
    table = f"ALTER TABLE {indexed_world.stream.table.sql} SET PARTITIONED BY"
    indexed_world.execute(f"{table} (region, year(date))")
    indexed_world.land(NW, pa.table(untyped), "b.parquet")
    planned = plan(indexed_world.stream, indexed_world.partition(NW))

    with pytest.raises(
        SchemaError, match=r"column '\w+' of the object .*b\.parquet has no value, so no type"
    ) as refused:
        indexed_world.ingest(NW)

    assert planned.decision.fails
    assert f"{refused.value}".rstrip(".") in planned.columns
    indexed_world.execute(f"{table} (region, date)")
    indexed_world.ingest(NW)
    assert indexed_world.query(f"SELECT {', '.join(TYPED)} FROM lake.sales ORDER BY id")[1] == row


def test_a_plan_names_what_the_first_run_refuses(indexed_world: World) -> None:
    indexed_world.land(NW, b"no Parquet", "a.parquet")
    indexed_world.land(NW, sales(1), "b.parquet")
    indexed_world.land(NW, pa.table({"id": ["a"], "total": [1.0]}), "c.parquet")
    indexed_world.land(NW, pa.table({}), "d.parquet")
    planned = plan(indexed_world.stream, indexed_world.partition(NW))

    (outcome,) = index(indexed_world).values()

    assert planned.decision.fails == "the lake refuses 2 new objects"
    assert [f"- {text}." in str(outcome.error) for text in planned.columns] == [True, True]
    assert "2 of 4 new objects" in str(outcome.error)
    assert indexed_world.totals() == [1]


@pytest.mark.usefixtures("strategy")
def test_partition_columns_in_a_file_must_have_the_values_of_the_path(indexed_world: World) -> None:
    indexed_world.land(NW, with_partition("NW"))
    indexed_world.land(NW, sales(7), "plain.parquet")
    lying = indexed_world.land(SW, with_partition("NW"))
    mixed = pa.concat_tables([with_partition("SW"), with_partition("NW", rows=1)])
    mixing = indexed_world.land(SW, mixed, "mixed.parquet", write_statistics=False)

    outcomes = index(indexed_world)

    assert outcomes[str(indexed_world.partition(NW))].error is None
    assert indexed_world.totals(NW) == [0, 1, 7]
    error = str(outcomes[str(indexed_world.partition(SW))].error)
    for uri in (lying, mixing):
        assert f"the object {uri} has a row with region='NW', and belongs to region=SW/date=2026-02-11" in error
    assert indexed_world.totals() == [0, 1, 7]


def test_a_layout_that_readers_do_not_know_is_registered_where_the_files_have_the_columns(
    indexed_world: World,
) -> None:
    indexed_world.options |= {"layout": "{region}/{date,,YYYY}/{date,,MM}/{date,,DD}"}
    put(indexed_world, "NW/2026/02/11/a.parquet", with_partition("NW"))
    plain = put(indexed_world, "SW/2026/02/11/b.parquet", sales(1))
    lying = put(indexed_world, "SW/2026/02/12/c.parquet", with_partition("SW"))
    put(indexed_world, "region=NE/2026/02/12/c.parquet", with_partition("NE"))

    outcomes = index(indexed_world)

    assert indexed_world.totals(NW) == [0, 1]
    assert indexed_world.query("SELECT DISTINCT region, date::VARCHAR FROM lake.sales") == [("NW", "2026-02-11")]
    assert indexed_world.query("SELECT count(*) FROM lake.sales WHERE region = 'NW'") == [(2,)]
    errors = " ".join(str(outcome.error) for outcome in outcomes.values())
    assert f"the partition column 'region' of the object {plain} is neither in the file nor" in errors
    assert f"the object {lying} has a row with date='2026-02-11'" in errors


def test_values_that_duckdb_would_read_otherwise_are_refused(indexed_world: World) -> None:
    """DuckDB reads the folder `region=null` as NULL."""
    indexed_world.land("region=null,date=2026-02-11", sales(1))
    indexed_world.land("region=O'Hare%2F100%25,date=2026-02-11", sales(2))

    outcomes = index(indexed_world)

    assert [outcome.error is None for outcome in outcomes.values()] == [True, False]
    assert indexed_world.query("SELECT region, total FROM lake.sales") == [("O'Hare/100%", 2)]


@pytest.mark.usefixtures("strategy")
def test_odd_names_are_registered(indexed_world: World) -> None:
    names = ["x", "[x]*", "a?b", "a#b=c&d", "%41 %", "it's {1}"]
    uris = {indexed_world.land(NW, sales(number), f"{name}.parquet") for number, name in enumerate(names)}

    (outcome,) = index(indexed_world).values()

    assert outcome.error is None
    assert indexed_world.totals() == [0, 1, 2, 3, 4, 5]
    assert set(indexed_world.live_files()) == uris


@pytest.mark.usefixtures("strategy")
def test_a_path_whose_entry_has_ended_is_not_registered_again(indexed_world: World) -> None:
    uri = indexed_world.land(NW, sales(1))
    indexed_world.land(SW, sales(2))
    index(indexed_world)
    indexed_world.execute("DELETE FROM lake.sales WHERE region = 'NW'")
    assert index(indexed_world) == {}
    indexed_world.execute("DELETE FROM lake.ingest_files")  # what the manifest forgot, the catalog still knows

    outcomes = index(indexed_world)

    assert f"the object {uri} was registered before and has ended" in str(
        outcomes[str(indexed_world.partition(NW))].error
    )
    of_live = outcomes[str(indexed_world.partition(SW))]
    assert of_live.error is None
    assert of_live.is_done
    assert of_live.row.status == "skipped"
    assert indexed_world.totals() == [2]


def test_files_of_another_table_of_the_lake_are_refused_and_a_plan_names_what_the_run_finds_first(
    indexed_world: World,
) -> None:
    first = indexed_world.options
    indexed_world.options = first | {"destination": {"table": "other"}}
    indexed_world.land(NW, pa.table({"id": ["a"]}))
    index(indexed_world)
    indexed_world.options = first
    indexed_world.land(SW, sales(1))
    index(indexed_world, SW)

    made = plan(indexed_world.stream, indexed_world.partition(NW))
    (outcome,) = index(indexed_world, NW).values()  # it does not fit either

    assert made.columns == (str(outcome.error).rstrip("."),)
    assert "another table" not in made.columns[0]
    indexed_world.options = first | {"destination": {"table": "third"}}
    (outcome,) = index(indexed_world, SW).values()
    assert "batch_1.parquet is a file of another table" in str(outcome.error)


# Partition columns that are derived from another column of the files or the layout.

REGIONS = ("NW", "NE", "MW", "SE", "SW")
NOW = "{now(),,YY}-{now(),,MM}-{now(),,DD}"
ARRIVAL: dict[str, Any] = {
    "mode": "index",
    "layout": f"region={{store_region}}/date={NOW}",
    "partitions": {
        "region": {"from": "store_region"},
        "arrival_date": {"type": "date", "from": "date", "start": "2025-01-01"},
    },
}
UNNAMED = {"layout": "{ts,,YY}/{ts,,MM}/{ts,,DD}"}
STATEMENT = "SELECT id, ts, date::VARCHAR FROM lake.sales ORDER BY id"


def rows(*days: int, ids: int = 0) -> pa.Table:
    return pa.table({"id": range(ids, ids + len(days)), "ts": [at(10, day) for day in days]})


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize(
    ("strategy", "folders"),
    [("direct", {}), ("direct", UNNAMED | {"landing": {"keep_path_columns": True}}), *more([("extension", {})])],
    indirect=["strategy"],
)
def test_landed_records_are_registered_with_both_columns(local_world: World, folders: dict[str, Any]) -> None:
    local_world.options = options(mode="index", **folders)
    land(local_world, *RECORDS)

    done = index(local_world)

    assert {path: one.error for path, one in done.items()} == {FEB_18: None, FEB_19: None}
    assert [row[::2] for row in local_world.query(STATEMENT)] == [
        (1, "2025-02-18"),
        (2, "2025-02-18"),
        (3, "2025-02-19"),
    ]
    assert local_world.query("SELECT id FROM lake.sales WHERE date = DATE '2025-02-19'") == [(3,)]


@pytest.mark.parametrize(
    ("zone", "kind"),
    [("Europe/Berlin", pa.timestamp("ms", "UTC")), *more([("UTC", pa.timestamp("us")), ("UTC", pa.string())])],
)
def test_a_row_of_another_day_is_found_by_statistics_or_by_reading(
    local_world: World, zone: str, kind: pa.DataType
) -> None:
    local_world.options = options(mode="index", layout={"template": LAYOUT, "time_zone": zone})
    for name, *days in (("good", 18, 18), ("bad", 18, 19), ("worse", 19, 19)):
        table = rows(*days)
        put(local_world, f"{FEB_18}/{name}.parquet", table.set_column(1, "ts", table["ts"].cast(kind)))

    error = str(index(local_world)[FEB_18].error)

    assert error.startswith("2 of 3 new objects of date=2025-02-18 were not registered")
    for name in ("bad", "worse"):
        assert f"{name}.parquet has a row with ts='2025-02-19 10:00:00" in error
    assert f"which is date=2025-02-19 in the time zone {zone}, and belongs to date=2025-02-18" in error
    assert local_world.query("SELECT count(*) FROM lake.sales") == [(2,)]


def test_nulls_are_of_the_null_partition(local_world: World) -> None:
    local_world.options = options(mode="index")
    nulls = pa.table({"id": [1], "ts": pa.nulls(1, pa.timestamp("us"))})
    put(local_world, "date=default_ts-default_ts-default_ts/a.parquet", nulls)
    put(local_world, f"{FEB_18}/a.parquet", nulls)

    done = index(local_world, outside=True)

    assert "is neither in the file nor" in str(done["date=__HIVE_DEFAULT_PARTITION__"].error)
    assert "has a row with ts=NULL, which is date=NULL" in str(done[FEB_18].error)


def test_folders_without_names_need_the_columns_in_the_files(local_world: World) -> None:
    local_world.options = options(mode="index", **UNNAMED)
    land(local_world, *RECORDS)

    errors = [str(outcome.error) for outcome in index(local_world).values()]

    assert all("land the column in the file too (landing: keep_path_columns: true)" in error for error in errors)


@TWO_WORLDS
def test_a_folder_of_another_name_is_mapped_to_the_column_also_by_a_repair(
    world: World,
) -> None:
    world.options = ARRIVAL
    table = pa.table({"id": [1], "date": [dt.date(2020, 1, 1)]})
    for day in (18, 19):
        put(world, f"region=NW/date=2025-02-{day}/a.parquet", table)
    kept = table.append_column("arrival_date", pa.array([dt.date(2025, 2, 20)]))
    put(world, "region=NW/date=2025-02-20/a.parquet", kept)

    done = index(world)

    assert [item.error for item in done.values()] == [None] * 3
    assert world.query("SELECT region, date::VARCHAR, arrival_date::VARCHAR FROM lake.sales ORDER BY ALL") == [
        ("NW", "2020-01-01", f"2025-02-{day}") for day in (18, 19, 20)
    ]
    mappings = "SELECT count(*) FROM __ducklake_metadata_lake.ducklake_column_mapping"
    before = world.query(mappings)
    put(world, "region=NW/date=2025-02-19/a.parquet", pa.concat_tables([table] * 99))
    assert repair_indexed(world.stream).renewed == 1
    assert world.query("SELECT count(*) FROM lake.sales WHERE arrival_date = DATE '2025-02-19'") == [(99,)]
    assert world.query(mappings) == before


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("strategy", ["extension"], indirect=True)
def test_the_extension_strategy_refuses_such_a_folder(local_world: World) -> None:
    local_world.options = ARRIVAL
    put(local_world, "region=NW/date=2025-02-18/a.parquet", pa.table({"id": [1], "date": [dt.date(2020, 1, 1)]}))

    (outcome,) = index(local_world).values()

    reason = "has arrival_date in a folder date=…, and DuckLake's extension reads only arrival_date=…"
    assert reason in str(outcome.error)


@pytest.mark.parametrize("keep", [False, *more([True])])
def test_the_reference_pipelines_own_paths_run_from_end_to_end(local_world: World, *, keep: bool) -> None:
    local_world.options = ARRIVAL | {"landing": {"keep_path_columns": keep}}
    retail = Retail(stores=5, regions=REGIONS, days=2, seed=1, per_store=20)
    records = pa.concat_tables([block.rename_columns({"region": "store_region"}) for block in retail.blocks()])
    stream: StreamConfig = local_world.config.streams["sales"]
    with LandingWriter("sales", stream, clock=lambda: ARRIVAL_CLOCK) as writer:
        writer.write(records)

    assert all(outcome.error is None for outcome in index(local_world).values())

    assert local_world.query("SELECT count(*), count(DISTINCT region) FROM lake.sales") == [(records.num_rows, 5)]
    assert local_world.query("SELECT DISTINCT arrival_date::VARCHAR FROM lake.sales") == [("2025-02-20",)]
    assert local_world.query("SELECT count(DISTINCT date) FROM lake.sales WHERE region = 'NW'") == [(2,)]
