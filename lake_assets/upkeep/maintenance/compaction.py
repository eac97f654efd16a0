"""Compaction: a partition of many small data files is rewritten as fewer files, by the job and commit of an ingest.

DuckLake's own merge fails on tables with a NULL partition, and gives wrong names to files outside the lake's folder.
Here the job's source is the lake itself, and the commit replaces exactly the files that were read: if another writer
has committed the partition meanwhile, nothing is changed. DuckDB reads and writes the rows in one transaction, without
Spark, in an encrypted lake, and where whole files do not have the rows: other clients deleted rows, or wrote files with
row ids or rows of several snapshots, as an UPDATE, a merge and a flush do.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field

from lake_assets.base.errors import (
    CatalogError,
    CatalogLockedError,
    CatalogUnreachableError,
    LakeAssetsError,
    SparkUnavailableError,
    StorageUnreachableError,
)
from lake_assets.base.events import checkpoint, counted
from lake_assets.base.json_dataclasses import AsText, Documented
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.outcome import IngestOptions, blank_row
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.past_partitions import LIVE, CatalogFile, partition_of, past_table
from lake_assets.lake.catalog.table import Partitioning, columns_changed_at, read_folder, read_partitioning
from lake_assets.lake.commit.change import Change, Requirements, Rewrite, Written
from lake_assets.lake.commit.strategy import UNDONE, commit
from lake_assets.lake.ledger.read import last_commits
from lake_assets.lake.ledger.tables import COMPACT, LedgerRow, create_ledger
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.lake.table_setup import data_schema, prepare_table, rules_of_table
from lake_assets.schema.column_rules import STRICT
from lake_assets.spark.task.job import DataFile, Job, PartitionJob, discard
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream

if TYPE_CHECKING:
    from lake_assets.spark.spark_session import Sessions


@dataclass(frozen=True, slots=True)
class CompactionCandidate:
    """A partition that can be rewritten as fewer files."""

    partition: Partition
    files: tuple[CatalogFile, ...]
    is_whole: bool  # its rows are those of whole files; otherwise DuckLake reads and writes them

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class CompactedPartition(Documented):
    """A partition that was compacted, or left as it is."""

    stream: str
    """Its stream."""
    partition: Annotated[Partition, AsText, Field(title="Partition")]
    """As a path, such as `region=NW/date=2026-02-11`."""
    files_before: int
    """Data files before the compaction."""
    bytes_before: int
    """Their size in bytes."""
    files_after: int | None
    """Data files after it; null after a dry run, or if the partition was left."""
    bytes_after: int | None
    """Their size in bytes."""
    why: Annotated[str | None, Field(serialization_alias="left")]
    """Why the partition was left as it is."""

    @classmethod
    def of(cls, stream: OpenStream, candidate: CompactionCandidate, why: str | None = None) -> Self:
        """Return the result for a partition that is unchanged."""
        return cls(stream.name, candidate.partition, len(candidate.files), candidate.size, None, None, why)


def compactable(stream: OpenStream, session: LakeSession, at_least: int) -> list[CompactionCandidate]:
    """Return the partitions of `at_least` files or more that would fit into half as many of the target size.

    Files do not fill their target size exactly, so a rewrite may write up to twice as many files as necessary. Without
    the factor of two, the same partition would be rewritten every night.

    Partitions are left out if a file was written under other columns than the table has now, or lies outside the lake's
    storage, and all if the table is partitioned by other columns than the stream.
    """
    if stream.lake_config.is_managed:
        return []  # MotherDuck compacts its lakes
    columns = stream.config.partition_columns
    past = past_table(session, stream.partitioned_table, since=LIVE)
    partitioning = _partitioning(session, stream.table) if past.files else None
    if partitioning is None or {c.name.lower() for c in partitioning.columns} != {c.name.lower() for c in columns}:
        return []
    changed = columns_changed_at(session, stream.table)
    root = f"{stream.lake_config.own_storage.root}/"
    every = [file for of_key in past.files.values() for file in of_key]
    has_others = bool(past.elsewhere) or any(file.partition_id != partitioning.partition_id for file in every)
    result = []
    for key, files in past.files.items():
        target = -(-sum(file.size for file in files) // stream.config.target_file_size)
        if key is None or len(files) < max(at_least, 2 * target):
            continue
        if any(file.begin_snapshot < changed or not file.uri.startswith(root) for file in files):
            continue
        if (partition := partition_of(columns, key)) is not None:
            is_whole = past.of(partition).is_whole(LIVE) and all(file.is_plain for file in files)
            result.append(CompactionCandidate(partition, tuple(files), is_whole and not has_others))
    return sorted(result, key=lambda candidate: candidate.partition.path)


def _partitioning(session: LakeSession, table: TableName) -> Partitioning | None:
    """Return the table's partitioning; None if it has none, or one that transforms its columns."""
    try:
        with session.read() as catalog:
            table_id, *_ = read_folder(catalog, table)
            return read_partitioning(catalog, table_id)
    except NotDirectError:
        return None


def compact(stream: OpenStream, at_least: int, sessions: "Sessions") -> list[CompactedPartition]:
    """Rewrite the partitions of many small files. Readers see the same rows at all times.

    Each partition is a Spark job and a commit, or only a commit if DuckDB rewrites it. A partition that another writer
    commits meanwhile, or that cannot be rewritten, is unchanged, and its result says why. If Spark or the lake's
    storage is unreachable, the remaining partitions get the same error without a try.
    """
    with stream.lake.open() as session:
        chosen = compactable(stream, session, at_least)
        if not chosen:
            return []
        create_ledger(session)
        # Read after the files: if another writer commits in between, the files differ, and nothing is changed.
        last = last_commits(session, stream.table, [c.partition for c in chosen])
        # The names of a held partition's files say that each run must look the hold up in the ledger.
        held = {path for path, commit in last.items() if commit.is_held}
        chosen = [candidate for candidate in chosen if candidate.partition.path not in held]
    if not chosen:
        return []
    inserts = stream.lake_config.inserts_only or not any(candidate.is_whole for candidate in chosen)
    starts = None if inserts else sessions
    if starts is not None:
        starts()  # its error would be that of each partition
    results: list[CompactedPartition] = []
    for index, candidate in enumerate(counted(chosen, f"compact {stream.name}", "partitions", len(chosen))):
        checkpoint()
        try:
            results.append(_compact(stream, candidate, starts, last.get(candidate.partition.path)))
        except (SparkUnavailableError, StorageUnreachableError, CatalogUnreachableError, CatalogLockedError) as error:
            # The remaining partitions would fail in the same way.
            return results + [CompactedPartition.of(stream, other, str(error)) for other in chosen[index:]]
        except LakeAssetsError as error:
            results.append(CompactedPartition.of(stream, candidate, str(error)))
        except NotDirectError as error:
            why = f"{error}: only partitions of whole files in DuckLake's catalog tables can be compacted."
            results.append(CompactedPartition.of(stream, candidate, why))
    return results


def _compact(
    stream: OpenStream, candidate: CompactionCandidate, sessions: "Sessions | None", last: LedgerRow | None
) -> CompactedPartition:
    row = _row(stream, candidate, last)
    if sessions is None or not candidate.is_whole:
        written = _rewrite(stream, candidate, row)
    else:
        written = _replace(stream, candidate, sessions, row)
    return dataclasses.replace(
        CompactedPartition.of(stream, candidate), files_after=written.files_written, bytes_after=written.bytes_written
    )


def _rewrite(stream: OpenStream, candidate: CompactionCandidate, row: LedgerRow) -> LedgerRow:
    """Rewrite the rows by DuckDB, in the transaction that reads them."""
    with stream.lake.open() as session:
        schema = data_schema(session, stream.partitioned_table)
        rewrite = Rewrite(schema.names, stream.config.target_file_size)
        prepare_table(session, stream.table, stream.config.compression)
        (committed,) = commit(session, [Change(stream.table, candidate.partition, row, rewrite)])
    return committed.row


def _replace(stream: OpenStream, candidate: CompactionCandidate, sessions: "Sessions", row: LedgerRow) -> LedgerRow:
    """Rewrite the rows by a Spark job, and replace the files that it read."""
    from lake_assets.spark.cluster import in_a_session  # noqa: PLC0415
    from lake_assets.spark.spark_jobs import pass_through  # noqa: PLC0415 - the type above needs no PySpark

    storage = stream.lake_config.own_storage
    partition = candidate.partition
    folder = stream.destination_folder(partition)
    with stream.lake.open() as session:
        schema = data_schema(session, stream.partitioned_table)
        rules = rules_of_table(session, stream.table, STRICT)
    job = Job(
        run_id=row.run_id,
        landed=LandingZone(storage, rules=rules),
        storage=storage,
        schema=schema,
        compression=stream.config.compression,
        target_file_size=stream.config.target_file_size,
        partitions=(PartitionJob(partition, _objects(stream, candidate), folder),),
        fingerprints={folder: row.source_fingerprint} if row.source_fingerprint is not None else {},
    )
    # Each core would write a file.
    (result,) = in_a_session(sessions, lambda spark: pass_through(spark, job, cores=1))
    if result.error is not None:
        raise result.error
    new = [file.uri for file in result.files]
    try:
        _check_rows(candidate, result.files)
    except CatalogError:
        discard(storage, new)
        raise
    row = dataclasses.replace(
        row,
        row_count=sum(file.rows for file in result.files),
        files_written=len(result.files),
        bytes_written=sum(file.size for file in result.files),
    )
    requires = Requirements(files=frozenset(file.file_id for file in candidate.files))
    change = Change(stream.table, partition, row, Written(result.files), requires=requires)
    try:
        with stream.lake.open() as session:
            (committed,) = commit(session, [change])
    except UNDONE:
        discard(storage, new)
        raise
    return committed.row


def _row(stream: OpenStream, candidate: CompactionCandidate, last: LedgerRow | None) -> LedgerRow:
    options = IngestOptions()
    return dataclasses.replace(
        blank_row(stream, candidate.partition, options),
        source_glob=stream.destination_uri(candidate.partition) + "*.parquet",
        mode=COMPACT,
        status="committed",
        source_files=len(candidate.files),
        source_bytes=candidate.size,
        # That of the landed objects, so that the next ingest finds them unchanged.
        source_fingerprint=last.source_fingerprint if last else None,
        started_at=options.run_at,
    )


def _objects(stream: OpenStream, candidate: CompactionCandidate) -> tuple[LandedObject, ...]:
    """Return the files in the store, with the ETags under which tasks read them."""
    store = Store(stream.lake_config.own_storage)
    keys = [file.uri.removeprefix(f"{store.root}/") for file in candidate.files]
    folders = {key.rpartition("/")[0] for key in keys}
    listed = {stored.key: stored for folder in folders for stored in store.list(f"{folder}/")}
    if missing := [key for key in keys if key not in listed]:
        raise CatalogError(
            f"the data file {store.uri(missing[0])} is part of {stream.table}, and is not there:",
            "restore it, or ingest the partition again with --force.",
        )
    return tuple(listed[key] for key in keys)


def _check_rows(candidate: CompactionCandidate, files: Sequence[DataFile]) -> None:
    before, after = sum(file.rows for file in candidate.files), sum(file.rows for file in files)
    if before != after:
        raise CatalogError(
            f"the files of partition {candidate.partition} have {after} rows, and the catalog says {before}:",
            "nothing was changed. Ingest the partition again with --force.",
        )
