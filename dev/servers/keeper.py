"""Runs a server for as long as its own standard input stays open, then stops it and removes its files.

`process.running` holds the other end of that pipe. The system closes it however the test run ends, by SIGKILL
too, so no server and no file of it outlives the tests. Run as a file of its own: it imports the standard library only.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread


def stop_at_end_of_input(server: subprocess.Popen[bytes], grace: float) -> None:
    """Wait until nobody holds the pipe any more, then end the server."""
    while os.read(0, 1):  # and not sys.stdin, whose lock would abort the interpreter at its end
        pass
    server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown; SIGTERM would wait for its clients
    try:
        server.wait(grace)
    except subprocess.TimeoutExpired:
        server.kill()


def main() -> int:
    """Run the command line's command; its exit code becomes this process's own."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--folder", type=Path, required=True)
    arguments.add_argument("--grace", type=float, required=True)
    arguments.add_argument("--remove", type=Path, action="append", default=[])
    arguments.add_argument("--user")
    arguments.add_argument("command", nargs=argparse.REMAINDER)
    given = arguments.parse_args()
    # A shell has the suite in its background ignore SIGINT, and a server would inherit that and not stop.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = subprocess.Popen(
        given.command,
        stdin=subprocess.DEVNULL,
        cwd=given.folder,
        user=given.user,
        group=given.user,
        extra_groups=[] if given.user else None,
    )
    Thread(target=stop_at_end_of_input, args=(server, given.grace), daemon=True).start()
    code = server.wait()
    for file in given.remove:
        file.unlink(missing_ok=True)
    shutil.rmtree(given.folder)
    return code


if __name__ == "__main__":
    sys.exit(main())
