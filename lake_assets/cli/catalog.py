"""The commands `catalog …`: what the owner of a catalog's database does with it."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lake_assets.base.machine import user_name
from lake_assets.base.texts import count, first_lines, size
from lake_assets.cli.common import Options, all_lakes_option, lake_option, stream_argument
from lake_assets.cli.output import Form, collected, echo, form_option, info

if TYPE_CHECKING:
    from lake_assets.config.storages import LocalStorage
    from lake_assets.lake.catalog.backup import RestoredCatalog

SHOWN = 20  # files or folders of each kind


@click.group()
def catalog() -> None:
    """Look after the catalog's database."""


@catalog.command()
@all_lakes_option
@click.option("--drop", is_flag=True, help="Drop them, as before a migration to another version of DuckLake.")
@click.pass_obj
def optimize(options: Options, lake: str | None, *, drop: bool) -> None:
    """Create indexes that keep a catalog of many files quick.

    In SQLite and PostgreSQL, DuckLake scans the partition values and the bounds of all files of a lake to find those of
    a partition or a condition. The indexes are kept up to date by the database. The command creates what is missing, so
    run it again after a migration. In PostgreSQL the user of the config has to own DuckLake's tables.
    """
    from lake_assets.lake.catalog.backup import create_indexes, drop_indexes
    from lake_assets.lake.catalog.catalog_database import NotDirectError
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


folder_option = click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The folder of the backups. Default: _catalog_backups in the lake's storage.",
)


@catalog.command()
@all_lakes_option
@folder_option
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Delete the oldest backups but N.")
@form_option
@click.pass_obj
def backup(options: Options, lake: str | None, folder: Path | None, keep: int | None, form: Form) -> None:
    """Write a backup of the catalog's tables.

    It has all of them as they are in the newest snapshot. It is a file with a checksum in the lake's storage. Run it by
    a schedule, at least as often as maintenance expires snapshots.
    """
    from lake_assets.lake.catalog.backup import make_backup

    with collected(form) as documents:
        for name in options.lakes(lake):
            made = make_backup(options.config.lakes[name], _local(folder), keep)
            documents.append(made)
            if form == "text":
                info(f"{name}: backup {made.name}: snapshot {made.snapshot}, {size(made.bytes)}")


@catalog.command()
@all_lakes_option
@folder_option
@form_option
@click.pass_obj
def backups(options: Options, lake: str | None, folder: Path | None, form: Form) -> None:
    """List the backups of the catalog, the newest first."""
    from lake_assets.lake.catalog.backup import backups as find_backups

    with collected(form) as documents:
        for name in options.lakes(lake):
            listed = find_backups(options.config.lakes[name], _local(folder))
            documents.extend(listed)
            if form == "text":
                lines = [f"{b.name}, snapshot of {b.committed_at:%F %T} UTC, {size(b.bytes)}" for b in listed]
                echo("\n".join(f"{name}: {line}" for line in lines or ["no backup"]))


@catalog.command()
@click.argument("backup", required=False)
@lake_option
@folder_option
@click.option("--replace", is_flag=True, help="Replace a catalog that exists; it is moved aside.")
@form_option
@click.pass_obj
def restore(
    options: Options, backup: str | None, lake: str | None, folder: Path | None, *, replace: bool, form: Form
) -> None:
    """Make the catalog that of a backup.

    Without a name it is the newest one. Snapshots after the backup's are lost. The command names the data files that
    the catalog then does not know, and those that are gone. Partitions whose landed objects the restored ledger does
    not have are ingested again by `lake-assets ingest STREAM --waiting`.
    """
    from lake_assets.base.errors import CatalogError
    from lake_assets.lake.catalog.backup import RestoredCatalog, restore_backup
    from lake_assets.lake.catalog.backup import backups as find_backups
    from lake_assets.streams.load import chosen

    name = chosen("lake", options.config.lakes, lake)
    config, to = options.config.lakes[name], _local(folder)
    known = {listed.name: listed for listed in find_backups(config, to)}
    if not known:
        raise CatalogError(
            f"there is no backup of the catalog of {config.data_path}:", "name the folder of the backups with --to."
        )
    if backup is not None and backup not in known:
        raise CatalogError(f"there is no backup {backup}:", f"the backups are {', '.join(known)}.")
    with collected(form) as documents:
        made = known[backup or next(iter(known))]
        restored = RestoredCatalog(name, made, *restore_backup(config, made, to, replace=replace))
        documents.append(restored)
        if form == "text":
            echo("\n".join(_restored_lines(restored)))


def _restored_lines(restored: "RestoredCatalog") -> list[str]:
    made, root = restored.backup, restored.backup.data_path
    snapshot = f"snapshot {made.snapshot} of {made.committed_at:%F %T} UTC"
    lines = [f"{restored.lake}: the catalog is that of backup {made.name}, {snapshot}"]
    if restored.unknown:
        folders = sorted({uri.removeprefix(root).rpartition("/")[0] for uri in restored.unknown})
        lines += [f"{count(len(restored.unknown), 'data file')} of later commits, or of runs that did not commit, in:"]
        lines += first_lines([f"- {folder}" for folder in folders], SHOWN)
        lines += [
            "Run `lake-assets ingest STREAM --waiting`: it reads what has landed since the backup again.",
            "Then `lake-assets catalog rebuild STREAM` shows the partitions whose landed objects are gone.",
        ]
    if restored.gone:
        lines += [f"{count(len(restored.gone), 'data file')} of it that the storage does not have any more:"]
        lines += first_lines([f"- {uri.removeprefix(root)}" for uri in restored.gone], SHOWN)
        lines += ["Run `lake-assets ingest STREAM --partition … --force` for these partitions."]
    if not restored.unknown and not restored.gone:
        lines += ["The storage has its data files, and no newer ones."]
    return lines


@catalog.command()
@stream_argument
@click.option("--adopt", is_flag=True, help="Make the files the rows of partitions that have no landed objects.")
@form_option
@click.pass_context
def rebuild(ctx: click.Context, stream: str | None, *, adopt: bool, form: Form) -> None:
    """Show the partitions whose data files the catalog lacks.

    Run it after `catalog restore`. A partition that has landed objects is to be ingested again. Of one that has none,
    only the files are left, and --adopt makes those of the newest job its rows. Nothing says whether that job had
    committed, or wrote more files: compare the rows.
    """
    from lake_assets.ingest.outcome import IngestOptions
    from lake_assets.upkeep.maintenance.rebuild import rebuild as rebuild_stream

    options: Options = ctx.obj
    opened = options.stream(stream)
    failed, to_ingest = False, list[str]()
    with collected(form) as documents:
        for lost in rebuild_stream(opened, IngestOptions(requested_by=user_name()), adopt=adopt):
            documents.append(lost)
            failed |= adopt and lost.action == "adopt" and lost.error is not None
            if lost.action == "ingest":
                to_ingest.append(f"--partition {lost.partition.option}")
            if form == "text":
                described = f"{count(len(lost.files), 'file')} until {lost.written_at:%F %T} UTC, {size(lost.bytes)}"
                end = "it has landed objects" if lost.action == "ingest" else "it has no landed objects"
                if lost.snapshot is not None:
                    end = f"adopted: {count(lost.rows or 0, 'row')} in snapshot {lost.snapshot}"
                if lost.action == "adopt":
                    end = lost.error or end
                echo(f"{lost.partition}: {described}; {end}")
        if form == "text":
            if to_ingest:
                echo(f"Read the landed objects again: lake-assets ingest {opened.name} {' '.join(to_ingest)}")
            if not documents:
                echo(f"{opened.name}: the catalog has all files that are newer than its rows")
    if failed:
        ctx.exit(1)


def _local(folder: Path | None) -> "LocalStorage | None":
    from lake_assets.config.storages import LocalStorage

    return None if folder is None else LocalStorage(path=str(folder.absolute()))
