"""Reading landed Parquet inside a task, as Arrow record batches, with memory bound by a row group."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from obstore import Bytes

from lake_assets.config.secrets import mask_error, masking
from lake_assets.config.storages import AnyStorage
from lake_assets.errors import SchemaDriftError, SourceChangedError, SourceError
from lake_assets.layout.partition import Partition, PartitionValue
from lake_assets.parquet.files import ParquetRows
from lake_assets.parquet.job import Job, Share
from lake_assets.parquet.path_columns import PathColumns, with_types, with_values
from lake_assets.parquet.schema_fit import Fitter
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.failures import failure, is_of_cloud
from lake_assets.storage.store import Store

BATCH_ROWS = 131_072
WHOLE = 8 * 2**20  # bytes; objects up to this size are fetched by one request
AHEAD = 4  # such objects are fetched before they are read
FOOTERS = 16  # read in parallel: most of the time is network latency


def read_shares(job: Job, shares: Sequence[Share], schema: pa.Schema, partition: Partition) -> Iterator[pa.RecordBatch]:
    """Read the rows of shares of a partition's objects, fitted to the schema, in the order of the shares.

    If the job selects rows, row groups whose statistics exclude the partition are not read.

    Raises:
        SchemaDriftError: if the job evolves the table, an object has columns that the schema lacks, or wider ones. The
            error has all such objects among the shares, so that the table is changed once.
        SourceError: an object is not a Parquet file, or is damaged; the message names it.
        SchemaError: an object's columns or values do not fit.
        SourceChangedError: an object has vanished, or has changed since the listing.
        StorageUnreachableError: the store fails, also after its client's own retries; Spark tries the task again.
        StorageError: the store refuses.
    """
    store = Store(job.source)
    drift: SchemaDriftError | None = None
    with masking(job.source), ThreadPoolExecutor(AHEAD) as pool:
        for share, file in _opened(job.source, shares, pool):
            uri = store.uri(share.key)
            with _readable(job.source, uri):
                try:
                    origin = f"the object {uri}"
                    parquet = ParquetRows(file, origin, pre_buffer=True)
                    constants = job.paths.values(share.key, uri, parquet.schema) if job.paths else {}
                    fitter = Fitter(
                        with_types(parquet.schema, constants),
                        schema,
                        partition,
                        origin,
                        evolves=job.evolves,
                        selects=job.selects,
                        derived=job.derived,
                    )
                except SchemaDriftError as error:
                    drift = error if drift is None else drift.with_more(error.schemas)
                if drift is None:
                    yield from _batches(parquet, share, fitter, constants)
    if drift is not None:
        raise drift


def read_schema(store: ArrowStore, key: str, paths: PathColumns | None = None, *, as_it_is: bool = False) -> pa.Schema:
    """The Arrow schema of one object, from its footer, with the columns that its path has.

    With `as_it_is`, the object becomes a lake file, so DuckLake must be able to read it.

    Raises:
        SourceError: as `read_shares`.
        SchemaError: with `as_it_is`, DuckLake cannot read a column.
    """
    uri = store.uri(key)
    with masking(store.storage), _readable(store.storage, uri), store.open(key) as file:
        rows = ParquetRows(file, f"the object {uri}")
        if as_it_is:
            rows.refuse_int96()
            rows.refuse_old_lists()
    return with_types(rows.schema, paths.values(key, uri, rows.schema)) if paths else rows.schema


def read_schemas(
    store: ArrowStore, keys: Sequence[str], paths: PathColumns | None = None
) -> list[tuple[str, pa.Schema]]:
    """The Arrow schemas of objects, each with the object's name for errors; footers are read in parallel.

    Raises:
        SourceError: as `read_shares`.
    """
    with ThreadPoolExecutor(FOOTERS) as pool:
        schemas = pool.map(lambda key: read_schema(store, key, paths), keys)
        return [(f"the object {store.uri(key)}", schema) for key, schema in zip(keys, schemas, strict=True)]


def count_rows(store: ArrowStore, key: str) -> int:
    """The number of rows of one object, from its footer.

    Raises:
        SourceError, SourceChangedError, StorageError: as `read_shares`.
    """
    uri = store.uri(key)
    with masking(store.storage), _readable(store.storage, uri), store.open(key) as file:
        return int(pq.read_metadata(file).num_rows)


@contextmanager
def _readable(storage: AnyStorage, uri: str) -> Iterator[None]:
    """Turn errors of Arrow into errors that name the object, or the store if that failed."""
    try:
        yield
    except FileNotFoundError as error:
        raise _gone(uri) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _damaged(uri, error) from error
    except OSError as error:
        if error.errno is not None or is_of_cloud(error):
            mask_error(error, storage)
            raise failure(error, storage, uri, "read") from error
        raise _damaged(uri, error) from error


def _opened(
    storage: AnyStorage, shares: Sequence[Share], pool: ThreadPoolExecutor
) -> Iterator[tuple[Share, pa.NativeFile]]:
    """Each share with its open file; small objects are fetched while earlier ones are read."""
    whole, ranges = Store(storage), ArrowStore(storage)
    fetched: dict[int, Future[Bytes]] = {}
    requested = 0
    for index, share in enumerate(shares):
        while requested < min(index + AHEAD, len(shares)):
            if shares[requested].size <= WHOLE:
                fetched[requested] = pool.submit(whole.get, shares[requested].key, shares[requested].etag)
            requested += 1
        if index in fetched:
            yield share, pa.BufferReader(pa.py_buffer(fetched.pop(index).result()))
            continue
        with _readable(storage, whole.uri(share.key)):
            file = ranges.open(share.key)
        with file:
            yield share, file


def _batches(
    rows: ParquetRows, share: Share, fitter: Fitter, constants: Mapping[str, pa.Scalar]
) -> Iterator[pa.RecordBatch]:
    parquet = rows.parquet
    groups = parquet.num_row_groups
    own = range(share.part * groups // share.parts, (share.part + 1) * groups // share.parts)
    columns = [*fitter.columns, *fitter.partition_columns]
    stored = [name for name in columns if name not in constants]
    # One row group at a time, because pre-buffering takes memory for all that are requested.
    for group in _with_rows(parquet, own, fitter):
        for batch in rows.batches(BATCH_ROWS, group, stored, nanos=fitter.nanos):
            fitted = fitter.fit(with_values(batch, constants).select(columns))
            if fitted.num_rows:
                yield fitted


def _with_rows(parquet: pq.ParquetFile, groups: Iterable[int], fitter: Fitter) -> Iterator[int]:
    """The row groups that may have rows of the partition, by their statistics."""
    chooses = fitter.chosen or fitter.made
    names = [parquet.schema.column(index).path for index in range(len(parquet.schema))] if chooses else []
    chosen: list[tuple[int, Callable[[pq.Statistics | None], bool]]]
    chosen = [(names.index(name), partial(_rules_out, value.as_py())) for name, value in fitter.chosen.items()]
    chosen += [(names.index(made.name), made.rules_out) for made in fitter.made if made.name in names]
    for group in groups:
        facts = parquet.metadata.row_group(group)
        if not any(rules_out(facts.column(index).statistics) for index, rules_out in chosen):
            yield group


def _rules_out(value: PartitionValue, statistics: pq.Statistics | None) -> bool:
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


def _damaged(uri: str, error: Exception) -> SourceError:
    return SourceError(
        f"the object {uri} cannot be read as Parquet: {' '.join(str(error).split()).rstrip('.')}:",
        "remove it or let its writer land it again.",
    )


def _gone(uri: str) -> SourceChangedError:
    return SourceChangedError(f"the object {uri} vanished while its partition was being read:", "run it again.")
