"""Commands on a terminal: a real one, of a process, and one of the test's process."""

import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest

from lake_assets.cli import main

SECONDS = 60  # for which a text on the terminal is expected
LINES, COLUMNS = 40, 120
_CODE = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|\x1b[=>]|\x1b\][^\x07]*\x07")


class Terminal:
    """A process whose standard streams are a terminal, which it controls: Ctrl-C on it interrupts the process."""

    def __init__(self, process: "subprocess.Popen[bytes]", ours: int) -> None:
        self.process = process
        self.written = ""
        """All that the process has written so far."""
        self._ours = ours

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def read_until(self, text: str) -> None:
        """Read until the process has written a text."""
        while text not in self.written:
            assert self._read(), f"it ended without {text!r}: {self.written!r}"

    def read_all(self) -> int:
        """Read until the process ends; returns its exit code."""
        while self._read():
            pass
        return self.process.wait(timeout=SECONDS)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], SECONDS)
        assert ready, f"nothing came any more: {self.written!r}"
        try:
            sample = os.read(self._ours, 65536)
        except OSError:  # how Linux says that nobody holds the other end any more
            return False
        self.written += sample.decode(errors="replace")
        return bool(sample)


@contextmanager
def on_terminal(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """A command whose standard streams are a terminal, with these variables too."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    plain = {name: text for name, text in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        ["setsid", "--ctty", *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=plain | {"TERM": "xterm-256color"} | dict(environment or {}),
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def left_on(written: str) -> list[str]:
    """The lines that can be seen on a terminal after all that was written to it, without the empty ones at its end.

    Carriage returns, movements of the cursor up and erasures are followed; colours are not there.
    """
    lines, row, column = [""], 0, 0
    at = 0
    while at < len(written):
        if code := _CODE.match(written, at):
            at = code.end()
            if code[2] == "A":
                row = max(0, row - int(code[1] or 1))
            elif code[2] == "K":
                lines[row] = "" if code[1] == "2" else lines[row][:column]
            continue
        sign, at = written[at], at + 1
        if sign == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif sign == "\r":
            column = 0
        else:
            lines[row] = f"{lines[row][:column]:{column}}{sign}{lines[row][column + 1 :]}"
            column += 1
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


class Screen(io.StringIO):
    """A terminal of the test's process."""

    def isatty(self) -> bool:
        return True


class Keyboard(Screen):
    """What is typed there."""

    @property
    def buffer(self) -> io.BytesIO:
        return io.BytesIO(self.getvalue().encode())


def on_a_screen(
    *arguments: str,
    answer: str = "n",
    typed: bytes | None = None,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[str, int]:
    """What a command of this process writes where its streams are a terminal without colours; and its exit code.

    Args:
        arguments: of the command, and before its name.
        answer: what is typed.
        typed: the standard input, if that is a pipe.
        file: the standard output, if that is no terminal.
        environment: other variables than `NO_COLOR`, or that one.
    """
    screen = Screen()
    output = screen if file is None else io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    keys = Keyboard(f"{answer}\n") if typed is None else io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8")
    with (
        mock.patch.object(sys, "stdin", keys),
        redirect_stdout(output),
        redirect_stderr(screen),
        pytest.MonkeyPatch.context() as patch,
    ):
        # Only these are put back: Spark sets others when its first session starts.
        for name, text in ({"NO_COLOR": "1"} | dict(environment or {})).items():
            patch.setenv(name, text)
        try:
            main(arguments, prog_name="lake-assets")
        except SystemExit as end:
            if file is not None:
                output.seek(0)
                file.write_text(output.read(), encoding="utf-8")
            return screen.getvalue(), int(end.code or 0)
    raise AssertionError("a command ends by SystemExit")
