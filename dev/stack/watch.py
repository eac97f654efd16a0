"""Starts a stack's components again whose processes run and do not answer for a minute.

If the supervisor is killed, all of them are started again with another one. Each looks after the other.

A code server whose second process was killed is one of them, and a Spark Connect server whose application the master
has forgotten, which would never get executors. It is asked only while all answer that the component needs.
"""

import logging
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xmlrpc.client import Fault

from dev.stack.components import CODE_SERVER, Component, components
from dev.stack.site import Site, StackError
from dev.stack.start import bring_up, started
from dev.stack.supervised import RUNNING, Process, Supervisor
from lake_assets.code_server import repaired

PAUSE_SECONDS = 5
START_SECONDS = 60  # in which a process begins its work, also on a busy machine
PATIENCE_SECONDS = 60


def silent(
    known: Mapping[str, Component], processes: Mapping[str, Process], since: dict[str, float], now: float
) -> list[str]:
    """The components that have not answered for a minute; `since` keeps when each was silent first."""
    running = [name for name in known if name in processes and processes[name].state == RUNNING]
    with ThreadPoolExecutor(len(running) or 1) as pool:
        asked = dict(zip(running, pool.map(lambda name: known[name].answers(), running), strict=True))
    for name in known:
        is_expected = name in asked and now - processes[name].started > START_SECONDS
        if is_expected and not asked[name] and all(asked.get(other) for other in known[name].after):
            since.setdefault(name, now)
        else:
            since.pop(name, None)
    return [name for name, first in since.items() if now - first >= PATIENCE_SECONDS]


def watch(site: Site) -> None:
    """Look after the components until this process is ended, and after the supervisor, which then has another watch."""
    supervisor, known, since = Supervisor(site), components(site), dict[str, float]()
    while not supervisor.was_killed():
        for name in silent(known, supervisor.processes(), since, time.time()):
            logging.warning("%s does not answer, and is started again", name)
            del since[name]
            if name == CODE_SERVER and repaired(site.ports.code_server):
                continue  # its runs go on
            try:
                supervisor.kill_process(name)
            except Fault as fault:  # it has just ended
                logging.warning("%s", fault)
        time.sleep(PAUSE_SECONDS)
    while supervisor.has_started():
        try:
            bring_up(site, started(site), logging.warning)
        except StackError as error:
            logging.warning("%s", error)
            time.sleep(PAUSE_SECONDS)
        else:
            break


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s")
    watch(Site.existing(Path(sys.argv[1])))
