"""The command `forget`: a partition that never was one leaves the ledger."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import json

import click

from lake_assets.cli.common import Options, partition_of, partition_option, stream_named
from lake_assets.cli.output import write_json
from lake_assets.cli.words import count


@click.command()
@click.argument("stream", required=False)
@partition_option("Such as region=XX,date=2026-02-11; may be given several times.", required=True)
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def forget(options: Options, stream: str | None, texts: tuple[str, ...], *, dry_run: bool, as_json: bool) -> None:
    """Delete the ledger rows of partitions that hold nothing, such as a typo's.

    A partition with rows in the lake or with landed objects is refused; then nothing is deleted.
    """
    from lake_assets.ingest.forget import forget as forget_partitions

    opened = stream_named(options.load(), stream)
    partitions = [partition_of(opened.config, text) for text in dict.fromkeys(texts)]
    found = forget_partitions(opened, partitions, dry_run=dry_run)
    if as_json:
        rows = ({"partition": str(one.partition), "ledger_rows": one.ledger_rows} for one in found)
        write_json(json.dumps(row) for row in rows)
        return
    for one in found:
        would = "would be " if dry_run else ""
        click.echo(f"{would}forgotten  {one.partition}  {count(one.ledger_rows, 'ledger row')}")
