"""A process that ingests partitions with the tasks of its jobs in itself, without Spark, to be killed.

    python -m lake_assets_tests.faults.ingester WORLD.json --partition TEXT … --die-at POINT [--strategy STRATEGY]

The point is a part of a statement of the catalog, or `after` and that part, or a step of the ingest: `list`,
`first job`, `examination`, `second job`, `verification`.
"""

import argparse
import itertools
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from lake_assets.ingest.api import ingest_all
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.ingest.replace import write_step
from lake_assets.lake import ducklake
from lake_assets.lake.commit import strategy as strategies
from lake_assets.parquet.job import Job, JobResult
from lake_assets.parquet.task import Bin, Task, discarding
from lake_assets.spark import pass_through, tasks
from lake_assets.streams.stream import OpenStream
from lake_assets_tests.faults.writer import STRATEGIES, deadly, die
from lake_assets_tests.world import World

STEPS = ("list", "first job", "examination", "second job", "verification")
JOBS = tuple(step for step in STEPS if step.endswith("job"))


@contextmanager
def without_spark() -> Iterator[None]:
    """The tasks of jobs run in this process, one after the other."""

    def run(_: Any, job: Job, task: Task, bins: Sequence[Bin], __: int) -> list[JobResult]:
        results: Callable[..., list[JobResult]] = vars(tasks)["_results"]
        return results(None, job, lambda: list(discarding(job, task(job, iter(bins)))))

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(pass_through, "run_tasks", run))
        stack.enter_context(mock.patch.object(pass_through, "spark_cores", return_value=1))
        yield


def dying(owner: Any, name: str, point: str, steps: Iterator[str]) -> Any:
    """A patch of a function, after which the process dies if the next of the steps is the point."""
    function = vars(owner)[name]

    def call(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        die(point, next(steps))
        return result

    return mock.patch.object(owner, name, call)


def die_at(point: str) -> None:
    """Let this process die at a step or a statement."""
    if point in STEPS:
        dying(OpenStream, "manifest", point, itertools.chain(["list"], itertools.repeat(""))).start()
        dying(write_step, "pass_through", point, iter(JOBS)).start()
        dying(write_step, "bad_objects", point, iter(["examination"])).start()
        dying(PartitionRun, "refuse_moved_source", point, iter(["verification"])).start()
        return
    connect, engine = sqlite3.connect, vars(ducklake)["open_engine"]
    mock.patch.object(sqlite3, "connect", lambda *a, **k: deadly(connect(*a, **k), point)).start()
    mock.patch.object(ducklake, "open_engine", lambda *a, **k: deadly(engine(*a, **k), point)).start()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("world", type=Path)
    parser.add_argument("--partition", action="append", required=True)
    parser.add_argument("--die-at", required=True)
    parser.add_argument("--strategy", choices=STRATEGIES)
    given = parser.parse_args()
    world = World(**json.loads(given.world.read_text()), sessions=lambda: None)  # type: ignore[arg-type, return-value]
    if given.strategy:
        mock.patch.object(strategies, "STRATEGIES", (STRATEGIES[given.strategy],)).start()
    die_at(given.die_at)
    with without_spark():
        for outcome in ingest_all(world.stream, map(world.partition, given.partition), world.sessions):
            if outcome.error is not None:
                raise outcome.error


if __name__ == "__main__":
    main()
