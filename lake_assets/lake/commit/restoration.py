"""The return of a partition's rows of an earlier snapshot, as one commit; and the end of a hold."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.errors import CatalogError
from lake_assets.lake.commit.change import Change
from lake_assets.lake.commit.replacement import Replacement
from lake_assets.lake.ledger.tables import LedgerRow, OwnTable, Values
from lake_assets.lake.session import TableName
from lake_assets.layout.partition import Partition


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a data file of the snapshot, under a name that the catalog has never had."""

    file_id: int  # of the original
    uri: str
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Restoration(Replacement):
    """A commit that replaces the partition's rows by those of an earlier snapshot."""

    snapshot: int = 0
    copies: Sequence[Copy] = ()
    selected: Mapping[str, str] | None = None  # columns of today and their names then, for a copy of the rows

    @property
    def extra_info(self) -> str:
        """The message for programs: a JSON object with the partition and the snapshot."""
        row = self.row
        names = {"run_id": row.run_id, "stream": row.stream, "load_partition": row.load_partition}
        return json.dumps({**names, "restored_snapshot": self.snapshot})

    def gone(self) -> CatalogError:
        """The error for a snapshot that expired while its files were being copied."""
        return CatalogError(
            f"snapshot {self.snapshot} expired while partition {self.partition} was being restored:",
            "nothing was changed; choose another snapshot.",
        )


@dataclass(frozen=True, slots=True)
class Release(Change):
    """A commit that ends the hold of a partition, and changes no row."""

    table: TableName
    partition: Partition
    row: LedgerRow

    def ledger_rows(self) -> Mapping[Partition, LedgerRow]:
        """See `Change`."""
        return {self.partition: self.row}

    def appends(self, rows: Sequence[LedgerRow]) -> dict[OwnTable, list[Values]]:
        """None: the rows are those of an earlier commit."""
        del rows
        return {}
