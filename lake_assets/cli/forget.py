"""The command `forget`: removes partitions that hold nothing from the ledger."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import click

from lake_assets.cli.common import (
    Options,
    dry_run_option,
    partition_option,
    partitions_of,
    stream_argument,
)
from lake_assets.cli.output import Form, form_option, json_option, write_documents
from lake_assets.cli.terminal import echo, info
from lake_assets.layout.texts import count


@click.command()
@stream_argument
@partition_option("Such as region=XX,date=2026-02-11; repeatable.", required=True)
@dry_run_option
@form_option
@json_option
@click.pass_obj
def forget(options: Options, stream: str | None, texts: tuple[str, ...], *, dry_run: bool, form: Form) -> None:
    """Delete the ledger rows of partitions that hold nothing.

    Such a partition is, for example, a misspelt one. If one of the partitions has rows in the lake or landed
    objects, nothing is deleted.
    """
    from lake_assets.ingest.forget import forget as forget_partitions

    opened = options.stream(stream)
    forgotten = forget_partitions(opened, partitions_of(opened.config, texts), dry_run=dry_run)
    if form == "json":
        write_documents(forgotten)
        return
    would = "would be " if dry_run else ""
    for entry in forgotten:
        (echo if dry_run else info)(f"{would}forgotten  {entry.partition}  {count(entry.ledger_rows, 'ledger row')}")
