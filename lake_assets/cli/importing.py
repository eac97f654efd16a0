"""The command `import olake`: converts an OLake catalog to a config."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lake_assets.cli.terminal import echo

if TYPE_CHECKING:
    from lake_assets.importers.olake import OlakeStream


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
    from lake_assets.errors import ConfigError, LakeAssetsError
    from lake_assets.importers.olake import read_catalog, stream_config

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
    from lake_assets.errors import ConfigError
    from lake_assets.layout.texts import meant

    known = {str(stream): stream for stream in streams}
    if not streams:
        raise ConfigError(f"{catalog} selects no stream:", "add one to selected_streams.")
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"{catalog} selects no stream {unknown[0]!r}:", meant(unknown[0], known))
    return [known[name] for name in names] or streams


def _lines(
    name: str, streams: Sequence["OlakeStream"], configs: Sequence[dict[str, object]], lake: str
) -> Iterator[str]:
    from lake_assets.importers.olake import null_times
    from lake_assets.layout.hive import HIVE_NULL

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
    from lake_assets.importers.olake import identifier

    name = identifier(stream.name)
    name = identifier(f"{stream.namespace}_{stream.name}") if name in taken else name
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
