"""The dry run: what an ingest of a partition would do now."""

import os
from dataclasses import dataclass, replace

from lake_assets.errors import NoLakeError
from lake_assets.ingest.decide import Decider, Decision, Facts
from lake_assets.ingest.index.diff import plan_index
from lake_assets.ingest.replace.staging import FOLDER
from lake_assets.lake.commit.insert import insert_statement
from lake_assets.lake.commit.replacement import Statement, add_files_statement, count_partition, delete_statement
from lake_assets.lake.ledger.last_runs import committed_fingerprints
from lake_assets.lake.ledger.tables import ledger_table
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.parquet.job import shares
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class Plan:
    """What an ingest of a partition would do now."""

    stream: str
    partition: Partition
    decision: Decision
    source_glob: str
    manifest: Manifest
    fingerprint: str
    destination: str  # URI of the folder that new files go to; in mode index, of the partition's objects
    table: str
    table_exists: bool
    rows_before: int
    files_written: int = 0  # about: by the objects' bytes, and the cores of this machine
    statements: tuple[Statement, ...] = ()  # of the commit, as the strategy by INSERT or the extension's would run them

    @property
    def action(self) -> str:
        """What would be done, and why, in one sentence."""
        return str(self.decision)


def plan(stream: OpenStream, partition: Partition, *, force: bool = False) -> Plan:
    """What `ingest` would do with the partition now; nothing is written, and no Spark session is started.

    Raises:
        LakeAssetsError: what `ingest` would raise before its job.
    """
    new: list[str] = []
    changed = 0
    if stream.config.mode == "index":
        index = plan_index(stream, [partition])
        (part,) = index.partitions
        manifest, new, changed = Manifest(part.objects), [o.uri for o in part.new], len(index.changed)
    else:
        manifest = stream.manifest(partition)
        manifest.check()
    fingerprint = stream.fingerprint(manifest)
    decider = Decider(stream, force=force)

    def decided(lake: LakeSession | None) -> tuple[bool, int, Decision]:
        exists, rows, last = (False, 0, None) if lake is None else _look(lake, stream, partition)
        facts = Facts(
            len(manifest.objects),
            table_exists=exists,
            is_unchanged=last == fingerprint,
            was_committed=last is not None,
            new=len(new),
            changed=changed,
        )
        return exists, rows, decider.decide(partition, facts, lake)

    try:
        with stream.lake.open(read_only=True) as lake:
            exists, rows_before, decision = decided(lake)
    except NoLakeError:
        exists, rows_before, decision = decided(None)
    is_index = stream.config.mode == "index"
    destination = stream.source.uri(stream.prefix(partition)) if is_index else stream.destination_uri(partition)
    base = Plan(
        stream.name,
        partition,
        decision,
        stream.source_glob(partition),
        manifest,
        fingerprint,
        destination,
        str(stream.table),
        exists,
        rows_before,
    )
    match decision.action:
        case "register":
            return replace(base, statements=(add_files_statement(stream.table, new),))
        case "clear":
            return replace(base, statements=(delete_statement(stream.table, partition),))
        case "replace":
            files = len(shares(manifest.objects, stream.config.target_file_size, os.cpu_count() or 1))
            statements = (delete_statement(stream.table, partition), _load_statement(stream, partition))
            return replace(base, files_written=files, statements=statements)
        case _:
            return base


def _look(lake: LakeSession, stream: OpenStream, partition: Partition) -> tuple[bool, int, str | None]:
    """Whether the table exists, how many rows the partition has, and its last fingerprint."""
    if not lake.exists(stream.table):
        return False, 0, None
    rows = count_partition(lake, stream.table, partition)
    ledger = lake.exists(ledger_table(lake.config))
    last = committed_fingerprints(lake, stream.table, [partition.path]) if ledger else {}
    return True, rows, last.get(partition.path)


def _load_statement(stream: OpenStream, partition: Partition) -> Statement:
    """How the new rows come into the table: registered as files, or inserted from staged ones."""
    lake = stream.lake_config
    if lake.inserts_only:
        staged = f"{lake.staging_storage.root}/{FOLDER}<random>/<run id>-<random>.parquet"
        return insert_statement(stream.table, partition, ["<columns>"], [staged], "<the run's key>", lake)
    return add_files_statement(stream.table, [f"{stream.destination_uri(partition)}<run id>-<random>.parquet"])
