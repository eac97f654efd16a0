"""The system user that PostgreSQL runs as, where the tests run as root, which it refuses."""

import os
import pwd
import shutil
import subprocess

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from dev.servers.process import ServerStartError

SYSTEM_USER = "pgserver"  # the wheel's own name for it
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def needs_system_user() -> bool:
    """Whether PostgreSQL refuses to run as the present user, so that it runs as the system user."""
    return os.geteuid() == 0


class SystemUserError(ServerStartError):
    """The system user for the server is not there and cannot be added; the text says why, and what to do."""


def ensure_system_user() -> None:
    """Add the user that the wheel's server runs as, unless the machine has it.

    The wheel would do it too, but knows of no folder besides those of PATH, which often has those of the system's own
    tools for root's login shell only; nor of other processes that do it at the same moment, as workers of a test run.

    Raises:
        SystemUserError: there is no `useradd`, or it fails.
    """
    add = shutil.which("useradd", path=os.pathsep.join([os.environ.get("PATH", ""), *SYSTEM_FOLDERS]))
    for attempt in Retrying(
        retry=retry_if_exception_type(SystemUserError), stop=stop_after_attempt(5), wait=wait_fixed(0.2), reraise=True
    ):
        with attempt:
            if not _exists(SYSTEM_USER):
                _add(add)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _add(useradd: str | None) -> None:
    what = f"PostgreSQL does not run as root, and the system user {SYSTEM_USER} is not there"
    if useradd is None:
        raise SystemUserError(f"{what}: install useradd (apt-get install passwd), or run the tests as another user")
    done = subprocess.run([useradd, "-s", "/bin/sh", SYSTEM_USER], capture_output=True, text=True, check=False)
    if done.returncode and not _exists(SYSTEM_USER):
        raise SystemUserError(f"{what}; {useradd} says: {done.stderr.strip()}")
