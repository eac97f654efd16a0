"""Several partitions of a run as one commit: one transaction, one snapshot, and each partition whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.lake.commit.change import Change
from lake_assets.lake.commit.deltas import Delta
from lake_assets.lake.commit.replacement import Replacement
from lake_assets.lake.ledger.tables import LedgerRow, OwnTable, Values
from lake_assets.lake.session import TableName
from lake_assets.layout.partition import Partition


@dataclass(frozen=True, slots=True)
class Batch(Change):
    """Replacements of partitions, and additions to them, that one transaction commits: all of them or none."""

    table: TableName
    replacements: Sequence[Replacement]  # of this table, by one run, each of another partition

    def ledger_rows(self) -> Mapping[Partition, LedgerRow]:
        """See `Change`."""
        return {one.partition: one.row for one in self.replacements}

    def appends(self, rows: Sequence[LedgerRow]) -> dict[OwnTable, list[Values]]:
        """The rows of all partitions."""
        result: dict[OwnTable, list[Values]] = {}
        for one, row in zip(self.replacements, rows, strict=True):
            for own, values in one.appends([row]).items():
                result.setdefault(own, []).extend(values)
        return result

    @property
    def exported(self) -> Delta | None:
        """The exported changes of the first partition; those of all have the same snapshot and time."""
        return next((one.delta for one in self.replacements if one.delta is not None), None)
