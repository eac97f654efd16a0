"""A driver of any engine, from its start to its end, for the command line and for Dagster.

An engine is a `RemoteDriver` in a file of its own, and a line of `_driver_of`.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import EmrServerless, InProcess
from lake_assets.wings.launch.emr_serverless import JobDriver
from lake_assets.wings.launch.pipes import Ended, Received, take
from lake_assets.wings.launch.request import Request
from lake_assets.wings.launch.spark_submit import SubmittedDriver, submission


class Messages(Protocol):
    """The way of the request to a driver, and of its messages back."""

    def opened(self, request: Request, received: Received) -> AbstractContextManager[dict[str, str]]:
        """Put the request in its place, and yield Pipes' variables for the driver; the end of the block removes it."""

    def new(self) -> Iterable[str]:
        """Return the lines since the last call; it may wait for more of them while the driver runs."""


class RemoteDriver(Protocol):
    """A driver in a process of its own."""

    @property
    def messages(self) -> Messages:
        """Those of this driver."""

    @property
    def name(self) -> str:
        """For messages, such as `job run 00f5q3k2abcdef01`."""

    @property
    def poll_seconds(self) -> float:
        """Seconds between two looks at it."""

    def start(self, variables: Mapping[str, str]) -> None:
        """Start it with Pipes' variables."""

    def has_ended(self) -> bool:
        """Return whether it has ended."""

    def cancel(self, look: Callable[[], None]) -> None:
        """End it, after it has recorded what it had begun.

        `look` takes new messages; it is called while the driver records.
        """

    def ended(self) -> Ended:
        """Return how it ended; what is left of it is removed."""


def launch(config: LakeConfig, request: Request, received: Received) -> Ended:
    """Start a driver by the config's launcher, take its messages while it runs, and wait for its end.

    An interrupt is raised again after the driver is cancelled and its last messages are taken; what then fails is a
    warning.
    """
    driver = _driver_of(config, request, received)
    with driver.messages.opened(request, received) as variables:
        driver.start(variables)
        return await_end(driver, received)


def _driver_of(config: LakeConfig, request: Request, received: Received) -> RemoteDriver:
    runs = config.runs
    assert not isinstance(runs, InProcess)  # noqa: S101 - that one is not run by a driver
    if isinstance(runs, EmrServerless):
        return JobDriver(config, runs, request, received)
    return SubmittedDriver(submission(config, runs, transforms=config.streams[request.stream].transform is not None))


def await_end(driver: RemoteDriver, received: Received) -> Ended:
    """Take the messages of a driver that has been started, and wait for its end; raises as `launch`."""

    def look() -> None:
        for line in driver.messages.new():
            take(line, received)

    try:
        while not driver.has_ended():
            look()
            time.sleep(driver.poll_seconds)
        look()
        return driver.ended()
    except BaseException:
        with received.warning(f"The {driver.name} goes on"):
            driver.cancel(look)
        with received.warning("The driver's last messages are not read"):
            look()
        raise
