"""The outcomes that a driver reports are events of the process that launched it."""

import logging
from dataclasses import replace

from lake_assets.base.errors import LauncherError, SourceError
from lake_assets.base.events import Event, listening
from lake_assets.ingest.outcome import IngestOptions, Outcome, expected_outcomes, reported_run
from lake_assets.wings.launch.pipes import Received
from lake_assets.wings.launch.request import message_of
from lake_assets_tests.world import NW, SW, World

NE, SE = "region=NE,date=2026-02-11", "region=SE,date=2026-02-11"


def test_each_outcome_is_an_event_and_the_run_counts_them(local_world: World) -> None:
    partitions = [local_world.partition(text) for text in (NW, SW, NE, SE)]
    outcomes = expected_outcomes(local_world.stream, partitions, IngestOptions(run_id="r"))
    done, bad, nothing, lost = outcomes
    row = replace(done.row, status="committed", row_count=5, bytes_written=7, snapshot_id=3)
    noted: list[Outcome] = []
    seen: list[Event] = []

    with listening(seen.append), reported_run("r", "sales", "replace", 4):
        received = Received(outcomes, noted.append)
        received.receive(message_of(replace(done, row=row, seconds={"list": 1.0, "commit": 0.5})))
        received.receive(message_of(replace(bad, error=SourceError("it is bad:", "fix it."))))
        received.receive(message_of(nothing))
        received.fail(LauncherError("the driver is lost:", "start it."))

    committed, failed, left_out, unreported = (event for event in seen if event.event == "partition")
    assert (committed.status, committed.rows, committed.bytes, committed.snapshot) == ("committed", 5, 7, 3)
    assert committed.seconds == 1.5
    assert (failed.status, failed.kind, failed.message) == ("failed", "SourceError", "it is bad: fix it.")
    assert (failed.level, failed.partition) == (logging.ERROR, "region=SW/date=2026-02-11")
    assert left_out.status == "left_out"
    assert (unreported.status, unreported.kind, unreported.partition) == (
        "failed",
        "LauncherError",
        lost.partition.path,
    )
    assert [outcome.partition for outcome in noted] == partitions
    assert (seen[-1].event, seen[-1].committed, seen[-1].failed) == ("run", 1, 2)
