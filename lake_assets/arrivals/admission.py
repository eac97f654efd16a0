"""Which partition an object belongs to, or why it belongs to none that Dagster has."""

import datetime as dt
from collections.abc import Iterable
from zoneinfo import ZoneInfo

from lake_assets.config.streams import PartitionField, Stream
from lake_assets.errors import FuturePartitionError, LakeAssetsError, LayoutError, PartitionError
from lake_assets.partition import TIME_FORMATS, Partition, PartitionColumn


class Admission:
    """Tells the partitions of keys, for one look.

    Args:
        stream: whose layout and partition columns they are.
        now: with time zone; a partition of the time that has not come is none yet.
    """

    def __init__(self, stream: Stream, now: dt.datetime) -> None:
        self._stream = stream
        self._template = stream.template
        self._columns = stream.columns
        self._now = now
        self._known: dict[str, Partition | LakeAssetsError] = {}

    def of(self, key: str) -> Partition:
        """The partition of an object.

        Raises:
            LayoutError: its key is not one of the layout.
            PartitionError: it is, and its values are those of no partition of the stream.
        """
        folder = key.rpartition("/")[0]
        if folder not in self._known:
            try:
                self._known[folder] = self._partition(key)
            except LakeAssetsError as error:
                self._known[folder] = error
        found = self._known[folder]
        if isinstance(found, LakeAssetsError):
            raise found
        return found

    def parse(self, paths: Iterable[str]) -> list[Partition]:
        """The partitions with these paths, as `Partition.path` writes them."""
        found = []
        for path in paths:
            texts = dict(part.split("=", 1) for part in path.split("/"))
            found.append(Partition.of(self._columns, texts))
        return found

    def _partition(self, key: str) -> Partition:
        texts = self._template.match(key, file=True)
        if texts is None:
            raise LayoutError(
                f"the path is not of the layout {self._template.text!r}:", "move the object, or correct `layout`."
            )
        partition = Partition.of(self._columns, {column.name: texts[column.name] for column in self._columns})
        for column, value in zip(self._columns, partition.values, strict=True):
            self._check(column, self._stream.partitions[column.name], column.text(value), is_null=value is None)
        prefix = self._template.prefix(partition.texts())
        if not key.startswith(prefix):
            # 07 is 7, and %2f is %2F; but a run lists one folder, the one that it would write itself.
            raise PartitionError(
                f"the path is of partition {partition}, written otherwise than its folder {prefix}:",
                "move the object there.",
            )
        return partition

    def _check(self, column: PartitionColumn, field: PartitionField, text: str, *, is_null: bool) -> None:
        if column.type in TIME_FORMATS:
            if is_null:
                raise PartitionError(
                    f"partition value {column.name} is NULL, and a time without a value is in no window of Dagster's:",
                    "ingest it by `lake-assets ingest`.",
                )
            self._check_time(column, field, text)
        elif field.values is not None and text not in {column.text(column.parse(value)) for value in field.values}:
            raise PartitionError(
                f"partition value {column.name}={text} is none of `values`:",
                "add it there, or leave `values` out so that new ones are found.",
            )

    def _check_time(self, column: PartitionColumn, field: PartitionField, text: str) -> None:
        zone = dt.UTC if column.type == "hour" else ZoneInfo(self._stream.time_zone)
        now = self._now.astimezone(zone)
        if text > _text(now, column):
            raise FuturePartitionError(
                f"partition value {column.name}={text} lies in the future:", "it is ingested when its time has come."
            )
        assert field.start is not None  # noqa: S101 - the config requires it of a time
        if text < _text(dt.datetime.combine(field.start, dt.time.min), column):
            raise PartitionError(
                f"partition value {column.name}={text} lies before start {field.start}:", "move `start` back."
            )
        if field.end is not None and text > _text(dt.datetime.combine(field.end, dt.time.max), column):
            raise PartitionError(
                f"partition value {column.name}={text} lies after end {field.end}:", "move `end`, or leave it out."
            )


def _text(time: dt.datetime, column: PartitionColumn) -> str:
    """As a path has it; these texts sort as times do."""
    return time.strftime(TIME_FORMATS[column.type].replace("%Y", f"{time.year:04}"))
