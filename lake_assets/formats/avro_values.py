"""Values in Avro's binary encoding, and by Python those of types that DuckDB does not read: they become their JSON."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lake_assets.formats.rescue import dumped


class Schema(NamedTuple):
    """A type as a file has it, and the namespace of the names in it."""

    kind: Any  # of JSON
    space: str


class Texts(NamedTuple):
    """Which columns of a file become texts."""

    columns: Sequence[tuple[Schema, bool]] = ()  # the types of all, and whether each becomes a text
    definition: Callable[[str, str], Schema] = Schema  # finds a named type

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
                    text = dumped(value).encode()
                    yield encoded_number(1) + encoded_number(len(text)) + text

    def value_at(self, schema: Schema, data: memoryview, at: int) -> tuple[Any, int]:
        """Return a value at a position, and the position behind it."""
        kind, space = schema
        if isinstance(kind, list):
            number, at = number_at(data, at)
            return self.value_at(Schema(kind[number], space), data, at)
        form = kind if isinstance(kind, str) else kind["type"]
        if isinstance(form, str) and form in _SIMPLE:
            return _SIMPLE[form](data, at)
        match form:
            case "fixed":
                return bytes(data[at : at + kind["size"]]), at + kind["size"]
            case "enum":
                number, at = number_at(data, at)
                return kind["symbols"][number], at
            case "record":
                space, fields = full_name(kind, space).rpartition(".")[0], {}
                for field in kind["fields"]:
                    fields[field["name"]], at = self.value_at(Schema(field["type"], space), data, at)
                return fields, at
            case "array" | "map":
                return self._items(Schema(kind["items" if form == "array" else "values"], space), form, data, at)
            case str(name):
                return self.value_at(self.definition(name, space), data, at)
            case _:
                return self.value_at(Schema(form, space), data, at)

    def _items(self, schema: Schema, form: str, data: memoryview, at: int) -> tuple[Any, int]:
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


def full_name(schema: dict[str, Any], space: str) -> str:
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


def bytes_at(data: memoryview, at: int) -> tuple[bytes, int]:
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
    value, at = bytes_at(data, at)
    return value.decode(), at


_SIMPLE: Mapping[str, Callable[[memoryview, int], tuple[Any, int]]] = {
    "null": lambda _, at: (None, at),
    "boolean": lambda data, at: (data[at] == 1, at + 1),
    "int": number_at,
    "long": number_at,
    "float": lambda data, at: (*struct.unpack_from("<f", data, at), at + 4),
    "double": lambda data, at: (*struct.unpack_from("<d", data, at), at + 8),
    "bytes": bytes_at,
    "string": _text_at,
}
