"""Copied objects against encoded ones: the same landed objects give the same rows, statistics and change feed."""

import datetime as dt
import decimal
import io
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import SchemaError, SourceError
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets_tests.ingest.landed_as import counted, cut_bounds, in_signed_order, miscounted
from lake_assets_tests.lake.commit.strategy_pair import SCHEMA, row
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales

TYPES = pa.Table.from_pylist([row(n) for n in range(2000)] + [dict.fromkeys(SCHEMA.names)] * 3, SCHEMA)


def landed(table: pa.Table, **writer: Any) -> bytes:
    """The bytes of a Parquet file in the stream's codec."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"compression": "zstd"} | writer)
    return sink.getvalue()


def damaged() -> bytes:
    """A file with a wrong byte in a page, which its footer does not show."""
    body = bytearray(landed(sales(*range(1000)), write_page_checksum=True, use_dictionary=False))
    body[100] ^= 0xFF
    return bytes(body)


def both_ways(world: World, *objects: bytes, first: pa.Table | None = None, **options: Any) -> tuple[World, World]:
    """Two lakes with these landed objects in one partition, copied in the first and encoded in the second.

    Args:
        world: both worlds are made from it.
        objects: of the partition.
        first: rows of another partition, which give the table its columns.
        options: of the streams.
    """
    if first is not None:
        world.land(SW, first)
    for number, body in enumerate(objects):
        world.land(NW, body, f"batch_{number}.parquet")
    worlds = []
    for policy in ("always", "never"):
        folder = Path(world.catalog["path"]).parent / policy
        folder.mkdir()
        encoding = replace(
            world,
            catalog={"type": "sqlite", "path": str(folder / "catalog.sqlite")},
            storage={"type": "local", "path": str(folder / "data")},
            options=world.options | options | {"copy": policy},
            _opened=None,
        )
        if first is not None:
            encoding.ingest(SW)
        worlds.append(encoding)
    return worlds[0], worlds[1]


def statistics(world: World) -> list[tuple[Any, ...]]:
    """What the catalog has of each column of each file, and of each column of the table."""
    catalog = "__ducklake_metadata_lake"
    files = world.query(
        "SELECT c.column_name, s.value_count, s.null_count, s.min_value, s.max_value, f.record_count "
        f"FROM {catalog}.ducklake_file_column_stats s JOIN {catalog}.ducklake_data_file f USING (data_file_id) "
        f"JOIN {catalog}.ducklake_table t ON t.table_id = s.table_id AND t.table_name = 'sales' "
        f"JOIN {catalog}.ducklake_column c ON c.column_id = s.column_id AND c.table_id = s.table_id ORDER BY ALL"
    )
    table = world.query(
        "SELECT c.column_name, s.contains_null, s.min_value, s.max_value, n.record_count, n.next_row_id "
        f"FROM {catalog}.ducklake_table_column_stats s JOIN {catalog}.ducklake_table_stats n USING (table_id) "
        f"JOIN {catalog}.ducklake_table t ON t.table_id = s.table_id AND t.table_name = 'sales' "
        f"JOIN {catalog}.ducklake_column c ON c.column_id = s.column_id AND c.table_id = s.table_id ORDER BY ALL"
    )
    return files + table


def changes(world: World) -> list[tuple[Any, ...]]:
    """The change feed since the table was created, without the snapshots' numbers."""
    ((first, last),) = world.query(
        "SELECT (SELECT begin_snapshot FROM __ducklake_metadata_lake.ducklake_table WHERE table_name = 'sales'), "
        "max(snapshot_id) FROM lake.snapshots()"
    )
    return world.query(
        "SELECT * EXCLUDE (snapshot_id) FROM ducklake_table_changes('lake', 'main', 'sales', ?::BIGINT, ?::BIGINT) "
        "ORDER BY rowid, change_type",
        first,
        last,
    )


def read(world: World) -> str:
    """All rows, as a plain client reads them; a NaN equals no other, but its text does."""
    return repr(world.query("FROM lake.sales ORDER BY ALL"))


def found(world: World, *columns: str) -> list[tuple[Any, ...]]:
    """The rows that conditions on some values of columns find."""
    result: list[tuple[Any, ...]] = []
    with world.reader() as client:
        for column in columns:
            sql = f"SELECT DISTINCT {column}::VARCHAR AS v, typeof({column}) FROM lake.sales ORDER BY hash(v) LIMIT 10"
            for value, kind in client.execute(sql).fetchall():
                condition = f"SELECT count(*) FROM lake.sales WHERE {column} = ?::{kind}"
                result.append((column, value, client.execute(condition, [value]).fetchall()))
    return result


def assert_same(copied: World, encoded: World) -> None:
    assert read(copied) == read(encoded)
    assert repr(statistics(copied)) == repr(statistics(encoded))  # a NaN equals no other
    assert repr(changes(copied)) == repr(changes(encoded))


def files_copied(copied: World, encoded: World, **options: Any) -> tuple[int | None, int | None]:
    """Ingest the partition in both lakes."""
    return copied.ingest(NW, **options).row.files_copied, encoded.ingest(NW, **options).row.files_copied


@pytest.mark.more
def test_types_of_all_kinds(local_world: World) -> None:
    copied, encoded = both_ways(local_world, landed(TYPES, row_group_size=700))

    for _ in range(2):  # the extension commits a table's first file
        assert files_copied(copied, encoded, force=True) == (1, 0)

    assert_same(copied, encoded)
    names = ("i8", "i64", "f32", "f64", "text", "id", "amount", "day", "clock", "local", "nanos", "instant")
    assert found(copied, *names) == found(encoded, *names)
    (file,) = copied.live_files()
    assert pq.read_table(file, partitioning=None).equals(TYPES)


def test_another_order_of_columns(local_world: World) -> None:
    order = ["r", *(name for name in TYPES.column_names if name != "r"), "s"]
    named = pa.array([{"y": 1, "x": 2}, None], pa.struct([("y", pa.int8()), ("x", pa.int16())]))
    rows = TYPES.slice(0, 2).append_column("r", named).append_column("s", pa.array(["a", "ü"]))
    encoded_texts = rows.set_column(rows.column_names.index("s"), "s", rows["s"].dictionary_encode())
    first = rows.select(order).set_column(0, "r", named.cast(pa.struct([("x", pa.int16()), ("y", pa.int8())])))
    copied, encoded = both_ways(local_world, landed(encoded_texts), first=first)

    assert files_copied(copied, encoded) == (1, 0)

    assert read(copied) == read(encoded)
    assert repr(changes(copied)) == repr(changes(encoded))
    assert copied.query("SELECT count(*) FROM lake.sales WHERE r.x = 2 AND r.y = 1") == [(2,)]


OTHER_TYPES = [
    (pa.float32(), pa.float64(), [0.1, 0.2, -0.0], "0.1"),
    (pa.uint8(), pa.int32(), [1, 200, 255], "200"),
    (pa.decimal128(5, 2), pa.decimal128(18, 2), [decimal.Decimal("1.25"), decimal.Decimal("-7.50")], "1.25"),
    (pa.timestamp("ms"), pa.timestamp("us"), [1, 1_700_000_000_000], "'1970-01-01 00:00:00.001'"),
    (pa.binary(2), pa.binary(), [b"ab", b"cd"], "'ab'::BLOB"),
]  # fmt: skip


@pytest.mark.parametrize("nested", [False, *more([True])])
@pytest.mark.parametrize(
    ("kind", "column", "values", "limit"),
    [OTHER_TYPES[0], *more(OTHER_TYPES[1:])],
    ids=[str(kind) for kind, *_ in OTHER_TYPES],
)
def test_a_file_with_another_type_than_the_table_is_encoded(
    local_world: World, kind: pa.DataType, column: pa.DataType, values: list[Any], limit: str, *, nested: bool
) -> None:
    """DuckDB compares a FLOAT in a file with a condition in single precision, where the column is DOUBLE."""
    array = pa.array([*values, None], kind)
    rows = pa.table({"n": pa.StructArray.from_arrays([array], ["x"]) if nested else array})
    first = rows.cast(pa.schema([("n", pa.struct([("x", column)]) if nested else column)]))
    local_world.options = {"copy": "always"}
    local_world.land(SW, landed(first))
    local_world.ingest(SW)
    local_world.land(NW, landed(rows))

    assert local_world.ingest(NW).row.files_copied == 0

    name = "n.x" if nested else "n"
    with local_world.reader() as client:
        for operator in ("=", "<", "<=", ">", ">=", "<>"):
            condition = f"{name} {operator} {limit}"
            counted = client.execute(f"SELECT count_if({condition}) FROM lake.sales").fetchall()  # by no file's type
            assert client.execute(f"SELECT count(*) FROM lake.sales WHERE {condition}").fetchall() == counted


@pytest.mark.more
@pytest.mark.parametrize("by_footer", [True, False])
def test_partition_columns_inside_a_file_whose_field_ids_are_those_of_another_table(
    local_world: World, by_footer: bool
) -> None:
    """As Iceberg's writers give them."""
    fields = [("id", pa.int64(), b"2"), ("total", pa.float64(), b"1")]
    schema = pa.schema([pa.field(name, kind, metadata={b"PARQUET:field_id": number}) for name, kind, number in fields])
    rows = sales(1, 2, 3).cast(schema)
    own = rows.append_column("region", pa.array(["NW"] * 3)).append_column("date", pa.array([dt.date(2026, 2, 11)] * 3))
    columns = True if by_footer else rows.column_names
    copied, encoded = both_ways(local_world, landed(own, write_statistics=columns), first=rows)

    assert files_copied(copied, encoded) == (1, 0)

    assert_same(copied, encoded)
    assert copied.query("SELECT count(*) FROM lake.sales WHERE region = 'NW' AND date = '2026-02-11'") == [(3,)]
    assert copied.query("SELECT count(*) FROM lake.sales WHERE region = 'SW'") == [(3,)]
    assert found(copied, "id", "total") == found(encoded, "id", "total")


UNFIT = {
    "a NaN": landed(sales(1, math.nan)),
    "swapped bounds": in_signed_order(1, 2**31 + 1, 7),
    "miscounted": miscounted(),
    "another count": counted(5, says=2),
    "no statistics": landed(sales(1), write_statistics=False),
    "an old list": landed(pa.table({"l": [[1]]}), use_compliant_nested_type=False),
    "INT96": landed(pa.table({"t": pa.array([1], pa.timestamp("us"))}), use_deprecated_int96_timestamps=True),
    "half floats": landed(pa.table({"h": pa.array([1.5], pa.float16())})),
    "a wider time": landed(pa.table({"c": pa.array([1], pa.time32("ms"))})),
    "LZ4": landed(sales(1), compression="lz4"),
    "an encoding that DuckDB does not read": landed(
        pa.table({"n": [1, 2], "f": [0.5, 1.5]}), use_dictionary=False, column_encoding="BYTE_STREAM_SPLIT"
    ),
}


@pytest.mark.parametrize("name", [*list(UNFIT)[:2], *more(list(UNFIT)[2:])])
def test_what_readers_would_read_otherwise_is_encoded(local_world: World, name: str) -> None:
    copied, encoded = both_ways(local_world, UNFIT[name])

    assert files_copied(copied, encoded) == (0, 0)

    assert_same(copied, encoded)


def test_rows_of_a_copy_are_found_whose_bounds_a_writer_has_cut_within_a_character(local_world: World) -> None:
    copied, encoded = both_ways(local_world, cut_bounds())

    assert files_copied(copied, encoded) == (1, 0)

    assert read(copied) == read(encoded)
    assert copied.query("SELECT count(*) FROM lake.sales WHERE x > 'z'") == [(2,)]


def test_a_codec_that_parquet_does_not_have_is_named(local_world: World) -> None:
    copied, encoded = both_ways(local_world, landed(sales(1)))
    for world in (copied, encoded):
        body = landed(sales(1))
        place = body.rindex(b"\x19\x18\x05total\x15") + 9  # the codec of the second column, by its path
        world.land(NW, body[:place] + b"\x12" + body[place + 1 :])

        with pytest.raises(SourceError, match="codec value: 9"):
            world.ingest(NW)


def test_copied_and_encoded_files_in_one_commit_and_compacted(local_world: World) -> None:
    no_page = landed(sales(), use_dictionary=False)
    objects = (landed(sales(1)), landed(sales(2, math.nan)), landed(sales()), no_page, landed(sales(3)))
    copied, encoded = both_ways(local_world, *objects)

    result, other = copied.ingest(NW), encoded.ingest(NW)

    assert (result.row.files_written, result.row.files_copied, result.row.row_count) == (3, 2, 4)
    assert (other.row.files_written, other.row.files_copied, other.row.row_count) == (1, 0, 4)
    assert read(copied) == read(encoded)
    assert copied.query("SELECT count(*) FROM lake.sales WHERE total = 'NaN'") == [(1,)]
    (done,) = compact(copied.stream, 2, copied.sessions)
    assert (done.why, done.files_after) == (None, 1)
    assert read(copied) == read(encoded)


@pytest.mark.parametrize(
    ("policy", "codec", "size", "is_copied"),
    [
        ("auto", "zstd", 300, True),
        ("auto", "snappy", 300, False),
        *more([("any", "snappy", 300, True), ("any", "zstd", 200, False), ("any", "zstd", 3000, False)]),
        *more([("always", "snappy", 3000, True)]),
    ],
)
def test_policies(local_world: World, policy: str, codec: str, size: int, is_copied: bool) -> None:
    """Sizes are in KiB, of a target of 1 MiB."""
    local_world.options = {"copy": policy, "target_file_size": "1MiB"}
    filler = pa.table({"bytes": [random.Random(n).randbytes(1024) for n in range(size)]})
    local_world.land(NW, filler, compression=codec, use_dictionary=False)

    row = local_world.ingest(NW).row

    assert row.files_copied == (row.files_written if is_copied else 0)
    assert local_world.query("SELECT count(*), count(DISTINCT bytes) FROM lake.sales") == [(size, size)]


@pytest.mark.more
@pytest.mark.parametrize("world", [("sqlite", "s3"), ("postgres", "r2")], indirect=True)
def test_objects_of_a_bucket(world: World) -> None:
    world.options = {"copy": "always"}
    world.land(NW, sales(1, 2), compression="zstd")
    world.land(NW, sales(4, math.nan), "batch_2.parquet")
    assert world.ingest(NW).row.files_copied == 1
    world.land(NW, sales(3))

    row = world.ingest(NW).row

    assert (row.files_copied, row.files_written, row.row_count, row.rows_before) == (1, 2, 3, 4)
    assert sorted(map(str, world.totals())) == ["3.0", "4.0", "nan"]
    assert world.ingest(NW).row.status == "skipped"


def test_a_damaged_page_fails_the_partition_and_leaves_no_file(local_world: World) -> None:
    local_world.options = {"copy": "always", "verify": "pages"}
    local_world.land(NW, landed(sales(1)), "batch_1.parquet")
    local_world.land(NW, damaged(), "batch_2.parquet")

    with pytest.raises(SourceError, match=r"batch_2.parquet cannot be read as Parquet"):
        local_world.ingest(NW)

    assert local_world.data_files() == set()


@pytest.mark.parametrize(("misfit", "says"), [("more", "it has 'more'"), ("region", "has a row with region='SW'")])
def test_misfits_have_the_errors_of_the_encoding_job(local_world: World, misfit: str, says: str) -> None:
    wrong = sales(1, 2).append_column(misfit, pa.array(["NW", "SW"]))
    errors = []
    for world in both_ways(local_world, landed(wrong), first=sales(0)):
        with pytest.raises(SchemaError, match=says) as raised:
            world.ingest(NW)
        errors.append(str(raised.value))
        assert world.totals() == [0]
        assert len(world.data_files()) == 1  # of the other partition

    assert errors[0] == errors[1]


def test_a_time_in_a_struct_with_another_order_of_fields_is_refused(local_world: World) -> None:
    """The footer's bounds of a field are compared with the table's type of the same field."""
    early = -(2**63) + 2  # microseconds; DuckDB cannot read it
    first = pa.table({"part": pa.array([(1, 0)], pa.struct([("n", pa.int64()), ("at", pa.timestamp("us"))]))})
    other = pa.array([(early, 1)], pa.struct([("at", pa.timestamp("us")), ("n", pa.int64())]))
    errors = []
    for world in both_ways(local_world, landed(pa.table({"part": other})), first=first):
        with pytest.raises(SourceError, match="TIMESTAMP") as caught:
            world.ingest(NW)
        errors.append(str(caught.value).replace("always", "never"))
    assert errors[0] == errors[1]
