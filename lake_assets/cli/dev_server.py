"""`dagster dev` in this process, with what its log lacks: that its UI is served, and which of its processes ended.

    python -m lake_assets.cli.dev_server 127.0.0.1 3000 -m lake_assets.definitions

After host and port are the other options of `dagster dev`.
"""

import logging
import os
import re
import runpy
import signal
import socket
import sys
import threading
import time
import warnings
from contextlib import suppress

_SECONDS = 1.0  # between two questions whether the UI is served
# The error with which `dagster dev` ends when one of its processes has, and which it logs with its traceback.
_END = re.compile(r"dagster-(\w+) process shut down unexpectedly with return code (-?\d+)")


class _Ended(logging.Filter):
    """Keeps `dagster dev`'s error of an ended process out of the log, and notes which process it is."""

    text = ""

    def filter(self, record: logging.LogRecord) -> bool:
        match = _END.search(str(record.exc_info[1])) if record.exc_info else None
        if match is not None:
            code = int(match[2])
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            self.text = f"Dagster's {match[1]} {how}"
        return match is None


def accepts_connections(host: str, port: int) -> bool:
    """Return whether a server listens there."""
    with suppress(OSError), socket.create_connection((host, port), _SECONDS):
        return True
    return False


def _say_when_served(host: str, port: int) -> None:
    begin = time.monotonic()
    while not accepts_connections(host, port):
        time.sleep(_SECONDS)
    sys.stderr.write(f"Dagster's UI is served after {time.monotonic() - begin:.0f} s: http://{host}:{port}\n")


def main(host: str, port: str, *options: str) -> None:
    """Serve Dagster until Ctrl-C, or until one of its processes ends: then with exit code 1, and a line of it."""
    warnings.filterwarnings("ignore", message="Function `dev_command` is superseded")
    ended = _Ended()
    logging.getLogger("dagster").addFilter(ended)
    threading.Thread(target=_say_when_served, args=(host, int(port)), daemon=True).start()
    # With it, a backfill waits for a config that does not load now.
    os.environ.setdefault("DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR", "1")
    sys.argv = ["dagster", "dev", *options, "--host", host, "--port", port]
    try:
        runpy.run_module("dagster", run_name="__main__")
    finally:
        if ended.text:
            sys.exit(f"{ended.text}, so all of Dagster ends. Run `lake-assets dev` again: queued runs go on then.")


if __name__ == "__main__":
    main(*sys.argv[1:])
