"""The Spark session of a command, started when there is work for it."""

# ruff: noqa: PLC0415 - pyspark is imported when there is work for it

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lake_assets.cli.interrupt import interrupt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Session:
    """Starts the session at the first call, and returns the same one at later calls.

    With `debug` Spark's errors are logged to standard error, unless the settings have a log level. `transforms` is as
    in `spark_config`.
    """

    def __init__(self, settings: Mapping[str, str], *, debug: bool = False, transforms: bool = True) -> None:
        self._transforms = transforms
        self._settings = settings
        self._debug = debug
        self._session: SparkSession | None = None
        self.announce: Callable[[str | None], None] = lambda _: None
        """Called with a text before Spark starts, and with None after that."""
        self.seconds = 0.0
        """Duration of the start."""

    def __call__(self) -> "SparkSession":
        """Return the session."""
        from lake_assets.spark.remote import has_stopped
        from lake_assets.spark.spark_session import LOG_LEVEL, spark_config, start_session

        if self._session is None or has_stopped(self._session):
            start = time.perf_counter()
            settings = {LOG_LEVEL: "ERROR", **self._settings} if self._debug else self._settings
            self.announce("starting Spark")
            try:
                # An interrupt would leave a JVM running that is not connected yet.
                with interrupt.held_back():
                    self._session = start_session(spark_config(settings=settings, transforms=self._transforms))
            finally:
                self.announce(None)
            self.seconds = time.perf_counter() - start
        return self._session

    @contextmanager
    def stopped(self) -> Iterator["Session"]:
        """Stop the session at the end of the block, unless it ran before."""
        running = "pyspark" in sys.modules and sys.modules["pyspark"].sql.SparkSession.getActiveSession() is not None
        try:
            yield self
        finally:
            if self._session is not None and not running:
                from py4j.protocol import Py4JError
                from pyspark.sql import SparkSession

                from lake_assets.spark.python_side import stop_session

                if interrupt.pressed and isinstance(self._session, SparkSession):  # not a Spark Connect client
                    with suppress(Py4JError, ConnectionError):  # its JVM has ended
                        self._session.sparkContext.setLogLevel("OFF")  # otherwise each stopped task logs an error
                stop_session(self._session)
