"""Ctrl-C and SIGTERM, which end a command in any library's code.

Python's own way, a KeyboardInterrupt wherever the program happens to be, is not enough: DuckDB turns it into an
error of its own, Spark installs another handler, an import may swallow it, and a JVM whose start is broken off is left
behind. So the signal is remembered too, and the commands look for it.
"""

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the user has pressed Ctrl-C, or the process was asked to end by SIGTERM.

    Outside the main thread, which alone gets signals, it does nothing.
    """

    def __init__(self) -> None:
        self.pressed = False
        self.signal = signal.SIGINT  # the one that came first
        self._later = False

    def listen(self) -> None:
        """Take the signals from now on."""
        self.pressed = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._on_signal)
            signal.signal(signal.SIGTERM, self._on_signal)

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed, for one that was lost on its way."""
        if self.pressed:
            raise KeyboardInterrupt

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Interrupt after the block instead of inside it, and let no process that it starts be interrupted.

        The block may set a handler of its own, as Spark does when it has nearly started. Until the block's end that
        one interrupts at once, and what is logged about it is left out.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._later = True
        logging.disable()
        # Inherited by what is started here; this process still gets the signal, by its other threads.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            self._later = False
            signal.signal(signal.SIGINT, self._on_signal)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            if not self.pressed:
                logging.disable(logging.NOTSET)
        self.check()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signal module's form
        if not self.pressed:
            self.signal = signal.Signals(number)
        self.pressed = True
        # What libraries log about calls that are broken off is no news to whoever broke them off, nor that the
        # exception was lost in a finalizer.
        logging.disable()
        sys.unraisablehook = lambda _: None
        if not self._later:
            raise KeyboardInterrupt


interrupt = Interrupt()
"""The process's own: there is one Ctrl-C."""
