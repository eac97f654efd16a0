"""A driver that executes on another machine, from its start to its end."""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from lake_assets.remote.received import Ended, Received


class ElsewhereDriver(Protocol):
    """A driver whose messages are in a bucket."""

    @property
    def name(self) -> str:
        """For messages, such as `job run 00f5q3k2abcdef01`."""

    @property
    def poll_seconds(self) -> float:
        """Seconds between two looks at it."""

    def start(self, variables: Mapping[str, str]) -> None:
        """Start it with Pipes' variables."""

    def has_ended(self) -> bool:
        """Whether it has ended."""

    def cancel(self, look: Callable[[], None]) -> None:
        """End it, after it has recorded what it had begun.

        Args:
            look: is called while the driver records.

        Raises:
            LauncherError: it could not be ended.
        """

    def ended(self) -> Ended:
        """How it ended."""


def attend(driver: ElsewhereDriver, received: Received, look: Callable[[], None] = lambda: None) -> None:
    """Wait for the end of a driver that has been started.

    Args:
        driver: is cancelled by an interrupt.
        received: takes a warning if it cannot be cancelled.
        look: is called between two looks at the driver; it may take new messages.

    Raises:
        LauncherError: the driver or its messages cannot be reached.
        BaseException: an interrupt, after the driver is cancelled.
    """
    try:
        while not driver.has_ended():
            look()
            time.sleep(driver.poll_seconds)
    except BaseException:
        with received.warning(f"The {driver.name} goes on"):
            driver.cancel(look)
        raise
