"""Restarts a stack's Spark Connect server whose application the master no longer has: it would never get executors.

It happens if the master lost its recovery state, or removed the application after too many failures of executors.
"""

import json
import logging
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault

from dev.stack.site import HOST, Site
from dev.stack.supervised import RUNNING, Supervisor

PAUSE_SECONDS = 5
START_SECONDS = 45  # after which the server has an application, also on a busy machine
TIMES = 4  # that the application has to be missing, so that a recovering master is waited for


def has_application(site: Site) -> bool | None:
    """Whether the master has a live application; None if the master does not answer, or recovers."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{site.ports.spark_master_page}/json/", timeout=5) as answer:
            state: dict[str, Any] = json.load(answer)
    except (OSError, ValueError):
        return None
    return bool(state["activeapps"]) if state["status"] == "ALIVE" else None


def watch(site: Site) -> None:
    """Look after the server until this process is ended."""
    supervisor, missing = Supervisor(site), 0
    while True:
        time.sleep(PAUSE_SECONDS)
        server = supervisor.processes().get("spark-connect")
        is_old = server is not None and server.state == RUNNING and time.time() - server.started > START_SECONDS
        missing = missing + 1 if is_old and has_application(site) is False else 0
        if missing == TIMES:
            logging.warning("the master has no application of the Connect server, which is restarted")
            missing = 0
            try:
                supervisor.kill_process("spark-connect")
            except Fault as fault:  # it has just ended
                logging.warning("%s", fault)


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s")
    watch(Site.existing(Path(sys.argv[1])))
