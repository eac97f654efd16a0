"""Which row groups may have rows of a partition, by the statistics of the columns that select the rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from lake_assets.config.secrets import masking
from lake_assets.layout.partition import PartitionValue
from lake_assets.parquet.read import readable
from lake_assets.storage.arrow import ArrowStore


@dataclass(frozen=True, slots=True)
class Bounds:
    """The statistics of a column in a row group, with the names that Arrow gives them, without the footer."""

    has_min_max: bool
    min: Any
    max: Any
    has_null_count: bool
    null_count: int | None

    @classmethod
    def of(cls, statistics: pq.Statistics | None) -> "Bounds | None":
        """Return a copy of a footer's statistics."""
        if statistics is None:
            return None
        try:
            least, greatest = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
        except (OverflowError, ValueError):  # a date that Python does not have
            least = greatest = None
        return cls(least is not None, least, greatest, statistics.has_null_count, statistics.null_count)


Statistics: TypeAlias = pq.Statistics | Bounds | None


def read_bounds(store: ArrowStore, key: str, names: Sequence[str]) -> list[dict[str, Bounds | None]] | None:
    """Return the bounds of some columns in each row group of an object, from its footer; None if it lacks a column.

    Args:
        store: of the object.
        key: of the object.
        names: of the columns, in lower case; columns of the object may have others of it.

    Raises:
        SourceError, SourceChangedError, StorageError: as `Reader.read`.
    """
    uri = store.uri(key)
    with masking(store.storage), readable(store.storage, uri), store.open(key) as file:
        footer = pq.read_metadata(file)
        paths = [footer.schema.column(index).path.lower() for index in range(len(footer.schema))]
        if not set(names) <= set(paths):
            return None
        groups = (footer.row_group(number) for number in range(footer.num_row_groups))
        return [
            {name: Bounds.of(group.column(paths.index(name)).statistics) for name in names}
            for group in groups
            if group.num_rows
        ]


def rules_out(value: PartitionValue, statistics: Statistics) -> bool:
    """Return whether the statistics of a column exclude a partition's value from a row group."""
    if statistics is None:
        return False
    if value is None:
        return bool(statistics.has_null_count and statistics.null_count == 0)
    if not statistics.has_min_max:
        return False
    wanted: Any = value
    try:
        # Texts of numbers or dates do not sort as the numbers or dates do.
        return type(statistics.min) is type(wanted) and not statistics.min <= wanted <= statistics.max
    except (OverflowError, ValueError):  # a date that Python does not have, or a text that is not a date
        return False
