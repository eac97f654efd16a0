"""The commands of Dagster: `dev` serves its UI, `sync-dagster` shows the commits of the command line there."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lake_assets.base.errors import ConfigError, MissingExtraError, install
from lake_assets.base.events import counted
from lake_assets.base.texts import count, first_lines, visible_name
from lake_assets.cli.common import Options, stream_argument
from lake_assets.cli.dev_server import accepts_connections
from lake_assets.cli.output import Form, collected, echo, form_option, info

if TYPE_CHECKING:
    import dagster as dg

    from lake_assets.config.models import LakeConfig
    from lake_assets.orchestration.sensors.sync import Synced

NAMED = 10  # partitions
_HOME = "DAGSTER_HOME"


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address that the UI listens on.")
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Its port.")
@click.pass_obj
def dev(options: Options, host: str, port: int) -> None:
    """Serve Dagster's UI, with its sensors and schedules.

    Ctrl-C ends it. Dagster keeps its runs and logs in $DAGSTER_HOME, or in `dagster_home` beside the config, which this
    command makes. It loads what the workspace.yaml beside the config names, and without one the config alone.
    """
    from lake_assets.streams.load import CONFIG_VARIABLE
    from lake_assets.wings.templates.starter.project import DAGSTER_SETTINGS, template

    config = options.config
    if importlib.util.find_spec("dagster_webserver") is None:
        raise MissingExtraError("Dagster's UI needs dagster-webserver:", f"{install('ui')}.")
    if accepts_connections(host, port):
        raise click.UsageError(f"port {port} of {host} is in use: choose another one with --port.")
    home = _home(config)
    # The folder that a user has set is that of a deployment.
    if not (os.environ.get(_HOME) or (settings := home / DAGSTER_SETTINGS).exists()):
        home.mkdir(parents=True, exist_ok=True)
        settings.write_text(template(DAGSTER_SETTINGS), encoding="utf-8")
    workspace = _folder(config) / "workspace.yaml"
    loads = ["-w", os.fspath(workspace)] if workspace.exists() else ["-m", "lake_assets.definitions"]
    place = config.uri or config.file
    environment = os.environ | {_HOME: os.fspath(home)} | ({CONFIG_VARIABLE: os.fspath(place)} if place else {})
    url = f"http://{host}:{port}"
    info(f"Dagster loads the config, and then serves its UI at {url}. Ctrl-C stops it. Runs and logs: {home}")
    command = [sys.executable, "-m", "lake_assets.cli.dev_server", host, str(port), *loads]
    os.execve(sys.executable, command, environment)  # noqa: S606 - no shell is meant


def _folder(config: "LakeConfig") -> Path:
    return Path.cwd() if config.file is None else config.file.parent


def _home(config: "LakeConfig") -> Path:
    """Return the folder of Dagster's instance: $DAGSTER_HOME, or `dagster_home` beside the config."""
    return Path(os.environ.get(_HOME) or _folder(config) / "dagster_home").absolute()


@click.command("sync-dagster")
@stream_argument
@click.option("--dry-run", is_flag=True, help="Name the partitions, and report nothing.")
@form_option
@click.pass_obj
def sync_dagster(options: Options, stream: str | None, *, dry_run: bool, form: Form) -> None:
    """Show in Dagster what other processes have committed.

    Each partition whose newest commit Dagster lacks gets a materialization, with the figures of the ledger. Run it as
    often as you like: nothing is reported twice. Dagster's folder is $DAGSTER_HOME, or `dagster_home` beside the
    config. In Dagster, the sensor <lake>_sync does the same every minute.
    """
    from lake_assets.orchestration.sensors.sync import sync_stream
    from lake_assets.orchestration.translator import specs_of
    from lake_assets.streams.stream import open_streams

    config = options.config
    streams = list(open_streams(config).values()) if stream is None else [options.stream(stream)]
    with collected(form) as documents, _instance(config) as instance:
        for opened in counted(streams, "sync-dagster", "streams", len(streams)):
            synced = sync_stream(specs_of(opened), instance, dry_run=dry_run)
            documents.append(synced)
            if form == "text":
                _print(synced)


def _instance(config: "LakeConfig") -> "dg.DagsterInstance":
    import dagster as dg

    from lake_assets.wings.templates.starter.project import DAGSTER_SETTINGS

    home, given = _home(config), os.environ.get(_HOME)
    try:
        if not given and (home / DAGSTER_SETTINGS).exists():
            os.environ[_HOME] = os.fspath(home)
        return dg.DagsterInstance.get()
    except dg.DagsterError as error:
        raise ConfigError(
            f"Dagster's instance cannot be opened: {' '.join(str(error).split())}",
            f"Set {_HOME} to the absolute path of the folder with the dagster.yaml of your deployment.",
        ) from error
    finally:
        if given is None:
            os.environ.pop(_HOME, None)


def _print(synced: "Synced") -> None:
    reported = f"{count(len(synced.reported), 'partition')} {'would be reported' if synced.dry_run else 'reported'}"
    others = [
        f"{synced.known:,} known already" if synced.known else "",
        f"{synced.outside:,} outside the config" if synced.outside else "",
        f"{synced.under_way:,} of runs under way" if synced.under_way else "",
    ]
    show = echo if synced.dry_run else info
    show(f"{synced.stream}: {', '.join([reported, *filter(None, others)])}")
    for line in first_lines([f"  {visible_name(key)}" for key in synced.reported], NAMED, "  and {more:,} more"):
        show(line)
