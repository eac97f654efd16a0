"""What becomes of each annotation of a column: of Parquet, ORC and Avro, by their specifications.

An annotation says what the stored values mean: Parquet's logical and converted types, the attributes that writers give
ORC's types, Avro's logical types. Arrow reads most of them, and the values of some without their meaning. `KEPT` is as
Arrow reads it, a type is what the values are cast to, and `REFUSED` is a type that no column of a lake holds: only a
stream that wants the column is refused. The page docs/schema-changes.md has the same list.

Parquet: https://parquet.apache.org/docs/file-format/types/logicaltypes/. Avro: https://avro.apache.org/docs/1.12.0/specification/.
ORC specifies none itself: these are Spark's (`spark.sql.catalyst.type`) and Iceberg's (`iceberg.long-type`).
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeAlias

import pyarrow as pa
from pyarrow import types as t

MOST_DIGITS = 38  # of a decimal of a lake


class Fate(Enum):
    """What becomes of an annotation that is not cast."""

    KEPT = "kept"
    REFUSED = "refused"


KEPT, REFUSED = Fate.KEPT, Fate.REFUSED
Annotations: TypeAlias = Mapping[str, Fate | pa.DataType]

PARQUET: Annotations = {
    **dict.fromkeys(("STRING", "DECIMAL", "DATE", "TIME", "TIMESTAMP", "INT", "NONE"), KEPT),
    **dict.fromkeys(("JSON", "BSON", "UUID", "FLOAT16", "LIST", "MAP"), KEPT),
    "UNKNOWN": KEPT,  # a column that is always NULL
    "ENUM": pa.string(),
    **dict.fromkeys(("INTERVAL", "TIMETZ", "GEOMETRY", "GEOGRAPHY", "VARIANT"), REFUSED),
}
"""By Arrow's names of logical types; INTERVAL is a converted type only, and TIMETZ a TIME in UTC."""

ORC: Annotations = {
    **dict.fromkeys(("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string"), KEPT),
    **dict.fromkeys(("char", "varchar", "binary", "date", "timestamp", "interval"), KEPT),
    "timestamp_ntz": pa.timestamp("us"),
    "time": pa.time64("ns"),
    "TIME": pa.time64("us"),
}
"""By the first word of Spark's type, in which an interval is a number of months or microseconds; TIME is Iceberg's."""
ORC_KEYS = (b"spark.sql.catalyst.type", b"iceberg.long-type")

_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
AVRO: Mapping[tuple[str, str], Fate | pa.DataType] = {
    ("bytes", "decimal"): KEPT,
    ("fixed", "decimal"): KEPT,
    ("bytes", "big-decimal"): REFUSED,
    ("string", "uuid"): pa.uuid(),
    ("fixed", "uuid"): pa.uuid(),
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    **{("long", f"timestamp-{name}"): pa.timestamp(unit, "UTC") for name, unit in _UNITS.items()},
    **{("long", f"local-timestamp-{name}"): pa.timestamp(unit) for name, unit in _UNITS.items()},
    ("fixed", "duration"): REFUSED,
}
"""By stored type and logical type. Avro specifies that readers ignore all others."""


def opaque_type(storage: pa.DataType, name: str) -> pa.DataType:
    """Return the type of a part of a column that no column of a lake holds; `name` is shown in errors."""
    return pa.opaque(storage, name, "annotation")


def _has_part(data_type: pa.DataType, is_kind: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a type, or a part of it, is of a kind."""
    parts = (data_type.field(index).type for index in range(data_type.num_fields))
    return is_kind(data_type) or any(_has_part(part, is_kind) for part in parts)


def has_map(data_type: pa.DataType) -> bool:
    """Return whether a type is a map, or has one in it."""
    return _has_part(data_type, t.is_map)


def is_opaque(data_type: pa.DataType) -> bool:
    """Return whether a type, or a part of it, is `opaque_type`, so that its values are not cast."""
    return _has_part(data_type, lambda kind: isinstance(kind, pa.OpaqueType))


def is_foreign(data_type: pa.DataType) -> bool:
    """Return whether no column of a lake has a type, or a part of it."""
    return _has_part(data_type, _is_unheld)


def _is_unheld(kind: pa.DataType) -> bool:
    is_long = t.is_decimal(kind) and (kind.precision > MOST_DIGITS or kind.scale < 0)
    return is_long or t.is_duration(kind) or t.is_interval(kind) or isinstance(kind, pa.OpaqueType)


def annotated_type(storage: pa.DataType, name: str, annotations: Annotations) -> pa.DataType:
    """Return the type of values that are stored as one type and annotated; `opaque_type` if no column holds them."""
    fate = annotations.get(name, REFUSED)
    return storage if fate is KEPT else opaque_type(storage, name) if fate is REFUSED else fate
