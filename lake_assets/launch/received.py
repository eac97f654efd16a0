"""What a launcher has received from a driver: the driver's events are events of this process."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lake_assets.errors import DriverLostError, LauncherError
from lake_assets.events import Event, pass_on
from lake_assets.ingest.outcome import Outcome, report_outcome
from lake_assets.remote.messages import End, Message, report_of


@dataclass(frozen=True, slots=True)
class Ended:
    """How a driver's process ended."""

    reason: str  # for errors of partitions without an outcome
    hint: str = "its own output, on stdout and stderr, says why."  # where the driver's own output is, or what to do
    may_pass: bool = True  # whether a retry may succeed if the driver had started


class Received:
    """Takes the messages of one driver."""

    def __init__(
        self,
        pending: Sequence[Outcome],
        note: Callable[[Outcome], None],
        opened: Callable[[], None] = lambda: None,
        log: Callable[[str, str], None] = lambda *_: None,
        output: Callable[[str], None] = lambda _: None,
    ) -> None:
        # The outcomes that are not known yet, by the partitions' paths
        self.pending = {outcome.partition.path: outcome for outcome in pending}
        self._partitions = {path: outcome.partition for path, outcome in self.pending.items()}
        self._note = note  # is called with the outcome of each partition when it arrives, after its event
        self._opened = opened  # is called when the driver has started
        self.log = log  # is called with level and text of messages of the driver's log, and of the launcher's warnings
        self.output = output  # takes the driver's own output, line by line, where the engine has it
        self._has_started = False
        self._end: End | None = None
        self._problem: BaseException | None = None  # of this process, with a message

    def open(self) -> None:
        """Note that the driver has started."""
        self._has_started = True
        self._opened()

    @contextmanager
    def warning(self, consequence: str) -> Iterator[None]:
        """Warn of a launcher's error in the block, where an interrupt or what the driver has reported counts more."""
        try:
            yield
        except LauncherError as error:
            self.log("WARNING", f"{consequence}: {error}")

    def receive(self, message: Message) -> None:
        """Take a message. An error of this process is raised by `finish`, in the thread that launched the driver."""
        try:
            report = report_of(message, self._partitions)
            if isinstance(report, Event):
                pass_on(report)
            elif isinstance(report, End):
                self._end = report
            else:
                self.take(report)
        except BaseException as error:  # noqa: BLE001 - see above
            self._problem = self._problem or error

    def finish(self, ended: Ended) -> None:
        """Take the end of the driver's process: partitions without an outcome get an error.

        Raises what ended the run in the driver, or what a message raised here.
        """
        if self._problem is not None:
            raise self._problem
        if self._end is not None and self._end.error is not None:
            raise self._end.error
        self.fail(self._lost(ended))

    def fail(self, error: LauncherError) -> None:
        """Give the partitions without an outcome this error."""
        for outcome in list(self.pending.values()):
            self.take(replace(outcome, error=error))

    def take(self, outcome: Outcome) -> None:
        """Take the outcome of a partition."""
        self.pending.pop(outcome.partition.path, None)
        report_outcome(outcome)
        self._note(outcome)

    def _lost(self, ended: Ended) -> LauncherError:
        if not self._has_started:
            return LauncherError(f"the driver of the run did not start ({ended.reason}):", ended.hint)
        kind = DriverLostError if ended.may_pass else LauncherError
        return kind(f"the driver of the run ended before the partition did ({ended.reason}):", ended.hint)
