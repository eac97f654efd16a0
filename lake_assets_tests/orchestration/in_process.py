"""Partitions of a world's stream, materialized as Dagster's in-process executor does."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import pytest

from lake_assets.lake.commit.change import Committed
from lake_assets.lake.commit.strategy import commit

FEBRUARY_11 = {"date": {"type": "date", "start": "2026-02-11", "end": "2026-02-13"}}
REGIONS = {"partitions": {"region": {"values": ["NW", "SW"]}} | FEBRUARY_11}

Materialize = Callable[..., dg.ExecuteInProcessResult]


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    (event,) = result.get_step_failure_events()
    assert event.step_failure_data.user_failure_data is not None
    return event.step_failure_data.user_failure_data.description or ""


def shown_error(result: dg.ExecuteInProcessResult) -> str:
    """What Dagster shows of the failure of a run's step: the text, with tracebacks if it has any."""
    (event,) = result.get_step_failure_events()
    return event.step_failure_data.error_display_string


def logged(instance: dg.DagsterInstance) -> str:
    """What runs have logged. Their standard error has it too, but late: another process copies it from a file."""
    return "\n".join(entry.user_message for run in instance.get_runs() for entry in instance.all_logs(run.run_id))


def failing_once(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, after: int = 0, times: int = 1
) -> Iterator[int]:
    """Let the commit of one partition raise what none should; returns the count of commits."""
    calls = itertools.count()

    def broken(*arguments: Any) -> list[Committed]:
        if after <= next(calls) < after + times:
            raise error
        return commit(*arguments)

    monkeypatch.setattr("lake_assets.ingest.replace.replace_run.commit", broken)
    return calls
