"""What an index of landed files puts into the lake by one commit, in the words that both of its strategies share."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lake_assets.errors import CatalogError
from lake_assets.lake.catalog.footers import FileFacts
from lake_assets.lake.catalog.registered import PathState
from lake_assets.lake.catalog.table import Table
from lake_assets.lake.ledger.tables import LedgerRow, ended_values, manifest_values
from lake_assets.lake.schema.fitting import Folders
from lake_assets.lake.session import TableName
from lake_assets.layout.partition import Partition
from lake_assets.storage.manifest import Manifest
from lake_assets.storage.store import LandedObject


@dataclass(frozen=True, slots=True)
class LandedFile:
    """A landed file that has been looked at, and fits the table."""

    object: LandedObject
    partition: Partition
    rows: int
    inside: frozenset[str]  # partition columns that readers take from the file, for its path does not say them
    facts: FileFacts | None  # None: it must go by the extension
    folders: Folders = frozenset()  # partition columns that the path says under another name

    @property
    def uri(self) -> str:
        """Where it lies."""
        return self.object.uri


@dataclass(frozen=True)
class Registration:
    """What one commit does: these files become the table's, and a ledger row a partition tells."""

    table: TableName
    described: Table | None  # the table that the files' facts are about; None: the direct strategy is not the way
    files: Sequence[LandedFile]
    rows: Mapping[Partition, LedgerRow]  # snapshot_id, rows_before and finished_at are filled in by the commit

    @cached_property
    def with_rows(self) -> Sequence[LandedFile]:
        """The files that there is something of to register; the others the manifest alone remembers."""
        return [file for file in self.files if file.rows]

    def done(self, *, rows_before: Mapping[Partition, int], snapshot_id: int) -> list[LedgerRow]:
        """The ledger rows of this commit as part of a snapshot."""
        return [
            row.committed(rows_before=rows_before.get(partition, 0), snapshot_id=snapshot_id)
            for partition, row in self.rows.items()
        ]

    def manifest_rows(self) -> list[tuple[object, ...]]:
        """A row for each file, in the order of the manifest table's columns."""
        return [v for f in self.files for v in manifest_values(self.rows[f.partition], Manifest((f.object,)))]

    @property
    def _any_row(self) -> LedgerRow:
        return next(iter(self.rows.values()))

    @property
    def message(self) -> str:
        """The snapshot's commit message."""
        row, several = self._any_row, len(self.rows)
        partitions = row.load_partition if several == 1 else f"{several:,} partitions"
        return f"{row.stream} {partitions}: {row.mode} by run {row.run_id}"

    @property
    def extra_info(self) -> str:
        """The same for programs: a JSON object."""
        row = self._any_row
        return json.dumps({"run_id": row.run_id, "stream": row.stream, "load_partitions": len(self.rows)})


@dataclass(frozen=True)
class Repair(Registration):
    """A commit for registered files that are no longer what they were: these are renewed, those end.

    The files are registered already, and the catalog is told anew what is in them. That changes what all snapshots say
    of them, the old ones too: what was there before, no reader can have any more. A file that has no rows now ends.
    """

    vanished: Mapping[str, Partition] = field(default_factory=dict)  # by URI; they end too

    @property
    def ended(self) -> Sequence[str]:
        """URIs of all files that end."""
        return [*self.vanished, *(file.uri for file in self.files if not file.rows)]

    def manifest_rows(self) -> list[tuple[object, ...]]:
        """As of a registration; and a row for each file that vanished, so that it is not known as it was."""
        return super().manifest_rows() + [ended_values(self.rows[p], uri) for uri, p in self.vanished.items()]


class RegisteredBeforeError(CatalogError):
    """The catalog has some of the paths already; nothing has changed."""

    def __init__(self, states: Mapping[str, PathState]) -> None:
        super().__init__(f"{len(states)} of the files were registered before, such as {min(states)}.")
        self.states = states


class RefusedFilesError(CatalogError):
    """DuckLake's extension does not take one of the files; nothing has changed."""
