"""What a JVM writes to standard error, without a warning that Spark's own options cause."""

import os
from contextlib import suppress
from threading import Thread

ENDED_SECONDS = 1.0  # for the rest of the pipe of a JVM that has ended; a worker of it may have the pipe's end too

_INCUBATOR = b"WARNING: Using incubator modules"
_LAST_LINES = 20  # of a JVM that ended while it started, in the error
_LAST_BYTES = 4096


class JvmErrors:
    """Copies what a JVM writes to standard error to that of this process, while this one lives."""

    def __init__(self) -> None:
        reader, writer = os.pipe()
        # The end of the pipe for the JVM; the caller closes it when the JVM has it
        self.writer = os.fdopen(writer, "wb", buffering=0)
        self._last = b""
        self._copying = Thread(target=self._copy_all, args=(reader,), name="standard error of the JVM", daemon=True)
        self._copying.start()

    def wait(self, seconds: float = ENDED_SECONDS) -> None:
        """Wait until everything is copied, at most this long."""
        self._copying.join(seconds)

    def last_lines(self) -> list[str]:
        """Return the last lines of a JVM that has ended."""
        self.wait()
        return self._last.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]

    def _copy_all(self, reader: int) -> None:
        with os.fdopen(reader, "rb") as errors:
            # Line by line up to the warning, which is among the first; then as it comes, as a progress bar does.
            for line in iter(errors.readline, b""):
                if _INCUBATOR in line:
                    break
                self._copy(line)
            while chunk := errors.read1():
                self._copy(chunk)

    def _copy(self, text: bytes) -> None:
        self._last = (self._last + text)[-_LAST_BYTES:]
        with suppress(OSError):  # nobody reads this process's errors; the pipe is read on, or the JVM would wait
            while text:
                text = text[os.write(2, text) :]
