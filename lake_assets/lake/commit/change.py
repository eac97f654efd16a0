"""The common part of all commits: a table, and the ledger and manifest rows of the same transaction."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from lake_assets.lake.commit.deltas import Delta
from lake_assets.lake.ledger.tables import LedgerRow, OwnTable, Values
from lake_assets.lake.session import TableName
from lake_assets.layout.partition import Partition


class Change(ABC):
    """A change of a table that one transaction commits, with a ledger row for each partition."""

    table: TableName

    @abstractmethod
    def ledger_rows(self) -> Mapping[Partition, LedgerRow]:
        """The ledger rows; the commit sets their snapshot_id, rows_before and finished_at."""

    @abstractmethod
    def appends(self, rows: Sequence[LedgerRow]) -> dict[OwnTable, list[Values]]:
        """The rows for tables of this package, from the ledger rows as committed; the ledger's own are added."""

    @property
    def exported(self) -> Delta | None:
        """The exported changes, whose snapshot the commit must become; None if nothing is exported."""
        return None

    def committed(self, rows_before: Mapping[Partition, int], snapshot_id: int) -> list[LedgerRow]:
        """The ledger rows as part of a snapshot."""
        return [
            row.committed(rows_before=rows_before.get(partition, 0), snapshot_id=snapshot_id)
            for partition, row in self.ledger_rows().items()
        ]

    @property
    def message(self) -> str:
        """The snapshot's commit message."""
        row, *others = self.ledger_rows().values()
        partitions = f"{len(others) + 1:,} partitions" if others else row.load_partition
        modes = " and ".join(dict.fromkeys(one.mode for one in (row, *others)))
        return f"{row.stream} {partitions}: {modes} by run {row.run_id}"

    @property
    def extra_info(self) -> str:
        """The message for programs: a JSON object."""
        row, *others = self.ledger_rows().values()
        return json.dumps({"run_id": row.run_id, "stream": row.stream, "load_partitions": len(others) + 1})
