"""Dagster's partitions of a stream, and the conversion between a Dagster key and a `Partition`.

A column is a dimension of the same name, and the key of a value is its text in a path: percent-encoded, NULL as
`__HIVE_DEFAULT_PARTITION__`. Texts that Dagster forbids in keys, or splits them at, are percent-encoded too: `,` and
`|` (and brackets, which a path encodes already) and `...`. An empty text, which a column with `empty: value` may have,
is `__EMPTY__`, and that text itself is `%5F_EMPTY__`. So each partition has one key, and each key one partition.

With two columns Dagster joins the dimensions by `|` in the order of their names, not of the path.
"""

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import dagster as dg

from lake_assets.config.partition_fields import PartitionField
from lake_assets.config.streams import Stream
from lake_assets.errors import PartitionError
from lake_assets.escapes import visible_name
from lake_assets.layout.partition import Partition, PartitionColumn
from lake_assets.layout.texts import count
from lake_assets.layout.times import TIME_TYPES, TimeName, zone_of
from lake_assets.orchestration.dagster_private import PARTITION
from lake_assets.streams.calendar import configured_values, recent_texts
from lake_assets.streams.stream import OpenStream

# Documented at `dagster.StaticPartitionsDefinition` and `MultiPartitionsDefinition`.
_FORBIDDEN = {",": "%2C", "|": "%7C", "...": "%2E%2E%2E"}
_JOINT = "|"
EMPTY = "__EMPTY__"  # the key of the empty text, for columns with `empty: value`

# The beginnings of windows.
_CRONS: Mapping[TimeName, str] = MappingProxyType(
    {"year": "0 0 1 1 *", "month": "0 0 1 * *", "date": "0 0 * * *", "hour": "0 * * * *"}
)


def partitions_def(stream: OpenStream) -> dg.PartitionsDefinition[str]:
    """Return the partitions of a stream's asset in Dagster, also for assets downstream.

    A column that is a time has a partition for each year, month, day or hour from `start` to `end`, or to today, both
    included. Today is that of the stream's time zone; hours are those of UTC. Any other column has its configured
    values or, without these, the keys that were added to its dynamic partitions (`dynamic_name`). A partition whose
    time is NULL is in no window; the command line ingests it.

    Args:
        stream: the stream, from `open_stream`.

    Returns:
        The definition of the one partition column, or a `dagster.MultiPartitionsDefinition` of two, with the columns'
        names. Its `get_partitions_def_for_dimension("date")` is for an asset with a partition for each date.
    """
    by_column = dimensions(stream)
    return dg.MultiPartitionsDefinition(by_column) if len(by_column) > 1 else next(iter(by_column.values()))


def has_key(stream: OpenStream, key: str, instance: dg.DagsterInstance) -> bool:
    """Return whether a key is one of the stream's partitions by its present config."""
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        return partitions_def(stream).has_partition_key(key)


def dimensions(stream: OpenStream) -> dict[str, dg.PartitionsDefinition[str]]:
    """Return the dimension of each partition column, by the column's name."""
    return {column.name: _dimension(stream, column) for column in stream.config.columns}


def dynamic_columns(config: Stream) -> list[str]:
    """Return the columns whose values are discovered, not configured."""
    return [name for name, field in config.partitions.items() if field.values is None and field.type not in TIME_TYPES]


def new_dynamic_keys(
    stream: OpenStream, instance: dg.DagsterInstance, partitions: Collection[Partition]
) -> dict[str, list[str]]:
    """Return the keys that these partitions need and Dagster does not have, by the name of the dynamic partitions."""
    missing: dict[str, list[str]] = {}
    for column in dynamic_columns(stream.config):
        name = dynamic_name(stream.name, column)
        keys = {dimension_key(partition.texts()[column]) for partition in partitions}
        if new := sorted(keys - {*instance.get_dynamic_partitions(name)} if keys else ()):
            missing[name] = new
    return missing


def keys_of(definition: dg.PartitionsDefinition[str], instance: dg.DagsterInstance | None) -> list[str]:
    """Return the keys of a dimension now; only dynamic ones need the instance."""
    return list(definition.get_partition_keys(dynamic_partitions_store=instance))


class ValueOrder:
    """The positions of values in Dagster's order of their columns, read from Dagster when a column is first asked for.

    Args:
        stream: of the columns.
        instance: has the keys of dynamic partitions.
        new: further keys by the name of the dynamic partitions, which have the last positions.
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
            keys = keys_of(dimensions(self._stream)[column], self._instance)
            keys += self._new.get(dynamic_name(self._stream.name, column), ())
            self._positions[column] = {key: number for number, key in enumerate(keys)}
        return self._positions[column]


def recent_keys(
    stream: OpenStream, instance: dg.DagsterInstance | None, at: dt.datetime, lookback: int
) -> dict[str, list[str]]:
    """Return the keys of each dimension: of a time those of the newest partitions, of another column all.

    Args:
        stream: of the partitions.
        instance: has the dynamic ones; may be None if there are none.
        at: the moment of the newest partition, with a time zone.
        lookback: the number of partitions before that one.
    """
    windows = recent_texts(stream.config, at, lookback)
    keys: dict[str, list[str]] = {}
    for name, definition in dimensions(stream).items():
        if name not in windows:
            keys[name] = keys_of(definition, instance)
        elif (window := windows[name]) is None:
            keys[name] = []
        else:
            kind = TIME_TYPES[stream.config.partitions[name].type]
            first, last = (kind.number(kind.start(text)) for text in window)
            keys[name] = [dimension_key(kind.text(kind.at(number))) for number in range(first, last + 1)]
    return keys


def dynamic_name(stream: str, column: str) -> str:
    """Return the name of the dynamic partitions that hold the keys of a column without configured values."""
    return f"{stream}_{column}"


def partition_key(partition: Partition) -> str:
    """Return a partition's key; a `dagster.MultiPartitionKey` where it has two columns."""
    return joined_key({name: dimension_key(text) for name, text in partition.texts().items()})


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
    return f"{count(len(partitions), 'partition')}: {', '.join(_span(n, sorted({*t})) for n, t in by_column.items())}"


def _span(name: str, texts: Sequence[str]) -> str:
    first, last = visible_name(texts[0]), visible_name(texts[-1])
    return f"{name}={first}" if len(texts) == 1 else f"{name}={first} to {last} ({len(texts):,} values)"


def joined_key(keys: Mapping[str, str]) -> str:
    """Return the key of a partition whose dimensions have these keys."""
    return dg.MultiPartitionKey(keys) if len(keys) > 1 else next(iter(keys.values()))


def partition_of(columns: Sequence[PartitionColumn], key: str) -> Partition:
    """Return the partition that a key names.

    Args:
        columns: the stream's partition columns.
        key: of Dagster.

    Raises:
        PartitionError: a value is not of its column's type, or is not written as by `partition_key`: the partition
            would have two keys.
    """
    names = sorted(column.name for column in columns)
    texts = key.split(_JOINT)
    if len(texts) != len(names):
        raise PartitionError(
            f"partition key {key!r} has {len(texts)} values, and the partition columns are {', '.join(names)}:",
            f"write one value for each, joined by {_JOINT} (a {_JOINT} inside a value as %7C).",
        )
    texts = ["" if text == EMPTY else text for text in texts]
    partition = Partition.of(columns, dict(zip(names, texts, strict=True)))
    canonical = partition_key(partition)
    if key != canonical:
        raise PartitionError(
            f"partition key {key!r} is not written as in a path:", f"use the key {canonical!r} instead."
        )
    return partition


def dimension_key(text: str) -> str:
    """Return the key of a value, by its text in a path; `EMPTY` for an empty one, which Dagster forbids."""
    if text in {"", EMPTY}:
        return "%5F_EMPTY__" if text else EMPTY
    for forbidden, encoded in _FORBIDDEN.items():
        text = text.replace(forbidden, encoded)
    return text


def _dimension(stream: OpenStream, column: PartitionColumn) -> dg.PartitionsDefinition[str]:
    field = stream.config.partitions[column.name]
    if column.type in TIME_TYPES:
        return _times(column, field, stream.config.time_zone)
    if field.values is None:
        return dg.DynamicPartitionsDefinition(name=dynamic_name(stream.name, column.name))
    values = configured_values(column, field.values)
    return dg.StaticPartitionsDefinition([dimension_key(column.text(value)) for value in values])


def _times(column: PartitionColumn, field: PartitionField, time_zone: str) -> dg.PartitionsDefinition[str]:
    assert field.start is not None  # noqa: S101 - the config requires it of a time
    kind = TIME_TYPES[column.type]
    # 9999-12-31, which often means "never", has no next day.
    last = field.end if field.end is not None and field.end < dt.date.max else None
    return dg.TimeWindowPartitionsDefinition(
        start=kind.at(kind.number(dt.datetime.combine(field.start, dt.time.min))),
        # Dagster's end is exclusive.
        end=kind.at(kind.number(dt.datetime.combine(last, dt.time.max)) + 1) if last else None,
        fmt=kind.form,
        cron_schedule=_CRONS[kind.name],
        timezone=zone_of(kind.name, time_zone),
        end_offset=1,  # today is a partition too; without it Dagster has a day only when it is over
    )
