"""The dry run: what an ingest of a partition would do now."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lake_assets.errors import SourceError
from lake_assets.ingest.decide import Action, Decider, Decision, Facts, edited_text
from lake_assets.ingest.index.diff import PartitionPlan, plan_index
from lake_assets.ingest.known import Comparison, compare, refuse_empty
from lake_assets.ingest.landed_footers import Footers
from lake_assets.ingest.replace.copy_rules import copy_rules
from lake_assets.ingest.replace.staging import FOLDER
from lake_assets.lake.catalog.past import LIVE
from lake_assets.lake.catalog.past_files import past_table
from lake_assets.lake.commit.statements import Statement, add_files_statement, delete_statement, insert_statement
from lake_assets.lake.ledger.last_runs import LastCommit
from lake_assets.lake.ledger.letters import dead_letters
from lake_assets.lake.ledger.partition_states import last_states
from lake_assets.lake.ledger.tables import ledger_table
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.parquet.job import shares
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.landing_zone import list_landed_in
from lake_assets.streams.stream import OpenStream

ADDING: frozenset[Action] = frozenset({"replace", "append", "register"})


@dataclass(frozen=True, slots=True)
class Plan:
    """What an ingest of a partition would do now."""

    stream: str
    partition: Partition
    decision: Decision
    source_glob: str
    manifest: Manifest
    reads: Manifest  # the objects that it would read: all, or the new ones
    fingerprint: str
    destination: str  # URI of the folder of new files; in mode index, of the partition's objects
    table: str
    table_exists: bool
    rows_before: int
    files_written: int = 0  # an estimate from the objects' bytes and the cores of this machine
    files_copied: int = 0  # of them, the copies of objects, if their footers allow it
    statements: tuple[Statement, ...] = ()  # of the commit, in the INSERT or the extension strategy
    rows_after: int | str | None = None  # a text says why the footers do not tell it; None: the rows stay as they are
    letters: str | None = None  # URI of the folder of rows that do not fit; None: they fail the partition
    letters_now: int = 0  # rows of the partition that are there now
    deltas: str | None = None  # where the commit exports its changes; None: nowhere

    @property
    def action(self) -> str:
        """The decision and its reason, in one sentence."""
        return str(self.decision)

    @property
    def adds_rows(self) -> bool:
        """Whether the ingest reads or registers objects."""
        return self.decision.action in ADDING

    def with_rows(self, footers: Footers) -> "Plan":
        """The plan with the rows after the ingest, by the footers of the objects that it reads."""
        if not self.adds_rows:
            return self
        added = footers.rows(self.reads)
        if isinstance(added, int) and self.decision.action != "replace":
            added += self.rows_before
        return replace(self, rows_after=added)


def landed_in(stream: OpenStream, partitions: Sequence[Partition]) -> list[PartitionPlan]:
    """The landed objects of partitions; in mode index, with those that are new or have changed.

    Raises:
        LakeAssetsError: the landing zone cannot be listed, or the lake cannot be read.
    """
    if stream.config.mode == "index":
        return list(plan_index(stream, partitions).partitions)
    listed = list_landed_in(stream, partitions)
    return [PartitionPlan(partition, manifest.objects, ()) for partition, manifest in listed.items()]


@dataclass(frozen=True)
class InLake:
    """What a lake has of several partitions.

    Attributes:
        lake: None if there is none yet.
        has_table: whether it has the stream's table.
        rows: the rows of each partition.
        last: the last commit of each partition, by its path.
    """

    lake: LakeSession | None
    has_table: bool = False
    rows: Mapping[Partition, int] = field(default_factory=dict)
    last: Mapping[str, LastCommit] = field(default_factory=dict)

    @classmethod
    def of(cls, lake: LakeSession | None, stream: OpenStream, partitions: Sequence[Partition]) -> "InLake":
        """Read what the lake has, of all partitions together.

        Raises:
            CatalogError: the catalog or the ledger cannot be read.
        """
        if lake is None or not lake.exists(stream.table):
            return cls(lake)
        has_ledger = lake.exists(ledger_table(lake.config))
        appends = stream.config.mode == "append"
        last = last_states(lake, stream.table, partitions, newest=appends) if has_ledger else {}
        return cls(lake, has_table=True, rows=_rows(lake, stream, partitions), last=last)


def plan_in(stream: OpenStream, landed: PartitionPlan, decider: Decider, there: InLake) -> Plan:
    """What `ingest` would do with a partition, without its rows afterwards; see `plan_stream` and `Plan.with_rows`.

    Args:
        stream: of the partition.
        landed: the partition with its objects, as `landed_in` returns it.
        decider: of all the partitions.
        there: what the lake has of the partition.

    Raises:
        LakeAssetsError: as `plan_stream`.
    """
    lake, partition, is_index = there.lake, landed.partition, stream.config.mode == "index"
    new = [obj.uri for obj in landed.new]
    manifest = Manifest(landed.objects)
    refused: Decision | None = None
    if not is_index:
        manifest = stream.without_empty(manifest)
        refused = _refused(manifest.check)
    fingerprint = stream.fingerprint(manifest)
    exists, rows_before, last = there.has_table, there.rows.get(partition, 0), there.last.get(partition.path)
    compared = _compare(lake, stream, partition, manifest)
    before = None if last is None else last.fingerprint
    facts = Facts(
        len(manifest.objects),
        table_exists=exists,
        is_unchanged=before == fingerprint,
        was_committed=last is not None,
        is_held=last is not None and last.is_held,
        new=len(compared.new.objects) if compared else len(new),
        changed=len(compared.changed) if compared else len(landed.changed),
        known=len(compared.known) if compared else 0,
        quarantined=len(compared.quarantined) if compared else 0,
    )
    decision = refused or decider.decide(partition, facts, lake)
    letters_now = _letters_now(lake, stream, partition)
    if decision.action == "fail" and compared is not None and compared.changed and decision.on_empty is None:
        decision = replace(decision, note=str(compared.refusal(partition)))
    if decision.action == "skip" and last is not None and last.rows not in (None, rows_before):
        decision = replace(decision, note=edited_text(stream, partition, last.rows, rows_before))
    if decision.fails and landed.changed:
        decision = replace(decision, note=str(landed.changed[0].error(stream.name)))
    reads = compared.new if compared is not None and decision.action == "append" else manifest
    if compared is not None and decision.action in ("replace", "append"):
        adds_to = compared if decision.action == "append" else None
        decision = _refused(lambda: refuse_empty(stream, reads, adds_to)) or decision
    files_written = files_copied = 0
    rows_after: int | None = None
    statements: tuple[Statement, ...] = ()
    match decision.action:
        case "register":
            reads = Manifest(landed.new)
            statements = (add_files_statement(stream.table, new),)
        case "clear":
            rows_after = 0
            statements = (delete_statement(stream.table, partition),)
        case "replace" | "append":
            rules = copy_rules(stream)
            encoded = tuple(obj for obj in reads.read if rules is None or not rules.admits(obj))
            files_copied = len(reads.read) - len(encoded)
            encodes = len(shares(encoded, stream.config.target_file_size, os.cpu_count() or 1)) if encoded else 0
            files_written = files_copied + encodes
            load = _load_statement(stream, partition)
            is_append = decision.action == "append"
            statements = (load,) if is_append else (delete_statement(stream.table, partition), load)
    return Plan(
        stream.name,
        partition,
        decision,
        stream.source_glob(partition),
        manifest,
        reads,
        fingerprint,
        stream.source.uri(stream.prefix(partition)) if is_index else stream.destination_uri(partition),
        str(stream.table),
        exists,
        rows_before,
        files_written,
        files_copied,
        statements,
        rows_after,
        f"{stream.letters_uri}{partition.path}/" if stream.letters_uri is not None else None,
        letters_now,
        stream.export.deltas.to.root if stream.export and decision.action in ("replace", "append", "clear") else None,
    )


def _refused(check: Callable[[], None]) -> Decision | None:
    """The decision on a partition whose objects the ingest refuses by this check; None if it accepts them."""
    try:
        check()
    except SourceError as error:
        return Decision("fail", str(error).rstrip("."))
    return None


def _rows(lake: LakeSession, stream: OpenStream, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """The rows of each partition."""
    past = past_table(lake, stream.table, stream.config.columns, partitions, LIVE)
    return past.live_rows(partitions)


def _letters_now(lake: LakeSession | None, stream: OpenStream, partition: Partition) -> int:
    if lake is None or stream.letters is None:
        return 0
    found = dead_letters(lake, stream.name, stream.table, [partition.path])
    return sum(letter.rows for letter in found.get(partition.path, ()))


def _compare(
    lake: LakeSession | None, stream: OpenStream, partition: Partition, manifest: Manifest
) -> Comparison | None:
    return compare(lake, stream, {partition: manifest})[partition] if stream.config.mode == "append" else None


def _load_statement(stream: OpenStream, partition: Partition) -> Statement:
    """The statement that adds the new rows: as files, or from staged files by INSERT."""
    lake = stream.lake_config
    if lake.inserts_only:
        staged = f"{lake.staging_storage.root}/{FOLDER}<random>/<run id>-<random>.parquet"
        return insert_statement(stream.table, partition, ["<columns>"], [staged], "<the run's key>", lake)
    return add_files_statement(stream.table, [f"{stream.destination_uri(partition)}<run id>-<random>.parquet"])
