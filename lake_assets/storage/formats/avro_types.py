"""The Arrow types of Avro's schemas, and the schemas of the same values as they are stored.

| Avro                                                 | Arrow                                         |
|------------------------------------------------------|-----------------------------------------------|
| null, boolean, int, long, float, double              | null, bool, int32, int64, float32, float64    |
| string, enum                                         | string                                        |
| bytes, fixed                                         | binary                                        |
| record, array, map                                   | struct, list, map                             |
| a union of one type, also with null                  | that type                                     |
| a union of several types, a record without fields    | opaque: no column of a lake holds it          |
| a type within itself, or of very many types          | string: its JSON                              |
| a logical type                                       | as `schema/annotations.py` says               |
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lake_assets.base.errors import SchemaError
from lake_assets.schema.annotations import AVRO, KEPT, MOST_DIGITS, REFUSED, opaque_type
from lake_assets.schema.bad_rows import as_json


class AvroType(NamedTuple):
    """A type as a file has it, and the namespace of the names in it."""

    kind: Any  # of JSON
    space: str


class AvroTexts(NamedTuple):
    """Which columns of a file become texts."""

    columns: Sequence[tuple[AvroType, bool]] = ()  # the types of all, and whether each becomes a text
    definition: Callable[[str, str], AvroType] = AvroType  # finds a named type

    def encoded(self, number: int, data: bytes) -> bytes:
        """Return records with texts, or NULL, in these columns, given these. Raises ArrowInvalid for damaged ones."""
        try:
            return b"".join(self._parts(number, memoryview(data)))
        except (LookupError, ValueError, struct.error, RecursionError) as error:
            raise pa.ArrowInvalid(f"a record is damaged, or too deep: {error}") from error

    def _parts(self, number: int, data: memoryview) -> Iterator[bytes | memoryview]:
        end = 0
        for _ in range(number):
            for schema, is_text in self.columns:
                begin = end
                value, end = self.value_at(schema, data, begin)
                if not is_text:
                    yield data[begin:end]
                elif value is None:
                    yield encoded_number(0)
                else:
                    text = as_json(value).encode()
                    yield encoded_number(1) + encoded_number(len(text)) + text

    def value_at(self, schema: AvroType, data: memoryview, at: int) -> tuple[Any, int]:
        """Return a value at a position, and the position behind it."""
        kind, space = schema
        if isinstance(kind, list):
            number, at = number_at(data, at)
            return self.value_at(AvroType(kind[number], space), data, at)
        form = kind if isinstance(kind, str) else kind["type"]
        if isinstance(form, str) and form in _READERS:
            return _READERS[form](data, at)
        match form:
            case "fixed":
                return bytes(data[at : at + kind["size"]]), at + kind["size"]
            case "enum":
                number, at = number_at(data, at)
                return kind["symbols"][number], at
            case "record":
                space, fields = _full_name(kind, space).rpartition(".")[0], {}
                for field in kind["fields"]:
                    fields[field["name"]], at = self.value_at(AvroType(field["type"], space), data, at)
                return fields, at
            case "array" | "map":
                return self._items(AvroType(kind["items" if form == "array" else "values"], space), form, data, at)
            case str(name):
                return self.value_at(self.definition(name, space), data, at)
            case _:
                return self.value_at(AvroType(form, space), data, at)

    def _items(self, schema: AvroType, form: str, data: memoryview, at: int) -> tuple[Any, int]:
        items: list[Any] = []
        count, at = number_at(data, at)
        while count:
            if abs(count) > len(data):
                raise pa.ArrowInvalid("it has more items than bytes")
            if count < 0:  # and then the bytes of these items
                _, at = number_at(data, at)
            for _ in range(abs(count)):
                if form == "map":
                    key, at = _text_at(data, at)
                value, at = self.value_at(schema, data, at)
                items.append((key, value) if form == "map" else value)
            count, at = number_at(data, at)
        return dict(items) if form == "map" else items, at


def _full_name(schema: dict[str, Any], space: str) -> str:
    """Return the full name of a type in a namespace."""
    name: str = schema["name"]
    given = schema.get("namespace", space)
    return name if "." in name or not given else f"{given}.{name}"


def number_at(data: memoryview, at: int) -> tuple[int, int]:
    """Return a number at a position of an encoded text, and the position behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise pa.ArrowInvalid("it has a number of more than 64 bits")


def _bytes_at(data: memoryview, at: int) -> tuple[bytes, int]:
    """Return the bytes of a text at a position, and the position behind them."""
    size, at = number_at(data, at)
    if size < 0:
        raise pa.ArrowInvalid("it has a text of a negative length")
    if at + size > len(data):
        raise IndexError
    return bytes(data[at : at + size]), at + size


def encoded_number(value: int) -> bytes:
    """Return a number that is not negative as Avro encodes it."""
    value, encoded = value << 1, bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _text_at(data: memoryview, at: int) -> tuple[str, int]:
    value, at = _bytes_at(data, at)
    return value.decode(), at


_READERS: Mapping[str, Callable[[memoryview, int], tuple[Any, int]]] = {
    "null": lambda _, at: (None, at),
    "boolean": lambda data, at: (data[at] == 1, at + 1),
    "int": number_at,
    "long": number_at,
    "float": lambda data, at: (*struct.unpack_from("<f", data, at), at + 4),
    "double": lambda data, at: (*struct.unpack_from("<d", data, at), at + 8),
    "bytes": _bytes_at,
    "string": _text_at,
}


_SIMPLE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_MOST_TYPES = 10_000  # of a column, whose named types may use each other many times


def avro_columns(schema: Any, origin: str, known: pa.Schema) -> tuple[pa.Schema, dict[str, Any], AvroTexts | None]:  # noqa: ANN401 - of JSON
    """Return the columns of a record, its schema without logical types, with numbers for names, and those to encode.

    `known` has columns of which an unknown field may be one by its aliases, at any depth. A schema that is none of
    Avro's raises ValueError, LookupError, TypeError, AttributeError or RecursionError.
    """
    if not (isinstance(schema, dict) and schema.get("type") == "record" and schema["fields"]):
        raise SchemaError(
            f"{origin} has rows that are no records with fields:",
            "let its writer land records with fields, or let the stream's files leave it out.",
        )
    types = _Types(schema)
    kind = pa.struct(list(known))
    typed = [(name, *types.of_column(field, of)) for name, field, of in _fields(schema["fields"], kind)]
    stored = [{"name": column_name(number), "type": kind} for number, (_, _, kind) in enumerate(typed)]
    texts = AvroTexts(types.columns, types.definition) if any(is_text for _, is_text in types.columns) else None
    names = pa.schema([(name, kind) for name, kind, _ in typed])
    return names, {"type": "record", "name": "row", "fields": stored}, texts


def column_name(number: int) -> str:
    """Return the name of a column in the schema without logical types."""
    return f"c{number}"


def _fields(
    fields: Sequence[dict[str, Any]], known: pa.DataType | None
) -> list[tuple[str, dict[str, Any], pa.DataType | None]]:
    """Return the fields of a record with their names, which may be those of aliases, and the types of these."""
    types = {field.name.lower(): field.type for field in known} if known and pa.types.is_struct(known) else {}
    own = {field["name"].lower() for field in fields}

    def name_of(field: dict[str, Any]) -> str:
        others = [] if field["name"].lower() in types else field.get("aliases", [])
        name: str = next((name for name in others if name.lower() in types and name.lower() not in own), field["name"])
        own.add(name.lower())
        return name

    return [(name := name_of(field), field, types.get(name.lower())) for field in fields]


class _Types:
    """The types of the columns of one record."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._row = _full_name(record, "")
        self._space = self._row.rpartition(".")[0]
        self._named = {self._row: AvroType(record, "")}  # definitions, by full names
        self._within: tuple[str, ...] = ()  # full names of the records around a type
        self._count = self._most = 0
        self._unheld = ""  # a type that no column of a lake holds
        self._is_text = False
        self.columns: list[tuple[AvroType, bool]] = []
        """The types of the columns, and whether each becomes its JSON."""

    def of_column(self, field: dict[str, Any], known: pa.DataType | None) -> tuple[pa.DataType, Any]:
        """Return the type of a column, and how Avro stores its values."""
        self._within, self._most = (self._row,), self._count + _MOST_TYPES
        self._unheld, self._is_text = "", False
        kind, stored = self._of(field["type"], self._space, known)
        self.columns.append((AvroType(field["type"], self._space), self._is_text))
        if self._is_text:
            return pa.string(), ["null", "string"]
        return opaque_type(pa.null(), self._unheld) if self._unheld else kind, stored

    def definition(self, name: str, space: str) -> AvroType:
        """Return what a name means in a namespace."""
        return self._named.get(f"{space}.{name}") or self._named[name]

    def _of(self, schema: Any, space: str, known: Any) -> tuple[pa.DataType, Any]:  # noqa: ANN401 - of a file's JSON
        self._count += 1
        if isinstance(schema, list):
            return self._of_union(schema, space, known)
        if isinstance(schema, str):
            if schema in _SIMPLE:
                return _SIMPLE[schema], schema
            definition = self.definition(schema, space)
            if _full_name(*definition) in self._within or self._count > self._most:
                self._is_text = True
                return pa.null(), "null"
            return self._of_definition(*definition, known)
        return self._of_definition(schema, space, known)

    def _of_union(self, branches: Sequence[Any], space: str, known: pa.DataType | None) -> tuple[pa.DataType, Any]:
        types = [self._of(branch, space, known) for branch in branches]
        kinds = [kind for kind, _ in types if not pa.types.is_null(kind)]
        if len(kinds) > 1:
            self._unheld = f"union of {' and '.join(map(str, kinds))}"
        return (kinds or [pa.null()])[0], [stored for _, stored in types]

    def _of_definition(self, schema: dict[str, Any], space: str, known: pa.DataType | None) -> tuple[pa.DataType, Any]:
        kind = schema["type"]
        if kind == "array":
            item, stored = self._of(schema["items"], space, getattr(known, "value_type", None))
            return pa.list_(item), {"type": "array", "items": stored}
        if kind == "map":
            item, stored = self._of(schema["values"], space, getattr(known, "item_type", None))
            return pa.map_(pa.string(), item), {"type": "map", "values": stored}
        if kind not in {"record", "enum", "fixed"}:
            inner, stored = self._of(kind, space, known)
            return self._logical(schema, kind, inner), stored
        name = _full_name(schema, space)
        self._named[name] = AvroType(schema, space)
        space = name.rpartition(".")[0]
        named = {"type": kind, "name": f"t{self._count}"}
        if kind == "enum":
            return pa.string(), {**named, "symbols": schema["symbols"]}
        if kind == "fixed":
            return self._logical(schema, kind, pa.binary()), {**named, "size": schema["size"]}
        around, self._within = self._within, (*self._within, name)
        parts = [(name, *self._of(field["type"], space, of)) for name, field, of in _fields(schema["fields"], known)]
        self._within = around
        if not parts:
            self._unheld = "record without fields"
        fields = [{"name": part, "type": stored} for part, _, stored in parts]
        return pa.struct([(part, part_type) for part, part_type, _ in parts]), {**named, "fields": fields}

    def _logical(self, schema: dict[str, Any], kind: object, stored: pa.DataType) -> pa.DataType:
        name = schema.get("logicalType")
        fate = AVRO.get((kind, name), KEPT) if isinstance(kind, str) and isinstance(name, str) else KEPT
        if name == "decimal" and fate is KEPT and pa.types.is_binary(stored):
            precision, scale = schema["precision"], schema.get("scale", 0)
            # BigQuery says 77, and its numbers have 76 digits at most.
            short = precision <= MOST_DIGITS
            return pa.decimal128(precision, scale) if short else pa.decimal256(min(precision, 76), scale)
        if fate is REFUSED:
            self._unheld = str(name)
        return stored if fate in (KEPT, REFUSED) else fate
