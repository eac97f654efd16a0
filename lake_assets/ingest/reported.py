"""The events of a run: its begin and end, the steps of its partitions, and what became of each."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lake_assets.errors import LakeAssetsError, is_interrupt
from lake_assets.escapes import visible
from lake_assets.events import Event, about, failure, listening, pass_on, report
from lake_assets.ingest.outcome import Outcome
from lake_assets.lake.ledger.tables import LedgerRow

# Steps of several partitions together, which the run reports with the sums of their figures.
SHARED = frozenset({"check", "job", "evolve"})


@contextmanager
def of_partition(row: LedgerRow) -> Iterator[None]:
    """Give the run, the stream and the partition to the events of the block."""
    with about(run=row.run_id, stream=row.stream, partition=row.load_partition):
        yield


def report_step(row: LedgerRow, name: str, seconds: float, error: BaseException | None) -> None:
    """Report a step of one partition, with the figures that the step has found."""
    if name in SHARED:
        return
    figures: dict[str, Any] = {}
    if error is not None:
        figures = failure(error)
    elif name == "list":
        figures = {"objects": row.source_files, "bytes": row.source_bytes}
    elif name == "commit":
        figures = {"rows": row.row_count, "bytes": row.bytes_written, "files": row.files_written}
        figures |= {"snapshot": row.snapshot_id, "status": row.status}
    report("step", step=name, seconds=seconds, **figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEnded(Event):
    """The end of a partition of a run, with its outcome."""

    outcome: Outcome


def report_outcome(outcome: Outcome) -> None:
    """Report what became of a partition."""
    row, error = outcome.row, outcome.error
    fields: dict[str, Any] = {"run": row.run_id, "stream": row.stream, "partition": row.load_partition}
    fields |= {"status": outcome.status, "mode": row.mode, "objects": row.source_files}
    if error is not None:
        fields |= {"level": logging.WARNING if is_interrupt(error) else logging.ERROR}
        fields |= {"kind": type(error).__name__, "message": error_text(error)}
    elif outcome.status == "committed":
        fields |= {"files": row.files_written, "rows": row.row_count, "rows_before": row.rows_before}
        fields |= {"bytes": row.bytes_written, "snapshot": row.snapshot_id}
    pass_on(PartitionEnded(event="partition", seconds=sum(outcome.seconds.values()), outcome=outcome, **fields))


def error_text(error: BaseException) -> str:
    """Return the text of an error; of one that is no error of this package, its type too."""
    return str(error) if isinstance(error, LakeAssetsError) else visible(f"{type(error).__name__}: {error}")


@contextmanager
def reported_run(run_id: str, stream: str, mode: str, partitions: int | None) -> Iterator[None]:
    """Report the begin and the end of a run, with the number of partitions of each outcome."""
    fields: dict[str, Any] = {"run": run_id, "stream": stream, "mode": mode, "partitions": partitions}
    outcomes: Counter[str] = Counter()

    def count(event: Event) -> None:
        if event.event == "partition" and event.run == run_id and event.stream == stream:
            outcomes[event.status or ""] += 1

    report("run_started", **fields)
    start, ended_by = time.perf_counter(), None
    try:
        with listening(count):
            yield
    except BaseException as error:
        ended_by = error
        raise
    finally:
        fields |= {name: outcomes[name] for name in ("committed", "skipped", "failed")}
        report("run", seconds=time.perf_counter() - start, **fields, **_end(outcomes, ended_by))


def _end(outcomes: Mapping[str, int], error: BaseException | None) -> dict[str, Any]:
    if error is not None and is_interrupt(error):
        return {"level": logging.WARNING, "status": "cancelled", "kind": type(error).__name__}
    if error is not None:
        return {"level": logging.ERROR, "status": "failed", "kind": type(error).__name__}
    if outcomes["failed"]:
        return {"level": logging.ERROR, "status": "failed"}
    return {"status": "committed" if outcomes["committed"] else "skipped"}
