"""The values of partition columns in the rows of which the config has none: those that landed objects have."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.config.streams import Stream
from lake_assets.errors import SourceError
from lake_assets.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.layout.times import TIME_TYPES
from lake_assets.parquet.casts import cast
from lake_assets.parquet.column_rules import SOME_COLUMNS
from lake_assets.parquet.declared import Declared
from lake_assets.parquet.job import Job
from lake_assets.parquet.landed import Landed
from lake_assets.parquet.landed_rows import Share
from lake_assets.parquet.leaves import decoded
from lake_assets.parquet.partition_values import typed_value
from lake_assets.parquet.read import FOOTERS
from lake_assets.parquet.row_groups import Span
from lake_assets.parquet.shares import WHOLE, Reader
from lake_assets.progress import counted
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.streams.holdings import Holdings

_REMEMBERED = 65_536  # objects
MOST_VALUES = 10_000  # of one object

_KINDS = {"integer": int, "string": str}

_Values = dict[PartitionColumn, set[PartitionValue]]


class RowValues:
    """Finds these values: by the statistics of an object, or by its column, which is read once for each version."""

    def __init__(self, config: Stream, landed: Landed, holdings: Holdings) -> None:
        self._columns: Mapping[PartitionColumn, str] = {
            column: (config.partitions[column.name].source or column.name).lower()
            for column in config.columns
            if column.in_rows and column.type not in TIME_TYPES and config.partitions[column.name].values is None
        }
        self._landed = Landed(landed.storage, landed.form, declared=Declared(rules=SOME_COLUMNS))
        self._holdings = holdings
        self._of_object = lru_cache(_REMEMBERED)(self._read)

    def of(self, landed: Manifest) -> _Values:
        """Return the values that some objects have of each such column.

        Too many, or none because of an object that cannot be read, are a SourceError.
        """
        found: _Values = {column: set() for column in self._columns}
        if not found:
            return found
        unproved = []
        for obj, boxes in self._holdings.boxes(landed):
            known = [self._proved(box) for box in boxes]
            if None in known:
                unproved.append(obj)
            for of_box in filter(None, known):
                for column, values in of_box.items():
                    found[column] |= values
        failed: SourceError | None = None
        with ThreadPoolExecutor(FOOTERS) as pool:
            for read in counted(pool.map(self._of_object, unproved), "read values", "objects", len(unproved)):
                if isinstance(read, SourceError):
                    failed = read  # a run of any partition reports it
                    continue
                for column, values in read.items():
                    found[column] |= values
        if failed is not None and not any(found.values()):
            raise failed
        return found

    def _proved(self, box: Mapping[str, Span]) -> _Values | None:
        """Return the values in some row groups; None if their statistics do not have them all."""
        spans = {column: box[column.name] for column in self._columns}
        if not all(span.least == span.greatest and type(span.least) is _KINDS[c.type] for c, span in spans.items()):
            return None
        return {column: {span.least, *([None] if span.has_null else [])} for column, span in spans.items()}

    def _read(self, obj: LandedObject) -> _Values | SourceError:
        """Read the values of an object; returns the error if the object cannot be read. Too many are a SourceError."""
        found: _Values = {column: set() for column in self._columns}
        try:
            for batch in self._batches(obj):
                for column, name in self._columns.items():
                    values = pc.unique(decoded(batch.column(name)))
                    found[column].update(cast(values, typed_value(column, None).type).to_pylist())
                if max(map(len, found.values())) > MOST_VALUES:
                    break
        except SourceError as error:
            return error
        except pa.ArrowInvalid as error:
            why = f"{self._landed.origin(obj.key)} has a value that is not of the partition column's type: {error}:"
            return SourceError(why, "correct the value, or the type in the config.")
        for column, values in found.items():
            if len(values) > MOST_VALUES:
                raise SourceError(
                    f"{self._landed.origin(obj.key)} has over {MOST_VALUES:,} values of {column.name}, and each is a "
                    "partition:",
                    f"give the `values` of {column.name} in the config, or choose another partition column.",
                )
        return found

    def _batches(self, obj: LandedObject) -> Iterator[pa.RecordBatch]:
        types = {name: typed_value(column, None).type for column, name in self._columns.items()}
        if self._landed.has_types:
            _, of_object = self._landed.footer(obj.key)
            types |= {field.name.lower(): field.type for field in of_object if field.name.lower() in types}
        schema = pa.schema(list(types.items()))
        # Of a larger object only these columns are fetched.
        size = max(obj.size, WHOLE + 1) if self._landed.counts_rows else obj.size
        job = Job("", self._landed, self._landed.storage, schema, "none", 1, ())
        yield from Reader(job, schema).read([Share(obj.key, obj.etag, size)], Partition((), ()))
