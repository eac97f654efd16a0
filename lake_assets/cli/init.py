"""The command `init`: writes a starter project that runs as it is."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import shlex
from pathlib import Path

import click

from lake_assets.cli.terminal import echo, style


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
def init(folder: Path) -> None:
    """Write a starter project: a commented config, Dagster's files, a README, and some landed data.

    FOLDER must be new or empty; the default is the current folder. No file is overwritten.
    """
    from lake_assets.templates.starter.folder import start

    for path in start(folder):
        echo(f"{style('wrote', fg='green')}  {folder / path}")
    enter = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))}\n  "
    echo(f"Next, read README.md or run:\n  {enter}lake-assets doctor")
    echo("  lake-assets ingest sales --partition region=NW,date=2026-02-11")
