"""The events of a run whose driver is another process: what became of its partitions.

Its steps, tasks and retries arrive from the driver as they are.
"""

import logging

from lake_assets.events import report
from lake_assets.ingest.partition_run import Outcome
from lake_assets.ingest.reported import error_text, report_partition


def report_outcome(run_id: str, stream: str, outcome: Outcome) -> None:
    """Report what became of a partition that a driver has reported, or of which it said nothing."""
    error, result = outcome.error, outcome.result
    if error is None and result is not None:
        report_partition(result.row, result.seconds, result.row.status, None)
    elif error is None:
        report("partition", run=run_id, stream=stream, partition=outcome.partition.path, status="left_out")
    else:
        report(
            "partition",
            level=logging.ERROR,
            run=run_id,
            stream=stream,
            partition=outcome.partition.path,
            status="failed",
            kind=type(error).__name__,
            message=error_text(error),
        )
