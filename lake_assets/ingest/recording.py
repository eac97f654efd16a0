"""The ledger rows of skipped partitions, and which of them say something new."""

from collections.abc import Sequence

from lake_assets.events import step
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.lake.ledger.last_runs import last_runs
from lake_assets.lake.ledger.tables import record
from lake_assets.lake.session import LakeSession
from lake_assets.streams.stream import OpenStream


def record_skipped(lake: LakeSession, stream: OpenStream, runs: Sequence[PartitionRun]) -> None:
    """Write the ledger rows of skipped partitions, in one snapshot; none if there is no row to write.

    With `record_skipped: false`, a partition has no row if its newest row says the same: it committed these objects,
    or found nothing to do with them. After a failure it gets a row, because reports show the newest one.

    Raises:
        CatalogError: the catalog refuses, after some tries.
    """
    runs = [run for run in runs if run.is_recorded]
    if runs and not stream.config.record_skipped:
        last = last_runs(lake, stream.table, [run.partition for run in runs])
        known = {path for path, runs_of in last.items() if runs_of.status in ("committed", "skipped")}
        runs = [
            run
            for run in runs
            if run.partition.path not in known or last[run.partition.path].fingerprint != run.row.source_fingerprint
        ]
    if runs:
        with step("ledger", partitions=len(runs)):
            record(lake, [run.row for run in runs])
