"""The outcomes that a driver reports are events of the process that launched it."""

import logging

from lake_assets.errors import SourceError
from lake_assets.events import Event, listening
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.partition_run import IngestResult, Outcome, PartitionRun
from lake_assets.ingest.reported import reported_run
from lake_assets.launch.received import report_outcome
from lake_assets.storage.manifest import Manifest
from lake_assets_tests.world import NW, SW, World

NE = "region=NE,date=2026-02-11"


def test_each_outcome_is_an_event_and_the_run_counts_them(local_world: World) -> None:
    run = PartitionRun(local_world.stream, local_world.partition(NW), IngestOptions(run_id="r"))
    run.update(status="committed", row_count=5, bytes_written=7, snapshot_id=3)
    result = IngestResult(run.row, Manifest(()), "", None, {"list": 1.0, "commit": 0.5})
    seen: list[Event] = []

    with listening(seen.append), reported_run("r", "sales", "replace", 3):
        report_outcome("r", "sales", Outcome(local_world.partition(NW), result))
        report_outcome("r", "sales", Outcome(local_world.partition(SW), error=SourceError("it is bad:", "fix it.")))
        report_outcome("r", "sales", Outcome(local_world.partition(NE)))

    committed, failed, left_out = (event for event in seen if event.event == "partition")
    assert (committed.status, committed.rows, committed.bytes, committed.snapshot) == ("committed", 5, 7, 3)
    assert committed.seconds == 1.5
    assert (failed.status, failed.kind, failed.message) == ("failed", "SourceError", "it is bad: fix it.")
    assert (failed.level, failed.partition) == (logging.ERROR, "region=SW/date=2026-02-11")
    assert left_out.status == "left_out"
    assert (seen[-1].event, seen[-1].committed, seen[-1].failed) == ("run", 1, 1)
