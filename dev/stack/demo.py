"""Generated retail data lands continuously in a stack's landing zone, and the terminal shows how the lake follows.

Nothing here ingests: the stack's sensor sees what has landed, and its runs bring it into the lake.
"""

import datetime as dt
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import requests
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dev.stack.configs import lake_environment
from dev.stack.site import Site, StackError
from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.texts import count
from lake_assets.lake.ledger.read import last_runs
from lake_assets.streams.load import load_config
from lake_assets.streams.pending import Lag, LandingScan, lag_by
from lake_assets.streams.stream import OpenStream, list_landed, open_streams
from lake_assets.upkeep.report.state import StreamState, state_by, summarize

STREAM = "transactions"
DAYS = 30  # that the generated data has, up to today
_REFRESH = 2.0  # seconds between two looks
_RETRY_SECONDS = 300  # seconds for the lake to follow the last landed objects
_PROGRAM = Path(sysconfig.get_path("scripts")) / "lake-assets"

_RUNS = "{ runsOrError { ... on Runs { results { status } } } }"


@dataclass(frozen=True)
class View:
    """Landing zone, lake and runs at one moment."""

    state: StreamState
    lag: Lag
    runs: dict[str, int] = field(default_factory=dict)  # the number of Dagster's runs in each status

    @property
    def objects(self) -> int:
        """The number of landed objects."""
        return sum(partition.objects for partition in self.state.partitions)

    @property
    def rows(self) -> int:
        """The number of rows in the lake."""
        return sum(partition.rows or 0 for partition in self.state.partitions)


def demo(site: Site, seconds: float | None, rate: int) -> None:
    """Land records until `seconds` have passed, or until Ctrl-C; then wait until the lake has them all.

    Args:
        site: of a stack that runs.
        seconds: for which records land; None for ever.
        rate: records per second.

    Raises:
        StackError: a command that lands fails, or the lake has not followed after five minutes.
    """
    stream = open_streams(load_config(site.lake_config))[STREAM]
    screen = _Screen(Console())
    deadline = time.monotonic() + (seconds if seconds is not None else float("inf"))
    with screen.shown():
        with _Landing.under_way(site, rate) as landing, suppress(KeyboardInterrupt):
            while time.monotonic() < deadline:
                landing.check()
                screen.show(stream, site)
                time.sleep(_REFRESH)
        _wait_for_lake(stream, site, screen)


def _wait_for_lake(stream: OpenStream, site: Site, screen: "_Screen") -> None:
    deadline = time.monotonic() + _RETRY_SECONDS
    while (view := screen.show(stream, site)) is None or view.lag.pending:
        if time.monotonic() > deadline:
            raise StackError(f"the lake has not followed after {_RETRY_SECONDS} s: see {site.url}/runs")
        time.sleep(_REFRESH)


class _Landing:
    """`python -m dev.retail | lake-assets land`, again and again, each time with other records."""

    def __init__(self, site: Site, rate: int, log: IO[bytes]) -> None:
        self.environment = lake_environment(site)
        self.rate = rate
        self.log = log
        self.seed = 0
        self._start()

    @classmethod
    @contextmanager
    def under_way(cls, site: Site, rate: int) -> Iterator["_Landing"]:
        """Records land for as long as the block lasts; then those that were read land."""
        with (site.logs / "demo.log").open("ab") as log:
            landing = cls(site, rate, log)
            try:
                yield landing
            finally:
                landing.stop()

    def _start(self) -> None:
        self.seed += 1
        first = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=DAYS - 1)
        options = [f"--rate={self.rate}", f"--days={DAYS}", f"--start={first}", f"--seed={self.seed}"]
        self.generate = self._command(sys.executable, "-m", "dev.retail", *options, stdout=subprocess.PIPE)
        self.land = self._command(_PROGRAM, "land", STREAM, "-", stdin=self.generate.stdout, stdout=self.log)
        assert self.generate.stdout is not None
        self.generate.stdout.close()  # only `land` reads it

    def _command(self, *words: str | Path, **streams: Any) -> "subprocess.Popen[bytes]":
        # In a session of its own, so that Ctrl-C reaches this process only.
        return subprocess.Popen(words, env=self.environment, stderr=self.log, start_new_session=True, **streams)

    def check(self) -> None:
        """Start again when all records have landed.

        Raises:
            StackError: a command has failed.
        """
        if self.land.poll() is None:
            return
        if self.land.returncode or self.generate.wait():
            raise StackError(f"records do not land any more: see {self.log.name}")
        self._start()

    def stop(self) -> None:
        """Land what was read, and end both commands."""
        self.land.send_signal(signal.SIGTERM)
        self.land.wait()
        self.generate.kill()  # what it has written since, nobody reads
        self.generate.wait()


class _Screen:
    """The terminal: a page that is drawn again, or a line for each look where it is not a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = Live(console=console, auto_refresh=False)

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        with self.live:
            yield

    def show(self, stream: OpenStream, site: Site) -> View | None:
        """Look, and show what is seen; None while catalog or storage is away."""
        try:
            view = look(stream, site)
        except LakeAssetsError as error:
            self._draw(Text(str(error), "red"), str(error))
            return None
        self._draw(Group(_table(view), _line(view)), _line(view))
        return view

    def _draw(self, page: Any, line: str) -> None:
        if self.console.is_terminal:
            self.live.update(page, refresh=True)
        else:
            self.console.print(line, soft_wrap=True)


def look(stream: OpenStream, site: Site) -> View:
    """Landing zone, lake and runs now, by one listing and one query of the ledger.

    Raises:
        LakeAssetsError: the landing zone cannot be listed, or the lake cannot be read.
    """
    now = dt.datetime.now(dt.UTC)
    with stream.lake.open_if_exists() as lake:
        runs = {} if lake is None else last_runs(lake, stream.table)
    ledger = stream.config.by_partition(runs)
    landed, left_out = list_landed(stream, ledger, now)
    scan = LandingScan(stream, landed, runs, left_out)
    return View(state_by(scan, now), lag_by(scan, now), _statuses(site))


def _statuses(site: Site) -> dict[str, int]:
    """The number of Dagster's runs in each status; none while its web server does not answer."""
    try:
        answer = requests.post(f"{site.url}/graphql", json={"query": _RUNS}, timeout=5)
        answer.raise_for_status()
        found = [run["status"] for run in answer.json()["data"]["runsOrError"]["results"]]
    except (requests.RequestException, ValueError, KeyError, TypeError):
        return {}
    return {status: found.count(status) for status in sorted(set(found))}


def _table(view: View) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("region")
    for title in ("landed objects", "partitions", "in the lake", "waiting", "failed", "rows in the lake"):
        table.add_column(title, justify="right")
    by_group = {summary.partitions: summary for summary in summarize(view.state)}
    for group, summary in by_group.items():
        of_group = [p for p in view.state.partitions if p.partition.path.startswith(f"{group}/")]
        table.add_row(
            group.partition("=")[2],
            f"{sum(p.objects for p in of_group):,}",
            f"{sum(p.objects > 0 for p in of_group):,}",
            f"{summary.counts['committed']:,}",
            f"{sum(p.is_waiting for p in of_group):,}",
            f"{summary.counts['failed']:,}",
            f"{summary.rows:,}",
        )
    return table


def _line(view: View) -> str:
    newest = view.lag.newest_commit
    runs = ", ".join(f"{number} {status.lower()}" for status, number in view.runs.items()) or "none"
    commit = f"{newest:%H:%M:%S}" if newest else "never"
    return (
        f"landed {view.objects:,} objects; {view.rows:,} rows in the lake; waiting: "
        f"{count(len(view.lag.pending), 'partition')}, lag {view.lag.seconds:.0f} s; last commit {commit}; runs: {runs}"
    )
