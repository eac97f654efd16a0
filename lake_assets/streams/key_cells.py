"""Cells: the partitions that share one key in Dagster, which holds some 100,000 keys of an asset, in two dimensions.

A cell is a `Partition` too, of other columns. A time with `keys` is in it as the longer time that contains it. Of
more than two columns, the first time is one column of a cell, and all others are joined to one (`JointColumn`). A
stream without partition columns has one cell, which is the joint column of none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product

from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.config.layout.partition import WHOLE, Partition, PartitionColumn, PartitionValue
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.config.partitions import DIMENSIONS
from lake_assets.config.streams import StreamConfig
from lake_assets.streams.calendar import Calendar, TimeSpan

_REMEMBERED = 65_536  # values of all columns
_JOINT = "/"  # paths encode it in values, and names of columns do not have it


@dataclass(frozen=True, slots=True)
class JointColumn(PartitionColumn):
    """Several columns as one: names and values are joined by slashes, values as a path has them: `NW/shop%201`."""

    parts: tuple[PartitionColumn, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[PartitionColumn]) -> "JointColumn":
        """Return the column of these."""
        return cls(_JOINT.join(part.name for part in parts) or "partition", "string", parts=tuple(parts))

    def values(self, text: str) -> tuple[PartitionValue, ...]:
        """Return the value of each part."""
        if text == WHOLE and not self.parts:
            return ()
        names, texts = [part.name for part in self.parts], text.split(_JOINT)
        keyed = dict(zip(names, texts, strict=False)) if len(texts) <= len(names) else {text: text}
        return Partition.of(self.parts, keyed).values

    @lru_cache(_REMEMBERED)  # noqa: B019 - as of the class above
    def parse(self, text: str) -> PartitionValue:
        """Return the joined text as `text` returns it."""
        return _JOINT.join(part.text(value) for part, value in zip(self.parts, self.values(text), strict=True)) or WHOLE

    @lru_cache(_REMEMBERED)  # noqa: B019
    def text(self, value: PartitionValue) -> str:
        """Return the value, which is the text."""
        return str(value)


class Cells:
    """The cells of a stream."""

    def __init__(self, stream: StreamConfig) -> None:
        self._stream = stream
        self._shown: dict[str, PartitionColumn] = {}  # the column of a cell by the name of the stream's
        columns = stream.partition_columns
        time = next((column for column in columns if column.type in TIME_TYPES), None)
        others = [column for column in columns if column is not time]
        joint = JointColumn.of(others) if len(columns) > DIMENSIONS or not columns else None
        for column in columns:
            keys = stream.partitions[column.name].keys
            alone = column if keys is None else replace(column, type=keys)
            self._shown[column.name] = alone if joint is None or column is time else joint
        shown = dict.fromkeys([*self._shown.values(), *([] if joint is None else [joint])])
        self.columns: tuple[PartitionColumn, ...] = tuple(shown)  # of each cell, at most two
        self._is_same = self.columns == columns
        # Whether each cell is one partition
        self.are_partitions = not any(field.keys for field in stream.partitions.values())
        self.noun = "partition" if self.are_partitions else "key"  # what a cell is, in texts for people

    def of(self, partition: Partition) -> Partition:
        """Return the cell of a partition."""
        if self._is_same:
            return partition
        texts: dict[str, str] = {} if partition.columns else {self.columns[0].name: WHOLE}
        for name, text in partition.texts().items():
            shown = self._shown[name]
            if isinstance(shown, JointColumn):
                texts[shown.name] = _JOINT.join([*([texts[shown.name]] if shown.name in texts else []), text])
            elif shown.type in TIME_TYPES and text != HIVE_NULL:
                start = TIME_TYPES[self._stream.partitions[name].type].start(text)
                texts[shown.name] = TIME_TYPES[shown.type].text(start)
            else:
                texts[shown.name] = text
        return Partition.of(self.columns, texts)

    def partitions(self, cell: Partition) -> list[Partition]:
        """Return the partitions of a cell, in order; of a joined time those of the config, by now."""
        if self._is_same:
            return [cell]
        choices: dict[str, list[PartitionValue]] = {}
        for shown, value in zip(cell.columns, cell.values, strict=True):
            if isinstance(shown, JointColumn):
                parts = zip(shown.parts, shown.values(str(value)), strict=True)
                choices |= {part.name: [of_part] for part, of_part in parts}
            else:
                choices[shown.name] = self._times(shown, value)
        columns = self._stream.partition_columns
        return [Partition(columns, values) for values in product(*(choices[column.name] for column in columns))]

    def _times(self, shown: PartitionColumn, value: PartitionValue) -> list[PartitionValue]:
        column = next(column for column in self._stream.partition_columns if column.name == shown.name)
        if value is None or shown.type == column.type:
            return [value]
        kind, of_keys, span = TIME_TYPES[column.type], TIME_TYPES[shown.type], self._spans[shown.name]
        first, last = kind.within(of_keys, of_keys.start(value))
        ends = (max(first, span.first), min(last, span.last))
        begin, end = (kind.number(kind.start(text)) for text in ends)
        return [column.parse(kind.text(kind.at(number))) for number in range(begin, end + 1)]

    @cached_property
    def _spans(self) -> Mapping[str, TimeSpan]:
        return Calendar(self._stream).spans
