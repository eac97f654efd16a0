"""The processes of a stack under `supervisord`, which restarts those that end, and keeps a log of each."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from configparser import RawConfigParser
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Literal
from xmlrpc.client import Fault, ServerProxy

import psutil
from supervisor.xmlrpc import Faults, SupervisorTransport

from dev.stack.site import MARK, Site, StackError

RUNNING = "RUNNING"
_UNDER_WAY = {RUNNING, "STARTING", "BACKOFF"}
_AWAY = (OSError, HTTPException)  # of a client whose server does not answer


@dataclass(frozen=True)
class Program:
    """A process that is to run.

    Attributes:
        name: of the process, and of its log.
        command: its command line.
        user: the system user that it needs; None for the present one.
        stop_signal: that ends it in order.
        stop_seconds: after which it is killed.
        whole_group: whether the signal goes to its children too.
        environment: variables besides those of the stack.
    """

    name: str
    command: Sequence[str]
    user: str | None = None
    stop_signal: str = "TERM"
    stop_seconds: int = 20
    whole_group: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Process:
    """A process as the supervisor knows it.

    Attributes:
        state: a word of the supervisor, such as RUNNING.
        pid: 0 if it does not run.
        started: seconds since 1970.
    """

    name: str
    state: str
    pid: int
    started: float


class Supervisor:
    """The supervisor of a stack's folder."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.socket = site.folder / "supervisor.sock"
        self.config = site.folder / "supervisord.conf"
        self.log = site.logs / "supervisord.log"
        self._pid_file = site.folder / "supervisord.pid"

    def start(self, programs: Sequence[Program]) -> None:
        """Start the supervisor, which does not start the programs yet.

        Raises:
            StackError: it does not start.
        """
        self.site.logs.mkdir(exist_ok=True)
        self._write_config(programs)
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", os.fspath(self.config)]
        # The mark is of the stack's own processes; what a user runs on it is none of them.
        environment = {**os.environ, **self.site.environment, MARK: os.fspath(self.site.folder)}
        done = subprocess.run(
            command, env=environment, start_new_session=True, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise StackError(f"supervisord does not start: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        deadline = time.monotonic() + 60
        while not self.is_up():
            if time.monotonic() > deadline:
                raise StackError(f"supervisord does not answer: see {self.log}")
            time.sleep(0.1)

    def _write_config(self, programs: Sequence[Program]) -> None:
        config = RawConfigParser()
        config["unix_http_server"] = {"file": str(self.socket), "chmod": "0600"}
        config["supervisord"] = {
            "logfile": str(self.log),
            "pidfile": str(self._pid_file),
            "minfds": "1024",
            **({"user": "root"} if os.geteuid() == 0 else {}),
        }
        config["rpcinterface:supervisor"] = {
            "supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"
        }
        # Stopped in the order of their numbers, the highest first.
        for number, program in enumerate(programs):
            config[f"program:{program.name}"] = _section(program, number, self.site)
        with self.config.open("w", encoding="utf-8") as file:
            config.write(file)

    def is_up(self) -> bool:
        """Whether the supervisor answers, and does not stop just now."""
        return self._state() == "up"

    def _state(self) -> Literal["up", "stops", "away"]:
        try:
            self._call("getState")
        except Fault as fault:
            if fault.faultCode != Faults.SHUTDOWN_STATE:
                raise
            return "stops"
        except _AWAY:
            return "away"
        return "up"

    def processes(self) -> Mapping[str, Process]:
        """The processes by their names; none if the supervisor does not run, or stops just now."""
        if not self.is_up():
            return {}
        return {
            info["name"]: Process(info["name"], info["statename"], info["pid"], float(info["start"]))
            for info in self._call("getAllProcessInfo")
        }

    def start_process(self, name: str) -> bool:
        """Start a process unless it runs already; returns whether it had to be started."""
        if self.processes()[name].state in _UNDER_WAY:
            return False
        try:
            self._call("startProcess", name, False)
        except Fault as fault:
            if fault.faultCode != Faults.ALREADY_STARTED:
                raise
            return False
        return True

    def kill_process(self, name: str) -> None:
        """Kill a process, which the supervisor then starts again."""
        self._call("signalProcess", name, "KILL")

    def stop(self, seconds: float = 240) -> None:
        """Stop all processes in order, and then the supervisor; nothing is done if it does not run.

        Raises:
            StackError: it has not ended in time.
        """
        if self.is_up():
            self._call("shutdown")
        deadline = time.monotonic() + seconds
        while self._state() != "away" or self._runs():
            if time.monotonic() > deadline:
                raise StackError(f"the stack does not stop: see {self.log}")
            time.sleep(0.1)

    def was_killed(self) -> bool:
        """Whether the supervisor has ended without stopping its processes."""
        return self.has_started() and not self._runs()

    def has_started(self) -> bool:
        """Whether the supervisor was started, and not stopped since; it may have been killed."""
        return self._pid_file.exists()

    def _runs(self) -> bool:
        with suppress(OSError, ValueError, psutil.Error):
            pid = int(self._pid_file.read_text())
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        return False

    def _call(self, method: str, *arguments: object) -> Any:
        transport = SupervisorTransport(serverurl=f"unix://{self.socket}")
        try:
            with ServerProxy("http://localhost", transport) as proxy:
                return getattr(proxy.supervisor, method)(*arguments)
        finally:
            transport.close()


def _section(program: Program, number: int, site: Site) -> dict[str, str]:
    options: dict[str, object] = {
        "command": shlex.join(program.command).replace("%", "%%"),
        "directory": site.folder,
        "priority": number,
        "autostart": "false",
        "autorestart": "true",
        "startsecs": 1,
        "startretries": 100_000,  # what it needs may be away for long
        "stopsignal": program.stop_signal,
        "stopwaitsecs": program.stop_seconds,
        "stopasgroup": str(program.whole_group).lower(),
        "killasgroup": "true",
        "redirect_stderr": "true",
        "stdout_logfile": site.logs / f"{program.name}.log",
        "stdout_logfile_maxbytes": "20MB",
        "stdout_logfile_backups": 1,
    }
    if program.user:
        options["user"] = program.user
    if program.environment:
        options["environment"] = ",".join(f'{name}="{value}"' for name, value in program.environment.items())
    return {name: str(value) for name, value in options.items()}


def end_leftovers(site: Site) -> list[str]:
    """Kill the processes that a killed supervisor left behind; returns their names.

    They are known by a variable of their environment, which has the stack's folder.
    """
    left = left_processes(site.folder)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=60)
    return [str(process.pid) for process in left]


def left_processes(folder: Path) -> list[psutil.Process]:
    """All processes of the stack of a folder, except the present one and those that it descends from."""
    me = psutil.Process()
    ours = {me.pid, *(parent.pid for parent in me.parents())}
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.pid not in ours and process.environ().get(MARK) == os.fspath(folder):
                found.append(process)
    return found
