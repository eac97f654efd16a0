"""Starting a server process that cannot outlive the test run."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from itertools import cycle
from pathlib import Path
from typing import ParamSpec, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

P = ParamSpec("P")
T = TypeVar("T")

_KEEPER = Path(__file__).with_name("keeper.py")
_RANGE = 1500  # ports of a worker, from 12,000 on; Linux gives clients those from 32,768 on
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
_FIRST = 12_000 + _RANGE * (int(_WORKER) % 12 if _WORKER else 12)
_PORTS = cycle([*range(_FIRST + os.getpid() % _RANGE, _FIRST + _RANGE), *range(_FIRST, _FIRST + os.getpid() % _RANGE)])
_POLL = 0.05  # seconds between two looks at whether a server is ready


class ServerStartError(Exception):
    """A server process ended early or did not answer in time; the text carries the end of its output."""


def retried(server: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """A context manager of a server's generator, whose start is tried three times: another program may take its port.

    Raises:
        ServerStartError: on entering it, if the server did not come up.
    """

    @wraps(server)
    @contextmanager
    def start(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        attempts = Retrying(stop=stop_after_attempt(3), retry=retry_if_exception_type(ServerStartError), reraise=True)
        with ExitStack() as stack:
            yield attempts(lambda: stack.enter_context(contextmanager(server)(*args, **kwargs)))

    return start


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that nothing listens on at this moment, and that nobody else takes.

    They are below those that the system gives to clients, each worker of a test run has a range of its own, and a
    process gets none of them twice before it has had all.
    """
    found: list[int] = []
    while len(found) < count:
        port = next(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:  # a server of another program
                continue
        found.append(port)
    return found


def listens(port: int) -> bool:
    """Whether a server accepts connections on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(
    command: Sequence[str],
    *,
    folder: Path,
    ready: Callable[[], bool],
    remove: Sequence[Path] = (),
    user: str | None = None,
    environment: Mapping[str, str] | None = None,
    grace: float = 0,
    timeout: float = 60,
) -> Iterator[None]:
    """The server, answering, inside the `with`; afterwards it has ended and its files are gone.

    A keeper process stands between: see `keeper`. The server gets a session of its own, so that Ctrl-C at the
    terminal reaches the tests first and they can still use it while they clean up.

    Args:
        command: the server's command line.
        folder: its working folder, with what it writes; removed when it ends.
        ready: whether it answers yet; asked again and again until it says yes.
        remove: files that it leaves elsewhere.
        user: the system user to run as, where the tests run as root and the server refuses to.
        environment: variables besides those of the tests.
        grace: seconds between SIGINT and SIGKILL.
        timeout: seconds to wait for `ready`.

    Raises:
        ServerStartError: the server ended, or was not ready in time.
    """
    options = [f"--folder={folder}", f"--grace={grace}", *(f"--remove={file}" for file in remove)]
    if user:
        options.append(f"--user={user}")
    with tempfile.TemporaryFile() as log:
        keeper = subprocess.Popen(
            [sys.executable, "-I", str(_KEEPER), *options, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        assert keeper.stdin is not None
        try:
            deadline = time.monotonic() + timeout
            while not ready():
                ended = keeper.poll() is not None
                if ended or time.monotonic() > deadline:
                    log.seek(0)
                    output = log.read().decode(errors="replace")[-4000:]
                    what = f"ended with {keeper.returncode}" if ended else f"was not ready in {timeout} s"
                    raise ServerStartError(f"{command[0]} {what}; it said:\n{output}")
                time.sleep(_POLL)
            yield
        finally:
            keeper.stdin.close()
            keeper.wait()
