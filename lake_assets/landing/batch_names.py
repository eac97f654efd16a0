"""File names of batches: `batch_<unix>_<sequence>_<node>-<writer>.parquet`.

As texts they sort by time: ten digits of seconds since 1970 (until the year 2286), then four digits of a sequence
within the second. The node and eight random hexadecimal digits of the writer keep the names of different nodes,
processes and restarts apart, even if their clocks are wrong.
"""

import secrets
import socket
import time
from collections.abc import Callable
from threading import Lock

_PER_SECOND = 10_000


class BatchNames:
    """Generates names, each greater than the one before; safe to use from several threads.

    If the clock goes backwards, the names stay in the last second that was seen, and the sequence continues until the
    clock has caught up. All lie behind the second `after`, such as that of the last batch before a restart.
    """

    def __init__(self, node: str | None = None, *, after: int = 0, clock: Callable[[], float] = time.time) -> None:
        self.writer = f"{node or host_name()}-{secrets.token_hex(4)}"
        self.behind = 0.0
        """The most seconds by which the clock was ever behind the names."""
        self._clock = clock  # seconds since 1970
        self._second = after
        self._sequence = 0 if after else -1
        self._lock = Lock()

    @property
    def pattern(self) -> str:
        """The pattern of the names of this writer's files."""
        return f"batch_*_{self.writer}.*"

    def next(self) -> str:
        """Return the next name, without an extension."""
        with self._lock:
            now = int(self._clock())
            if now > self._second:
                self._second, self._sequence = now, 0
            else:
                self.behind = max(self.behind, float(self._second - now))
                self._sequence += 1
                if self._sequence == _PER_SECOND:
                    self._second, self._sequence = self._second + 1, 0
            return f"batch_{self._second:010d}_{self._sequence:04d}_{self.writer}"


def host_name() -> str:
    """Return the host's name with only letters, digits, `.` and `-`."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "-" for c in socket.gethostname())
    return name.strip(".-")[:63] or "node"


def second_of(name: str) -> int:
    """Return the second in a file's name; 0 if it is not of a batch."""
    parts = name.split("_")
    return int(parts[1]) if len(parts) > 2 and parts[0] == "batch" and parts[1].isdigit() else 0
