"""What a launcher has received from a driver, and the events that come of it."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lake_assets.errors import DriverLostError, LauncherError
from lake_assets.events import Event, pass_on, report
from lake_assets.ingest.partition_run import Outcome
from lake_assets.ingest.reported import error_text, report_partition
from lake_assets.layout.partition import Partition
from lake_assets.remote.messages import End, Message, Parts, Reported, report_of


@dataclass(frozen=True, slots=True)
class Ended:
    """How a driver's process ended.

    Attributes:
        reason: for errors of partitions without an outcome.
        hint: where the driver's own output is, or what to do.
        may_pass: whether a retry may succeed if the driver had started.
    """

    reason: str
    hint: str = "its own output, on stdout and stderr, says why."
    may_pass: bool = True


class Received:
    """Takes the messages of one driver.

    Args:
        partitions: those of the request.
        note: is called with the outcome of each partition when it arrives.
        opened: is called when the driver has started.
        log: is called with level and text of each message of the driver's log, and of the launcher's warnings.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        note: Callable[[Reported], None],
        opened: Callable[[], None] = lambda: None,
        log: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self._partitions = {partition.path: partition for partition in partitions}
        self._note = note
        self._opened = opened
        self.log = log
        self._reported: set[Partition] = set()
        self._parts = Parts()
        self._has_started = False
        self._end: End | None = None
        self._problem: BaseException | None = None  # of this process, with a message

    @property
    def has_started(self) -> bool:
        """Whether the driver has started."""
        return self._has_started

    @property
    def has_all(self) -> bool:
        """Whether the driver has reported all that it will."""
        return self._end is not None

    @property
    def is_complete(self) -> bool:
        """Whether it has done so at the end of its work, and not because it was ended."""
        return self._end is not None and not self._end.is_cancelled

    def open(self) -> None:
        """Note that the driver has started."""
        self._has_started = True
        self._opened()

    @contextmanager
    def warning(self, consequence: str) -> Iterator[None]:
        """Warn of a launcher's error in the block, where an interrupt or what the driver has reported counts more.

        Args:
            consequence: of the error.
        """
        try:
            yield
        except LauncherError as error:
            self.log("WARNING", f"{consequence}: {error}")

    def receive(self, message: Message) -> None:
        """Take a message. An error of this process is raised by `finish`, in the thread that launched the driver."""
        try:
            if (whole := self._parts.whole(message)) is None:
                return
            told = report_of(whole, self._partitions)
            if isinstance(told, Event):
                pass_on(told)
            elif isinstance(told, End):
                self._end = told
            else:
                self._reported.add(told.outcome.partition)
                self._note(told)
        except BaseException as error:  # noqa: BLE001 - see above
            self._problem = self._problem or error

    def finish(self, ended: Ended) -> None:
        """Take the end of the driver's process: partitions without an outcome get an error.

        Raises:
            Exception: what ended the run in the driver, or what a message raised here.
        """
        if self._problem is not None:
            raise self._problem
        if self._end is not None and self._end.error is not None:
            raise self._end.error
        self.fail(self._lost(ended))

    def fail(self, error: LauncherError) -> None:
        """Give the partitions without an outcome this error."""
        for partition in self._partitions.values():
            if partition not in self._reported:
                self._note(Reported(Outcome(partition, error=error)))

    def _lost(self, ended: Ended) -> LauncherError:
        if not self._has_started:
            return LauncherError(f"the driver of the run did not start ({ended.reason}):", ended.hint)
        kind = DriverLostError if ended.may_pass else LauncherError
        return kind(f"the driver of the run ended before the partition did ({ended.reason}):", ended.hint)


def report_outcome(run_id: str, stream: str, outcome: Outcome) -> None:
    """Report what became of a partition that a driver has reported, or of which it said nothing."""
    error, result = outcome.error, outcome.result
    if error is None and result is not None:
        report_partition(result.row, result.seconds, result.row.status, None)
    elif error is None:
        report("partition", run=run_id, stream=stream, partition=outcome.partition.path, status="left_out")
    else:
        report(
            "partition",
            level=logging.ERROR,
            run=run_id,
            stream=stream,
            partition=outcome.partition.path,
            status="failed",
            kind=type(error).__name__,
            message=error_text(error),
        )
