"""Changes of landed columns, and what each of them does by policy: the table of `docs/schema-changes.md`.

    python -m lake_assets_tests.values.schema_changes

prints the table. `test_schema_changes.py` makes every cell come true, in each mode and by each strategy.
"""

import datetime as dt
import decimal
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.config.modes import Mode, SchemaPolicy

Cell = Literal["fits", "typed", "NULL", "added", "widened", "left out", "refused"]

MEANINGS: Mapping[Cell, str] = {
    "fits": "the values are in the table, whose columns do not change",
    "typed": "the column had no value and no type before, and gets that of its first value",
    "added": "the table gets the column or field; older rows have NULL",
    "widened": "the table's column or field gets the wider type, and no file is rewritten",
    "NULL": "the rows of the file have NULL",
    "left out": "the column or field is not read",
    "refused": "the run fails with an error that names the object and the column or field; the old rows are kept",
}
POLICIES: Sequence[SchemaPolicy] = ("strict", "evolve", "ignore_extra")
NOON = dt.datetime(2026, 2, 11, 12, 0, 0, 1000)  # noqa: DTZ001 - of a column without a zone


@dataclass(frozen=True)
class Change:
    """A change between the first file of a table and a later one.

    Attributes:
        title: names the change in the docs.
        key: the name of its column, and of its partition.
        before: the column in the first file; None: it is not there.
        after: the column in the later file; None: it is not there.
        cells: what happens by each policy in modes replace and append.
        index: what happens in mode index.
        found: what a reader finds of the later file, where it is not what the file has.
        kept: what a reader finds of the first file, where it is not what the file has.
        name: of the column in the later file, if it differs.
        writer: how the later file is written.
        is_reversed: whether the later file has all columns in the reverse order.
    """

    title: str
    key: str
    before: pa.Array | None
    after: pa.Array | None
    cells: tuple[Cell, Cell, Cell]
    index: Cell
    found: Mapping[Cell, object] = field(default_factory=lambda: MappingProxyType({}))
    kept: Mapping[Cell, object] = field(default_factory=lambda: MappingProxyType({}))
    name: str | None = None
    writer: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    is_reversed: bool = False

    @property
    def has_types(self) -> bool:
        """Whether the column has a type in each file."""
        return not any(array is not None and pa.types.is_null(array.type) for array in (self.before, self.after))

    def cell(self, mode: Mode, policy: SchemaPolicy) -> Cell:
        """What happens."""
        return self.index if mode == "index" else self.cells[POLICIES.index(policy)]

    def values(self, cell: Cell) -> tuple[object, object]:
        """What a reader finds of the first and of the later file: one value each."""
        before, after = (None if array is None else array[0].as_py() for array in (self.before, self.after))
        return self.kept.get(cell, before), self.found.get(cell, None if cell == "NULL" else after)

    def first(self) -> pa.Table:
        """The first file."""
        return _table({change.key: change.before for change in CHANGES})

    def later(self) -> bytes:
        """The later file: the first one with the change."""
        columns = {change.key: change.before for change in CHANGES if change is not self}
        columns[self.name or self.key] = self.after
        table = _table(columns)
        table = table.select(table.column_names[::-1]) if self.is_reversed else table
        buffer = io.BytesIO()
        pq.write_table(table, buffer, **self.writer)
        return buffer.getvalue()


def _table(columns: Mapping[str, pa.Array | None]) -> pa.Table:
    return pa.table({"id": pa.array([1])} | {name: array for name, array in columns.items() if array is not None})


def _one(value: object, data_type: pa.DataType | None = None) -> pa.Array:
    return pa.array([value], data_type)


def _decimal(text: str, precision: int, scale: int) -> pa.Array:
    return _one(decimal.Decimal(text), pa.decimal128(precision, scale))


_POINT = pa.struct([("x", pa.int32())])
_LARGE_POINT = pa.struct([("x", pa.int64())])
_FITS: tuple[Cell, Cell, Cell] = ("fits", "fits", "fits")
_REFUSED: tuple[Cell, Cell, Cell] = ("refused", "refused", "refused")
_WIDENED: tuple[Cell, Cell, Cell] = ("refused", "widened", "refused")
_NEW: tuple[Cell, Cell, Cell] = ("refused", "added", "left out")
_MISSING: tuple[Cell, Cell, Cell] = ("refused", "NULL", "refused")
_MICRO, _NANO = pa.timestamp("us"), pa.timestamp("ns")
_INSTANT = NOON.replace(tzinfo=dt.UTC)

CHANGES: Sequence[Change] = (
    Change("a new column", "new", None, _one("a"), _NEW, "refused"),
    Change("a column is missing", "missing", _one(7), None, _MISSING, "refused"),
    Change("the columns are in another order", "reordered", _one(7), _one(8), _FITS, "fits", is_reversed=True),
    Change("a name differs in case only", "renamed", _one(7), _one(8), _FITS, "fits", name="RENAMED"),
    Change("INT → BIGINT", "wider", _one(7, pa.int32()), _one(2**40), _WIDENED, "refused"),
    Change("FLOAT → DOUBLE", "wider_float", _one(0.5, pa.float32()), _one(1e300), _WIDENED, "refused"),
    Change("BIGINT → INT", "narrower", _one(2**40), _one(-(2**31), pa.int32()), _FITS, "fits"),
    Change("DOUBLE → FLOAT", "narrower_float", _one(1e300), _one(0.5, pa.float32()), _FITS, "refused"),
    Change("BIGINT → DOUBLE", "fraction", _one(7), _one(0.5), _REFUSED, "refused"),
    Change("DOUBLE → BIGINT", "whole", _one(0.5), _one(2**53 + 1), _REFUSED, "refused"),
    Change("text → number", "number", _one("7"), _one(7), _REFUSED, "refused"),
    Change("number → text", "text", _one(7), _one("007"), _REFUSED, "refused"),
    Change("UINT8 → UINT16", "unsigned", _one(255, pa.uint8()), _one(2**16 - 1, pa.uint16()), _WIDENED, "refused"),
    Change("INT16 → UINT8", "to_unsigned", _one(-1, pa.int16()), _one(255, pa.uint8()), _FITS, "fits"),
    Change("UINT8 → INT16", "to_signed", _one(255, pa.uint8()), _one(-1, pa.int16()), _WIDENED, "refused"),
    Change("INT8 → UINT8", "same_width", _one(-1, pa.int8()), _one(255, pa.uint8()), _REFUSED, "refused"),
    Change("BIGINT → UINT64", "uint64", _one(-1), _one(2**64 - 1, pa.uint64()), _REFUSED, "refused"),
    Change("DECIMAL(5,2) → DECIMAL(12,2)", "digits", _decimal("1.50", 5, 2), _decimal("1234567.25", 12, 2), _WIDENED,
           "refused"),
    Change("DECIMAL(12,2) → DECIMAL(5,2)", "fewer_digits", _decimal("1234567.25", 12, 2), _decimal("1.50", 5, 2),
           _FITS, "fits"),
    Change("DECIMAL(12,3) → DECIMAL(9,2)", "scale", _decimal("1.505", 12, 3), _decimal("1.50", 9, 2), _FITS, "fits"),
    Change("DECIMAL(9,2) → DECIMAL(9,3)", "finer_scale", _decimal("1.50", 9, 2), _decimal("1.505", 9, 3), _REFUSED,
           "refused"),
    Change("TIMESTAMP µs → ms", "millis", _one(NOON, _MICRO), _one(NOON, pa.timestamp("ms")), _FITS, "fits"),
    Change("TIMESTAMP µs → ns, whole microseconds", "nanos", _one(NOON, _MICRO), _one(NOON, _NANO), _FITS, "refused",
           found={"fits": NOON}),
    Change("TIMESTAMP µs → ns, finer", "finer", _one(NOON, _MICRO), _one(1, _NANO), _REFUSED, "refused"),
    Change("TIMESTAMP ns → µs", "micros", _one(NOON, _NANO), _one(NOON, _MICRO), _FITS, "fits", kept={"fits": NOON}),
    Change("INT96 for TIMESTAMP", "an_int96", _one(NOON, _MICRO), _one(NOON, _MICRO), _FITS, "refused",
           writer={"use_deprecated_int96_timestamps": True}),
    Change("no zone → a zone", "zone", _one(NOON, _MICRO), _one(_INSTANT, pa.timestamp("us", "UTC")), _REFUSED,
           "refused"),
    Change("DATE → TIMESTAMP", "day", _one(NOON.date()), _one(NOON, _MICRO), _REFUSED, "refused"),
    Change("bytes → fixed number of bytes", "fixed", _one(b"\xff"), _one(b"\0ab", pa.binary(3)), _FITS, "fits"),
    Change("fixed number of bytes → bytes", "bytes", _one(b"\0ab", pa.binary(3)), _one(b"\xff"), _FITS, "fits"),
    Change("without a value in the first file → text", "empty", pa.nulls(1), _one("a"),
           ("typed", "added", "typed"), "typed"),
    Change("without a value in the first file → INT", "empty_int", pa.nulls(1), _one(7, pa.int32()),
           ("typed", "added", "typed"), "typed"),
    Change("text → without a value", "no_value", _one("a"), pa.nulls(1), ("NULL", "NULL", "NULL"), "NULL"),
    Change("a struct gets a field", "field", _one({"x": 1}), _one({"x": 2, "y": "b"}), _NEW, "refused",
           found={"left out": {"x": 2}}, kept={"added": {"x": 1, "y": None}}),
    Change("a field is missing", "less", _one({"x": 1, "y": "a"}), _one({"x": 2}), _MISSING, "refused",
           found={"NULL": {"x": 2, "y": None}}),
    Change("fields are in another order", "order", _one({"x": 1, "y": "a"}), _one({"y": "b", "x": 2}), _FITS, "fits"),
    Change("a field's name differs in case only", "case", _one({"x": 1}), _one({"X": 2}), _FITS, "refused",
           found={"fits": {"x": 2}}),
    Change("a field becomes text", "field_type", _one({"x": 1}), _one({"x": "1"}), _REFUSED, "refused"),
    Change("elements of a list become wider", "elements", _one([1], pa.list_(pa.int32())), _one([2**40, None]),
           _WIDENED, "refused"),
    Change("elements of a list get a field", "in_list", _one([{"x": 1}]), _one([{"x": 2, "y": "b"}, None]), _NEW,
           "refused", found={"left out": [{"x": 2}, None]}, kept={"added": [{"x": 1, "y": None}]}),
    Change("values of a map become wider", "in_map", _one([("k", {"x": 1})], pa.map_(pa.string(), _POINT)),
           _one([("k", {"x": 2**40})], pa.map_(pa.string(), _LARGE_POINT)), _WIDENED, "refused",
           found={"widened": {"k": {"x": 2**40}}}, kept={cell: {"k": {"x": 1}} for cell in MEANINGS}),
    Change("a number becomes a struct", "shape", _one(7), _one({"x": 7}), _REFUSED, "refused"),
)  # fmt: skip


def table() -> Iterator[str]:
    """The lines of the table in the docs."""
    yield "| first file → later file | `strict` | `evolve` | `ignore_extra` | `mode: index` |"
    yield "|---|---|---|---|---|"
    for change in CHANGES:
        yield f"| {' | '.join([change.title, *change.cells, change.index])} |"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in table())
