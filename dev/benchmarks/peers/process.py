"""The runner's side: a peer in a process of its own, called by lines of JSON, and what its process tree uses.

Processor seconds are user and system time from `/proc/<pid>/stat`, of every process of the tree and of the
children that they have waited for, in ticks of 10 ms. Memory is the sum of the processes' proportional set sizes (PSS):
a page that several of them share counts once.
"""

import json
import math
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[3]
_TICK = os.sysconf("SC_CLK_TCK")


class PeerFailedError(Exception):
    """The peer replied with an error, ended, or did not reply in time. The text is the peer's own where it has one."""

    def __init__(self, text: str, *, cannot: bool = False) -> None:
        super().__init__(text)
        self.cannot = cannot  # the peer has no such operation


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a peer."""

    python: Path
    module: str
    environment: Mapping[str, str] = field(default_factory=dict)


class PeerProcess:
    """A running peer. `call` returns its reply."""

    def __init__(self, command: Command, folder: Path, log: Path, limit: float = math.inf) -> None:
        """Start it.

        Args:
            command: of the peer.
            folder: its working directory.
            log: what it writes to standard error.
            limit: seconds of all its calls together; the call in which they end fails, and so do those after it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self._limit = self._left = limit
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [command.python, "-m", command.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"} | dict(command.environment),
                text=True,
            )

    def call(self, name: str, timeout: float, **arguments: Any) -> tuple[Any, float]:
        """The value and the seconds of a call, as measured by the peer.

        Raises:
            PeerFailedError: the call failed. After `timeout` seconds, and when the limit of all calls is over, the
                process is ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._left <= 0:
            raise PeerFailedError(f"its {self._limit:.0f} s were over before {name}")
        allowed = min(timeout, self._left)
        timer = threading.Timer(allowed, self.kill)
        begun = time.monotonic()
        timer.start()
        try:
            with suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps({"call": name, "arguments": arguments}) + "\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
            took = time.monotonic() - begun
            self._left -= took
        if not line:
            if took < allowed:
                raise PeerFailedError(f"the process ended in {name}: {self._last_line()}")
            raise PeerFailedError(
                f"no reply to {name} within {timeout:.0f} s"
                if allowed == timeout
                else f"its {self._limit:.0f} s were over in {name}"
            )
        reply = json.loads(line)
        if "error" in reply:
            raise PeerFailedError(reply["error"], cannot=reply["cannot"])
        return reply["value"], reply["seconds"]

    def _last_line(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self._process.wait()}"

    def processor_seconds(self) -> float:
        """What the process tree has used so far."""
        return sum(_processor_seconds(pid) for pid in self._tree())

    def bytes_moved(self) -> tuple[int, int]:
        """What the process tree has read and written so far by system calls; mapped files are not in it."""
        found = [_moved(pid) for pid in self._tree()]
        return sum(read for read, _ in found), sum(written for _, written in found)

    @contextmanager
    def peak_memory(self, pause: float = 0.02) -> Iterator[list[float]]:
        """The highest memory of the process tree in MB while the block ran, as the only item of the list.

        It is read every `pause` seconds. To read it takes some milliseconds a gigabyte.
        """
        peak, done = [0.0], threading.Event()

        def sample() -> None:
            while True:
                peak[0] = max(peak[0], sum(map(_proportional, self._tree())))
                if done.wait(pause):
                    return

        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        try:
            yield peak
        finally:
            done.set()
            thread.join()

    def _tree(self) -> list[int]:
        try:
            process = psutil.Process(self._process.pid)
            return [process.pid, *(child.pid for child in process.children(recursive=True))]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """End the process and all processes that it has started."""
        for pid in reversed(self._tree()):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)

    def close(self) -> None:
        """Let the process end, and end it after a while."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()


def _processor_seconds(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    fields = text.rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICK  # utime, stime, cutime, cstime


def _moved(pid: int) -> tuple[int, int]:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0, 0
    counts = dict(line.split(": ") for line in lines)
    return int(counts["rchar"]), int(counts["wchar"])


def _proportional(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0.0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024 / 1e6
