"""Columns of every type that Arrow and Parquet have, with the values at which a unit, zone, width or sign breaks."""

import decimal
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

_DAY = 86_400
# Seconds since 1970: 0001-01-01, the ends of what 64 bits of nanoseconds hold, 1969, 9999-12-31, the ends of
# microseconds (and of DuckDB, whose first day is 290309-12-22 before Christ).
_SECONDS = [
    -62_135_596_800, -9_223_372_037, -9_223_372_036, -1, 0, 1_770_000_000, 9_223_372_036, 9_223_372_037,
    253_402_300_799, -9_223_372_022_400, 9_223_372_036_854,
]  # fmt: skip
_FRACTIONS = {"s": [0], "ms": [0, 999], "us": [0, 1, 999_999], "ns": [0, 1, 999, 1_000, 999_999_999]}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    values = sorted({low, low + 1, 0, 1, high - 1, high, high // 2 + 1})
    return st.sampled_from(values) | st.integers(low, high)


def _moments(unit: str, grain: int = 1) -> st.SearchStrategy[int]:
    """Times as counts of a unit, all of them multiples of the grain.

    Those of seconds are some that a file's milliseconds hold too; of nanoseconds some that DuckDB has.
    """
    per_second = _PER_SECOND[unit]
    sample = [s * per_second + f for s in _SECONDS for f in _FRACTIONS[unit]]
    most = {"s": 10**11, "ms": 9 * 10**15, "us": 2**63 - 1, "ns": 9_223_286_400_000_000_000}[unit]
    least = -9_223_372_022_400_000_000 if unit == "us" else -most + 1  # the first that DuckDB holds
    times = st.sampled_from([n for n in sample if least <= n < most]) | st.integers(least, most - 1)
    return times.map(lambda n: n // grain * grain)


def _times(unit: str, grain: int = 1) -> st.SearchStrategy[int]:
    end = _DAY * _PER_SECOND[unit] - 1
    return (st.sampled_from([0, 1, end]) | st.integers(0, end)).map(lambda n: n // grain * grain)


def _days() -> st.SearchStrategy[int]:
    return st.sampled_from([-719_162, -1, 0, 2_932_896, -(2**31) + 1, 2**31 - 1]) | st.integers(-(2**31) + 1, 2**31 - 1)


def _floats(width: int) -> st.SearchStrategy[float]:
    special = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5]
    return st.sampled_from(special) | st.floats(width=width)  # type: ignore[arg-type]


def _decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    most = 10**precision - 1
    numbers = st.sampled_from([most, -most, 0, 1, -1]) | st.integers(-most, most)
    return numbers.map(lambda n: decimal.Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))


_TEXTS = st.sampled_from(["", "a", "\0", "ü", "\U0010ffff", "'", "\ud7ff", "NULL", "10", "9", "x" * 300]) | st.text(
    max_size=5
)
_BYTES = st.sampled_from([b"", b"\0", b"\xff\xff", b"\x80", b"'", b"\\x00", b"x" * 300]) | st.binary(max_size=5)

# What most lakes can hold; a value that can be refused is in `REFUSED`.
LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    **{getattr(pa, f"int{n}")(): _integers(n) for n in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{n}")(): _integers(n, signed=False) for n in (8, 16, 32, 64)},
    pa.float16(): _floats(16),
    pa.float32(): _floats(32),
    pa.float64(): _floats(64),
    pa.decimal128(4, 2): _decimals(4, 2),
    pa.decimal128(18, 0): _decimals(18, 0),
    pa.decimal128(38, 10): _decimals(38, 10),
    pa.decimal128(38, 38): _decimals(38, 38),
    pa.decimal256(20, 2): _decimals(20, 2),
    pa.string(): _TEXTS,
    pa.large_string(): _TEXTS,
    pa.string_view(): _TEXTS,
    pa.binary(): _BYTES,
    pa.large_binary(): _BYTES,
    pa.binary_view(): _BYTES,
    pa.binary(3): st.sampled_from([b"\0\0\0", b"\xff\xff\xff", b"\x80\0a"]),
    pa.date32(): _days(),
    pa.date64(): _days().map(lambda n: n * _DAY * 1000),
    pa.time32("s"): _times("s"),
    pa.time32("ms"): _times("ms"),
    pa.time64("us"): _times("us"),
    pa.time64("ns"): _times("ns", 1000),
    **{pa.timestamp(unit): _moments(unit) for unit in _PER_SECOND},
    **{pa.timestamp(unit, "UTC"): _moments(unit, 1000 if unit == "ns" else 1) for unit in _PER_SECOND},
    pa.timestamp("us", "America/New_York"): _moments("us"),
    pa.timestamp("ms", "+05:30"): _moments("ms"),
    pa.null(): st.none(),
    pa.uuid(): st.binary(min_size=16, max_size=16) | st.sampled_from([b"\0" * 16, b"\xff" * 16, b"\x80" + b"\0" * 15]),
    pa.json_(): st.sampled_from(["{}", "null", '{"a":1.10}', "[1e400]"]),
    pa.bool8(): st.sampled_from([0, 1, -128, 127]),
}  # fmt: skip


def without_nan(some: Mapping[pa.DataType, st.SearchStrategy[Any]]) -> dict[pa.DataType, st.SearchStrategy[Any]]:
    """The same types without NaN, for files that are read as they are: Arrow's own statistics hide it."""
    return {
        kind: values.filter(lambda value: value == value) if pa.types.is_floating(kind) else values  # noqa: PLR0124
        for kind, values in some.items()
    }


def without_negative_zero(
    some: Mapping[pa.DataType, st.SearchStrategy[Any]],
) -> dict[pa.DataType, st.SearchStrategy[Any]]:
    """The same types without -0.0, for rows that DuckDB writes: its dictionaries take it for the 0.0 that equals it."""
    return {
        kind: values.map(lambda value: value + 0.0) if pa.types.is_floating(kind) else values
        for kind, values in some.items()
    }


# Some of their values no column holds, or no type does.
REFUSED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.decimal256(50, 2): _decimals(50, 2),
    pa.decimal256(76, 0): _decimals(76, 0),
    pa.date32(): st.just(-(2**31)),
    pa.time64("ns"): _times("ns"),
    pa.timestamp("ms"): _integers(64),
    pa.timestamp("ns"): _integers(64),
    pa.timestamp("ns", "UTC"): _moments("ns"),
    **{pa.duration(unit): _integers(64) for unit in _PER_SECOND},
}


@st.composite
def tables(draw: st.DrawFn, rows: int, leaves: Mapping[pa.DataType, st.SearchStrategy[Any]] = LEAVES) -> pa.Table:
    """Numbered rows of a column of each type, and of some of them in a list, a struct, a map or a dictionary."""
    columns: dict[str, pa.Array] = {"id": pa.array(range(rows), pa.int64())}
    for number, (data_type, values) in enumerate(leaves.items()):
        sample = leaf(data_type, draw(st.lists(st.none() | values, min_size=rows, max_size=rows)))
        columns[f"c{number}"] = sample
        if number % 3 == draw(st.integers(0, 2)) and not pa.types.is_null(data_type):
            columns[f"n{number}"] = draw(st.sampled_from(_NESTINGS))(sample)
    return pa.table(columns)


def _in_list(array: pa.Array) -> pa.Array:
    """Each second list is empty."""
    return pa.ListArray.from_arrays(pa.array([n - n % 2 for n in range(len(array) + 1)], pa.int32()), array)


def _in_struct(array: pa.Array) -> pa.Array:
    mask = pa.array([n % 3 == 2 for n in range(len(array))])
    return pa.StructArray.from_arrays([array, pa.array(range(len(array)))], ["value", "number"], mask=mask)


def _in_map(array: pa.Array) -> pa.Array:
    keys = pa.array([f"k{n}" for n in range(len(array))])
    return pa.MapArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), keys, array)


def _in_dictionary(array: pa.Array) -> pa.Array:
    plain = array.storage if isinstance(array, pa.ExtensionArray) else array
    return plain.dictionary_encode() if plain.type in _ENCODABLE else _in_list(array)


_NESTINGS = (_in_list, _in_struct, _in_map, _in_dictionary)
_ENCODABLE = (pa.string(), pa.binary(), pa.int64(), pa.uint8(), pa.timestamp("us"), pa.date32(), pa.decimal128(18, 0))


_YEARS = (-719_162, 2_932_896)  # days since 1970 of 0001-01-01 and 9999-12-31, which Spark writes

# What Spark reads and writes.
OF_SPARK: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **{
        kind: LEAVES[kind]
        for kind in (
            pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(),
            pa.binary(), pa.decimal128(4, 2), pa.decimal128(18, 0), pa.decimal128(38, 10),
        )
    },
    pa.date32(): st.sampled_from([*_YEARS, -1, 0]) | st.integers(*_YEARS),
    **{
        pa.timestamp("us", zone): st.sampled_from([_SECONDS[0] * 10**6, -1, 0, _SECONDS[8] * 10**6 + 999_999])
        | st.integers(_SECONDS[0] * 10**6, _SECONDS[8] * 10**6)
        for zone in (None, "UTC")
    },
}  # fmt: skip


def leaf(data_type: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """An array of these values, given as what is stored for them."""
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(data_type, leaf(data_type.storage_type, values))
    if pa.types.is_temporal(data_type):
        width = pa.int32() if data_type in (pa.date32(), pa.time32("s"), pa.time32("ms")) else pa.int64()
        return pa.array(values, width).view(data_type)
    if pa.types.is_float16(data_type):
        halves = b"".join(struct.pack("e", 0.0 if v is None else v) for v in values)
        mask = pa.array([v is not None for v in values]).buffers()[1]
        return pa.Array.from_buffers(data_type, len(values), [mask, pa.py_buffer(halves)])
    return pa.array(values, data_type)
