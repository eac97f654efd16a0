"""What a deployment needs in a day, predicted from what the benchmarks have measured.

The constants come from the smaller sizes of docs/explanation/scale/results.json, so that its largest sizes test them.
"""

import dataclasses
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from dev.benchmarks.pages import table, with_sections
from dev.benchmarks.peers.results import Refresh
from dev.benchmarks.peers.results import Results as Peers
from dev.benchmarks.scale.driver import OBJECTS
from dev.benchmarks.scale.results import Grown, Rate, Results
from lake_assets.storage.overlapping import AT_ONCE

DAY = 86_400.0
BATCH, LARGER = 1, 10  # partitions of the commits that the constants come from
AT_A_TIME = 1_000  # objects of a request that lists
REQUESTS = 3  # of a driver for each partition: listed twice, and its new file looked for
SIMULATED = 20  # commits of each writer; after a few each takes the same time


@dataclass(frozen=True, slots=True)
class Constant:
    """Something measured, in seconds."""

    seconds: float
    of: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A deployment. Its partitions arrive evenly, so that each writer always has some."""

    partitions: int = 1_000_000  # refreshed in a day
    objects: int = 1_000_000_000  # of the landing zone
    objects_each: int = 1  # of a refreshed partition
    rows_each: int = 1_000  # of an object
    files: int = 100_000  # of a table
    writers: int = 1  # runs at once, each with a driver of one core
    executors: int = 1  # cores of tasks, which all writers share
    lakes: int = 1  # catalogs, which share the writers evenly
    batch: int = 50  # partitions of a commit
    index: bool = True  # of partition values
    dagster: bool = False  # which launches the runs
    request: float = 0.05  # seconds of each request to the store, assumed


@dataclass(frozen=True, slots=True)
class Needed:
    """What the deployment needs in a day, and how fast it is."""

    driver: float  # busy seconds of all drivers
    tasks: float  # busy seconds of cores
    catalog: float  # seconds in which a catalog's lock is held, of all catalogs
    rate: float  # partitions a second, at most
    wait: float  # median seconds of a commit, with its wait for others
    limit: str  # what all others wait for


def constants(results: Results, peers: Peers) -> dict[str, Constant]:
    """Return the table of constants, by name."""
    few, run = min(one.writers for one in _alone(results.writers)), results.driver[-2]
    hold = {one.batch: 1 / one.rate for one in _alone(results.writers) if one.writers == few}
    more = (hold[LARGER] - hold[BATCH]) / (LARGER - BATCH)
    of_one = run.seconds["driver"], run.seconds["Spark and tasks"]
    of_many = run.seconds[f"driver, {OBJECTS} objects each"], run.seconds[f"Spark and tasks, {OBJECTS} objects each"]
    driver, tasks = ((many - one) / (OBJECTS - 1) for one, many in zip(of_one, of_many, strict=True))
    large = [one for name, one in peers.big.items() if name == "ours" and isinstance(one, Refresh)]
    each, commits = f"scale, runs of {run.size} partitions", f"scale, {few} writers"
    return {
        "driver": Constant(of_one[0] - driver, "driver: a refreshed partition", each),
        "driver_object": Constant(driver, "driver: an object of it", each),
        "dagster": Constant(0.017, "driver: Dagster's two events of a partition", "performance"),
        "task": Constant(of_one[1] - tasks, "tasks: a partition", each),
        "task_object": Constant(tasks, "tasks: an object", each),
        "task_row": Constant(
            median(large[0].processor) / 10_000_000, "tasks: a row of 20 columns", "beside its peers, 10,000,000 rows"
        ),
        "commit": Constant(hold[BATCH] - more, "catalog: a commit", commits),
        "commit_partition": Constant(more, "catalog: a partition of a commit", commits),
        "file": _slope(results.table, "commit 1", "catalog: a commit, for each file of the table"),
        "file_indexed": _slope(results.indexed, "commit 1", "the same with the index of partition values"),
        "query_file": _slope(results.table, "query of 1", "a reader's plan of a query, for each file of the table"),
        "listed": _slope(results.objects, "first reading", "listing: an object, without the request"),
    }


def _alone(rates: Sequence[Rate]) -> list[Rate]:
    """Those of one catalog by enough writers; the first of each kind is of one table and local files."""
    kinds = {(one.writers, one.batch): one for one in reversed(rates) if one.lakes == 1 and one.writers >= 4}
    return [*kinds.values()][::-1]


def _slope(grown: Sequence[Grown], name: str, of: str) -> Constant:
    """From the smallest size to the second largest."""
    first, last = grown[0], grown[-2]
    seconds = (last.seconds[name] - first.seconds[name]) / (last.size - first.size)
    return Constant(seconds, of, f"scale, {first.size:,} to {last.size:,}")


def predict(scale: Scale, of: Mapping[str, Constant]) -> Needed:
    """Simulate the writers until their rate is steady, and multiply."""
    cost = {name: constant.seconds for name, constant in of.items()}
    each, lakes = scale.objects_each, scale.lakes  # the writers of a lake have their part of the executors
    driver = cost["driver"] + each * cost["driver_object"] + scale.dagster * cost["dagster"]
    tasks = cost["task"] + each * (cost["task_object"] + scale.rows_each * cost["task_row"])
    files = scale.files * cost["file_indexed" if scale.index else "file"]
    hold = cost["commit"] + scale.batch * cost["commit_partition"] + files
    waiting = REQUESTS * scale.request / AT_ONCE
    work = (scale.batch * (driver + waiting), scale.batch * tasks * lakes / scale.executors, hold)
    writers = max(scale.writers // lakes, 1)
    seconds, wait = contend(writers, work)
    busy = {"writers": sum(work) / writers, "executors": work[1], "catalog": hold}
    return Needed(
        driver=scale.partitions * driver,
        tasks=scale.partitions * tasks,
        catalog=scale.partitions / scale.batch * hold,
        rate=lakes * scale.batch / seconds,
        wait=wait,
        limit=max(busy, key=lambda name: busy[name]),
    )


def contend(writers: int, work: tuple[float, float, float]) -> tuple[float, float]:
    """Simulate writers that each plan alone, and then share the executors and the catalog's lock, first come first.

    Returns:
        The seconds from one commit to the next, and the median seconds that a commit takes with its wait.
    """
    alone, tasks, hold = work
    ready = [(0.0, writer) for writer in range(writers)]
    executors = lock = 0.0
    commits: list[tuple[float, float]] = []  # when each ended, and how long it took
    for _ in range(writers * SIMULATED):
        now, writer = heapq.heappop(ready)
        executors = max(now + alone, executors) + tasks
        lock, asked = max(executors, lock) + hold, executors
        commits.append((lock, lock - asked))
        heapq.heappush(ready, (lock, writer))
    steady = commits[len(commits) // 2 - 1 :]  # before, the queue grows
    return (steady[-1][0] - steady[0][0]) / (len(steady) - 1), median(wait for _, wait in steady)


def measured() -> tuple[Results, dict[str, Constant]]:
    """Return the committed results, and their constants."""
    folder = Path(__file__).parents[1] / "docs" / "explanation"
    scale, peers = ((folder / name / "results.json").read_text("utf-8") for name in ("scale", "benchmarks"))
    results = Results.model_validate_json(scale)
    return results, constants(results, Peers.model_validate_json(peers))


def checks(results: Results, of: Mapping[str, Constant]) -> list[tuple[str, float, float]]:
    """Return what was measured and is none of the constants: what, as predicted, and as measured."""
    found, cost = [], {name: constant.seconds for name, constant in of.items()}
    few = min(one.writers for one in _alone(results.writers))
    for one in _alone(results.writers):
        if one.writers > few or (one.writers == few and one.batch not in (BATCH, LARGER)):
            _, wait = contend(one.writers, (0.0, 0.0, cost["commit"] + one.batch * cost["commit_partition"]))
            found.append((f"a commit of {one.batch} by each of {one.writers} writers", wait, one.median))
    for grown, name, constant, what in (
        (results.table, "commit 1", "file", "a commit, {:,} files"),
        (results.indexed, "commit 1", "file_indexed", "the same with the index"),
        (results.table, "query of 1", "query_file", "a query, {:,} files"),
        (results.objects, "first reading", "listed", "the first reading of {:,} objects"),
    ):
        first, last = grown[0], grown[-1]
        predicted = first.seconds[name] + (last.size - first.size) * cost[constant]
        found.append((what.format(last.size), predicted, last.seconds[name]))
    run = results.driver[-1]
    for constant, name in (("driver", "driver"), ("task", "Spark and tasks")):
        predicted = run.size * (cost[constant] + cost[f"{constant}_object"])
        found.append((f"{name}, a run of {run.size:,} partitions", predicted, run.size * run.seconds[name]))
    return found


DAYS: Mapping[str, Scale] = {
    "one writer, 10 cores, a commit for each partition": Scale(executors=10, batch=1),
    "one writer, 10 cores, `commit_batch: 50`": Scale(executors=10),
    "the same by Dagster": Scale(executors=10, dagster=True),
    "10 writers, 100 cores": Scale(writers=10, executors=100),
    "100 writers, 1,000 cores": Scale(writers=100, executors=1_000),
    "the same, a table of 1,000,000 files": Scale(writers=100, executors=1_000, files=1_000_000),
    "the same, without the index": Scale(writers=100, executors=1_000, files=1_000_000, index=False),
    "100 writers, 1,000 cores, 10 lakes": Scale(writers=100, executors=1_000, lakes=10),
    "the same, 100 objects of 10,000 rows": Scale(
        writers=100, executors=1_000, lakes=10, objects_each=100, rows_each=10_000
    ),
}


def with_figures(page: str) -> str:
    """Return the page of limits with the figures of the committed results; ValueError if it lacks a marker."""
    results, of = measured()
    costs = [(one.of, _shown(one.seconds), one.source) for one in of.values()]
    checked = [(what, _shown(a), _shown(b), f"{a / b:.2f}") for what, a, b in checks(results, of)]
    days = []
    for name, scale in DAYS.items():
        needed = predict(scale, of)
        hours = scale.partitions / needed.rate / 3600
        days.append((name, f"{needed.rate:,.0f}", f"{hours:.1f}", needed.limit, _shown(needed.wait)))
    sections = {
        "constants": table(("of", "takes", "measured by"), costs),
        "checks": table(("what", "predicted", "measured", "ratio"), checked),
        "days": table(("deployment", "partitions a second", "hours for a million", "limit", "a commit waits"), days),
    }
    return with_sections(page, sections)


def _shown(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}" if seconds < 1000 * unit else f"{seconds / unit:,.0f} {name}"
    return f"{seconds * 1e9:.3g} ns"


@click.command()
def main(**scale: Any) -> None:
    """Predict what a deployment needs in a day, from docs/explanation/scale/results.json."""
    asked = Scale(**scale)
    of = measured()[1]
    needed, requests = predict(asked, of), asked.objects // AT_A_TIME
    for what, figure in (
        ("partitions a second, at most", f"{needed.rate:,.1f}"),
        ("hours for all of a day", f"{asked.partitions / needed.rate / 3600:.1f}"),
        ("limit", needed.limit),
        ("a commit, with its wait", _shown(needed.wait)),
        ("drivers, busy", f"{needed.driver / DAY:.2f} cores all day"),
        ("executors, busy", f"{needed.tasks / DAY:.2f} cores all day"),
        ("catalog locked", f"{needed.catalog / DAY:.1%} of a day"),
        ("a listing of all objects", f"{requests:,} requests, {_shown(requests * asked.request)} one after the other"),
        ("an inventory of as many", f"{_shown(asked.objects * of['listed'].seconds)} of one core"),
    ):
        click.echo(f"{what:30}{figure}")


main.params += [
    click.Option([f"--{field.name.replace('_', '-')}"], default=field.default, show_default=True)
    for field in dataclasses.fields(Scale)
]


if __name__ == "__main__":
    main()
