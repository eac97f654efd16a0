"""The command `demo`: the main job for real, on real flights, told step by step."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from pathlib import Path

import click


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Where landing zone and lake are made; a folder of an earlier demo is made anew.",
)
def demo(folder: Path) -> None:
    """Run the main job for real, on flights of 2013.

    Real flights land as Parquet, Spark ingests some partitions into a new lake, one of them changes and is ingested
    again, and the lake and its ledger are read. Takes less than a minute, and needs no server and no network.
    """
    from lake_assets.cli.demo_run import run

    run(folder)
