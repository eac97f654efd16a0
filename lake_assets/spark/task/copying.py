"""Whether a landed Parquet file can be a data file of the table as it is: readers get the rows that a rewrite gives.

The footer says most of it. What it cannot prove is read: columns of floating-point numbers, because the statistics of
most writers ignore NaN and readers would skip such rows; and columns whose statistics are absent, where they decide.
A file that does not fit is left to the job that encodes, which tells what is wrong with it, or adapts it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as t

from lake_assets.base.errors import SchemaError
from lake_assets.config.layout.partition import Partition
from lake_assets.config.secrets import masking
from lake_assets.schema.annotations import has_map
from lake_assets.schema.arrow_types import (
    dictionary_decoded,
    exceeded_in,
    has_infinity,
    has_limits,
    is_text,
    leaf_count,
    leaf_types,
    leaves,
    without_dictionary,
)
from lake_assets.schema.column_rules import REGISTERED
from lake_assets.schema.fitter import Fitter, Target
from lake_assets.schema.misfits import widens
from lake_assets.schema.partition_values import has_ordered_bounds, has_whole_texts, has_wrong_counts, is_other
from lake_assets.spark.task.job import DataFile, Job, discard, discard_unfinished
from lake_assets.spark.task.share_reader import FETCH_AHEAD, digest_of_file
from lake_assets.spark.task.work import Bin, Refusal, TaskReport, encode, reported
from lake_assets.spark.task.write import parquet_schema
from lake_assets.storage.formats import parquet_footers
from lake_assets.storage.formats.parquet_files import TAIL, ParquetRows, readable_object
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.object_files import RangeFile
from lake_assets.storage.store import Store

_CODECS = {"none": "UNCOMPRESSED", "zstd": "ZSTD", "snappy": "SNAPPY", "gzip": "GZIP"}
# LZ4 has two forms: DuckDB reads the one that it calls LZ4_RAW, and Arrow LZ4. The latter is not copied, because other
# readers mean the older form by this name.
_READ_CODECS = {*_CODECS.values(), "BROTLI", "LZ4_RAW"}
_READ_ENCODINGS = {
    *("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"),
    *("DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
}
_CODEC_BYTES = [bytes([2 * number]) for number in range(8)]  # UNCOMPRESSED to LZ4_RAW, as Thrift writes an i32
_SPLIT = "BYTE_STREAM_SPLIT"  # Arrow writes it for any type of a fixed width
_KINDS = ("NONE", "INT")  # two ways to say that a column is of plain whole numbers
_GEO = b"geo"  # in the footer: DuckDB then reads some columns of bytes as geometries
_EXACT = {"TIME", "TIMESTAMP"}  # their units, whether they are in UTC, and whether they are in an old form


class UnfitError(Exception):
    """The file cannot be a data file as it is; the text says why."""


class CopyCandidate:
    """A landed file that may become a data file; an UnfitError if by its footer it cannot.

    `footer` are the bytes of its footer, as the end of the file says.
    """

    def __init__(self, rows: ParquetRows, size: int, footer: int, job: Job, partition: Partition) -> None:
        self._rows = rows
        self._job = job
        self._partition = partition
        self._metadata: pq.FileMetaData = rows.parquet.metadata
        self._names = [name for field in rows.schema for name in [field.name] * leaf_count(field.type)]
        for name, problem, _ in rows.misread():
            raise UnfitError(f"column {name!r} {problem}")
        if footer != self._metadata.serialized_size:  # Arrow aborts the process if a column of it is encrypted
            raise UnfitError("its footer is signed, so columns may be encrypted")
        self._check_columns()
        if path := unknown_codec(rows.footer(), [column.path for column in _columns(self._metadata.schema)]):
            raise UnfitError(f"column {path!r} is compressed by a codec that Parquet does not have")
        self._check_form(size - TAIL - footer)
        # The columns that the footer proves too little about
        self.unproved = {name for name in rows.schema.names if not self._is_proved(name)}

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._rows.count

    def check_values(self, *, reads_pages: bool) -> None:
        """Read the columns that the footer proves too little about, or all columns.

        Raises UnfitError if a floating-point column has statistics, and a NaN that they ignore.
        """
        source = self._rows.schema
        if not reads_pages:
            source = pa.schema([field for field in source if field.name in self.unproved])
        if not source.names:
            return
        target = pa.schema([field for field in self._job.schema if field.name in source.names])
        fitter = Fitter(source, Target(target, REGISTERED), self._partition, self._rows.origin)
        names = [*fitter.columns, *fitter.partition_columns]
        for group in range(self._metadata.num_row_groups):
            for batch in self._rows.batches(group, names):
                for name in names:
                    self._refuse_nan(batch.column(name), group, name)
                fitter.fit(batch.select(names))

    def _check_columns(self) -> None:
        """Refuse columns that readers of the table would not find, or would read as another type."""
        source, target = self._rows.schema, self._job.schema
        try:
            fitter = Fitter(source, Target(target, REGISTERED), self._partition, self._rows.origin)
        except SchemaError as error:
            raise UnfitError(error.problem) from error
        for name, column in zip(fitter.columns, target, strict=True):
            given = source.field(name).type
            if name != column.name:
                raise UnfitError(f"it has a column {name!r}, and the table {column.name!r}")
            # DuckDB compares the numbers of a narrower type with conditions in that type, and then misses some.
            if not widens(column.type, without_dictionary(given)):
                raise UnfitError(f"column {name!r} is {given}, and the table's is {column.type}")
        if _GEO in (self._metadata.metadata or {}):
            raise UnfitError("its footer describes geometries")
        leaf_names = [(field.name, leaf) for field in target for leaf in leaf_types(field.type)]
        wanted = _by_path(parquet_schema(target), [name for name, _ in leaf_names])
        # By path: a struct's fields may have another order.
        self._wanted = dict(zip(wanted, (leaf for _, leaf in leaf_names), strict=True))
        given_columns = _by_path(self._metadata.schema, self._names)
        given_columns = {key: column for key, column in given_columns.items() if key[0] in target.names}
        if other := given_columns.keys() ^ wanted.keys():
            raise UnfitError(f"Parquet's column {min(other)[1]!r} is not that of a data file")
        for key, column in given_columns.items():
            _check_kind(column, wanted[key])

    def _check_form(self, end: int) -> None:
        """Refuse codecs that the table's files do not have, and row groups that are not before the footer."""
        assert self._job.copies is not None  # noqa: S101 - the caller copies
        codec = self._job.copies.codec
        allowed = _READ_CODECS if codec is None else {_CODECS[codec]}
        for number, group in enumerate(self._groups()):
            for index in range(group.num_columns if group.num_rows else 0):  # without rows there are no pages
                chunk = group.column(index)
                if chunk.compression not in allowed:
                    raise UnfitError(f"column {chunk.path_in_schema!r} is compressed by {chunk.compression.lower()}")
                if form := unread_form(chunk.physical_type, chunk.compression, chunk.encodings):
                    raise UnfitError(f"column {chunk.path_in_schema!r} is {form}")
                begins = [place for place in (chunk.dictionary_page_offset, chunk.data_page_offset) if place]
                if chunk.file_path or min(begins) < 4 or min(begins) + chunk.total_compressed_size > end:
                    raise UnfitError(f"column {chunk.path_in_schema!r} of row group {number} is not within the file")
        if self._rows.count != self._metadata.num_rows:
            raise UnfitError(f"it has {self._rows.count:,} rows, and its footer says {self._metadata.num_rows:,}")

    def _is_proved(self, name: str) -> bool:
        """Return whether the statistics prove what is required of a column's values.

        Raises UnfitError if the column has not the statistics that a data file has.
        """
        field = self._rows.schema.field(name)
        if self._job.schema.get_field_index(name) < 0:
            return all(self._is_of_partition(name, group) for group in self._groups())
        positions = [position for position, other in enumerate(self._names) if other == name]
        given = dict(zip(positions, leaf_types(field.type), strict=True))
        proofs = [
            _proves(chunk.statistics, chunk.path_in_schema, given[position], self._wanted[name, chunk.path_in_schema])
            for group in self._groups()
            for position in positions
            for chunk in [group.column(position)]
        ]
        if self._job.landed.rules.why_required(name) is not None:
            has_null = any(group.column(positions[0]).statistics.null_count for group in self._groups())
            if has_null or t.is_nested(field.type):
                raise UnfitError(f"column {name!r} may have no value in a row")
        return all(proofs) and not has_map(field.type)

    def _is_of_partition(self, name: str, group: pq.RowGroupMetaData) -> bool:
        """Return whether the statistics prove that a partition column has the partition's value in all rows."""
        pairs = zip(self._partition.columns, self._partition.values, strict=True)
        column, value = next((c, v) for c, v in pairs if c.name.lower() == name.lower())
        statistics = group.column(self._names.index(name)).statistics
        if statistics is None or not statistics.has_null_count or has_wrong_counts(statistics):
            return False
        if value is None:
            return bool(statistics.null_count == group.num_rows)
        if statistics.null_count or not statistics.has_min_max or statistics.min != statistics.max:
            return False
        data_type = self._rows.schema.field(name).type
        try:
            only = pa.array([statistics.min], without_dictionary(data_type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return False
        return not is_other(only, column, value)[0].as_py()

    def _refuse_nan(self, column: pa.Array, group: int, name: str) -> None:
        first = self._names.index(name)
        for number, leaf in enumerate(leaves(column)):
            if not t.is_floating(without_dictionary(leaf.type)):
                continue
            statistics = self._metadata.row_group(group).column(first + number).statistics
            values = dictionary_decoded(leaf)
            if statistics is not None and statistics.has_min_max and pc.any(pc.is_nan(values)).as_py():
                raise UnfitError(f"column {name!r} has a NaN, which its statistics leave out")

    def _groups(self) -> Iterator[pq.RowGroupMetaData]:
        return (self._metadata.row_group(number) for number in range(self._metadata.num_row_groups))


def unknown_codec(footer: bytes, paths: Iterable[str]) -> str | None:
    """Return a column whose codec has no name in Parquet; Arrow 26 ends the process where one asks it for the name.

    In the footer, Thrift's bytes, the codec follows the names of a column chunk's path. Names with a dot are not found.
    """
    by_bytes = {parquet_footers.thrift_texts(path.split(".")): path for path in paths}
    chunks = re.finditer(b"(" + b"|".join(map(re.escape, by_bytes)) + rb")\x15(.)", footer, re.DOTALL)
    return next((by_bytes[chunk[1]] for chunk in chunks if chunk[2] not in _CODEC_BYTES), None)


def unread_form(physical_type: str, codec: str, encodings: Iterable[str]) -> str | None:
    """Return the form of a column chunk that DuckDB 1.5.5 cannot read, in words; None if it can."""
    if codec not in _READ_CODECS:
        return f"compressed by {codec}"
    read = _READ_ENCODINGS | ({_SPLIT} if physical_type in ("FLOAT", "DOUBLE") else set())
    return next((f"{physical_type} encoded by {name}" for name in encodings if name not in read), None)


def _proves(statistics: pq.Statistics | None, path: str, given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether the statistics of a column chunk prove that its values are right.

    Raises UnfitError without such as a data file has.
    """
    if statistics is None or not statistics.has_null_count:
        raise UnfitError(f"column {path!r} has no statistics")
    if has_wrong_counts(statistics):
        raise UnfitError(f"column {path!r} has bounds, and no value beside the NULLs that are counted")
    if statistics.num_values == 0:
        return True
    if not statistics.has_min_max:
        # Long texts have no bounds in data files either, nor have numbers with a NaN.
        if statistics.physical_type in ("BYTE_ARRAY", "FLOAT", "DOUBLE") and not t.is_decimal(
            without_dictionary(given)
        ):
            return True
        raise UnfitError(f"column {path!r} has no least and greatest value")
    if not has_ordered_bounds(statistics):
        raise UnfitError(f"the least value of column {path!r} is greater than its greatest")
    if t.is_floating(without_dictionary(given)):
        return False
    if is_text(wanted):
        return has_whole_texts(statistics)
    if not has_limits(wanted):
        return True
    stored = pa.int32() if wanted.bit_width == 32 else pa.int64()
    bounds = pa.array([statistics.min_raw, statistics.max_raw], stored).view(wanted)
    return exceeded_in(bounds) is None and not has_infinity(bounds)


def _columns(schema: pq.ParquetSchema) -> Sequence[pq.ColumnSchema]:
    return [schema.column(index) for index in range(len(schema))]


def _by_path(schema: pq.ParquetSchema, names: Sequence[str]) -> dict[tuple[str, str], pq.ColumnSchema]:
    """Return columns by the name of the one of Arrow that each is in, and its path, where a dot may be of a name.

    Two with the same are an UnfitError.
    """
    columns = {(name, column.path): column for name, column in zip(names, _columns(schema), strict=True)}
    if len(columns) < len(names):
        raise UnfitError("two of its columns have the same path")
    return columns


def _check_kind(given: pq.ColumnSchema, wanted: pq.ColumnSchema) -> None:
    """Refuse a column that Arrow reads as the wanted type, and other readers may read as another one."""
    kinds = {given.logical_type.type, wanted.logical_type.type}
    text = given.logical_type.to_json()
    is_other = len(kinds) > 1 and not kinds.issubset(_KINDS)
    if is_other or (kinds <= _EXACT and text != wanted.logical_type.to_json()):
        raise UnfitError(
            f"Parquet's column {given.path!r} is {given.logical_type}, and a data file's {wanted.logical_type}"
        )
    # DuckDB reads a decimal of any form by its digits.
    if given.physical_type != wanted.physical_type and kinds != {"DECIMAL"}:
        raise UnfitError(
            f"Parquet's column {given.path!r} is {given.physical_type}, and a data file's {wanted.physical_type}"
        )


_COPIES = 16  # at a time in a task: mostly network latency, or the disk's
_WHOLE = FETCH_AHEAD // _COPIES  # bytes of an object that is fetched by one request


def copy_or_encode(job: Job, bins: Iterable[Bin], threads: int = 1) -> Iterator[TaskReport]:
    """Copy the objects of the bins that say so, and rewrite the rows of the others; arguments as of `encode`."""
    copied: list[Bin] = []

    def others() -> Iterator[Bin]:
        for item in bins:
            if item.copies:
                copied.append(item)
            else:
                yield item

    yield from encode(job, others(), threads)
    for item in copied:
        notes = _Notes()
        yield from reported(item.index, _files(job, item, notes))
        if notes.rows:
            yield TaskReport(item.index, rows=notes.rows, digests=notes.digests)
        yield from (TaskReport(item.index, refusal=refusal) for refusal in notes.refusals)


@dataclass
class _Notes:
    """What is known of the objects of a bin."""

    refusals: list[Refusal] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)  # by key
    digests: dict[str, str] = field(default_factory=dict)  # by key


def _files(job: Job, item: Bin, notes: _Notes) -> Iterator[DataFile]:
    """Yield the copies of a bin's objects, and note their rows; an object without rows needs none."""
    with ThreadPoolExecutor(_COPIES) as pool:
        futures = [pool.submit(_copy, job, item, share.landed) for share in item.shares]
        try:
            for future, share in zip(futures, item.shares, strict=True):
                result = future.result()
                if isinstance(result, Refusal):
                    notes.refusals.append(result)
                    continue
                notes.rows[share.landed.key] = 0 if result is None else result.rows
                notes.digests |= digest_of_file(job, share)
                if result is not None:
                    yield result
        except BaseException:
            pool.shutdown(cancel_futures=True)
            done = [future.result() for future in futures if not future.cancelled() and future.exception() is None]
            discard(job.storage, [result.uri for result in done if isinstance(result, DataFile)])
            raise


def _copy(job: Job, item: Bin, landed: LandedObject) -> DataFile | Refusal | None:
    assert job.copies is not None  # noqa: S101 - the caller copies
    source = Store(job.landed.storage)
    uri = source.uri(landed.key)
    with masking(job.landed.storage), readable_object(job.landed.storage, uri), _opened(source, landed) as file:
        rows = ParquetRows(file, job.landed.origin(landed.key))
        try:
            file.seek(landed.size - TAIL)
            length = int.from_bytes(file.read(4), "little")
            candidate = CopyCandidate(rows, landed.size, length, job, item.partition)
            footer = _footer(file, landed.size, length)
            candidate.check_values(reads_pages=job.copies.reads_pages)
        except UnfitError as error:
            return Refusal(landed.key, str(error))
        except SchemaError as error:
            if not job.landed.rules.splits:
                raise
            return Refusal(landed.key, str(error))  # the encoding job separates its rows
    if not candidate.num_rows:
        return None
    key = job.file_key(item.destination)
    copy = f"{job.storage.root}/{key}"
    try:
        Store(job.storage).copy(job.landed.storage, landed, key, may_link=job.copies.may_link)
    except BaseException as error:
        discard_unfinished(job.storage, [copy], error)
        raise
    return DataFile(copy, candidate.num_rows, landed.size, is_copy=True, footer=footer)


def _footer(file: pa.NativeFile, size: int, length: int) -> bytes | None:
    """Return the footer of an object, for the commit of its copy; None if it is large."""
    if length > parquet_footers.MOST_BYTES:
        return None
    file.seek(size - TAIL - length)
    return parquet_footers.footer_file(file.read(length))


def _opened(store: Store, original: LandedObject) -> pa.NativeFile:
    """Return the object for random access, only while it has the ETag of the listing."""
    if store.storage.is_local:
        landed = store.find(original.key)
        if landed is None or landed.etag != original.etag:
            raise store.changed(original.key)
        return store.open(original.key)  # the copy compares the file before and after
    if original.size <= _WHOLE:
        return pa.BufferReader(pa.py_buffer(store.get(original.key, original.etag)))
    key, etag = original.key, original.etag
    ranges = RangeFile(original.size, lambda start, end: store.get_range(key, etag, start, end).to_bytes())
    return pa.PythonFile(ranges, mode="r")
