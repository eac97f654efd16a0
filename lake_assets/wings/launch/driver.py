"""The driver of a run: it lists, runs the jobs and commits, and reports each partition when it ends."""

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType

from dagster_pipes import (
    PipesContext,
    PipesDefaultContextLoader,
    PipesDefaultMessageWriter,
    PipesEnvVarParamsLoader,
    PipesS3ContextLoader,
    PipesS3MessageWriter,
    open_dagster_pipes,
)

from lake_assets.base.errors import is_interrupt
from lake_assets.base.events import Event, ended_by, listening
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import Outcome
from lake_assets.ingest.run import passing_on_interrupts
from lake_assets.ingest.view import Viewer
from lake_assets.spark.spark_session import Sessions, own_session, submitted_session
from lake_assets.streams.load import load_config
from lake_assets.streams.stream import open_streams
from lake_assets.wings.launch.cancellation import announce
from lake_assets.wings.launch.request import OBJECTS, End, Request, message_of

_SIGNALLED = 128  # an exit code is this plus the number of the signal
_LOG_CHARACTERS = 8_000  # of a record in the launcher's log
_WITHIN = frozenset({"task", "step", "retry"})  # events of a run
_WRITE_SECONDS = 1.0  # between two objects with messages


class _Stop:
    """SIGINT and SIGTERM, which end the run as Ctrl-C ends a command."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._is_deferred = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def check(self) -> None:
        """Raise KeyboardInterrupt if there was a signal, in case a library swallowed the first one."""
        if self.number is not None:
            raise KeyboardInterrupt

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Raise nothing in the block; `check` raises later."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signal module's form
        if self.number is None:
            self.number = number
            if not self._is_deferred:
                raise KeyboardInterrupt


def main() -> int:
    """Do the run that the environment's Pipes parameters describe; returns the exit code of the process.

    It is 0 also if partitions have failed, because each failure has been reported.
    """
    stop = _Stop()
    announce()
    with _open_pipes() as pipes, _logs(pipes):
        report, end = partial(_report, pipes), End()
        try:
            with listening(partial(_pass_on, report)):
                request = Request.of_extras(pipes.extras)
                _run(request, pipes, report, stop)
        except Exception as error:  # noqa: BLE001 - the launcher raises it
            end = End(is_cancelled=True) if stop.number is not None or is_interrupt(error) else End(error)
        except KeyboardInterrupt:
            end = End(is_cancelled=True)
        report(end)
    return _SIGNALLED + (stop.number or signal.SIGINT) if end.is_cancelled else 0


def _open_pipes() -> PipesContext:
    """Take the request, and open the way for messages: files, or a bucket, as the launcher's parameters say."""
    loader = PipesEnvVarParamsLoader()  # type: ignore[no-untyped-call]
    if "bucket" not in loader.load_context_params():
        return open_dagster_pipes(
            context_loader=PipesDefaultContextLoader(), message_writer=PipesDefaultMessageWriter()
        )
    from lake_assets.wings.launch.pipes import client  # noqa: PLC0415 - imports boto3, and only some launchers use it

    s3 = client("s3")
    return open_dagster_pipes(
        context_loader=PipesS3ContextLoader(s3), message_writer=PipesS3MessageWriter(s3, interval=_WRITE_SECONDS)
    )


def _report(pipes: PipesContext, report: Outcome | End | Event) -> None:
    """Send a report to the launcher; threads may do so at the same time."""
    pipes.report_custom_message(message_of(report))


def _run(request: Request, pipes: PipesContext, report: Callable[[Outcome], None], stop: _Stop) -> None:
    config = load_config(request.config)
    request.check_same(config)
    stream = open_streams(config)[request.stream]
    columns = stream.config.partition_columns
    viewer, listed = Viewer(stream, pipes.log.warning), 0
    with _session(request, config) as sessions:
        partitions = [Partition.at(columns, path) for path in request.partitions]
        outcomes = ingest_all(stream, partitions, sessions, request.options)
        with ended_by(stop.check), passing_on_interrupts(outcomes):
            for outcome in outcomes:
                if outcome.error is not None:
                    stop.check()  # after a signal, an error of Spark or DuckDB is not a failure of the partition
                with stop.deferred():  # what is committed is reported, so that it has its event in Dagster
                    listed += len(outcome.manifest.objects)
                    if listed > OBJECTS:
                        manifest = replace(outcome.manifest, objects=())
                        outcome = replace(outcome, manifest=manifest, has_listing=False)  # noqa: PLW2901
                    report(viewer.viewed(outcome))


def _session(request: Request, config: LakeConfig) -> AbstractContextManager[Sessions]:
    """Return the session of the driver: its own, or that of the job that started it."""
    settings = config.spark.settings
    if request.launcher == "emr_serverless":
        return submitted_session(settings)
    return own_session(settings, transforms=config.streams[request.stream].transform is not None)


def _pass_on(report: Callable[[Event], None], event: Event) -> None:
    """Send what happens within the run to the launcher, which itself reports the run and its partitions."""
    if event.event in _WITHIN:
        report(event)


class _ToPipes(logging.Handler):
    def __init__(self, pipes: PipesContext) -> None:
        super().__init__()
        self._pipes = pipes

    def emit(self, record: logging.LogRecord) -> None:
        self._pipes.log.log(record.levelno, self.format(record)[:_LOG_CHARACTERS])


@contextmanager
def _logs(pipes: PipesContext) -> Iterator[None]:
    """Send the package's own log to the launcher in the block."""
    logger, handler = logging.getLogger("lake_assets"), _ToPipes(pipes)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
