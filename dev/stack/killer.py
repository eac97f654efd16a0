"""Kills of a stack's processes, each at a moment when it has work."""

import json
import os
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import psutil
import psycopg

from dev.stack.components import CODE_SERVER, components
from dev.stack.site import HOST, Site
from dev.stack.supervised import Supervisor

SETTLE_SECONDS = 1.0  # for what a process had sent before it was stopped
STOP_SECONDS = 60.0  # for which a component hangs
_RUN = "spawn_main"  # of the command of a run's process, which the code server starts by `multiprocessing`
TAKEN_SECONDS = 30.0  # for which nobody gets a connection, or a byte of a disk


class Killer:
    """Kills processes of a stack, and returns when they are back."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.components = components(site)
        self.supervisor = Supervisor(site)

    def pid(self, name: str) -> int:
        return self.supervisor.processes()[name].pid

    def kill(self, name: str) -> None:
        """Kill a component; returns when another process of it answers."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGKILL)
        wait(name, lambda: self.pid(name) not in {0, pid} and self.components[name].answers())

    def kill_executor(self) -> None:
        """Kill an executor that has a task; returns when its worker has started another one."""
        with self._at_work(1) as executor:
            _end(executor)
        wait("an executor", lambda: any(found.pid != executor.pid for found in self._executors(1)))

    def kill_worker(self) -> None:
        """Kill a worker whose executor has a task, and the executor, as a machine's end does."""
        with self._at_work(2) as executor:
            self.kill("spark-worker-2")
            _end(executor)

    def kill_connect_server(self) -> None:
        """Kill the Connect server while a job is at work."""
        with self._at_work(1) as executor:
            self.kill("spark-connect")
            _end(executor)

    def kill_code_server(self) -> None:
        """Kill the server that Dagster's other parts ask, and the one behind it that has loaded the definitions.

        The processes of its runs go on: the system kills none of them with their parent.
        """
        self.kill_definitions()
        self.kill(CODE_SERVER)

    def kill_definitions(self) -> None:
        """Kill only the process behind the code server that has loaded the definitions."""
        behind = self._below_code_server("api grpc")
        assert behind
        for process in behind:
            process.kill()

    def kill_run(self) -> None:
        """Kill the process of a run, as soon as there is one."""
        wait("a run", lambda: bool(self._below_code_server(_RUN)), 600, pause=0.05)
        for process in self._below_code_server(_RUN)[:1]:
            _end(process)

    def _below_code_server(self, word: str) -> list[psutil.Process]:
        found = []
        for process in psutil.Process(self.pid(CODE_SERVER)).children(recursive=True):
            with suppress(psutil.Error):
                if word in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def kill_code_server_and_runs(self) -> None:
        """Kill the code server together with the processes of its runs, as a reboot or the lack of memory does."""
        for process in self._tree(CODE_SERVER):
            _end(process)

    def kill_python(self) -> None:
        """Kill the Python daemons of an executor that has a task, which fork its workers, and nothing else."""
        with self._at_work(1) as executor:
            for process in executor.children():
                _end(process)

    def end(self, *names: str) -> None:
        """Kill components at once, and do not wait for them."""
        for pid in [self.pid(name) for name in names]:
            os.kill(pid, signal.SIGKILL)

    def kill_supervisor(self) -> None:
        """Kill what starts components again; returns when another one does."""
        os.kill(int((self.site.folder / "supervisord.pid").read_text()), signal.SIGKILL)
        wait("the supervisor", lambda: not self.supervisor.was_killed() and self.supervisor.is_up(), 240)

    def stop(self, name: str, seconds: float = STOP_SECONDS) -> None:
        """Stop all processes of a component for a while, as a machine that hangs."""
        stopped = self._tree(name)
        for process in stopped:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        time.sleep(seconds)
        for process in stopped:
            with suppress(psutil.NoSuchProcess):  # what has not answered was started again
                process.resume()

    def take_connections(self, seconds: float = TAKEN_SECONDS) -> None:
        """Take all connections of PostgreSQL that are free for a while."""
        settings = self.site.settings
        with ExitStack() as taken:
            while True:
                try:
                    taken.enter_context(
                        psycopg.connect(
                            host=HOST,
                            port=self.site.ports.postgres,
                            dbname="lake",
                            user="lake",
                            password=settings.lake_password,
                        )
                    )
                except psycopg.OperationalError:
                    break
            time.sleep(seconds)

    def fill_disk_of_s3(self, seconds: float = TAKEN_SECONDS) -> None:
        """Fill the disk of the S3 server for a while, and start it again.

        SeaweedFS never writes again into a part of its folders if their index met a full disk.
        """
        filler = self.site.folder / "s3/filler"
        with suppress(OSError), filler.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(2**12))
        time.sleep(seconds)
        filler.unlink()
        self.end("s3")

    def _tree(self, name: str) -> list[psutil.Process]:
        root = psutil.Process(self.pid(name))
        return [root, *root.children(recursive=True)]

    @contextmanager
    def _at_work(self, worker: int) -> Iterator[psutil.Process]:
        """An executor of a worker that has a task; it is stopped, so that it still has the task within the block."""
        found: list[psutil.Process] = []

        def has_stopped_one() -> bool:
            for executor in self._executors(worker):
                if not self._tasks(executor):
                    continue
                executor.suspend()
                time.sleep(SETTLE_SECONDS)
                if self._tasks(executor):
                    found.append(executor)
                    return True
                executor.resume()
            return False

        wait("a task", has_stopped_one, pause=0.05)
        try:
            yield found[0]
        finally:
            with suppress(psutil.NoSuchProcess):
                found[0].resume()

    def _executors(self, worker: int) -> list[psutil.Process]:
        found = []
        for process in psutil.Process(self.pid(f"spark-worker-{worker}")).children():
            with suppress(psutil.Error):  # a zombie
                if any("CoarseGrainedExecutor" in part for part in process.cmdline()):
                    found.append(process)
        return found

    def _tasks(self, executor: psutil.Process) -> int:
        """The number of tasks that an executor has, as Spark's own page shows it."""
        with suppress(psutil.Error, OSError):
            words = executor.cmdline()
            own = words[words.index("--executor-id") + 1]
            (application,) = (word for word in words if re.fullmatch(r"app-[0-9]+-[0-9]+", word))
            address = f"http://{HOST}:{self.site.ports.spark_connect_page}/api/v1/applications/{application}/executors"
            with urllib.request.urlopen(address, timeout=10) as answer:
                return sum(entry["activeTasks"] for entry in json.load(answer) if entry["id"] == own)
        return 0


def _end(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):  # it has ended with the component
        process.kill()


def wait(what: str, is_so: Callable[[], bool], seconds: float = 120, pause: float = 0.3) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what} has not come (back) after {seconds} s"
        time.sleep(pause)
