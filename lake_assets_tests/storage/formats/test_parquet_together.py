"""Many small objects are read together only if the rows are those that Arrow reads, whoever wrote them."""

import datetime as dt
import io
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.config.layout.partition import Partition
from lake_assets.config.storages import LocalStorage
from lake_assets.spark.task import share_reader
from lake_assets.spark.task.job import Job
from lake_assets.spark.task.share_reader import ShareReader
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import Part, Share
from lake_assets.storage.formats.parquet_files import ParquetReader
from lake_assets.storage.formats.parquet_together import LEAST, TINY_OBJECT, is_plain, read_together
from lake_assets.storage.store import Store

OBJECTS = LEAST + 1
DAY = dt.date(2026, 2, 11)
INTEGERS = {f"{sign}int{bits}": bits - (not sign) for bits in (8, 16, 32, 64) for sign in ("", "u")}
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    **{name: (getattr(pa, name)(), [2**bits - 1, 0, 1]) for name, bits in INTEGERS.items()},
    **{f"least_{name}": (getattr(pa, name)(), [-(2**bits), 0]) for name, bits in INTEGERS.items() if name[0] != "u"},
    "bool": (pa.bool_(), [True, False]),
    "float": (pa.float32(), [1.5, math.nan, math.inf, -0.0, 1e-45]),
    "double": (pa.float64(), [math.nan, -math.inf, -0.0, 5e-324, 1.7976931348623157e308]),
    "text": (pa.string(), ["", "São Paulo", "a\x00b", "🦆" * 50, "x" * 3000]),
    "bytes": (pa.binary(), [b"", b"\xff\x00\xfe"]),
    "day": (pa.date32(), [DAY, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "millis": (pa.timestamp("ms"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999000)]),  # noqa: DTZ001
    "micros": (pa.timestamp("us"), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),  # noqa: DTZ001
    "nanos": (pa.timestamp("ns"), [-(2**63) + 1, 2**63 - 1, 1]),
    "zoned": (pa.timestamp("us", "UTC"), [dt.datetime(2026, 2, 11, tzinfo=dt.UTC)]),
    "city": (pa.timestamp("us", "Europe/Berlin"), [dt.datetime(2026, 2, 11, tzinfo=dt.UTC)]),
    "money": (pa.decimal128(38, 9), [Decimal("-99999999999999999999999999999.999999999"), Decimal(0)]),
    "cents": (pa.decimal128(7, 2), [Decimal("12345.67"), Decimal("-0.01")]),
}
UNKEPT: dict[str, pa.Array] = {
    "list": pa.array([[1], None, []], pa.list_(pa.int64())),
    "struct": pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())])),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    "time": pa.array([dt.time(23, 59, 59, 999999), None]),
    "words": pa.array(["a", "b", None]).dictionary_encode(),
    "fixed": pa.array([b"1234567890123456"], pa.binary(16)),
    "half": pa.array([1.5], pa.float16()),
    "uuid": pa.array([b"1234567890123456"], pa.uuid()),
    "nothing": pa.nulls(2),
}


def rows_of(name: str, number: int) -> pa.Table:
    """Rows of an object: values and NULLs, in another order in each object."""
    kind, values = VALUES[name]
    turned = [*values[number % len(values) :], None, *values[: number % len(values)]]
    return pa.table({"id": range(len(turned)), name: pa.array(turned * (1 + number), kind).slice(0, len(turned))})


def by_arrow(**options: Any) -> Callable[[pa.Table, Path], None]:
    return lambda rows, file: pq.write_table(rows, file, **options)


def by_polars(rows: pa.Table, file: Path) -> None:
    pl.from_arrow(rows).write_parquet(file)  # type: ignore[union-attr]


def by_duckdb(rows: pa.Table, file: Path) -> None:
    with duckdb.connect() as client:
        client.register("rows", rows)
        client.execute(f"COPY rows TO '{file}' (FORMAT parquet)")


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "arrow": by_arrow(),
    "arrow, new pages": by_arrow(data_page_version="2.0", compression="zstd"),
    "arrow, small groups": by_arrow(row_group_size=2, compression="gzip"),
    "arrow, plain": by_arrow(use_dictionary=False, compression="none", store_schema=False),
    "arrow, deltas": by_arrow(
        use_dictionary=False, compression="brotli", column_encoding={"id": "DELTA_BINARY_PACKED"}
    ),
    "polars": by_polars,
    "duckdb": by_duckdb,
}


def opened(folder: Path) -> list[tuple[bytes, Any]]:
    reader, contents = ParquetReader(), [file.read_bytes() for file in sorted(folder.iterdir())]
    return [(data, reader.open(pa.BufferReader(data), "the object x")) for data in contents]


def by_arrow_alone(data: bytes, names: list[str]) -> pa.Table:
    return pq.ParquetFile(io.BytesIO(data)).read(names)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("writer", WRITERS)
def test_values_and_nulls_are_those_that_arrow_reads(tmp_path: Path, writer: str, name: str) -> None:
    if writer == "duckdb" and name in ("nanos", "bytes", "city", "millis"):
        pytest.skip("DuckDB writes another type")
    for number in range(OBJECTS):
        WRITERS[writer](rows_of(name, number), tmp_path / f"{number:03}.parquet")
    objects, names = opened(tmp_path), [name, "id"]

    assert all(is_plain(data, rows, names) for data, rows in objects)
    batches = read_together(objects, names)

    assert batches is not None
    for batch, (data, rows) in zip(batches, objects, strict=True):
        own = by_arrow_alone(data, names)
        assert batch.schema.types == [rows.schema.field(name).type for name in names]
        assert same(pa.Table.from_batches([batch]).column(name), own.column(name))
        assert batch.column("id").to_pylist() == own.column("id").to_pylist()


def same(column: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether two columns have the same type and values, where NaN is NaN, and -0.0 is not 0.0."""
    texts = [[repr(value) for value in values.to_pylist()] for values in (column.cast(other.type), other)]
    return column.type.equals(other.type) and texts[0] == texts[1]


@pytest.mark.parametrize("name", UNKEPT)
def test_columns_of_other_types_are_left_to_arrow(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({"id": range(len(UNKEPT[name])), name: UNKEPT[name]}), tmp_path / "x.parquet")
    ((data, rows),) = opened(tmp_path)

    assert not is_plain(data, rows, ["id", name])
    assert is_plain(data, rows, ["id"])


@pytest.mark.parametrize(
    "options",
    [
        {"write_page_checksum": True},
        {"write_page_checksum": True, "use_dictionary": False, "data_page_version": "2.0"},
        {"use_deprecated_int96_timestamps": True},
    ],
    ids=str,
)
def test_objects_with_checksums_and_int96_are_left_to_arrow(tmp_path: Path, options: dict[str, Any]) -> None:
    pq.write_table(pa.table({"at": pa.array([0, 1], pa.timestamp("us"))}), tmp_path / "x.parquet", **options)
    ((data, rows),) = opened(tmp_path)

    assert not is_plain(data, rows, ["at"])


def shares_of(folder: Path) -> tuple[ShareReader, list[Share]]:
    storage, schema = LocalStorage(path=str(folder)), pa.schema([("id", pa.int64()), ("text", pa.string())])
    job = Job("run", LandingZone(storage), storage, schema, "none", 1, ())
    return ShareReader(job, schema), [Share(obj) for obj in Store(storage).list()]


def test_a_task_reads_many_small_objects_together_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    def counted(*args: Any) -> Any:
        counts.append(len(args[0]))
        return read_together(*args)

    monkeypatch.setattr(share_reader, "read_together", counted)
    for number in range(3 * OBJECTS):
        rows = pa.table({"id": pa.array([number] * 2, pa.int64()), "text": ["a", None]})
        pq.write_table(rows, tmp_path / f"{number:03}.parquet")
    pq.write_table(
        pa.table({"id": [-1], "text": ["x" * 2 * TINY_OBJECT]}), tmp_path / "large.parquet", compression="none"
    )
    reader, shares = shares_of(tmp_path)

    ids = [n for batch in reader.read(shares, Partition((), ())) for n in batch.column("id").to_pylist()]

    assert ids == [*(number for number in range(3 * OBJECTS) for _ in range(2)), -1]
    assert sum(counts) == 3 * OBJECTS


def test_of_an_object_that_tasks_share_only_the_part_is_read(tmp_path: Path) -> None:
    for number in range(OBJECTS):
        rows = pa.table({"id": pa.array([number, -number], pa.int64()), "text": ["a", None]})
        pq.write_table(rows, tmp_path / f"{number:03}.parquet", row_group_size=1)
    reader, shares = shares_of(tmp_path)
    parts = [replace(share, part=Part(1, 2)) for share in shares]

    ids = [n for batch in reader.read(parts, Partition((), ())) for n in batch.column("id").to_pylist()]

    assert ids == [-number for number in range(OBJECTS)]
