"""Several partitions of a run as one commit: one transaction, one snapshot, and each partition whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.lake.commit.change import Change
from lake_assets.lake.commit.deltas import Delta
from lake_assets.lake.commit.replacement import Replacement
from lake_assets.lake.ledger.tables import LedgerRow
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

    def manifest_rows(self) -> list[tuple[object, ...]]:
        """The rows of all partitions."""
        return [values for one in self.replacements for values in one.manifest_rows()]

    @property
    def exported(self) -> Delta | None:
        """The exported changes of the first partition; those of all have the same snapshot and time."""
        return next((one.delta for one in self.replacements if one.delta is not None), None)

    def delta_rows(self) -> list[tuple[object, ...]]:
        """The rows of all partitions."""
        return [values for one in self.replacements for values in one.delta_rows()]

    def letter_rows(self, snapshot_id: int) -> list[tuple[object, ...]]:
        """The rows of all partitions."""
        return [values for one in self.replacements for values in one.letter_rows(snapshot_id)]
