"""What a stack consists of: each component's process, what it needs before it, and whether it answers."""

import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.servers import postgres, s3
from dev.servers.connect import connect_command
from dev.servers.process import listens
from dev.servers.standalone import live_workers, master_command, worker_command
from dev.servers.system_user import ensure_system_user, needs_system_user
from dev.stack import prepared, probes
from dev.stack.site import HOST, Ports, Site
from dev.stack.supervised import Program

_SCRIPTS = Path(sysconfig.get_path("scripts"))
CODE_SERVER = "code-server"
WATCH = "watch"  # of each stack, also of some components only
# Of its JVM; Spark calls this server a daemon, and spark.driver.memory has no effect on it.
_CONNECT_ENVIRONMENT = {"SPARK_DAEMON_MEMORY": "512m"}


@dataclass(frozen=True)
class Component:
    """A part of a stack.

    Attributes:
        name: of its process and its log.
        address: for people.
        ports: that it listens on.
        answers: whether it does its work now.
        program: its process; called when the supervisor starts.
        after: names of those that must answer before it is started.
        prepare: makes what others expect of it, as soon as it answers; may be repeated.
    """

    name: str
    address: str
    ports: Sequence[int]
    answers: Callable[[], bool]
    program: Callable[[], Program]
    after: Sequence[str] = ()
    prepare: Callable[[], None] = lambda: None


def components(site: Site) -> Mapping[str, Component]:
    """All components by their names, each after those that it needs."""
    ports = site.ports
    found = [
        Component(
            WATCH,
            "",
            [],
            lambda: True,
            lambda: Program(WATCH, [sys.executable, "-m", "dev.stack.watch", str(site.folder)]),
        ),
        Component(
            "postgres",
            f"{HOST}:{ports.postgres}",
            [ports.postgres],
            lambda: probes.postgres(site),
            lambda: _postgres(site),
            prepare=lambda: prepared.databases(site),
        ),
        Component(
            "s3",
            site.s3_endpoint,
            ports.s3,
            lambda: probes.s3(site),
            lambda: _s3(site),
            prepare=lambda: prepared.buckets(site),
        ),
        Component(
            "spark-master",
            f"spark://{HOST}:{ports.spark_master} http://{HOST}:{ports.spark_master_page}",
            [ports.spark_master, ports.spark_master_page],
            lambda: live_workers(ports.spark_master_page) is not None,
            lambda: _master(site),
        ),
        _worker(site, 1, ports.spark_worker_1_page),
        _worker(site, 2, ports.spark_worker_2_page),
        Component(
            "spark-connect",
            f"sc://localhost:{ports.spark_connect} http://{HOST}:{ports.spark_connect_page}",
            [ports.spark_connect, ports.spark_connect_page],
            lambda: listens(ports.spark_connect) and probes.has_application(site) is not False,
            lambda: Program("spark-connect", _connect(ports), environment=_CONNECT_ENVIRONMENT),
            after=["spark-worker-1", "spark-worker-2"],
        ),
        Component(
            CODE_SERVER,
            f"{HOST}:{ports.code_server}",
            [ports.code_server],
            lambda: probes.code_server(ports.code_server),
            # The signal reaches its runs too, as systemd's does; each ends its Spark job.
            lambda: Program(CODE_SERVER, _code_server(ports), stop_seconds=150, whole_group=True),
            after=["postgres", "s3"],
        ),
        Component(
            "webserver",
            site.url,
            [ports.webserver],
            lambda: probes.webserver(site.url),
            lambda: Program("webserver", _dagster("dagster-webserver", "-h", HOST, "-p", ports.webserver, site=site)),
            after=[CODE_SERVER],
        ),
        Component(
            "daemon",
            "",
            [],
            lambda: probes.daemon(site.url),
            lambda: Program("daemon", _dagster("dagster-daemon", "run", site=site)),
            after=[CODE_SERVER, "webserver"],  # which is asked for it
        ),
    ]
    return {component.name: component for component in found}


def _postgres(site: Site) -> Program:
    if needs_system_user():
        ensure_system_user()
    folder = site.folder / "postgres"
    folder.mkdir(exist_ok=True)
    made = postgres.Installation.made_in(folder, site.ports.postgres)
    # INT is its fast shutdown; TERM ends only after its clients.
    return Program("postgres", made.command, user=made.system_user, stop_signal="INT")


def _s3(site: Site) -> Program:
    folder = site.folder / "s3"
    folder.mkdir(exist_ok=True)
    made = s3.Installation.made_in(folder, site.ports.s3, site.settings.s3_secret)
    # Its own stop takes a quarter of a minute; what it has confirmed is on the disk anyway.
    return Program("s3", made.command, stop_signal="INT", stop_seconds=5)


def _master(site: Site) -> Program:
    # After a kill it knows its workers and applications; without, the Connect server would wait for executors for ever.
    options = {"Mode": "FILESYSTEM", "Directory": site.folder / "spark-master", "Timeout": 15}
    environment = {"SPARK_MASTER_OPTS": " ".join(f"-Dspark.deploy.recovery{name}={x}" for name, x in options.items())}
    command = master_command(site.ports.spark_master, site.ports.spark_master_page)
    return Program("spark-master", command, environment=environment)


def _worker(site: Site, number: int, page: int) -> Component:
    name, ports = f"spark-worker-{number}", site.ports
    command = worker_command(f"spark://{HOST}:{ports.spark_master}", page, site.folder / name, cores=1)
    return Component(
        name,
        f"http://{HOST}:{page}",
        [page],
        lambda: page in (live_workers(ports.spark_master_page) or ()),
        lambda: Program(name, command),
        after=["spark-master"],
    )


def _connect(ports: Ports) -> list[str]:
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.ui.port": str(ports.spark_connect_page),
        "spark.ui.showConsoleProgress": "false",
        # As of docs/how-to/use-a-cluster.md: its Python processes load the code of the tasks once.
        "spark.python.daemon.module": "lake_assets.spark.daemon",
    }
    return connect_command(ports.spark_connect, f"spark://{HOST}:{ports.spark_master}", settings)


def _code_server(ports: Ports) -> list[str]:
    """The command of `deploy/systemd/lake-assets-code-server.service`."""
    program = [str(_SCRIPTS / "dagster"), "code-server", "start", "-h", HOST, "-p", str(ports.code_server)]
    return [*program, "-m", "lake_assets.definitions"]


def _dagster(program: str, *options: object, site: Site) -> list[str]:
    """The command of the unit in `deploy/systemd` that has this program."""
    return [str(_SCRIPTS / program), *map(str, options), "-w", str(site.folder / "workspace.yaml")]
