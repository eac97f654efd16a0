"""Compaction: a partition of many small data files is rewritten as fewer, by the same job and commit as an ingest.

DuckLake's own merge fails on tables with a NULL partition, and names files outside the lake's folder wrongly. Here the
source of the job is the lake itself, and the commit replaces the very files that were read: if another writer has
committed the partition meanwhile, nothing is changed. The files of an encrypted lake are read and written by DuckDB in
one transaction, without Spark.
"""

import dataclasses
import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import pyarrow as pa
from pyspark.sql import SparkSession

from lake_assets.errors import (
    CatalogError,
    CatalogLockedError,
    CatalogUnreachableError,
    LakeAssetsError,
    PartitionError,
    PartitionMovedError,
    SparkUnavailableError,
    StorageUnreachableError,
)
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.catalog.table_files import CatalogFile, columns_changed_at, live_files, partition_keys
from lake_assets.lake.commit.direct.replace import replace_directly
from lake_assets.lake.commit.insert import rewrite_by_insert
from lake_assets.lake.commit.replacement import Replacement
from lake_assets.lake.commit.strategy import commit
from lake_assets.lake.ledger.last_runs import committed_fingerprints
from lake_assets.lake.ledger.tables import COMPACT, LedgerRow, create_ledger
from lake_assets.lake.schema.tables import data_schema, prepare_table
from lake_assets.lake.session import LakeSession
from lake_assets.layout.hive import HIVE_NULL, escape
from lake_assets.layout.partition import Partition
from lake_assets.parquet.attempt import discard
from lake_assets.parquet.job import DataFile, Job, PartitionJob
from lake_assets.spark.jobs import pass_through
from lake_assets.spark.session import Sessions
from lake_assets.storage.manifest import Manifest
from lake_assets.storage.store import LandedObject, Store
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class Candidate:
    """A partition that can be rewritten as fewer files."""

    partition: Partition
    files: tuple[CatalogFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of one partition: its new files, or why it was left as it was."""

    stream: str
    partition: Partition
    files_before: int
    bytes_before: int
    files_after: int | None = None  # None: left as it was, or a dry run
    bytes_after: int | None = None
    why: str | None = None


def candidates(stream: OpenStream, session: LakeSession, at_least: int) -> list[Candidate]:
    """The partitions of so many files or more, which would fit into half as many of the stream's target size.

    Files do not fill their size to the byte, so a rewrite may make up to twice as many as would hold the rows: with
    any fewer than that, the same partition would be written anew every night.

    Left out are files that were written under other columns or another partitioning than the table has now, and files
    outside the lake's storage, which are the landing zone's.

    Args:
        stream: whose table it is.
        session: its open lake.
        at_least: a partition of fewer files is let alone.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    if stream.lake_config.is_managed:
        return []  # MotherDuck's own affair
    files = live_files(session, stream.table)
    keys = partition_keys(session, stream.table) if files else None
    if keys is None:
        return []
    partitioning, names = keys
    changed = columns_changed_at(session, stream.table)
    root = f"{stream.lake_config.own_storage.root}/"
    found = []
    by_values = sorted(files, key=_values)
    for _, group in groupby(by_values, key=_values):
        some = tuple(group)
        target = -(-sum(file.size for file in some) // stream.config.target_file_size)
        if len(some) < max(at_least, 2 * target):
            continue
        if any(
            f.partition_id != partitioning or f.begin_snapshot < changed or not f.uri.startswith(root) for f in some
        ):
            continue
        if (partition := _partition(stream, names, some[0])) is not None:
            found.append(Candidate(partition, some))
    return found


def compact(
    stream: OpenStream, at_least: int, sessions: Sessions, *, checkpoint: Callable[[], None] = lambda: None
) -> list[Compacted]:
    """Rewrite the partitions of many small files. Readers see the same rows all the time.

    Each partition is a Spark job and a commit of its own; in an encrypted lake a commit alone. One that another writer
    commits meanwhile, or that cannot be rewritten, is left as it was and says why. If Spark or the lake's storage is
    gone, those that are left have the same error, untried.

    Args:
        stream: whose partitions they are.
        at_least: a partition of fewer files is let alone.
        sessions: gives the Spark session; called only where there is something to do.
        checkpoint: called between partitions; what it raises ends the run.

    Raises:
        SparkUnavailableError: Spark does not start.
        CatalogError: the catalog cannot be read.
    """
    with stream.lake.open() as session:
        some = candidates(stream, session, at_least)
        if not some:
            return []
        create_ledger(session)
        # Read after the files: if a commit comes between, their files are others than these, and nothing is done.
        last = committed_fingerprints(session, stream.table, [one.partition.path for one in some])
    spark = None if stream.lake_config.inserts_only else sessions()
    results: list[Compacted] = []
    for index, one in enumerate(some):
        checkpoint()
        try:
            results.append(_compact_one(stream, one, spark, last.get(one.partition.path)))
        except (SparkUnavailableError, StorageUnreachableError, CatalogUnreachableError, CatalogLockedError) as error:
            # The others would meet it too.
            return results + [_left(stream, other, str(error)) for other in some[index:]]
        except LakeAssetsError as error:
            results.append(_left(stream, one, str(error)))
        except NotDirectError as error:
            results.append(_left(stream, one, f"{error}: only whole files that DuckLake's catalog tables hold are."))
    return results


def _compact_one(stream: OpenStream, one: Candidate, spark: SparkSession | None, fingerprint: str | None) -> Compacted:
    row = _row(stream, one, fingerprint)
    with stream.lake.open() as session:
        schema = data_schema(session, stream.table, stream.config.columns)
    written = _rewrite(stream, one, row, schema) if spark is None else _replace(stream, one, spark, row, schema)
    return Compacted(stream.name, one.partition, len(one.files), one.size, written.files_written, written.bytes_written)


def _rewrite(stream: OpenStream, one: Candidate, row: LedgerRow, schema: pa.Schema) -> LedgerRow:
    """Let DuckDB write the rows anew, in the transaction that reads them."""
    replacement = Replacement(stream.table, one.partition, [], Manifest(()), row, columns=schema.names)
    with stream.lake.open() as session:
        prepare_table(session, stream.table, stream.config.compression)
        strategy = partial(rewrite_by_insert, target=stream.config.target_file_size)
        return commit(session, replacement, strategies=[strategy])


def _replace(stream: OpenStream, one: Candidate, spark: SparkSession, row: LedgerRow, schema: pa.Schema) -> LedgerRow:
    """Write the rows anew by a Spark job, and replace the files that it read."""
    objects = _objects(stream, one)
    storage = stream.lake_config.own_storage
    folder = stream.destination_folder(one.partition)
    job = Job(
        run_id=row.run_id,
        source=storage,
        storage=storage,
        schema=schema,
        compression=stream.config.compression,
        target_file_size=stream.config.target_file_size,
        partitions=(PartitionJob(one.partition, objects, folder),),
    )
    (result,) = pass_through(spark, job, cores=1)  # more would each write a file
    if result.error is not None:
        raise result.error
    new = [file.uri for file in result.files]
    try:
        _check_rows(one, result.files)
    except CatalogError:
        discard(storage, new)
        raise
    row = dataclasses.replace(
        row,
        row_count=sum(file.rows for file in result.files),
        files_written=len(result.files),
        bytes_written=sum(file.size for file in result.files),
    )
    replacement = Replacement(
        stream.table,
        one.partition,
        new,
        Manifest(()),
        row,
        frozenset(file.file_id for file in one.files),
    )
    try:
        with stream.lake.open() as session:
            # Only this strategy knows which files it replaces.
            return commit(session, replacement, strategies=[replace_directly])
    except (NotDirectError, PartitionMovedError):  # by which it is known that nothing was committed
        discard(storage, new)
        raise


def _row(stream: OpenStream, one: Candidate, fingerprint: str | None) -> LedgerRow:
    run_id, started = str(uuid.uuid4()), dt.datetime.now(dt.UTC)
    return dataclasses.replace(
        PartitionRun(stream, one.partition, run_id, started).row,
        source_glob=stream.destination_uri(one.partition) + "*.parquet",
        mode=COMPACT,
        status="committed",
        source_files=len(one.files),
        source_bytes=one.size,
        # That of the landed objects, so that the next ingest still finds them unchanged.
        source_fingerprint=fingerprint,
        started_at=started,
    )


def _objects(stream: OpenStream, one: Candidate) -> tuple[LandedObject, ...]:
    """The files as the store has them, with the ETags under which tasks read them."""
    store = Store(stream.lake_config.own_storage)
    keys = [file.uri.removeprefix(f"{store.root}/") for file in one.files]
    listed = {o.key: o for folder in {key.rpartition("/")[0] for key in keys} for o in store.list(f"{folder}/")}
    if gone := [key for key in keys if key not in listed]:
        raise CatalogError(
            f"the data file {store.uri(gone[0])} is part of {stream.table}, and is not there:",
            "restore it, or ingest the partition again with --force.",
        )
    return tuple(listed[key] for key in keys)


def _check_rows(one: Candidate, files: Sequence[DataFile]) -> None:
    before, after = sum(file.rows for file in one.files), sum(file.rows for file in files)
    if before != after:
        raise CatalogError(
            f"the files of partition {one.partition} have {after} rows, and the catalog says {before}:",
            "nothing was changed; ingest the partition again with --force.",
        )


def _left(stream: OpenStream, one: Candidate, why: str) -> Compacted:
    return Compacted(stream.name, one.partition, len(one.files), one.size, why=why)


def _values(file: CatalogFile) -> tuple[tuple[bool, str], ...]:
    return tuple((text is None, text or "") for _, text in sorted(file.values.items()))


def _partition(stream: OpenStream, names: Sequence[str], file: CatalogFile) -> Partition | None:
    """The stream's partition that a file belongs to; None where its values are none that the stream can have."""
    texts = {name.lower(): file.values.get(index) for index, name in enumerate(names)}
    try:
        return Partition.of(
            stream.config.columns,
            {
                column.name: HIVE_NULL if (text := texts[column.name.lower()]) is None else escape(text)
                for column in stream.config.columns
            },
        )
    except (PartitionError, KeyError):
        return None
