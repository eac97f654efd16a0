"""Partitions of a run of which nothing is known yet."""

import datetime as dt

from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.ingest.outcome import Outcome
from lake_assets.lake.ledger.tables import LedgerRow

NW = Partition.at((PartitionColumn("region", "string"),), "region=NW")
NOW = dt.datetime(2026, 2, 11, 12, 30, 1, 5, tzinfo=dt.UTC)


def undone(*partitions: Partition) -> list[Outcome]:
    """An outcome of each partition that is to be received."""
    return [
        Outcome(
            partition=partition,
            row=LedgerRow(
                run_id="r", run_at=NOW, stream="sales", source_glob="g", destination_table="t", status="failed",
                partition_columns="region", load_partition=partition.path, mode="replace", started_at=NOW,
            ),
        )
        for partition in partitions
    ]  # fmt: skip
