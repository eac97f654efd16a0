"""The command `demo`: lands, ingests and queries real flights, step by step."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from pathlib import Path

import click


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder of the landing zone and the lake; the demo replaces its own earlier files there.",
)
def demo(folder: Path) -> None:
    """Land, ingest and query the real flights of 2013.

    Flights land as Parquet, and Spark ingests some partitions into a new lake. One partition changes and is ingested
    again. Then the lake and its ledger are queried. Takes less than a minute; needs no server and no network.
    """
    from lake_assets.templates.demo.run import run

    run(folder)
