"""The commands that write a folder: `init` a project, `demo` the demo."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import datetime as dt
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lake_assets.base.events import counting
from lake_assets.cli.output import echo, info, style

if TYPE_CHECKING:
    from lake_assets.wings.importers.olake import OlakeStream
    from lake_assets.wings.importers.proposals import Proposal


@click.group(name="import")
def import_() -> None:
    """Convert configs of other systems."""


@import_.command()
@click.argument("catalog", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--source", default="landing", show_default=True, help="Where OLake writes: a folder or s3://bucket/prefix."
)
@click.option("--lake", default="lake", show_default=True, help="Folder of the new lake.")
@click.option(
    "--start",
    type=click.DateTime(["%Y-%m-%d"]),
    default="2020-01-01",
    show_default="2020-01-01",
    help="First date of the partitions. Files of earlier dates are outside the config.",
)
@click.option(
    "--stream",
    "names",
    multiple=True,
    metavar="NAMESPACE.NAME",
    help="Import only this stream; repeatable. Default: all selected streams.",
)
def olake(catalog: Path, source: str, lake: str, start: dt.datetime, names: tuple[str, ...]) -> None:
    """Print a lake.yaml for the selected streams of OLake.

    CATALOG is its catalog.json or streams.json. If a stream cannot be imported, nothing is printed.
    """
    from lake_assets.base.errors import ConfigError, LakeAssetsError
    from lake_assets.wings.importers.olake import read_catalog, stream_config

    streams = _select(read_catalog(catalog.read_text(encoding="utf-8")), names, catalog)
    configs, refused = [], []
    for stream in streams:
        try:
            configs.append(stream_config(stream, source, start.date()))
        except LakeAssetsError as error:
            refused.append(str(error))
    if refused:
        raise ConfigError(
            "\n".join(refused), "Correct the catalog, or name the streams to import with --stream NAMESPACE.NAME."
        )
    echo("\n".join(_lines(catalog.name, streams, configs, lake)))


def _select(streams: Sequence["OlakeStream"], names: Iterable[str], catalog: Path) -> Sequence["OlakeStream"]:
    from lake_assets.base.errors import ConfigError
    from lake_assets.base.texts import meant

    known = {str(stream): stream for stream in streams}
    if not streams:
        raise ConfigError(f"{catalog} selects no stream:", "add one to selected_streams.")
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"{catalog} selects no stream {unknown[0]!r}:", meant(unknown[0], known))
    return [known[name] for name in names] or streams


def _lines(
    name: str, streams: Sequence["OlakeStream"], configs: Sequence[dict[str, object]], lake: str
) -> Iterator[str]:
    from lake_assets.config.layout.hive import HIVE_NULL
    from lake_assets.wings.importers.olake import null_times

    lakes = {"main": {"catalog": {"type": "sqlite", "path": f"{lake}/catalog.sqlite"}, "storage": f"{lake}/data"}}
    yield f"# Made from OLake's {name}. `start` is the first date of a partition: correct it if earlier files exist."
    yield _yaml({"lakes": lakes})
    yield "streams:"
    taken: set[str] = set()
    for stream, config in zip(streams, configs, strict=True):
        if stream.sync_mode not in {None, "full_refresh"}:
            yield f"  # sync_mode {stream.sync_mode}: OLake appends files; a refresh replaces the whole partition."
        elif stream.template is None:
            yield "  # OLake does not partition this stream: each refresh reads all of its files."
        for column, source in null_times(stream, config):
            null = f"{column}={HIVE_NULL}"
            yield f"  # Rows whose {source} is NULL are in {null}, outside the config: ingest it with --outside."
        yield _indented(_yaml({_free(stream, taken): config}))


def _free(stream: "OlakeStream", taken: set[str]) -> str:
    """Return the stream's name in the config: its own, or, if that is taken, with its namespace before it."""
    from lake_assets.wings.importers.olake import as_identifier

    name = as_identifier(stream.name)
    name = as_identifier(f"{stream.namespace}_{stream.name}") if name in taken else name
    first, number = name, 2
    while name in taken:
        name, number = f"{first}_{number}", number + 1
    taken.add(name)
    return name


def _yaml(value: object) -> str:
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120).rstrip("\n")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--from", "place", metavar="URI", help="Propose a config for this landing zone, and land no data.")
@click.option(
    "--start",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="The first date of the project. Default: the day before yesterday; with --from the first that has landed.",
)
def init(folder: Path, place: str | None, start: dt.datetime | None) -> None:
    """Write a starter project that runs as it is.

    It has a commented config, Dagster's files, a README, and some landed data. FOLDER must be new or empty; the
    default is the current folder. No file is overwritten.

    With --from, look at a landing zone (a path, or a URI such as s3://bucket/prefix) and propose a config.
    """
    day = None if start is None else start.date()
    if place is not None:
        _propose(folder, place, day)
        return
    from lake_assets.wings.templates.starter.project import first_day
    from lake_assets.wings.templates.starter.project import start as write

    day = day or first_day()
    _show_written(folder, write(folder, day))
    enter = _enter(folder)
    info(f"Next, read README.md or run:\n  {enter}lake-assets doctor")
    info(f"  lake-assets ingest sales --partition region=NW,date={day}\n  lake-assets dev")


def _propose(folder: Path, place: str, day: dt.date | None) -> None:
    from pydantic import ValidationError

    from lake_assets.base.errors import AbsentStorageError
    from lake_assets.config.messages import sentence
    from lake_assets.config.storages import storage_at
    from lake_assets.wings.importers.proposals import config_text, propose, seen_text
    from lake_assets.wings.importers.sampler import Sampler
    from lake_assets.wings.templates.starter.project import refuse_content, start_with

    refuse_content(folder)
    if not place.strip():
        raise click.UsageError("--from is empty: name a folder, or a URI such as s3://bucket/prefix.")
    if place.partition("://")[0] in {"http", "https"}:
        raise click.UsageError("--from names a web server, which cannot be listed: write lake.yaml by hand.")
    try:
        storage = storage_at(place, os.environ, Path.cwd())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = first["loc"][-1] if first["type"] == "string_pattern_mismatch" else ""  # others name what is wrong
        problem = f"its {field} {sentence(first)}" if field else sentence(first)
        raise click.UsageError(f"--from {place!r} names no landing zone: {problem}.") from error
    try:
        with counting("look", "objects") as count:
            sampler = Sampler(storage, count.advance)
            proposals = propose(sampler, day)
    except AbsentStorageError as error:
        # Its hint is about a config, and there is none yet.
        raise click.UsageError(f"--from {place!r}: {error.problem} correct it, or create it and land files.") from error
    if not sampler.seen:
        raise click.UsageError(
            f"--from {place!r}: there are no objects in {sampler.storage.root}: correct it, or land files first."
        )
    info(f"{style('looked', fg='green')}  {seen_text(sampler)}")
    for proposal in proposals:
        _show(proposal, sampler.storage.root)
    streams = [proposal for proposal in proposals if proposal.config]
    if not streams:
        raise click.ClickException(
            f"no stream was found in {sampler.storage.root}: name a folder with *.parquet objects in folders of their "
            "partitions, or write lake.yaml yourself. Nothing was written."
        )
    example = next((stream for stream in streams if stream.example), streams[0])
    _show_written(folder, start_with(folder, config_text(sampler, proposals), example.name))
    info(f"Next, read README.md and lake.yaml, or run:\n  {_enter(folder)}lake-assets doctor")
    if example.example:
        info(f"  lake-assets ingest {example.name} --partition {shlex.quote(example.example)}")
    info("  lake-assets dev")


def _show(proposal: "Proposal", root: str) -> None:
    """Show a proposed stream, with its columns if they are inferred from a text, and what is not certain."""
    from pyarrow.types import is_null

    from lake_assets.base.texts import visible
    from lake_assets.schema.ducklake_types import sql_type

    place = "/".join(part for part in (root.rstrip("/"), proposal.folder) if part)
    if proposal.config:
        fields = proposal.config["partitions"].items()
        partitions = ", ".join(f"{name} ({field.get('type', 'string')})" for name, field in fields)
        how = f"partitioned by {partitions}" if partitions else "without partitions"
        info(f"{style('stream', fg='green')}  {proposal.name}: {visible(place)}, {how}")
        if proposal.schema is not None and not proposal.form.has_types:
            kinds = ((f.name, "of no type" if is_null(f.type) else sql_type(f.type, f.name)) for f in proposal.schema)
            info(f"  columns: {visible(', '.join(f'{name} {kind}' for name, kind in kinds))}, by one object")
    else:
        info(f"{style('none', fg='yellow')}    {visible(place)}")
    for note in proposal.notes:
        info(f"  unsure: {visible(note)}.")


def _show_written(folder: Path, paths: Sequence[Path]) -> None:
    for path in paths:
        info(f"{style('wrote', fg='green')}  {folder / path}")


def _enter(folder: Path) -> str:
    return "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))}\n  "


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
    from lake_assets.wings.templates.demo.demo_run import run

    run(folder)
