"""The commands `catalog …`: what the owner of a catalog's database does with it."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import click

from lake_assets.cli.common import Options
from lake_assets.cli.terminal import info


@click.group()
def catalog() -> None:
    """Look after the catalog's database."""


@catalog.command()
@click.option("--lake", metavar="NAME", help="Only this lake. Default: all lakes of the config.")
@click.option("--drop", is_flag=True, help="Drop them, as before a migration to another version of DuckLake.")
@click.pass_obj
def optimize(options: Options, lake: str | None, *, drop: bool) -> None:
    """Create indexes that keep a catalog of many files quick.

    In SQLite and PostgreSQL, DuckLake scans the partition values and the bounds of all files of a lake to find those of
    a partition or a condition. The indexes are kept up to date by the database. The command creates what is missing, so
    run it again after a migration. In PostgreSQL the user of the config has to own DuckLake's tables.
    """
    from lake_assets.lake.catalog.database import NotDirectError
    from lake_assets.lake.catalog.indexes import create_indexes, drop_indexes
    from lake_assets.lake.ducklake import DuckLake

    change, done = (drop_indexes, "dropped") if drop else (create_indexes, "created")
    for name in options.lakes(lake):
        with DuckLake(options.config.lakes[name]).open() as session:
            try:
                changed = change(session)
            except NotDirectError as reason:
                info(f"{name}: no index is {done}: {reason}")
                continue
        for index in changed:
            info(f"{name}: {done} {index.name} on {index.table} ({', '.join(index.columns)})")
        if not changed:
            info(f"{name}: has {'none' if drop else 'all'} of the indexes")
