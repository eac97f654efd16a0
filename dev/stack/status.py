"""The status page of a stack in the terminal: each component's process, whether it answers, and where it is."""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from rich.table import Table
from rich.text import Text

from dev.stack import probes
from dev.stack.components import components
from dev.stack.site import Site
from dev.stack.supervised import RUNNING, Process, Supervisor

STOPPED = "STOPPED"
_CONNECT = "spark-connect"


@dataclass(frozen=True)
class Status:
    """A component now."""

    name: str
    process: Process
    answers: bool
    address: str

    @property
    def is_well(self) -> bool:
        """Whether its process runs and does its work."""
        return self.process.state == RUNNING and self.answers


def read_status(site: Site, *, with_job: bool = False) -> list[Status]:
    """The status of each component; the probes take some seconds at most.

    Args:
        site: of the stack.
        with_job: the Connect server answers only if the cluster executes a small job, for which it has a minute.
    """
    known, processes = components(site), Supervisor(site).processes()
    if with_job:
        known = {**known, _CONNECT: replace(known[_CONNECT], answers=lambda: probes.executes_jobs(site))}
    found = {name: processes.get(name, Process(name, STOPPED, 0, 0.0)) for name in known}
    with ThreadPoolExecutor(len(known)) as pool:
        answers = {
            name: pool.submit(component.answers) for name, component in known.items() if found[name].state == RUNNING
        }
        return [
            Status(name, found[name], name in answers and answers[name].result(), component.address)
            for name, component in known.items()
        ]


def status_table(statuses: Iterable[Status], site: Site) -> Table:
    """The status page."""
    table = Table(box=None, pad_edge=False, title=f"logs in {site.logs}", title_justify="left")
    for title in ("component", "process", "pid", "for", "answers", "address"):
        table.add_column(title, no_wrap=title != "address", justify="right" if title in {"pid", "for"} else "left")
    for status in statuses:
        process = status.process
        runs = process.state == RUNNING
        table.add_row(
            status.name,
            Text(process.state.lower(), "green" if runs else "red"),
            str(process.pid) if runs else "",
            _age(time.time() - process.started) if runs else "",
            Text("yes", "green") if status.answers else Text("no", "red" if runs else "dim"),
            status.address,
        )
    return table


def _age(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
