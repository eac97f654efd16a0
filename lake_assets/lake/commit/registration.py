"""The registration of landed files in the lake, and the repair of registered files, as one commit each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lake_assets.errors import CatalogError
from lake_assets.lake.catalog.footers import FileFacts
from lake_assets.lake.catalog.mapping import Folders
from lake_assets.lake.catalog.registered import PathState
from lake_assets.lake.catalog.table import Table
from lake_assets.lake.commit.change import Change
from lake_assets.lake.ledger.tables import MANIFEST, LedgerRow, OwnTable, Values, ended_values, manifest_values
from lake_assets.lake.session import TableName
from lake_assets.layout.partition import Partition
from lake_assets.storage.manifest import LandedObject, Manifest


@dataclass(frozen=True, slots=True)
class LandedFile:
    """A landed file that was inspected and fits the table."""

    object: LandedObject
    partition: Partition
    rows: int
    inside: frozenset[str]  # partition columns that readers take from the file, because its path lacks them
    facts: FileFacts | None  # None: only the extension can register the file
    folders: Folders = frozenset()  # partition columns whose folder in the path has another name

    @property
    def uri(self) -> str:
        """The object's URI."""
        return self.object.uri


@dataclass(frozen=True)
class Registration(Change):
    """A commit that adds landed files to the table, with a ledger row for each partition."""

    table: TableName
    described: Table | None  # the table that the files' facts are about; None: only the extension can register them
    files: Sequence[LandedFile]
    rows: Mapping[Partition, LedgerRow]

    @cached_property
    def with_rows(self) -> Sequence[LandedFile]:
        """The files to register; a file without rows is only noted in the manifest."""
        return [file for file in self.files if file.rows]

    def ledger_rows(self) -> Mapping[Partition, LedgerRow]:
        """See `Change`."""
        return self.rows

    def appends(self, rows: Sequence[LedgerRow]) -> dict[OwnTable, list[Values]]:
        """A row of the manifest for each file."""
        of = dict(zip(self.rows, rows, strict=True))
        return {MANIFEST: [v for f in self.files for v in manifest_values(of[f.partition], Manifest((f.object,)))]}


@dataclass(frozen=True)
class Repair(Registration):
    """A commit that renews the facts of changed files, and ends vanished files and files that have no rows now.

    The files are registered already. The new facts apply to all snapshots, because no reader can read the earlier
    content of a changed file.
    """

    vanished: Mapping[str, Partition] = field(default_factory=dict)  # by URI

    @property
    def ended(self) -> Sequence[str]:
        """URIs of all files that end."""
        return [*self.vanished, *(file.uri for file in self.files if not file.rows)]

    def appends(self, rows: Sequence[LedgerRow]) -> dict[OwnTable, list[Values]]:
        """A row of the manifest for each file, and for each vanished file, which says that it ended."""
        of = dict(zip(self.rows, rows, strict=True))
        ended = [values for uri, partition in self.vanished.items() for values in ended_values(of[partition], [uri])]
        return {MANIFEST: super().appends(rows)[MANIFEST] + ended}


class RegisteredBeforeError(CatalogError):
    """The catalog already has some of the paths; nothing has changed."""

    def __init__(self, states: Mapping[str, PathState]) -> None:
        super().__init__(f"{len(states)} of the files were registered before, such as {min(states)}.")
        self.states = states


class RefusedFilesError(CatalogError):
    """DuckLake's extension refuses one of the files; nothing has changed."""
