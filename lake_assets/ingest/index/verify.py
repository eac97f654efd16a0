"""Check and repair of registered objects that changed or vanished in the landing zone.

A lake file must not change. If one has changed, the catalog's statistics are wrong, and readers fail or miss rows. If
one has vanished, every reader of its partition fails.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from lake_assets.base.errors import LakeAssetsError, SourceError
from lake_assets.base.json_dataclasses import AsFailure, Documented, NotInJson, in_json
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.ingest.compare_objects import ChangedObject, changed_objects
from lake_assets.ingest.index.index_run import compare_registered, objects_of_lake, registered_uris
from lake_assets.ingest.index.register import Registrar, committed_columns, noted, read_from
from lake_assets.ingest.outcome import IngestOptions, blank_row
from lake_assets.lake.commit.candidates import Candidate
from lake_assets.lake.commit.change import Change, LandedFile, Renewed
from lake_assets.lake.commit.strategy import commit
from lake_assets.lake.ledger.object_history import KnownObject
from lake_assets.lake.ledger.tables import MANIFEST, LedgerRow, create_ledger, ended_values
from lake_assets.lake.session import LakeSession
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.streams.stream import OpenStream, list_scope


@dataclass(frozen=True, slots=True)
class IndexedState(Documented):
    """The registered objects of a stream, compared with the landing zone."""

    live: Annotated[tuple[KnownObject, ...], NotInJson] = ()  # files of the table
    vanished: tuple[KnownObject, ...] = ()
    """Those that have vanished."""
    changed: tuple[ChangedObject, ...] = ()
    """Those that were replaced by other ones of the same name."""
    # As the lake recorded them
    unchanged: Annotated[Mapping[Partition, tuple[LandedObject, ...]], NotInJson] = field(default_factory=dict)

    @in_json
    def registered(self) -> int:
        """How many objects are files of the table."""
        return len(self.live)

    def of(self, partition: Partition) -> "IndexedState":
        """Return the state of one partition's objects."""
        path = partition.path
        return IndexedState(
            tuple(obj for obj in self.live if obj.load_partition == path),
            tuple(obj for obj in self.vanished if obj.load_partition == path),
            tuple(obj for obj in self.changed if obj.partition == partition),
            {partition: self.unchanged.get(partition, ())},
        )

    def inconsistent(self, columns: Sequence[PartitionColumn]) -> tuple[Partition, ...]:
        """Return the partitions with an object that has vanished or changed."""
        vanished = [Partition.at(columns, obj.load_partition) for obj in self.vanished]
        return tuple(dict.fromkeys([*vanished, *(obj.partition for obj in self.changed)]))

    @property
    def is_consistent(self) -> bool:
        """Whether no object has vanished or changed."""
        return not self.vanished and not self.changed


@dataclass(frozen=True, slots=True)
class Repaired(Documented):
    """The result of a repair."""

    rows: tuple[LedgerRow, ...] = ()
    """The rows of the ledger of its commits, one for each partition that was updated."""
    ended: int = 0
    """Files that were removed from the table: they vanished, or have no rows now."""
    renewed: int = 0
    """Changed files that were described again."""
    errors: tuple[Annotated[LakeAssetsError, AsFailure], ...] = ()
    """Why objects could not be repaired."""
    updated: Mapping[str, int] = field(default_factory=dict)
    """The rows of the changed files now, by the partition's path."""


def check_indexed(stream: OpenStream, partitions: Iterable[Partition] | None = None) -> IndexedState:
    """Compare the registered objects of some partitions, or of all, with a listing, by ETag and size."""
    wanted = None if partitions is None else list(partitions)
    with stream.lake.open_if_exists() as lake:
        known = objects_of_lake(lake, stream, wanted)
        if not known:
            return IndexedState()
        live = registered_uris(lake, stream)
    # Listed after the lake was read, so that the objects which another process registers meanwhile are listed too.
    landed, _ = list_scope(stream, wanted)
    return compare_indexed(stream, landed, known, live)


def compare_indexed(
    stream: OpenStream, landed: Mapping[Partition, Manifest], known: Mapping[str, KnownObject], live: AbstractSet[str]
) -> IndexedState:
    """Compare registered objects with a listing of their partitions.

    `known` are the objects that the lake registered or read, by key, and `live` the URIs of the table's files.
    """
    listed = {obj.uri for manifest in landed.values() for obj in manifest.objects}
    registered = sorted((obj for obj in known.values() if obj.uri in live), key=lambda obj: obj.uri)
    # One below another path of the source is there if that leads to it too.
    vanished = (obj for obj in registered if obj.uri not in listed and not _is_elsewhere(stream, obj))
    compared = compare_registered(stream, known, landed)
    changed: list[ChangedObject] = []
    for partition, comparison in compared.items():
        changed += changed_objects(stream, partition, comparison, live)
    return IndexedState(
        tuple(registered),
        tuple(vanished),
        tuple(sorted(changed, key=lambda obj: obj.now.uri)),
        {partition: compared[partition].same for partition in landed},
    )


def _is_elsewhere(stream: OpenStream, obj: KnownObject) -> bool:
    """Return whether a registered object is not below the source as the config has it now, and is there."""
    return not obj.uri.startswith(f"{stream.source.root}/") and Path(obj.uri).exists()


def repair_indexed(stream: OpenStream, partitions: Iterable[Partition] | None = None) -> Repaired:
    """Remove vanished objects from the table, and describe changed ones again, in one transaction.

    An error leaves the lake unchanged.
    """
    state = check_indexed(stream, partitions)
    if state.is_consistent:
        return Repaired()
    with stream.lake.open() as lake:
        create_ledger(lake)
        return _repair(lake, stream, state)


def _indescribable(file: LandedFile) -> SourceError:
    return SourceError(
        f"the object {file.uri} changed, and only DuckLake's extension can read the statistics of the new file:",
        "restore the registered object. Or land its content under another name, remove it, run this again, and then "
        "`lake-assets index`.",
    )


def _repair(lake: LakeSession, stream: OpenStream, state: IndexedState) -> Repaired:
    candidates: list[Candidate] = [(obj.now, obj.partition) for obj in state.changed if obj.is_live]
    inspection = Registrar(stream, {}, {}).inspect(lake, candidates)
    # A file that cannot be described does not stop the others. A file without rows needs no description.
    files = [f for f in inspection.files if f.facts is not None or not f.rows or inspection.described is None]
    errors = (
        *inspection.errors.values(),
        *(_indescribable(file) for file in inspection.files if file not in files),
        *(obj.error for obj in state.changed if not obj.is_live),
    )
    vanished = {obj.uri: Partition.at(stream.config.partition_columns, obj.load_partition) for obj in state.vanished}
    partitions = {*vanished.values(), *(file.partition for file in files)}
    if not partitions:
        return Repaired(errors=errors)
    options = IngestOptions()
    by_partition = {p: [f for f in files if f.partition == p] for p in sorted(partitions, key=lambda p: p.path)}
    gone: dict[Partition, dict[str, str]] = {}
    for obj in state.vanished:
        gone.setdefault(vanished[obj.uri], {})[obj.uri] = obj.key
    changes, ended = [], 0
    for partition, own in by_partition.items():
        blank = blank_row(stream, partition, options)
        objects = [file.object for file in own]
        present = [*state.unchanged.get(partition, ()), *objects]
        row = dataclasses.replace(blank, mode="repair", **committed_columns(own), **read_from(stream, present))
        new = Renewed(inspection.described, own, list(gone.get(partition, ())))
        appends = {MANIFEST: [*noted(own), *ended_values(gone.get(partition, {}))]}
        changes.append(Change(stream.table, partition, row, new, appends=appends))
        ended += len(new.ended)
    done = [committed.row for committed in commit(lake, changes)]
    updated = {partition.path: sum(file.rows for file in own) for partition, own in by_partition.items()}
    return Repaired(tuple(done), ended, sum(file.rows > 0 for file in files), errors, updated)
