"""Ctrl-C and SIGTERM, which end a command also inside a library's code.

Python's KeyboardInterrupt is not enough: DuckDB turns it into an error of its own, Spark installs another handler, an
import may swallow it, and a JVM that is interrupted while it starts is left running. So the signal is also stored, and
the commands check for it.
"""

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the process received Ctrl-C or SIGTERM. Only the main thread gets signals; in others it does nothing."""

    def __init__(self) -> None:
        self.pressed = False
        self.signal = signal.SIGINT  # the first one that was received
        self._is_held_back = False

    def listen(self) -> None:
        """Install the handlers of both signals."""
        self.pressed = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._on_signal)
            signal.signal(signal.SIGTERM, self._on_signal)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal was received, in case a library swallowed the first one."""
        if self.pressed:
            raise KeyboardInterrupt

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Interrupt after the block instead of inside it, and block the signal in processes that the block starts.

        The block may install a handler of its own, as Spark does near the end of its start. That handler interrupts
        at once; what libraries log about it is suppressed.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._is_held_back = True
        logging.disable()
        # Processes that start here inherit the mask; this process still gets the signal, in its other threads.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            self._is_held_back = False
            signal.signal(signal.SIGINT, self._on_signal)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            if not self.pressed:
                logging.disable(logging.NOTSET)
        self.check()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signal module's form
        if not self.pressed:
            self.signal = signal.Signals(number)
        self.pressed = True
        # The user knows that calls were interrupted: suppress what libraries log about them, and exceptions in
        # finalizers.
        logging.disable()
        sys.unraisablehook = lambda _: None
        if not self._is_held_back:
            raise KeyboardInterrupt


interrupt = Interrupt()
"""The one of the process."""
