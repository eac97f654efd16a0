"""The landed objects that may hold rows of a partition, if a partition column is in the rows."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import pyarrow as pa

from lake_assets.config.formats import ParquetFormat
from lake_assets.config.secrets import masking
from lake_assets.config.storages import WebStorage
from lake_assets.config.streams import Stream
from lake_assets.errors import (
    SourceChangedError,
    SourceError,
    StorageError,
    StorageUnreachableError,
    WholeStorageError,
)
from lake_assets.layout.partition import Partition
from lake_assets.parquet.derived_columns import day_of, days_of
from lake_assets.parquet.read import FOOTERS, read_spans, readable
from lake_assets.parquet.row_groups import Box, Span, merged
from lake_assets.progress import counted
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.storage.store import Store
from lake_assets.storage.web import RangeFile

_REMEMBERED = 262_144  # objects
_BOXES = 32  # of one object

Key = tuple[Any, ...]
"""The values of a partition in the columns that select rows, such as they are compared with a `Box`."""


class Holdings:
    """Finds these objects by the statistics in their footers. Each version of an object is read once.

    An object may hold rows of every partition if it is not Parquet, if its footer cannot be read, if it lacks the
    column, or if it is another one than in the listing. The run that reads it reports what is wrong.
    """

    def __init__(self, config: Stream) -> None:
        self._store = Store(config.source)
        self._has_statistics = isinstance(config.format, ParquetFormat)
        self._known: OrderedDict[str, tuple[str, tuple[Box, ...]]] = OrderedDict()  # ETag and boxes, by key
        self._lock = Lock()
        derived = {source.name: source for source in config.derived}
        self._columns = [
            (index, column, derived.get(column.name)) for index, column in enumerate(config.columns) if column.in_rows
        ]
        self._names = [(source.column if source else column.name).lower() for _, column, source in self._columns]
        self._unknown: tuple[Box, ...] = ((Span(),) * len(self._columns),)

    def of(self, landed: Manifest, partitions: Iterable[Partition]) -> dict[Partition, Manifest]:
        """Return for each of some partitions those of the landed objects that may hold rows of it."""
        keys = {partition: self._key(partition) for partition in partitions}
        if not keys:
            return {}
        holding: dict[Key, list[LandedObject]] = {key: [] for key in keys.values()}
        by_first: dict[Any, list[Key]] = {}
        for key in holding:
            by_first.setdefault(key[0], []).append(key)
        values = sorted(by_first.keys() - {None})
        for obj, boxes in self._boxes(landed.objects):
            for key in {key for box in boxes for key in _in(box, by_first, values)}:
                holding[key].append(obj)
        manifests = {key: Manifest(tuple(objects), folder=landed) for key, objects in holding.items()}
        return {partition: manifests[key] for partition, key in keys.items()}

    def boxes(self, landed: Manifest) -> Iterator[tuple[LandedObject, list[dict[str, Span]]]]:
        """Yield each of some objects with the values that it may have, by the names of the partition columns."""
        names = [column.name for _, column, _ in self._columns]
        for obj, boxes in self._boxes(landed.objects):
            yield obj, [dict(zip(names, box, strict=True)) for box in boxes]

    def _key(self, partition: Partition) -> Key:
        values = ((column, source, partition.values[index]) for index, column, source in self._columns)
        return tuple(day_of(c, value) if source and not source.is_whole else value for c, source, value in values)

    def _boxes(self, objects: Sequence[LandedObject]) -> Iterator[tuple[LandedObject, tuple[Box, ...]]]:
        """Yield what each object holds, in their order."""
        found: dict[str, tuple[Box, ...]] = {}
        with self._lock:
            for obj in objects:
                etag, boxes = self._known.get(obj.key, (None, ()))
                if etag == obj.etag:
                    self._known.move_to_end(obj.key)
                    found[obj.key] = boxes
        if new := [obj for obj in objects if obj.key not in found]:
            with ThreadPoolExecutor(FOOTERS) as pool:
                read = counted(pool.map(self._read, new), "read statistics", "footers", len(new))
                found |= {obj.key: boxes for obj, boxes in zip(new, read, strict=True)}
        return ((obj, found[obj.key]) for obj in objects)

    def _read(self, landed: LandedObject) -> tuple[Box, ...]:
        """Return what an object holds; it is remembered if it is of the listed version."""
        try:
            boxes = merged(self._spans(landed), _BOXES)
        except (StorageUnreachableError, WholeStorageError):
            raise
        except (SourceChangedError, StorageError):
            return self._unknown
        except SourceError:
            boxes = self._unknown
        with self._lock:
            self._known[landed.key] = landed.etag, boxes
            self._known.move_to_end(landed.key)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return boxes

    def _spans(self, landed: LandedObject) -> Iterable[Box]:
        """Read the values in each row group of an object."""
        if not landed.size or not self._has_statistics:
            return self._unknown
        storage = self._store.storage
        with masking(storage), readable(storage, landed.uri), self._open(landed) as file:
            boxes = read_spans(file, self._names)
        if isinstance(storage, WebStorage) and [now.etag for now in self._store.list(files=landed.key)] != [
            landed.etag
        ]:
            raise self._store.changed(landed.key)
        return self._unknown if boxes is None else {tuple(map(self._as_keys, self._columns, box)) for box in boxes}

    def _open(self, landed: LandedObject) -> pa.NativeFile:
        store, key, etag = self._store, landed.key, landed.etag
        if isinstance(store.storage, WebStorage):
            return ArrowStore(store.storage).open(key)
        # Each request has the condition that the object is that of the listing.
        return pa.PythonFile(RangeFile(landed.size, lambda s, e: store.get_range(key, etag, s, e).to_bytes()), "r")

    @staticmethod
    def _as_keys(selecting: tuple[int, Any, Any], span: Span) -> Span:
        _, column, source = selecting
        return span if source is None or source.is_whole else days_of(source, column, span)


def _in(box: Box, by_first: Mapping[Any, Sequence[Key]], values: Sequence[Any]) -> Iterator[Key]:
    """Yield the keys in a box, given those of each first value, and these values sorted, without NULL."""
    span, *others = box
    first, last = 0, len(values)
    if values and type(values[0]) is type(span.least):
        first, last = bisect_left(values, span.least), bisect_right(values, span.greatest)
    for value in (*values[first:last], *([None] if span.has_null else [])):
        yield from (key for key in by_first.get(value, ()) if all(map(Span.may_hold, others, key[1:])))
