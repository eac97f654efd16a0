"""The end of a hold, by which a restored partition was kept off refreshes."""

import dataclasses
import datetime as dt
import uuid

from lake_assets.errors import PartitionError
from lake_assets.ingest.partition_run import blank_row
from lake_assets.lake.commit.replacement import count_partition
from lake_assets.lake.commit.restoration import Release
from lake_assets.lake.commit.strategy import commit_release
from lake_assets.lake.ledger.last_runs import last_commits
from lake_assets.lake.ledger.tables import RELEASE, RELEASED, LedgerRow, create_ledger
from lake_assets.layout.partition import Partition
from lake_assets.streams.stream import OpenStream


def release(
    stream: OpenStream, partition: Partition, *, run_id: str | None = None, requested_by: str | None = None
) -> LedgerRow:
    """End the hold of a partition: refreshes read it again. Its rows stay as they are.

    Returns:
        The ledger row.

    Raises:
        PartitionError: the partition is not held.
        CatalogError: the catalog refuses; nothing has changed.
    """
    run_id, started = run_id or str(uuid.uuid4()), dt.datetime.now(dt.UTC)
    with stream.lake.open() as session:
        create_ledger(session)

        def make() -> Release:
            last = last_commits(session, stream.table, [partition.path]).get(partition.path)
            if last is None or not last.is_held:
                raise PartitionError(f"partition {partition} of {stream.table} is not held:", "nothing was changed.")
            rows = count_partition(session, stream.table, partition)
            row = dataclasses.replace(
                blank_row(stream, partition, run_id, started),
                mode=RELEASE,
                status="committed",
                source_fingerprint=last.fingerprint,
                row_count=rows,
                rows_before=rows,
                started_at=started,
                requested_by=requested_by,
                hold=RELEASED,
            )
            return Release(stream.table, partition, row)

        return commit_release(session, make)
