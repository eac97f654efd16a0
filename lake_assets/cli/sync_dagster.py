"""The command `sync-dagster`: commits of the command line become materializations in Dagster."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from typing import TYPE_CHECKING

import click

from lake_assets.cli.common import Options, stream_argument
from lake_assets.cli.output import Form, collected, form_option
from lake_assets.cli.terminal import echo, info
from lake_assets.errors import ConfigError
from lake_assets.escapes import visible_name
from lake_assets.layout.texts import count, first_lines
from lake_assets.progress import counted

if TYPE_CHECKING:
    import dagster as dg

    from lake_assets.orchestration.sensors.sync import Synced

NAMED = 10  # partitions


@click.command("sync-dagster")
@stream_argument
@click.option("--dry-run", is_flag=True, help="Name the partitions, and report nothing.")
@form_option
@click.pass_obj
def sync_dagster(options: Options, stream: str | None, *, dry_run: bool, form: Form) -> None:
    """Show in Dagster what other processes have committed.

    Each partition whose newest commit Dagster lacks gets a materialization, with the figures of the ledger. Run it as
    often as you like: nothing is reported twice. $DAGSTER_HOME is the folder of Dagster's dagster.yaml. In Dagster, the
    sensor <lake>_sync does the same every minute.
    """
    from lake_assets.orchestration.sensors.sync import sync_stream
    from lake_assets.orchestration.translator import specs_of
    from lake_assets.streams.stream import open_streams

    config = options.config
    streams = list(open_streams(config).values()) if stream is None else [options.stream(stream)]
    with collected(form) as documents, _instance() as instance:
        for opened in counted(streams, "sync-dagster", "streams", len(streams)):
            synced = sync_stream(opened, specs_of(opened).table.key, instance, dry_run=dry_run)
            documents.append(synced)
            if form == "text":
                _print(synced)


def _instance() -> "dg.DagsterInstance":
    """Open Dagster's instance.

    Raises:
        ConfigError: there is no $DAGSTER_HOME, or its dagster.yaml is not valid.
    """
    import dagster as dg

    try:
        return dg.DagsterInstance.get()
    except dg.DagsterError as error:
        raise ConfigError(
            f"Dagster's instance cannot be opened: {' '.join(str(error).split())}",
            "Set DAGSTER_HOME to the absolute path of the folder with the dagster.yaml of your deployment.",
        ) from error


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
