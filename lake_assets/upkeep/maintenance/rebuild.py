"""Data files that a restored catalog lacks become rows of their partitions again.

A data file's folder says its table and partition, and its name the job that wrote it and the landed objects that its
rows were made of. No file says whether the job has committed, or how many files it wrote. So a partition that has
landed objects is to be ingested again, which proves its rows, and the files are adopted only where nothing is left to
read.
"""

import dataclasses
import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from lake_assets.base.errors import ConfigError, LakeAssetsError, SchemaError
from lake_assets.base.json_dataclasses import AsText, Documented
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.outcome import IngestOptions, blank_row
from lake_assets.lake.catalog.backup import unknown_files
from lake_assets.lake.catalog.files import needed_files
from lake_assets.lake.commit.change import Change, Requirements, Written
from lake_assets.lake.commit.strategy import commit
from lake_assets.lake.ledger.tables import create_ledger
from lake_assets.lake.session import LakeSession
from lake_assets.lake.table_setup import data_schema, prepare_table
from lake_assets.spark.task.job import DataFile
from lake_assets.storage.formats.parquet_files import read_footer
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream

_NAME = re.compile(r"(?P<job>.*)[0-9a-f]{16}-fp(?P<fingerprint>[0-9a-f]{64})\.parquet")


@dataclass(frozen=True, slots=True)
class LostPartition(Documented):
    """A partition with data files that the catalog does not have, newer than the rows that it has."""

    stream: str
    """Its stream."""
    partition: Annotated[Partition, AsText]
    """As a path, such as `region=NW/date=2026-02-11`."""
    action: Literal["ingest", "adopt"]
    """`ingest`: it has landed objects, which an ingest reads. `adopt`: it has none, and only these files have rows."""
    files: Sequence[str]
    """URIs of the files of the newest job that wrote some."""
    bytes: int
    """Their size."""
    written_at: dt.datetime
    """When the last of them was written."""
    rows: int | None
    """Rows that the partition has now; null if it was not adopted."""
    snapshot: int | None
    """The snapshot that has them; null if it was not adopted."""
    error: str | None
    """Why it cannot be adopted."""


def rebuild(stream: OpenStream, options: IngestOptions, *, adopt: bool = False) -> Iterator[LostPartition]:
    """Yield the partitions with files that the catalog lacks, in the order of their paths.

    With `adopt` the files of a partition without landed objects become its rows, instead of those that it has; each
    partition is a commit. It is not known whether the job that wrote them had committed, or wrote more files. Raises
    ConfigError if the names of the stream's files do not say what they have.
    """
    if not stream.config.mode.replaces or stream.lake_config.inserts_only:
        raise ConfigError(
            f"the data files of stream {stream.name} do not say which rows a partition has: it is not of mode replace, "
            "or DuckLake writes the files:",
            f"run `lake-assets ingest {stream.name}`, which reads what is still in the landing zone.",
        )
    store = Store(stream.lake_config.own_storage)
    folder = stream.table_uri.removeprefix(f"{store.root}/")
    stored = store.list(folder, files="*.parquet")
    with stream.lake.open(read_only=True) as session:
        live, unknown = needed_files(session, is_live=True), unknown_files(session, stored)
    newest = {obj.key.rpartition("/")[0]: obj.last_modified for obj in _by_time(stored) if obj.uri in live}
    jobs: dict[str, dict[str, list[LandedObject]]] = {}
    for obj in _by_time(unknown):
        at, _, name = obj.key.rpartition("/")
        if match := _NAME.fullmatch(name):
            jobs.setdefault(at, {}).setdefault(match["job"], []).append(obj)
    for at, by_job in sorted(jobs.items()):
        partition = stream.config.partition_at(at.removeprefix(folder))
        files = max(by_job.values(), key=lambda files: files[-1].last_modified)
        # Older ones are of runs that did not commit, or that the present rows have replaced.
        if partition is None or (at in newest and files[-1].last_modified < newest[at]):
            continue
        lost = LostPartition(
            stream.name,
            partition,
            "ingest" if stream.manifest(partition).objects else "adopt",
            [obj.uri for obj in files],
            sum(obj.size for obj in files),
            files[-1].last_modified,
            None,
            None,
            # Stores have whole seconds.
            "several jobs wrote files at the same time, and nothing says which was the last"
            if sum(of_job[-1].last_modified == files[-1].last_modified for of_job in by_job.values()) > 1
            else None,
        )
        if adopt and lost.action == "adopt" and lost.error is None:
            try:
                with stream.lake.open() as session:
                    lost = _adopted(session, stream, lost, files, options)
            except LakeAssetsError as error:
                lost = dataclasses.replace(lost, error=str(error))
        yield lost


def _adopted(
    session: LakeSession, stream: OpenStream, lost: LostPartition, files: Sequence[LandedObject], options: IngestOptions
) -> LostPartition:
    reader = Store(stream.lake_config.own_storage)
    footers = [read_footer(reader, obj.key, as_it_is=True) for obj in files]
    expected = data_schema(session, stream.partitioned_table)
    for obj, (_, of_file) in zip(files, footers, strict=True):
        if others := sorted(set(map(str.lower, of_file.names)) ^ set(map(str.lower, expected.names))):
            raise SchemaError(
                f"the file {obj.uri} and the table {stream.table} do not have the same columns: {', '.join(others)}:",
                "alter the table as it was when the file was written, and run it again.",
            )
    (_, schema), match = footers[0], _NAME.fullmatch(files[0].key.rpartition("/")[2])
    written = [DataFile(obj.uri, rows, obj.size) for obj, (rows, _) in zip(files, footers, strict=True)]
    row = dataclasses.replace(
        blank_row(stream, lost.partition, options),
        status="committed",
        row_count=sum(file.rows for file in written),
        files_written=len(written),
        bytes_written=lost.bytes,
        source_fingerprint=match and match["fingerprint"],
        started_at=dt.datetime.now(dt.UTC),
    )
    create_ledger(session)
    prepare_table(session, stream.table, stream.config.compression)
    change = Change(
        stream.table,
        lost.partition,
        row,
        Written(written, schema.names),
        requires=Requirements(schema=schema),
        export=stream.export,
    )
    (done,) = commit(session, [change])
    return dataclasses.replace(lost, rows=done.row.row_count, snapshot=done.row.snapshot_id)


def _by_time(objects: Sequence[LandedObject]) -> list[LandedObject]:
    return sorted(objects, key=lambda obj: obj.last_modified)
