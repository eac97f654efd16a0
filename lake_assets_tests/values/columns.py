"""Random columns of every type that Arrow and Parquet have, with values at which bounds, units and signs break."""

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as t

# A later file of a column has one of these types too.
CHAINS: Sequence[Sequence[pa.DataType]] = (
    (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(4, 2), pa.decimal128(9, 2), pa.decimal128(18, 2), pa.decimal128(38, 2)),
)
LEAVES: Sequence[pa.DataType] = (
    *(kind for chain in CHAINS for kind in chain),
    pa.bool_(), pa.float16(), pa.decimal128(18, 0), pa.decimal128(38, 38), pa.decimal128(5, 5), pa.decimal256(20, 2),
    pa.string(), pa.string(), pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
    pa.binary_view(), pa.binary(3), pa.date32(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"),
    pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us"),
    pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"),
    pa.timestamp("us", "America/New_York"), pa.timestamp("ns", "UTC"), pa.null(), pa.uuid(), pa.json_(), pa.bool8(),
    pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.int64()),
)  # fmt: skip
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400
# Seconds since 1970 of years that readers treat otherwise, or that 64 bits of nanoseconds and microseconds end with.
_SECONDS = (
    -62_135_596_800, -9_223_372_036, -1, 0, 1_770_000_000, 9_223_372_036, 253_402_300_799, -9_223_372_022_400,
    9_223_372_036_854, 9_224_318_015_999,
)  # fmt: skip
_TEXTS = (
    "", "a", "ab", "abc", "ü", "\U0010ffff", "'", '"', "%", "a_b", "NULL", "null", "10", "9", "-1", "a\\x", "\x7f",
    "\ud7ff", "\0", "a\0b", "x" * 300, "x" * 5000, "x" * 255 + "é", "\U0010ffff" * 100, " a", "A", "infinity",
)  # fmt: skip
_BYTES = (b"", b"\0", b"\xff", b"\xff\xff", b"\x80", b"'", b"\\x00", b"x" * 300, b"\xff" * 300, b"x" * 5000, b"a\\")


@dataclass(frozen=True)
class Values:
    """Random arrays.

    Attributes:
        chosen: the source of all chance.
        has_nan: floating-point numbers may be NaN.
        has_negative_zero: floating-point numbers may be -0.0.
        is_single: floating-point numbers are those of single precision.
        extremes: the share of values at the ends of a type.
    """

    chosen: random.Random
    has_nan: bool
    has_negative_zero: bool = False
    is_single: bool = False
    extremes: float = 0.3

    def array(self, kind: pa.DataType, rows: int, nulls: float) -> pa.Array:
        """An array of a type, of which this share is NULL."""
        chosen = self.chosen
        mask = [chosen.random() < nulls for _ in range(rows)]
        if t.is_null(kind) or not rows:
            return pa.nulls(rows, kind)
        if t.is_dictionary(kind):
            return self.array(kind.value_type, rows, nulls).dictionary_encode().cast(kind)
        if t.is_struct(kind):
            fields = [self.array(field.type, rows, 0.2) for field in kind]
            return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pa.array(mask, pa.bool_()))
        if t.is_list(kind) or t.is_map(kind):
            sizes = [0 if is_null else chosen.choice([0, 1, 1, 2, 3]) for is_null in mask]
            offsets = [sum(sizes[:n]) for n in range(rows + 1)]
            starts = pa.array(offsets, pa.int32())
            if t.is_list(kind):
                items = self.array(kind.value_type, offsets[-1], 0.2)
                return pa.ListArray.from_arrays(starts, items, type=kind, mask=pa.array(mask, pa.bool_()))
            keys = pa.array([f"k{number}" for size in sizes for number in range(size)], kind.key_type)
            items = self.array(kind.item_type, offsets[-1], 0.2)
            return pa.MapArray.from_arrays(starts, keys, items, type=kind, mask=pa.array(mask, pa.bool_()))
        few = [self._value(kind) for _ in range(chosen.choice([1, 3, rows + 1]))]  # then files have unlike bounds
        return leaf(kind, [None if is_null else chosen.choice(few) for is_null in mask])

    def _value(self, kind: pa.DataType) -> Any:
        """A value as it is stored."""
        chosen = self.chosen
        is_extreme = chosen.random() < self.extremes
        if isinstance(kind, pa.BaseExtensionType) and kind != pa.json_():
            kind = kind.storage_type
        if kind == pa.json_():
            return chosen.choice(["{}", "null", '{"a":1.10}', "[1e400]"])
        if t.is_boolean(kind):
            return chosen.random() < 0.5
        if t.is_integer(kind):
            low, high = _range(kind)
            near = chosen.randint(-50, 50) % (high + 1) if low == 0 else chosen.randint(-50, 50)
            return chosen.choice([low, low + 1, high - 1, high, 0, high // 2 + 1]) if is_extreme else near
        if t.is_floating(kind):
            return self._floating(kind, is_extreme=is_extreme)
        if t.is_decimal(kind):
            most = 10**kind.precision - 1
            number = chosen.choice([most, -most, 0, 1, -1]) if is_extreme else chosen.randint(-most, most)
            return Decimal((number < 0, tuple(map(int, str(abs(number)))), -kind.scale))
        if t.is_fixed_size_binary(kind):
            return bytes(chosen.choice([0, 1, 0x61, 0x7F, 0x80, 0xFF]) for _ in range(kind.byte_width))
        if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind):
            return chosen.choice(_TEXTS) if is_extreme else "".join(chosen.choices("abzé", k=chosen.randint(0, 4)))
        if t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind):
            return chosen.choice(_BYTES) if is_extreme else chosen.randbytes(chosen.randint(0, 4))
        return self._moment(kind, is_extreme=is_extreme)

    def _floating(self, kind: pa.DataType, *, is_extreme: bool) -> float:
        chosen = self.chosen
        special = [0.0, float("inf"), float("-inf"), 0.1, 1.5, *([float("nan")] if self.has_nan else [])]
        special += [-0.0] if self.has_negative_zero else []
        if not is_extreme:
            value = chosen.choice([chosen.uniform(-100, 100), chosen.randint(-50, 50) / 4])
        elif t.is_float64(kind) and not self.is_single:
            value = chosen.choice([*special, 1.7976931348623157e308, -1.7976931348623157e308, 5e-324])
        elif t.is_float16(kind):
            value = chosen.choice([*special, 65504.0, -65504.0])
        else:
            value = chosen.choice([*special, 3.4028234663852886e38, -3.4028234663852886e38])
        form = "e" if t.is_float16(kind) else "f" if t.is_float32(kind) or self.is_single else "d"
        return float(struct.unpack(form, struct.pack(form, value))[0])

    def _moment(self, kind: pa.DataType, *, is_extreme: bool) -> int:
        chosen = self.chosen
        if t.is_date(kind):
            scale = _DAY * 1000 if t.is_date64(kind) else 1
            far = [-719_162, -1, 0, 2_932_896, -(2**31) + 1, 2**31 - 1, 2**31 - 2]
            return (chosen.choice(far) if is_extreme else 20_000 + chosen.randint(-400, 400)) * scale
        per_second = _PER_SECOND[kind.unit]
        grain = 1000 if kind.unit == "ns" and not (t.is_timestamp(kind) and kind.tz is None) else 1
        if t.is_time(kind):
            end = _DAY * per_second - 1
            return (chosen.choice([0, 1, end]) if is_extreme else chosen.randint(0, end)) // grain * grain
        if not is_extreme:
            seconds = 1_770_000_000 + chosen.randint(-10_000_000, 10_000_000)
            return (seconds * per_second + chosen.randrange(per_second)) // grain * grain
        most = {"s": 10**11, "ms": 9 * 10**15, "us": 2**63 - 2, "ns": 9_223_286_400_000_000_000}[kind.unit]
        least = {"s": -(10**11), "ms": -9_223_372_022_400_000, "us": -(2**63) + 2, "ns": -most}[kind.unit]
        ends = [least, most] if kind.unit == "us" else []
        sample = [*ends, *(second * per_second for second in _SECONDS)]
        return chosen.choice([number for number in sample if least <= number <= most]) // grain * grain


def _range(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if t.is_signed_integer(kind) else (0, 2**bits - 1)


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
