"""Dagster's log carries the events of a run, for handlers that write JSON; what its UI shows does not change."""

import json
import logging
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pytest

from lake_assets.base.events import report
from lake_assets.orchestration.event_log import EventLog
from lake_assets_tests.orchestration.in_process import Materialize
from lake_assets_tests.world import NW, SW, World, sales


class Appending(logging.Handler):
    """Appends each record to a file, which it closes again."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = Path(file)

    def emit(self, record: logging.LogRecord) -> None:
        with self._file.open("a") as file:
            file.write(f"{self.format(record)}\n")


def handlers(file: Path) -> dict[str, Any]:
    """The part of `dagster.yaml` that operate.md shows, with a file instead of standard error."""
    return {
        "python_logs": {
            "dagster_handler_config": {
                "handlers": {
                    "json": {
                        "class": f"{__name__}.Appending",
                        "file": str(file),
                        "level": "DEBUG",
                        "formatter": "json",
                    }
                },
                "formatters": {"json": {"()": "lake_assets.base.events.JsonFormatter"}},
            }
        }
    }


@pytest.mark.more
def test_a_handler_gets_each_event_of_the_run_once(
    materialize: Materialize, local_world: World, tmp_path: Path
) -> None:
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, b"no parquet")
    file = tmp_path / "run.jsonl"

    with dg.instance_for_test(temp_dir=str(tmp_path), overrides=handlers(file)) as instance:
        failed = materialize("2026-02-11|NW", "2026-02-11|SW", instance=instance, raise_on_error=False)
        shown = [record.message for record in instance.all_logs(failed.run_id)]

    lines = [json.loads(text) for text in file.read_text().splitlines()]
    own = [found for found in lines if found["event"] != "log"]
    assert {found["run"] for found in own} == {failed.run_id}
    assert [found["event"] for found in own if found["event"] != "step"] == [
        "run_started",
        "partition",
        "partition",
        "run",
    ]
    outcomes = {found["partition"]: found for found in own if found["event"] == "partition"}
    assert outcomes["region=NW/date=2026-02-11"]["rows"] == 2
    assert outcomes["region=SW/date=2026-02-11"]["kind"] == "SourceError"
    assert [found["step"] for found in own if found["event"] == "step"].count("commit") == 1
    # The others are Dagster's own.
    assert any(found["event"] == "log" and found.get("dagster_event") == "STEP_FAILURE" for found in lines)
    assert any("committed: 2 rows" in text for text in shown)
    assert not any("run_started" in text for text in shown)


def test_retries_of_a_run_are_one_warning_with_a_line_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog(cast("dg.DagsterLogManager", logging.getLogger("dagster")), "r")

    with caplog.at_level(logging.INFO), log.open():
        report("retry", run="r", kind="task", message="a task of Spark failed")
        for run in ("r", "another", "r"):
            report("retry", run=run, kind="conflict", partition="region=NW/date=2026-02-11")
        log.info("done")

    assert caplog.messages == [
        "Retried (task): a task of Spark failed\nRetried 2 times (conflict): region=NW/date=2026-02-11",
        "done",
    ]
