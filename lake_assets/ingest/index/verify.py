"""Whether the landed objects that became lake files are still what they were, and the repair where they are not.

A lake file is meant to stay as it is. Of one that changed, the catalog says what is no longer so, and readers fail or
pass over rows; of one that vanished, every reader of its partition fails.
"""

import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.errors import LakeAssetsError, NoLakeError, SourceError
from lake_assets.ingest.index.diff import ChangedObject, changed_objects, list_all, list_some
from lake_assets.ingest.index.register import Registrar
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.lake.commit.candidates import Candidate
from lake_assets.lake.commit.registration import LandedFile, Repair
from lake_assets.lake.commit.replacement import list_files_statement
from lake_assets.lake.commit.strategy import commit_repair
from lake_assets.lake.ledger.object_history import KnownObject, known_objects
from lake_assets.lake.ledger.tables import LedgerRow, manifest_table
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition, PartitionColumn
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class IndexedState:
    """The registered objects of a stream beside those that are there."""

    live: tuple[KnownObject, ...] = ()  # files of the table
    vanished: tuple[KnownObject, ...] = ()
    changed: tuple[ChangedObject, ...] = ()

    @property
    def registered(self) -> int:
        """How many objects are files of the table."""
        return len(self.live)

    def of(self, partition: Partition) -> "IndexedState":
        """The state of one partition's objects."""
        path = partition.path
        return IndexedState(
            tuple(o for o in self.live if o.load_partition == path),
            tuple(o for o in self.vanished if o.load_partition == path),
            tuple(o for o in self.changed if o.partition == partition),
        )

    def unsound(self, columns: Sequence[PartitionColumn]) -> tuple[Partition, ...]:
        """The partitions of which an object has vanished or changed."""
        vanished = [Partition.at(columns, o.load_partition) for o in self.vanished]
        return tuple(dict.fromkeys([*vanished, *(o.partition for o in self.changed)]))

    @property
    def is_sound(self) -> bool:
        """Whether all are what they were."""
        return not self.vanished and not self.changed


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did."""

    rows: tuple[LedgerRow, ...] = ()  # of its commits
    ended: int = 0  # files that are the table's no more: they vanished, or have no rows now
    renewed: int = 0  # changed files that the catalog describes anew
    errors: tuple[LakeAssetsError, ...] = ()  # of the objects that could not be repaired


def check_indexed(stream: OpenStream, partitions: Iterable[Partition] | None = None) -> IndexedState:
    """Compare what is registered with a listing now: ETags and sizes; no object is opened.

    Args:
        stream: in mode index.
        partitions: these alone; all when None.

    Raises:
        LakeAssetsError: the landing zone cannot be listed, or the lake not be read.
    """
    wanted = None if partitions is None else list(partitions)
    try:
        with stream.lake.open(read_only=True) as lake:
            if not (lake.exists(stream.table) and lake.exists(manifest_table(lake.config))):
                return IndexedState()
            live = {uri for (uri,) in lake.rows(*list_files_statement(stream.table))}
            known = known_objects(lake, stream.name, stream.table, None if wanted is None else [p.path for p in wanted])
    except NoLakeError:
        return IndexedState()
    # Listed after the lake was read: what another process registers meanwhile is there.
    listed = list_all(stream)[0] if wanted is None else list_some(stream, wanted)
    there = {o.uri for objects in listed.values() for o in objects}
    changed = [
        ChangedObject(known[o.uri], o, partition, o.uri in live)
        for partition, objects in changed_objects(listed, known).items()
        for o in objects
    ]
    return IndexedState(
        tuple(o for uri, o in known.items() if uri in live),
        tuple(o for uri, o in sorted(known.items()) if uri in live and uri not in there),
        tuple(sorted(changed, key=lambda o: o.now.uri)),
    )


def repair_indexed(
    stream: OpenStream, partitions: Iterable[Partition] | None = None, *, run_id: str | None = None
) -> Repaired:
    """Let the lake be what is there: the entry of a vanished object ends, that of a changed one tells what it is now.

    All of it is one transaction.

    Raises:
        LakeAssetsError: the landing zone cannot be listed, or the lake cannot be repaired; it is as it was.
    """
    state = check_indexed(stream, partitions)
    if state.is_sound:
        return Repaired()
    repairer = _Repairer(stream, run_id or str(uuid.uuid4()), dt.datetime.now(dt.UTC))
    others = tuple(o.error(stream.name) for o in state.changed if not o.is_live)
    with stream.lake.open() as lake:
        done = repairer.renew(lake, state.vanished, [o for o in state.changed if o.is_live])
    return dataclasses.replace(done, errors=(*done.errors, *others))


def _indescribable(file: LandedFile) -> SourceError:
    return SourceError(
        f"the object {file.uri} changed, and is a file now whose statistics DuckLake's extension alone can read:",
        "put it back as it was, or land what it holds under another name and remove it.",
    )


@dataclass
class _Repairer:
    stream: OpenStream
    run_id: str
    now: dt.datetime

    def renew(self, lake: LakeSession, vanished: Sequence[KnownObject], changed: Sequence[ChangedObject]) -> Repaired:
        candidates: list[Candidate] = [(o.now, o.partition) for o in changed]
        inspection = Registrar(self.stream, {}, {}).inspect(lake, candidates)
        # One that cannot be described does not hold up the others. A file without rows needs no description.
        files = [f for f in inspection.files if f.facts is not None or not f.rows or inspection.described is None]
        errors = (
            *inspection.errors.values(),
            *(_indescribable(file) for file in inspection.files if file not in files),
        )
        of_vanished = {o.uri: self._partition(o) for o in vanished}
        partitions = {*of_vanished.values(), *(file.partition for file in files)}
        if not partitions:
            return Repaired(errors=errors)
        rows = {p: self._row(p, files) for p in sorted(partitions, key=lambda p: p.path)}
        repair = Repair(self.stream.table, inspection.described, files, rows, vanished=of_vanished)
        done = commit_repair(lake, repair)
        return Repaired(tuple(done), len(repair.ended), len(repair.with_rows), errors)

    def _row(self, partition: Partition, files: Sequence[LandedFile]) -> LedgerRow:
        mine = [file for file in files if file.partition == partition and file.rows]
        return dataclasses.replace(
            PartitionRun(self.stream, partition, self.run_id, self.now).row,
            mode="repair",
            status="committed",
            row_count=sum(file.rows for file in mine),
            files_written=len(mine),
            bytes_written=sum(file.object.size for file in mine),
        )

    def _partition(self, o: KnownObject) -> Partition:
        return Partition.at(self.stream.config.columns, o.load_partition)
