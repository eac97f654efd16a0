"""Modules of this folder as processes of their own, which begin at once: forks of a process that has imported them.

    python -m lake_assets_tests.faults.modules DESCRIPTOR

This process takes requests from the socket of that descriptor: a module's name and arguments, and the files for its
status, output and errors. A second fork, between this process and the module's, reports how the module's ended.
"""

import atexit
import importlib
import itertools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

from lake_assets_tests.world import World

NAMES = ("evolver", "indexer", "ingester", "restorer", "writer")
_REQUEST = 2**16  # bytes at most
_NUMBER = struct.Struct("i")
_WORLDS = itertools.count()


class Child:
    """A module's process, with the part of `subprocess.Popen` that the tests need."""

    def __init__(self, status: int, stdout: IO[str], stderr: IO[str]) -> None:
        self.stdout = stdout
        self.returncode: int | None = None
        self._stderr = stderr
        self._status = status
        self._process = self._number()

    def _number(self) -> int:
        number: int = _NUMBER.unpack(os.read(self._status, _NUMBER.size))[0]
        return number

    def kill(self) -> None:
        """`kill -9`, unless it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Its output and its errors, when it has ended."""
        ended, _, _ = select.select([self._status], [], [], timeout)
        assert ended, f"process {self._process} hangs"
        self.returncode = self._number()
        os.close(self._status)
        self._stderr.seek(0)
        with self.stdout, self._stderr:
            return self.stdout.read(), self._stderr.read()


class Forks:
    """The process that forks, from outside."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            command = [sys.executable, "-m", "lake_assets_tests.faults.modules", str(other.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[other.fileno()])

    def start(self, name: str, arguments: Sequence[str]) -> Child:
        """Begin `main()` of a module."""
        (status, its_status), (output, its_output) = os.pipe(), os.pipe()
        errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `Child` closes it
        request = json.dumps([name, *arguments]).encode()
        socket.send_fds(self._socket, [request], [its_status, its_output, errors.fileno()])
        os.close(its_status)
        os.close(its_output)
        return Child(status, os.fdopen(output), errors)

    def close(self) -> None:
        """End the process that forks."""
        self._socket.close()
        self._process.wait(30)


@cache
def forks() -> Forks:
    """The one of this test run."""
    it = Forks()
    atexit.register(it.close)
    return it


def start(world: World, folder: Path, *options: str, module: str = "writer") -> Child:
    """A module that acts on a world, as a process of its own."""
    file = folder / f"world-{next(_WORLDS)}.json"  # another child may just read its own
    fields = ("catalog", "storage", "source", "options", "lake_options")
    file.write_text(json.dumps({name: getattr(world, name) for name in fields}))
    return forks().start(module, [str(file), *options])


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    mains = {name: importlib.import_module(f"lake_assets_tests.faults.{name}").main for name in NAMES}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how the forks between ended
    while True:
        request, files, _, _ = socket.recv_fds(requests, _REQUEST, 3)
        if not request:
            return
        if not os.fork():
            break
        for file in files:
            os.close(file)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status, output, errors = files
    if process := os.fork():
        os.close(output)
        os.close(errors)
        os.write(status, _NUMBER.pack(process))
        os.write(status, _NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])))
        os._exit(0)
    os.close(status)
    for file, number in ((output, 1), (errors, 2)):
        os.dup2(file, number)
        os.close(file)
    name, *sys.argv[1:] = json.loads(request)
    code = _code(mains[name])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the handlers at exit are of the process that was forked, and of its threads


def _code(main: Callable[[], None]) -> int:
    try:
        main()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - as at the end of any Python process
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
