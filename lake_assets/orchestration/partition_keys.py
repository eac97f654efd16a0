"""Dagster's partitions of a stream, and the conversion between a Dagster key and its partitions.

A key is that of a cell (`Cells`), which is one partition unless a time has `keys`. A column of the cell is a dimension
of the same name, and the key of a value is its text in a path: percent-encoded, NULL as `__HIVE_DEFAULT_PARTITION__`.
Texts that Dagster forbids in keys, or splits them at, are percent-encoded too: `,` and `|` (and brackets, which a path
encodes already) and `...`. An empty text, which a column with `empty: value` may have, is `__EMPTY__`, and that text
itself is `%5F_EMPTY__`. So each cell has one key, and each key one cell.

With two columns Dagster joins the dimensions by `|` in the order of their names, not of the path.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from types import MappingProxyType

import dagster as dg

from lake_assets.base.errors import PartitionError
from lake_assets.base.texts import count, visible_name
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.config.layout.partition import WHOLE, Partition, PartitionColumn
from lake_assets.config.layout.times import TIME_TYPES, TimeName, zone_of
from lake_assets.streams.calendar import configured_values, recent_texts
from lake_assets.streams.key_cells import Cells, JointColumn
from lake_assets.streams.stream import OpenStream

# Documented at `dagster.StaticPartitionsDefinition` and `MultiPartitionsDefinition`.
_FORBIDDEN = {",": "%2C", "|": "%7C", "...": "%2E%2E%2E"}
PARTITION = "dagster/partition"
RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
BACKFILL = "dagster/backfill"
"""Tags of a run: its partition, the first and last key of its range, and the backfill that requested it."""
NEVER_BEGAN = "lake_assets/never_began"  # a tag of a run that Dagster dropped, and that is shown as cancelled for it

_JOINT = "|"
EMPTY = "__EMPTY__"  # the key of the empty text, for columns with `empty: value`

# The beginnings of windows, and the forms of their keys.
_WINDOWS: Mapping[TimeName, tuple[str, str]] = MappingProxyType(
    {
        "year": ("0 0 1 1 *", "%Y"),
        "month": ("0 0 1 * *", "%Y-%m"),
        "week": ("0 0 * * 1", "%G-W%V-%u"),
        "date": ("0 0 * * *", "%Y-%m-%d"),
        "hour": ("0 * * * *", "%Y-%m-%d-%H"),
    }
)
_MONDAY = "-1"  # ends the key of a week, of which Python, and so Dagster, reads no text without a day


def partitions_def(stream: OpenStream) -> dg.PartitionsDefinition[str]:
    """Return the partitions of a stream's asset in Dagster, also for assets downstream.

    A column that is a time has a partition for each year, month, week, day or hour from `start` to `end`, or to today,
    both included; with `keys` for each longer time of these. The key of a week is its Monday: `2026-W07-1`. Today is
    that of the stream's time zone; hours are those of UTC. Any other column has its configured values or, without
    these, the keys that were added to its dynamic partitions (`dynamic_name`). A partition whose time is NULL is in no
    window; the command line ingests it.

    Args:
        stream: the stream, from `open_stream`.

    Returns:
        The definition of the one partition column, or a `dagster.MultiPartitionsDefinition` of two, with the columns'
        names. Its `get_partitions_def_for_dimension("date")` is for an asset with a partition for each date. Of more
        columns, the second dimension is all but the first time, joined: `region/shop` with keys such as `NW/s1`.
    """
    return StreamKeys(stream).definition


class StreamKeys:
    """Dagster's keys of a stream: the only place that knows the partitions of a key."""

    def __init__(self, stream: OpenStream) -> None:
        self._stream = stream
        self._cells = Cells(stream.config)
        self.columns = self._cells.columns  # the dimensions
        self.are_partitions = self._cells.are_partitions  # whether each key is one partition

    @property
    def definition(self) -> dg.PartitionsDefinition[str]:
        """The partitions of the stream's asset."""
        by_column = self.dimensions
        return dg.MultiPartitionsDefinition(by_column) if len(by_column) > 1 else next(iter(by_column.values()))

    @cached_property
    def dimensions(self) -> dict[str, dg.PartitionsDefinition[str]]:
        """The dimension of each column, by its name."""
        return {column.name: self._dimension(column) for column in self.columns}

    @property
    def dynamic(self) -> dict[str, str]:
        """The name of the dynamic partitions of each dimension whose values are discovered, not configured."""
        return {
            column.name: dynamic_name(self._stream.name, column.name)
            for column in self.columns
            if column.type not in TIME_TYPES and not self._has_values(column)
        }

    def has(self, key: str, instance: dg.DagsterInstance) -> bool:
        """Return whether a key is one of the stream's by its present config."""
        with dg.partition_loading_context(dynamic_partitions_store=instance):
            return self.definition.has_partition_key(key)

    def of(self, partition: Partition) -> str:
        """Return the key of a partition; a `dagster.MultiPartitionKey` where there are two dimensions."""
        return partition_key(self.cell_of(partition))

    def cell_of(self, partition: Partition) -> Partition:
        """Return the cell of a partition."""
        return self._cells.of(partition)

    def cell(self, key: str) -> Partition:
        """Return the cell of a key."""
        return cell_of_key(self.columns, key)

    def partitions(self, key: str) -> list[Partition]:
        """Return the partitions of a key, in order: of its time those of the config, by now."""
        return self._cells.partitions(self.cell(key))

    def partition(self, key: str) -> Partition:
        """Return the one partition of a key. Another number of them is a PartitionError."""
        partitions = self.partitions(key)
        if len(partitions) != 1:
            such = f", such as {partitions[-1].option}" if partitions else ""
            raise PartitionError(
                f"the key {key} has {count(len(partitions), 'partition')}:", f"name one partition{such}."
            )
        return partitions[0]

    def missing(self, instance: dg.DagsterInstance, cells: Iterable[Partition]) -> dict[str, list[str]]:
        """Return the keys that these cells need and Dagster lacks, by the name of the dynamic partitions."""
        of_cells = [keys_by_dimension(cell) for cell in cells] if self.dynamic else []
        missing: dict[str, list[str]] = {}
        for column, name in self.dynamic.items():
            keys = {of_cell[column] for of_cell in of_cells}
            if new := sorted(keys - {*instance.get_dynamic_partitions(name)} if keys else ()):
                missing[name] = new
        return missing

    def between(self, first: str, last: str, instance: dg.DagsterInstance) -> list[str]:
        """Return the keys from one to another: of each dimension those between, in Dagster's order.

        Raises PartitionError if the config or Dagster does not have one of the two.
        """
        ends, spans = [keys_by_dimension(self.cell(key)) for key in (first, last)], dict[str, list[str]]()
        for name, definition in self.dimensions.items():
            keys = dimension_keys(definition, instance)
            positions = {key: number for number, key in enumerate(keys)}
            if not all(end_keys[name] in positions for end_keys in ends):
                raise PartitionError(f"Dagster has no {name} of {first!r} and {last!r}.")
            begin, end = (positions[end_keys[name]] for end_keys in ends)
            spans[name] = keys[begin : end + 1]
        return [joined_key(dict(zip(spans, values, strict=True))) for values in product(*spans.values())]

    def recent(self, instance: dg.DagsterInstance | None, at: dt.datetime, lookback: int) -> dict[str, list[str]]:
        """Return the keys of each dimension: of a time those of the newest partitions, of another column all.

        The newest are the one at a moment, with a time zone, and so many before it. The instance may be None if no
        partitions are dynamic.
        """
        windows = recent_texts(self._stream.config, at, lookback)
        keys: dict[str, list[str]] = {}
        for column in self.columns:
            if column.name not in windows:
                keys[column.name] = dimension_keys(self.dimensions[column.name], instance)
            elif (window := windows[column.name]) is None:
                keys[column.name] = []
            else:
                kind, of_column = TIME_TYPES[column.type], TIME_TYPES[self._stream.config.partitions[column.name].type]
                first, last = (kind.number(of_column.start(text)) for text in window)
                keys[column.name] = [
                    dimension_key(column, kind.text(kind.at(number))) for number in range(first, last + 1)
                ]
        return keys

    def recent_partitions(self, instance: dg.DagsterInstance, at: dt.datetime, lookback: int) -> list[Partition]:
        """Return the partitions of the keys of `recent`, without those before the newest ones."""
        recent, windows = self.recent(instance, at, lookback), recent_texts(self._stream.config, at, lookback)
        joined = (joined_key(dict(zip(recent, keys, strict=True))) for keys in product(*recent.values()))
        return [
            partition
            for key in joined
            for partition in self.partitions(key)
            if all(window and window[0] <= partition.texts()[name] <= window[1] for name, window in windows.items())
        ]

    def _has_values(self, column: PartitionColumn) -> bool:
        if isinstance(column, JointColumn):
            return all(map(self._has_values, column.parts))
        return self._stream.config.partitions[column.name].values is not None

    def _values(self, column: PartitionColumn) -> list[str]:
        """Return the texts of a column's configured values."""
        if isinstance(column, JointColumn):
            return ["/".join(texts) or WHOLE for texts in product(*map(self._values, column.parts))]
        values = self._stream.config.partitions[column.name].values or ()
        return [column.text(value) for value in configured_values(column, values)]

    def _dimension(self, column: PartitionColumn) -> dg.PartitionsDefinition[str]:
        if column.type in TIME_TYPES:
            return self._times(column)
        if not self._has_values(column):
            return dg.DynamicPartitionsDefinition(name=dynamic_name(self._stream.name, column.name))
        return dg.StaticPartitionsDefinition([dimension_key(column, text) for text in self._values(column)])

    def _times(self, column: PartitionColumn) -> dg.PartitionsDefinition[str]:
        field = self._stream.config.partitions[column.name]
        assert field.start is not None  # noqa: S101 - the config requires it of a time
        kind = TIME_TYPES[column.type]
        cron, form = _WINDOWS[kind.name]
        # 9999-12-31, which often means "never", has no next day.
        last = field.end if field.end is not None and field.end < dt.date.max else None
        return dg.TimeWindowPartitionsDefinition(
            start=kind.at(kind.number(dt.datetime.combine(field.start, dt.time.min))),
            # Dagster's end is exclusive.
            end=kind.at(kind.number(dt.datetime.combine(last, dt.time.max)) + 1) if last else None,
            fmt=form,
            cron_schedule=cron,
            timezone=zone_of(field.type, self._stream.config.time_zone),
            end_offset=1,  # today is a partition too; without it Dagster has a day only when it is over
        )


def dimension_keys(definition: dg.PartitionsDefinition[str], instance: dg.DagsterInstance | None) -> list[str]:
    """Return the keys of a dimension now; only dynamic ones need the instance."""
    return list(definition.get_partition_keys(dynamic_partitions_store=instance))


class ValueOrder:
    """The positions of values in Dagster's order of their columns, read from Dagster when a column is first asked for.

    `new` are further keys by the name of the dynamic partitions, which have the last positions.
    """

    def __init__(
        self, stream: OpenStream, instance: dg.DagsterInstance, new: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._stream = stream
        self._instance = instance
        self._new = new or {}
        self._positions: dict[str, dict[str, int]] = {}

    def of(self, column: str) -> dict[str, int]:
        """Return the positions of a column's keys."""
        if column not in self._positions:
            keys = dimension_keys(StreamKeys(self._stream).dimensions[column], self._instance)
            keys += self._new.get(dynamic_name(self._stream.name, column), ())
            self._positions[column] = {key: number for number, key in enumerate(keys)}
        return self._positions[column]

    def position(self, cell: Partition, column: PartitionColumn) -> int:
        """Return the position of a cell's value in a column."""
        return self.of(column.name)[keys_by_dimension(cell)[column.name]]


def user_text(asset: dg.AssetKey) -> str:
    """Return an asset's key as the UI writes it."""
    return "/".join(asset.path)


def step_of(asset: dg.AssetKey) -> str:
    """Return the name that Dagster gives an asset's step."""
    return "__".join(asset.path).replace("-", "_").replace(".", "_")


def dynamic_name(stream: str, column: str) -> str:
    """Return the name of the dynamic partitions that hold the keys of a column without configured values."""
    return f"{stream}_{column}"


def partition_key(partition: Partition) -> str:
    """Return the key of a partition or cell; a `dagster.MultiPartitionKey` where it has two columns."""
    return joined_key(keys_by_dimension(partition))


def keys_by_dimension(cell: Partition) -> dict[str, str]:
    """Return the key of each dimension of a partition or cell."""
    return {c.name: dimension_key(c, c.text(v)) for c, v in zip(cell.columns, cell.values, strict=True)}


def dimension_tags(key: str) -> dict[str, str]:
    """Return the tags of an event of a partition, by which Dagster finds its dimensions."""
    dimensions = key.keys_by_dimension if isinstance(key, dg.MultiPartitionKey) else {}
    return {f"{PARTITION}/{dimension}": text for dimension, text in dimensions.items()}


def summary_of(partitions: Sequence[Partition]) -> str:
    """What a run of several partitions is: `6 partitions: origin=EWR, date=2013-01-01 to 2013-01-06 (6 values)`."""
    by_column: dict[str, list[str]] = {}
    for partition in partitions:
        for name, text in partition.texts().items():
            by_column.setdefault(name, []).append(text)
    spans = ", ".join(_span(name, sorted({*texts})) for name, texts in by_column.items())
    return f"{count(len(partitions), 'partition')}: {spans or WHOLE}"


def _span(name: str, texts: Sequence[str]) -> str:
    first, last = visible_name(texts[0]), visible_name(texts[-1])
    return f"{name}={first}" if len(texts) == 1 else f"{name}={first} to {last} ({len(texts):,} values)"


def joined_key(keys: Mapping[str, str]) -> str:
    """Return the key of a partition whose dimensions have these keys."""
    return dg.MultiPartitionKey(keys) if len(keys) > 1 else next(iter(keys.values()))


def cell_of_key(columns: Sequence[PartitionColumn], key: str) -> Partition:
    """Return the cell that a key names, which is a partition if they have the same columns.

    A value that is not written as by `partition_key` is a PartitionError: the partition would have two keys.
    """
    ordered = sorted(columns, key=lambda column: column.name)
    texts = key.split(_JOINT)
    if len(texts) != len(ordered):
        names = ", ".join(column.name for column in ordered)
        raise PartitionError(
            f"partition key {key!r} has {len(texts)} values, and the partition columns are {names}:",
            f"write one value for each, joined by {_JOINT} (a {_JOINT} inside a value as %7C).",
        )
    named = {column.name: _unkeyed(column, text) for column, text in zip(ordered, texts, strict=True)}
    partition = Partition.of(columns, named)
    canonical = partition_key(partition)
    if key != canonical:
        raise PartitionError(
            f"partition key {key!r} is not written as in a path:", f"use the key {canonical!r} instead."
        )
    return partition


def _unkeyed(column: PartitionColumn, key: str) -> str:
    if column.type == "week":
        return key.removesuffix(_MONDAY)
    return "/".join("" if part == EMPTY else part for part in key.split("/"))


def dimension_key(column: PartitionColumn, text: str) -> str:
    """Return the key of a column's value, by its text in a path; `EMPTY` for an empty one, which Dagster forbids.

    Of a joint column, whose text alone has slashes, each value has its key.
    """
    if "/" in text:
        return "/".join(dimension_key(column, part) for part in text.split("/"))
    if column.type == "week" and text != HIVE_NULL:
        return text + _MONDAY
    if text in {"", EMPTY}:
        return "%5F_EMPTY__" if text else EMPTY
    for forbidden, encoded in _FORBIDDEN.items():
        text = text.replace(forbidden, encoded)
    return text
