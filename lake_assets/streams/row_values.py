"""The values of partition columns in the rows of which the config has none: those that landed objects have."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.base.errors import (
    SourceChangedError,
    SourceError,
    StorageError,
    StorageUnreachableError,
    WholeStorageError,
)
from lake_assets.base.events import counted
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.config.secrets import masking
from lake_assets.config.streams import StreamConfig
from lake_assets.schema.arrow_types import dictionary_decoded
from lake_assets.schema.casts import cast
from lake_assets.schema.column_rules import SOME_COLUMNS
from lake_assets.schema.partition_values import Box, ValueSpan, day_of, days_of, merged_boxes, typed_value
from lake_assets.spark.task.job import Job
from lake_assets.spark.task.share_reader import SMALL_OBJECT, ShareReader
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import Share
from lake_assets.storage.formats.parquet_files import read_spans, readable_object
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.storage.object_files import RangeFile
from lake_assets.storage.overlapping import requested
from lake_assets.storage.store import Store

_REMEMBERED_SPANS = 262_144  # objects
_BOXES = 32  # of one object

_RowKey = tuple[Any, ...]
"""The values of a partition in the columns that select rows, such as they are compared with a `Box`."""


class Holdings:
    """Finds the objects that may hold rows of a partition, by their footers. Each version of an object is read once.

    An object may hold rows of every partition if it is not Parquet, if its footer cannot be read, if it lacks the
    column, or if it is another one than in the listing. The run that reads it reports what is wrong.
    """

    def __init__(self, config: StreamConfig) -> None:
        self._store = Store(config.source)
        self._has_statistics = config.format.has_statistics
        self._known: OrderedDict[str, tuple[str, tuple[Box, ...]]] = OrderedDict()  # ETag and boxes, by key
        self._lock = Lock()
        derived = {source.name: source for source in config.derived}
        self._columns = [
            (index, column, derived.get(column.name))
            for index, column in enumerate(config.partition_columns)
            if column.in_rows
        ]
        self._names = [(source.column if source else column.name).lower() for _, column, source in self._columns]
        self._unknown: tuple[Box, ...] = ((ValueSpan(),) * len(self._columns),)

    def of(self, landed: Manifest, partitions: Iterable[Partition]) -> dict[Partition, Manifest]:
        """Return for each of some partitions those of the landed objects that may hold rows of it."""
        keys = {partition: self._key(partition) for partition in partitions}
        if not keys:
            return {}
        holding: dict[_RowKey, list[LandedObject]] = {key: [] for key in keys.values()}
        by_first: dict[Any, list[_RowKey]] = {}
        for key in holding:
            by_first.setdefault(key[0], []).append(key)
        values = sorted(by_first.keys() - {None})
        for obj, boxes in self._boxes(landed.objects):
            for key in {key for box in boxes for key in _keys_in(box, by_first, values)}:
                holding[key].append(obj)
        manifests = {key: Manifest(tuple(objects), folder=landed) for key, objects in holding.items()}
        return {partition: manifests[key] for partition, key in keys.items()}

    def boxes(self, landed: Manifest) -> Iterator[tuple[LandedObject, list[dict[str, ValueSpan]]]]:
        """Yield each of some objects with the values that it may have, by the names of the partition columns."""
        names = [column.name for _, column, _ in self._columns]
        for obj, boxes in self._boxes(landed.objects):
            yield obj, [dict(zip(names, box, strict=True)) for box in boxes]

    def _key(self, partition: Partition) -> _RowKey:
        values = ((column, source, partition.values[index]) for index, column, source in self._columns)
        return tuple(day_of(c, value) if source and not source.is_whole else value for c, source, value in values)

    def _boxes(self, objects: Sequence[LandedObject]) -> Iterator[tuple[LandedObject, tuple[Box, ...]]]:
        """Yield what each object holds, in their order."""
        known: dict[str, tuple[Box, ...]] = {}
        with self._lock:
            for obj in objects:
                etag, boxes = self._known.get(obj.key, (None, ()))
                if etag == obj.etag:
                    self._known.move_to_end(obj.key)
                    known[obj.key] = boxes
        if new := [obj for obj in objects if obj.key not in known]:
            read = counted(requested(self._store.storage, self._read, new), "read statistics", "footers", len(new))
            known |= {obj.key: boxes for obj, boxes in zip(new, read, strict=True)}
        return ((obj, known[obj.key]) for obj in objects)

    def _read(self, landed: LandedObject) -> tuple[Box, ...]:
        """Return what an object holds; it is remembered if it is of the listed version."""
        try:
            boxes = merged_boxes(self._spans(landed), _BOXES)
        except (StorageUnreachableError, WholeStorageError):
            raise
        except (SourceChangedError, StorageError):
            return self._unknown
        except SourceError:
            boxes = self._unknown
        with self._lock:
            self._known[landed.key] = landed.etag, boxes
            self._known.move_to_end(landed.key)
            if len(self._known) > _REMEMBERED_SPANS:
                self._known.popitem(last=False)
        return boxes

    def _spans(self, landed: LandedObject) -> Iterable[Box]:
        """Read the values in each row group of an object."""
        if not landed.size or not self._has_statistics:
            return self._unknown
        storage = self._store.storage
        with masking(storage), readable_object(storage, landed.uri), self._open(landed) as file:
            boxes = read_spans(file, self._names)
        if not storage.is_listable and [now.etag for now in self._store.list(files=landed.key)] != [landed.etag]:
            raise self._store.changed(landed.key)
        return self._unknown if boxes is None else {tuple(map(self._as_keys, self._columns, box)) for box in boxes}

    def _open(self, landed: LandedObject) -> pa.NativeFile:
        store, key, etag = self._store, landed.key, landed.etag
        if not store.storage.is_listable:
            return store.open(key)
        # Each request has the condition that the object is that of the listing.
        return pa.PythonFile(RangeFile(landed.size, lambda s, e: store.get_range(key, etag, s, e).to_bytes()), "r")

    @staticmethod
    def _as_keys(selecting: tuple[int, Any, Any], span: ValueSpan) -> ValueSpan:
        _, column, source = selecting
        return span if source is None or source.is_whole else days_of(source, column, span)


def _keys_in(box: Box, by_first: Mapping[Any, Sequence[_RowKey]], values: Sequence[Any]) -> Iterator[_RowKey]:
    """Yield the keys in a box, given those of each first value, and these values sorted, without NULL."""
    span, *others = box
    first, last = 0, len(values)
    if values and type(values[0]) is type(span.least):
        first, last = bisect_left(values, span.least), bisect_right(values, span.greatest)
    for value in (*values[first:last], *([None] if span.has_null else [])):
        yield from (key for key in by_first.get(value, ()) if all(map(ValueSpan.may_hold, others, key[1:])))


_REMEMBERED = 65_536  # objects
MOST_VALUES = 10_000  # of one object

_KINDS = {"integer": int, "string": str}

_Values = dict[PartitionColumn, set[PartitionValue]]


class RowValues:
    """Finds the values of discovered partition columns in rows: by the statistics of an object, or in its column.

    The column is read once for each version of an object.
    """

    def __init__(self, config: StreamConfig, landed: LandingZone, holdings: Holdings) -> None:
        self._columns: Mapping[PartitionColumn, str] = {
            column: (config.partitions[column.name].source or column.name).lower()
            for column in config.partition_columns
            if column.in_rows and column.type not in TIME_TYPES and config.partitions[column.name].values is None
        }
        self._landed = LandingZone(landed.storage, landed.form, rules=SOME_COLUMNS)
        self._holdings = holdings
        self._of_object = lru_cache(_REMEMBERED)(self._read)

    def of(self, landed: Manifest) -> _Values:
        """Return the values that some objects have of each such column.

        Too many, or none because of an object that cannot be read, are a SourceError.
        """
        of_columns: _Values = {column: set() for column in self._columns}
        if not of_columns:
            return of_columns
        unproved = []
        for obj, boxes in self._holdings.boxes(landed):
            known = [self._proved(box) for box in boxes]
            if None in known:
                unproved.append(obj)
            for of_box in filter(None, known):
                for column, values in of_box.items():
                    of_columns[column] |= values
        failed: SourceError | None = None
        values_of = requested(self._landed.storage, self._of_object, unproved)
        for read in counted(values_of, "read values", "objects", len(unproved)):
            if isinstance(read, SourceError):
                failed = read  # a run of any partition reports it
                continue
            for column, values in read.items():
                of_columns[column] |= values
        if failed is not None and not any(of_columns.values()):
            raise failed
        return of_columns

    def _proved(self, box: Mapping[str, ValueSpan]) -> _Values | None:
        """Return the values in some row groups; None if their statistics do not have them all."""
        spans = {column: box[column.name] for column in self._columns}
        if not all(span.least == span.greatest and type(span.least) is _KINDS[c.type] for c, span in spans.items()):
            return None
        return {column: {span.least, *([None] if span.has_null else [])} for column, span in spans.items()}

    def _read(self, obj: LandedObject) -> _Values | SourceError:
        """Read the values of an object; returns the error if the object cannot be read. Too many are a SourceError."""
        of_columns: _Values = {column: set() for column in self._columns}
        try:
            for batch in self._batches(obj):
                for column, name in self._columns.items():
                    values = pc.unique(dictionary_decoded(batch.column(name)))
                    of_columns[column].update(cast(values, typed_value(column, None).type).to_pylist())
                if max(map(len, of_columns.values())) > MOST_VALUES:
                    break
        except SourceError as error:
            return error
        except pa.ArrowInvalid as error:
            why = f"{self._landed.origin(obj.key)} has a value that is not of the partition column's type: {error}:"
            return SourceError(why, "correct the value, or the type in the config.")
        for column, values in of_columns.items():
            if len(values) > MOST_VALUES:
                raise SourceError(
                    f"{self._landed.origin(obj.key)} has over {MOST_VALUES:,} values of {column.name}, and each is a "
                    "partition:",
                    f"give the `values` of {column.name} in the config, or choose another partition column.",
                )
        return of_columns

    def _batches(self, obj: LandedObject) -> Iterator[pa.RecordBatch]:
        types = {name: typed_value(column, None).type for column, name in self._columns.items()}
        if self._landed.form.has_types:
            _, of_object = self._landed.footer(obj.key)
            types |= {field.name.lower(): field.type for field in of_object if field.name.lower() in types}
        schema = pa.schema(list(types.items()))
        # Of a larger object only these columns are fetched.
        size = max(obj.size, SMALL_OBJECT + 1) if self._landed.form.counts_rows else obj.size
        job = Job("", self._landed, self._landed.storage, schema, "none", 1, ())
        yield from ShareReader(job, schema).read([Share(replace(obj, size=size))], Partition((), ()))
