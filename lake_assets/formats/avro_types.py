"""The Arrow types of Avro's schemas, and the schemas of the same values as they are stored.

| Avro                                                 | Arrow                                         |
|------------------------------------------------------|-----------------------------------------------|
| null, boolean, int, long, float, double              | null, bool, int32, int64, float32, float64    |
| string, enum                                         | string                                        |
| bytes, fixed                                         | binary                                        |
| record, array, map                                   | struct, list, map                             |
| a union of one type, also with null                  | that type                                     |
| a union of several types, a type within itself       | refused                                       |
| decimal (of bytes or fixed), date, uuid              | decimal, date32, uuid                         |
| time-millis, time-micros                             | time32[ms], time64[us]                        |
| timestamp-millis, -micros, -nanos                    | timestamp[ms, us, ns] with the zone UTC       |
| local-timestamp-millis, -micros, -nanos              | timestamp[ms, us, ns]                         |
| another logical type                                 | that of its values                            |
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lake_assets.errors import SchemaError

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
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("string", "uuid"): pa.uuid(),
    ("fixed", "uuid"): pa.uuid(),
}
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
_LOGICAL |= {("long", f"timestamp-{name}"): pa.timestamp(unit, "UTC") for name, unit in _UNITS.items()}
_LOGICAL |= {("long", f"local-timestamp-{name}"): pa.timestamp(unit) for name, unit in _UNITS.items()}

_MOST_TYPES = 10_000  # of a schema, whose named types may use each other many times


def columns(schema: Any, origin: str) -> tuple[pa.Schema, dict[str, Any]]:  # noqa: ANN401 - of a file's JSON
    """Return the columns of a record, and its schema without logical types, in which they are named by their numbers.

    Args:
        schema: of the file, from its JSON.
        origin: names the file in errors.

    Raises:
        SchemaError: a column cannot be one of a table, or there is none.
        ValueError, LookupError, TypeError, AttributeError, RecursionError: it is no schema of Avro.
    """
    if not (isinstance(schema, dict) and schema.get("type") == "record" and schema["fields"]):
        raise SchemaError(f"{origin} has rows that are no records with fields:", "land records.")
    types = _Types(origin)
    found = [(field["name"], *types.of_column(field, schema)) for field in schema["fields"]]
    stored = [{"name": column_name(number), "type": kind} for number, (_, _, kind) in enumerate(found)]
    return pa.schema([(name, kind) for name, kind, _ in found]), {"type": "record", "name": "row", "fields": stored}


def column_name(number: int) -> str:
    """Return the name of a column in the schema without logical types."""
    return f"c{number}"


class _Types:
    """The types of one file's columns.

    Args:
        origin: names the file in errors.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._column = ""
        self._named: dict[str, tuple[dict[str, Any], str]] = {}  # definitions with their namespaces, by full names
        self._within: tuple[str, ...] = ()  # full names of the records around a type
        self._count = 0

    def of_column(self, field: dict[str, Any], record: dict[str, Any]) -> tuple[pa.DataType, Any]:
        """Return the type of a column of a record, and how Avro stores its values."""
        self._column = field["name"]
        name, space = _full_name(record, "")
        self._within = (name,)
        return self._of(field["type"], space)

    def _of(self, schema: Any, space: str) -> tuple[pa.DataType, Any]:  # noqa: ANN401 - of a file's JSON
        self._count += 1
        if self._count > _MOST_TYPES:
            raise self._refused(f"is one of more than {_MOST_TYPES:,} types")
        if isinstance(schema, list):
            return self._of_union(schema, space)
        if isinstance(schema, str):
            if schema in _SIMPLE:
                return _SIMPLE[schema], schema
            name = schema if "." in schema or not space else f"{space}.{schema}"
            name = name if name in self._named or name in self._within else schema
            if name in self._within:
                raise self._refused(f"has the type {name}, which is within itself")
            return self._of_definition(*self._named[name])
        return self._of_definition(schema, space)

    def _of_union(self, branches: Sequence[Any], space: str) -> tuple[pa.DataType, Any]:
        found = [self._of(branch, space) for branch in branches]
        kinds = [kind for kind, _ in found if not pa.types.is_null(kind)]
        if len(kinds) > 1:
            raise self._refused(f"is a union of {' and '.join(map(str, kinds))}")
        return (kinds or [pa.null()])[0], [stored for _, stored in found]

    def _of_definition(self, schema: dict[str, Any], space: str) -> tuple[pa.DataType, Any]:
        kind = schema["type"]
        if kind == "array":
            item, stored = self._of(schema["items"], space)
            return pa.list_(item), {"type": "array", "items": stored}
        if kind == "map":
            item, stored = self._of(schema["values"], space)
            return pa.map_(pa.string(), item), {"type": "map", "values": stored}
        if kind not in {"record", "enum", "fixed"}:
            found, stored = self._of(kind, space)
            return _logical(schema, kind, found), stored
        name, space = _full_name(schema, space)
        self._named[name] = schema, space
        named = {"type": kind, "name": f"t{self._count}"}
        if kind == "enum":
            return pa.string(), {**named, "symbols": schema["symbols"]}
        if kind == "fixed":
            return _logical(schema, kind, pa.binary()), {**named, "size": schema["size"]}
        around, self._within = self._within, (*self._within, name)
        parts = [(field["name"], *self._of(field["type"], space)) for field in schema["fields"]]
        self._within = around
        if not parts:
            raise self._refused("has a record without fields")
        fields = [{"name": part, "type": stored} for part, _, stored in parts]
        return pa.struct([(part, found) for part, found, _ in parts]), {**named, "fields": fields}

    def _refused(self, why: str) -> SchemaError:
        return SchemaError(f"column {self._column!r} of {self._origin} {why}:", "land it as another type.")


def _full_name(schema: dict[str, Any], space: str) -> tuple[str, str]:
    """Return the full name of a type, and the namespace of the names within it."""
    name: str = schema["name"]
    if "." not in name and (given := schema.get("namespace", space)):
        name = f"{given}.{name}"
    return name, name.rpartition(".")[0]


def _logical(schema: dict[str, Any], kind: object, stored: pa.DataType) -> pa.DataType:
    name = schema.get("logicalType", "")
    if name == "decimal" and pa.types.is_binary(stored):
        precision, scale = schema["precision"], schema.get("scale", 0)
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    return _LOGICAL.get((kind, name), stored) if isinstance(kind, str) else stored
