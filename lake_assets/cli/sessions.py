"""A Spark session for the time of a command, started when there is work for it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lake_assets.cli.interrupt import interrupt
from lake_assets.spark.python_side import stop_session
from lake_assets.spark.session import LOG_LEVEL, spark_config, start_session


class Session:
    """Starts the session at the first call and gives the same one at the later ones.

    Args:
        settings: the config's Spark settings.
        debug: let Spark log its errors to standard error, unless the settings say what it logs.
    """

    def __init__(self, settings: Mapping[str, str], *, debug: bool = False) -> None:
        self._settings = {LOG_LEVEL: "ERROR", **settings} if debug else settings
        self._session: SparkSession | None = None
        self.announce: Callable[[str | None], None] = lambda _: None
        """Called with a sentence before Spark is started and with None after it."""
        self.seconds = 0.0
        """How long the start took."""

    def __call__(self) -> SparkSession:
        """The session.

        Raises:
            SparkUnavailableError: there is no usable Java, or the JVM ended while it started.
        """
        if self._session is None:
            start = time.perf_counter()
            self.announce("starting Spark")
            try:
                # A JVM that is not yet connected would be left behind.
                with interrupt.held_back():
                    self._session = start_session(spark_config(settings=self._settings))
            finally:
                self.announce(None)
            self.seconds = time.perf_counter() - start
        return self._session

    @contextmanager
    def stopped(self) -> Iterator["Session"]:
        """Stop what was started when the block ends; a session that ran before goes on."""
        running = SparkSession.getActiveSession() is not None
        try:
            yield self
        finally:
            if self._session is not None and not running:
                if interrupt.pressed and isinstance(self._session, SparkSession):  # not a Spark Connect client
                    with suppress(Py4JError, ConnectionError):  # its JVM has ended
                        self._session.sparkContext.setLogLevel("OFF")  # else each task tells that it was stopped
                stop_session(self._session)
