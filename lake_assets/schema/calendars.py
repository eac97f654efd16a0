"""Days and times that Spark and Hive have written by the old calendar.

Spark 2, and later ones in mode LEGACY, count days before 1582-10-15 by the Julian calendar, and say so in the file's
metadata. So do writers of ORC in Java. All others count by the Gregorian one. The same day has another number, so it is
converted, as Spark reads it: https://spark.apache.org/docs/latest/sql-data-sources-parquet.html#configuration. Before
1900, the old calendar of Spark also has other offsets of zones from UTC, so such times are refused where the zone is
another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.base.errors import SchemaError
from lake_assets.schema.arrow_types import leaf_types, leaves

_FIRST, _ZONES = -141_427, -25_567  # days of 1582-10-15, and of 1900-01-01
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_LEAST = -(2**63)  # of nanoseconds it is in 1677
_UTC = {"UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT"}
_VERSION, _ZONE = b"org.apache.spark.version", b"org.apache.spark.timeZone"
_DAYS, _INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
WRITE_NEW = (
    "let its writer use the new one (Spark's datetimeRebaseModeInWrite and int96RebaseModeInWrite: CORRECTED, "
    "of ORC orc.proleptic.gregorian: true)"
)
_OF_SPARK = b"org.apache.spark.sql.parquet.row.metadata"  # also of versions that do not tell theirs


@dataclass(frozen=True, slots=True)
class OldCalendar:
    """What is written by the old calendar."""

    days: bool = False  # days, and timestamps with a zone
    int96: bool = False  # timestamps that are INT96
    is_utc: bool = False  # their writer's zone was UTC

    @classmethod
    def of(cls, metadata: Mapping[bytes, bytes] | None) -> Self:
        """Return what of a file is by the old calendar, as its metadata tell."""
        keys = metadata or {}
        version = keys.get(_VERSION, b"2" if _OF_SPARK in keys else b"9")
        return cls(
            _DAYS in keys or version < b"3.0.0",
            _INT96 in keys or version < b"3.1.0",
            keys.get(_ZONE, b"").decode("utf-8", "replace") in _UTC,
        )

    def first(self, kind: pa.DataType, *, is_int96: bool = False) -> int | None:
        """Return the first stored value that is the same in both calendars; None if all are."""
        if self.days and t.is_date32(kind):
            return _FIRST
        if t.is_timestamp(kind) and (self.int96 if is_int96 else self.days and kind.tz is not None):
            limit = (_FIRST if self.is_utc else _ZONES) * _PER_DAY[kind.unit]
            return limit if limit >= _LEAST else None
        return None

    def is_old(self, kind: pa.DataType, *, is_int96: bool = False) -> bool:
        """Return whether a column of this type may have values of the old calendar."""
        return any(self.first(leaf, is_int96=is_int96) is not None for leaf in leaf_types(kind))

    def converted(self, values: pa.Array, column: str, *, is_int96: bool = False) -> pa.Array:
        """Return the values of a column by the calendar of all others; `column` names it in errors.

        A value within another one is refused, and so is a time before 1900 in another zone than UTC.
        """
        for leaf in leaves(values):
            first = self.first(leaf.type, is_int96=is_int96)
            if first is None or not pc.any(pc.less(_stored(leaf), first)).as_py():
                continue
            if leaf is values and (self.is_utc or t.is_date(leaf.type)):
                return _converted(values)
            raise SchemaError(
                f"{column} has times before 1900, or nested days before 1582-10-15, by the old calendar:",
                f"{WRITE_NEW}, or leave the column out: omit: true in `columns`.",
            )
        return values


def _stored(values: pa.Array) -> pa.Array:
    return values.view(pa.int32() if t.is_date32(values.type) else pa.int64())


def _converted(values: pa.Array) -> pa.Array:
    stored = _stored(values)
    per_day = 1 if t.is_date(values.type) else _PER_DAY[values.type.unit]
    days = stored.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) // per_day
    # Julian years from March on, of which 0 begins on day -719470. Gregorian ones lack three leap days in 400 years.
    years = (4 * (days + 719_470) + 3) // 1461
    moved = np.where(days < _FIRST, 2 - years // 100 + years // 400, 0)
    return pc.add(stored, pa.array(moved * per_day).cast(stored.type)).view(values.type)
