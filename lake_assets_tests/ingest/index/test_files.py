"""The landed files that can be registered, by columns, partition columns, layouts and names."""

import io
import re
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.errors import SchemaError, SourceError
from lake_assets.ingest.index.index_plan import plan_index
from lake_assets.ingest.index.index_run import index_all
from lake_assets_tests.ingest.index.indexing import index, with_partition
from lake_assets_tests.ingest.test_in_rows import put
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


def test_a_file_without_rows_is_noted_and_nothing_else(indexed_world: World) -> None:
    indexed_world.land(NW, sales())
    indexed_world.land(SW, sales(1))

    outcomes = index(indexed_world)

    assert all(outcome.error is None for outcome in outcomes.values())
    assert len(indexed_world.live_files()) == 1
    assert index(indexed_world) == {}


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


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (pa.float32(), "column 'total' of .* is float, and conditions on the table's double would"),
        *more([(pa.float16(), "which DuckLake does not read as the table's double")]),
    ],
    ids=str,
)
def test_a_narrower_float_that_readers_would_take_for_another_is_refused(
    indexed_world: World, kind: pa.DataType, reason: str
) -> None:
    indexed_world.land(NW, sales(1))
    index(indexed_world)
    indexed_world.land(NW, pa.table({"id": [1], "total": pa.array([0.1], kind)}), "bad.parquet")

    assert_refused(indexed_world, reason)


def assert_refused(world: World, reason: str) -> None:
    (outcome,) = index(world).values()
    assert isinstance(outcome.error, SchemaError)
    assert re.search(reason, str(outcome.error))


def test_lists_in_sparks_old_form_are_refused_by_column(indexed_world: World, tmp_path: Path) -> None:
    """DuckLake would give NULL for every value."""
    pq.write_table(pa.table({"id": [1], "l": [[1, None]]}), tmp_path / "a", store_schema=False, compression="none")
    indexed_world.land(NW, (tmp_path / "a").read_bytes().replace(b"list", b"bagg"))

    assert_refused(indexed_world, r"column 'l' of .* old form \(l.bagg.element\).*writeLegacyFormat")


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


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (split(pa.array([1])), "column 'x' of .*unread.parquet is INT64 encoded by BYTE_STREAM_SPLIT, which DuckDB"),
        (patched(5), "is compressed by LZ4, which DuckDB"),
        *more(
            [
                (split(pa.array([b"ab"], pa.binary(2))), "FIXED_LEN_BYTE_ARRAY encoded by BYTE_STREAM_SPLIT"),
                (patched(3), "is compressed by LZO, which DuckDB"),
            ]
        ),
    ],
)
def test_a_form_that_duckdb_cannot_read_is_refused_by_column(indexed_world: World, body: bytes, reason: str) -> None:
    with pytest.raises(duckdb.Error):
        duckdb.sql(f"FROM read_parquet('{indexed_world.land(NW, body, 'unread.parquet')}')").fetchall()

    assert_refused(indexed_world, reason)
    assert indexed_world.query("SELECT count(*) FROM lake.sales") == [(0,)]


@pytest.mark.parametrize("kind", [pa.float32(), *more([pa.float64()])], ids=str)
def test_split_floats_are_registered(indexed_world: World, kind: pa.DataType) -> None:
    indexed_world.land(NW, split(pa.array([0.5, 1.5], kind)))

    (outcome,) = index(indexed_world).values()

    assert outcome.error is None
    assert indexed_world.query("SELECT x FROM lake.sales WHERE x > 1") == [(1.5,)]


@pytest.mark.parametrize("nested", [False, *more([True])])
def test_a_column_without_values_is_refused_where_ducklake_does_not_read_it(
    indexed_world: World, *, nested: bool
) -> None:
    """DuckLake's own `ducklake_add_data_files` takes it as INTEGER."""
    with_value = pa.array([{"a": "x"}]) if nested else pa.array(["x"])
    without = pa.array([{"a": None}]) if nested else pa.nulls(1)
    indexed_world.land(NW, pa.table({"id": [1], "number": [2], "text": with_value}))
    index(indexed_world)
    numbers = pa.table({"id": [2], "number": pa.nulls(1), "text": with_value})
    indexed_world.land(NW, numbers, "numbers.parquet")
    uri = indexed_world.land(NW, pa.table({"id": [3], "number": [4], "text": without}), "texts.parquet")

    (outcome,) = index(indexed_world).values()

    assert isinstance(outcome.error, SchemaError)
    message = f"column 'text' of the object {uri} has no value and no type ({without.type}), and DuckLake reads such a"
    assert str(outcome.error).startswith(message)
    assert str(outcome.error).endswith("or use mode: replace, which rewrites it.")
    assert indexed_world.query("SELECT id, number FROM lake.sales ORDER BY id") == [(1, 2), (2, None)]
    indexed_world.options = {}
    assert indexed_world.ingest(NW).row.status == "committed"


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
    assert of_live.result is not None
    assert of_live.result.row.status == "skipped"
    assert indexed_world.totals() == [2]


def test_files_of_another_table_of_the_lake_are_refused(indexed_world: World) -> None:
    uri = indexed_world.land(NW, sales(1))
    index(indexed_world)
    indexed_world.options |= {"destination": {"table": "other"}}
    stream = indexed_world.stream

    (outcome,) = index_all(stream)

    assert f"the object {uri} is a file of another table" in str(outcome.error)


def test_a_plan_names_what_the_registration_finds_first(indexed_world: World) -> None:
    """An object that does not fit the table, and is a file of another one."""
    first = indexed_world.options
    indexed_world.options = first | {"destination": {"table": "other"}}
    indexed_world.land(NW, pa.table({"id": ["a"]}))
    index(indexed_world)
    indexed_world.options = first
    indexed_world.land(SW, sales(1))
    index(indexed_world, SW)

    made = plan(indexed_world.stream, indexed_world.partition(NW))
    (outcome,) = index(indexed_world, NW).values()

    assert made.columns == (str(outcome.error).rstrip("."),)
    assert "another table" not in made.columns[0]
