"""Rows held against a partition value that is made of another of their columns."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as t

from lake_assets.errors import LayoutError, SchemaError
from lake_assets.layout.derived import Derived
from lake_assets.layout.hive import HIVE_NULL
from lake_assets.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.layout.times import TIME_TYPES

_DAY = dt.timedelta(days=1)


def made_of(
    derived: Sequence[Derived], partition: Partition, names: Mapping[str, str], origin: str
) -> Iterator["Made"]:
    """The values of a partition that are made of columns that some rows have.

    Args:
        derived: the stream's.
        partition: whose rows they are.
        names: the rows' columns by what SQL takes them for.
        origin: the object or result that they come from, for errors.
    """
    sources = {one.name: one for one in derived}
    for column, value in zip(partition.columns, partition.values, strict=True):
        one = sources.get(column.name)
        if one is not None and one.column.lower() in names:
            yield Made(one, column, value, names[one.column.lower()], partition, origin)


@dataclass(frozen=True, slots=True)
class Made:
    """A partition value, and the column of some rows that it is made of.

    Attributes:
        derived: how the value is made.
        column: the partition column.
        value: the partition's.
        name: of the rows' column.
        partition: whose value it is, for errors.
        origin: the object or result that the rows come from, for errors.
    """

    derived: Derived
    column: PartitionColumn
    value: PartitionValue
    name: str
    partition: Partition
    origin: str

    def has(self, batch: pa.RecordBatch) -> pa.Array:
        """Which rows have the value.

        Raises:
            SchemaError: no such value can be made of a row's, whose text is no time.
        """
        values = batch.column(self.name)
        texts = self._texts(values)
        no_time = pc.and_(pc.is_valid(values), pc.equal(texts, HIVE_NULL))
        if t.is_null(values.type) or not pc.any(no_time).as_py():
            return pc.equal(texts, self._text)
        found = values[pc.index(no_time, True).as_py()].as_py()
        if found == "":  # as empty as NULL, as in a path
            return pc.equal(texts, self._text)
        raise SchemaError(
            f"column {self.name!r} of {self.origin} says to which partition a row belongs, and has the value "
            f"{found!r}, which is no time:",
            "correct the value; docs/layout.md lists the formats.",
        )

    def check(self, batch: pa.RecordBatch) -> None:
        """Let every row be of the partition.

        Raises:
            SchemaError: one is of another.
        """
        values = batch.column(self.name)
        texts = self._texts(values)
        others = pc.not_equal(texts, self._text)
        if pc.any(others).as_py():
            row = pc.index(others, True).as_py()
            value, text = values[row].as_py(), texts[row].as_py()
            clock = f" by the clock of {self.derived.template.time_zone}" if self.column.type in TIME_TYPES else ""
            raise SchemaError(
                f"{self.origin} has a row with {self.name}={str(value)!r}, which is {self.column.name}={text}{clock}, "
                f"and belongs to {self.partition}:",
                "land the row in its own partition, or correct the layout's time_zone in the config.",
            )

    def is_proved(
        self, least: str | None, greatest: str | None, nulls: int | None, values: int, kind: pa.DataType
    ) -> bool:
        """Whether the bounds of some rows' column say that all of them have the value.

        Args:
            least: the column's least value, as a text.
            greatest: its greatest.
            nulls: how many of the values are NULL; None if nobody knows.
            values: how many there are, NULLs too.
            kind: the column's type.
        """
        if self.value is None:
            return nulls == values
        # Only times sort as the days that are made of them; in another zone the clock may go back over midnight.
        sorts = t.is_date(kind) or (
            t.is_timestamp(kind) and (kind.tz is None or self.derived.template.time_zone == "UTC")
        )
        if nulls != 0 or not sorts or least is None or greatest is None:
            return False
        return bool(pc.all(pc.equal(self._texts(pa.array([least, greatest])), self._text)).as_py())

    def rules_out(self, statistics: pq.Statistics | None) -> bool:
        """Whether no row of a row group can have the value, by the statistics of the rows' column."""
        if statistics is None or self.column.type not in TIME_TYPES:
            return False
        if self.value is None:
            # A text that is no time is NULL too.
            is_text = isinstance(statistics.min, str) if statistics.has_min_max else True
            return bool(not is_text and statistics.has_null_count and statistics.null_count == 0)
        if not statistics.has_min_max:
            return False
        try:
            least, greatest = _days(statistics.min)[0], _days(statistics.max)[1]
        except (OverflowError, ValueError):  # a date that Python does not have, a text that begins with none
            return False
        # A year or a month is the beginning of its days, and ISO's texts sort by time.
        day = self._text[:10]
        return not least.isoformat()[: len(day)] <= day <= greatest.isoformat()[: len(day)]

    @property
    def _text(self) -> str:
        return self.column.text(self.value)

    def _texts(self, values: pa.Array) -> pa.Array:
        try:
            return self.derived.texts(values).cast(pa.string())
        except LayoutError as error:
            raise SchemaError(
                f"no {self.column.name} can be made of column {self.name!r} of {self.origin}: {error.problem}",
                error.hint,
            ) from error


def _days(value: object) -> tuple[dt.date, dt.date]:
    """The first and the last day that a value can be of, by any clock.

    Raises:
        OverflowError, ValueError: it is of none that can be told.
    """
    if isinstance(value, str):
        day = dt.date.fromisoformat(value[:10])
        return day - 2 * _DAY, day + 2 * _DAY  # it may have an offset, and the clock another
    if isinstance(value, dt.datetime):
        day, off = value.date(), _DAY if value.tzinfo else 0 * _DAY
        return day - off, day + off
    if isinstance(value, dt.date):
        return value, value
    raise ValueError("no time")
