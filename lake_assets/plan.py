"""The dry run: what an ingest of a partition would do now."""

import os
from dataclasses import dataclass

from lake_assets.errors import NoLakeError
from lake_assets.index_plan import plan_index
from lake_assets.lake.history import committed_fingerprints
from lake_assets.lake.insert import insert_statement
from lake_assets.lake.ledger import ledger_table
from lake_assets.lake.replacement import Statement, add_files_statement, delete_statement, where
from lake_assets.manifest import Manifest
from lake_assets.partition import Partition
from lake_assets.spark.job import shares
from lake_assets.staging import FOLDER
from lake_assets.stream import OpenStream


@dataclass(frozen=True, slots=True)
class Plan:
    """What an ingest of a partition would do now."""

    stream: str
    partition: Partition
    action: str  # one sentence
    source_glob: str
    manifest: Manifest
    fingerprint: str
    destination: str  # URI of the folder that new files go to
    table: str
    table_exists: bool
    rows_before: int
    files_written: int  # about: by the objects' bytes, and the cores of this machine
    statements: tuple[Statement, ...]  # of the commit, in the words of the lane by INSERT or of the extension's


def plan(stream: OpenStream, partition: Partition, *, force: bool = False) -> Plan:
    """What `ingest` would do with the partition now; nothing is written, and no Spark session is started.

    Raises:
        LakeAssetsError: what `ingest` would raise before its job.
    """
    if stream.config.mode == "index":
        return _plan_of_index(stream, partition)
    manifest = stream.manifest(partition)
    manifest.check()
    fingerprint = stream.fingerprint(manifest)
    exists, rows_before, last = _look(stream, partition)
    action = _action(stream, manifest, unchanged=last == fingerprint and not force, exists=exists)
    writes = action.startswith("replace")
    destination = stream.destination_uri(partition)
    statements: tuple[Statement, ...] = ()
    if writes or action.startswith("clear"):
        statements = (delete_statement(stream.table, partition),)
    if writes:
        statements += (_load_statement(stream, partition),)
    files = len(shares(manifest.objects, stream.config.target_file_size, os.cpu_count() or 1)) if writes else 0
    return Plan(
        stream.name,
        partition,
        action,
        stream.source_glob(partition),
        manifest,
        fingerprint,
        destination,
        str(stream.table),
        exists,
        rows_before,
        files,
        statements,
    )


def _load_statement(stream: OpenStream, partition: Partition) -> Statement:
    """How the new rows come into the table: registered as files, or inserted from staged ones."""
    lake = stream.lake_config
    if lake.inserts_only:
        staged = f"{lake.staging_storage.root}/{FOLDER}<random>/<run id>-<random>.parquet"
        return insert_statement(stream.table, partition, ["<columns>"], [staged], "<the run's key>", lake)
    return add_files_statement(stream.table, [f"{stream.destination_uri(partition)}<run id>-<random>.parquet"])


def _plan_of_index(stream: OpenStream, partition: Partition) -> Plan:
    index = plan_index(stream, [partition])
    (part,) = index.partitions
    manifest = Manifest(part.objects)
    exists, rows_before, _ = _look(stream, partition)
    new = [o.uri for o in part.new]
    if new:
        action = f"register {len(new):,} new object{'s'[: len(new) != 1]} in place"
    elif index.changed:
        action = f"fail: nothing new; {len(index.changed):,} changed, see `lake-assets index {stream.name} --check`"
    elif part.objects:
        action = _ALL_REGISTERED
    else:
        action = _action(stream, manifest, unchanged=False, exists=exists)
    return Plan(
        stream.name,
        partition,
        action,
        stream.source_glob(partition),
        manifest,
        stream.fingerprint(manifest),
        stream.source.uri(stream.prefix(partition)),
        str(stream.table),
        exists,
        rows_before,
        0,
        (add_files_statement(stream.table, new),) if new else (),
    )


_ALL_REGISTERED = "skip: all objects are registered"


def _look(stream: OpenStream, partition: Partition) -> tuple[bool, int, str | None]:
    """Whether the table exists, how many rows the partition has, and its last fingerprint."""
    try:
        with stream.lake.open(read_only=True) as lake:
            if not lake.exists(stream.table):
                return False, 0, None
            condition, parameters = where(partition)
            ((rows,),) = lake.rows(f"SELECT count(*) FROM {stream.table.sql} WHERE {condition}", parameters)  # noqa: S608
            ledger = lake.exists(ledger_table(lake.config))
            last = committed_fingerprints(lake, stream.table, [partition.path]) if ledger else {}
            return True, rows, last.get(partition.path)
    except NoLakeError:
        return False, 0, None


def _action(stream: OpenStream, manifest: Manifest, *, unchanged: bool, exists: bool) -> str:
    if unchanged:
        return "skip: the objects are those of the last commit"
    if manifest.objects:
        return "replace the partition"
    policy = stream.config.on_empty
    if policy == "clear" and not exists:
        return "skip: its source has no objects, and there is no table to clear it from"
    return {
        "fail": "fail: the source partition has no objects, and on_empty is fail",
        "keep": "keep the partition: its source has no objects, and on_empty is keep",
        "clear": "clear the partition: its source has no objects, and on_empty is clear",
    }[policy]
